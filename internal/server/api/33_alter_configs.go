package api

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/protocol"
)

// AlterConfigs (key 33) replaces all configs of a resource; decided by the controller.
func alterConfigsAPI() API {
	return API{
		Key: 33, Min: 0, Max: 2,
		Deviations: []string{"Levels of loggers (resource type BROKER_LOGGER) cannot be altered."},
		serve:      answer((*Service).alterConfigs),
	}
}

func (s *Service) alterConfigs(ctx context.Context, r *Request, q *kmsg.AlterConfigsRequest) *kmsg.AlterConfigsResponse {
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
	resp := kmsg.NewPtrAlterConfigsResponse()
	answered := map[configResource]kmsg.AlterConfigsResponseResource{}
	var failed error
	if len(ask.Resources) > 0 {
		got, err := forward[*kmsg.AlterConfigsResponse](ctx, s, r, &ask)
		if failed = err; err == nil {
			for _, res := range got.Resources {
				answered[configResource{res.ResourceType, res.ResourceName}] = res
			}
		}
	}
	for i, c := range resources {
		res, ok := answered[c]
		if err := firstError(refused[i], failed, unanswered(ok)); err != nil {
			res = kmsg.NewAlterConfigsResponseResource()
			res.ErrorCode, res.ErrorMessage = protocol.CodeOf(err), protocol.MessageOf(err)
			res.ResourceType, res.ResourceName = c.kind, c.name
		}
		resp.Resources = append(resp.Resources, res)
	}
	return resp
}
