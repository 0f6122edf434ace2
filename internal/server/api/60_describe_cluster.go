package api

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// DescribeCluster (key 60) lists the brokers (KIP-700).
func describeClusterAPI() API {
	return API{
		Key: 60, Min: 0, Max: 2,
		Since:      []string{"v1 endpoint type (KIP-919)", "v2 fenced brokers (KIP-1073)"},
		Deviations: []string{"The controller id is that of the Metadata answer."},
		serve:      answer((*Service).describeCluster),
	}
}

// The types of endpoints. A broker's listener is of the first.
const (
	endpointBrokers     = 1
	endpointControllers = 2
)

func (s *Service) describeCluster(_ context.Context, r *Request, q *kmsg.DescribeClusterRequest) *kmsg.DescribeClusterResponse {
	resp := kmsg.NewPtrDescribeClusterResponse()
	switch q.EndpointType {
	case endpointBrokers:
	case endpointControllers:
		resp.ErrorCode, resp.ErrorMessage = kerr.MismatchedEndpointType.Code, text("this is an endpoint of brokers, the request wants one of controllers")
		return resp
	default:
		resp.ErrorCode, resp.ErrorMessage = kerr.UnsupportedEndpointType.Code, text("Unsupported endpoint type %d", q.EndpointType)
		return resp
	}
	img := s.Cluster.Image()
	resp.ClusterID, resp.ControllerID = img.ClusterID(), s.controllerHint(img, r.Peer.Listener)
	for b := range img.Brokers() {
		e, ok := listenerOf(b, r.Peer.Listener)
		if !ok || b.Fenced && !q.IncludeFencedBrokers {
			continue
		}
		rb := kmsg.NewDescribeClusterResponseBroker()
		rb.NodeID, rb.Host, rb.Port, rb.Rack, rb.IsFenced = e.id, e.host, e.port, e.rack, b.Fenced
		resp.Brokers = append(resp.Brokers, rb)
	}
	if q.IncludeClusterAuthorizedOperations {
		resp.ClusterAuthorizedOperations = 0
		if s.mayCluster(r, kmsg.ACLOperationDescribe) {
			resp.ClusterAuthorizedOperations = s.operations(r, kmsg.ACLResourceTypeCluster, clusterName)
		}
	}
	return resp
}
