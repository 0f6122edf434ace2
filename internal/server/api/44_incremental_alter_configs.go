package api

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/protocol"
)

// IncrementalAlterConfigs (key 44) changes single configs of a resource (KIP-339); decided by the controller.
func incrementalAlterConfigsAPI() API {
	return API{
		Key: 44, Min: 0, Max: 1,
		Deviations: []string{"Levels of loggers (resource type BROKER_LOGGER) cannot be altered."},
		serve:      answer((*Service).incrementalAlterConfigs),
	}
}

func (s *Service) incrementalAlterConfigs(ctx context.Context, r *Request, q *kmsg.IncrementalAlterConfigsRequest) *kmsg.IncrementalAlterConfigsResponse {
	resources := make([]configResource, len(q.Resources))
	for i := range q.Resources {
		resources[i] = configResource{q.Resources[i].ResourceType, q.Resources[i].ResourceName}
	}
	refused := s.refuseAlterations(r, resources)
	ask := *q
	ask.Resources = nil
	for i, err := range refused {
		if err == nil {
			ask.Resources = append(ask.Resources, q.Resources[i])
		}
	}
	resp := kmsg.NewPtrIncrementalAlterConfigsResponse()
	answered := map[configResource]kmsg.IncrementalAlterConfigsResponseResource{}
	var failed error
	if len(ask.Resources) > 0 {
		got, err := forward[*kmsg.IncrementalAlterConfigsResponse](ctx, s, r, &ask)
		if failed = err; err == nil {
			for _, res := range got.Resources {
				answered[configResource{res.ResourceType, res.ResourceName}] = res
			}
		}
	}
	for i, c := range resources {
		res, ok := answered[c]
		if err := firstError(refused[i], failed, unanswered(ok)); err != nil {
			res = kmsg.NewIncrementalAlterConfigsResponseResource()
			res.ErrorCode, res.ErrorMessage = protocol.CodeOf(err), protocol.MessageOf(err)
			res.ResourceType, res.ResourceName = c.kind, c.name
		}
		resp.Resources = append(resp.Resources, res)
	}
	return resp
}
