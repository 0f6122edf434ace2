package api

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/protocol"
)

// CreatePartitions (key 37) is decided by the controller (KIP-195).
func createPartitionsAPI() API {
	return API{Key: 37, Min: 0, Max: 3, serve: answer((*Service).createPartitions)}
}

func (s *Service) createPartitions(ctx context.Context, r *Request, q *kmsg.CreatePartitionsRequest) *kmsg.CreatePartitionsResponse {
	var allowed, denied []kmsg.CreatePartitionsRequestTopic
	for _, t := range q.Topics {
		if s.mayTopic(r, kmsg.ACLOperationAlter, t.Topic) {
			allowed = append(allowed, t)
		} else {
			denied = append(denied, t)
		}
	}
	resp := kmsg.NewPtrCreatePartitionsResponse()
	if len(allowed) > 0 {
		ask := *q
		ask.Topics = allowed
		got, err := forward[*kmsg.CreatePartitionsResponse](ctx, s, r, &ask)
		if err == nil {
			resp = got
		} else {
			resp.Topics = refusePartitions(resp.Topics, allowed, err)
		}
	}
	resp.Topics = refusePartitions(resp.Topics, denied, kerr.TopicAuthorizationFailed)
	return resp
}

func refusePartitions(to []kmsg.CreatePartitionsResponseTopic, topics []kmsg.CreatePartitionsRequestTopic, err error) []kmsg.CreatePartitionsResponseTopic {
	for i := range topics {
		t := kmsg.NewCreatePartitionsResponseTopic()
		t.Topic, t.ErrorCode, t.ErrorMessage = topics[i].Topic, protocol.CodeOf(err), protocol.MessageOf(err)
		to = append(to, t)
	}
	return to
}
