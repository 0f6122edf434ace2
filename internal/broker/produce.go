package broker

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/kbroker/kbroker/internal/model"
	"github.com/kbroker/kbroker/partition"
	"github.com/kbroker/kbroker/protocol/record"
)

// Produce appends to every partition in turn and answers when the weakest promise that was asked for holds: after the
// append (acks 0 and 1; after the flush where flush.messages asks for one), or when the high watermark has passed (-1).
func (b *Broker) Produce(ctx context.Context, req ProduceRequest, done func([]ProduceResult)) {
	op := &produceOp{results: make([]ProduceResult, len(req.Partitions)), done: done}
	op.pending.Store(1) // held until every partition was tried, so that an early commit cannot answer for the rest
	for i := range req.Partitions {
		b.producePartition(op, i, &req)
	}
	op.settle(ctx, req.Timeout)
}

func (b *Broker) producePartition(op *produceOp, i int, req *ProduceRequest) {
	p, res := &req.Partitions[i], &op.results[i]
	*res = ProduceResult{BaseOffset: model.NoOffset, LogAppendTime: model.NoTimestamp, LogStartOffset: model.NoOffset,
		LeaderID: model.NoLeader, LeaderEpoch: model.NoEpoch}
	r, err := b.produceTarget(req, p)
	if err != nil {
		res.Err = err
		return
	}
	b.stats.produced(len(p.Records))
	ap, err := r.appendAsLeader(p.Records, req.Acks, partition.AppendOptions{Origin: partition.Client, ProduceVersion: req.Version})
	if err != nil {
		res.fail(err, ap.RecordErrors, r)
		return
	}
	res.BaseOffset, res.LogAppendTime, res.LogStartOffset = ap.FirstOffset, ap.LogAppendTime, ap.LogStartOffset
	switch {
	case req.Acks == -1:
		op.await(r, ap, i, r.onCommitted)
	case r.flushDue():
		op.await(r, ap, i, r.onFlushed)
	}
}

// fail fills a result for a refused append, with the leader to go to when this broker is not it.
func (res *ProduceResult) fail(err error, records []record.RecordError, r *replica) {
	res.Err, res.RecordErrors = err, records
	if errors.Is(err, kerr.NotLeaderForPartition) {
		res.LeaderID, res.LeaderEpoch = r.currentLeader()
	}
	if errors.Is(err, kerr.RecordListTooLarge) || errors.Is(err, kerr.MessageTooLarge) || errors.Is(err, kerr.InvalidRecord) {
		res.LogStartOffset = r.log.LogStartOffset()
	}
}

func (b *Broker) produceTarget(req *ProduceRequest, p *ProducePartition) (*replica, error) {
	if req.Acks < -1 || req.Acks > 1 {
		return nil, fmt.Errorf("acks %d: %w", req.Acks, kerr.InvalidRequiredAcks)
	}
	r, err := b.lookup(p.Topic, p.Partition)
	if err != nil {
		return nil, err
	}
	if !req.Internal && model.IsInternalTopic(r.tp.Topic) {
		return nil, fmt.Errorf("cannot append to internal topic %s: %w", r.tp.Topic, kerr.InvalidTopicException)
	}
	return r, nil
}

// produceOp is a Produce request that has appended and waits. Results are written by the appending goroutine first and
// then, each at its own index and once, by the waits' callbacks; pending counts who has yet to write, and whoever brings
// it to zero answers.
type produceOp struct {
	results []ProduceResult
	done    func([]ProduceResult)
	pending atomic.Int32

	// Written before the hold of Produce is released, read after.
	waits []expirer
	timer *time.Timer
	stop  func() bool
}

// expirer takes a wait off its replica's list and completes it with REQUEST_TIMED_OUT; a no-op when it has been
// completed already.
type expirer func()

// await parks partition i until wait calls back; wait is replica.onCommitted or replica.onFlushed.
func (op *produceOp) await(r *replica, ap appended, i int, wait func(int32, int64, func(error)) expirer) {
	op.pending.Add(1)
	expire := wait(ap.epoch, ap.end(), func(err error) {
		if err != nil {
			res := &op.results[i]
			res.BaseOffset, res.LogAppendTime = model.NoOffset, model.NoTimestamp
			res.fail(err, nil, r)
		}
		op.release()
	})
	if expire != nil {
		op.waits = append(op.waits, expire)
	}
}

// settle lets go of the hold that Produce took and, if something still waits, starts the clock.
func (op *produceOp) settle(ctx context.Context, timeout time.Duration) {
	if len(op.waits) > 0 && op.pending.Load() > 1 {
		op.timer = time.AfterFunc(timeout, op.expire)
		op.stop = context.AfterFunc(ctx, op.expire)
	}
	op.release()
}

// expire gives up on what still waits. The records stay in the log, as in Kafka.
func (op *produceOp) expire() {
	for _, w := range op.waits {
		w()
	}
}

func (op *produceOp) release() {
	if op.pending.Add(-1) > 0 {
		return
	}
	if op.timer != nil {
		op.timer.Stop()
		op.stop()
	}
	op.done(op.results)
}
