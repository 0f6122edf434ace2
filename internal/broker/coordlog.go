package broker

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/kbroker/kbroker/internal/coordrt"
	"github.com/kbroker/kbroker/internal/model"
	"github.com/kbroker/kbroker/partition"
	"github.com/kbroker/kbroker/protocol/record"
)

// CoordinatorLog is the broker as the coordinators see it: partitions to append to, to wait for and to replay.
// Safe for concurrent use.
type CoordinatorLog struct{ b *Broker }

// CoordinatorLog returns the view of the broker for coordinators.
func (b *Broker) CoordinatorLog() CoordinatorLog { return CoordinatorLog{b} }

func (c CoordinatorLog) leader(tp model.TopicPartition, leaderEpoch int32) (*replica, error) {
	r, err := c.b.lookup(TopicRef{Name: tp.Topic}, tp.Partition)
	if err != nil {
		return nil, err
	}
	return r, r.checkLeaderEpoch(leaderEpoch, true)
}

// Append appends one batch as the leader of the given epoch and returns its last offset. It does not wait for followers,
// but is refused when fewer than min.insync.replicas are in sync, like any append whose writer asks for all.
func (c CoordinatorLog) Append(_ context.Context, tp model.TopicPartition, leaderEpoch int32, batch []byte) (int64, error) {
	r, err := c.leader(tp, leaderEpoch)
	if err != nil {
		return model.NoOffset, err
	}
	res, err := r.appendAsLeader(batch, -1, partition.AppendOptions{Origin: partition.Coordinator})
	if err != nil {
		return model.NoOffset, err
	}
	return res.LastOffset, nil
}

// AppendMarker appends the control batch that ends a producer's transaction and returns its offset.
func (c CoordinatorLog) AppendMarker(_ context.Context, tp model.TopicPartition, leaderEpoch int32, m coordrt.Marker) (int64, error) {
	r, err := c.leader(tp, leaderEpoch)
	if err != nil {
		return model.NoOffset, err
	}
	res, err := r.appendMarker(partition.Marker(m))
	if err != nil {
		return model.NoOffset, err
	}
	return res.LastOffset, nil
}

// MaxBatchBytes is the largest batch that Append takes for the partition; 0 when it is not hosted here.
func (c CoordinatorLog) MaxBatchBytes(tp model.TopicPartition) int {
	r, err := c.b.lookup(TopicRef{Name: tp.Topic}, tp.Partition)
	if err != nil {
		return 0
	}
	return int(r.log.Config().MaxMessageBytes)
}

// OnCommitted calls fn once: with nil when everything below upTo is committed, with an error when this broker stops
// leading the partition in that epoch first.
func (c CoordinatorLog) OnCommitted(tp model.TopicPartition, leaderEpoch int32, upTo int64, fn func(error)) {
	r, err := c.leader(tp, leaderEpoch)
	if err != nil {
		fn(err)
		return
	}
	r.onCommitted(leaderEpoch, upTo, fn)
}

// Read returns whole batches from the one that holds offset from on, committed or not, and the offset to go on from. No batches and next == from mean that the end is reached.
func (c CoordinatorLog) Read(_ context.Context, tp model.TopicPartition, from int64, maxBytes int) ([]byte, int64, error) {
	r, err := c.b.lookup(TopicRef{Name: tp.Topic}, tp.Partition)
	if err != nil {
		return nil, from, err
	}
	read, err := r.log.Read(partition.ReadRequest{Offset: from, MaxBytes: maxBytes, MinOneBatch: true, UpTo: partition.LogEnd})
	if err != nil {
		return nil, from, fmt.Errorf("load %s: %w", tp, err)
	}
	defer read.Release()
	data, err := read.Records.ReadAll()
	if err != nil {
		return nil, from, fmt.Errorf("load %s: %w", tp, err)
	}
	data, next, err := wholeBatches(data, from)
	if err != nil {
		return nil, from, fmt.Errorf("load %s: %w", tp, err)
	}
	return data, next, nil
}

// Bounds returns the log start, the high watermark and the log end.
func (c CoordinatorLog) Bounds(tp model.TopicPartition) (logStart, highWatermark, logEnd int64, err error) {
	r, err := c.b.lookup(TopicRef{Name: tp.Topic}, tp.Partition)
	if err != nil {
		return 0, 0, 0, err
	}
	o := r.log.Offsets()
	return o.LogStart, o.HighWatermark, o.LogEnd, nil
}

// WriteMarkers appends the marker to every partition and waits until each is committed.
func (b *Broker) WriteMarkers(ctx context.Context, req MarkerRequest) []error {
	errs := make([]error, len(req.Partitions))
	var g errgroup.Group
	g.SetLimit(maxMarkersAtOnce)
	for i, tp := range req.Partitions {
		g.Go(func() error {
			errs[i] = b.writeMarker(ctx, tp, req.Marker)
			return nil
		})
	}
	_ = g.Wait() // every outcome stands in its place
	return errs
}

// maxMarkersAtOnce bounds the goroutines of one request.
const maxMarkersAtOnce = 32

func (b *Broker) writeMarker(ctx context.Context, tp model.TopicPartition, m partition.Marker) error {
	if c := b.o.Coordinators[tp.Topic]; c != nil {
		return c.CompleteTransaction(ctx, tp.Partition, coordrt.Marker(m))
	}
	r, err := b.lookup(TopicRef{Name: tp.Topic}, tp.Partition)
	if err != nil {
		return err
	}
	ap, err := r.appendMarker(m)
	if err != nil {
		return err
	}
	done := make(chan error, 1)
	expire := r.onCommitted(ap.epoch, ap.end(), func(err error) { done <- err })
	if expire != nil {
		stop := context.AfterFunc(ctx, expire)
		defer stop()
	}
	return <-done
}

// DescribeProducers lists the producers of a partition that this broker leads.
func (b *Broker) DescribeProducers(tp model.TopicPartition) ([]partition.ProducerState, error) {
	r, err := b.lookup(TopicRef{Name: tp.Topic}, tp.Partition)
	if err == nil {
		err = r.checkLeaderEpoch(model.NoEpoch, true)
	}
	if err != nil {
		return nil, err
	}
	return r.log.DescribeProducers(), nil
}

// wholeBatches cuts an unfinished batch off the end of data, and returns the offset behind the last whole one, from when
// there is none.
func wholeBatches(data []byte, from int64) ([]byte, int64, error) {
	n := 0
	for n < len(data) {
		h, err := record.ParseHeader(data[n:])
		if err == nil && h.Size() <= int64(len(data)-n) {
			from, n = h.LastOffset()+1, n+int(h.Size())
			continue
		}
		if err != nil && len(data)-n >= record.HeaderSize {
			return nil, from, err
		}
		break
	}
	return data[:n], from, nil
}
