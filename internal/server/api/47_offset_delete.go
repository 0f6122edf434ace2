package api

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/internal/model"
)

// OffsetDelete (key 47) deletes committed offsets of topics that a group does not read any more (KIP-496).
func offsetDeleteAPI() API {
	return API{Key: 47, Min: 0, Max: 0, serve: answer((*Service).offsetDelete)}
}

func (s *Service) offsetDelete(ctx context.Context, r *Request, q *kmsg.OffsetDeleteRequest) *kmsg.OffsetDeleteResponse {
	resp := kmsg.NewPtrOffsetDeleteResponse()
	if !s.mayGroup(r, kmsg.ACLOperationDelete, q.Group) {
		resp.ErrorCode = kerr.GroupAuthorizationFailed.Code
		return resp
	}
	ask := *q
	ask.Topics = nil
	img := s.Cluster.Image()
	slots := map[model.TopicPartition]*kmsg.OffsetDeleteResponseTopicPartition{}
	resp.Topics = make([]kmsg.OffsetDeleteResponseTopic, len(q.Topics))
	for i := range q.Topics {
		qt, rt := &q.Topics[i], &resp.Topics[i]
		rt.Topic = qt.Topic
		rt.Partitions = make([]kmsg.OffsetDeleteResponseTopicPartition, len(qt.Partitions))
		allowed := s.mayTopic(r, kmsg.ACLOperationRead, qt.Topic)
		at := kmsg.NewOffsetDeleteRequestTopic()
		at.Topic = qt.Topic
		for k, p := range qt.Partitions {
			tp := model.TopicPartition{Topic: qt.Topic, Partition: p.Partition}
			rt.Partitions[k].Partition = p.Partition
			switch {
			case !allowed:
				rt.Partitions[k].ErrorCode = kerr.TopicAuthorizationFailed.Code
			case img.Partition(tp) == nil:
				rt.Partitions[k].ErrorCode = kerr.UnknownTopicOrPartition.Code
			default:
				slots[tp] = &rt.Partitions[k]
				at.Partitions = append(at.Partitions, p)
			}
		}
		if len(at.Partitions) > 0 {
			ask.Topics = append(ask.Topics, at)
		}
	}
	return s.deleteOffsets(ctx, r, &ask, resp, slots)
}

func (s *Service) deleteOffsets(ctx context.Context, r *Request, ask *kmsg.OffsetDeleteRequest, resp *kmsg.OffsetDeleteResponse,
	slots map[model.TopicPartition]*kmsg.OffsetDeleteResponseTopicPartition) *kmsg.OffsetDeleteResponse {
	got := s.Groups.OffsetDelete(ctx, r.member(), ask)
	if got.ErrorCode != 0 {
		resp.ErrorCode, resp.Topics = got.ErrorCode, nil
		return resp
	}
	for i := range got.Topics {
		for _, p := range got.Topics[i].Partitions {
			if slot := slots[model.TopicPartition{Topic: got.Topics[i].Topic, Partition: p.Partition}]; slot != nil {
				slot.ErrorCode = p.ErrorCode
			}
		}
	}
	return resp
}
