package metadata

import (
	"bytes"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/kbroker/kbroker/internal/model"
)

// Image is the state of the cluster after some prefix of the metadata log, immutable (M1) and safe for concurrent use.
type Image struct {
	clusterID string
	offset    int64
	epoch     int32

	byName  sortedMap[string, *Topic]
	byID    sortedMap[model.UUID, *Topic]
	brokers []*Broker // sorted by id
	configs sortedMap[ConfigResource, map[string]string]
	// features holds the finalized features with a level above 0.
	features map[string]int16

	partitions      int
	lastIncarnation int64
	lastBrokerEpoch int64
	nextProducerID  int64
}

// Empty returns the image before the first record.
func Empty() *Image {
	return &Image{
		offset:  model.NoOffset,
		epoch:   model.NoEpoch,
		byName:  sortedMap[string, *Topic]{cmp: strings.Compare},
		byID:    sortedMap[model.UUID, *Topic]{cmp: compareUUID},
		configs: sortedMap[ConfigResource, map[string]string]{cmp: ConfigResource.Compare},
	}
}

func compareUUID(a, b model.UUID) int { return bytes.Compare(a[:], b[:]) }

// ClusterID is empty until the cluster was bootstrapped.
func (img *Image) ClusterID() string { return img.clusterID }

// Offset is the position in the metadata log of the last batch applied, -1 for none. Epoch is that batch's leader epoch.
func (img *Image) Offset() int64 { return img.offset }

// Epoch is the leader epoch of the last batch applied, -1 for none.
func (img *Image) Epoch() int32 { return img.epoch }

// Topic returns a topic by name, nil when there is none.
func (img *Image) Topic(name string) *Topic {
	t, _ := img.byName.get(name)
	return t
}

// TopicByID returns a topic by id, nil when there is none.
func (img *Image) TopicByID(id model.UUID) *Topic {
	t, _ := img.byID.get(id)
	return t
}

// Partition returns a partition by name and number, nil when there is none.
func (img *Image) Partition(tp model.TopicPartition) *Partition {
	if t := img.Topic(tp.Topic); t != nil {
		return t.Partition(tp.Partition)
	}
	return nil
}

// AllTopics iterates over all topics in the order of their names.
func (img *Image) AllTopics() iter.Seq[*Topic] { return seconds(img.byName.from(nil)) }

// TopicsFrom iterates over the topics with names at or above start, in order.
func (img *Image) TopicsFrom(start string) iter.Seq[*Topic] { return seconds(img.byName.from(&start)) }

func seconds[K, V any](s iter.Seq2[K, V]) iter.Seq[V] {
	return func(yield func(V) bool) {
		for _, v := range s {
			if !yield(v) {
				return
			}
		}
	}
}

// TopicCount returns the number of topics.
func (img *Image) TopicCount() int { return img.byName.len() }

// PartitionCount returns the number of partitions of all topics.
func (img *Image) PartitionCount() int { return img.partitions }

// Broker returns a registered broker, fenced or not; nil when there is none.
func (img *Image) Broker(id int32) *Broker {
	if i, ok := findBroker(img.brokers, id); ok {
		return img.brokers[i]
	}
	return nil
}

func findBroker(bs []*Broker, id int32) (int, bool) {
	return slices.BinarySearchFunc(bs, id, func(b *Broker, id int32) int { return int(b.ID) - int(id) })
}

// Brokers iterates over all registered brokers by id.
func (img *Image) Brokers() iter.Seq[*Broker] { return slices.Values(img.brokers) }

// BrokerCount returns the number of registered brokers.
func (img *Image) BrokerCount() int { return len(img.brokers) }

// Config returns the overrides of a resource, nil when it has none. The map must not be modified (M1).
func (img *Image) Config(t ResourceType, name string) map[string]string {
	m, _ := img.configs.get(ConfigResource{t, name})
	return m
}

// Configs iterates over all resources with overrides, by type and name. The maps must not be modified (M1).
func (img *Image) Configs() iter.Seq2[ConfigResource, map[string]string] {
	return img.configs.from(nil)
}

// Feature returns the finalized level of a feature, 0 when it is not finalized.
func (img *Image) Feature(name string) int16 { return img.features[name] }

// Features iterates over the finalized features with a level above 0, by name.
func (img *Image) Features() iter.Seq2[string, int16] {
	return func(yield func(string, int16) bool) {
		for _, name := range slices.Sorted(maps.Keys(img.features)) {
			if !yield(name, img.features[name]) {
				return
			}
		}
	}
}

// NextProducerID is the first producer id that no block holds yet.
func (img *Image) NextProducerID() int64 { return img.nextProducerID }

// NextIncarnation is the number to give to replicas that are added by the next batch (M5).
func (img *Image) NextIncarnation() int64 { return img.lastIncarnation + 1 }

// NextBrokerEpoch is the epoch to give to the next registration (M5).
func (img *Image) NextBrokerEpoch() int64 { return img.lastBrokerEpoch + 1 }

// Apply returns the image after a batch of records and what the batch changed. On error there is neither (M6). The
// records belong to the image afterwards.
func (img *Image) Apply(records []Record) (*Image, *Delta, error) {
	b := NewBuilder(img)
	for _, r := range records {
		if err := b.Apply(r); err != nil {
			return nil, nil, err
		}
	}
	next, delta := b.Build()
	return next, delta, nil
}

// Records returns the image as a list of records in an order that can be applied to an empty image (M7). Offset and
// epoch are not part of it.
func (img *Image) Records() iter.Seq[Record] {
	return func(yield func(Record) bool) {
		_ = img.yieldCluster(yield) && img.yieldTopics(yield) && img.yieldConfigs(yield)
	}
}

func (img *Image) yieldCluster(yield func(Record) bool) bool {
	if img.clusterID != "" && !yield(&ClusterRecord{ClusterID: img.clusterID}) {
		return false
	}
	for name, level := range img.Features() {
		if !yield(&FeatureRecord{Name: name, Level: level}) {
			return false
		}
	}
	for _, b := range slices.SortedFunc(img.Brokers(), func(a, b *Broker) int { return compareInt64(a.Epoch, b.Epoch) }) {
		r := &RegisterBrokerRecord{
			ID: b.ID, Epoch: b.Epoch, Incarnation: b.Incarnation, Rack: b.Rack, Listeners: b.Listeners, Features: b.Features,
			LogDirs: b.LogDirs, Fenced: b.Fenced, InControlledShutdown: b.InControlledShutdown,
		}
		if !yield(r) {
			return false
		}
	}
	if img.nextProducerID > 0 && !yield(&ProducerIDsRecord{BrokerID: -1, BrokerEpoch: -1, Next: img.nextProducerID}) {
		return false
	}
	if img.lastIncarnation == 0 && img.lastBrokerEpoch == 0 {
		return true
	}
	return yield(&CountersRecord{LastIncarnation: img.lastIncarnation, LastBrokerEpoch: img.lastBrokerEpoch})
}

func compareInt64(a, b int64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

func (img *Image) yieldTopics(yield func(Record) bool) bool {
	for t := range img.AllTopics() {
		if !yield(&TopicRecord{Name: t.Name, ID: t.ID}) {
			return false
		}
		for i, p := range t.Partitions {
			if !yield(&PartitionRecord{TopicID: t.ID, Index: int32(i), State: *p}) {
				return false
			}
		}
	}
	return true
}

func (img *Image) yieldConfigs(yield func(Record) bool) bool {
	for res, kv := range img.Configs() {
		for _, k := range slices.Sorted(maps.Keys(kv)) {
			v := kv[k]
			if !yield(&ConfigRecord{Resource: res, Key: k, Value: &v}) {
				return false
			}
		}
	}
	return true
}
