package api

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/internal/broker"
	"github.com/kbroker/kbroker/internal/model"
	"github.com/kbroker/kbroker/protocol"
)

// DeleteRecords (key 21) moves the start of a log forward (KIP-107).
func deleteRecordsAPI() API {
	return API{Key: 21, Min: 0, Max: 2, serve: answer((*Service).deleteRecords)}
}

func (s *Service) deleteRecords(ctx context.Context, r *Request, q *kmsg.DeleteRecordsRequest) *kmsg.DeleteRecordsResponse {
	resp := kmsg.NewPtrDeleteRecordsResponse()
	var ask []broker.DeleteRecordsPartition
	var slots []*kmsg.DeleteRecordsResponseTopicPartition
	img := s.Cluster.Image()
	resp.Topics = make([]kmsg.DeleteRecordsResponseTopic, len(q.Topics))
	for i := range q.Topics {
		qt, rt := &q.Topics[i], &resp.Topics[i]
		rt.Topic = qt.Topic
		rt.Partitions = make([]kmsg.DeleteRecordsResponseTopicPartition, len(qt.Partitions))
		allowed := s.mayTopic(r, kmsg.ACLOperationDelete, qt.Topic)
		for k := range qt.Partitions {
			qp, rp := &qt.Partitions[k], &rt.Partitions[k]
			rp.Default()
			rp.Partition, rp.LowWatermark = qp.Partition, model.NoOffset
			switch {
			case !allowed:
				rp.ErrorCode = kerr.TopicAuthorizationFailed.Code
			case img.Topic(qt.Topic) == nil:
				rp.ErrorCode = kerr.UnknownTopicOrPartition.Code
			default:
				slots = append(slots, rp)
				ask = append(ask, broker.DeleteRecordsPartition{Topic: qt.Topic, Partition: qp.Partition, Offset: qp.Offset})
			}
		}
	}
	timeout := time.Duration(q.TimeoutMillis) * time.Millisecond
	for i, d := range s.Data.DeleteRecords(ctx, timeout, ask) {
		slots[i].ErrorCode, slots[i].LowWatermark = protocol.CodeOf(d.Err), d.LowWatermark
	}
	return resp
}
