package groupcoord

import (
	"context"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/internal/coordrt"
)

// byPartition sorts groups by the partition that they belong to; partitions come in the order of their first group.
func (c *Coordinator) byPartition(groups []string) (parts []int32, ids map[int32][]string) {
	ids = map[int32][]string{}
	for _, g := range groups {
		p := c.PartitionFor(g)
		if ids[p] == nil {
			parts = append(parts, p)
		}
		ids[p] = append(ids[p], g)
	}
	return parts, ids
}

// DescribeGroups handles DescribeGroups 0-6, authorized operations excepted. It tells the newest state, committed or not.
func (c *Coordinator) DescribeGroups(ctx context.Context, _ Client, req *kmsg.DescribeGroupsRequest) *kmsg.DescribeGroupsResponse {
	parts, ids := c.byPartition(req.Groups)
	version := req.Version
	running := make([]coordrt.Pending[[]kmsg.DescribeGroupsResponseGroup], len(parts))
	for i, p := range parts {
		groups := ids[p]
		running[i] = coordrt.StartPeek(c.rt, p, func(s *Shard, _ time.Time) []kmsg.DescribeGroupsResponseGroup {
			out := make([]kmsg.DescribeGroupsResponseGroup, 0, len(groups))
			for _, g := range groups {
				out = append(out, s.DescribeGroup(g, version))
			}
			return out
		})
	}
	resp := kmsg.NewPtrDescribeGroupsResponse()
	resp.Version = req.Version
	for i, p := range parts {
		groups, err := running[i].Wait(ctx)
		if err != nil {
			groups = undescribed(ids[p], coordrt.ErrorOf(err))
		}
		resp.Groups = append(resp.Groups, groups...)
	}
	return resp
}

func undescribed(ids []string, err *kerr.Error) []kmsg.DescribeGroupsResponseGroup {
	out := make([]kmsg.DescribeGroupsResponseGroup, 0, len(ids))
	for _, id := range ids {
		g := kmsg.NewDescribeGroupsResponseGroup()
		g.Group, g.ErrorCode = id, err.Code
		out = append(out, g)
	}
	return out
}

// ListGroups handles ListGroups 0-5: the groups of all partitions that this broker leads. While one of them is being loaded
// the list would not be complete, so there is none.
func (c *Coordinator) ListGroups(ctx context.Context, _ Client, req *kmsg.ListGroupsRequest) *kmsg.ListGroupsResponse {
	resp := kmsg.NewPtrListGroupsResponse()
	resp.Version = req.Version
	stateFilter, typeFilter := req.StatesFilter, req.TypesFilter
	list := func(s *Shard, _ time.Time) []kmsg.ListGroupsResponseGroup {
		return s.ListGroups(stateFilter, typeFilter)
	}
	coordrt.PeekAll(ctx, c.rt, list, func(groups []kmsg.ListGroupsResponseGroup, err error) {
		if e := coordrt.ErrorOf(err); e != nil && e != kerr.NotCoordinator {
			resp.ErrorCode = e.Code
		}
		resp.Groups = append(resp.Groups, groups...)
	})
	if resp.ErrorCode != 0 {
		resp.Groups = nil
	}
	return resp
}

// DeleteGroups handles DeleteGroups 0-3.
func (c *Coordinator) DeleteGroups(ctx context.Context, _ Client, req *kmsg.DeleteGroupsRequest) *kmsg.DeleteGroupsResponse {
	parts, ids := c.byPartition(req.Groups)
	running := make([]coordrt.Pending[[]kmsg.DeleteGroupsResponseGroup], len(parts))
	for i, p := range parts {
		groups := ids[p]
		running[i] = coordrt.Start(c.rt, p, func(s *Shard, _ time.Time) (coordrt.Result, []kmsg.DeleteGroupsResponseGroup, error) {
			r, out := s.DeleteGroups(groups)
			return r, out, nil
		})
	}
	resp := kmsg.NewPtrDeleteGroupsResponse()
	resp.Version = req.Version
	for i, p := range parts {
		groups, err := running[i].Wait(ctx)
		if err != nil {
			groups = undeleted(ids[p], coordrt.ErrorOf(err))
		}
		resp.Groups = append(resp.Groups, groups...)
	}
	return resp
}

func undeleted(ids []string, err *kerr.Error) []kmsg.DeleteGroupsResponseGroup {
	out := make([]kmsg.DeleteGroupsResponseGroup, 0, len(ids))
	for _, id := range slices.Compact(slices.Sorted(slices.Values(ids))) {
		out = append(out, kmsg.DeleteGroupsResponseGroup{Group: id, ErrorCode: err.Code})
	}
	return out
}
