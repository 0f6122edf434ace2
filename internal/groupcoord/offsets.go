package groupcoord

import (
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/internal/coordrt"
	"github.com/kbroker/kbroker/internal/model"
)

// The versions of OffsetCommit and TxnOffsetCommit from which on clients know the error GROUP_ID_NOT_FOUND.
const (
	groupIDNotFoundVersion    = 9
	txnGroupIDNotFoundVersion = 6
)

// defaultRetention stands in requests for the broker's own retention.
const defaultRetention = -1

// offsetCommit is an OffsetCommit or a TxnOffsetCommit request on its way through the shard.
type offsetCommit struct {
	group, memberID string
	instance        *string
	generation      int32
	version         int16
	retentionMs     int64             // defaultRetention: the broker's
	txn             *coordrt.Producer // of a TxnOffsetCommit
	topics          []commitTopic
}

type commitTopic struct {
	name  string
	id    model.UUID
	parts []commitPart
}

// commitPart is one offset. Its code is the answer; where it is set already, the offset is not looked at.
type commitPart struct {
	partition   int32
	offset      int64
	leaderEpoch int32
	metadata    *string
	commitMs    int64 // model.NoTimestamp: now
	code        int16
}

// commit handles an offset commit and sets the codes in it. Offsets of a transaction become visible with it: that the
// transaction is open and includes the group has been verified. An error refuses the whole request.
func (s *Shard) commit(now time.Time, req *offsetCommit) (coordrt.Result, error) {
	check := s.checkCommit
	if req.txn != nil {
		check = s.checkTxnCommit
	}
	if err := check(now, req); err != nil {
		return coordrt.Result{}, err
	}
	r := coordrt.Result{Transaction: req.txn}
	for i := range req.topics {
		t := &req.topics[i]
		for j := range t.parts {
			p := &t.parts[j]
			switch {
			case p.code != 0:
			case p.metadata != nil && utf16Len(*p.metadata) > int(s.o.Offsets.MetadataMaxBytes):
				p.code = kerr.OffsetMetadataTooLarge.Code
			default:
				c := p.commit(now.UnixMilli(), req.retentionMs, t.id)
				r.Records = append(r.Records, c.record(offsetKey{req.group, t.name, p.partition}))
			}
		}
	}
	s.o.Stats.commits.Add(int64(len(r.Records)))
	return r, nil
}

func (p *commitPart) commit(nowMs, retentionMs int64, topicID model.UUID) commit {
	c := commit{offset: p.offset, leaderEpoch: p.leaderEpoch, commitMs: nowMs, expireMs: noExpiry, topicID: topicID}
	if p.metadata != nil {
		c.metadata = *p.metadata
	}
	if p.commitMs != model.NoTimestamp {
		c.commitMs = p.commitMs
	}
	if retentionMs != defaultRetention {
		c.expireMs = nowMs + retentionMs
	}
	return c
}

// checkCommit tells whether a group takes an offset commit. It is a sign of life of the member, too.
func (s *Shard) checkCommit(now time.Time, req *offsetCommit) error {
	g := s.groups[req.group]
	if g == nil {
		return s.checkNewGroup(req, groupIDNotFoundVersion)
	}
	if req.generation < 0 && g.state == Empty {
		return nil // an administrator, or a consumer that does not join
	}
	if req.anonymous() {
		return kerr.UnknownMemberID
	}
	if err := g.checkMember(req); err != nil {
		return err
	}
	if g.state == CompletingRebalance {
		return kerr.RebalanceInProgress // it has the new generation, so it will come for its assignment
	}
	s.touch(now, g.byID[req.memberID])
	return nil
}

// checkNewGroup tells whether a commit may bring a group into being, which is then a simple one.
func (s *Shard) checkNewGroup(req *offsetCommit, notFoundVersion int16) error {
	switch {
	case req.generation < 0 && len(s.groups) >= maxGroups:
		return kerr.CoordinatorNotAvailable
	case req.generation < 0:
		return nil
	case req.version >= notFoundVersion:
		return kerr.GroupIDNotFound
	}
	return kerr.IllegalGeneration
}

// anonymous requests do not say who commits.
func (c *offsetCommit) anonymous() bool {
	return c.generation < 0 && c.memberID == "" && c.instance == nil
}

func (g *group) checkMember(req *offsetCommit) error {
	if err := g.check(req.memberID, req.instance); err != nil {
		return err
	}
	if req.generation != g.generation {
		return kerr.IllegalGeneration
	}
	return nil
}

// checkTxnCommit is lenient: clients before version 3 do not say on whose behalf they commit, and the state of the group
// does not matter.
func (s *Shard) checkTxnCommit(_ time.Time, req *offsetCommit) error {
	g := s.groups[req.group]
	switch {
	case g == nil:
		return s.checkNewGroup(req, txnGroupIDNotFoundVersion)
	case req.anonymous() || req.generation < 0 && g.state == Empty:
		return nil
	}
	return g.checkMember(req)
}

// addPending notes an offset of an open transaction.
func (s *Shard) addPending(g *group, producer int64, k offsetKey, c commit) {
	t := s.txns[producer]
	if t == nil {
		t = map[offsetKey]commit{}
		s.txns[producer] = t
	}
	if _, again := t[k]; !again {
		if g.unstable == nil {
			g.unstable = map[topicPartition][]int64{}
		}
		tp := topicPartition{k.topic, k.partition}
		g.unstable[tp] = append(g.unstable[tp], producer)
		s.o.Stats.pending.Add(1)
	}
	t[k] = c
}

// ReplayMarker implements coordrt.Shard (G4).
func (s *Shard) ReplayMarker(at coordrt.Position, commit bool) {
	t := s.txns[at.ProducerID]
	delete(s.txns, at.ProducerID)
	s.o.Stats.pending.Add(int64(-len(t)))
	for k, c := range t {
		g := s.groups[k.group]
		if g == nil {
			continue // a pending offset keeps its group, so there is one
		}
		g.settle(topicPartition{k.topic, k.partition}, at.ProducerID)
		if !commit {
			continue
		}
		if old := g.offsets[k.topic][k.partition]; old == nil || c.at > old.at {
			s.o.Stats.offsets.Add(int64(g.setOffset(k.topic, k.partition, c)))
		}
	}
}

// settle forgets that a producer's transaction may change an offset.
func (g *group) settle(tp topicPartition, producer int64) {
	ids := g.unstable[tp]
	for i, id := range ids {
		if id == producer {
			ids = append(ids[:i], ids[i+1:]...)
			break
		}
	}
	if len(ids) == 0 {
		delete(g.unstable, tp)
	} else {
		g.unstable[tp] = ids
	}
}

// removeOffset applies the deletion of an offset, those of open transactions included.
func (s *Shard) removeOffset(k offsetKey) {
	g := s.groups[k.group]
	if g == nil {
		return
	}
	s.o.Stats.offsets.Add(int64(-g.dropOffset(k.topic, k.partition)))
	tp := topicPartition{k.topic, k.partition}
	for _, producer := range g.unstable[tp] {
		t := s.txns[producer]
		s.o.Stats.pending.Add(-1)
		if delete(t, k); len(t) == 0 {
			delete(s.txns, producer)
		}
	}
	delete(g.unstable, tp)
}

// OffsetFetch answers for one group of an OffsetFetch request. No topics stand for all. With stable set, offsets that an
// open transaction may change are not told. Classic groups do not look at the member.
func (s *Shard) OffsetFetch(req *kmsg.OffsetFetchRequestGroup, stable bool) kmsg.OffsetFetchResponseGroup {
	resp := kmsg.OffsetFetchResponseGroup{Group: req.Group, Topics: []kmsg.OffsetFetchResponseGroupTopic{}}
	g := s.groups[req.Group]
	if req.Topics == nil {
		if g != nil {
			resp.Topics = g.fetchAll(stable)
		}
		return resp
	}
	for i := range req.Topics {
		t := &req.Topics[i]
		rt := kmsg.OffsetFetchResponseGroupTopic{Topic: t.Topic, TopicID: t.TopicID, Partitions: make([]kmsg.OffsetFetchResponseGroupTopicPartition, 0, len(t.Partitions))}
		for _, p := range t.Partitions {
			rt.Partitions = append(rt.Partitions, g.fetch(t.Topic, p, t.TopicID, stable))
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp
}

// fetch answers for one partition; g is nil when there is no such group. An offset of an earlier topic of that name is
// none.
func (g *group) fetch(topic string, partition int32, topicID model.UUID, stable bool) kmsg.OffsetFetchResponseGroupTopicPartition {
	r := noOffset(partition, nil)
	if g == nil {
		return r
	}
	if stable && g.unstable[topicPartition{topic, partition}] != nil {
		return noOffset(partition, kerr.UnstableOffsetCommit)
	}
	c := g.offsets[topic][partition]
	if c == nil || c.topicID != noTopic && topicID != noTopic && c.topicID != topicID {
		return r
	}
	metadata := c.metadata
	r.Offset, r.LeaderEpoch, r.Metadata = c.offset, c.leaderEpoch, &metadata
	return r
}

func noOffset(partition int32, err *kerr.Error) kmsg.OffsetFetchResponseGroupTopicPartition {
	r := kmsg.OffsetFetchResponseGroupTopicPartition{Partition: partition, Offset: model.NoOffset, LeaderEpoch: model.NoEpoch, Metadata: kmsg.StringPtr("")}
	if err != nil {
		r.ErrorCode = err.Code
	}
	return r
}

// fetchAll answers for every offset of the group, in order.
func (g *group) fetchAll(stable bool) []kmsg.OffsetFetchResponseGroupTopic {
	out := make([]kmsg.OffsetFetchResponseGroupTopic, 0, len(g.offsets))
	for _, topic := range sortedKeys(g.offsets) {
		rt := kmsg.OffsetFetchResponseGroupTopic{Topic: topic}
		for _, p := range sortedKeys(g.offsets[topic]) {
			rt.Partitions = append(rt.Partitions, g.fetch(topic, p, noTopic, stable))
		}
		out = append(out, rt)
	}
	return out
}

// OffsetDelete handles an OffsetDelete request. Partitions exist. An error refuses the whole request.
func (s *Shard) OffsetDelete(req *kmsg.OffsetDeleteRequest) (coordrt.Result, *kmsg.OffsetDeleteResponse, *kerr.Error) {
	g := s.groups[req.Group]
	switch {
	case g == nil:
		return coordrt.Result{}, nil, kerr.GroupIDNotFound
	case g.state != Empty && g.protocolType != consumerType:
		return coordrt.Result{}, nil, kerr.NonEmptyGroup // nobody can tell which offsets its members use
	}
	var r coordrt.Result
	resp := kmsg.NewPtrOffsetDeleteResponse()
	for _, t := range req.Topics {
		rt := kmsg.OffsetDeleteResponseTopic{Topic: t.Topic}
		used := g.subscribes(t.Topic)
		for _, p := range t.Partitions {
			rp := kmsg.OffsetDeleteResponseTopicPartition{Partition: p.Partition}
			switch {
			case used:
				rp.ErrorCode = kerr.GroupSubscribedToTopic.Code
			case g.offsets[t.Topic][p.Partition] != nil || g.unstable[topicPartition{t.Topic, p.Partition}] != nil:
				r.Records = append(r.Records, offsetKey{g.id, t.Topic, p.Partition}.tombstone())
			}
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	s.o.Stats.deletions.Add(int64(len(r.Records)))
	return r, resp, nil
}
