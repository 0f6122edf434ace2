package api

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/internal/metadata"
	"github.com/kbroker/kbroker/internal/model"
	"github.com/kbroker/kbroker/protocol"
)

// OffsetFetch (key 9) tells how far groups have read.
func offsetFetchAPI() API {
	return API{
		Key: 9, Min: 1, Max: 10,
		Since: []string{
			"v2 null for all topics, error of the group", "v5 leader epoch (KIP-320)", "v7 only stable offsets (KIP-447)",
			"v8 many groups at once (KIP-709)", "v9 members of the new group protocol (KIP-848)", "v10 topic ids (KIP-848)",
		},
		serve: answer((*Service).offsetFetch),
	}
}

// fetchOffsetsVersion is the version that the coordinator is asked in: many groups, topics by name.
const fetchOffsetsVersion = 9

func (s *Service) offsetFetch(ctx context.Context, r *Request, q *kmsg.OffsetFetchRequest) *kmsg.OffsetFetchResponse {
	if r.Version < 8 {
		return oldOffsets(r.Version, s.offsetsOf(ctx, r, q, oldOffsetGroup(q)))
	}
	resp := kmsg.NewPtrOffsetFetchResponse()
	for i := range q.Groups {
		resp.Groups = append(resp.Groups, s.offsetsOf(ctx, r, q, &q.Groups[i]))
	}
	return resp
}

// oldOffsetGroup returns what a request for one group asks in the form of those for many.
func oldOffsetGroup(q *kmsg.OffsetFetchRequest) *kmsg.OffsetFetchRequestGroup {
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = q.Group
	if q.Topics == nil && q.Version >= 2 {
		return &g
	}
	g.Topics = make([]kmsg.OffsetFetchRequestGroupTopic, len(q.Topics))
	for i := range q.Topics {
		g.Topics[i].Topic, g.Topics[i].Partitions = q.Topics[i].Topic, q.Topics[i].Partitions
	}
	return &g
}

// oldOffsets returns an answer about one group in the form of old versions. Version 1 has no error of the group.
func oldOffsets(version int16, g kmsg.OffsetFetchResponseGroup) *kmsg.OffsetFetchResponse {
	resp := kmsg.NewPtrOffsetFetchResponse()
	resp.ErrorCode = g.ErrorCode
	for i := range g.Topics {
		t := kmsg.NewOffsetFetchResponseTopic()
		t.Topic = g.Topics[i].Topic
		for _, p := range g.Topics[i].Partitions {
			op := kmsg.OffsetFetchResponseTopicPartition{
				Partition: p.Partition, Offset: p.Offset, LeaderEpoch: p.LeaderEpoch, Metadata: p.Metadata, ErrorCode: p.ErrorCode,
			}
			if version < 2 && g.ErrorCode != 0 {
				op.ErrorCode = g.ErrorCode
			}
			t.Partitions = append(t.Partitions, op)
		}
		resp.Topics = append(resp.Topics, t)
	}
	return resp
}

// offsetsOf answers for one group. A nil list of topics stands for all that have offsets.
func (s *Service) offsetsOf(ctx context.Context, r *Request, q *kmsg.OffsetFetchRequest, g *kmsg.OffsetFetchRequestGroup) kmsg.OffsetFetchResponseGroup {
	if !s.mayGroup(r, kmsg.ACLOperationDescribe, g.Group) {
		return failedOffsets(r.Version, g, kerr.GroupAuthorizationFailed.Code)
	}
	ask := kmsg.NewPtrOffsetFetchRequest()
	ask.Version, ask.RequireStable = fetchOffsetsVersion, q.RequireStable
	ag := kmsg.NewOffsetFetchRequestGroup()
	ag.Group, ag.MemberID, ag.MemberEpoch = g.Group, g.MemberID, g.MemberEpoch
	img := s.Cluster.Image()
	rg := kmsg.NewOffsetFetchResponseGroup()
	rg.Group = g.Group
	slots := map[string]int{}
	if g.Topics != nil {
		ag.Topics = []kmsg.OffsetFetchRequestGroupTopic{}
	}
	for i := range g.Topics {
		qt := &g.Topics[i]
		name, err := s.resolve(r, img, kmsg.ACLOperationDescribe, namedTopic{qt.Topic, qt.TopicID}, r.Version >= 10)
		rt := noOffsets(qt, protocol.CodeOf(err))
		if _, twice := slots[name]; err == nil && !twice {
			at := kmsg.NewOffsetFetchRequestGroupTopic()
			at.Topic, at.Partitions = name, qt.Partitions
			ag.Topics = append(ag.Topics, at)
			slots[name] = i
		}
		rg.Topics = append(rg.Topics, rt)
	}
	if g.Topics != nil && len(ag.Topics) == 0 {
		return rg
	}
	ask.Groups = []kmsg.OffsetFetchRequestGroup{ag}
	return s.mergeOffsets(r, img, g, rg, slots, s.Groups.OffsetFetch(ctx, r.member(), ask))
}

// mergeOffsets puts what the coordinator says in the places that the request gave it.
func (s *Service) mergeOffsets(r *Request, img *metadata.Image, g *kmsg.OffsetFetchRequestGroup, rg kmsg.OffsetFetchResponseGroup,
	slots map[string]int, got *kmsg.OffsetFetchResponse) kmsg.OffsetFetchResponseGroup {
	if len(got.Groups) != 1 {
		return failedOffsets(r.Version, g, kerr.UnknownServerError.Code)
	}
	gg := &got.Groups[0]
	if gg.ErrorCode != 0 {
		return failedOffsets(r.Version, g, gg.ErrorCode)
	}
	for _, gt := range gg.Topics {
		if i, ok := slots[gt.Topic]; ok {
			rg.Topics[i].Partitions = gt.Partitions
			continue
		}
		if g.Topics != nil || !s.mayTopic(r, kmsg.ACLOperationDescribe, gt.Topic) {
			continue
		}
		if r.Version >= 10 {
			t := img.Topic(gt.Topic)
			if t == nil { // the topic is gone and cannot be named
				continue
			}
			gt.TopicID = t.ID
		}
		rg.Topics = append(rg.Topics, gt)
	}
	return rg
}

// failedOffsets answers for a group that has an error as a whole. Partitions are named in version 1 only, where the error
// has no other place.
func failedOffsets(version int16, g *kmsg.OffsetFetchRequestGroup, code int16) kmsg.OffsetFetchResponseGroup {
	rg := kmsg.NewOffsetFetchResponseGroup()
	rg.Group, rg.ErrorCode = g.Group, code
	if version < 2 {
		for i := range g.Topics {
			rg.Topics = append(rg.Topics, noOffsets(&g.Topics[i], code))
		}
	}
	return rg
}

// noOffsets answers for a topic of which nothing is known.
func noOffsets(qt *kmsg.OffsetFetchRequestGroupTopic, code int16) kmsg.OffsetFetchResponseGroupTopic {
	rt := kmsg.NewOffsetFetchResponseGroupTopic()
	rt.Topic, rt.TopicID = qt.Topic, qt.TopicID
	for _, p := range qt.Partitions {
		rp := kmsg.NewOffsetFetchResponseGroupTopicPartition()
		rp.Partition, rp.Offset, rp.LeaderEpoch, rp.ErrorCode = p, model.NoOffset, model.NoEpoch, code
		rp.Metadata = new(string)
		rt.Partitions = append(rt.Partitions, rp)
	}
	return rt
}
