package api

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/internal/broker"
	"github.com/kbroker/kbroker/internal/model"
	"github.com/kbroker/kbroker/protocol"
)

// ListOffsets (key 2) finds offsets by time, and the ends of a log.
func listOffsetsAPI() API {
	return API{
		Key: 2, Min: 1, Max: 11,
		Since: []string{
			"v2 isolation level", "v4 leader epochs (KIP-320)", "v7 largest timestamp (KIP-734)", "v8 earliest local (KIP-405)",
			"v9 latest tiered (KIP-1005)", "v10 timeout", "v11 earliest pending upload (KIP-1023)",
		},
		Deviations: []string{"There is no tiered storage: earliest local is the log start, the tiered offsets are -1."},
		serve:      answer((*Service).listOffsets),
	}
}

// listOffsetsSince holds the version that brought each special timestamp.
func listOffsetsSince(timestamp int64) (version int16, known bool) {
	switch timestamp {
	case -1, -2:
		return 1, true
	case -3:
		return 7, true
	case -4:
		return 8, true
	case -5:
		return 9, true
	case -6:
		return 11, true
	}
	return 0, false
}

func (s *Service) listOffsets(ctx context.Context, r *Request, q *kmsg.ListOffsetsRequest) *kmsg.ListOffsetsResponse {
	resp := kmsg.NewPtrListOffsetsResponse()
	ask := broker.ListOffsetsRequest{ReplicaID: q.ReplicaID, ReadCommitted: q.IsolationLevel == 1}
	var slots []*kmsg.ListOffsetsResponseTopicPartition
	twice := duplicates(q)
	resp.Topics = make([]kmsg.ListOffsetsResponseTopic, len(q.Topics))
	for i := range q.Topics {
		qt, rt := &q.Topics[i], &resp.Topics[i]
		rt.Topic = qt.Topic
		rt.Partitions = make([]kmsg.ListOffsetsResponseTopicPartition, len(qt.Partitions))
		allowed := s.mayTopic(r, kmsg.ACLOperationDescribe, qt.Topic)
		for k := range qt.Partitions {
			qp, rp := &qt.Partitions[k], &rt.Partitions[k]
			rp.Default()
			rp.Partition = qp.Partition
			since, special := listOffsetsSince(qp.Timestamp)
			switch {
			case !allowed:
				rp.ErrorCode = kerr.TopicAuthorizationFailed.Code
			case twice[model.TopicPartition{Topic: qt.Topic, Partition: qp.Partition}]:
				rp.ErrorCode = kerr.InvalidRequest.Code
			case qp.Timestamp < 0 && (!special || r.Version < since):
				rp.ErrorCode = kerr.UnsupportedVersion.Code
			default:
				slots = append(slots, rp)
				ask.Partitions = append(ask.Partitions, broker.ListOffsetsPartition{
					Topic: qt.Topic, Partition: qp.Partition, Timestamp: qp.Timestamp, CurrentLeaderEpoch: qp.CurrentLeaderEpoch,
				})
			}
		}
	}
	if len(slots) == 0 {
		return resp
	}
	for i, found := range s.Data.ListOffsets(ctx, ask) {
		rp := slots[i]
		rp.ErrorCode = protocol.CodeOf(found.Err)
		rp.Offset, rp.Timestamp, rp.LeaderEpoch = found.Offset, found.Timestamp, found.LeaderEpoch
	}
	return resp
}

// duplicates returns the partitions that a request names more than once.
func duplicates(q *kmsg.ListOffsetsRequest) map[model.TopicPartition]bool {
	seen, twice := map[model.TopicPartition]bool{}, map[model.TopicPartition]bool{}
	for i := range q.Topics {
		for k := range q.Topics[i].Partitions {
			tp := model.TopicPartition{Topic: q.Topics[i].Topic, Partition: q.Topics[i].Partitions[k].Partition}
			if seen[tp] {
				twice[tp] = true
			}
			seen[tp] = true
		}
	}
	return twice
}
