package api

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/protocol"
)

// DescribeQuorum (key 55) describes the controllers; answered by the active one (KIP-595).
func describeQuorumAPI() API {
	return API{Key: 55, Min: 0, Max: 2, Since: []string{"v1 times of the last fetch (KIP-836)", "v2 nodes and error messages (KIP-853)"}, serve: answer((*Service).describeQuorum)}
}

func (s *Service) describeQuorum(ctx context.Context, r *Request, q *kmsg.DescribeQuorumRequest) *kmsg.DescribeQuorumResponse {
	var err error = kerr.ClusterAuthorizationFailed
	if s.mayCluster(r, kmsg.ACLOperationDescribe) {
		var resp *kmsg.DescribeQuorumResponse
		if resp, err = forward[*kmsg.DescribeQuorumResponse](ctx, s, r, q); err == nil {
			return resp
		}
	}
	resp := kmsg.NewPtrDescribeQuorumResponse()
	resp.ErrorCode, resp.ErrorMessage = protocol.CodeOf(err), protocol.MessageOf(err)
	return resp
}
