package cli

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/internal/model"
)

func (o Options) topicCommand() *cobra.Command {
	return group("topic", "Create, list, describe, alter and delete topics",
		o.topicCreate(), o.topicList(), o.topicDescribe(), o.topicAlter(), o.topicDelete())
}

func (o Options) topicCreate() *cobra.Command {
	var (
		partitions  int32
		replicas    int16
		configs     []string
		ifNotExists bool
	)
	c := &cobra.Command{
		Use: "create TOPIC...", Short: "Create topics", Args: args(1, -1, "the names of the topics"),
		Example: "  kbroker topic create orders --partitions 3 --config retention.ms=3600000",
	}
	r := o.remote(c)
	c.Flags().Int32Var(&partitions, "partitions", -1, "number of partitions; -1 is the cluster's default")
	c.Flags().Int16Var(&replicas, "replication-factor", -1, "number of replicas; -1 is the cluster's default")
	c.Flags().StringArrayVar(&configs, "config", nil, "configuration key=value, repeatable")
	c.Flags().BoolVar(&ifNotExists, "if-not-exists", false, "topics that exist already are no error")
	c.RunE = func(c *cobra.Command, names []string) error {
		pairs, err := parsePairs("config", configs)
		if err != nil {
			return err
		}
		values := map[string]*string{}
		for _, p := range pairs {
			values[p[0]] = &p[1]
		}
		return r.admin(c.Context(), func(ctx context.Context, adm *kadm.Client, _ *kgo.Client) error {
			created, err := adm.CreateTopics(ctx, partitions, replicas, values, names...)
			if err != nil {
				return err
			}
			return r.showCreated(created, ifNotExists)
		})
	}
	return c
}

// uuid writes a topic's id as Kafka's own tools do.
func uuid(id kadm.TopicID) string { return model.UUID(id).String() }

type createdTopic struct {
	Topic      string `json:"topic"`
	ID         string `json:"id,omitempty"`
	Partitions int32  `json:"partitions,omitempty"`
	Replicas   int16  `json:"replicationFactor,omitempty"`
	Existed    bool   `json:"existed,omitempty"`
}

func (r *remote) showCreated(created kadm.CreateTopicResponses, ifNotExists bool) error {
	var (
		errs []error
		out  = []createdTopic{}
	)
	for _, name := range slices.Sorted(maps.Keys(created)) {
		t := created[name]
		existed := errors.Is(t.Err, kerr.TopicAlreadyExists) && ifNotExists
		if t.Err != nil && !existed {
			errs = append(errs, answered("topic "+name, t.Err, t.ErrMessage))
			continue
		}
		done := createdTopic{Topic: name, Existed: existed}
		if !existed {
			done.ID, done.Partitions, done.Replicas = uuid(t.ID), t.NumPartitions, t.ReplicationFactor
		}
		out = append(out, done)
	}
	if r.json {
		errs = append(errs, writeJSON(r.Out, out))
		return all(errs)
	}
	for _, t := range out {
		if t.Existed {
			errs = append(errs, say(r.Out, "topic %s exists already", t.Topic))
			continue
		}
		errs = append(errs, say(r.Out, "created topic %s with %s on %s", t.Topic, plural(int(t.Partitions), "partition"),
			plural(int(t.Replicas), "replica")))
	}
	return all(errs)
}

func (o Options) topicList() *cobra.Command {
	var internal bool
	c := &cobra.Command{Use: "list", Short: "List topics", Args: args(0, 0, "no argument")}
	r := o.remote(c)
	c.Flags().BoolVar(&internal, "internal", false, "list topics that the cluster keeps for itself too")
	c.RunE = func(c *cobra.Command, _ []string) error {
		return r.admin(c.Context(), func(ctx context.Context, adm *kadm.Client, _ *kgo.Client) error {
			topics, err := adm.ListTopicsWithInternal(ctx)
			if err != nil {
				return err
			}
			return r.showTopics(visible(topics.Sorted(), internal))
		})
	}
	return c
}

// visible leaves out what the cluster keeps for itself unless internal is set.
func visible(topics []kadm.TopicDetail, internal bool) []kadm.TopicDetail {
	return slices.DeleteFunc(topics, func(t kadm.TopicDetail) bool { return t.IsInternal && !internal })
}

type listedTopic struct {
	Topic      string `json:"topic"`
	ID         string `json:"id"`
	Internal   bool   `json:"internal"`
	Partitions int    `json:"partitions"`
	Replicas   int    `json:"replicationFactor"`
}

func (r *remote) showTopics(topics []kadm.TopicDetail) error {
	out := []listedTopic{}
	for _, t := range topics {
		out = append(out, listedTopic{
			Topic: t.Topic, ID: uuid(t.ID), Internal: t.IsInternal, Partitions: len(t.Partitions),
			Replicas: t.Partitions.NumReplicas(),
		})
	}
	if r.json {
		return writeJSON(r.Out, out)
	}
	if len(out) == 0 {
		return say(r.Err, "no topics; make one with: kbroker topic create NAME")
	}
	tab := newTable(r.Out, "TOPIC", "PARTITIONS", "REPLICAS")
	for _, t := range out {
		tab.row(t.Topic, t.Partitions, t.Replicas)
	}
	return tab.flush()
}

func (o Options) topicDelete() *cobra.Command {
	var ifExists bool
	c := &cobra.Command{
		Use: "delete TOPIC...", Short: "Delete topics and all their records", Args: args(1, -1, "the names of the topics"),
	}
	r := o.remote(c)
	c.Flags().BoolVar(&ifExists, "if-exists", false, "topics that do not exist are no error")
	c.RunE = func(c *cobra.Command, names []string) error {
		return r.admin(c.Context(), func(ctx context.Context, adm *kadm.Client, _ *kgo.Client) error {
			deleted, err := adm.DeleteTopics(ctx, names...)
			if err != nil {
				return err
			}
			var errs []error
			gone := []string{}
			for _, t := range deleted.Sorted() {
				switch {
				case t.Err == nil:
					gone = append(gone, t.Topic)
				case !ifExists || !errors.Is(t.Err, kerr.UnknownTopicOrPartition):
					errs = append(errs, answered("topic "+t.Topic, t.Err, t.ErrMessage))
				}
			}
			if r.json {
				return all(append(errs, writeJSON(r.Out, map[string]any{"deleted": gone})))
			}
			for _, name := range gone {
				errs = append(errs, say(r.Out, "deleted topic %s", name))
			}
			return all(errs)
		})
	}
	return c
}

func (o Options) topicAlter() *cobra.Command {
	var (
		partitions   int
		sets, resets []string
	)
	c := &cobra.Command{
		Use: "alter TOPIC...", Short: "Give topics more partitions or another configuration",
		Args: args(1, -1, "the names of the topics"),
	}
	r := o.remote(c)
	c.Flags().IntVar(&partitions, "partitions", 0, "new number of partitions, more than now")
	c.Flags().StringArrayVar(&sets, "config", nil, "configuration key=value to set, repeatable")
	c.Flags().StringArrayVar(&resets, "delete-config", nil, "configuration key to return to its default, repeatable")
	c.RunE = func(c *cobra.Command, names []string) error {
		ops, err := configOps(sets, resets, nil, nil)
		if err != nil {
			return err
		}
		if partitions == 0 && len(ops) == 0 {
			return usageOf(c, errors.New("nothing to do: want --partitions, --config or --delete-config"))
		}
		return r.admin(c.Context(), func(ctx context.Context, adm *kadm.Client, cl *kgo.Client) error {
			return r.alterTopics(ctx, adm, cl, names, partitions, ops)
		})
	}
	return c
}

func (r *remote) alterTopics(ctx context.Context, adm *kadm.Client, cl *kgo.Client, names []string, partitions int,
	ops []kmsg.IncrementalAlterConfigsRequestResourceConfig,
) error {
	var errs []error
	if partitions != 0 {
		changed, err := adm.UpdatePartitions(ctx, partitions, names...)
		if err != nil {
			return err
		}
		for _, t := range changed.Sorted() {
			if t.Err != nil {
				errs = append(errs, answered("topic "+t.Topic, t.Err, t.ErrMessage))
			}
		}
	}
	if len(ops) > 0 {
		for _, name := range names {
			errs = append(errs, alterConfig(ctx, cl, kmsg.ConfigResourceTypeTopic, name, ops))
		}
	}
	if err := all(errs); err != nil {
		return err
	}
	if r.json {
		return writeJSON(r.Out, map[string]any{"altered": names})
	}
	for _, name := range names {
		if err := say(r.Out, "altered topic %s", name); err != nil {
			return err
		}
	}
	return nil
}

// mustExist returns the details of topics, or an error that names those that are missing.
func mustExist(ctx context.Context, adm *kadm.Client, names ...string) ([]kadm.TopicDetail, error) {
	topics, err := adm.ListTopicsWithInternal(ctx, names...)
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, t := range topics.Sorted() {
		if t.Err != nil {
			errs = append(errs, answered("topic "+t.Topic, t.Err, ""))
		}
	}
	return topics.Sorted(), all(errs)
}
