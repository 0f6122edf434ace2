package controller

import (
	"strings"
	"testing"

	"github.com/kbroker/kbroker/internal/metadata"
	"github.com/kbroker/kbroker/internal/model"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func creations(r *kmsg.CreateTopicsResponse) map[string]answer {
	m := map[string]answer{}
	for _, t := range r.Topics {
		m[t.Topic] = answer{t.ErrorCode, deref(t.ErrorMessage)}
	}
	return m
}

// Codes and texts as a running Apache Kafka 4.4.0 answers them.
func TestCreateTopicsRefusals(t *testing.T) {
	w := newWorld(t, 1)
	w.create("a.b", []int32{1})
	w.create("ok", []int32{1})
	withConfig := func(configs ...string) kmsg.CreateTopicsRequestTopic { return topicRequest("nc", 1, 1, configs...) }
	manual := func(change func(t *kmsg.CreateTopicsRequestTopic), assignment ...[]int32) kmsg.CreateTopicsRequestTopic {
		t := assigned("asg", assignment...)
		if change != nil {
			change(&t)
		}
		return t
	}
	long := strings.Repeat("x", 250)
	for name, tc := range map[string]struct {
		topic kmsg.CreateTopicsRequestTopic
		want  answer
	}{
		"exists":     {topicRequest("ok", 2, 1), answer{36, "Topic 'ok' already exists."}},
		"empty name": {topicRequest("", 1, 1), answer{17, "Topic name is invalid: the empty string is not allowed"}},
		"dot":        {topicRequest(".", 1, 1), answer{17, "Topic name is invalid: '.' is not allowed"}},
		"dots":       {topicRequest("..", 1, 1), answer{17, "Topic name is invalid: '..' is not allowed"}},
		"long": {topicRequest(long, 1, 1),
			answer{17, "Topic name is invalid: the length of '" + long + "' is longer than the max allowed length 249"}},
		"characters": {topicRequest("a b", 1, 1),
			answer{17, "Topic name is invalid: 'a b' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"}},
		"collision":        {topicRequest("a_b", 1, 1), answer{17, "Topic 'a_b' collides with existing topic: a.b"}},
		"collides, exists": {topicRequest("a.b", 1, 1), answer{36, "Topic 'a.b' already exists."}},
		"metadata log": {topicRequest("__cluster_metadata", 1, 1),
			answer{42, "Creation of internal topic __cluster_metadata is prohibited."}},
		"factor 0":  {topicRequest("x", 1, 0), answer{38, "Replication factor must be larger than 0, or -1 to use the default value."}},
		"factor -2": {topicRequest("x", 1, -2), answer{38, "Replication factor must be larger than 0, or -1 to use the default value."}},
		"factor 2": {topicRequest("x", 1, 2), answer{38, "Unable to replicate the partition 2 time(s): The target replication factor " +
			"of 2 cannot be reached because only 1 broker(s) are registered or some brokers have all their log directories cordoned."}},
		"no partitions":   {topicRequest("x", 0, 1), answer{37, "Number of partitions was set to an invalid non-positive value."}},
		"-5 partitions":   {topicRequest("x", -5, 1), answer{37, "Number of partitions was set to an invalid non-positive value."}},
		"many partitions": {topicRequest("x", 10001, 1), answer{44, "Excessively large number of partitions per request."}},
		"manual and factor": {manual(func(t *kmsg.CreateTopicsRequestTopic) { t.ReplicationFactor = 1 }, []int32{1}),
			answer{42, "A manual partition assignment was specified, but replication factor was not set to -1."}},
		"manual and count": {manual(func(t *kmsg.CreateTopicsRequestTopic) { t.NumPartitions = 1 }, []int32{1}),
			answer{42, "A manual partition assignment was specified, but numPartitions was not set to -1."}},
		"manual twice": {manual(func(t *kmsg.CreateTopicsRequestTopic) { t.ReplicaAssignment[1].Partition = 0 }, []int32{1}, []int32{1}),
			answer{39, "Found multiple manual partition assignments for partition 0"}},
		"manual gap": {manual(func(t *kmsg.CreateTopicsRequestTopic) { t.ReplicaAssignment[1].Partition = 2 }, []int32{1}, []int32{1}),
			answer{39, "partitions should be a consecutive 0-based integer sequence"}},
		"manual negative": {manual(func(t *kmsg.CreateTopicsRequestTopic) { t.ReplicaAssignment[0].Partition = -1 }, []int32{1}),
			answer{39, "partitions should be a consecutive 0-based integer sequence"}},
		"manual, nobody": {manual(nil, []int32{}), answer{39, "The manual partition assignment includes an empty replica list."}},
		"manual, unknown broker": {manual(nil, []int32{7}),
			answer{39, "The manual partition assignment includes broker 7, but no such broker is registered."}},
		"manual, same broker": {manual(nil, []int32{1, 1}),
			answer{39, "The manual partition assignment includes the broker 1 more than once."}},
		"null config":    {withConfig("retention.ms", "null", "x", "null"), answer{40, "Null value not supported for topic configs: retention.ms,x"}},
		"unknown config": {withConfig("nope", "1"), answer{40, "Unknown topic config name: nope"}},
		"bad config":     {withConfig("retention.ms", "abc"), answer{40, "Invalid value abc for configuration retention.ms: Not a number of type LONG"}},
	} {
		t.Run(name, func(t *testing.T) {
			before := w.v.img
			got := ask[*kmsg.CreateTopicsResponse](w, createRequest(tc.topic))
			require.Equal(t, map[string]answer{tc.topic.Topic: tc.want}, creations(got))
			require.Same(t, before, w.v.img, "a refusal changes nothing")
			out := got.Topics[0]
			require.Equal(t, []any{int32(-1), int16(-1), [16]byte{}}, []any{out.NumPartitions, out.ReplicationFactor, out.TopicID})
		})
	}
}

func TestCreateTopicsMakesThem(t *testing.T) {
	w := newWorld(t, 3)
	got := ask[*kmsg.CreateTopicsResponse](w, createRequest(
		topicRequest("dup", 1, 1), topicRequest("a", 2, 3, "retention.ms", "1", "retention.ms", "2"), topicRequest("dup", 1, 1),
		topicRequest("b", -1, -1), topicRequest("c.d", 1, 1), topicRequest("c_d", 1, 1),
	))
	require.Equal(t, map[string]answer{"a": {}, "b": {}, "c.d": {}, "c_d": {}, "dup": {42, "Duplicate topic name."}}, creations(got))
	require.Equal(t, "dup", got.Topics[len(got.Topics)-1].Topic)
	a := w.v.img.Topic("a")
	require.Equal(t, a.ID, model.UUID(got.Topics[0].TopicID))
	require.Equal(t, []any{int32(2), int16(3)}, []any{got.Topics[0].NumPartitions, got.Topics[0].ReplicationFactor})
	require.Equal(t, map[string]string{"retention.ms": "2"}, w.v.img.Config(metadata.ResourceTopic, "a"), "the last value counts")
	require.Len(t, a.Partitions, 2)
	for _, p := range a.Partitions {
		require.Len(t, p.Replicas, 3)
		require.Equal(t, p.Replicas, p.ISR)
		require.Equal(t, p.Replicas[0], p.Leader)
		require.Equal(t, []int64{1, 1, 1}, p.Incarnations)
		require.Equal(t, model.UUID{byte(p.Replicas[0]), 0xd0}, p.Directories[0], "the only directory is known")
	}
	require.Len(t, w.v.img.Topic("b").Partitions, 1)
	w.create("later", []int32{1, 2})
	require.Equal(t, []int64{2, 2}, w.part("later", 0).Incarnations, "C3")
}

func TestCreateTopicsDescribesConfigs(t *testing.T) {
	w := newWorld(t, 1)
	for version, want := range map[int16]bool{2: false, 4: false, 5: true, 7: true} {
		r := createRequest(topicRequest("t", 1, 1, "retention.ms", "5"))
		r.Version, r.ValidateOnly = version, true
		got := ask[*kmsg.CreateTopicsResponse](w, r).Topics[0]
		require.Equal(t, want, len(got.Configs) > 0, "version %d", version)
		for i, c := range got.Configs {
			if i > 0 {
				require.Less(t, got.Configs[i-1].Name, c.Name, "sorted")
			}
			switch c.Name {
			case "retention.ms":
				require.Equal(t, []any{"5", int8(kmsg.ConfigSourceDynamicTopicConfig)}, []any{*c.Value, c.Source})
			case "cleanup.policy":
				require.Equal(t, []any{"delete", int8(kmsg.ConfigSourceDefaultConfig)}, []any{*c.Value, c.Source})
			}
		}
	}
	require.Nil(t, w.v.img.Topic("t"), "validate only")
}

func TestCreateTopicsLimitIsForTheRequest(t *testing.T) {
	w := newWorld(t, 1)
	got := creations(ask[*kmsg.CreateTopicsResponse](w, createRequest(topicRequest("m1", 6000, 1), topicRequest("m2", 6000, 1))))
	for _, name := range []string{"m1", "m2"} {
		require.Equal(t, answer{44, "Excessively large number of partitions per request."}, got[name])
	}
	require.Zero(t, w.v.img.TopicCount())
	got = creations(ask[*kmsg.CreateTopicsResponse](w, createRequest(topicRequest("m1", 10000, 1))))
	require.Equal(t, answer{}, got["m1"])
	require.Equal(t, 10000, w.v.img.PartitionCount())
}

func TestCreateTopicsWithFencedBrokers(t *testing.T) {
	w := newWorld(t, 3)
	w.silence(3)
	got := ask[*kmsg.CreateTopicsResponse](w, createRequest(topicRequest("t", 6, 3), assigned("only3", []int32{3}), assigned("some", []int32{3, 1})))
	require.Equal(t, map[string]answer{
		"t": {}, "some": {},
		"only3": {39, "All brokers specified in the manual partition assignment for partition 0 are fenced or in controlled shutdown."},
	}, creations(got))
	for _, p := range w.v.img.Topic("t").Partitions {
		require.Len(t, p.Replicas, 3, "a fenced broker gets replicas when there are not enough others")
		require.NotContains(t, p.ISR, int32(3))
		require.NotEqual(t, int32(3), p.Replicas[0])
	}
	require.Equal(t, int32(1), w.part("some", 0).Leader)
	w.silence(1)
	w.silence(2)
	got = ask[*kmsg.CreateTopicsResponse](w, createRequest(topicRequest("x", 1, 1)))
	require.Equal(t, answer{38, "Unable to replicate the partition 1 time(s): All brokers are currently fenced, or have all their log " +
		"directories cordoned."}, creations(got)["x"])
}

// One node gets along with the defaults of a large cluster; a large cluster that starts with one broker does not.
func TestInternalTopicsAreClampedOnOneNode(t *testing.T) {
	for name, tc := range map[string]struct {
		brokers   int
		onlyVoter bool
		topic     string
		want      int16
	}{
		"one node":                 {1, true, model.GroupMetadataTopic, 0},
		"one node, ordinary topic": {1, true, "t", 38},
		"first of several":         {1, false, model.GroupMetadataTopic, 38},
		"one voter, two brokers":   {2, true, model.TransactionStateTopic, 38},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, tc.brokers)
			w.v.self.onlyVoter = tc.onlyVoter
			r := ask[*kmsg.CreateTopicsResponse](w, createRequest(topicRequest(tc.topic, 50, 3, "cleanup.policy", "compact")))
			require.Equal(t, tc.want, r.Topics[0].ErrorCode)
			if tc.want == 0 {
				require.Equal(t, int16(1), r.Topics[0].ReplicationFactor)
			}
		})
	}
}

func TestDeleteTopics(t *testing.T) {
	w := newWorld(t, 1)
	for _, n := range []string{"a", "b", "c"} {
		w.create(n, []int32{1})
	}
	id := w.v.img.Topic("b").ID
	del := func(version int16, topics ...any) map[any]answer {
		r := kmsg.NewPtrDeleteTopicsRequest()
		r.Version = version
		for _, x := range topics {
			d := kmsg.NewDeleteTopicsRequestTopic()
			switch x := x.(type) {
			case string:
				d.Topic = &x
				r.TopicNames = append(r.TopicNames, x)
			case model.UUID:
				d.TopicID = x
			case [2]any:
				name := x[0].(string)
				d.Topic, d.TopicID = &name, x[1].(model.UUID)
			}
			r.Topics = append(r.Topics, d)
		}
		got := map[any]answer{}
		for _, o := range ask[*kmsg.DeleteTopicsResponse](w, r).Topics {
			var key any = model.UUID(o.TopicID)
			if o.Topic != nil {
				key = *o.Topic
			}
			require.NotContains(t, got, key, "one answer each")
			got[key] = answer{o.ErrorCode, deref(o.ErrorMessage)}
		}
		return got
	}
	unknown := model.UUID{1, 2}
	require.Equal(t, map[any]answer{"nothing": {3, "This server does not host this topic-partition."}}, del(6, "nothing"))
	require.Equal(t, map[any]answer{unknown: {100, "This server does not host this topic ID."}}, del(6, unknown))
	require.Equal(t, map[any]answer{unknown: {42, "Duplicate topic id."}}, del(6, unknown, unknown))
	require.Equal(t, map[any]answer{"a": {42, "Duplicate topic name."}, "c": {}}, del(6, "a", "a", "c"))
	require.Equal(t, map[any]answer{"a": {42, "You may not specify both topic name and topic id."}}, del(6, [2]any{"a", unknown}))
	require.Equal(t, map[any]answer{model.UUID{}: {42, "Neither topic name nor id were specified."}}, del(6, model.UUID{}))
	require.Equal(t, map[any]answer{"b": {}}, del(6, id), "the answer tells the name")
	require.Equal(t, 1, w.v.img.TopicCount())

	w.v.cfg = withBroker(t, "delete.topic.enable", "false")
	require.Equal(t, map[any]answer{"a": {73, "Topic deletion is disabled."}}, del(5, "a"))
	require.Equal(t, map[any]answer{"a": {42, "Topic deletion is disabled."}}, del(2, "a"))
	w.v.cfg = withBroker(t, "delete.topic.enable", "true")
	require.Equal(t, map[any]answer{"a": {}}, del(1, "a"))
	require.Zero(t, w.v.img.TopicCount())
}

func TestDeleteTopicByNameAndIDAtOnce(t *testing.T) {
	w := newWorld(t, 1)
	topic := w.create("a", []int32{1})
	r := kmsg.NewPtrDeleteTopicsRequest()
	r.Version = 6
	byName, byID := kmsg.NewDeleteTopicsRequestTopic(), kmsg.NewDeleteTopicsRequestTopic()
	byName.Topic, byID.TopicID = &topic.Name, topic.ID
	r.Topics = append(r.Topics, byName, byID)
	got := ask[*kmsg.DeleteTopicsResponse](w, r) // one removal, or the batch would not fit
	require.Len(t, got.Topics, 2)
	require.Zero(t, w.v.img.TopicCount())
}

func TestCreatePartitions(t *testing.T) {
	w := newWorld(t, 1)
	w.create("a.b", []int32{1})
	w.create("c", []int32{1})
	type grow struct {
		topic string
		count int32
		to    [][]int32
	}
	run := func(validate bool, gs ...grow) map[string]answer {
		r := kmsg.NewPtrCreatePartitionsRequest()
		r.Version, r.ValidateOnly = 3, validate
		for _, g := range gs {
			x := kmsg.NewCreatePartitionsRequestTopic()
			x.Topic, x.Count = g.topic, g.count
			for _, replicas := range g.to {
				a := kmsg.NewCreatePartitionsRequestTopicAssignment()
				a.Replicas = replicas
				x.Assignment = append(x.Assignment, a)
			}
			r.Topics = append(r.Topics, x)
		}
		got := map[string]answer{}
		for _, o := range ask[*kmsg.CreatePartitionsResponse](w, r).Topics {
			got[o.Topic] = answer{o.ErrorCode, deref(o.ErrorMessage)}
		}
		return got
	}
	one := func(g grow) answer { return run(false, g)[g.topic] }
	require.Equal(t, answer{}, one(grow{"a.b", 3, nil}))
	require.Equal(t, answer{37, "Topic already has 3 partition(s)."}, one(grow{"a.b", 3, nil}))
	require.Equal(t, answer{37, "The topic a.b currently has 3 partition(s); 2 would not be an increase."}, one(grow{"a.b", 2, nil}))
	require.Equal(t, answer{37, "The topic a.b currently has 3 partition(s); -1 would not be an increase."}, one(grow{"a.b", -1, nil}))
	require.Equal(t, answer{3, ""}, one(grow{"nothing", 2, nil}))
	require.Equal(t, answer{39, "Attempted to add 3 additional partition(s), but only 1 assignment(s) were specified."}, one(grow{"a.b", 6, [][]int32{{1}}}))
	require.Equal(t, answer{39, "Attempted to add 1 additional partition(s), but only 2 assignment(s) were specified."}, one(grow{"a.b", 4, [][]int32{{1}, {1}}}))
	require.Equal(t, answer{39, "The manual partition assignment includes broker 9, but no such broker is registered."}, one(grow{"a.b", 4, [][]int32{{9}}}))
	require.Equal(t, answer{39, "The manual partition assignment includes an empty replica list."}, one(grow{"a.b", 4, [][]int32{{}}}))
	require.Equal(t, answer{44, "Excessively large number of additional partitions per request."}, one(grow{"a.b", 20000, nil}))
	require.Equal(t, answer{}, run(true, grow{"a.b", 10, nil})["a.b"])
	require.Len(t, w.v.img.Topic("a.b").Partitions, 3, "validate only")
	require.Equal(t, answer{}, one(grow{"a.b", 4, [][]int32{{1}}}))
	require.Equal(t, map[string]answer{"a.b": {42, "Duplicate topic name."}, "c": {}},
		run(false, grow{"a.b", 5, nil}, grow{"a.b", 6, nil}, grow{"c", 2, nil}))
	require.Len(t, w.v.img.Topic("a.b").Partitions, 4)
	require.Len(t, w.v.img.Topic("c").Partitions, 2)

	w.join(2)
	require.Equal(t, answer{39, "The manual partition assignment includes a partition with 2 replica(s), but this is not consistent with " +
		"previous partitions, which have 1 replica(s)."}, one(grow{"c", 3, [][]int32{{1, 2}}}))
	w.silence(2)
	require.Equal(t, answer{39, "All brokers specified in the manual partition assignment for partition 2 are fenced or in controlled shutdown."},
		one(grow{"c", 3, [][]int32{{2}}}))
}
