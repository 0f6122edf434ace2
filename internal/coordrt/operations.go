package coordrt

import (
	"context"
	"time"

	"github.com/kbroker/kbroker/internal/model"
)

// operation is something to be run on a shard. Exactly one of run and fail is called, and run sees to the answer.
type operation[S Shard] struct {
	run  func(ctx context.Context, p *part[S], now time.Time)
	fail func(error)
}

// Submit runs fn on the shard of a partition. done is called once, from any goroutine, and must not block: with nil when
// fn has run and its Result is committed (C3), or with the error that kept it from that. fn does not run when the
// partition is not led by this broker, is being loaded, or has too much to do.
func (rt *Runtime[S]) Submit(partition int32, fn func(s S, now time.Time) Result, done func(error)) {
	rt.enqueue(partition, operation[S]{
		run: func(ctx context.Context, p *part[S], now time.Time) {
			p.apply(ctx, now, fn(p.shard, now), done)
		},
		fail: done,
	})
}

// Post runs fn on the shard of a partition, after the load when it is being loaded, and not at all when this broker does
// not lead it. Nobody learns of the outcome. It is for notices, of which there are few; beyond a bound they are dropped
// with an error in the log.
func (rt *Runtime[S]) Post(partition int32, fn func(s S, now time.Time) Result) {
	if p := rt.part(partition); p != nil {
		p.post(fn)
	}
}

// WriteMarker ends a producer's transaction in a partition: the marker is appended and then replayed. done is called as
// for Submit.
func (rt *Runtime[S]) WriteMarker(partition int32, m Marker, done func(error)) {
	rt.enqueue(partition, operation[S]{
		run: func(ctx context.Context, p *part[S], now time.Time) {
			p.applyMarker(ctx, now, m, done)
		},
		fail: done,
	})
}

func (rt *Runtime[S]) enqueue(partition int32, op operation[S]) {
	p := rt.part(partition)
	if p == nil {
		op.fail(errNotCoordinator(model.TopicPartition{Topic: rt.opts.Topic, Partition: partition}))
		return
	}
	if err := p.enqueue(op); err != nil {
		op.fail(err)
	}
}

type answer[T any] struct {
	value T
	err   error
}

// Pending is an operation that was started. Its value may be waited for once.
type Pending[T any] struct{ ch chan answer[T] }

// Wait returns what came out. When ctx ends first, Wait returns its error; the operation goes on.
func (p Pending[T]) Wait(ctx context.Context) (T, error) {
	select {
	case a := <-p.ch:
		return a.value, a.err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}

// Start runs fn on the shard of a partition; its value is to be had once its Result is committed. An error of fn comes at
// once, and its Result is ignored.
func Start[S Shard, T any](rt *Runtime[S], partition int32, fn func(s S, now time.Time) (Result, T, error)) Pending[T] {
	ch := make(chan answer[T], 1)
	rt.enqueue(partition, operation[S]{
		run: func(ctx context.Context, p *part[S], now time.Time) {
			res, v, err := fn(p.shard, now)
			if err != nil {
				ch <- answer[T]{err: err}
				return
			}
			p.apply(ctx, now, res, func(err error) { ch <- answer[T]{v, err} })
		},
		fail: func(err error) { ch <- answer[T]{err: err} },
	})
	return Pending[T]{ch}
}

// Write is Start and Wait.
func Write[S Shard, T any](ctx context.Context, rt *Runtime[S], partition int32, fn func(s S, now time.Time) (Result, T, error)) (T, error) {
	return Start(rt, partition, fn).Wait(ctx)
}

// StartPeek runs fn on the shard of a partition; its value is to be had at once, committed or not. fn must not change
// anything.
func StartPeek[S Shard, T any](rt *Runtime[S], partition int32, fn func(s S, now time.Time) T) Pending[T] {
	ch := make(chan answer[T], 1)
	rt.enqueue(partition, operation[S]{
		run:  func(_ context.Context, p *part[S], now time.Time) { ch <- answer[T]{value: fn(p.shard, now)} },
		fail: func(err error) { ch <- answer[T]{err: err} },
	})
	return Pending[T]{ch}
}

// Peek is StartPeek and Wait.
func Peek[S Shard, T any](ctx context.Context, rt *Runtime[S], partition int32, fn func(s S, now time.Time) T) (T, error) {
	return StartPeek(rt, partition, fn).Wait(ctx)
}

// PeekAll runs fn on every shard of this broker and calls each with what came out, in the order of the partitions.
func PeekAll[S Shard, T any](ctx context.Context, rt *Runtime[S], fn func(s S, now time.Time) T, each func(T, error)) {
	parts := rt.Partitions()
	ps := make([]Pending[T], len(parts))
	for i, p := range parts {
		ps[i] = StartPeek(rt, p, fn)
	}
	for _, p := range ps {
		each(p.Wait(ctx))
	}
}
