package controller

import (
	"slices"

	"github.com/kbroker/kbroker/internal/metadata"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Values of a partition's recovery state on the wire.
const (
	recovered  int8 = 0
	recovering int8 = 1
)

// alterPartition answers AlterPartition (key 56): a leader asks for another ISR. Every answer tells the state that is in
// force, so that a leader which lost a race learns from it.
func (v *view) alterPartition(req *kmsg.AlterPartitionRequest) decision {
	resp := req.ResponseKind().(*kmsg.AlterPartitionResponse)
	if _, err := v.checkBroker(req.BrokerID, req.BrokerEpoch); err != nil {
		resp.ErrorCode, _ = answerOf(err)
		return decision{response: resp}
	}
	var records []metadata.Record
	type place struct {
		topic     *metadata.Topic
		partition int32
	}
	seen := map[place]bool{}
	for i := range req.Topics {
		rt := &req.Topics[i]
		out := kmsg.NewAlterPartitionResponseTopic()
		out.Topic, out.TopidID = rt.Topic, rt.TopicID
		t, unknown := v.img.TopicByID(rt.TopicID), kerr.UnknownTopicID
		if req.Version < 2 {
			t, unknown = v.img.Topic(rt.Topic), kerr.UnknownTopicOrPartition
		}
		for j := range rt.Partitions {
			p := kmsg.NewAlterPartitionResponseTopicPartition()
			p.Partition = rt.Partitions[j].Partition
			at := place{t, p.Partition}
			switch {
			case t == nil:
				p.ErrorCode = unknown.Code
			case seen[at]:
				p.ErrorCode = kerr.InvalidRequest.Code
			default:
				seen[at] = true
				if r := v.alterISR(req.BrokerID, t, &rt.Partitions[j], &p); r != nil {
					records = append(records, r)
				}
			}
			out.Partitions = append(out.Partitions, p)
		}
		resp.Topics = append(resp.Topics, out)
	}
	return decision{response: resp, records: records}
}

// alterISR decides about one partition. A nil record is a refusal, or nothing to do.
func (v *view) alterISR(leader int32, t *metadata.Topic, req *kmsg.AlterPartitionRequestTopicPartition, out *kmsg.AlterPartitionResponseTopicPartition) metadata.Record {
	p := t.Partition(req.Partition)
	if p == nil {
		out.ErrorCode = kerr.UnknownTopicOrPartition.Code
		return nil
	}
	isr, err := v.checkISR(leader, p, req)
	if err != nil {
		out.ErrorCode, _ = answerOf(err)
		return nil
	}
	c := v.newPartitionChange(t, req.Partition)
	c.isr, c.recovering = isr, req.LeaderRecoveryState == recovering
	r := c.record()
	if r == nil {
		fillPartition(out, p)
		return nil
	}
	after, err := v.with(r)
	if err != nil {
		out.ErrorCode, _ = answerOf(err)
		return nil
	}
	now := after.img.TopicByID(t.ID).Partition(req.Partition)
	if now.Leader != leader {
		out.ErrorCode = kerr.NewLeaderElected.Code // the change completed a reassignment that the leader is not part of
		return r
	}
	fillPartition(out, now)
	return r
}

func fillPartition(out *kmsg.AlterPartitionResponseTopicPartition, p *metadata.Partition) {
	out.LeaderID, out.LeaderEpoch, out.PartitionEpoch = p.Leader, p.LeaderEpoch, p.PartitionEpoch
	out.ISR = slices.Clone(p.ISR)
	out.LeaderRecoveryState = recovered
	if p.Recovering {
		out.LeaderRecoveryState = recovering
	}
}

// checkISR returns the ISR that the leader asks for, or why it cannot have it.
func (v *view) checkISR(leader int32, p *metadata.Partition, req *kmsg.AlterPartitionRequestTopicPartition) ([]int32, error) {
	switch {
	case req.LeaderEpoch > p.LeaderEpoch || req.PartitionEpoch > p.PartitionEpoch:
		return nil, kerr.NotController // the leader knows more: this controller is an old one
	case req.LeaderEpoch < p.LeaderEpoch:
		return nil, kerr.FencedLeaderEpoch
	case leader != p.Leader:
		return nil, kerr.InvalidRequest
	case req.PartitionEpoch < p.PartitionEpoch:
		return nil, kerr.InvalidUpdateVersion
	}
	isr, epochs := wantedISR(req)
	for i, b := range isr {
		if !p.HasReplica(b) || slices.Contains(isr[:i], b) {
			return nil, kerr.InvalidRequest
		}
	}
	state := req.LeaderRecoveryState
	switch {
	case !slices.Contains(isr, leader):
		return nil, kerr.InvalidRequest
	case state != recovered && state != recovering, state == recovering && !p.Recovering, state == recovering && len(isr) > 1:
		return nil, kerr.InvalidRequest
	}
	for i, b := range isr {
		if !v.fit(p, b) || epochs[i] >= 0 && epochs[i] != v.img.Broker(b).Epoch {
			return nil, kerr.IneligibleReplica
		}
	}
	return isr, nil
}

// wantedISR returns the members and, from version 3, the broker epochs under which the leader saw them; -1 for any.
func wantedISR(req *kmsg.AlterPartitionRequestTopicPartition) (isr []int32, epochs []int64) {
	for _, b := range req.NewISR {
		isr, epochs = append(isr, b), append(epochs, -1)
	}
	for _, b := range req.NewEpochISR {
		isr, epochs = append(isr, b.BrokerID), append(epochs, b.BrokerEpoch)
	}
	return isr, epochs
}
