package metadata

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/kbroker/kbroker/internal/model"
)

// ErrMismatch is in the chain of Apply's error when a record does not fit the image (M6).
var ErrMismatch = errors.New("record does not fit the cluster image")

// Builder makes the next image from records. It is for one goroutine and for one use: after an error, or after Build,
// it must be dropped.
type Builder struct {
	next     Image
	oldImage *Image
	token    *editToken
	topics   map[model.UUID]*topicEdit
	// order keeps the result independent of map order.
	order     []*topicEdit
	configs   map[ConfigResource]bool // true when this batch owns the map and may write into it
	brokers   []int32
	features  []string
	producers bool
}

// topicEdit is a topic that this batch has touched.
type topicEdit struct {
	old, topic *Topic // old is nil for a new topic, topic for a deleted one
	changed    []int32
}

// NewBuilder begins a batch on top of img.
func NewBuilder(img *Image) *Builder {
	return &Builder{oldImage: img, next: *img, token: new(editToken)}
}

// SetPosition sets the offset and leader epoch of the image to be built.
func (b *Builder) SetPosition(offset int64, epoch int32) { b.next.offset, b.next.epoch = offset, epoch }

// Apply adds one record to the batch. Its error wraps ErrMismatch and names what the record is about.
func (b *Builder) Apply(r Record) error {
	var err error
	switch r := r.(type) {
	case *ClusterRecord:
		err = b.cluster(r)
	case *CountersRecord:
		b.next.lastIncarnation = max(b.next.lastIncarnation, r.LastIncarnation)
		b.next.lastBrokerEpoch = max(b.next.lastBrokerEpoch, r.LastBrokerEpoch)
	case *FeatureRecord:
		err = b.feature(r)
	case *RegisterBrokerRecord:
		err = b.registerBroker(r)
	case *BrokerChangeRecord:
		err = b.changeBroker(r)
	case *UnregisterBrokerRecord:
		err = b.unregisterBroker(r)
	case *TopicRecord:
		err = b.topic(r)
	case *PartitionRecord:
		err = b.partition(r)
	case *PartitionChangeRecord:
		err = b.changePartition(r)
	case *RemoveTopicRecord:
		err = b.removeTopic(r)
	case *ConfigRecord:
		b.config(r)
	case *ProducerIDsRecord:
		err = b.producerIDs(r)
	default:
		err = mismatch("record of type %T", r)
	}
	return err
}

func mismatch(format string, args ...any) error {
	return fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), ErrMismatch)
}

// Build returns the image and what changed.
func (b *Builder) Build() (*Image, *Delta) {
	img := b.next
	d := &Delta{Old: b.oldImage, New: &img, ProducerIDs: b.producers}
	for _, e := range b.order {
		if e.old == nil && e.topic == nil {
			continue // created and deleted in this very batch
		}
		slices.Sort(e.changed)
		t := TopicDelta{Old: e.old, New: e.topic, Partitions: slices.Compact(e.changed)}
		if e.topic == nil {
			t.Partitions = nil
		}
		d.Topics = append(d.Topics, t)
	}
	sortTopics(d.Topics)
	for res := range b.configs {
		d.Configs = append(d.Configs, res)
	}
	slices.SortFunc(d.Configs, ConfigResource.Compare)
	slices.Sort(b.brokers)
	d.Brokers = slices.Compact(b.brokers)
	slices.Sort(b.features)
	d.Features = slices.Compact(b.features)
	return &img, d
}

func (b *Builder) cluster(r *ClusterRecord) error {
	if r.ClusterID == "" || b.next.clusterID != "" && b.next.clusterID != r.ClusterID {
		return mismatch("cluster %q becomes %q", b.next.clusterID, r.ClusterID)
	}
	b.next.clusterID = r.ClusterID
	return nil
}

func (b *Builder) feature(r *FeatureRecord) error {
	if r.Name == "" || r.Level < 0 {
		return mismatch("feature %q at level %d", r.Name, r.Level)
	}
	if len(b.features) == 0 {
		b.next.features = maps.Clone(b.next.features)
		if b.next.features == nil {
			b.next.features = map[string]int16{}
		}
	}
	b.features = append(b.features, r.Name)
	if r.Level == 0 {
		delete(b.next.features, r.Name)
	} else {
		b.next.features[r.Name] = r.Level
	}
	return nil
}

// editBrokers returns the list of brokers for writing.
func (b *Builder) editBrokers(id int32) {
	if len(b.brokers) == 0 {
		b.next.brokers = slices.Clone(b.next.brokers)
	}
	b.brokers = append(b.brokers, id)
}

func (b *Builder) registerBroker(r *RegisterBrokerRecord) error {
	i, known := findBroker(b.next.brokers, r.ID)
	if r.ID < 0 || r.Epoch <= b.next.lastBrokerEpoch {
		return mismatch("registration of broker %d with epoch %d, last epoch given %d", r.ID, r.Epoch, b.next.lastBrokerEpoch)
	}
	b.editBrokers(r.ID)
	br := &Broker{
		ID: r.ID, Epoch: r.Epoch, Incarnation: r.Incarnation, Rack: r.Rack, Listeners: r.Listeners, Features: r.Features,
		LogDirs: r.LogDirs, Fenced: r.Fenced, InControlledShutdown: r.InControlledShutdown,
	}
	b.next.lastBrokerEpoch = max(b.next.lastBrokerEpoch, r.Epoch)
	if known {
		b.next.brokers[i] = br
	} else {
		b.next.brokers = slices.Insert(b.next.brokers, i, br)
	}
	return nil
}

// registered finds the registration that a record speaks of.
func (b *Builder) registered(id int32, epoch int64) (int, error) {
	i, known := findBroker(b.next.brokers, id)
	if !known {
		return 0, mismatch("broker %d is not registered", id)
	}
	if e := b.next.brokers[i].Epoch; e != epoch {
		return 0, mismatch("broker %d has epoch %d, not %d", id, e, epoch)
	}
	return i, nil
}

func (b *Builder) changeBroker(r *BrokerChangeRecord) error {
	i, err := b.registered(r.ID, r.Epoch)
	if err != nil {
		return err
	}
	b.editBrokers(r.ID)
	br := *b.next.brokers[i]
	if r.Fenced != nil {
		br.Fenced = *r.Fenced
	}
	if r.InControlledShutdown != nil {
		br.InControlledShutdown = *r.InControlledShutdown
	}
	if r.LogDirs != nil {
		br.LogDirs = r.LogDirs
	}
	b.next.brokers[i] = &br
	return nil
}

func (b *Builder) unregisterBroker(r *UnregisterBrokerRecord) error {
	i, err := b.registered(r.ID, r.Epoch)
	if err != nil {
		return err
	}
	b.editBrokers(r.ID)
	b.next.brokers = slices.Delete(b.next.brokers, i, i+1)
	return nil
}

func (b *Builder) config(r *ConfigRecord) {
	kv := b.next.Config(r.Resource.Type, r.Resource.Name)
	if !b.configs[r.Resource] {
		if b.configs == nil {
			b.configs = map[ConfigResource]bool{}
		}
		b.configs[r.Resource] = true
		kv = maps.Clone(kv)
	}
	if kv == nil {
		kv = map[string]string{}
	}
	if r.Value == nil {
		delete(kv, r.Key)
	} else {
		kv[r.Key] = *r.Value
	}
	if len(kv) == 0 {
		b.configs[r.Resource] = false // the next record of it starts from nothing
		b.next.configs = b.next.configs.remove(b.token, r.Resource)
		return
	}
	b.next.configs = b.next.configs.put(b.token, r.Resource, kv)
}

func (b *Builder) producerIDs(r *ProducerIDsRecord) error {
	if r.Next <= b.next.nextProducerID {
		return mismatch("producer ids below %d handed out, but those below %d already were", r.Next, b.next.nextProducerID)
	}
	b.next.nextProducerID, b.producers = r.Next, true
	return nil
}
