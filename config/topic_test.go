package config

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestTopicWithKafkasDefaults(t *testing.T) {
	topic, err := Default().Topic(nil)
	require.NoError(t, err)
	require.Equal(t, &Topic{
		CleanupDelete: true, CompressionType: "producer", GzipLevel: -1, LZ4Level: 9, ZstdLevel: 3,
		DeleteRetention: 24 * time.Hour, FileDeleteDelay: time.Minute, FlushInterval: math.MaxInt64, FlushMessages: math.MaxInt64,
		IndexIntervalBytes: 4096, MaxMessageBytes: 1048588, MaxDecompressedBytes: 2147483639, MaxCompactionLag: math.MaxInt64,
		MinCleanableDirtyRatio: 0.5, TimestampAfterMax: time.Hour, TimestampBeforeMax: math.MaxInt64, MinInsyncReplicas: 1,
		RetentionBytes: -1, Retention: 7 * 24 * time.Hour, SegmentBytes: 1 << 30, SegmentIndexBytes: 10 << 20,
		SegmentAge: 7 * 24 * time.Hour,
	}, topic)
	again, err := Default().Topic(map[string]string{})
	require.NoError(t, err)
	require.Equal(t, topic, again)
}

func TestTopicsWithoutOverridesShareOneValue(t *testing.T) {
	c := Default()
	a, err := c.Topic(nil)
	require.NoError(t, err)
	b, err := c.Topic(map[string]string{})
	require.NoError(t, err)
	require.Same(t, a, b)
}

func TestTopicOverrides(t *testing.T) {
	topic, err := Default().Topic(map[string]string{
		"cleanup.policy": "compact, delete", "retention.ms": "-1", "segment.bytes": "2000000", "compression.type": "zstd",
		"message.timestamp.type": "LogAppendTime", "leader.replication.throttled.replicas": "0:1,1:2", "preallocate": "true",
		"min.cleanable.dirty.ratio": "0.01", "delete.retention.ms": "9223372036854775807", "unclean.leader.election.enable": "TRUE",
	})
	require.NoError(t, err)
	require.True(t, topic.CleanupCompact && topic.CleanupDelete && topic.TimestampLogAppend && topic.Preallocate)
	require.True(t, topic.UncleanLeaderElection)
	require.Equal(t, time.Duration(-1), topic.Retention)
	require.EqualValues(t, 2000000, topic.SegmentBytes)
	require.Equal(t, "zstd", topic.CompressionType)
	require.Equal(t, []string{"0:1", "1:2"}, topic.LeaderThrottledReplicas)
	require.Equal(t, time.Duration(math.MaxInt64), topic.DeleteRetention)
	require.InDelta(t, 0.01, topic.MinCleanableDirtyRatio, 0)

	nothing, err := Default().Topic(map[string]string{"cleanup.policy": ""})
	require.NoError(t, err)
	require.False(t, nothing.CleanupCompact || nothing.CleanupDelete)

	small, err := Default().Topic(map[string]string{"internal.segment.bytes": "100", "segment.bytes": "2000000"})
	require.NoError(t, err)
	require.EqualValues(t, 100, small.SegmentBytes)
}

func TestTopicsThatAreRefused(t *testing.T) {
	c := Default()
	for _, tc := range []struct {
		overrides map[string]string
		want      string
	}{
		{map[string]string{"prefix": "x"}, "Unknown topic config name: prefix"},
		{map[string]string{"retention.ms": "soon"}, "Invalid value soon for configuration retention.ms: Not a number of type LONG"},
		{map[string]string{"remote.storage.enable": "true"}, "Tiered Storage functionality is disabled in the broker." +
			" Topic cannot be configured with remote log storage."},
		{map[string]string{"min.compaction.lag.ms": "7", "max.compaction.lag.ms": "6"},
			"conflict topic config setting min.compaction.lag.ms (7) > max.compaction.lag.ms (6)"},
	} {
		for _, err := range []error{c.ValidateTopic(tc.overrides), topicError(c, tc.overrides)} {
			require.EqualError(t, err, tc.want)
			require.ErrorIs(t, err, kerr.InvalidConfig)
		}
	}
	require.NoError(t, c.ValidateTopic(nil))
	require.EqualError(t, NullTopicConfig("retention.ms"), "Null value not supported for topic configs: retention.ms")
}

func topicError(c *Config, overrides map[string]string) error {
	_, err := c.Topic(overrides)
	return err
}

// Of the keys in several units the finest that is set counts.
func TestUnitsOfTopicDefaults(t *testing.T) {
	for _, tc := range []struct {
		overrides []string
		pick      func(*Topic) time.Duration
		want      time.Duration
	}{
		{[]string{"log.retention.hours=2"}, retention, 2 * time.Hour},
		{[]string{"log.retention.hours=2", "log.retention.minutes=3"}, retention, 3 * time.Minute},
		{[]string{"log.retention.hours=2", "log.retention.minutes=3", "log.retention.ms=4"}, retention, 4 * time.Millisecond},
		{[]string{"log.retention.hours=-1"}, retention, -1},
		{[]string{"log.retention.minutes=-5"}, retention, -1},
		{[]string{"log.retention.ms=-2"}, retention, -1},
		{[]string{"log.retention.hours=2147483647"}, retention, math.MaxInt64},
		{[]string{"log.roll.hours=5"}, func(t *Topic) time.Duration { return t.SegmentAge }, 5 * time.Hour},
		{[]string{"log.roll.hours=5", "log.roll.ms=6"}, func(t *Topic) time.Duration { return t.SegmentAge }, 6 * time.Millisecond},
		{[]string{"log.roll.jitter.hours=1"}, func(t *Topic) time.Duration { return t.SegmentJitter }, time.Hour},
		{[]string{"log.flush.scheduler.interval.ms=8"}, func(t *Topic) time.Duration { return t.FlushInterval }, 8 * time.Millisecond},
		{[]string{"log.flush.interval.ms=9"}, func(t *Topic) time.Duration { return t.FlushInterval }, 9 * time.Millisecond},
	} {
		c, _ := load(t, Options{Overrides: tc.overrides})
		topic, err := c.Topic(nil)
		require.NoError(t, err)
		require.Equal(t, tc.want, tc.pick(topic), tc.overrides)
	}
}

func retention(t *Topic) time.Duration { return t.Retention }

func TestTopicFollowsDynamicDefaults(t *testing.T) {
	c, problems := Default().WithDynamic(
		map[string]string{"log.retention.ms": "1000", "min.insync.replicas": "2", "compression.type": "lz4"},
		map[string]string{"log.retention.ms": "2000"})
	require.Empty(t, problems)
	topic, err := c.Topic(map[string]string{"compression.type": "gzip"})
	require.NoError(t, err)
	require.Equal(t, 2*time.Second, topic.Retention)
	require.EqualValues(t, 2, topic.MinInsyncReplicas)
	require.Equal(t, "gzip", topic.CompressionType)

	for _, e := range c.DescribeTopic(map[string]string{"compression.type": "gzip"}) {
		switch e.Name {
		case "retention.ms":
			require.Equal(t, "2000", *e.Value)
			require.Equal(t, kmsg.ConfigSourceDynamicBrokerConfig, e.Source)
			require.Len(t, e.Synonyms, 3)
		case "compression.type":
			require.Equal(t, kmsg.ConfigSourceDynamicTopicConfig, e.Source)
			require.Len(t, e.Synonyms, 3)
		}
	}
}
