package api

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// SyncGroup (key 14) hands out the assignment that the leader of a group has made, and waits for it.
func syncGroupAPI() API {
	return API{Key: 14, Min: 0, Max: 5, Since: []string{"v3 static members (KIP-345)", "v5 protocol type (KIP-559)"}, serve: answer((*Service).syncGroup)}
}

func (s *Service) syncGroup(ctx context.Context, r *Request, q *kmsg.SyncGroupRequest) *kmsg.SyncGroupResponse {
	if s.mayGroup(r, kmsg.ACLOperationRead, q.Group) {
		return s.Groups.Sync(ctx, r.member(), q)
	}
	resp := kmsg.NewPtrSyncGroupResponse()
	resp.ErrorCode, resp.MemberAssignment = kerr.GroupAuthorizationFailed.Code, []byte{}
	return resp
}
