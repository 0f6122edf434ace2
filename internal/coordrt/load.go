package coordrt

import (
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"
)

// load is the progress of a load.
type load struct {
	began time.Time
	// at is where to read on, -1 before the first step; end is the log end when the load began.
	at, end int64
	// waiting is set while the load waits for everything below end to be committed, waited once that has happened. That
	// is needed only for a log that does not let its uncommitted end be read.
	waiting, waited bool
	loaded
}

// LoadStats tells about one load of a partition.
type LoadStats struct {
	Took           time.Duration
	Records, Bytes int64
}

func (p *part[S]) startLoad(ctx context.Context, now time.Time) {
	p.timers = &Timers{}
	p.shard = p.rt.opts.NewShard(p.tp.Partition, p.timers)
	p.load = load{began: now, at: -1}
	p.written, p.committed = 0, 0
	p.state.Store(int32(statusLoading))
	p.loadStep(ctx, now)
}

// loadStep replays a bounded piece of the log, so that other partitions get their turn in between.
func (p *part[S]) loadStep(ctx context.Context, now time.Time) {
	l := &p.load
	if l.waiting {
		return
	}
	if l.at < 0 {
		start, _, end, err := p.rt.opts.Log.Bounds(p.tp)
		if err != nil {
			p.loadFailed(now, err)
			return
		}
		l.at, l.end = start, end
	}
	batches, next, err := p.rt.opts.Log.Read(ctx, p.tp, l.at, p.rt.opts.LoadBytes)
	if err != nil {
		p.loadFailed(now, err)
		return
	}
	if len(batches) == 0 || next <= l.at {
		p.endReached(ctx, now)
		return
	}
	n, err := replayBatches(p.shard, batches, l.at)
	l.records, l.bytes = l.records+n.records, l.bytes+n.bytes
	if err != nil {
		p.loadFailed(now, err)
		return
	}
	l.at = next
}

// endReached goes on to run operations, or waits for the rest of a log that shows only what is committed: a new leader's
// log may end above its high watermark, and all of it will be committed.
func (p *part[S]) endReached(ctx context.Context, now time.Time) {
	l := &p.load
	if l.at < l.end && !l.waited {
		l.waiting, l.waited = true, true
		p.onCommitted(l.end)
		return
	}
	_, committed, _, err := p.rt.opts.Log.Bounds(p.tp)
	if err != nil {
		p.loadFailed(now, err)
		return
	}
	p.written, p.committed = max(l.at, l.end), committed
	p.backoff = 0
	stats := LoadStats{Took: now.Sub(l.began), Records: l.records, Bytes: l.bytes}
	p.lastLoad.Store(&stats)
	p.logger().Info("loaded a coordinator partition", epochField(p.epoch), zap.Duration("took", stats.Took),
		zap.Int64("records", stats.Records), zap.Int64("bytes", stats.Bytes))
	p.load = load{}
	p.state.Store(int32(statusActive))
	if p.committed < p.written {
		p.onCommitted(p.written)
	}
	p.apply(ctx, now, p.shard.Loaded(now), nil)
}

func (p *part[S]) loadFailed(now time.Time, err error) {
	p.backoff = min(max(2*p.backoff, minLoadRetry), maxLoadRetry)
	p.logger().Error("a coordinator partition cannot be loaded", epochField(p.epoch), zap.Int64("offset", p.load.at),
		zap.Duration("retry_in", p.backoff), errField(fmt.Errorf("load %s: %w", p.tp, err)))
	p.unload(statusFailed)
	p.own.Set(&p.retryTimer, now.Add(p.backoff))
}

func (p *part[S]) logger() *zap.Logger {
	return p.rt.opts.Logger.With(zap.String("topic", p.tp.Topic), zap.Int32("partition", p.tp.Partition))
}

func epochField(epoch int32) zap.Field { return zap.Int32("leader_epoch", epoch) }

func errField(err error) zap.Field { return zap.Error(err) }
