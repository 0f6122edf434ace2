package controller

import (
	"github.com/kbroker/kbroker/config"
	"github.com/kbroker/kbroker/internal/metadata"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// incrementalAlterConfigs answers IncrementalAlterConfigs (key 44): set, delete, append, subtract.
func (v *view) incrementalAlterConfigs(req *kmsg.IncrementalAlterConfigsRequest) decision {
	resp := req.ResponseKind().(*kmsg.IncrementalAlterConfigsResponse)
	seen := map[resourceKey]int{}
	for _, r := range req.Resources {
		seen[resourceKey{r.ResourceType, r.ResourceName}]++
	}
	var records []metadata.Record
	for _, r := range req.Resources {
		var err error = errDuplicateResource
		if seen[resourceKey{r.ResourceType, r.ResourceName}] == 1 {
			ops := make([]config.Op, len(r.Configs))
			for i, c := range r.Configs {
				ops[i] = config.Op{Name: c.Name, Op: c.Op, Value: c.Value}
			}
			var rs []metadata.Record
			rs, err = v.alterConfig(r.ResourceType, r.ResourceName, ops, false)
			records = append(records, rs...)
		}
		out := kmsg.NewIncrementalAlterConfigsResponseResource()
		out.ResourceType, out.ResourceName = shownType(r.ResourceType), r.ResourceName
		out.ErrorCode, out.ErrorMessage = answerOf(err)
		resp.Resources = append(resp.Resources, out)
	}
	if req.ValidateOnly {
		records = nil
	}
	return decision{response: resp, records: records, visible: true}
}
