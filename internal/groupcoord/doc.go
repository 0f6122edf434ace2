// Package groupcoord coordinates consumer groups of the classic protocol and keeps the offsets that groups commit. Its
// state lives in the partitions of __consumer_offsets in Kafka's record schema (docs/formats/group-records.md) and is run
// by internal/coordrt: an operation returns records and an answer, the answer leaves once the records are committed, and
// a new leader of the partition rebuilds the state by replaying them.
//
// It is not a handler: it neither authorizes nor decodes frames. It does not know the consumer protocol beyond the topic
// names in a subscription, which it needs for expiry only, and it does not assign partitions: the leader of a group does.
//
//	Coordinator   kmsg requests in and out; finds the partition, resolves topic ids, waits        (api_*.go)
//	    |
//	coordrt       one operation at a time per partition; append, replay, commit, timers
//	    |
//	Shard         pure: state, request, now -> records, answers, timers                           (the other files)
//
// A group's life:
//
//	         first join                        all joined, or time is up
//	Empty --------------> PreparingRebalance ---------------------------> CompletingRebalance
//	  ^                     ^   |       ^  join, leave, expiry, no sync          |
//	  |   nobody is left    |   |       +----------------------------------------+
//	  +---------------------|---+                                                | leader's assignment is committed
//	                        |     join, leave, expiry                            v
//	                        +------------------------------------------------- Stable
//
// A group without a protocol type is a simple one: somebody commits offsets under its name without joining.
//
// Invariants (tests cite them):
//
//	G1  Offsets and pending transactional offsets change in Replay and ReplayMarker only, so what a reader sees is what a
//	    reload of the log would give.
//	G2  Every Join and Sync is answered exactly once: by the rebalance, by the removal or replacement of its member, or by
//	    the loss of the partition.
//	G3  An assignment is handed out only after it is committed in the log.
//	G4  A transactional offset is visible only after the COMMIT marker of its producer, and never replaces an offset
//	    committed at a higher position of the log.
//	G5  The group's members in the order of joining, never a map, decide everything that is visible: the next leader, the
//	    order of answers and of records. One history gives one log.
//	G6  A record of a type that this package does not know is skipped, not lost: it stays in the log. A version that it does
//	    not know of a type that it does is an error: state without that record would be wrong.
package groupcoord
