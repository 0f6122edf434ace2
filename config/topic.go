package config

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Topic is the effective configuration of one topic: its overrides over the broker's defaults, parsed. It is immutable
// and may be shared. Durations follow the rule of Config: negative is a sentinel, too large is math.MaxInt64.
type Topic struct {
	CleanupDelete, CleanupCompact bool

	// CompressionType is producer, uncompressed, gzip, snappy, lz4 or zstd.
	CompressionType string `key:"compression.type"`
	GzipLevel       int    `key:"compression.gzip.level"` // -1: the codec's default
	LZ4Level        int    `key:"compression.lz4.level"`
	ZstdLevel       int    `key:"compression.zstd.level"`

	DeleteRetention time.Duration `key:"delete.retention.ms"`
	FileDeleteDelay time.Duration `key:"file.delete.delay.ms"`
	FlushInterval   time.Duration `key:"flush.ms"`
	FlushMessages   int64         `key:"flush.messages"`

	IndexIntervalBytes   int32 `key:"index.interval.bytes"`
	MaxMessageBytes      int32 `key:"max.message.bytes"`
	MaxDecompressedBytes int32 `key:"max.decompressed.message.bytes"`

	MaxCompactionLag       time.Duration `key:"max.compaction.lag.ms"`
	MinCompactionLag       time.Duration `key:"min.compaction.lag.ms"`
	MinCleanableDirtyRatio float64       `key:"min.cleanable.dirty.ratio"`

	// TimestampAfterMax and TimestampBeforeMax bound how far a producer's timestamp may lie from the broker's clock.
	TimestampAfterMax  time.Duration `key:"message.timestamp.after.max.ms"`
	TimestampBeforeMax time.Duration `key:"message.timestamp.before.max.ms"`
	// TimestampLogAppend is set when the broker stamps records itself.
	TimestampLogAppend bool

	MinInsyncReplicas     int32 `key:"min.insync.replicas"`
	UncleanLeaderElection bool  `key:"unclean.leader.election.enable"`
	Preallocate           bool  `key:"preallocate"`

	RetentionBytes int64         `key:"retention.bytes"` // -1: no limit
	Retention      time.Duration `key:"retention.ms"`    // negative: no limit

	// SegmentBytes is segment.bytes, or internal.segment.bytes when that is given, which may be smaller than Kafka's minimum
	// of 1 MiB and is meant for tests.
	SegmentBytes      int32         `key:"segment.bytes"`
	SegmentIndexBytes int32         `key:"segment.index.bytes"`
	SegmentAge        time.Duration `key:"segment.ms"`
	SegmentJitter     time.Duration `key:"segment.jitter.ms"`

	// LeaderThrottledReplicas and FollowerThrottledReplicas hold "*" or pairs partition:broker.
	LeaderThrottledReplicas   []string `key:"leader.replication.throttled.replicas"`
	FollowerThrottledReplicas []string `key:"follower.replication.throttled.replicas"`
}

// Topic returns the effective configuration of a topic with these overrides, which may be nil: then all topics share
// one value. An unknown name or a bad value is an InvalidError with Kafka's text; overrides that were once accepted by
// ValidateTopic never fail here.
func (c *Config) Topic(overrides map[string]string) (*Topic, error) {
	if len(overrides) == 0 && c.topic != nil {
		return c.topic, nil
	}
	if err := checkNames(topicKeys, "topic", overrides); err != nil {
		return nil, err
	}
	return c.buildTopic(overrides)
}

func (c *Config) buildTopic(overrides map[string]string) (*Topic, error) {
	t := &Topic{}
	get := func(name string) (value, error) {
		k := topicKeys.byName[name]
		text := c.topicDefault(k).Value
		if own, ok := overrides[name]; ok {
			text = &own
		}
		return parseValue(k, text)
	}
	if err := setFields(t, topicKeys, get); err != nil {
		return nil, err
	}
	policy, err := get("cleanup.policy")
	if err != nil {
		return nil, err
	}
	t.CleanupCompact = slices.Contains(policy.list, "compact")
	t.CleanupDelete = slices.Contains(policy.list, "delete")
	stamp, err := get("message.timestamp.type")
	if err != nil {
		return nil, err
	}
	t.TimestampLogAppend = stamp.text == "LogAppendTime"
	small, err := get("internal.segment.bytes")
	if err != nil {
		return nil, err
	}
	if !small.null {
		t.SegmentBytes = int32(small.num)
	}
	remote, err := get("remote.storage.enable")
	if err != nil {
		return nil, err
	}
	if remote.flag {
		return nil, invalidf("Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote log storage.")
	}
	return t, checkTopic(t)
}

// checkTopic holds the rules between keys of a topic.
func checkTopic(t *Topic) error {
	if t.MinCompactionLag > t.MaxCompactionLag {
		return invalidf("conflict topic config setting min.compaction.lag.ms (%d) > max.compaction.lag.ms (%d)",
			t.MinCompactionLag.Milliseconds(), t.MaxCompactionLag.Milliseconds())
	}
	return nil
}

// checkNames refuses names that the resource does not have, the first in alphabetical order.
func checkNames[V any](t *table, resource string, configs map[string]V) error {
	for _, name := range slices.Sorted(maps.Keys(configs)) {
		if t.byName[name] == nil {
			return invalidf("Unknown %s config name: %s", resource, name)
		}
	}
	return nil
}

// topicDefault returns what a topic without an override has for k: the strongest broker synonym that has a value, in the
// topic key's unit. Of log.retention.ms, .minutes and .hours the first that is not null counts, wherever it comes from.
func (c *Config) topicDefault(k *Key) Synonym {
	for _, name := range k.Synonyms {
		text, source := c.layers.effective(name)
		if text == nil {
			continue
		}
		converted := convertUnit(name, k.Name, *text)
		if k.Name == "retention.ms" && strings.HasPrefix(converted, "-") {
			converted = "-1" // brokers take any negative number for "no limit", topics only this one
		}
		return Synonym{Name: name, Value: &converted, Source: source}
	}
	return Synonym{Name: k.Name, Value: k.Default, Source: kmsg.ConfigSourceDefaultConfig}
}

// convertUnit turns the text of one key into the unit of another: hours, minutes and seconds become milliseconds. A
// negative number is a sentinel and stays, and so does a text that is no number, which its own key's check reports.
func convertUnit(from, to, text string) string {
	f, t := unitOf(from), unitOf(to)
	n, err := strconv.ParseInt(text, 10, 64)
	if f <= t || t == 0 || err != nil || n < 0 {
		return text
	}
	return strconv.FormatInt(saturatingMul(n, int64(f/t)), 10)
}
