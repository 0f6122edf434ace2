package api

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/internal/model"
	"github.com/kbroker/kbroker/protocol"
)

// InitProducerId (key 22) gives a producer its id, and starts the life of a transactional one.
func initProducerIDAPI() API {
	return API{
		Key: 22, Min: 0, Max: 5,
		Since: []string{"v3 a producer may ask for a new epoch of its id (KIP-360)", "v4 PRODUCER_FENCED", "v5 retriable transaction errors (KIP-890)"},
		serve: answer((*Service).initProducerID),
	}
}

func (s *Service) initProducerID(ctx context.Context, r *Request, q *kmsg.InitProducerIDRequest) *kmsg.InitProducerIDResponse {
	resp := kmsg.NewPtrInitProducerIDResponse()
	resp.ProducerID, resp.ProducerEpoch = model.NoProducerID, model.NoProducerEpoch
	if err := s.checkInitProducerID(r, q); err != nil {
		resp.ErrorCode = err.Code
		return resp
	}
	if q.TransactionalID != nil {
		return s.Transactions.InitProducerID(ctx, r.Caller(), q)
	}
	id, err := s.ProducerIDs.NextProducerID(ctx)
	if err != nil {
		resp.ErrorCode = protocol.CodeOf(err)
		return resp
	}
	resp.ProducerID, resp.ProducerEpoch = id, 0
	return resp
}

func (s *Service) checkInitProducerID(r *Request, q *kmsg.InitProducerIDRequest) *kerr.Error {
	switch {
	case q.TransactionalID != nil && !s.may(r, kmsg.ACLOperationWrite, kmsg.ACLResourceTypeTransactionalId, *q.TransactionalID):
		return kerr.TransactionalIDAuthorizationFailed
	case q.TransactionalID == nil && !s.mayCluster(r, kmsg.ACLOperationIdempotentWrite) &&
		!s.Authorizer.AllowedSomewhere(r.Caller(), kmsg.ACLOperationWrite, kmsg.ACLResourceTypeTopic):
		return kerr.ClusterAuthorizationFailed
	case (q.ProducerID == model.NoProducerID) != (q.ProducerEpoch == model.NoProducerEpoch):
		return kerr.InvalidRequest
	case q.TransactionalID != nil && *q.TransactionalID == "":
		return kerr.InvalidRequest
	case q.TransactionalID != nil && s.Transactions == nil:
		return kerr.UnsupportedVersion
	}
	return nil
}
