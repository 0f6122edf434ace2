package cli

import (
	"context"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func (o Options) topicDescribe() *cobra.Command {
	c := &cobra.Command{
		Use: "describe [TOPIC...]", Short: "Show partitions, replicas, offsets and configuration of topics",
		Args: args(0, -1, "names of topics, or none for all"),
	}
	r := o.remote(c)
	c.RunE = func(c *cobra.Command, names []string) error {
		return r.admin(c.Context(), func(ctx context.Context, adm *kadm.Client, cl *kgo.Client) error {
			topics, err := describeTopics(ctx, adm, cl, names)
			if err != nil {
				return err
			}
			if r.json {
				return writeJSON(r.Out, topics)
			}
			return r.showTopicDetails(topics)
		})
	}
	return c
}

type topicDetail struct {
	Topic      string            `json:"topic"`
	ID         string            `json:"id"`
	Internal   bool              `json:"internal"`
	Configs    map[string]string `json:"configs"` // only what the topic sets itself
	Partitions []partitionDetail `json:"partitions"`
}

type partitionDetail struct {
	Partition   int32   `json:"partition"`
	Leader      int32   `json:"leader"`
	LeaderEpoch int32   `json:"leaderEpoch"`
	Replicas    []int32 `json:"replicas"`
	InSync      []int32 `json:"inSync"`
	Offline     []int32 `json:"offline"`
	Start       int64   `json:"startOffset"` // -1 when the leader does not answer
	End         int64   `json:"endOffset"`
	Error       string  `json:"error,omitempty"`
}

func describeTopics(ctx context.Context, adm *kadm.Client, cl *kgo.Client, names []string) ([]topicDetail, error) {
	topics, err := mustExist(ctx, adm, names...)
	if err != nil {
		return nil, err
	}
	topics = visible(topics, len(names) > 0)
	if len(topics) == 0 {
		return []topicDetail{}, nil
	}
	found := make([]string, len(topics))
	for i, t := range topics {
		found[i] = t.Topic
	}
	starts, err := adm.ListStartOffsets(ctx, found...)
	if err != nil {
		return nil, err
	}
	ends, err := adm.ListEndOffsets(ctx, found...)
	if err != nil {
		return nil, err
	}
	out := make([]topicDetail, 0, len(topics))
	for _, t := range topics {
		d := topicDetail{Topic: t.Topic, ID: uuid(t.ID), Internal: t.IsInternal, Partitions: []partitionDetail{}}
		if d.Configs, err = ownConfigs(ctx, cl, t.Topic); err != nil {
			return nil, err
		}
		for _, p := range t.Partitions.Sorted() {
			d.Partitions = append(d.Partitions, partitionOf(p, starts, ends))
		}
		out = append(out, d)
	}
	return out, nil
}

func partitionOf(p kadm.PartitionDetail, starts, ends kadm.ListedOffsets) partitionDetail {
	d := partitionDetail{
		Partition: p.Partition, Leader: p.Leader, LeaderEpoch: p.LeaderEpoch, Replicas: notNil(p.Replicas), InSync: notNil(p.ISR),
		Offline: notNil(p.OfflineReplicas), Start: -1, End: -1,
	}
	if o, ok := starts.Lookup(p.Topic, p.Partition); ok && o.Err == nil {
		d.Start = o.Offset
	}
	if o, ok := ends.Lookup(p.Topic, p.Partition); ok && o.Err == nil {
		d.End = o.Offset
	}
	if p.Err != nil {
		d.Error = p.Err.Error()
	}
	return d
}

// notNil makes an empty list an empty list in JSON too.
func notNil(list []int32) []int32 {
	if list == nil {
		return []int32{}
	}
	return list
}

// ownConfigs returns what a topic sets itself.
func ownConfigs(ctx context.Context, cl *kgo.Client, topic string) (map[string]string, error) {
	entries, err := describeConfig(ctx, cl, kmsg.ConfigResourceTypeTopic, topic, nil)
	if err != nil {
		return nil, err
	}
	own := map[string]string{}
	for _, e := range entries {
		if e.Source == kmsg.ConfigSourceDynamicTopicConfig.String() && e.Value != nil {
			own[e.Name] = *e.Value
		}
	}
	return own, nil
}

func (r *remote) showTopicDetails(topics []topicDetail) error {
	if len(topics) == 0 {
		return say(r.Err, "no topics; make one with: kbroker topic create NAME")
	}
	for i, t := range topics {
		if i > 0 {
			if err := say(r.Out, ""); err != nil {
				return err
			}
		}
		replicas := 0
		for _, p := range t.Partitions {
			replicas = max(replicas, len(p.Replicas))
		}
		if err := say(r.Out, "%s: id %s, %s, %s", t.Topic, t.ID, plural(len(t.Partitions), "partition"),
			plural(replicas, "replica")); err != nil {
			return err
		}
		for _, key := range sortedKeys(t.Configs) {
			if err := say(r.Out, "  %s=%s", key, t.Configs[key]); err != nil {
				return err
			}
		}
		tab := newTable(r.Out, "PARTITION", "LEADER", "EPOCH", "REPLICAS", "IN-SYNC", "OFFLINE", "START", "END")
		for _, p := range t.Partitions {
			tab.row(p.Partition, noneIfNegative(int64(p.Leader)), p.LeaderEpoch, p.Replicas, p.InSync, p.Offline,
				noneIfNegative(p.Start), noneIfNegative(p.End))
		}
		if err := tab.flush(); err != nil {
			return err
		}
	}
	return nil
}
