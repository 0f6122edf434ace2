package api

import (
	"context"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/internal/broker"
	"github.com/kbroker/kbroker/internal/model"
	"github.com/kbroker/kbroker/protocol"
)

// DescribeLogDirs (key 35) lists the log directories of this broker with the sizes of what is in them (KIP-113).
func describeLogDirsAPI() API {
	return API{
		Key: 35, Min: 0, Max: 5,
		Since: []string{"v3 error for the whole answer", "v4 sizes of volumes (KIP-827)", "v5 cordoned directories (KIP-1066)"},
		Deviations: []string{
			"Version 0 is served although Apache Kafka 4 has dropped it.",
			"Directories cannot be cordoned.",
		},
		serve: answer((*Service).describeLogDirs),
	}
}

func (s *Service) describeLogDirs(_ context.Context, r *Request, q *kmsg.DescribeLogDirsRequest) *kmsg.DescribeLogDirsResponse {
	resp := kmsg.NewPtrDescribeLogDirsResponse()
	if !s.mayCluster(r, kmsg.ACLOperationDescribe) {
		resp.ErrorCode = kerr.ClusterAuthorizationFailed.Code
		return resp
	}
	for _, dir := range s.Data.LogDirs(logDirFilter(q)) {
		rd := kmsg.NewDescribeLogDirsResponseDir()
		rd.Dir, rd.ErrorCode = dir.Path, protocol.CodeOf(dir.Err)
		rd.TotalBytes, rd.UsableBytes = dir.TotalBytes, dir.UsableBytes
		rd.Topics = logDirTopics(dir.Replicas)
		resp.Dirs = append(resp.Dirs, rd)
	}
	return resp
}

// logDirFilter chooses the partitions that a request names; nil chooses all.
func logDirFilter(q *kmsg.DescribeLogDirsRequest) func(model.TopicPartition) bool {
	if q.Topics == nil {
		return nil
	}
	asked := map[model.TopicPartition]bool{}
	for i := range q.Topics {
		for _, p := range q.Topics[i].Partitions {
			asked[model.TopicPartition{Topic: q.Topics[i].Topic, Partition: p}] = true
		}
	}
	return func(tp model.TopicPartition) bool { return asked[tp] }
}

func logDirTopics(replicas []broker.LogDirReplica) []kmsg.DescribeLogDirsResponseDirTopic {
	slices.SortFunc(replicas, func(a, b broker.LogDirReplica) int { return a.Compare(b.TopicPartition) })
	var topics []kmsg.DescribeLogDirsResponseDirTopic
	for _, rep := range replicas {
		if n := len(topics); n == 0 || topics[n-1].Topic != rep.Topic {
			t := kmsg.NewDescribeLogDirsResponseDirTopic()
			t.Topic = rep.Topic
			topics = append(topics, t)
		}
		p := kmsg.NewDescribeLogDirsResponseDirTopicPartition()
		p.Partition, p.Size, p.OffsetLag, p.IsFuture = rep.Partition, rep.Size, rep.OffsetLag, rep.Future
		last := &topics[len(topics)-1]
		last.Partitions = append(last.Partitions, p)
	}
	return topics
}
