// Package checkpoint reads and writes the small text files that Kafka keeps beside its logs: one offset per partition of a
// log directory (recovery points, log starts, high watermarks, cleaned-below), and the topic id in a partition's folder.
// It knows the formats (docs/formats/checkpoints.md), not what the numbers mean.
//
//	replication-offset-checkpoint        partition.metadata
//	  0              version               version: 0
//	  2              how many              topic_id: vYr2U1rLQIeIwcVJ4Q1oDA
//	  orders 0 17    topic partition offset
//	  orders 1 4
//
// Files are replaced atomically and durably (vfs.WriteFileAtomic): a reader finds the old or the new content. A file that
// is neither was damaged by something else; the error says which line of which file, is an ErrDamaged, and leaves it to
// the owner whether the number can be found again (a recovery point can) or not.
package checkpoint
