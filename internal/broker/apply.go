package broker

import (
	"context"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/kbroker/kbroker/internal/coordrt"
	"github.com/kbroker/kbroker/internal/metadata"
	"github.com/kbroker/kbroker/internal/model"
)

// Coordinator is told when this broker begins and ends to lead a partition of an internal topic. Calls come in order, from
// one goroutine, and must not block.
type Coordinator interface {
	Elected(partition, leaderEpoch int32)
	Resigned(partition, leaderEpoch int32)
	// CompleteTransaction appends a marker to a partition of the coordinator's topic and applies or drops what the
	// transaction holds there. It returns when that is committed.
	CompleteTransaction(ctx context.Context, partition int32, m coordrt.Marker) error
}

// Image returns the cluster image that this broker has applied: what it says to be hosted here is open.
func (b *Broker) Image() *metadata.Image { return b.image.Load() }

// Apply makes this broker host what the new image gives it, then shows the image. Logs are opened before roles change, so
// that a client which learns of a leader finds the log open. Changes must come in order, from one goroutine; a call takes
// as long as the disks do.
func (b *Broker) Apply(d *metadata.Delta) {
	ctx := b.ctx
	begin := time.Now()
	b.applyBrokerConfig(d)
	for i := range d.Topics {
		if t := &d.Topics[i]; t.New == nil {
			b.dropTopic(t.Old)
		}
	}
	opened := b.openAssigned(ctx, d)
	b.setStraysAside()
	var moves []leadership
	for i := range d.Topics {
		if t := &d.Topics[i]; t.New != nil {
			moves = b.applyTopic(t, moves)
		}
	}
	b.applyTopicConfigs(d)
	b.image.Store(d.New)
	for _, m := range moves {
		m.tell(b.o.Coordinators)
	}
	b.tellDeleted(d)
	if opened > 0 {
		b.log.Debug("cluster image applied", zap.Int64("offset", d.New.Offset()), zap.Int("opened", opened), zap.Duration("took", time.Since(begin)))
	}
}

func (b *Broker) tellDeleted(d *metadata.Delta) {
	var gone []DeletedTopic
	for i := range d.Topics {
		if t := &d.Topics[i]; t.New == nil {
			gone = append(gone, DeletedTopic{t.Old.Name, t.Old.ID})
		}
	}
	if len(gone) > 0 && b.o.TopicsDeleted != nil {
		b.o.TopicsDeleted(gone)
	}
}

// leadership is a change that a coordinator has to know of.
type leadership struct {
	tp      model.TopicPartition
	epoch   int32
	elected bool
}

func (l leadership) tell(cs map[string]Coordinator) {
	c := cs[l.tp.Topic]
	switch {
	case c == nil:
	case l.elected:
		c.Elected(l.tp.Partition, l.epoch)
	default:
		c.Resigned(l.tp.Partition, l.epoch)
	}
}

// openAssigned opens the logs of all partitions that the change newly assigns to this broker, several at a time: after
// an unclean stop each may have to be scanned.
func (b *Broker) openAssigned(ctx context.Context, d *metadata.Delta) int {
	var g errgroup.Group
	g.SetLimit(max(1, int(b.Config().Log.RecoveryThreads)*len(b.o.Dirs)))
	opened := 0
	for i := range d.Topics {
		t := d.Topics[i].New
		if t == nil {
			continue
		}
		h := b.hostTopic(t)
		for _, p := range d.Topics[i].Partitions {
			if t.Partitions[p].HasReplica(b.o.NodeID) && h.replica(p) == nil && ctx.Err() == nil {
				opened++
				g.Go(func() error {
					h.set(p, b.openReplica(ctx, d.New, t, p))
					return nil
				})
			}
		}
	}
	_ = g.Wait() // a replica that cannot be opened is hosted as an offline one; nothing is returned
	return opened
}

func (b *Broker) applyTopic(t *metadata.TopicDelta, moves []leadership) []leadership {
	h := b.hostTopic(t.New)
	for _, i := range t.Partitions {
		p, r := t.New.Partitions[i], h.replica(i)
		switch {
		case r == nil:
		case !p.HasReplica(b.o.NodeID):
			if r.setRole(b.o.NodeID, p) {
				moves = append(moves, leadership{tp: r.tp, epoch: p.LeaderEpoch})
			}
			h.set(i, nil)
			b.deleteReplica(r)
		case r.setRole(b.o.NodeID, p):
			moves = append(moves, leadership{tp: r.tp, epoch: p.LeaderEpoch, elected: p.Leader == b.o.NodeID})
		}
	}
	return moves
}

// dropTopic stops and deletes every replica of a deleted topic.
func (b *Broker) dropTopic(t *metadata.Topic) {
	v, ok := b.byID.LoadAndDelete(t.ID)
	if !ok {
		return
	}
	h := v.(*hostedTopic)
	b.byName.CompareAndDelete(t.Name, h)
	for i, r := range h.all() {
		if r == nil {
			continue
		}
		r.retire()
		if c := b.o.Coordinators[t.Name]; c != nil {
			c.Resigned(int32(i), t.Partitions[i].LeaderEpoch)
		}
		b.deleteReplica(r)
	}
}

// applyTopicConfigs gives the open logs of topics with changed overrides their new settings.
func (b *Broker) applyTopicConfigs(d *metadata.Delta) {
	for _, c := range d.Configs {
		if c.Type != metadata.ResourceTopic {
			continue
		}
		if v, ok := b.byName.Load(c.Name); ok {
			b.configure(v.(*hostedTopic), d.New)
		}
	}
}

// applyBrokerConfig merges changed dynamic broker settings; topics without overrides of their own follow.
func (b *Broker) applyBrokerConfig(d *metadata.Delta) {
	self := nodeName(b.o.NodeID)
	for _, c := range d.Configs {
		if c.Type != metadata.ResourceBroker || c.Name != "" && c.Name != self {
			continue
		}
		cfg, left := b.o.Config.WithDynamic(d.New.Config(metadata.ResourceBroker, ""), d.New.Config(metadata.ResourceBroker, self))
		for _, p := range left {
			b.log.Error("dynamic broker setting does not fit this broker and is left out", zap.Stringer("setting", p))
		}
		b.config.Store(cfg)
		for _, v := range b.byName.Range {
			b.configure(v.(*hostedTopic), d.New)
		}
		if b.o.ConfigChanged != nil {
			b.o.ConfigChanged(cfg)
		}
		return
	}
}

func (b *Broker) configure(h *hostedTopic, img *metadata.Image) {
	cfg, err := b.topicConfig(img, h.name)
	if err != nil {
		b.log.Error("settings of the topic cannot be read; the former ones stay in force", zap.String("topic", h.name), zap.Error(err))
		return
	}
	for _, r := range h.all() {
		if r != nil && r.log != nil {
			r.log.SetConfig(cfg)
		}
	}
}
