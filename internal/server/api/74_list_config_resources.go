package api

import (
	"context"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/internal/metadata"
)

// ListConfigResources (key 74) lists what configs can be described of (KIP-1142). Version 0 knows client metrics only.
func listConfigResourcesAPI() API {
	return API{Key: 74, Min: 0, Max: 1, Since: []string{"v1 all types of resources (KIP-1142)"}, serve: answer((*Service).listConfigResources)}
}

func (s *Service) listConfigResources(_ context.Context, r *Request, q *kmsg.ListConfigResourcesRequest) *kmsg.ListConfigResourcesResponse {
	resp := kmsg.NewPtrListConfigResourcesResponse()
	if !s.mayCluster(r, kmsg.ACLOperationDescribeConfigs) {
		resp.ErrorCode = kerr.ClusterAuthorizationFailed.Code
		return resp
	}
	served := []metadata.ResourceType{metadata.ResourceClientMetrics}
	if r.Version >= 1 {
		served = []metadata.ResourceType{
			metadata.ResourceTopic, metadata.ResourceBroker, metadata.ResourceBrokerLogger,
			metadata.ResourceClientMetrics, metadata.ResourceGroup,
		}
	}
	var asked []metadata.ResourceType
	for _, t := range q.ResourceTypes {
		if !slices.Contains(served, metadata.ResourceType(t)) {
			resp.ErrorCode = kerr.UnsupportedVersion.Code
			return resp
		}
		asked = append(asked, metadata.ResourceType(t))
	}
	img := s.Cluster.Image()
	for _, t := range served {
		if len(asked) > 0 && !slices.Contains(asked, t) {
			continue
		}
		for _, name := range resourceNames(img, t) {
			cr := kmsg.NewListConfigResourcesResponseConfigResource()
			cr.Name, cr.Type = name, int8(t)
			resp.ConfigResources = append(resp.ConfigResources, cr)
		}
	}
	return resp
}

// resourceNames lists the resources of a type: those that exist, or, of groups and client metrics, those with configs.
func resourceNames(img *metadata.Image, t metadata.ResourceType) []string {
	var names []string
	switch t {
	case metadata.ResourceTopic:
		for topic := range img.AllTopics() {
			names = append(names, topic.Name)
		}
	case metadata.ResourceBroker, metadata.ResourceBrokerLogger:
		for b := range img.Brokers() {
			names = append(names, strconv.Itoa(int(b.ID)))
		}
	default:
		for res := range img.Configs() {
			if res.Type == t {
				names = append(names, res.Name)
			}
		}
	}
	return names
}
