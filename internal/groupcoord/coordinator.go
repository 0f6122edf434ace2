package groupcoord

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"go.uber.org/zap"

	"github.com/kbroker/kbroker/config"
	"github.com/kbroker/kbroker/internal/coordrt"
	"github.com/kbroker/kbroker/internal/metadata"
	"github.com/kbroker/kbroker/internal/model"
	"github.com/kbroker/kbroker/protocol/record"
)

// Topics is what the coordinator needs to know of the cluster's topics. Methods are called often and from many goroutines.
type Topics interface {
	// Name returns the name of a topic, empty when there is none of that id.
	Name(id model.UUID) string
	// ID returns the id of a topic, zero when there is none of that name.
	ID(name string) model.UUID
	// Has reports whether a topic has a partition.
	Has(name string, partition int32) bool
}

// ImageTopics returns the topics of the image that image returns.
func ImageTopics(image func() *metadata.Image) Topics { return imageTopics{image} }

type imageTopics struct{ image func() *metadata.Image }

func (t imageTopics) Name(id model.UUID) string {
	if topic := t.image().TopicByID(id); topic != nil {
		return topic.Name
	}
	return ""
}

func (t imageTopics) ID(name string) model.UUID {
	if topic := t.image().Topic(name); topic != nil {
		return topic.ID
	}
	return model.UUID{}
}

func (t imageTopics) Has(name string, partition int32) bool {
	return t.image().Partition(model.TopicPartition{Topic: name, Partition: partition}) != nil
}

// Verifier asks the transaction coordinator whether a producer's transaction is open and includes a partition of the
// offsets topic, before offsets are made part of it. With add set, the partition is added when it is missing (KIP-890).
type Verifier interface {
	Verify(ctx context.Context, tp model.TopicPartition, transactionalID string, producer coordrt.Producer, add bool) error
}

// Options configures a Coordinator.
type Options struct {
	Log     coordrt.Log
	Groups  config.Groups
	Offsets config.Offsets
	Topics  Topics
	// Partitions returns how many partitions the offsets topic has, or will have when it is made.
	Partitions func() int32
	// Verifier may be nil; then every producer is believed.
	Verifier Verifier
	Logger   *zap.Logger
	// NewMemberID makes a unique member id that begins with the given text. Default: as Kafka, the text, a dash and a
	// random UUID. It is called from several goroutines.
	NewMemberID func(prefix string) string
}

// EnsureDefaults fills what was left out.
func (o *Options) EnsureDefaults() {
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	if o.NewMemberID == nil {
		o.NewMemberID = randomMemberID
	}
}

// Validate reports everything that is wrong at once.
func (o *Options) Validate() error {
	var errs []error
	if o.Log == nil || o.Topics == nil || o.Partitions == nil {
		errs = append(errs, errors.New("group coordinator: log, topics and number of partitions are needed"))
	}
	if o.Groups.MaxSize < 1 || o.Offsets.CheckInterval <= 0 {
		errs = append(errs, errors.New("group coordinator: group.max.size and offsets.retention.check.interval.ms must be positive"))
	}
	return errors.Join(errs...)
}

func randomMemberID(prefix string) string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // documented never to fail
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	return fmt.Sprintf("%s-%x-%x-%x-%x-%x", prefix, b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// Coordinator serves the group requests of clients for the partitions of the offsets topic that this broker leads. Groups
// of other partitions are answered with NOT_COORDINATOR. Safe for concurrent use.
type Coordinator struct {
	opts  Options
	rt    *coordrt.Runtime[*Shard]
	stats ShardStats
}

// New returns a coordinator that leads no partition yet.
func New(o Options) (*Coordinator, error) {
	o.EnsureDefaults()
	if err := o.Validate(); err != nil {
		return nil, err
	}
	c := &Coordinator{opts: o}
	rt, err := coordrt.New(coordrt.Options[*Shard]{
		Topic: model.GroupMetadataTopic, Log: o.Log, NewShard: c.newShard, Logger: o.Logger,
		Workers: int(o.Groups.Threads), CommitTimeout: o.Offsets.CommitTimeout, LoadBytes: int(o.Offsets.LoadBuffer),
		Codec: record.Codec(o.Offsets.Codec),
	})
	if err != nil {
		return nil, err
	}
	c.rt = rt
	return c, nil
}

func (c *Coordinator) newShard(_ int32, timers *coordrt.Timers) *Shard {
	return NewShard(ShardOptions{Groups: c.opts.Groups, Offsets: c.opts.Offsets, NewMemberID: c.opts.NewMemberID,
		Logger: c.opts.Logger, Stats: &c.stats}, timers)
}

// Run works until ctx ends. It may be called once. When it returns, every request was answered.
func (c *Coordinator) Run(ctx context.Context) error { return c.rt.Run(ctx) }

// Elected tells that this broker leads a partition of the offsets topic in a leader epoch. It does not wait.
func (c *Coordinator) Elected(partition, leaderEpoch int32) { c.rt.Elected(partition, leaderEpoch) }

// Resigned tells that this broker does not lead a partition of the offsets topic as of a leader epoch; -1 when the
// partition is gone. It does not wait.
func (c *Coordinator) Resigned(partition, leaderEpoch int32) { c.rt.Resigned(partition, leaderEpoch) }

// TopicsDeleted deletes the offsets of topics that are gone. It does not wait.
func (c *Coordinator) TopicsDeleted(topics []DeletedTopic) {
	if len(topics) == 0 {
		return
	}
	for _, p := range c.rt.Partitions() {
		c.rt.Post(p, postTopicsDeleted(topics))
	}
}

// PartitionFor returns the partition of the offsets topic that a group belongs to; its leader is the group's coordinator.
func (c *Coordinator) PartitionFor(group string) int32 {
	return partitionFor(group, max(c.opts.Partitions(), 1))
}

// Stats returns a snapshot. It does not wait for any request.
func (c *Coordinator) Stats() Stats {
	s := c.stats.snapshot()
	s.Runtime = c.rt.Stats()
	return s
}
