// Package segment is one segment of a partition's log: a file of record batches and its indexes, in Kafka's layout. It
// knows where a batch with an offset lies and which record first reached a time; it does not know what the batches mean,
// which segment comes next, or how far readers may see.
//
//	00000000000000000042.log        batches, from base offset 42 on
//	00000000000000000042.index      8 bytes an entry: offset - 42 (u32), position (i32)
//	00000000000000000042.timeindex  12 bytes an entry: largest time so far (i64), offset of its record's batch - 42 (u32)
//	00000000000000000042.txnindex   34 bytes an entry: version 0 (i16), producer id, first offset, last offset, last stable offset
//
// An index entry names the *last* offset of the batch at the position. A new one is due after every index interval of log
// bytes. The newest segment keeps its entries in memory and writes them when it is sealed or closed; sealed segments read
// theirs from the file, so that an idle partition holds neither memory nor an open file.
//
// Invariants:
//
//	S1  The log file is the truth. An index that is missing, torn or at odds with it is rebuilt by a scan; it never
//	    decides what exists.
//	S2  Bytes below Size do not change while the segment exists, so readers need no lock.
//	S3  A file in use by a reader stays readable whatever happens to its segment: files are closed by the last user.
//	S4  The number of open files is bounded by the Cache, save for those in use.
package segment
