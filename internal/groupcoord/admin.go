package groupcoord

import (
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/internal/coordrt"
)

// describeNotFoundVersion is the DescribeGroups from which on a group that is not there is an error.
const describeNotFoundVersion = 6

// classicType is how groups of this protocol are listed.
const classicType = "classic"

// DescribeGroup answers for one group of a DescribeGroups request of the given version.
func (s *Shard) DescribeGroup(id string, version int16) kmsg.DescribeGroupsResponseGroup {
	r := kmsg.NewDescribeGroupsResponseGroup()
	r.Group, r.State = id, deadState
	g := s.groups[id]
	if g == nil {
		if version >= describeNotFoundVersion {
			r.ErrorCode = kerr.GroupIDNotFound.Code
			r.ErrorMessage = kmsg.StringPtr("Group " + id + " not found.")
		}
		return r
	}
	r.State, r.ProtocolType = g.state.String(), g.protocolType
	if g.state == Stable {
		r.Protocol = *g.protocol
	}
	for _, m := range g.members {
		dm := kmsg.DescribeGroupsResponseGroupMember{MemberID: m.id, InstanceID: m.instance, ClientID: m.clientID, ClientHost: m.clientHost,
			ProtocolMetadata: []byte{}, MemberAssignment: m.assignment}
		if g.state == Stable {
			dm.ProtocolMetadata = m.metadata(*g.protocol)
		}
		if dm.MemberAssignment == nil {
			dm.MemberAssignment = []byte{}
		}
		r.Members = append(r.Members, dm)
	}
	return r
}

// ListGroups returns the groups that a ListGroups request asks for, in order. Empty filters let everything pass.
func (s *Shard) ListGroups(stateFilter, typeFilter []string) []kmsg.ListGroupsResponseGroup {
	if len(typeFilter) > 0 && !slices.ContainsFunc(typeFilter, func(t string) bool { return strings.EqualFold(t, classicType) }) {
		return nil
	}
	var wanted [states]bool
	for i := range wanted {
		wanted[i] = len(stateFilter) == 0 || slices.ContainsFunc(stateFilter, func(f string) bool {
			return strings.EqualFold(strings.TrimSpace(f), State(i).String())
		})
	}
	out := make([]kmsg.ListGroupsResponseGroup, 0, len(s.groups))
	for _, g := range s.groups {
		if wanted[g.state] {
			out = append(out, kmsg.ListGroupsResponseGroup{Group: g.id, ProtocolType: g.protocolType, GroupState: g.state.String(), GroupType: classicType})
		}
	}
	slices.SortFunc(out, func(a, b kmsg.ListGroupsResponseGroup) int { return strings.Compare(a.Group, b.Group) })
	return out
}

// DeleteGroups handles the groups of a DeleteGroups request that belong to this partition.
func (s *Shard) DeleteGroups(ids []string) (coordrt.Result, []kmsg.DeleteGroupsResponseGroup) {
	out := make([]kmsg.DeleteGroupsResponseGroup, 0, len(ids))
	var r coordrt.Result
	seen := map[string]struct{}{}
	for _, id := range ids {
		dg := kmsg.DeleteGroupsResponseGroup{Group: id}
		g := s.groups[id]
		_, again := seen[id]
		switch {
		case again:
			continue
		case g == nil:
			dg.ErrorCode = kerr.GroupIDNotFound.Code
		case g.state != Empty:
			dg.ErrorCode = kerr.NonEmptyGroup.Code
		default:
			r.Records = append(r.Records, g.tombstones()...)
			s.o.Stats.deletions.Add(int64(g.noffsets))
		}
		seen[id] = struct{}{}
		out = append(out, dg)
	}
	return r, out
}

// tombstones delete the group and all its offsets, those of open transactions included.
func (g *group) tombstones() []coordrt.Record {
	keys := make([]offsetKey, 0, g.noffsets+len(g.unstable))
	g.eachOffset(func(topic string, partition int32, _ *commit) { keys = append(keys, offsetKey{g.id, topic, partition}) })
	for tp := range g.unstable {
		keys = append(keys, offsetKey{g.id, tp.topic, tp.partition})
	}
	sortOffsetKeys(keys)
	return bury(slices.Compact(keys), []string{g.id}).Records
}
