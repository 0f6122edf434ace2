package groupcoord

import (
	"context"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/internal/coordrt"
	"github.com/kbroker/kbroker/internal/model"
)

// Versions in which something begins.
const (
	commitTopicIDs     = 10
	txnCommitTopicIDs  = 6
	txnCommitImplicit  = 5 // the broker adds the group to the transaction
	txnCommitNewErrors = 2
	fetchTopLevelError = 2
	fetchGroups        = 8
	fetchTopicIDs      = 10
)

// resolve finds the topic that a request names or, in newer versions, identifies, and tells what is wrong with it.
func (c *Coordinator) resolve(name string, id model.UUID, byID bool) (string, model.UUID, *kerr.Error) {
	if byID {
		if name = c.opts.Topics.Name(id); name == "" {
			return "", id, kerr.UnknownTopicID
		}
		return name, id, nil
	}
	if id = c.opts.Topics.ID(name); id == noTopic {
		return name, id, kerr.UnknownTopicOrPartition
	}
	return name, id, nil
}

// addTopic adds a topic to a commit; fill adds its partitions.
func (c *Coordinator) addTopic(in *offsetCommit, name string, id model.UUID, byID bool, n int, fill func(i int) commitPart) {
	name, id, err := c.resolve(name, id, byID)
	t := commitTopic{name: name, id: id, parts: make([]commitPart, 0, n)}
	for i := range n {
		p := fill(i)
		switch {
		case err != nil:
			p.code = err.Code
		case !c.opts.Topics.Has(name, p.partition):
			p.code = kerr.UnknownTopicOrPartition.Code
		}
		t.parts = append(t.parts, p)
	}
	in.topics = append(in.topics, t)
}

// rejectedFirst puts what has an error already before the rest, which is the order of Kafka's answers.
func (c *offsetCommit) rejectedFirst() {
	rejected := func(p commitPart) bool { return p.code != 0 }
	for _, t := range c.topics {
		slices.SortStableFunc(t.parts, func(a, b commitPart) int { return compareFirst(rejected(a), rejected(b)) })
	}
	slices.SortStableFunc(c.topics, func(a, b commitTopic) int {
		return compareFirst(slices.ContainsFunc(a.parts, rejected), slices.ContainsFunc(b.parts, rejected))
	})
}

// compareFirst orders true before false.
func compareFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// commit runs a commit whose topics are resolved. Afterwards every partition has its code. When the answer cannot be waited
// for, the codes must not be looked at and false is returned.
func (c *Coordinator) commit(ctx context.Context, req *offsetCommit) bool {
	req.rejectedFirst()
	valid := false
	for _, t := range req.topics {
		for _, p := range t.parts {
			valid = valid || p.code == 0
		}
	}
	if !valid {
		return true
	}
	_, err := coordrt.Write(ctx, c.rt, c.PartitionFor(req.group), func(s *Shard, now time.Time) (coordrt.Result, struct{}, error) {
		r, err := s.commit(now, req)
		return r, struct{}{}, err
	})
	if err != nil && ctx.Err() != nil {
		return false
	}
	req.fail(coordrt.ErrorOf(err))
	return true
}

// fail gives every partition that has no code that of err.
func (c *offsetCommit) fail(err *kerr.Error) {
	if err == nil {
		return
	}
	for _, t := range c.topics {
		for j := range t.parts {
			if t.parts[j].code == 0 {
				t.parts[j].code = err.Code
			}
		}
	}
}

// OffsetCommit handles OffsetCommit 1-10.
func (c *Coordinator) OffsetCommit(ctx context.Context, _ Client, req *kmsg.OffsetCommitRequest) *kmsg.OffsetCommitResponse {
	in := &offsetCommit{group: req.Group, memberID: req.MemberID, instance: req.InstanceID, generation: req.Generation,
		version: req.Version, retentionMs: req.RetentionTimeMillis}
	for i := range req.Topics {
		t := &req.Topics[i]
		c.addTopic(in, t.Topic, t.TopicID, req.Version >= commitTopicIDs, len(t.Partitions), func(i int) commitPart {
			p := &t.Partitions[i]
			cp := commitPart{partition: p.Partition, offset: p.Offset, leaderEpoch: p.LeaderEpoch, metadata: p.Metadata, commitMs: model.NoTimestamp}
			if req.Version == 1 {
				cp.commitMs = p.Timestamp
			}
			return cp
		})
	}
	answered := c.commit(ctx, in)
	resp := kmsg.NewPtrOffsetCommitResponse()
	resp.Version = req.Version
	for _, t := range in.topics {
		rt := kmsg.OffsetCommitResponseTopic{Topic: t.name, TopicID: t.id, Partitions: make([]kmsg.OffsetCommitResponseTopicPartition, len(t.parts))}
		for j := range t.parts {
			rt.Partitions[j] = kmsg.OffsetCommitResponseTopicPartition{Partition: t.parts[j].partition, ErrorCode: kerr.CoordinatorNotAvailable.Code}
			if answered {
				rt.Partitions[j].ErrorCode = t.parts[j].code
			}
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp
}

// TxnOffsetCommit handles TxnOffsetCommit 0-6.
func (c *Coordinator) TxnOffsetCommit(ctx context.Context, _ Client, req *kmsg.TxnOffsetCommitRequest) *kmsg.TxnOffsetCommitResponse {
	in := &offsetCommit{group: req.Group, memberID: req.MemberID, instance: req.InstanceID, generation: req.Generation, version: req.Version,
		retentionMs: defaultRetention, txn: &coordrt.Producer{ID: req.ProducerID, Epoch: req.ProducerEpoch}}
	for i := range req.Topics {
		t := &req.Topics[i]
		c.addTopic(in, t.Topic, t.TopicID, req.Version >= txnCommitTopicIDs, len(t.Partitions), func(i int) commitPart {
			p := &t.Partitions[i]
			return commitPart{partition: p.Partition, offset: p.Offset, leaderEpoch: p.LeaderEpoch, metadata: p.Metadata, commitMs: model.NoTimestamp}
		})
	}
	answered := c.commitTxn(ctx, req.TransactionalID, in)
	resp := kmsg.NewPtrTxnOffsetCommitResponse()
	resp.Version = req.Version
	for _, t := range in.topics {
		rt := kmsg.TxnOffsetCommitResponseTopic{Topic: t.name, TopicID: t.id, Partitions: make([]kmsg.TxnOffsetCommitResponseTopicPartition, len(t.parts))}
		for j := range t.parts {
			code := kerr.CoordinatorNotAvailable.Code
			if answered {
				code = t.parts[j].code
			}
			if req.Version < txnCommitNewErrors && code == kerr.CoordinatorLoadInProgress.Code {
				code = kerr.CoordinatorNotAvailable.Code // which older producers know how to retry
			}
			rt.Partitions[j] = kmsg.TxnOffsetCommitResponseTopicPartition{Partition: t.parts[j].partition, ErrorCode: code}
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp
}

func (c *Coordinator) commitTxn(ctx context.Context, transactionalID string, in *offsetCommit) bool {
	if in.group == "" {
		in.fail(kerr.InvalidGroupID)
		return true
	}
	if c.opts.Verifier != nil {
		tp := model.TopicPartition{Topic: model.GroupMetadataTopic, Partition: c.PartitionFor(in.group)}
		if err := c.opts.Verifier.Verify(ctx, tp, transactionalID, *in.txn, in.version >= txnCommitImplicit); err != nil {
			in.fail(coordrt.ErrorOf(err))
			return true
		}
	}
	return c.commit(ctx, in)
}

// CompleteTransaction ends a producer's transaction in a partition of the offsets topic: its offsets become visible, or
// void. It returns when the marker is committed.
func (c *Coordinator) CompleteTransaction(ctx context.Context, partition int32, m coordrt.Marker) error {
	done := make(chan error, 1)
	c.rt.WriteMarker(partition, m, func(err error) { done <- err })
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// OffsetFetch handles OffsetFetch 1-10.
func (c *Coordinator) OffsetFetch(ctx context.Context, _ Client, req *kmsg.OffsetFetchRequest) *kmsg.OffsetFetchResponse {
	groups := req.Groups
	if req.Version < fetchGroups {
		groups = []kmsg.OffsetFetchRequestGroup{oneGroup(req)}
	}
	running := make([]coordrt.Pending[kmsg.OffsetFetchResponseGroup], len(groups))
	for i := range groups {
		running[i] = c.startFetch(&groups[i], req)
	}
	resp := kmsg.NewPtrOffsetFetchResponse()
	resp.Version = req.Version
	for i := range groups {
		r, err := running[i].Wait(ctx)
		if err != nil {
			r = fetchError(&groups[i], coordrt.ErrorOf(err), req.Version)
		} else if req.Version >= fetchTopicIDs {
			c.finishFetch(&groups[i], &r)
		}
		resp.Groups = append(resp.Groups, r)
	}
	if req.Version < fetchGroups {
		splitGroup(resp)
	}
	return resp
}

func oneGroup(req *kmsg.OffsetFetchRequest) kmsg.OffsetFetchRequestGroup {
	g := kmsg.OffsetFetchRequestGroup{Group: req.Group}
	if req.Topics == nil && req.Version >= fetchTopLevelError {
		return g
	}
	g.Topics = make([]kmsg.OffsetFetchRequestGroupTopic, 0, len(req.Topics))
	for _, t := range req.Topics {
		g.Topics = append(g.Topics, kmsg.OffsetFetchRequestGroupTopic{Topic: t.Topic, Partitions: t.Partitions})
	}
	return g
}

// startFetch asks for the offsets of one group. Topics that are identified get their names; those without are left out
// (finishFetch answers for them).
func (c *Coordinator) startFetch(g *kmsg.OffsetFetchRequestGroup, req *kmsg.OffsetFetchRequest) coordrt.Pending[kmsg.OffsetFetchResponseGroup] {
	known := *g
	if g.Topics != nil && req.Version >= fetchTopicIDs {
		known.Topics = make([]kmsg.OffsetFetchRequestGroupTopic, 0, len(g.Topics))
		for i := range g.Topics {
			t := &g.Topics[i]
			if t.Topic = c.opts.Topics.Name(t.TopicID); t.Topic != "" {
				known.Topics = append(known.Topics, *t)
			}
		}
	}
	stable := req.RequireStable
	return coordrt.Start(c.rt, c.PartitionFor(g.Group), func(s *Shard, _ time.Time) (coordrt.Result, kmsg.OffsetFetchResponseGroup, error) {
		return coordrt.Result{}, s.OffsetFetch(&known, stable), nil
	})
}

// finishFetch adds the ids of topics that were asked for by "all", without those that are gone, and the topics of unknown
// id that were asked for.
func (c *Coordinator) finishFetch(g *kmsg.OffsetFetchRequestGroup, r *kmsg.OffsetFetchResponseGroup) {
	if g.Topics == nil {
		topics := r.Topics
		r.Topics = r.Topics[:0]
		for _, t := range topics {
			if t.TopicID = c.opts.Topics.ID(t.Topic); t.TopicID != noTopic {
				r.Topics = append(r.Topics, t)
			}
		}
		return
	}
	for _, t := range g.Topics {
		if t.Topic == "" {
			r.Topics = append(r.Topics, failedTopic(&t, kerr.UnknownTopicID))
		}
	}
}

func failedTopic(t *kmsg.OffsetFetchRequestGroupTopic, err *kerr.Error) kmsg.OffsetFetchResponseGroupTopic {
	rt := kmsg.OffsetFetchResponseGroupTopic{Topic: t.Topic, TopicID: t.TopicID}
	for _, p := range t.Partitions {
		rt.Partitions = append(rt.Partitions, noOffset(p, err))
	}
	return rt
}

// fetchError is the answer for a group of which nothing can be said. Version 1 has no place for it but the partitions.
func fetchError(g *kmsg.OffsetFetchRequestGroup, err *kerr.Error, version int16) kmsg.OffsetFetchResponseGroup {
	r := kmsg.OffsetFetchResponseGroup{Group: g.Group, Topics: []kmsg.OffsetFetchResponseGroupTopic{}}
	if version >= fetchTopLevelError {
		r.ErrorCode = err.Code
		return r
	}
	for i := range g.Topics {
		r.Topics = append(r.Topics, failedTopic(&g.Topics[i], err))
	}
	return r
}

// splitGroup puts the one group of an older version where that version has it.
func splitGroup(resp *kmsg.OffsetFetchResponse) {
	g := resp.Groups[0]
	resp.Groups = nil
	resp.ErrorCode = g.ErrorCode
	resp.Topics = make([]kmsg.OffsetFetchResponseTopic, 0, len(g.Topics))
	for _, t := range g.Topics {
		rt := kmsg.OffsetFetchResponseTopic{Topic: t.Topic, Partitions: make([]kmsg.OffsetFetchResponseTopicPartition, 0, len(t.Partitions))}
		for _, p := range t.Partitions {
			rt.Partitions = append(rt.Partitions, kmsg.OffsetFetchResponseTopicPartition{Partition: p.Partition, Offset: p.Offset,
				LeaderEpoch: p.LeaderEpoch, Metadata: p.Metadata, ErrorCode: p.ErrorCode})
		}
		resp.Topics = append(resp.Topics, rt)
	}
}

// OffsetDelete handles OffsetDelete 0.
func (c *Coordinator) OffsetDelete(ctx context.Context, _ Client, req *kmsg.OffsetDeleteRequest) *kmsg.OffsetDeleteResponse {
	failed := kmsg.NewPtrOffsetDeleteResponse()
	failed.Version = req.Version
	if req.Group == "" {
		failed.ErrorCode = kerr.InvalidGroupID.Code
		return failed
	}
	known := *req
	known.Topics = make([]kmsg.OffsetDeleteRequestTopic, 0, len(req.Topics))
	for i := range req.Topics {
		known.Topics = append(known.Topics, c.existing(&req.Topics[i]))
	}
	r, err := coordrt.Write(ctx, c.rt, c.PartitionFor(req.Group), func(s *Shard, _ time.Time) (coordrt.Result, *kmsg.OffsetDeleteResponse, error) {
		res, r, err := s.OffsetDelete(&known)
		return res, r, asError(err)
	})
	if err != nil {
		failed.ErrorCode = coordrt.ErrorOf(err).Code
		return failed
	}
	r.Version = req.Version
	for i := range r.Topics {
		r.Topics[i].Partitions = append(c.missing(&req.Topics[i]), r.Topics[i].Partitions...)
	}
	return r
}

// existing leaves out the partitions that are not there.
func (c *Coordinator) existing(t *kmsg.OffsetDeleteRequestTopic) kmsg.OffsetDeleteRequestTopic {
	out := kmsg.OffsetDeleteRequestTopic{Topic: t.Topic}
	for _, p := range t.Partitions {
		if c.opts.Topics.Has(t.Topic, p.Partition) {
			out.Partitions = append(out.Partitions, p)
		}
	}
	return out
}

// missing answers for the partitions that existing left out.
func (c *Coordinator) missing(t *kmsg.OffsetDeleteRequestTopic) []kmsg.OffsetDeleteResponseTopicPartition {
	var out []kmsg.OffsetDeleteResponseTopicPartition
	for _, p := range t.Partitions {
		if !c.opts.Topics.Has(t.Topic, p.Partition) {
			out = append(out, kmsg.OffsetDeleteResponseTopicPartition{Partition: p.Partition, ErrorCode: kerr.UnknownTopicOrPartition.Code})
		}
	}
	return out
}

func postTopicsDeleted(topics []DeletedTopic) func(*Shard, time.Time) coordrt.Result {
	return func(s *Shard, _ time.Time) coordrt.Result { return s.TopicsDeleted(topics) }
}
