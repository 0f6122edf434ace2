// Package producer is what one partition knows about its producers: the last batches of each (idempotence), their epochs
// (fencing), their open transactions and hence the first offset whose fate is undecided. It is pure: no files, no
// clock, no locks. The owner (package partition) serializes calls, stores the snapshots and appends to the log.
//
//	            Check / CheckMarker (leader only, before the log append; changes nothing)
//	batch  ->   log append
//	            Append / AppendMarker (always, after it; cannot fail)
//
// A producer's entry:
//
//	epoch            last seen; a lower one from a client or a coordinator is INVALID_PRODUCER_EPOCH
//	coordinatorEpoch of the last marker; a lower one is TRANSACTION_COORDINATOR_FENCED
//	window           the last 5 batches of the epoch {last sequence, last offset, offset delta, timestamp}
//	txnFirst         first offset of the open transaction, -1 without one
//	lastTimestamp    of the last batch or marker; expiry counts from it
//
// Transactions:
//
//	first transactional batch       marker                         high watermark passes the marker
//	-------------------------> open -------> decided, unreplicated ----------------------------> gone
//
// The first unstable offset is the lowest first offset of the open and the unreplicated ones: a marker that may still be
// truncated away must not expose what it decides.
//
// Rules that the code cites (Kafka's, checked against the byte code of 4.4.0, except P5):
//
//	P1  The exact sequence range of one of the last 5 batches of the same epoch is a duplicate: answered, not appended.
//	P2  Otherwise a batch continues the last sequence, 0 following 2147483647. A new epoch begins at 0. A producer that
//	    the partition does not know may begin anywhere (its records may be gone by retention), except when a
//	    transaction of version 2 is being verified for it: then at 0.
//	P3  Coordinator appends (offset commits) carry no sequence; their epoch alone is checked.
//	P4  What a leader has accepted a follower takes without a question: Append has no error.
//	P5  A batch without the transactional bit inside an open transaction is an error from a client, but not in
//	    replication and recovery: the leader's cleaner has cleared the bit of a decided transaction whose marker is
//	    still to come. The transaction stays open until that marker.
//	P6  A marker of transaction version 2 carries a higher epoch than its transaction. The same epoch is accepted when
//	    nothing is open, as the repetition of a marker whose answer was lost, or when epochs are exhausted.
//	P7  A transactional batch that opens a transaction needs the guard of a verification that began after the last
//	    marker (KIP-890), so that a late request cannot open a transaction that nobody will end.
//	P8  A producer with an open transaction never expires.
//
// A State without producers costs 16 bytes.
package producer
