// Package record reads, checks, builds and rewrites Kafka record batches of format version 2, the only one that Kafka 4
// accepts. Batches are byte slices from end to end: what a producer sent is what lies in the log and what a consumer gets.
//
//	offset  bytes  field
//	     0      8  base offset            assigned by the log, outside the CRC
//	     8      4  length                 of what follows this field
//	    12      4  partition leader epoch assigned by the leader, outside the CRC
//	    16      1  magic                  2
//	    17      4  CRC-32C                of everything from byte 21 on
//	    21      2  attributes             0-2 codec, 3 log append time, 4 transactional, 5 control, 6 delete horizon
//	    23      4  last offset delta      last offset - base offset; survives compaction
//	    27      8  base timestamp         or the delete horizon when attribute 6 is set
//	    35      8  max timestamp
//	    43      8  producer id            -1: none
//	    51      2  producer epoch
//	    53      4  base sequence
//	    57      4  record count
//	    61      .  records                one compressed block, or plain
//
// A Batch is a view: it was checked to be whole (ParseBatch, Split) and its accessors cannot fail. Setters write through to
// the underlying bytes, so the owner of the bytes must be the only user while they run.
//
// Invariants:
//
//	R1  An accessor of a Batch never reads outside it, whatever the bytes say.
//	R2  Walking the records of a batch never allocates per record and never reads past the batch, even if it lies about
//	    its count, its lengths or its compressed size.
//	R3  Decompression never yields more than the given limit.
//	R4  A rewritten batch keeps base offset, last offset delta, producer id, epoch, base sequence, leader epoch and codec.
package record
