package coordrt

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kbroker/kbroker/internal/model"
)

// status is what a partition is doing.
type status int32

const (
	statusIdle    status = iota // not led by this broker
	statusLoading               // the log is being replayed
	statusActive                // operations run
	statusFailed                // the log could not be replayed; another attempt comes
)

// role is what the cluster wants of this broker for a partition.
type role struct {
	epoch int32
	lead  bool
	// forget says that the partition is gone, so that its epochs may begin anew.
	forget bool
}

// part is one partition of the topic: its shard and everything that waits for it.
type part[S Shard] struct {
	rt *Runtime[S]
	tp model.TopicPartition

	mu struct {
		sync.Mutex
		// queued is set while the partition is in the ready list or a worker has it (C1).
		queued bool
		closed bool
		ops    []operation[S]
		posts  []func(S, time.Time) Result
		// want is the newest role; changed says that no worker has seen it.
		want    role
		changed bool
		// due says that the alarm went off.
		due bool
		// life is counted up whenever the state is dropped; news for an earlier life is void.
		life int64
		// committed and lost are news of the log, noted that there is some. lost is the newest epoch in which something
		// will not be committed here.
		noted     bool
		committed int64
		lost      int32
		lostErr   error
	}

	state       atomic.Int32 // a status; written by the worker
	uncommitted atomic.Int32 // len(deferred), for metrics
	lastLoad    atomic.Pointer[LoadStats]

	// What follows belongs to the worker that has the partition.

	shard  S
	timers *Timers // the shard's
	own    Timers  // of the runtime: commitTimer, retryTimer
	epoch  int32   // leader epoch of the state, or the newest one heard of
	life   int64   // mu.life
	// written is the end of what was appended or loaded; committed is the known high watermark.
	written, committed int64
	deferred           []deferred
	load               load
	commitTimer        Timer
	retryTimer         Timer
	backoff            time.Duration

	alarm   *time.Timer
	alarmAt time.Time // zero when the alarm is not set
}

// deferred is an operation that waits until everything below upTo is committed.
type deferred struct {
	upTo     int64
	epoch    int32
	deadline time.Time
	then     func(time.Time, error) Result
	done     func(error)
}

func newPart[S Shard](rt *Runtime[S], partition int32) *part[S] {
	p := &part[S]{rt: rt, tp: model.TopicPartition{Topic: rt.opts.Topic, Partition: partition}, epoch: model.NoEpoch}
	p.mu.want.epoch, p.mu.lost = model.NoEpoch, model.NoEpoch
	p.commitTimer.Fire = func(time.Time) Result { return Result{} } // its work is done by expire
	p.retryTimer.Fire = func(time.Time) Result { return Result{} }  // its work is done by retryLoad
	return p
}

func (p *part[S]) status() status { return status(p.state.Load()) }

// update changes what waits for a worker and makes sure that one comes.
func (p *part[S]) update(change func()) {
	p.mu.Lock()
	change()
	schedule := !p.mu.queued && !p.mu.closed
	if schedule {
		p.mu.queued = true
	}
	p.mu.Unlock()
	if schedule {
		p.rt.schedule(p)
	}
}

func (p *part[S]) enqueue(op operation[S]) (err error) {
	p.update(func() {
		switch {
		case p.mu.closed:
			err = errClosed(p.tp)
		case len(p.mu.ops) >= maxQueued:
			err = errBusy(p.tp, "operations waiting")
		default:
			p.mu.ops = append(p.mu.ops, op)
		}
	})
	return err
}

func (p *part[S]) post(fn func(S, time.Time) Result) {
	dropped := false
	p.update(func() {
		if dropped = len(p.mu.posts) >= maxPosted; !dropped {
			p.mu.posts = append(p.mu.posts, fn)
		}
	})
	if dropped {
		p.logger().Error("too many notices wait for a coordinator partition, one is dropped")
	}
}

func (p *part[S]) roleChanged(r role) {
	p.update(func() {
		switch {
		case r.forget:
			r.epoch = model.NoEpoch
		case r.epoch < p.mu.want.epoch:
			return
		default:
			r.forget = p.mu.want.forget && p.mu.changed // not seen yet
		}
		p.mu.want, p.mu.changed = r, true
	})
}

// onCommitted asks the log for news about everything below upTo.
func (p *part[S]) onCommitted(upTo int64) {
	life, epoch := p.life, p.epoch
	p.rt.opts.Log.OnCommitted(p.tp, epoch, upTo, func(err error) {
		p.update(func() {
			if p.mu.life != life {
				return
			}
			p.mu.noted = true
			if err == nil {
				p.mu.committed = max(p.mu.committed, upTo)
				return
			}
			p.mu.lost, p.mu.lostErr = max(p.mu.lost, epoch), err
		})
	})
}

// turn does some of what there is to do. It is called by the worker that has the partition.
func (p *part[S]) turn(ctx context.Context, now time.Time) {
	p.takeRole(ctx, now)
	p.takeNews(ctx, now)
	p.takeDue(ctx, now)
	if p.status() == statusLoading {
		p.loadStep(ctx, now)
	}
	p.takePosts(ctx, now)
	p.takeOps(ctx, now)
	p.takeNews(ctx, now) // a log without followers commits at once
	p.setAlarm(now)
	p.endTurn()
}

// endTurn gives the partition back, behind the others when something is left to do.
func (p *part[S]) endTurn() {
	busy := p.status() == statusLoading && !p.load.waiting || p.status() == statusActive && p.anyDue(time.Now())
	p.mu.Lock()
	posts := len(p.mu.posts) > 0 && p.status() == statusActive
	busy = busy || len(p.mu.ops) > 0 || posts || p.mu.changed || p.mu.noted || p.mu.due
	p.mu.queued = busy
	p.mu.Unlock()
	if busy {
		p.rt.schedule(p)
	}
}

func (p *part[S]) takeRole(ctx context.Context, now time.Time) {
	p.mu.Lock()
	want, changed := p.mu.want, p.mu.changed
	p.mu.changed = false
	p.mu.Unlock()
	if !changed {
		return
	}
	if want.forget {
		p.unload(statusIdle)
		p.epoch = model.NoEpoch
	}
	switch {
	case want.lead && want.epoch > p.epoch:
		p.lead(ctx, now, want.epoch)
	case !want.lead && want.epoch >= p.epoch:
		p.unload(statusIdle)
		p.epoch = want.epoch
	}
}

// lead makes the partition this broker's in a newer epoch. When the epochs follow each other, no other broker can have
// led in between: the log, and with it the state, is what it was (C5).
func (p *part[S]) lead(ctx context.Context, now time.Time, epoch int32) {
	if p.status() == statusActive && epoch == p.epoch+1 {
		p.epoch = epoch
		if p.committed < p.written {
			p.onCommitted(p.written) // what was asked in the old epoch may go unanswered
		}
		return
	}
	p.unload(statusIdle)
	p.epoch = epoch
	p.startLoad(ctx, now)
}

// takeNews takes over what the log has told and releases what waited for it.
func (p *part[S]) takeNews(ctx context.Context, now time.Time) {
	p.mu.Lock()
	noted, committed, lost, lostErr := p.mu.noted, p.mu.committed, p.mu.lost, p.mu.lostErr
	p.mu.noted, p.mu.lost, p.mu.lostErr = false, model.NoEpoch, nil
	p.mu.Unlock()
	if !noted {
		return
	}
	p.committed = max(p.committed, committed)
	p.load.waiting = p.load.waiting && p.committed < p.load.end
	p.release(ctx, now, func(d *deferred) (bool, error) { return d.upTo <= p.committed, nil })
	if lostErr == nil {
		return
	}
	p.logger().Warn("a coordinator partition's log will not be committed here", epochField(lost), errField(lostErr))
	if lost >= p.epoch {
		p.unload(statusIdle)
		return
	}
	p.release(ctx, now, func(d *deferred) (bool, error) { return d.epoch <= lost, lostErr })
}

// release answers the operations at the front for as long as which says so.
func (p *part[S]) release(ctx context.Context, now time.Time, which func(*deferred) (bool, error)) {
	for len(p.deferred) > 0 {
		ready, err := which(&p.deferred[0])
		if !ready {
			return
		}
		d := p.deferred[0]
		p.deferred[0] = deferred{}
		p.deferred = p.deferred[1:]
		p.uncommitted.Add(-1)
		p.finish(ctx, now, d.then, d.done, err)
	}
	p.deferred = nil
}

// takeDue runs the timers whose time has come.
func (p *part[S]) takeDue(ctx context.Context, now time.Time) {
	p.mu.Lock()
	if p.mu.due {
		p.mu.due, p.alarmAt = false, time.Time{}
	}
	p.mu.Unlock()
	for t := p.own.Pop(now); t != nil; t = p.own.Pop(now) {
		if t == &p.retryTimer {
			p.startLoad(ctx, now)
		} else {
			p.expire(ctx, now)
		}
	}
	if p.status() != statusActive {
		return
	}
	for range maxTurn {
		t := p.timers.Pop(now)
		if t == nil {
			return
		}
		p.apply(ctx, now, t.Fire(now), nil)
		if p.status() != statusActive {
			return
		}
	}
}

// expire fails the operations that have waited too long for their records to be committed.
func (p *part[S]) expire(ctx context.Context, now time.Time) {
	p.release(ctx, now, func(d *deferred) (bool, error) { return !d.deadline.After(now), errCommitTimeout(p.tp, d.upTo) })
	if len(p.deferred) > 0 {
		p.own.Set(&p.commitTimer, p.deferred[0].deadline)
	}
}

// takePosts runs the notices. They wait for a load, and for the next one when it fails.
func (p *part[S]) takePosts(ctx context.Context, now time.Time) {
	if s := p.status(); s == statusLoading || s == statusFailed {
		return
	}
	p.mu.Lock()
	posts := p.mu.posts
	p.mu.posts = nil
	p.mu.Unlock()
	for _, fn := range posts {
		if p.status() == statusActive {
			p.apply(ctx, now, fn(p.shard, now), nil)
		}
	}
}

func (p *part[S]) takeOps(ctx context.Context, now time.Time) {
	p.mu.Lock()
	n := min(len(p.mu.ops), maxTurn)
	ops := p.mu.ops[:n:n]
	if p.mu.ops = p.mu.ops[n:]; len(p.mu.ops) == 0 {
		p.mu.ops = nil
	}
	p.mu.Unlock()
	for _, op := range ops {
		switch {
		case p.status() == statusLoading:
			op.fail(errLoading(p.tp))
		case p.status() != statusActive:
			op.fail(errNotCoordinator(p.tp))
		case len(p.deferred) >= maxUncommitted:
			op.fail(errBusy(p.tp, "operations waiting for the high watermark"))
		default:
			op.run(ctx, p, now)
		}
	}
}

func (p *part[S]) anyDue(now time.Time) bool {
	at, ok := p.timers.Next()
	return ok && !at.After(now)
}

// setAlarm makes a worker come when the next timer is due. An alarm that is set for too early is left alone: most timers
// are pushed back again and again and never fire.
func (p *part[S]) setAlarm(now time.Time) {
	at, ok := p.own.Next()
	if p.timers != nil && p.status() == statusActive {
		if t, set := p.timers.Next(); set && (!ok || t.Before(at)) {
			at, ok = t, true
		}
	}
	if !ok || !p.alarmAt.IsZero() && !at.Before(p.alarmAt) {
		return
	}
	p.alarmAt = at
	if d := max(at.Sub(now), 0); p.alarm == nil {
		p.alarm = time.AfterFunc(d, func() { p.update(func() { p.mu.due = true }) })
	} else {
		p.alarm.Reset(d)
	}
}

// unload drops the state and everything that waits for it.
func (p *part[S]) unload(to status) {
	from := p.status()
	p.state.Store(int32(to))
	p.mu.Lock()
	p.mu.life++
	p.life = p.mu.life
	p.mu.noted, p.mu.committed, p.mu.lost, p.mu.lostErr = false, 0, model.NoEpoch, nil
	p.mu.Unlock()
	p.own.Cancel(&p.commitTimer)
	p.own.Cancel(&p.retryTimer)
	if from == statusLoading || from == statusActive {
		p.shard.Unloaded()
	}
	var none S
	p.shard, p.timers, p.load = none, nil, load{}
	ds := p.deferred
	p.deferred = nil
	p.uncommitted.Store(0)
	for _, d := range ds {
		if d.done != nil {
			d.done(errNotCoordinator(p.tp))
		}
	}
}

// shut ends the partition for good. No worker has it any more.
func (p *part[S]) shut() {
	p.mu.Lock()
	p.mu.closed = true
	ops := p.mu.ops
	p.mu.ops, p.mu.posts = nil, nil
	p.mu.Unlock()
	p.unload(statusIdle)
	if p.alarm != nil {
		p.alarm.Stop()
	}
	for _, op := range ops {
		op.fail(errClosed(p.tp))
	}
}
