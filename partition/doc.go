// Package partition is one replica of one partition: its log, what is known of its producers and leader epochs, and the
// offsets that bound what may be read. It appends as a leader or as a follower, reads, truncates and retains. It does not
// know who else has replicas (replication/isr does), does not wait, and owns no goroutine.
//
//	log start <= last stable offset <= high watermark <= log end
//	    |              |                    |               |
//	    +-- readable --+-- read_uncommitted +-- followers --+
//
// Files of the folder, beside those of the segments (package partition/segment):
//
//	leader-epoch-checkpoint     where each leader epoch begins
//	partition.metadata          the topic's id
//	OFFSET.snapshot             the producers as they were at OFFSET: at each segment's base and at a clean stop
//
// Invariants:
//
//	P1  Offsets and bounds that a reader sees belong together: they are published as one value.
//	P2  What is published as the end of the log was written completely before.
//	P3  After a failed write nothing of it is in the log. If that cannot be ensured the partition goes offline.
//	P4  An offline partition answers every call with KAFKA_STORAGE_ERROR and the cause, and touches nothing.
//	P5  The recovery point never passes what was synced: log, indexes, snapshot.
//	P6  After an unclean stop, what cannot be read above the recovery point is a torn end and is cut; damage with good
//	    batches behind it, or below the recovery point, is corruption: Open fails and nothing is cut.
//	P7  The epochs of all records below the recovery point are in their file. Those above are in the records, from which
//	    a scan learns them; an epoch without records need not survive.
package partition
