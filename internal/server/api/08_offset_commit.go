package api

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/internal/metadata"
	"github.com/kbroker/kbroker/internal/model"
	"github.com/kbroker/kbroker/protocol"
)

// OffsetCommit (key 8) stores how far a group has read.
func offsetCommitAPI() API {
	return API{
		Key: 8, Min: 1, Max: 10,
		Since: []string{
			"v2 retention time, until v4", "v6 leader epoch (KIP-320)", "v7 static members (KIP-345)",
			"v9 errors of the new group protocol (KIP-848)", "v10 topic ids (KIP-848)",
		},
		Deviations: []string{"Version 1 is served although Apache Kafka 4 has dropped it."},
		serve:      answer((*Service).offsetCommit),
	}
}

// commitVersion is the newest version that names topics: the coordinator knows them by name.
const commitVersion = 9

func (s *Service) offsetCommit(ctx context.Context, r *Request, q *kmsg.OffsetCommitRequest) *kmsg.OffsetCommitResponse {
	resp := kmsg.NewPtrOffsetCommitResponse()
	resp.Topics = make([]kmsg.OffsetCommitResponseTopic, len(q.Topics))
	ask := *q
	ask.Version, ask.Topics = min(q.Version, commitVersion), nil
	groupOK := s.mayGroup(r, kmsg.ACLOperationRead, q.Group)
	img := s.Cluster.Image()
	slots := map[model.TopicPartition]*kmsg.OffsetCommitResponseTopicPartition{}
	for i := range q.Topics {
		qt, rt := &q.Topics[i], &resp.Topics[i]
		rt.Topic, rt.TopicID = qt.Topic, qt.TopicID
		rt.Partitions = make([]kmsg.OffsetCommitResponseTopicPartition, len(qt.Partitions))
		for k := range qt.Partitions {
			rt.Partitions[k].Partition = qt.Partitions[k].Partition
		}
		name, err := s.resolve(r, img, kmsg.ACLOperationRead, namedTopic{qt.Topic, qt.TopicID}, r.Version >= 10)
		if !groupOK {
			err = kerr.GroupAuthorizationFailed
		}
		if accepted := acceptCommits(img, name, err, qt, rt, slots); accepted != nil {
			ask.Topics = append(ask.Topics, *accepted)
		}
	}
	if len(ask.Topics) == 0 {
		return resp
	}
	got := s.Groups.OffsetCommit(ctx, r.member(), &ask)
	for i := range got.Topics {
		for _, p := range got.Topics[i].Partitions {
			if slot := slots[model.TopicPartition{Topic: got.Topics[i].Topic, Partition: p.Partition}]; slot != nil {
				slot.ErrorCode = p.ErrorCode
			}
		}
	}
	return resp
}

// acceptCommits returns the part of a topic that goes to the coordinator, nil for none, and enters where its answers
// belong. The rest gets its error here.
func acceptCommits(img *metadata.Image, name string, err error, qt *kmsg.OffsetCommitRequestTopic, rt *kmsg.OffsetCommitResponseTopic,
	slots map[model.TopicPartition]*kmsg.OffsetCommitResponseTopicPartition) *kmsg.OffsetCommitRequestTopic {
	accepted := kmsg.NewOffsetCommitRequestTopic()
	accepted.Topic = name
	for k := range qt.Partitions {
		tp := model.TopicPartition{Topic: name, Partition: qt.Partitions[k].Partition}
		slot := &rt.Partitions[k]
		switch {
		case err != nil:
			slot.ErrorCode = protocol.CodeOf(err)
		case img.Partition(tp) == nil:
			slot.ErrorCode = kerr.UnknownTopicOrPartition.Code
		default:
			slots[tp] = slot
			accepted.Partitions = append(accepted.Partitions, qt.Partitions[k])
		}
	}
	if len(accepted.Partitions) == 0 {
		return nil
	}
	return &accepted
}
