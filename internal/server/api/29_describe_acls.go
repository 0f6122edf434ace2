package api

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/protocol"
)

// DescribeAcls (key 29) lists access control entries. User interfaces ask to find out whether there are any.
func describeACLsAPI() API {
	return API{
		Key: 29, Min: 0, Max: 3,
		Since: []string{"v1 prefixed patterns (KIP-290)", "v3 user resources"},
		Deviations: []string{
			"Version 0 is served although Apache Kafka 4 has dropped it.",
			"There is no access control: the answer is SECURITY_DISABLED, as that of Apache Kafka without an authorizer.",
		},
		serve: answer((*Service).describeACLs),
	}
}

func (s *Service) describeACLs(_ context.Context, r *Request, _ *kmsg.DescribeACLsRequest) *kmsg.DescribeACLsResponse {
	resp := kmsg.NewPtrDescribeACLsResponse()
	if !s.mayCluster(r, kmsg.ACLOperationDescribe) {
		resp.ErrorCode, resp.ErrorMessage = kerr.ClusterAuthorizationFailed.Code, protocol.MessageOf(kerr.ClusterAuthorizationFailed)
		return resp
	}
	resp.ErrorCode, resp.ErrorMessage = kerr.SecurityDisabled.Code, text("No Authorizer is configured on the broker")
	return resp
}
