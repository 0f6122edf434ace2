package config

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestDynamicConfigsLieOverTheFile(t *testing.T) {
	c, _ := load(t, Options{Overrides: []string{"log.cleaner.threads=2", "num.partitions=4"}})
	next, problems := c.WithDynamic(map[string]string{"log.cleaner.threads": "3"}, map[string]string{"log.cleaner.threads": "5"})
	require.Empty(t, problems)
	require.EqualValues(t, 2, c.Cleaner.Threads, "the old one does not change")
	require.EqualValues(t, 5, next.Cleaner.Threads)
	require.EqualValues(t, 4, next.Topics.Partitions)
	require.Equal(t, c.Node, next.Node)

	back, problems := next.WithDynamic(nil, nil)
	require.Empty(t, problems)
	require.EqualValues(t, 2, back.Cleaner.Threads)
	require.Equal(t, c.layers.static, back.layers.static)
}

func TestDynamicConfigsThatCannotBeUsedAreLeftOut(t *testing.T) {
	c := Default()
	next, problems := c.WithDynamic(
		map[string]string{"log.cleaner.threads": "x", "num.partitions": "3", "log.retention.ms": "5", "listeners": "PLAINTEXT://:1"},
		map[string]string{"plugin.key": "kept"})
	require.Len(t, problems, 3)
	require.EqualValues(t, 1, next.Cleaner.Threads)
	topic, err := next.Topic(nil)
	require.NoError(t, err)
	require.EqualValues(t, 5000000, topic.Retention)
	require.Equal(t, "kept", *next.Value("plugin.key"))

	same, problems := c.WithDynamic(map[string]string{"log.retention.ms": "0", "log.cleaner.threads": "2"}, nil)
	require.Len(t, problems, 1)
	require.Contains(t, problems[0].String(), "log.retention.ms=")
	require.Same(t, c, same, "a broken rule between keys leaves everything as it was")
}

// A listener that the file leaves out must not change its meaning when a dynamic config arrives.
func TestDynamicConfigsKeepWhatLoadChose(t *testing.T) {
	c, _ := load(t, Options{Env: []string{"KAFKA_NUM_PARTITIONS=3", "CLUSTER_ID=abc"}})
	next, problems := c.WithDynamic(map[string]string{"log.cleaner.threads": "2"}, nil)
	require.Empty(t, problems)
	require.Equal(t, c.Node, next.Node)
	require.Equal(t, "abc", next.Node.ClusterID)
}

func TestDescribeBroker(t *testing.T) {
	c, _ := load(t, Options{Overrides: []string{
		"node.id=4", "unknown.key=foo", "listener.name.plaintext.ssl.keystore.password=hush",
		"listener.name.plaintext.max.connections=5", "producer.id.expiration.check.interval.ms=1000", "sasl.jaas.config=hush",
	}})
	c, problems := c.WithDynamic(map[string]string{"leader.replication.throttled.rate": "7"}, nil)
	require.Empty(t, problems)
	entries := map[string]Entry{}
	for _, e := range c.DescribeBroker() {
		entries[e.Name] = e
		require.NotContains(t, text(e.Value), "hush")
		for _, s := range e.Synonyms {
			require.NotContains(t, text(s.Value), "hush")
		}
	}
	require.Equal(t, Entry{
		Name: "unknown.key", Source: kmsg.ConfigSourceStaticBrokerConfig, ReadOnly: true, Sensitive: true,
		Synonyms: []Synonym{{Name: "unknown.key", Source: kmsg.ConfigSourceStaticBrokerConfig}},
	}, entries["unknown.key"])
	limit := entries["listener.name.plaintext.max.connections"]
	require.Equal(t, "5", *limit.Value)
	require.True(t, limit.ReadOnly)
	require.Len(t, limit.Synonyms, 2)
	require.Equal(t, "max.connections", limit.Synonyms[1].Name)
	require.True(t, entries["listener.name.plaintext.ssl.keystore.password"].Sensitive)
	require.Contains(t, entries, "producer.id.expiration.check.interval.ms", "a hidden key that is set is listed")
	require.NotContains(t, entries, "log.initial.task.delay.ms")
	require.Equal(t, kmsg.ConfigSourceDynamicDefaultBrokerConfig, entries["leader.replication.throttled.rate"].Source)
	require.Equal(t, "4", *entries["broker.id"].Value)
	require.NotEmpty(t, entries["num.partitions"].Doc)

	defaults := DescribeBrokerDefaults(map[string]string{"log.retention.ms": "5", "odd": "hush"})
	require.Len(t, defaults, 2)
	require.Equal(t, "5", *defaults[0].Value)
	require.Equal(t, kmsg.ConfigSourceDynamicDefaultBrokerConfig, defaults[0].Source)
	require.Nil(t, defaults[1].Value)
	require.Nil(t, defaults[1].Synonyms[0].Value)
}

func TestOperationsOnConfigs(t *testing.T) {
	c := Default()
	current := map[string]string{"retention.ms": "5"}
	value := "7"
	next, err := c.Alter(ResourceTopic, current, []Op{{Name: "retention.ms", Value: &value}})
	require.NoError(t, err)
	require.Equal(t, map[string]string{"retention.ms": "7"}, next)
	require.Equal(t, map[string]string{"retention.ms": "5"}, current, "the argument stays")

	next, err = c.Alter(ResourceTopic, nil, []Op{{Name: "retention.ms", Op: kmsg.IncrementalAlterConfigOpDelete}})
	require.NoError(t, err)
	require.Empty(t, next)

	for _, ops := range [][]Op{
		{{Name: "a", Op: 9, Value: &value}}, {{Name: "a"}}, {{Name: "a", Value: &value}, {Name: "a", Value: &value}},
	} {
		_, err = c.Alter(ResourceTopic, current, ops)
		require.ErrorIs(t, err, kerr.InvalidRequest)
	}
}
