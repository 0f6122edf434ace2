package quorum

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/kbroker/kbroker/internal/model"
	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"
)

// heardFrom remembers when a follower was last seen.
type heardFrom struct {
	last time.Time
	// caughtUp is when its log was last as long as the leader's.
	caughtUp time.Time
}

// Step takes a message from another node. It never blocks: when the loop is behind, the message is dropped, as on a
// lossy network. The message belongs to the quorum afterwards.
func (q *Quorum) Step(m *pb.Message) {
	select {
	case q.inbox <- m:
	default:
	}
}

// step runs in the loop.
func (q *Quorum) step(m *pb.Message) {
	if m.GetTo() != raftID(q.opts.NodeID) {
		q.log.Warn("dropped a metadata quorum message for another node", zap.Int32("to", nodeOf(m.GetTo())))
		return
	}
	if s := m.GetSnapshot(); m.GetType() == pb.MsgSnap {
		// Checked here so that a damaged one costs a message and not this node.
		if _, err := decodeSnapshot(s.GetData()); err != nil {
			q.log.Warn("dropped a damaged snapshot of the cluster metadata", zap.Int32("from", nodeOf(m.GetFrom())), zap.Error(err))
			return
		}
	}
	err := q.loop.node.Step(m)
	if err != nil && !errors.Is(err, raft.ErrProposalDropped) && !errors.Is(err, raft.ErrStepPeerNotFound) {
		q.log.Warn("refused a metadata quorum message", zap.Int32("from", nodeOf(m.GetFrom())), zap.Error(err))
		return
	}
	if q.loop.soft.RaftState == raft.StateLeader && raft.IsResponseMsg(m.GetType()) {
		q.noteHeard(m.GetFrom())
	}
}

func (q *Quorum) noteHeard(from uint64) {
	l := &q.loop
	if l.heard == nil {
		l.heard = map[uint64]*heardFrom{}
	}
	h := l.heard[from]
	if h == nil {
		h = &heardFrom{}
		l.heard[from] = h
	}
	h.last = time.Now()
	if pr, ok := l.node.Status().Progress[from]; ok && pr.Match >= l.storage.last() {
		h.caughtUp = h.last
	}
}

// ReportUnreachable tells raft that messages to a node are being lost, so that it stops sending ahead.
func (q *Quorum) ReportUnreachable(node int32) {
	q.try(func() { q.loop.node.ReportUnreachable(raftID(node)) })
}

// ReportSnapshot tells raft whether a MsgSnap arrived.
func (q *Quorum) ReportSnapshot(node int32, ok bool) {
	status := raft.SnapshotFailure
	if ok {
		status = raft.SnapshotFinish
	}
	q.try(func() { q.loop.node.ReportSnapshot(raftID(node), status) })
}

// try runs fn in the loop unless Run has ended.
func (q *Quorum) try(fn func()) {
	select {
	case q.calls <- fn:
	case <-q.stopped:
	}
}

// Replica is one member of the quorum as its leader sees it.
type Replica struct {
	ID int32
	// LogEndOffset is the offset behind the last entry the member is known to have; -1 when unknown.
	LogEndOffset int64
	// LastFetch is when the leader last heard of it, LastCaughtUp when it last had the whole log; zero when never.
	LastFetch, LastCaughtUp time.Time
}

// Description answers DescribeQuorum.
type Description struct {
	Leadership
	// HighWatermark is the offset behind the last committed entry.
	HighWatermark     int64
	Voters, Observers []Replica
}

// Describe returns the state of the quorum. Only on the leader does it tell anything of the others.
func (q *Quorum) Describe(ctx context.Context) (Description, error) {
	c := make(chan Description, 1)
	fn := func() { c <- q.describe() }
	select {
	case q.calls <- fn:
	case <-q.stopped:
		return Description{}, ErrClosed
	case <-ctx.Done():
		return Description{}, ctx.Err()
	}
	return <-c, nil // the loop runs what it takes
}

func (q *Quorum) describe() Description {
	l := &q.loop
	d := Description{Leadership: *q.leader.Load(), HighWatermark: int64(l.hard.GetCommit()) + 1}
	status := l.node.Status()
	now := time.Now()
	replica := func(id uint64) Replica {
		r := Replica{ID: nodeOf(id), LogEndOffset: model.NoOffset}
		if id == raftID(q.opts.NodeID) {
			r.LogEndOffset = int64(l.storage.last()) + 1
			r.LastFetch, r.LastCaughtUp = now, now
			return r
		}
		if pr, ok := status.Progress[id]; ok && pr.Match > 0 {
			r.LogEndOffset = int64(pr.Match) + 1
		}
		if h := l.heard[id]; h != nil {
			r.LastFetch, r.LastCaughtUp = h.last, h.caughtUp
		}
		return r
	}
	for _, id := range l.conf.GetVoters() {
		d.Voters = append(d.Voters, replica(id))
	}
	for _, id := range l.conf.GetLearners() {
		d.Observers = append(d.Observers, replica(id))
	}
	byID := func(a, b Replica) int { return cmp.Compare(a.ID, b.ID) }
	slices.SortFunc(d.Voters, byID)
	slices.SortFunc(d.Observers, byID)
	return d
}
