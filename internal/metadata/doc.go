// Package metadata holds the cluster image: everything the controller has decided and every broker must know. It is a
// value, not a service. It does no I/O, has no clock and no goroutine; internal/quorum replicates the records, and
// internal/controller decides which ones to write.
//
//	[]Record --Apply--> Image(n+1) + Delta          Image.Records --> the snapshot, again as records
//	    ^                  |
//	    |                  +--> brokers: what changed, old and new value of every topic touched
//	 AppendBatch / DecodeBatch (bytes in the metadata log; drawn in docs/formats/metadata-records.md)
//
// An Image is immutable and shared by everybody. Applying a batch copies what it touches: one path of the topic trees,
// the topic's list of partition pointers and the changed partitions; everything else is shared with the older image.
//
// Invariants (tests cite them):
//
//	M1  An image that was handed out never changes; slices and maps reached through it must not be written to.
//	M2  The partitions of a topic are numbered 0..n-1 without holes.
//	M3  Replicas, Directories and Incarnations of a partition have the same length, and replicas are distinct.
//	M4  A partition's epoch grows by one with every change; its leader epoch grows by one with every change that names a
//	    leader and never otherwise.
//	M5  Replica incarnations and broker epochs come from counters of the image that never go back, not even when the
//	    topic or broker that used a number is gone.
//	M6  Apply either takes the whole batch or returns an error and no image. A batch that does not fit the image means
//	    that log and image belong to different histories: it is never skipped.
//	M7  Applying Image.Records to an empty image gives an equal image.
//	M8  A record of a type or version that this binary does not know is an error that names both, never ignored.
package metadata
