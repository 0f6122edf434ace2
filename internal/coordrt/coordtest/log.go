// Package coordtest holds the test double of coordrt.Log: partitions in memory whose high watermark moves when the test
// says so. It is for tests of coordinators and never part of a broker. It checks no more than a coordinator can run into:
// leader epochs, and producer epochs that go back.
package coordtest

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/kbroker/kbroker/internal/coordrt"
	"github.com/kbroker/kbroker/internal/model"
	"github.com/kbroker/kbroker/protocol/record"
)

// Log is a coordrt.Log in memory. The zero value is not usable: see New. Safe for concurrent use.
type Log struct {
	mu struct {
		sync.Mutex
		parts map[model.TopicPartition]*part
		// Knobs, for all partitions.
		manual    bool
		hideTail  bool
		maxBatch  int
		appendErr error
		readErr   error
	}
}

type part struct {
	batches   []record.Batch
	start     int64
	end       int64
	committed int64
	epoch     int32
	waits     []wait
	producers map[int64]int16
}

type wait struct {
	epoch int32
	upTo  int64
	fn    func(error)
}

// New returns a log without partitions in which everything is committed as soon as it is appended.
func New() *Log {
	l := &Log{}
	l.mu.parts = map[model.TopicPartition]*part{}
	l.mu.maxBatch = 1 << 20
	return l
}

// Manual makes appended batches wait for Commit from now on.
func (l *Log) Manual(on bool) { l.set(func() { l.mu.manual = on }) }

// HideTail makes Read end at the high watermark, as a consumer's read does.
func (l *Log) HideTail(on bool) { l.set(func() { l.mu.hideTail = on }) }

// FailAppends makes every append fail with err, until it is called with nil.
func (l *Log) FailAppends(err error) { l.set(func() { l.mu.appendErr = err }) }

// FailReads makes every read fail with err, until it is called with nil.
func (l *Log) FailReads(err error) { l.set(func() { l.mu.readErr = err }) }

// LimitBatches sets what MaxBatchBytes answers.
func (l *Log) LimitBatches(n int) { l.set(func() { l.mu.maxBatch = n }) }

func (l *Log) set(fn func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fn()
}

// Lead makes this broker the leader of a partition in the given epoch. Who waits in an older one is told
// NOT_LEADER_OR_FOLLOWER. The partition is made when it is new.
func (l *Log) Lead(tp model.TopicPartition, epoch int32) {
	l.mu.Lock()
	p := l.part(tp)
	p.epoch = epoch
	fns := p.take(func(w wait) bool { return w.epoch != epoch })
	l.mu.Unlock()
	for _, fn := range fns {
		fn(fmt.Errorf("%s: %w", tp, kerr.NotLeaderForPartition))
	}
}

// Lose makes another broker the leader, whose log ends at upTo: what is behind is cut off here.
func (l *Log) Lose(tp model.TopicPartition, upTo int64) {
	l.Lead(tp, model.NoEpoch)
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.part(tp)
	for len(p.batches) > 0 && p.batches[len(p.batches)-1].NextOffset() > upTo {
		p.batches = p.batches[:len(p.batches)-1]
	}
	p.end = p.start
	if n := len(p.batches); n > 0 {
		p.end = p.batches[n-1].NextOffset()
	}
	p.committed = min(p.committed, p.end)
}

// Commit moves the high watermark to upTo, but not back and not beyond the end.
func (l *Log) Commit(tp model.TopicPartition, upTo int64) {
	l.mu.Lock()
	p := l.part(tp)
	p.committed = max(p.committed, min(upTo, p.end))
	fns := p.take(func(w wait) bool { return w.upTo <= p.committed })
	l.mu.Unlock()
	for _, fn := range fns {
		fn(nil)
	}
}

// CommitAll commits everything that was appended to any partition.
func (l *Log) CommitAll() {
	l.mu.Lock()
	tps := make([]model.TopicPartition, 0, len(l.mu.parts))
	for tp := range l.mu.parts {
		tps = append(tps, tp)
	}
	l.mu.Unlock()
	for _, tp := range tps {
		_, _, end, _ := l.Bounds(tp)
		l.Commit(tp, end)
	}
}

// Put appends bytes of whole batches as they are, offsets included, and commits them: a log that somebody else wrote.
func (l *Log) Put(tp model.TopicPartition, batches []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.part(tp)
	for b, err := range record.Split(batches) {
		if err != nil {
			return err
		}
		p.batches = append(p.batches, slices.Clone(b))
		p.end = b.NextOffset()
	}
	p.committed = p.end
	return nil
}

// Batches returns the batches of a partition.
func (l *Log) Batches(tp model.TopicPartition) []record.Batch {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.part(tp).batches)
}

func (l *Log) part(tp model.TopicPartition) *part {
	p := l.mu.parts[tp]
	if p == nil {
		p = &part{epoch: model.NoEpoch, producers: map[int64]int16{}}
		l.mu.parts[tp] = p
	}
	return p
}

func (p *part) take(which func(wait) bool) []func(error) {
	var out []func(error)
	p.waits = slices.DeleteFunc(p.waits, func(w wait) bool {
		if which(w) {
			out = append(out, w.fn)
			return true
		}
		return false
	})
	return out
}

func (p *part) check(tp model.TopicPartition, epoch int32) error {
	if epoch != p.epoch {
		return fmt.Errorf("%s in epoch %d, asked for %d: %w", tp, p.epoch, epoch, kerr.NotLeaderForPartition)
	}
	return nil
}

// Append implements coordrt.Log.
func (l *Log) Append(_ context.Context, tp model.TopicPartition, leaderEpoch int32, batch []byte) (int64, error) {
	b, err := record.ParseBatch(batch)
	if err != nil {
		return model.NoOffset, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.part(tp)
	if err := p.check(tp, leaderEpoch); err != nil {
		return model.NoOffset, err
	}
	if l.mu.appendErr != nil {
		return model.NoOffset, l.mu.appendErr
	}
	if len(batch) > l.mu.maxBatch {
		return model.NoOffset, kerr.MessageTooLarge
	}
	if b.HasProducerID() {
		if b.ProducerEpoch() < p.producers[b.ProducerID()] {
			return model.NoOffset, fmt.Errorf("producer %d: %w", b.ProducerID(), kerr.InvalidProducerEpoch)
		}
		p.producers[b.ProducerID()] = b.ProducerEpoch()
	}
	b.SetBaseOffset(p.end)
	b.SetLeaderEpoch(leaderEpoch)
	p.batches = append(p.batches, slices.Clone(b))
	p.end = b.NextOffset()
	if !l.mu.manual {
		p.committed = p.end
	}
	return b.LastOffset(), nil
}

// AppendMarker implements coordrt.Log.
func (l *Log) AppendMarker(ctx context.Context, tp model.TopicPartition, leaderEpoch int32, m coordrt.Marker) (int64, error) {
	return l.Append(ctx, tp, leaderEpoch, record.EndTxnMarker(m.ProducerID, m.ProducerEpoch, m.CoordinatorEpoch, m.Commit, 0))
}

// OnCommitted implements coordrt.Log.
func (l *Log) OnCommitted(tp model.TopicPartition, leaderEpoch int32, upTo int64, fn func(error)) {
	l.mu.Lock()
	p := l.part(tp)
	err := p.check(tp, leaderEpoch)
	waits := err == nil && upTo > p.committed
	if waits {
		p.waits = append(p.waits, wait{leaderEpoch, upTo, fn})
	}
	l.mu.Unlock()
	if !waits {
		fn(err)
	}
}

// Read implements coordrt.Log.
func (l *Log) Read(_ context.Context, tp model.TopicPartition, from int64, maxBytes int) ([]byte, int64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.readErr != nil {
		return nil, from, l.mu.readErr
	}
	p := l.part(tp)
	var out []byte
	next := from
	for _, b := range p.batches {
		if b.NextOffset() <= from {
			continue
		}
		if len(out) > 0 && len(out)+len(b) > maxBytes || l.mu.hideTail && b.NextOffset() > p.committed {
			break
		}
		out = append(out, b...)
		next = b.NextOffset()
	}
	return out, next, nil
}

// Bounds implements coordrt.Log.
func (l *Log) Bounds(tp model.TopicPartition) (logStart, highWatermark, logEnd int64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.part(tp)
	return p.start, p.committed, p.end, nil
}

// MaxBatchBytes implements coordrt.Log.
func (l *Log) MaxBatchBytes(model.TopicPartition) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.maxBatch
}
