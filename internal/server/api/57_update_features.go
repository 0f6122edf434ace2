package api

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/protocol"
)

// UpdateFeatures (key 57) changes the levels that the cluster runs at (KIP-584); decided by the controller.
func updateFeaturesAPI() API {
	return API{Key: 57, Min: 0, Max: 2, Since: []string{"v1 validate only, kinds of downgrades", "v2 one error for all (KIP-1022)"}, serve: answer((*Service).updateFeatures)}
}

func (s *Service) updateFeatures(ctx context.Context, r *Request, q *kmsg.UpdateFeaturesRequest) *kmsg.UpdateFeaturesResponse {
	var err error = kerr.ClusterAuthorizationFailed
	if s.mayCluster(r, kmsg.ACLOperationAlter) {
		var resp *kmsg.UpdateFeaturesResponse
		if resp, err = forward[*kmsg.UpdateFeaturesResponse](ctx, s, r, q); err == nil {
			return resp
		}
	}
	resp := kmsg.NewPtrUpdateFeaturesResponse()
	resp.ErrorCode, resp.ErrorMessage = protocol.CodeOf(err), protocol.MessageOf(err)
	return resp
}
