package broker

import (
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/kbroker/kbroker/internal/metadata"
	"github.com/kbroker/kbroker/internal/model"
)

// hostedTopic holds this broker's replicas of one topic. Requests find it by name or id without a lock; only the apply
// loop changes it.
type hostedTopic struct {
	name  string
	id    model.UUID
	parts atomic.Pointer[[]*replica] // indexed by partition; nil where this broker has no replica
}

func (h *hostedTopic) all() []*replica { return *h.parts.Load() }

func (h *hostedTopic) replica(i int32) *replica {
	ps := h.all()
	if i < 0 || int(i) >= len(ps) {
		return nil
	}
	return ps[i]
}

// set replaces the replica of one partition. Openers of several partitions call it at the same time.
func (h *hostedTopic) set(i int32, r *replica) {
	for {
		old := h.parts.Load()
		ps := slices.Clone(*old)
		for int(i) >= len(ps) {
			ps = append(ps, nil)
		}
		ps[i] = r
		if h.parts.CompareAndSwap(old, &ps) {
			return
		}
	}
}

// hostTopic returns the entry of a topic, making it when needed.
func (b *Broker) hostTopic(t *metadata.Topic) *hostedTopic {
	if v, ok := b.byID.Load(t.ID); ok {
		return v.(*hostedTopic)
	}
	h := &hostedTopic{name: t.Name, id: t.ID}
	ps := make([]*replica, len(t.Partitions))
	h.parts.Store(&ps)
	b.byID.Store(t.ID, h)
	b.byName.Store(t.Name, h)
	return h
}

// lookup finds the replica that a request names. A replica whose log could not be opened is an error here.
func (b *Broker) lookup(t TopicRef, partition int32) (*replica, error) {
	var (
		v  any
		ok bool
	)
	if t.ID.IsZero() {
		v, ok = b.byName.Load(t.Name)
	} else {
		v, ok = b.byID.Load(t.ID)
	}
	if ok {
		if r := v.(*hostedTopic).replica(partition); r != nil {
			return r, r.openErr
		}
	}
	return nil, b.notHosted(t, partition)
}

// notHosted explains a miss: the client may have to go to another broker, or ask for something that exists.
func (b *Broker) notHosted(t TopicRef, partition int32) error {
	img := b.Image()
	topic := img.TopicByID(t.ID)
	if t.ID.IsZero() {
		topic = img.Topic(t.Name)
	}
	switch {
	case topic == nil && !t.ID.IsZero():
		return fmt.Errorf("topic id %s: %w", t.ID, kerr.UnknownTopicID)
	case topic == nil || topic.Partition(partition) == nil:
		return fmt.Errorf("partition %s-%d: %w", t.Name, partition, kerr.UnknownTopicOrPartition)
	default:
		return fmt.Errorf("%s-%d has no replica on this broker: %w", topic.Name, partition, kerr.NotLeaderForPartition)
	}
}

// replicas calls fn for every replica, until it returns false.
func (b *Broker) replicas(fn func(*replica) bool) {
	for _, v := range b.byID.Range {
		for _, r := range v.(*hostedTopic).all() {
			if r != nil && !fn(r) {
				return
			}
		}
	}
}
