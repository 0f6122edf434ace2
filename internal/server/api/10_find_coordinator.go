package api

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/internal/model"
	"github.com/kbroker/kbroker/protocol"
)

// FindCoordinator (key 10) tells which broker coordinates a group or a transactional id. It creates the topic that holds
// the coordinator's state.
func findCoordinatorAPI() API {
	return API{
		Key: 10, Min: 0, Max: 6,
		Since: []string{"v1 coordinators of transactions", "v4 many keys at once (KIP-699)", "v5 retriable transaction errors (KIP-890)", "v6 share groups (KIP-932)"},
		Deviations: []string{
			"The internal topic is waited for when it has to be created; Apache Kafka answers COORDINATOR_NOT_AVAILABLE and lets the client ask again.",
			"Its replication factor is lowered to the number of live brokers.",
			"There are no share groups: their keys are answered with INVALID_REQUEST.",
		},
		serve: answer((*Service).findCoordinator),
	}
}

// The types of keys that a client may look for.
const (
	coordinatorOfGroup       = 0
	coordinatorOfTransaction = 1
)

func (s *Service) findCoordinator(ctx context.Context, r *Request, q *kmsg.FindCoordinatorRequest) *kmsg.FindCoordinatorResponse {
	resp := kmsg.NewPtrFindCoordinatorResponse()
	resp.NodeID, resp.Port = model.NoLeader, -1
	if r.Version < 4 {
		c := s.coordinator(ctx, r, q.CoordinatorType, q.CoordinatorKey)
		resp.ErrorCode, resp.ErrorMessage = c.ErrorCode, c.ErrorMessage
		resp.NodeID, resp.Host, resp.Port = c.NodeID, c.Host, c.Port
		if c.ErrorCode == 0 {
			resp.ErrorMessage = text("NONE") // Apache Kafka's text of success in these versions
		}
		return resp
	}
	for _, key := range q.CoordinatorKeys {
		resp.Coordinators = append(resp.Coordinators, s.coordinator(ctx, r, q.CoordinatorType, key))
	}
	return resp
}

func (s *Service) coordinator(ctx context.Context, r *Request, kind int8, key string) kmsg.FindCoordinatorResponseCoordinator {
	c := kmsg.NewFindCoordinatorResponseCoordinator()
	c.Key, c.NodeID, c.Port, c.ErrorMessage = key, model.NoLeader, -1, text("")
	e, err := s.findCoordinatorOf(ctx, r, kind, key)
	if err != nil {
		c.ErrorCode, c.ErrorMessage = protocol.CodeOf(err), protocol.MessageOf(err)
		return c
	}
	c.NodeID, c.Host, c.Port = e.id, e.host, e.port
	return c
}

func (s *Service) findCoordinatorOf(ctx context.Context, r *Request, kind int8, key string) (endpoint, error) {
	var topic string
	var partitionFor func(string) int32
	switch kind {
	case coordinatorOfGroup:
		if !s.mayGroup(r, kmsg.ACLOperationDescribe, key) {
			return endpoint{}, kerr.GroupAuthorizationFailed
		}
		topic, partitionFor = model.GroupMetadataTopic, s.Groups.PartitionFor
	case coordinatorOfTransaction:
		if !s.may(r, kmsg.ACLOperationDescribe, kmsg.ACLResourceTypeTransactionalId, key) {
			return endpoint{}, kerr.TransactionalIDAuthorizationFailed
		}
		if s.Transactions == nil {
			return endpoint{}, fmt.Errorf("this cluster does not coordinate transactions: %w", kerr.UnsupportedVersion)
		}
		topic, partitionFor = model.TransactionStateTopic, s.Transactions.PartitionFor
	default:
		return endpoint{}, fmt.Errorf("there are no coordinators of type %d: %w", kind, kerr.InvalidRequest)
	}
	if s.Cluster.Image().Topic(topic) == nil {
		if err := s.createTopics(ctx, r.Caller(), []string{topic})[0]; err != nil {
			return endpoint{}, saying(kerr.CoordinatorNotAvailable, "%s cannot be created: %v", topic, err)
		}
	}
	img := s.Cluster.Image()
	tp := model.TopicPartition{Topic: topic, Partition: partitionFor(key)}
	p := img.Partition(tp)
	if p == nil {
		return endpoint{}, fmt.Errorf("%s is not there yet: %w", tp, kerr.CoordinatorNotAvailable)
	}
	e, ok := endpointOf(img, p.Leader, r.Peer.Listener)
	if !ok {
		return endpoint{}, fmt.Errorf("%s has no leader that is reachable by listener %s: %w", tp, r.Peer.Listener, kerr.CoordinatorNotAvailable)
	}
	return e, nil
}
