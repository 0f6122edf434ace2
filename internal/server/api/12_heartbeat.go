package api

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Heartbeat (key 12) keeps a member in its group.
func heartbeatAPI() API {
	return API{Key: 12, Min: 0, Max: 4, Since: []string{"v3 static members (KIP-345)"}, serve: answer((*Service).heartbeat)}
}

func (s *Service) heartbeat(ctx context.Context, r *Request, q *kmsg.HeartbeatRequest) *kmsg.HeartbeatResponse {
	if s.mayGroup(r, kmsg.ACLOperationRead, q.Group) {
		return s.Groups.Heartbeat(ctx, r.member(), q)
	}
	resp := kmsg.NewPtrHeartbeatResponse()
	resp.ErrorCode = kerr.GroupAuthorizationFailed.Code
	return resp
}
