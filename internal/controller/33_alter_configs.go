package controller

import (
	"github.com/kbroker/kbroker/config"
	"github.com/kbroker/kbroker/internal/metadata"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// alterConfigs answers AlterConfigs (key 33): what is given replaces everything that was set.
func (v *view) alterConfigs(req *kmsg.AlterConfigsRequest) decision {
	resp := req.ResponseKind().(*kmsg.AlterConfigsResponse)
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
				ops[i] = config.Op{Name: c.Name, Op: kmsg.IncrementalAlterConfigOpSet, Value: c.Value}
			}
			var rs []metadata.Record
			rs, err = v.alterConfig(r.ResourceType, r.ResourceName, ops, true)
			records = append(records, rs...)
		}
		out := kmsg.NewAlterConfigsResponseResource()
		out.ResourceType, out.ResourceName = shownType(r.ResourceType), r.ResourceName
		out.ErrorCode, out.ErrorMessage = answerOf(err)
		resp.Resources = append(resp.Resources, out)
	}
	if req.ValidateOnly {
		records = nil
	}
	return decision{response: resp, records: records, visible: true}
}
