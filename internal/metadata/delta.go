package metadata

import (
	"slices"
	"strings"

	"github.com/kbroker/kbroker/internal/model"
)

// TopicDelta tells how one topic differs between two images. A topic that was deleted and created again under its name
// has two ids and so two of them, the deleted one first.
type TopicDelta struct {
	// Old is nil when the topic is new, New when it is gone. They are never both nil.
	Old, New *Topic
	// Partitions lists the changed and the new partitions in order; empty when the topic is gone.
	Partitions []int32
}

// Topic returns the topic's new value, or the last one when it is gone.
func (d *TopicDelta) Topic() *Topic {
	if d.New != nil {
		return d.New
	}
	return d.Old
}

// Delta tells what changed from Old to New. All lists are sorted and free of duplicates. A thing that was changed and
// changed back may be listed.
type Delta struct {
	Old, New *Image
	Topics   []TopicDelta
	Configs  []ConfigResource
	Brokers  []int32
	Features []string
	// ProducerIDs is set when a block of producer ids was handed out.
	ProducerIDs bool
}

// IsEmpty reports whether nothing changed.
func (d *Delta) IsEmpty() bool {
	return len(d.Topics) == 0 && len(d.Configs) == 0 && len(d.Brokers) == 0 && len(d.Features) == 0 && !d.ProducerIDs
}

// Merge returns the change from d.Old to next.New. next must begin where d ends: d.New == next.Old.
func (d *Delta) Merge(next *Delta) *Delta {
	m := &Delta{
		Old:         d.Old,
		New:         next.New,
		Configs:     union(d.Configs, next.Configs, ConfigResource.Compare),
		Brokers:     union(d.Brokers, next.Brokers, compareInt32),
		Features:    union(d.Features, next.Features, strings.Compare),
		ProducerIDs: d.ProducerIDs || next.ProducerIDs,
	}
	byID := make(map[model.UUID]int, len(d.Topics))
	m.Topics = slices.Clone(d.Topics)
	for i := range m.Topics {
		byID[m.Topics[i].Topic().ID] = i
	}
	for _, t := range next.Topics {
		i, known := byID[t.Topic().ID]
		if !known {
			m.Topics = append(m.Topics, t)
			continue
		}
		have := &m.Topics[i]
		have.New, have.Partitions = t.New, union(have.Partitions, t.Partitions, compareInt32)
		if t.New == nil {
			have.Partitions = nil
		}
	}
	// Created in the first half and deleted in the second: nobody has to know.
	m.Topics = slices.DeleteFunc(m.Topics, func(t TopicDelta) bool { return t.Old == nil && t.New == nil })
	sortTopics(m.Topics)
	return m
}

// Diff compares two images of any history, as after the installation of a snapshot. Equal pointers count as equal, so
// the cost is that of walking both.
func Diff(from, to *Image) *Delta {
	d := &Delta{Old: from, New: to, ProducerIDs: from.nextProducerID != to.nextProducerID}
	for id, o := range from.byID.from(nil) {
		n := to.TopicByID(id)
		if n != o {
			d.Topics = append(d.Topics, TopicDelta{Old: o, New: n, Partitions: changedPartitions(o, n)})
		}
	}
	for id, n := range to.byID.from(nil) {
		if from.TopicByID(id) == nil {
			d.Topics = append(d.Topics, TopicDelta{New: n, Partitions: changedPartitions(nil, n)})
		}
	}
	sortTopics(d.Topics)
	d.diffRest(from, to)
	return d
}

func changedPartitions(o, n *Topic) []int32 {
	if n == nil {
		return nil
	}
	var changed []int32
	for i, p := range n.Partitions {
		if o == nil || i >= len(o.Partitions) || !samePartition(o.Partitions[i], p) {
			changed = append(changed, int32(i))
		}
	}
	return changed
}

// samePartition relies on M4: within one topic id, equal epochs are equal values.
func samePartition(a, b *Partition) bool {
	return a == b || a.PartitionEpoch == b.PartitionEpoch && a.LeaderEpoch == b.LeaderEpoch
}

// diffRest compares what is small enough not to need cleverness.
func (d *Delta) diffRest(from, to *Image) {
	for _, b := range from.brokers {
		if to.Broker(b.ID) != b {
			d.Brokers = append(d.Brokers, b.ID)
		}
	}
	for _, b := range to.brokers {
		if from.Broker(b.ID) == nil {
			d.Brokers = append(d.Brokers, b.ID)
		}
	}
	slices.Sort(d.Brokers)
	for _, side := range []*Image{from, to} {
		for res, kv := range side.Configs() {
			if !mapsEqual(from.Config(res.Type, res.Name), to.Config(res.Type, res.Name)) && (side == from || len(kv) > 0) {
				d.Configs = append(d.Configs, res)
			}
		}
		for name := range side.Features() {
			if from.Feature(name) != to.Feature(name) {
				d.Features = append(d.Features, name)
			}
		}
	}
	slices.SortFunc(d.Configs, ConfigResource.Compare)
	d.Configs = slices.Compact(d.Configs)
	slices.Sort(d.Features)
	d.Features = slices.Compact(d.Features)
}

func mapsEqual(a, b map[string]string) bool {
	if len(a) != len(b) {
		return false
	}
	for k, v := range a {
		if w, ok := b[k]; !ok || v != w {
			return false
		}
	}
	return true
}

// sortTopics orders by name, a deleted topic before its namesake.
func sortTopics(ts []TopicDelta) {
	slices.SortFunc(ts, func(a, b TopicDelta) int {
		if c := strings.Compare(a.Topic().Name, b.Topic().Name); c != 0 {
			return c
		}
		if (a.New == nil) != (b.New == nil) {
			if a.New == nil {
				return -1
			}
			return 1
		}
		at, bt := a.Topic(), b.Topic()
		return compareUUID(at.ID, bt.ID)
	})
}

func compareInt32(a, b int32) int { return int(a) - int(b) }

// union merges two sorted lists.
func union[T comparable](a, b []T, cmp func(x, y T) int) []T {
	if len(b) == 0 {
		return a
	}
	u := append(slices.Clone(a), b...)
	slices.SortFunc(u, cmp)
	return slices.Compact(u)
}
