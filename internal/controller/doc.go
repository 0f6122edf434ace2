// Package controller decides about the cluster: which topics and partitions there are, who leads them, who is in the ISR,
// which brokers live, what is configured. It does not store or replicate anything (internal/quorum does), hosts no
// partitions (internal/broker does), and knows neither connections nor access control (internal/server does).
//
//	Handle(request) --> queue --> loop, on the active node only
//	                                |
//	                                v  pure, one file per request kind
//	             image + request + now + random numbers --> records + answer
//	                                |                          |        |
//	   image with them applied <----+------------- Submit <----+        |
//	   (ahead of what is committed)                  |                  v
//	                                              committed --> the answer goes out
//
// The loop decides on its own image, which has every batch applied that it has submitted, committed or not, so many
// requests share one write to the log. An answer waits for the batches it rests on, also one that only reports what it
// saw. When a batch is lost with the leadership, everything decided after it is lost with it, see quorum.Turn.
//
// To add a request: a file NN_name.go with a function of a *view and the request, and a line in decide. To add a kind of
// record: internal/metadata.
//
// Invariants (tests cite them):
//
//	C1  A decision is a pure function of the view. It has no clock, no global random numbers, and it never ranges over a
//	    map into its output.
//	C2  The leader of a partition is in its ISR, and every member of an ISR is registered, not fenced and not shutting
//	    down, unless it was the last one and the partition could not lose it.
//	C3  A replica that is added gets an incarnation number that no replica of the cluster had before.
//	C4  Nothing is answered before it is committed.
//	C5  A broker is fenced only by its own wish, by a new registration, or when it was silent for a whole session while
//	    this loop was running. The broker in this process is never fenced for silence: it shares our fate.
//	C6  Every request costs at most maxPartitionsPerRequest new partitions.
package controller
