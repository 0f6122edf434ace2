package api

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/protocol"
)

// CreateTopics (key 19) is decided by the controller; the answer comes once this broker has seen the new topics.
func createTopicsAPI() API {
	return API{
		Key: 19, Min: 0, Max: 7,
		Since:      []string{"v1 validate only", "v4 -1 for the default number of partitions and replicas (KIP-464)", "v5 configs of the new topic (KIP-525)", "v7 topic ids (KIP-516)"},
		Deviations: []string{"Versions 0 and 1 are served although Apache Kafka 4 has dropped them."},
		serve:      answer((*Service).createTopicsRequest),
	}
}

func (s *Service) createTopicsRequest(ctx context.Context, r *Request, q *kmsg.CreateTopicsRequest) *kmsg.CreateTopicsResponse {
	all := s.mayCluster(r, kmsg.ACLOperationCreate)
	var allowed, denied []kmsg.CreateTopicsRequestTopic
	for _, t := range q.Topics {
		if all || s.mayTopic(r, kmsg.ACLOperationCreate, t.Topic) {
			allowed = append(allowed, t)
		} else {
			denied = append(denied, t)
		}
	}
	resp := kmsg.NewPtrCreateTopicsResponse()
	if len(allowed) > 0 {
		ask := *q
		ask.Topics = allowed
		got, err := forward[*kmsg.CreateTopicsResponse](ctx, s, r, &ask)
		if err != nil {
			resp.Topics = refuseCreations(resp.Topics, allowed, err)
		} else {
			resp = got
			s.hideConfigs(r, resp)
		}
	}
	resp.Topics = refuseCreations(resp.Topics, denied, kerr.TopicAuthorizationFailed)
	return resp
}

func refuseCreations(to []kmsg.CreateTopicsResponseTopic, topics []kmsg.CreateTopicsRequestTopic, err error) []kmsg.CreateTopicsResponseTopic {
	for i := range topics {
		t := kmsg.NewCreateTopicsResponseTopic()
		t.Topic, t.ErrorCode, t.ErrorMessage = topics[i].Topic, protocol.CodeOf(err), protocol.MessageOf(err)
		t.NumPartitions, t.ReplicationFactor = -1, -1
		to = append(to, t)
	}
	return to
}

// hideConfigs takes the configs of new topics out of the answer to somebody who may not see them.
func (s *Service) hideConfigs(r *Request, resp *kmsg.CreateTopicsResponse) {
	for i := range resp.Topics {
		t := &resp.Topics[i]
		if t.ErrorCode == 0 && !s.mayTopic(r, kmsg.ACLOperationDescribeConfigs, t.Topic) {
			t.ConfigErrorCode = kerr.TopicAuthorizationFailed.Code
			t.NumPartitions, t.ReplicationFactor, t.Configs = -1, -1, nil
		}
	}
}
