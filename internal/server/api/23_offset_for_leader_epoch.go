package api

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/internal/broker"
	"github.com/kbroker/kbroker/protocol"
)

// OffsetForLeaderEpoch (key 23) tells where a leader epoch ends, so that a reader notices that its log was truncated.
func offsetForLeaderEpochAPI() API {
	return API{
		Key: 23, Min: 2, Max: 4,
		Since: []string{"v2 current leader epoch (KIP-320)", "v3 replica id"},
		serve: answer((*Service).offsetForLeaderEpoch),
	}
}

func (s *Service) offsetForLeaderEpoch(ctx context.Context, r *Request, q *kmsg.OffsetForLeaderEpochRequest) *kmsg.OffsetForLeaderEpochResponse {
	resp := kmsg.NewPtrOffsetForLeaderEpochResponse()
	var ask []broker.EpochEndPartition
	var slots []*kmsg.OffsetForLeaderEpochResponseTopicPartition
	peer := s.Authorizer.Enabled() && s.mayCluster(r, kmsg.ACLOperationClusterAction)
	resp.Topics = make([]kmsg.OffsetForLeaderEpochResponseTopic, len(q.Topics))
	for i := range q.Topics {
		qt, rt := &q.Topics[i], &resp.Topics[i]
		rt.Topic = qt.Topic
		rt.Partitions = make([]kmsg.OffsetForLeaderEpochResponseTopicPartition, len(qt.Partitions))
		allowed := peer || s.mayTopic(r, kmsg.ACLOperationDescribe, qt.Topic)
		for k := range qt.Partitions {
			qp, rp := &qt.Partitions[k], &rt.Partitions[k]
			rp.Default()
			rp.Partition = qp.Partition
			if !allowed {
				rp.ErrorCode = kerr.TopicAuthorizationFailed.Code
				continue
			}
			slots = append(slots, rp)
			ask = append(ask, broker.EpochEndPartition{
				Topic: qt.Topic, Partition: qp.Partition, CurrentLeaderEpoch: qp.CurrentLeaderEpoch, LeaderEpoch: qp.LeaderEpoch,
			})
		}
	}
	for i, end := range s.Data.EpochEnds(ctx, ask) {
		slots[i].ErrorCode = protocol.CodeOf(end.Err)
		slots[i].LeaderEpoch, slots[i].EndOffset = end.LeaderEpoch, end.EndOffset
	}
	return resp
}
