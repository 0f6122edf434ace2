// Package memnet is a network in memory, for tests: listeners, dialers and connections that look like TCP to their users,
// between named hosts, with delays, cuts, resets and crashes on demand. It is for tests only.
//
//	n := memnet.New()
//	l, _ := n.Host("broker1").Listen("tcp", "broker1:9092")
//	client, _ := kgo.NewClient(kgo.SeedBrokers("broker1:9092"), kgo.Dialer(n.Host("client").Dial))
//	n.Cut("broker1", "client")       // what broker1 sends no longer arrives; the other direction works
//
// It owns no goroutine, and who waits waits on channels and timers: inside a testing/synctest bubble (make the Network
// inside too) time stands still until everybody waits, then jumps to the next arrival or deadline.
//
// How it differs from a wire, and how it does not:
//
//   - A connection carries bytes in order and bounded (SetBuffer): a writer whose peer does not read waits.
//   - What is sent over a cut path is kept and arrives once the path is healed, as TCP's repetitions would have it. What
//     has arrived before the cut can still be read. Dialling over a cut path waits until its context ends.
//   - Close and CloseWrite send an end of stream behind the data. Writing to a closed peer is EPIPE.
//   - Crash takes a host away without a word: its peers keep half-open connections, on which reads wait for ever and a
//     write is answered with a reset, when the paths are open.
package memnet
