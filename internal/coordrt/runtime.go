package coordrt

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/kbroker/kbroker/internal/model"
)

// Runtime runs the shards of the partitions that this broker leads. Safe for concurrent use.
type Runtime[S Shard] struct {
	opts Options[S]

	mu struct {
		sync.Mutex
		parts map[int32]*part[S]
		// ready are the partitions with something to do, each at most once, in the order in which it came up.
		ready   []*part[S]
		running bool
		closed  bool
	}
	// wake is signalled when ready grows and broadcast when the runtime closes.
	wake *sync.Cond
}

// New returns a runtime without partitions. Nothing is worked on before Run.
func New[S Shard](o Options[S]) (*Runtime[S], error) {
	o.EnsureDefaults()
	if err := o.Validate(); err != nil {
		return nil, err
	}
	rt := &Runtime[S]{opts: o}
	rt.mu.parts = map[int32]*part[S]{}
	rt.wake = sync.NewCond(&rt.mu)
	return rt, nil
}

// Run works until ctx ends. It may be called once. When it returns, every operation was answered, every shard is
// unloaded, and no goroutine is left.
func (rt *Runtime[S]) Run(ctx context.Context) error {
	rt.mu.Lock()
	again := rt.mu.running
	rt.mu.running = true
	rt.mu.Unlock()
	if again {
		return errors.New("coordinator runtime: Run was called before")
	}
	stop := context.AfterFunc(ctx, rt.close)
	defer stop()
	var workers sync.WaitGroup
	for range rt.opts.Workers {
		workers.Go(func() { rt.work(ctx) })
	}
	workers.Wait()
	for _, p := range rt.all() {
		p.shut()
	}
	return nil
}

// close makes the workers leave and refuses everything from now on.
func (rt *Runtime[S]) close() {
	rt.mu.Lock()
	rt.mu.closed = true
	rt.mu.Unlock()
	rt.wake.Broadcast()
}

func (rt *Runtime[S]) work(ctx context.Context) {
	for p := rt.next(); p != nil; p = rt.next() {
		p.turn(ctx, time.Now())
	}
}

// next waits for a partition with something to do; nil when the runtime is closed.
func (rt *Runtime[S]) next() *part[S] {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	for !rt.mu.closed && len(rt.mu.ready) == 0 {
		rt.wake.Wait()
	}
	if rt.mu.closed {
		return nil
	}
	p := rt.mu.ready[0]
	rt.mu.ready[0] = nil
	rt.mu.ready = rt.mu.ready[1:]
	return p
}

// schedule puts a partition behind those that have something to do. The caller makes sure that it is there once.
func (rt *Runtime[S]) schedule(p *part[S]) {
	rt.mu.Lock()
	rt.mu.ready = append(rt.mu.ready, p)
	rt.mu.Unlock()
	rt.wake.Signal()
}

// Elected tells that this broker leads a partition in the given leader epoch. Notices of older epochs than the newest one
// heard of change nothing. It does not wait.
func (rt *Runtime[S]) Elected(partition, leaderEpoch int32) {
	rt.mu.Lock()
	p := rt.mu.parts[partition]
	if p == nil && !rt.mu.closed {
		p = newPart(rt, partition)
		rt.mu.parts[partition] = p
	}
	rt.mu.Unlock()
	if p != nil {
		p.roleChanged(role{epoch: leaderEpoch, lead: true})
	}
}

// Resigned tells that another broker, or none, leads a partition in the given leader epoch. Epoch -1 stands for a
// partition that is gone, with all its epochs. It does not wait.
func (rt *Runtime[S]) Resigned(partition, leaderEpoch int32) {
	if p := rt.part(partition); p != nil {
		p.roleChanged(role{epoch: leaderEpoch, forget: leaderEpoch == model.NoEpoch})
	}
}

func (rt *Runtime[S]) part(partition int32) *part[S] {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	return rt.mu.parts[partition]
}

// all returns the partitions in order.
func (rt *Runtime[S]) all() []*part[S] {
	rt.mu.Lock()
	ps := make([]*part[S], 0, len(rt.mu.parts))
	for _, p := range rt.mu.parts {
		ps = append(ps, p)
	}
	rt.mu.Unlock()
	slices.SortFunc(ps, func(a, b *part[S]) int { return int(a.tp.Partition - b.tp.Partition) })
	return ps
}

// Partitions returns the partitions that this broker leads, loaded or not, in order.
func (rt *Runtime[S]) Partitions() []int32 {
	var out []int32
	for _, p := range rt.all() {
		if p.status() != statusIdle {
			out = append(out, p.tp.Partition)
		}
	}
	return out
}
