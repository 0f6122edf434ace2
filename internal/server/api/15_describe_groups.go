package api

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/protocol"
)

// DescribeGroups (key 15) describes groups of the classic protocol.
func describeGroupsAPI() API {
	return API{
		Key: 15, Min: 0, Max: 6,
		Since: []string{"v3 authorized operations (KIP-430)", "v4 static members (KIP-345)", "v6 GROUP_ID_NOT_FOUND and messages (KIP-1043)"},
		serve: answer((*Service).describeGroups),
	}
}

func (s *Service) describeGroups(ctx context.Context, r *Request, q *kmsg.DescribeGroupsRequest) *kmsg.DescribeGroupsResponse {
	resp := kmsg.NewPtrDescribeGroupsResponse()
	ask := *q
	ask.Groups = nil
	var denied []kmsg.DescribeGroupsResponseGroup
	for _, g := range q.Groups {
		if s.mayGroup(r, kmsg.ACLOperationDescribe, g) {
			ask.Groups = append(ask.Groups, g)
			continue
		}
		dg := kmsg.NewDescribeGroupsResponseGroup()
		dg.Group, dg.ErrorCode, dg.ErrorMessage = g, kerr.GroupAuthorizationFailed.Code, protocol.MessageOf(kerr.GroupAuthorizationFailed)
		denied = append(denied, dg)
	}
	if len(ask.Groups) > 0 {
		resp = s.Groups.DescribeGroups(ctx, r.member(), &ask)
	}
	if q.IncludeAuthorizedOperations {
		for i := range resp.Groups {
			if g := &resp.Groups[i]; g.ErrorCode == 0 {
				g.AuthorizedOperations = s.operations(r, kmsg.ACLResourceTypeGroup, g.Group)
			}
		}
	}
	resp.Groups = append(resp.Groups, denied...)
	return resp
}
