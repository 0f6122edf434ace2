package api

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// LeaveGroup (key 13) takes members out of a group.
func leaveGroupAPI() API {
	return API{Key: 13, Min: 0, Max: 5, Since: []string{"v3 many members at once (KIP-345)", "v5 reason (KIP-800)"}, serve: answer((*Service).leaveGroup)}
}

func (s *Service) leaveGroup(ctx context.Context, r *Request, q *kmsg.LeaveGroupRequest) *kmsg.LeaveGroupResponse {
	if s.mayGroup(r, kmsg.ACLOperationRead, q.Group) {
		return s.Groups.Leave(ctx, r.member(), q)
	}
	resp := kmsg.NewPtrLeaveGroupResponse()
	resp.ErrorCode = kerr.GroupAuthorizationFailed.Code
	return resp
}
