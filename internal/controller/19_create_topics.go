package controller

import (
	"slices"

	"github.com/kbroker/kbroker/internal/metadata"
	"github.com/kbroker/kbroker/internal/model"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"
)

// maxPartitionsPerRequest bounds the batch that one request makes (C6), as Kafka does.
const maxPartitionsPerRequest = 10000

// newTopic is a topic that will be created.
type newTopic struct {
	req *kmsg.CreateTopicsRequestTopic
	// configs are the overrides.
	configs    map[string]string
	partitions []*metadata.Partition
}

// createTopics answers CreateTopics (key 19). Topics are independent of each other: some may fail.
func (v *view) createTopics(req *kmsg.CreateTopicsRequest) decision {
	resp := req.ResponseKind().(*kmsg.CreateTopicsResponse)
	seen := map[string]int{}
	for i := range req.Topics {
		seen[req.Topics[i].Topic]++
	}
	limit := v.checkTotal(req, seen)
	taken := &collisions{img: v.img}
	incarnation := v.img.NextIncarnation()
	var records []metadata.Record
	var duplicates []string
	for i := range req.Topics {
		t := &req.Topics[i]
		if seen[t.Topic] > 1 {
			if !slices.Contains(duplicates, t.Topic) {
				duplicates = append(duplicates, t.Topic)
			}
			continue
		}
		made, err := v.planTopic(t, taken, limit, incarnation)
		if err != nil {
			resp.Topics = append(resp.Topics, refusedTopic(t.Topic, err))
			continue
		}
		id := v.newID()
		resp.Topics = append(resp.Topics, v.createdTopic(made, id, req.Version))
		records = append(records, made.records(id)...)
	}
	for _, name := range duplicates {
		resp.Topics = append(resp.Topics, refusedTopic(name, refuse(kerr.InvalidRequest, "Duplicate topic name.")))
	}
	if req.ValidateOnly {
		records = nil
	}
	return decision{response: resp, records: records, visible: true}
}

func refusedTopic(name string, err error) kmsg.CreateTopicsResponseTopic {
	t := kmsg.NewCreateTopicsResponseTopic()
	t.Topic = name
	t.ErrorCode, t.ErrorMessage = answerOf(err)
	t.NumPartitions, t.ReplicationFactor = -1, -1
	t.Configs = []kmsg.CreateTopicsResponseTopicConfig{}
	return t
}

// checkTotal refuses the whole request when it would make too many partitions at once.
func (v *view) checkTotal(req *kmsg.CreateTopicsRequest, seen map[string]int) error {
	total := 0
	for i := range req.Topics {
		t := &req.Topics[i]
		switch {
		case seen[t.Topic] > 1:
		case len(t.ReplicaAssignment) > 0:
			total += len(t.ReplicaAssignment)
		case t.NumPartitions == -1:
			total += int(v.cfg.Topics.Partitions)
		default:
			total += max(0, int(t.NumPartitions))
		}
	}
	if total > maxPartitionsPerRequest {
		return refuse(kerr.PolicyViolation, "Excessively large number of partitions per request.")
	}
	return nil
}

// planTopic checks one topic and places its partitions.
func (v *view) planTopic(t *kmsg.CreateTopicsRequestTopic, taken *collisions, limit error, incarnation int64) (*newTopic, error) {
	if t.Topic == model.ClusterMetadataTopic {
		return nil, refuse(kerr.InvalidRequest, "Creation of internal topic %s is prohibited.", t.Topic)
	}
	if limit != nil {
		return nil, limit
	}
	if v.img.Topic(t.Topic) != nil {
		return nil, refuse(kerr.TopicAlreadyExists, "Topic '%s' already exists.", t.Topic)
	}
	if err := checkTopicName(t.Topic); err != nil {
		return nil, err
	}
	if other := taken.with(t.Topic); other != "" {
		return nil, refuse(kerr.InvalidTopicException, "Topic '%s' collides with existing topic: %s", t.Topic, other)
	}
	configs, err := v.newTopicConfigs(t)
	if err != nil {
		return nil, err
	}
	assignment, err := v.newTopicAssignment(t)
	if err != nil {
		return nil, err
	}
	made := &newTopic{req: t, configs: configs}
	for _, replicas := range assignment {
		made.partitions = append(made.partitions, v.newPartition(replicas, incarnation))
	}
	return made, nil
}

func (v *view) newTopicConfigs(t *kmsg.CreateTopicsRequestTopic) (map[string]string, error) {
	configs := map[string]string{}
	var nulls []string
	for _, c := range t.Configs {
		if c.Value == nil {
			nulls = append(nulls, c.Name)
			continue
		}
		configs[c.Name] = *c.Value
	}
	if len(nulls) > 0 {
		return nil, refuse(kerr.InvalidConfig, "Null value not supported for topic configs: %s", joined(nulls))
	}
	return configs, v.cfg.ValidateTopic(configs)
}

// newTopicAssignment returns the replicas of every partition: those asked for, or placed ones.
func (v *view) newTopicAssignment(t *kmsg.CreateTopicsRequestTopic) ([][]int32, error) {
	switch {
	case len(t.ReplicaAssignment) > 0:
		return v.manualAssignment(t)
	case t.ReplicationFactor < -1 || t.ReplicationFactor == 0:
		return nil, refuse(kerr.InvalidReplicationFactor, "Replication factor must be larger than 0, or -1 to use the default value.")
	case t.NumPartitions < -1 || t.NumPartitions == 0:
		return nil, refuse(kerr.InvalidPartitions, "Number of partitions was set to an invalid non-positive value.")
	}
	partitions, factor := int(t.NumPartitions), int(t.ReplicationFactor)
	if partitions == -1 {
		partitions = int(v.cfg.Topics.Partitions)
	}
	if factor == -1 {
		factor = int(v.cfg.Topics.ReplicationFactor)
	}
	return v.place(partitions, v.clampInternal(t.Topic, factor))
}

// clampInternal lowers the replication factor of an internal topic to one on a cluster of one node, so that the defaults
// of a large cluster work there. A cluster that merely starts with one broker is no such cluster: its quorum has more
// voters, or they are elsewhere.
func (v *view) clampInternal(topic string, factor int) int {
	alone := v.self.onlyVoter && v.img.BrokerCount() == 1 && v.img.Broker(v.self.nodeID) != nil
	if factor <= 1 || !alone || !model.IsInternalTopic(topic) {
		return factor
	}
	v.log.Info("this cluster has one node: an internal topic gets one replica instead of those configured",
		zap.String("topic", topic), zap.Int("configured", factor))
	return 1
}

// place spreads new partitions over the brokers.
func (v *view) place(partitions, factor int) ([][]int32, error) {
	p := newPlacer(v.img, v.rng)
	err := p.check(factor)
	assignment := make([][]int32, 0, partitions)
	for i := 0; err == nil && i < partitions; i++ {
		replicas := p.next(factor)
		if len(v.eligibleOf(replicas)) == 0 {
			err = refuse(kerr.InvalidReplicationFactor, "All brokers are currently fenced or in controlled shutdown.")
		}
		assignment = append(assignment, replicas)
	}
	if err != nil {
		return nil, refuse(kerr.InvalidReplicationFactor, "Unable to replicate the partition %d time(s): %s", factor, err)
	}
	return assignment, nil
}

func (v *view) manualAssignment(t *kmsg.CreateTopicsRequestTopic) ([][]int32, error) {
	if t.ReplicationFactor != -1 {
		return nil, refuse(kerr.InvalidRequest, "A manual partition assignment was specified, but replication factor was not set to -1.")
	}
	if t.NumPartitions != -1 {
		return nil, refuse(kerr.InvalidRequest, "A manual partition assignment was specified, but numPartitions was not set to -1.")
	}
	byIndex := map[int32][]int32{}
	factor := -1
	for _, a := range t.ReplicaAssignment {
		if _, twice := byIndex[a.Partition]; twice {
			return nil, refuse(kerr.InvalidReplicaAssignment, "Found multiple manual partition assignments for partition %d", a.Partition)
		}
		if err := v.checkManual(a.Replicas, a.Partition, factor); err != nil {
			return nil, err
		}
		factor = len(a.Replicas)
		byIndex[a.Partition] = a.Replicas
	}
	assignment := make([][]int32, len(byIndex))
	for i := range assignment {
		replicas, ok := byIndex[int32(i)]
		if !ok {
			return nil, refuse(kerr.InvalidReplicaAssignment, "partitions should be a consecutive 0-based integer sequence")
		}
		assignment[i] = slices.Clone(replicas)
	}
	return assignment, nil
}

// checkManual checks the replicas that somebody wants for a partition. factor is how many the others have, -1 for any.
func (v *view) checkManual(replicas []int32, partition int32, factor int) error {
	bad := func(format string, args ...any) error { return refuse(kerr.InvalidReplicaAssignment, format, args...) }
	if len(replicas) == 0 {
		return bad("The manual partition assignment includes an empty replica list.")
	}
	sorted := slices.Sorted(slices.Values(replicas))
	for i, b := range sorted {
		if v.img.Broker(b) == nil {
			return bad("The manual partition assignment includes broker %d, but no such broker is registered.", b)
		}
		if i > 0 && sorted[i-1] == b {
			return bad("The manual partition assignment includes the broker %d more than once.", b)
		}
	}
	if factor >= 0 && len(replicas) != factor {
		return bad("The manual partition assignment includes a partition with %d replica(s), but this is not consistent with "+
			"previous partitions, which have %d replica(s).", len(replicas), factor)
	}
	if len(v.eligibleOf(replicas)) == 0 {
		return bad("All brokers specified in the manual partition assignment for partition %d are fenced or in controlled shutdown.", partition)
	}
	return nil
}

// newPartition returns a fresh partition: all its living replicas are in the ISR, having nothing to catch up with (C2, C3).
func (v *view) newPartition(replicas []int32, incarnation int64) *metadata.Partition {
	p := &metadata.Partition{
		Replicas: replicas, ISR: v.eligibleOf(replicas),
		Directories: make([]model.UUID, len(replicas)), Incarnations: slices.Repeat([]int64{incarnation}, len(replicas)),
	}
	p.Leader = p.ISR[0]
	for i, b := range replicas {
		p.Directories[i] = v.onlyDirectory(b)
	}
	return p
}

// onlyDirectory returns the log directory that a new replica on a broker will live in, when there is no choice.
func (v *view) onlyDirectory(broker int32) model.UUID {
	if b := v.img.Broker(broker); b != nil && len(b.LogDirs) == 1 {
		return b.LogDirs[0]
	}
	return model.UUID{}
}

func (n *newTopic) records(id model.UUID) []metadata.Record {
	records := []metadata.Record{&metadata.TopicRecord{Name: n.req.Topic, ID: id}}
	res := metadata.ConfigResource{Type: metadata.ResourceTopic, Name: n.req.Topic}
	records = append(records, configChanges(res, nil, n.configs)...)
	for i, p := range n.partitions {
		records = append(records, &metadata.PartitionRecord{TopicID: id, Index: int32(i), State: *p})
	}
	return records
}

func (v *view) createdTopic(n *newTopic, id model.UUID, version int16) kmsg.CreateTopicsResponseTopic {
	t := kmsg.NewCreateTopicsResponseTopic()
	t.Topic, t.TopicID = n.req.Topic, id
	t.NumPartitions, t.ReplicationFactor = int32(len(n.partitions)), int16(len(n.partitions[0].Replicas))
	if version < 5 {
		return t
	}
	for _, e := range v.cfg.DescribeNewTopic(n.configs) {
		c := kmsg.NewCreateTopicsResponseTopicConfig()
		c.Name, c.Value, c.ReadOnly, c.Source, c.IsSensitive = e.Name, e.Value, e.ReadOnly, int8(e.Source), e.Sensitive
		t.Configs = append(t.Configs, c)
	}
	return t
}
