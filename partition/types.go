package partition

import (
	"time"

	"github.com/kbroker/kbroker/config"
	"github.com/kbroker/kbroker/internal/model"
	"github.com/kbroker/kbroker/internal/vfs"
	"github.com/kbroker/kbroker/partition/producer"
	"github.com/kbroker/kbroker/partition/segment"
	"github.com/kbroker/kbroker/protocol/record"
)

// Options says what to open.
type Options struct {
	FS      vfs.FS
	Dir     string // the partition's folder; it exists
	TP      model.TopicPartition
	TopicID model.UUID
	Config  *config.Topic
	Files   *segment.Cache
	// RecoveryPoint, LogStartOffset and HighWatermark are what the checkpoints of the log directory say; they are clamped
	// to what the log holds.
	RecoveryPoint, LogStartOffset, HighWatermark int64
	// CleanShutdown says that the log was closed cleanly, so that it need not be scanned.
	CleanShutdown bool
	// ProducerIDExpiration is how long a silent producer is remembered.
	ProducerIDExpiration time.Duration
}

// Origin says who appends.
type Origin = producer.Origin

// The origins of appends as a leader.
const (
	Client      = producer.Client
	Coordinator = producer.Coordinator
)

// AppendOptions says how to treat what is appended as a leader.
type AppendOptions struct {
	Origin Origin
	// ProduceVersion is the version of the Produce request, for rules that depend on it.
	ProduceVersion int16
	// Verification says what is known of the transaction that the batch begins.
	Verification producer.Verification
}

// AppendResult tells where an append went.
type AppendResult struct {
	// FirstOffset and LastOffset (inclusive) are those of a duplicate's original when Duplicate is set.
	FirstOffset, LastOffset int64
	// LogAppendTime is in ms, -1 when the records keep their producers' times.
	LogAppendTime  int64
	LogStartOffset int64
	Duplicate      bool
	// Rolled is set when a new segment was begun, or much was written: a flush in the background is worth its while.
	Rolled bool
	// RecordErrors says which records were refused, when the error is about records.
	RecordErrors []record.RecordError
}

// Marker ends a transaction.
type Marker struct {
	ProducerID       int64
	ProducerEpoch    int16
	Commit           bool
	CoordinatorEpoch int32
	// TransactionVersion is that of the coordinator's request: 2 bumps epochs with every transaction.
	TransactionVersion int16
}

// ProducerState describes a producer, for DescribeProducers.
type ProducerState = producer.Info

// Bound says how far a reader may see.
type Bound uint8

// The bounds of reads.
const (
	// LogEnd is for followers.
	LogEnd Bound = iota
	// HighWatermark is for consumers that read uncommitted.
	HighWatermark
	// LastStable is for consumers that read committed.
	LastStable
)

// ReadRequest asks for the batches from the one that holds Offset on.
type ReadRequest struct {
	Offset   int64
	MaxBytes int
	// MinOneBatch yields the first batch whole even when it is larger than MaxBytes.
	MinOneBatch bool
	UpTo        Bound
	// WithAborted asks for the aborted transactions among what is read.
	WithAborted bool
}

// AbortedTxn is a transaction whose records, from FirstOffset to the producer's next ABORT marker, readers of committed data
// must skip.
type AbortedTxn struct{ ProducerID, FirstOffset int64 }

// ReadResult is what a read yields. Records is nil when there is nothing to read.
type ReadResult struct {
	Records                                         *segment.Slice
	HighWatermark, LastStableOffset, LogStartOffset int64
	LogEndOffset                                    int64
	// Aborted is not nil when it was asked for.
	Aborted []AbortedTxn
}

// Len is the number of record bytes.
func (r *ReadResult) Len() int { return r.Records.Len() }

// Release gives the files back. It may be called more than once.
func (r *ReadResult) Release() {
	r.Records.Release()
	r.Records = nil
}

// Offsets are the bounds of a partition at one moment.
type Offsets struct{ LogStart, LastStable, HighWatermark, LogEnd int64 }

// TimedOffset is where a time was reached.
type TimedOffset struct {
	Offset, Timestamp int64
	LeaderEpoch       int32
}
