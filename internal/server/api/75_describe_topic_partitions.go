package api

import (
	"context"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/internal/metadata"
	"github.com/kbroker/kbroker/internal/model"
	"github.com/kbroker/kbroker/protocol"
)

// DescribeTopicPartitions (key 75) describes topics page by page, eligible leader replicas included (KIP-966).
func describeTopicPartitionsAPI() API {
	return API{Key: 75, Min: 0, Max: 0, serve: answer((*Service).describeTopicPartitions)}
}

// topicPager fills one page of an answer.
type topicPager struct {
	s    *Service
	r    *Request
	view *topicView
	resp *kmsg.DescribeTopicPartitionsResponse
	left int // partitions that still fit
}

func (s *Service) describeTopicPartitions(_ context.Context, r *Request, q *kmsg.DescribeTopicPartitionsRequest) *kmsg.DescribeTopicPartitionsResponse {
	resp := kmsg.NewPtrDescribeTopicPartitionsResponse()
	limit := min(s.Cluster.Config().Sockets.MaxPartitionsListed, q.ResponsePartitionLimit)
	p := &topicPager{s: s, r: r, resp: resp, left: max(1, int(limit)), view: newTopicView(s.Cluster.Image(), r.Peer.Listener)}
	start, first := "", int32(0)
	if q.Cursor != nil {
		start, first = q.Cursor.Topic, q.Cursor.Partition
		if first < 0 || len(q.Topics) > 0 && !names(q)[start] {
			p.refuse(q)
			return resp
		}
	}
	for _, name := range p.from(q, start) {
		from := int32(0)
		if name == start {
			from = first
		}
		if !p.add(name, from, len(q.Topics) > 0) {
			break
		}
	}
	return resp
}

// refuse answers a cursor that cannot be: of a negative partition, or of a topic that is not asked for. The message has no error of its own, so every topic gets it.
func (p *topicPager) refuse(q *kmsg.DescribeTopicPartitionsRequest) {
	for i := range q.Topics {
		p.plain(q.Topics[i].Topic, kerr.InvalidRequest.Code)
	}
}

// names returns the topics that a request names.
func names(q *kmsg.DescribeTopicPartitionsRequest) map[string]bool {
	set := map[string]bool{}
	for i := range q.Topics {
		set[q.Topics[i].Topic] = true
	}
	return set
}

// from lists the topics to show from a start on, sorted: those asked for, or all.
func (p *topicPager) from(q *kmsg.DescribeTopicPartitionsRequest, start string) []string {
	if len(q.Topics) == 0 {
		var all []string
		for t := range p.view.img.TopicsFrom(start) {
			all = append(all, t.Name)
		}
		return all
	}
	sorted := slices.Sorted(maps.Keys(names(q)))
	at, _ := slices.BinarySearch(sorted, start)
	return sorted[at:]
}

// add shows a topic, or as much as fits; false means that the page is full and the cursor set.
func (p *topicPager) add(name string, from int32, named bool) bool {
	t := p.view.img.Topic(name)
	switch {
	case !p.s.mayTopic(p.r, kmsg.ACLOperationDescribe, name):
		if named {
			p.plain(name, kerr.TopicAuthorizationFailed.Code)
		}
		return true
	case t == nil:
		code := kerr.UnknownTopicOrPartition.Code
		if !isTopicName(name) {
			code = kerr.InvalidTopicException.Code
		}
		p.plain(name, code).AuthorizedOperations = p.s.operations(p.r, kmsg.ACLResourceTypeTopic, name)
		return true
	case p.left == 0:
		p.stopAt(name, 0)
		return false
	}
	rt := p.plain(name, 0)
	rt.TopicID = t.ID
	rt.AuthorizedOperations = p.s.operations(p.r, kmsg.ACLResourceTypeTopic, name)
	for i := int(from); i < len(t.Partitions); i++ {
		if p.left == 0 {
			p.stopAt(name, int32(i))
			return false
		}
		p.left--
		rt.Partitions = append(rt.Partitions, p.partition(int32(i), t.Partitions[i]))
	}
	return true
}

func (p *topicPager) stopAt(topic string, partition int32) {
	c := kmsg.NewDescribeTopicPartitionsResponseNextCursor()
	c.Topic, c.Partition = topic, partition
	p.resp.NextCursor = &c
}

// plain appends a topic without partitions and returns it until the next one is added.
func (p *topicPager) plain(name string, code int16) *kmsg.DescribeTopicPartitionsResponseTopic {
	t := kmsg.NewDescribeTopicPartitionsResponseTopic()
	t.ErrorCode, t.Topic, t.IsInternal = code, &name, model.IsInternalTopic(name)
	p.resp.Topics = append(p.resp.Topics, t)
	return &p.resp.Topics[len(p.resp.Topics)-1]
}

func (p *topicPager) partition(index int32, mp *metadata.Partition) kmsg.DescribeTopicPartitionsResponseTopicPartition {
	rp := kmsg.NewDescribeTopicPartitionsResponseTopicPartition()
	leader, err := p.view.leader(mp)
	rp.ErrorCode, rp.Partition, rp.LeaderID, rp.LeaderEpoch = protocol.CodeOf(err), index, leader, mp.LeaderEpoch
	rp.Replicas, rp.ISR, rp.OfflineReplicas = filled(mp.Replicas), filled(mp.ISR), p.view.offline(mp)
	rp.EligibleLeaderReplicas, rp.LastKnownELR = filled(mp.ELR), filled(mp.LastKnownELR)
	return rp
}
