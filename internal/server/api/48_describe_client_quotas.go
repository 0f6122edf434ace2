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

func (s *Service) describeClientQuotas(_ context.Context, r *Request, _ *kmsg.DescribeClientQuotasRequest) *kmsg.DescribeClientQuotasResponse {
	resp := kmsg.NewPtrDescribeClientQuotasResponse()
	if !s.mayCluster(r, kmsg.ACLOperationDescribeConfigs) {
		resp.ErrorCode, resp.ErrorMessage = kerr.ClusterAuthorizationFailed.Code, protocol.MessageOf(kerr.ClusterAuthorizationFailed)
		return resp
	}
	resp.Entries = []kmsg.DescribeClientQuotasResponseEntry{}
	return resp
}
