package api

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/protocol"
)

// DeleteGroups (key 42) deletes groups without members (KIP-229).
func deleteGroupsAPI() API {
	return API{Key: 42, Min: 0, Max: 3, Since: []string{"v3 message per group"}, serve: answer((*Service).deleteGroups)}
}

func (s *Service) deleteGroups(ctx context.Context, r *Request, q *kmsg.DeleteGroupsRequest) *kmsg.DeleteGroupsResponse {
	resp := kmsg.NewPtrDeleteGroupsResponse()
	ask := *q
	ask.Groups = nil
	seen := map[string]bool{}
	var denied []kmsg.DeleteGroupsResponseGroup
	for _, g := range q.Groups {
		if seen[g] {
			continue
		}
		seen[g] = true
		if s.mayGroup(r, kmsg.ACLOperationDelete, g) {
			ask.Groups = append(ask.Groups, g)
			continue
		}
		dg := kmsg.NewDeleteGroupsResponseGroup()
		dg.Group, dg.ErrorCode, dg.ErrorMessage = g, kerr.GroupAuthorizationFailed.Code, protocol.MessageOf(kerr.GroupAuthorizationFailed)
		denied = append(denied, dg)
	}
	if len(ask.Groups) > 0 {
		resp = s.Groups.DeleteGroups(ctx, r.member(), &ask)
	}
	resp.Groups = append(resp.Groups, denied...)
	return resp
}
