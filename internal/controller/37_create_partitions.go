package controller

import (
	"slices"

	"github.com/kbroker/kbroker/internal/metadata"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// createPartitions answers CreatePartitions (key 37): topics grow, never shrink.
func (v *view) createPartitions(req *kmsg.CreatePartitionsRequest) decision {
	resp := req.ResponseKind().(*kmsg.CreatePartitionsResponse)
	seen := map[string]int{}
	for i := range req.Topics {
		seen[req.Topics[i].Topic]++
	}
	limit := v.checkGrowth(req, seen)
	var records []metadata.Record
	var duplicates []string
	answer := func(name string, err error) {
		out := kmsg.NewCreatePartitionsResponseTopic()
		out.Topic = name
		out.ErrorCode, out.ErrorMessage = answerOf(err)
		if err == kerr.UnknownTopicOrPartition { //nolint:errorlint // Kafka gives no text with this one
			out.ErrorMessage = nil
		}
		resp.Topics = append(resp.Topics, out)
	}
	for i := range req.Topics {
		t := &req.Topics[i]
		if seen[t.Topic] > 1 {
			if !slices.Contains(duplicates, t.Topic) {
				duplicates = append(duplicates, t.Topic)
				answer(t.Topic, refuse(kerr.InvalidRequest, "Duplicate topic name."))
			}
			continue
		}
		rs, err := v.growTopic(t, limit)
		answer(t.Topic, err)
		records = append(records, rs...)
	}
	if req.ValidateOnly {
		records = nil
	}
	return decision{response: resp, records: records, visible: true}
}

// checkGrowth refuses the whole request when it would make too many partitions at once (C6).
func (v *view) checkGrowth(req *kmsg.CreatePartitionsRequest, seen map[string]int) error {
	total := 0
	for i := range req.Topics {
		if t := v.img.Topic(req.Topics[i].Topic); t != nil && seen[t.Name] == 1 {
			total += max(0, int(req.Topics[i].Count)-len(t.Partitions))
		}
	}
	if total > maxPartitionsPerRequest {
		return refuse(kerr.PolicyViolation, "Excessively large number of additional partitions per request.")
	}
	return nil
}

func (v *view) growTopic(req *kmsg.CreatePartitionsRequestTopic, limit error) ([]metadata.Record, error) {
	t := v.img.Topic(req.Topic)
	if limit != nil {
		return nil, limit
	}
	if t == nil {
		return nil, kerr.UnknownTopicOrPartition
	}
	have := len(t.Partitions)
	more := int(req.Count) - have
	switch {
	case more == 0:
		return nil, refuse(kerr.InvalidPartitions, "Topic already has %d partition(s).", have)
	case more < 0:
		return nil, refuse(kerr.InvalidPartitions, "The topic %s currently has %d partition(s); %d would not be an increase.",
			t.Name, have, req.Count)
	case req.Assignment != nil && len(req.Assignment) != more:
		return nil, refuse(kerr.InvalidReplicaAssignment,
			"Attempted to add %d additional partition(s), but only %d assignment(s) were specified.", more, len(req.Assignment))
	}
	assignment, err := v.growthAssignment(t, req, more)
	if err != nil {
		return nil, err
	}
	incarnation := v.img.NextIncarnation()
	var records []metadata.Record
	for i, replicas := range assignment {
		p := v.newPartition(replicas, incarnation)
		records = append(records, &metadata.PartitionRecord{TopicID: t.ID, Index: int32(have + i), State: *p})
	}
	return records, nil
}

func (v *view) growthAssignment(t *metadata.Topic, req *kmsg.CreatePartitionsRequestTopic, more int) ([][]int32, error) {
	// A reassignment in progress does not change how many replicas the topic is to have.
	first := t.Partitions[0]
	factor := len(first.Replicas) - len(first.Adding)
	if len(first.Adding) == 0 {
		factor = len(first.Replicas)
	}
	if req.Assignment == nil {
		return v.place(more, factor)
	}
	var assignment [][]int32
	for i, a := range req.Assignment {
		if err := v.checkManual(a.Replicas, int32(len(t.Partitions)+i), factor); err != nil {
			return nil, err
		}
		assignment = append(assignment, slices.Clone(a.Replicas))
	}
	return assignment, nil
}
