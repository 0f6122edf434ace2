package api

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/internal/metadata"
	"github.com/kbroker/kbroker/protocol"
)

// DeleteTopics (key 20) is decided by the controller.
func deleteTopicsAPI() API {
	return API{
		Key: 20, Min: 0, Max: 6,
		Since:      []string{"v5 error messages (KIP-599)", "v6 topics by id (KIP-516)"},
		Deviations: []string{"Version 0 is served although Apache Kafka 4 has dropped it."},
		serve:      answer((*Service).deleteTopics),
	}
}

func (s *Service) deleteTopics(ctx context.Context, r *Request, q *kmsg.DeleteTopicsRequest) *kmsg.DeleteTopicsResponse {
	img := s.Cluster.Image()
	ask := *q
	ask.TopicNames, ask.Topics = nil, nil
	var denied []kmsg.DeleteTopicsResponseTopic
	for _, name := range q.TopicNames {
		if s.mayTopic(r, kmsg.ACLOperationDelete, name) {
			ask.TopicNames = append(ask.TopicNames, name)
		} else {
			denied = append(denied, refuseDeletion(&name, [16]byte{}, kerr.TopicAuthorizationFailed))
		}
	}
	for _, t := range q.Topics {
		if s.mayDelete(r, img, &t) {
			ask.Topics = append(ask.Topics, t)
		} else {
			denied = append(denied, refuseDeletion(t.Topic, t.TopicID, kerr.TopicAuthorizationFailed))
		}
	}
	resp := kmsg.NewPtrDeleteTopicsResponse()
	if len(ask.TopicNames)+len(ask.Topics) > 0 {
		got, err := forward[*kmsg.DeleteTopicsResponse](ctx, s, r, &ask)
		if err == nil {
			resp = got
		} else {
			resp.Topics = refuseDeletions(&ask, err)
		}
	}
	resp.Topics = append(resp.Topics, denied...)
	return resp
}

// mayDelete reports whether a topic may be deleted. The controller answers for ids that nobody knows.
func (s *Service) mayDelete(r *Request, img *metadata.Image, t *kmsg.DeleteTopicsRequestTopic) bool {
	if t.Topic != nil {
		return s.mayTopic(r, kmsg.ACLOperationDelete, *t.Topic)
	}
	known := img.TopicByID(t.TopicID)
	return known == nil || s.mayTopic(r, kmsg.ACLOperationDelete, known.Name)
}

func refuseDeletions(q *kmsg.DeleteTopicsRequest, err error) []kmsg.DeleteTopicsResponseTopic {
	var out []kmsg.DeleteTopicsResponseTopic
	for _, name := range q.TopicNames {
		out = append(out, refuseDeletion(&name, [16]byte{}, err))
	}
	for _, t := range q.Topics {
		out = append(out, refuseDeletion(t.Topic, t.TopicID, err))
	}
	return out
}

func refuseDeletion(name *string, id [16]byte, err error) kmsg.DeleteTopicsResponseTopic {
	t := kmsg.NewDeleteTopicsResponseTopic()
	t.Topic, t.TopicID, t.ErrorCode, t.ErrorMessage = name, id, protocol.CodeOf(err), protocol.MessageOf(err)
	return t
}
