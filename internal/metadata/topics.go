package metadata

import (
	"slices"

	"github.com/kbroker/kbroker/internal/model"
)

// The part of Builder that deals with topics and partitions.

// edit returns the topic with that id for writing: the first touch in a batch copies its list of partition pointers.
func (b *Builder) edit(id model.UUID) (*topicEdit, error) {
	if e := b.topics[id]; e != nil {
		if e.topic == nil {
			return nil, mismatch("topic %s was deleted in the same batch", id)
		}
		return e, nil
	}
	old := b.next.TopicByID(id)
	if old == nil {
		return nil, mismatch("topic %s does not exist", id)
	}
	c := *old
	c.Partitions = slices.Clone(old.Partitions)
	return b.begin(old, &c), nil
}

// begin enters a topic that this batch owns into both trees.
func (b *Builder) begin(old, t *Topic) *topicEdit {
	e := &topicEdit{old: old, topic: t}
	if b.topics == nil {
		b.topics = map[model.UUID]*topicEdit{}
	}
	b.topics[t.ID] = e
	b.order = append(b.order, e)
	b.next.byName = b.next.byName.put(b.token, t.Name, t)
	b.next.byID = b.next.byID.put(b.token, t.ID, t)
	return e
}

func (b *Builder) topic(r *TopicRecord) error {
	if r.Name == "" || r.ID.IsZero() {
		return mismatch("topic %q with id %s", r.Name, r.ID)
	}
	if t := b.next.Topic(r.Name); t != nil {
		return mismatch("topic %s with id %s: the name belongs to %s", r.Name, r.ID, t.ID)
	}
	if b.next.TopicByID(r.ID) != nil || b.topics[r.ID] != nil {
		return mismatch("topic %s with id %s: the id is taken", r.Name, r.ID)
	}
	b.begin(nil, &Topic{Name: r.Name, ID: r.ID})
	return nil
}

func (b *Builder) removeTopic(r *RemoveTopicRecord) error {
	e, err := b.edit(r.ID)
	if err != nil {
		return err
	}
	t := e.topic
	e.topic = nil
	b.next.partitions -= len(t.Partitions)
	b.next.byName = b.next.byName.remove(b.token, t.Name)
	b.next.byID = b.next.byID.remove(b.token, t.ID)
	res := ConfigResource{ResourceTopic, t.Name}
	if b.next.Config(res.Type, res.Name) != nil {
		if b.configs == nil {
			b.configs = map[ConfigResource]bool{}
		}
		b.configs[res] = false
		b.next.configs = b.next.configs.remove(b.token, res)
	}
	return nil
}

func (b *Builder) partition(r *PartitionRecord) error {
	e, err := b.edit(r.TopicID)
	if err != nil {
		return err
	}
	if int(r.Index) != len(e.topic.Partitions) {
		return mismatch("partition %s-%d: the next one is %d", e.topic.Name, r.Index, len(e.topic.Partitions))
	}
	p := r.State
	if err := b.finish(e, r.Index, &p); err != nil {
		return err
	}
	e.topic.Partitions = append(e.topic.Partitions, &p)
	b.next.partitions++
	return nil
}

func (b *Builder) changePartition(r *PartitionChangeRecord) error {
	e, err := b.edit(r.TopicID)
	if err != nil {
		return err
	}
	old := e.topic.Partition(r.Index)
	if old == nil {
		return mismatch("partition %s-%d does not exist", e.topic.Name, r.Index)
	}
	p := *old
	r.changeLists(&p)
	p.PartitionEpoch++
	if r.Leader != NoLeaderChange {
		p.Leader = r.Leader
		p.LeaderEpoch++
	}
	if r.Recovering != nil {
		p.Recovering = *r.Recovering
	}
	if err := b.finish(e, r.Index, &p); err != nil {
		return err
	}
	e.topic.Partitions[r.Index] = &p
	return nil
}

func (r *PartitionChangeRecord) changeLists(p *Partition) {
	for _, x := range []struct {
		from []int32
		to   *[]int32
	}{
		{r.Replicas, &p.Replicas}, {r.ISR, &p.ISR}, {r.Adding, &p.Adding}, {r.Removing, &p.Removing},
		{r.ELR, &p.ELR}, {r.LastKnownELR, &p.LastKnownELR},
	} {
		if x.from != nil {
			*x.to = x.from
		}
	}
	if r.Directories != nil {
		p.Directories = r.Directories
	}
	if r.Incarnations != nil {
		p.Incarnations = r.Incarnations
	}
}

// finish checks M3 and what every reader relies on, shares equal lists to save memory, and raises the counter of M5.
func (b *Builder) finish(e *topicEdit, index int32, p *Partition) error {
	n := len(p.Replicas)
	if n == 0 || len(p.Directories) != n || len(p.Incarnations) != n {
		return mismatch("partition %s-%d has %d replicas, %d directories and %d incarnations",
			e.topic.Name, index, n, len(p.Directories), len(p.Incarnations))
	}
	for i, r := range p.Replicas {
		if r < 0 || slices.Contains(p.Replicas[:i], r) {
			return mismatch("partition %s-%d has replicas %v", e.topic.Name, index, p.Replicas)
		}
	}
	for _, s := range [][]int32{p.ISR, p.Adding, p.Removing, p.ELR, p.LastKnownELR} {
		for _, r := range s {
			if !slices.Contains(p.Replicas, r) {
				return mismatch("partition %s-%d: %v is not among its replicas %v", e.topic.Name, index, s, p.Replicas)
			}
		}
	}
	if p.Leader != model.NoLeader && !slices.Contains(p.ISR, p.Leader) {
		return mismatch("partition %s-%d: leader %d is not in its ISR %v", e.topic.Name, index, p.Leader, p.ISR)
	}
	if slices.Equal(p.ISR, p.Replicas) {
		p.ISR = p.Replicas
	}
	for _, i := range p.Incarnations {
		if i < 1 {
			return mismatch("partition %s-%d has incarnation %d", e.topic.Name, index, i)
		}
		b.next.lastIncarnation = max(b.next.lastIncarnation, i)
	}
	e.changed = append(e.changed, index)
	return nil
}
