package controller

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"time"

	"github.com/kbroker/kbroker/config"
	"github.com/kbroker/kbroker/internal/metadata"
	"github.com/kbroker/kbroker/internal/quorum"
	"github.com/twmb/franz-go/pkg/kerr"
	"go.uber.org/zap"
)

// loopState belongs to the goroutine of Run.
type loopState struct {
	// epoch is the leadership that the rest belongs to, -1 when this node is not active.
	epoch int32
	// img has all submitted batches applied.
	img *metadata.Image
	// effective is the configuration under these dynamic configs.
	effective                  *config.Config
	defaultConfigs, ownConfigs map[string]string
	// turn numbers the batches submitted in this epoch.
	turn uint64
	// unsettled are the last ones submitted, in order, from the first one that was not settled when the loop last looked.
	unsettled []*batch
	// refused is the lowest turn that the quorum refused in this epoch, 0 for none.
	refused  uint64
	sessions *sessions
}

// batch is a set of records that was submitted.
type batch struct {
	turn uint64
	// settled is closed once offset and err are set.
	settled chan struct{}
	offset  int64
	err     error
}

func (b *batch) isSettled() bool {
	select {
	case <-b.settled:
		return true
	default:
		return false
	}
}

func (c *Controller) run(ctx context.Context) error {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		if err := c.follow(ctx); err != nil {
			return err
		}
		due := c.armTimer(timer)
		select {
		case <-ctx.Done():
			return nil
		case <-c.wake:
		case <-timer.C:
			c.checkSessions(ctx, due)
		case j := <-c.jobs:
			// The leadership may have come between the two: the caller has seen it already.
			if err := c.follow(ctx); err != nil {
				return err
			}
			j.reply <- c.serve(ctx, j)
		}
	}
}

// follow makes the loop's state fit the leadership: it takes over, steps back, or starts again after a refused batch. Its
// error says that the metadata belongs to another cluster.
func (c *Controller) follow(ctx context.Context) error {
	l := &c.loop
	lead := c.opts.Quorum.Leadership()
	switch {
	case !lead.Active:
		if l.epoch >= 0 {
			c.log.Info("no longer the active controller", zap.Int32("epoch", l.epoch))
		}
		l.epoch, l.unsettled = -1, nil
		return nil
	case l.epoch != lead.Epoch:
		c.log.Info("this node is the active controller", zap.Int32("epoch", lead.Epoch))
		l.epoch, l.turn, l.unsettled, l.refused = lead.Epoch, 0, nil, 0
		l.img = c.opts.Quorum.Image()
		l.sessions.reset(l.img, time.Now())
		c.refreshConfig(true)
		return c.bootstrap(ctx)
	}
	c.prune()
	if l.refused > 0 {
		c.restart(ctx)
	}
	return nil
}

// prune forgets settled batches and notes refused ones.
func (c *Controller) prune() {
	l := &c.loop
	for len(l.unsettled) > 0 && l.unsettled[0].isSettled() {
		if b := l.unsettled[0]; b.err != nil && (l.refused == 0 || b.turn < l.refused) {
			l.refused = b.turn
		}
		l.unsettled = l.unsettled[1:]
	}
}

// restart goes back to what is committed after a batch was refused. The quorum refuses everything after that batch, so it
// only has to wait until the ones before it are committed.
func (c *Controller) restart(ctx context.Context) {
	l := &c.loop
	for _, b := range l.unsettled {
		select {
		case <-b.settled:
		case <-ctx.Done():
			return
		}
	}
	c.prune()
	c.log.Warn("the quorum refused a change of the metadata; going on from what is committed", zap.Uint64("batch", l.refused))
	l.turn, l.refused = l.refused-1, 0
	l.img = c.opts.Quorum.Image()
	c.refreshConfig(true)
}

// bootstrap writes the first records of a new cluster, and makes sure that an old one is the right one.
func (c *Controller) bootstrap(ctx context.Context) error {
	id := c.loop.img.ClusterID()
	if id == c.opts.ClusterID {
		return nil
	}
	if id != "" {
		return fmt.Errorf("the metadata log belongs to cluster %s, this node is configured for cluster %s", id, c.opts.ClusterID)
	}
	records := []metadata.Record{&metadata.ClusterRecord{ClusterID: c.opts.ClusterID}}
	for _, f := range metadata.SupportedFeatures() {
		if f.Initial > 0 {
			records = append(records, &metadata.FeatureRecord{Name: f.Name, Level: f.Initial})
		}
	}
	v := c.view(Caller{Broker: -1})
	records = append(records, v.strictISRRecords()...)
	c.log.Info("starting the metadata of a new cluster", zap.String("cluster", c.opts.ClusterID))
	if _, err := c.submit(ctx, records, nil); err != nil {
		c.log.Warn("could not start the metadata of the cluster", zap.Error(err))
	}
	return nil
}

// view is what a decision made now may look at.
func (c *Controller) view(who Caller) *view {
	l := &c.loop
	voters := c.opts.Quorum.Voters()
	return &view{
		img: l.img, cfg: l.effective, now: time.Now(), rng: c.opts.Rand, who: who, sessions: l.sessions, log: c.log,
		self: self{
			nodeID: c.opts.NodeID, clusterID: c.opts.ClusterID, onlyVoter: len(voters) == 1 && voters[0] == c.opts.NodeID,
		},
	}
}

// serve decides about one request.
func (c *Controller) serve(ctx context.Context, j *job) reply {
	if c.loop.epoch < 0 {
		return reply{err: errNotActive}
	}
	d, err := c.view(j.who).decide(j.req)
	if err != nil {
		return reply{err: err}
	}
	if len(d.records) == 0 {
		return reply{response: d.response, visible: d.visible, rests: c.lastUnsettled()}
	}
	b, err := c.submit(ctx, d.records, d.committed)
	if err != nil {
		return reply{err: err}
	}
	return reply{response: d.response, visible: d.visible, rests: b}
}

// lastUnsettled returns the batch that everything seen now rests on; nil when all of it is committed.
func (c *Controller) lastUnsettled() *batch {
	c.prune()
	if n := len(c.loop.unsettled); n > 0 {
		return c.loop.unsettled[n-1]
	}
	return nil
}

// submit applies a batch to the loop's image and hands it to the quorum. It waits while too many are under way.
func (c *Controller) submit(ctx context.Context, records []metadata.Record, committed func(offset int64)) (*batch, error) {
	l := &c.loop
	next, delta, err := l.img.Apply(records)
	if err != nil {
		c.log.Error("a decision does not fit the image it was made on", zap.Error(err))
		return nil, fmt.Errorf("%w: %w", err, kerr.UnknownServerError)
	}
	select {
	case c.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, errClosed
	}
	b := &batch{turn: l.turn + 1, settled: make(chan struct{})}
	err = c.opts.Quorum.Submit(ctx, quorum.Turn{Epoch: l.epoch, Number: b.turn}, records, func(offset int64, err error) {
		b.offset, b.err = offset, err
		if err == nil && committed != nil {
			committed(offset)
		}
		close(b.settled)
		<-c.slots
		if err != nil {
			c.signal()
		}
	})
	if err != nil {
		<-c.slots
		return nil, err
	}
	c.prune()
	l.turn, l.img, l.unsettled = b.turn, next, append(l.unsettled, b)
	for _, res := range delta.Configs {
		if res.Type == metadata.ResourceBroker {
			c.refreshConfig(false)
			break
		}
	}
	if len(delta.Brokers) > 0 {
		l.sessions.forget(next)
	}
	return b, nil
}

// refreshConfig lays the cluster's dynamic configs over this node's own configuration.
func (c *Controller) refreshConfig(always bool) {
	l := &c.loop
	defaults := l.img.Config(metadata.ResourceBroker, "")
	own := l.img.Config(metadata.ResourceBroker, strconv.Itoa(int(c.opts.NodeID)))
	if !always && maps.Equal(defaults, l.defaultConfigs) && maps.Equal(own, l.ownConfigs) {
		return
	}
	l.defaultConfigs, l.ownConfigs = defaults, own
	next, problems := c.opts.Config.WithDynamic(defaults, own)
	for _, p := range problems {
		c.log.Warn("a dynamic config is not used", zap.String("key", p.Key), zap.String("because", p.Reason))
	}
	l.effective = next
	l.sessions.timeout = next.Controller.SessionTimeout
}

// armTimer makes the timer fire when a session may end, and returns that time.
func (c *Controller) armTimer(timer *time.Timer) (due time.Time) {
	l := &c.loop
	if l.epoch < 0 {
		timer.Stop()
		return due
	}
	now := time.Now()
	due, ok := l.sessions.next(l.img, now)
	if !ok {
		timer.Stop()
		return due
	}
	timer.Reset(due.Sub(now))
	return due
}

// checkSessions fences the brokers that were silent for too long. due is when it should have been called.
func (c *Controller) checkSessions(ctx context.Context, due time.Time) {
	l := &c.loop
	if l.epoch < 0 {
		return
	}
	now := time.Now()
	l.sessions.catchUp(due, now)
	for _, id := range l.sessions.expired(l.img, now) {
		v := c.view(Caller{Broker: -1})
		records, err := v.fence(l.img.Broker(id), fmt.Sprintf("nothing was heard of it for %s", l.sessions.timeout))
		if err == nil {
			_, err = c.submit(ctx, records, nil)
		}
		if err != nil {
			c.log.Warn("could not fence a silent broker", zap.Int32("broker", id), zap.Error(err))
			return
		}
	}
}
