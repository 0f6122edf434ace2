package api

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// JoinGroup (key 11) makes a client a member of a group, and waits for the rebalance.
func joinGroupAPI() API {
	return API{
		Key: 11, Min: 0, Max: 9,
		Since: []string{
			"v1 rebalance timeout (KIP-62)", "v4 MEMBER_ID_REQUIRED (KIP-394)", "v5 static members (KIP-345)",
			"v7 protocol type (KIP-559)", "v8 reason (KIP-800)", "v9 skip assignment (KIP-814)",
		},
		serve: answer((*Service).joinGroup),
	}
}

func (s *Service) joinGroup(ctx context.Context, r *Request, q *kmsg.JoinGroupRequest) *kmsg.JoinGroupResponse {
	if s.mayGroup(r, kmsg.ACLOperationRead, q.Group) {
		return s.Groups.Join(ctx, r.member(), q)
	}
	resp := kmsg.NewPtrJoinGroupResponse()
	resp.ErrorCode, resp.Generation, resp.MemberID = kerr.GroupAuthorizationFailed.Code, -1, q.MemberID
	return resp
}
