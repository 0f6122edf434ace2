package api

import (
	"context"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// ListGroups (key 16) lists the groups that this broker coordinates.
func listGroupsAPI() API {
	return API{Key: 16, Min: 0, Max: 5, Since: []string{"v4 states (KIP-518)", "v5 types (KIP-848)"}, serve: answer((*Service).listGroups)}
}

func (s *Service) listGroups(ctx context.Context, r *Request, q *kmsg.ListGroupsRequest) *kmsg.ListGroupsResponse {
	resp := s.Groups.ListGroups(ctx, r.member(), q)
	if !s.mayCluster(r, kmsg.ACLOperationDescribe) {
		resp.Groups = slices.DeleteFunc(resp.Groups, func(g kmsg.ListGroupsResponseGroup) bool {
			return !s.mayGroup(r, kmsg.ACLOperationDescribe, g.Group)
		})
	}
	return resp
}
