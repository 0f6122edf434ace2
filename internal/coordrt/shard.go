package coordrt

import "time"

// Shard is the state of one partition. The runtime calls its methods from one goroutine at a time (C1).
type Shard interface {
	// Replay applies one record of the log. The record's slices hold only during the call. An error says that the log
	// cannot be understood; the partition is then unavailable until a later attempt to load it succeeds.
	Replay(at Position, r Record) error
	// ReplayMarker ends the transaction of at.ProducerID.
	ReplayMarker(at Position, commit bool)
	// Loaded is called once, after the last record of the log was replayed and before the first operation.
	Loaded(now time.Time) Result
	// Unloaded is called once when this broker stops leading the partition, also while it loads. Whoever waits for an
	// answer of this shard is told NOT_COORDINATOR here. The shard is not used any more afterwards.
	Unloaded()
}

// Record is a key and a value in the log. A nil value deletes the key.
type Record struct {
	Key, Value []byte
}

// Position says where a record stands in the log and who wrote it.
type Position struct {
	Offset int64
	// Transactional is set for records whose fate a later marker of ProducerID decides. Records of a decided transaction
	// lose it when the log is cleaned, and then count at once.
	Transactional bool
	ProducerID    int64
	ProducerEpoch int16
}

// Producer is the identity under which the records of a transaction are appended.
type Producer struct {
	ID    int64
	Epoch int16
}

// Result is what an operation wants done.
type Result struct {
	// Records are appended and then replayed. They go into one batch, all or none, unless Split is set.
	Records []Record
	// Split allows Records to be spread over several batches when they do not fit into one.
	Split bool
	// Applied says that the operation has brought the state to what Records say, so that they are not replayed.
	Applied bool
	// Soft says, of a Result without records, that the answer tells nothing of replicated state, so that it need not wait
	// for what was appended before.
	Soft bool
	// Transaction, when set, makes the records part of this producer's transaction.
	Transaction *Producer
	// Then runs on the shard before the operation is answered: with nil when the records are committed, with the error
	// when they were not appended, or not committed in time or at all. In the last two cases they may be committed later,
	// and they have been replayed. After the loss of the partition it does not run: Unloaded does.
	Then func(now time.Time, err error) Result
}
