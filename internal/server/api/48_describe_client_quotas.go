package api

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/protocol"
)

// DescribeClientQuotas (key 48) lists client quotas (KIP-546).
func describeClientQuotasAPI() API {
	return API{
		Key: 48, Min: 0, Max: 1,
		Deviations: []string{"There are no quotas: the list is empty."},
		serve:      answer((*Service).describeClientQuotas),
	}
}

func (s *Service) describeClientQuotas(_ context.Context, r *Request, q *kmsg.DescribeClientQuotasRequest) *kmsg.DescribeClientQuotasResponse {
	resp := kmsg.NewPtrDescribeClientQuotasResponse()
	if !s.mayCluster(r, kmsg.ACLOperationDescribeConfigs) {
		resp.ErrorCode, resp.ErrorMessage = kerr.ClusterAuthorizationFailed.Code, protocol.MessageOf(kerr.ClusterAuthorizationFailed)
		return resp
	}
	resp.ErrorMessage = text("")
	for i := range q.Components {
		if t := q.Components[i].EntityType; t != "user" && t != "client-id" && t != "ip" {
			resp.ErrorCode, resp.ErrorMessage = kerr.UnsupportedVersion.Code, text("Unsupported entity type %s", t)
			return resp
		}
	}
	resp.Entries = []kmsg.DescribeClientQuotasResponseEntry{}
	return resp
}
