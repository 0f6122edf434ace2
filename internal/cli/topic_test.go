package cli

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
)

func TestLifeOfATopic(t *testing.T) {
	s := shellFor(t, fake(t))
	r := s.run("topic", "list")
	require.Zero(t, r.code)
	require.Contains(t, r.err, "kbroker topic create NAME")

	require.Equal(t, "created topic orders with 3 partitions on 1 replica\n",
		s.ok("topic", "create", "orders", "--partitions", "3", "--replication-factor", "1", "--config", "retention.ms=3600000"))
	require.Equal(t, "TOPIC   PARTITIONS  REPLICAS\norders  3           1\n", s.ok("topic", "list"))

	r = s.run("topic", "create", "orders", "fresh", "--partitions", "1", "--replication-factor", "1")
	require.Equal(t, ExitFailed, r.code)
	require.Contains(t, r.err, "topic orders: TOPIC_ALREADY_EXISTS")
	require.Contains(t, r.out, "created topic fresh with 1 partition on 1 replica")
	require.Equal(t, "topic orders exists already\n",
		s.ok("topic", "create", "orders", "--if-not-exists", "--partitions", "1", "--replication-factor", "1"))

	require.Equal(t, "altered topic orders\n", s.ok("topic", "alter", "orders", "--partitions", "4", "--config", "cleanup.policy=compact"))
	require.Equal(t, "altered topic orders\n", s.ok("topic", "alter", "orders", "--delete-config", "retention.ms"))
	s.fill("orders", "a", "b")
	var details []topicDetail
	s.json(&details, "topic", "describe", "orders")
	require.Len(t, details, 1)
	require.Equal(t, map[string]string{"cleanup.policy": "compact"}, details[0].Configs)
	require.Len(t, details[0].Partitions, 4)
	total := int64(0)
	for _, p := range details[0].Partitions {
		require.GreaterOrEqual(t, p.Leader, int32(0))
		require.Len(t, p.Replicas, 1)
		require.Zero(t, p.Start)
		total += p.End
	}
	require.EqualValues(t, 2, total)

	text := s.ok("topic", "describe")
	require.Contains(t, text, "fresh: id ")
	require.Contains(t, text, "4 partitions, 1 replica\n  cleanup.policy=compact\nPARTITION  LEADER  EPOCH  REPLICAS  IN-SYNC  OFFLINE  START  END\n")

	require.Equal(t, "deleted topic fresh\n", s.ok("topic", "delete", "fresh"))
	r = s.run("topic", "delete", "fresh")
	require.Equal(t, ExitFailed, r.code)
	require.Contains(t, r.err, "topic fresh does not exist (UNKNOWN_TOPIC_OR_PARTITION)")
	require.Empty(t, s.ok("topic", "delete", "fresh", "--if-exists"))

	r = s.run("topic", "describe", "fresh")
	require.Equal(t, ExitFailed, r.code)
	require.Contains(t, r.err, "kbroker topic list shows what there is")
	r = s.run("topic", "alter", "fresh", "--partitions", "9")
	require.Equal(t, ExitFailed, r.code)
	r = s.run("topic", "alter", "fresh", "--config", "retention.ms=5")
	require.Equal(t, ExitFailed, r.code)
	require.Contains(t, r.err, "topic fresh does not exist")
}

func TestTopicsAsJSON(t *testing.T) {
	s := shellFor(t, fake(t, kfake.SeedTopics(2, "a", "b")))
	var list []listedTopic
	s.json(&list, "topic", "list")
	require.Len(t, list, 2)
	require.Equal(t, "a", list[0].Topic)
	require.Equal(t, 2, list[0].Partitions)
	var made []createdTopic
	s.json(&made, "topic", "create", "c", "--partitions", "1", "--replication-factor", "1")
	require.Equal(t, "c", made[0].Topic)
	require.NotEmpty(t, made[0].ID)
	var changed map[string][]string
	s.json(&changed, "topic", "alter", "c", "--partitions", "2")
	require.Equal(t, []string{"c"}, changed["altered"])
	s.json(&changed, "topic", "delete", "c")
	require.Equal(t, []string{"c"}, changed["deleted"])
}

func TestInternalTopicsAreLeftOut(t *testing.T) {
	topics := func() []kadm.TopicDetail {
		return []kadm.TopicDetail{{Topic: "__mine", IsInternal: true}, {Topic: "yours"}}
	}
	require.Equal(t, topics()[1:], visible(topics(), false))
	require.Equal(t, topics(), visible(topics(), true))
}
