package coordrt

import (
	"context"
	"fmt"
	"time"
)

// apply appends and replays what an operation, a timer or a Then has returned, and answers the operation when that is
// committed. done may be nil.
func (p *part[S]) apply(ctx context.Context, now time.Time, r Result, done func(error)) {
	if len(r.Records) > 0 {
		if err := p.appendRecords(ctx, now, &r); err != nil {
			p.finish(ctx, now, r.Then, done, err)
			return
		}
		p.onCommitted(p.written)
	}
	p.await(ctx, now, r, done)
}

// await defers the answer until everything that was appended so far is committed.
func (p *part[S]) await(ctx context.Context, now time.Time, r Result, done func(error)) {
	if r.Then == nil && done == nil {
		return
	}
	if len(r.Records) == 0 && (r.Soft || p.written <= p.committed) {
		p.finish(ctx, now, r.Then, done, nil)
		return
	}
	d := deferred{upTo: p.written, epoch: p.epoch, deadline: now.Add(p.rt.opts.CommitTimeout), then: r.Then, done: done}
	if len(p.deferred) == 0 {
		p.own.Set(&p.commitTimer, d.deadline)
	}
	p.deferred = append(p.deferred, d)
	p.uncommitted.Add(1)
}

// finish tells how an operation went. What its Then returns is applied before the answer leaves, but does not hold it.
func (p *part[S]) finish(ctx context.Context, now time.Time, then func(time.Time, error) Result, done func(error), err error) {
	if then != nil && p.status() == statusActive {
		p.apply(ctx, now, then(now, err), nil)
	}
	if done != nil {
		done(err)
	}
}

// appendRecords appends and replays the records of a result, in as many batches as it allows.
func (p *part[S]) appendRecords(ctx context.Context, now time.Time, r *Result) error {
	limit := p.rt.opts.Log.MaxBatchBytes(p.tp)
	for rest := r.Records; len(rest) > 0; {
		n := len(rest)
		if r.Split {
			n = chunk(rest, limit)
		}
		if err := p.appendBatch(ctx, now, r, rest[:n], limit); err != nil {
			return err
		}
		rest = rest[n:]
	}
	return nil
}

func (p *part[S]) appendBatch(ctx context.Context, now time.Time, r *Result, recs []Record, limit int) error {
	batch, err := buildBatch(recs, r.Transaction, p.rt.opts.Codec, now.UnixMilli(), limit)
	if err != nil {
		return fmt.Errorf("append to %s: %w", p.tp, err)
	}
	last, err := p.rt.opts.Log.Append(ctx, p.tp, p.epoch, batch)
	if err != nil {
		return fmt.Errorf("append to %s: %w", p.tp, err)
	}
	p.written = last + 1
	if r.Applied {
		return nil
	}
	at := Position{Offset: last - int64(len(recs)) + 1, ProducerID: -1, ProducerEpoch: -1}
	if r.Transaction != nil {
		at.Transactional, at.ProducerID, at.ProducerEpoch = true, r.Transaction.ID, r.Transaction.Epoch
	}
	for _, rec := range recs {
		if err := p.shard.Replay(at, rec); err != nil {
			return p.broken(fmt.Errorf("replay of what was just written to %s at offset %d: %w", p.tp, at.Offset, err))
		}
		at.Offset++
	}
	return nil
}

// broken gives the state up, because it is not what the log says, and has it loaded anew.
func (p *part[S]) broken(err error) error {
	p.logger().Error("a coordinator partition's state is not what its log says, it is loaded anew", errField(err))
	p.unload(statusFailed)
	p.own.Set(&p.retryTimer, time.Now().Add(minLoadRetry))
	return fmt.Errorf("%w: %w", err, errNotCoordinator(p.tp))
}

func (p *part[S]) applyMarker(ctx context.Context, now time.Time, m Marker, done func(error)) {
	offset, err := p.rt.opts.Log.AppendMarker(ctx, p.tp, p.epoch, m)
	if err != nil {
		done(fmt.Errorf("append a marker to %s: %w", p.tp, err))
		return
	}
	p.written = offset + 1
	p.shard.ReplayMarker(Position{Offset: offset, Transactional: true, ProducerID: m.ProducerID, ProducerEpoch: m.ProducerEpoch}, m.Commit)
	p.onCommitted(p.written)
	p.await(ctx, now, Result{}, done)
}
