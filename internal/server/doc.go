// Package server speaks Kafka's wire protocol on sockets: it accepts connections within limits, cuts the stream into
// frames, decodes requests, hands them to internal/server/api and sends the answers in the order of the requests. It does
// not know what a request means, with one exception: an API may say that the next request can be looked at before it is
// answered (Produce).
//
//	socket --> reader: frame, header, guard, decode, Service.Serve --+--> answer at once: sent by the reader itself
//	              ^         |                                        |
//	              |         +--> queue of pending requests <--reply--+--> later, from any goroutine
//	          room, turn         |
//	              ^              v  head is answered
//	              +---------- send: encode, coalesce, sendfile --> socket        (writer goroutine, or the reader)
//
// Each connection has two goroutines. The reader reads, decodes and calls the handlers one after the other. The writer
// sleeps until an answer at the head of the queue came from elsewhere. Whoever sends holds the queue's write token, so
// that an answer that is there when its handler returns costs no switch of goroutines.
//
// Bounds of a connection: pendingRequests and pendingBytes of requests that are not answered yet, one frame read ahead,
// one answer that does not come from Produce. Frames of other APIs than Produce are at most plainFrameBytes.
//
// Invariants (tests cite them):
//
//	S1  Answers leave in the order of the requests, each whole or the connection is closed.
//	S2  A request other than Produce is handled only after every earlier one that is not a Produce was sent.
//	S3  Nothing a peer sends makes the process panic or allocate more than the frame's size in proportion, and memory for
//	    a frame is taken only as its bytes arrive.
//	S4  A Produce frame is reused only after its request was answered; frames of other requests are never reused.
//	S5  Record slices of Fetch answers are released exactly once, whatever happens to the connection.
//	S6  Shutdown returns only after every goroutine of the package has ended.
package server
