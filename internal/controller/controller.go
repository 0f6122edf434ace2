package controller

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/kbroker/kbroker/internal/model"
	"github.com/kbroker/kbroker/internal/quorum"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"
)

const (
	// queueLength bounds the requests that wait for the loop; more callers wait in Handle.
	queueLength = 1024
	// maxOutstanding bounds the batches that are submitted and not committed.
	maxOutstanding = 256
)

// errNotActive is what a request gets that this node may not decide about.
var errNotActive = fmt.Errorf("this node is not the active controller: %w", kerr.NotController)

// errClosed is what a request gets once Run has ended.
var errClosed = fmt.Errorf("the controller is shutting down: %w", kerr.NotController)

// Controller decides about the cluster while its node leads the metadata quorum. All methods are safe for concurrent use.
type Controller struct {
	opts    Options
	log     *zap.Logger
	jobs    chan *job
	slots   chan struct{} // one element for every outstanding batch
	wake    chan struct{} // of capacity 1: leadership changed or a batch was refused
	stopped chan struct{}
	running atomic.Bool

	mu struct {
		sync.Mutex
		// changed is closed and replaced when the leadership changes.
		changed chan struct{}
	}

	// loop is what only Run's goroutine touches.
	loop loopState
}

// job is a request on its way through the loop.
type job struct {
	who   Caller
	req   kmsg.Request
	reply chan reply // of capacity 1
}

// reply is what the loop says to a job. The answer may go out once the batch is settled.
type reply struct {
	response kmsg.Response
	err      error
	rests    *batch // nil when the answer rests on committed state alone
	visible  bool
}

// New returns a Controller that does nothing until Run.
func New(o Options) (*Controller, error) {
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	if err := o.Validate(); err != nil {
		return nil, err
	}
	c := &Controller{
		opts: o, log: o.Logger,
		jobs: make(chan *job, queueLength), slots: make(chan struct{}, maxOutstanding),
		wake: make(chan struct{}, 1), stopped: make(chan struct{}),
	}
	c.mu.changed = make(chan struct{})
	local := int32(-1)
	if o.Config.Node.Broker {
		local = o.NodeID
	}
	c.loop = loopState{epoch: -1, effective: o.Config, sessions: newSessions(o.Config.Controller.SessionTimeout, local)}
	o.Quorum.Watch(c.leadershipChanged)
	return c, nil
}

// leadershipChanged runs on the quorum's goroutine.
func (c *Controller) leadershipChanged() {
	c.mu.Lock()
	close(c.mu.changed)
	c.mu.changed = make(chan struct{})
	c.mu.Unlock()
	c.signal()
}

func (c *Controller) signal() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// Handle decides about a request and returns the answer once it is committed (C4); changes that clients ask for are then
// also visible to the brokers of this process. While nobody leads the quorum, it waits. An error wraps a *kerr.Error or is
// that of ctx: kerr.NotController when another node is active, or this one stopped being it meanwhile, in which case the
// change may have been made or not.
func (c *Controller) Handle(ctx context.Context, who Caller, req kmsg.Request) (kmsg.Response, error) {
	if err := c.awaitActive(ctx); err != nil {
		return nil, err
	}
	if r, ok := req.(*kmsg.DescribeQuorumRequest); ok {
		return c.describeQuorum(ctx, r)
	}
	j := &job{who: who, req: req, reply: make(chan reply, 1)}
	select {
	case c.jobs <- j:
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-c.stopped:
		return nil, errClosed
	}
	select {
	case r := <-j.reply:
		return c.settle(ctx, r)
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-c.stopped:
		return nil, errClosed
	}
}

// settle waits until what an answer rests on is committed.
func (c *Controller) settle(ctx context.Context, r reply) (kmsg.Response, error) {
	if r.err != nil {
		return nil, r.err
	}
	if r.rests == nil {
		return r.response, nil
	}
	select {
	case <-r.rests.settled:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if err := r.rests.err; err != nil {
		return nil, err
	}
	if r.visible {
		if err := c.opts.Quorum.WaitPublished(ctx, r.rests.offset); err != nil {
			return nil, err
		}
	}
	return r.response, nil
}

// awaitActive returns once this node is active, or an error when another one leads, ctx ends or Run has ended.
func (c *Controller) awaitActive(ctx context.Context) error {
	for {
		c.mu.Lock()
		changed := c.mu.changed
		c.mu.Unlock()
		l := c.opts.Quorum.Leadership()
		switch {
		case l.Active:
			return nil
		case l.LeaderID != model.NoLeader && l.LeaderID != c.opts.NodeID:
			return errNotActive
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		case <-c.stopped:
			return errClosed
		}
	}
}

// Run works until ctx ends (then it returns nil) or the cluster turns out to be another one than configured. It may be
// called once.
func (c *Controller) Run(ctx context.Context) error {
	if c.running.Swap(true) {
		return errors.New("controller: Run was called before")
	}
	defer close(c.stopped)
	return c.run(ctx)
}

var _ Quorum = (*quorum.Quorum)(nil)
