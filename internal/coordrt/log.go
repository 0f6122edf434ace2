package coordrt

import (
	"context"

	"github.com/kbroker/kbroker/internal/model"
)

// Log is the partitions of the internal topic, as the broker that leads them offers them. Methods are safe for concurrent
// use and must not call back into the Runtime, except through the callback of OnCommitted. Errors carry the *kerr.Error
// that Kafka would answer a producer with.
type Log interface {
	// Append appends one batch as the leader of the given epoch and returns its last offset. It does not wait for
	// followers. The batch is modified (offsets, epoch) and not kept.
	Append(ctx context.Context, tp model.TopicPartition, leaderEpoch int32, batch []byte) (lastOffset int64, err error)
	// AppendMarker appends the control batch that ends a producer's transaction, with the checks and the bookkeeping that
	// a partition does for one, and returns its offset.
	AppendMarker(ctx context.Context, tp model.TopicPartition, leaderEpoch int32, m Marker) (offset int64, err error)
	// OnCommitted calls fn once: with nil when everything below upTo is committed, with an error when that will not
	// happen here in that epoch: the leadership or the log is lost, or the broker closes. It may call fn before it
	// returns, or from any goroutine. fn does not block.
	OnCommitted(tp model.TopicPartition, leaderEpoch int32, upTo int64, fn func(error))
	// Read returns whole batches from the one that holds offset from on, committed or not, and the offset to go on from.
	// No batches and next == from mean that the end is reached. At least one batch comes, however large, when there is
	// one; otherwise at most about maxBytes. The bytes belong to the caller.
	Read(ctx context.Context, tp model.TopicPartition, from int64, maxBytes int) (batches []byte, next int64, err error)
	// Bounds returns the log start, the high watermark and the log end.
	Bounds(tp model.TopicPartition) (logStart, highWatermark, logEnd int64, err error)
	// MaxBatchBytes is the largest batch that Append takes for the partition (the topic's max.message.bytes), 0 when that
	// cannot be told because the partition is not here; Append then says so.
	MaxBatchBytes(tp model.TopicPartition) int
}

// Marker ends a transaction in one partition.
type Marker struct {
	ProducerID    int64
	ProducerEpoch int16
	// Commit makes the transaction's records visible; otherwise they are void.
	Commit bool
	// CoordinatorEpoch is the leader epoch of the transaction coordinator that decided.
	CoordinatorEpoch int32
	// TransactionVersion is 2 when the epoch in the marker must be above the one of the transaction's records (KIP-890).
	TransactionVersion int16
}
