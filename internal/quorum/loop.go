package quorum

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/kbroker/kbroker/internal/metadata"
	"github.com/kbroker/kbroker/internal/model"
	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"
)

// loopState belongs to the loop's goroutine.
type loopState struct {
	node    *raft.RawNode
	wal     *wal
	storage *storage
	// conf is the membership at applied, hard what raft wants remembered.
	conf        *pb.ConfState
	confChanged bool
	applied     position
	hard        *pb.HardState
	// durableCommit is the commit index that a restart would begin with.
	durableCommit uint64
	soft          raft.SoftState

	// ahead is the image with everything proposed in this term, committed or not; nil unless this node may decide (Q4).
	ahead *metadata.Image
	// accepted is the number of the last Turn that was accepted in this term.
	accepted uint64
	// waiting are the accepted proposals of this term that are not applied yet, in log order.
	waiting []*proposal
	// indexed of them have been given an index.
	indexed int
	// barrier is the index that a follower must have applied to have caught up, 0 until the leader has told.
	barrier uint64
	// asked counts the questions for it.
	asked uint64

	snapshotting bool
	// sinceSnapshot counts the log bytes written since the last snapshot was begun.
	sinceSnapshot int64

	heard map[uint64]*heardFrom
}

// snapshotResult is what the snapshot writer found.
type snapshotResult struct {
	at    position
	bytes int64
	took  time.Duration
	err   error
}

// Run drives the node until ctx ends (then it returns nil) or the node cannot go on: its log failed (Q6), or what was
// committed cannot be applied. It may be called once. When it returns, all proposals were answered and no goroutine is
// left.
func (q *Quorum) Run(ctx context.Context) error {
	if q.running.Swap(true) {
		return errors.New("quorum: Run was called before")
	}
	q.spawn(q.publish)
	err := q.guarded(func() error { return q.run(ctx) })
	close(q.stopped)
	q.stepDown(Leadership{LeaderID: model.NoLeader, Epoch: q.leader.Load().Epoch}, ErrClosed)
	q.drainProposals()
	q.pub.close()
	q.workers.Wait()
	return errors.Join(err, q.loop.wal.close())
}

// spawn is the one place that starts goroutines; Run waits for them.
func (q *Quorum) spawn(fn func()) {
	q.workers.Add(1)
	go func() {
		defer q.workers.Done()
		fn()
	}()
}

// guarded turns raft's own panics into errors: a peer's impossible message must end this node in order, not the
// process. Other panics pass.
func (q *Quorum) guarded(fn func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			rp, ok := p.(raftPanic)
			if !ok {
				panic(p)
			}
			err = fmt.Errorf("metadata quorum: raft: %s", rp.text)
		}
	}()
	return fn()
}

func (q *Quorum) run(ctx context.Context) error {
	ticker := time.NewTicker(q.opts.Tick)
	ticker.Stop()
	defer ticker.Stop()
	ticking := false
	for {
		for q.loop.node.HasReady() {
			if err := q.handleReady(); err != nil {
				return err
			}
		}
		if q.loop.confChanged {
			q.loop.confChanged = false
			if q.alone() && q.loop.soft.RaftState == raft.StateFollower {
				// Nobody else can win, so there is nothing to wait for.
				if err := q.loop.node.Campaign(); err != nil {
					return fmt.Errorf("metadata quorum: %w", err)
				}
				continue
			}
		}
		if need := !q.alone() || q.loop.soft.RaftState != raft.StateLeader; need != ticking { // Q7
			if ticking = need; need {
				ticker.Reset(q.opts.Tick)
			} else {
				ticker.Stop()
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			q.tick()
		case m := <-q.inbox:
			q.step(m)
			gather(q.inbox, q.step)
		case p := <-q.proposals:
			q.accept(p)
			gather(q.proposals, q.accept)
		case fn := <-q.calls:
			fn()
		case r := <-q.snapshots:
			if err := q.snapshotDone(r); err != nil {
				return err
			}
		}
	}
}

// tick moves raft's clock. A follower that has not caught up asks the leader how far that is, again and again, because
// question and answer may be lost.
func (q *Quorum) tick() {
	q.loop.node.Tick()
	if q.loop.barrier == 0 && !q.pub.opened() && q.loop.soft.Lead != raft.None {
		// Requests are told apart by their context, also those of different nodes.
		q.loop.asked++
		id := binary.BigEndian.AppendUint32(nil, uint32(q.opts.NodeID))
		q.loop.node.ReadIndex(binary.BigEndian.AppendUint64(id, q.loop.asked))
	}
}

// gather handles what else is queued without waiting, so that it shares one write and one sync.
func gather[T any](c <-chan T, fn func(T)) {
	for range maxGather {
		select {
		case v := <-c:
			fn(v)
		default:
			return
		}
	}
}

// alone reports whether this node is the whole membership.
func (q *Quorum) alone() bool {
	c := q.loop.conf
	return len(c.GetVoters()) == 1 && c.GetVoters()[0] == raftID(q.opts.NodeID) &&
		len(c.GetVotersOutgoing())+len(c.GetLearners())+len(c.GetLearnersNext()) == 0
}

// handleReady is the one place that writes, sends and applies, in this order (Q1).
func (q *Quorum) handleReady() error {
	l := &q.loop
	rd := l.node.Ready()
	if err := q.persist(rd); err != nil {
		return err
	}
	if rd.SoftState != nil {
		l.soft = *rd.SoftState
	}
	for _, r := range rd.ReadStates {
		l.barrier = max(r.Index, 1)
	}
	q.noteLeadership()
	if len(rd.Messages) > 0 && q.opts.Transport != nil {
		q.opts.Transport.Send(rd.Messages)
	}
	if len(rd.Entries) > 0 {
		q.indexProposals(rd.Entries)
	}
	if err := q.apply(rd.CommittedEntries); err != nil {
		return err
	}
	l.node.Advance(rd)
	q.maybeSnapshot()
	return nil
}

// persist makes everything in rd durable. A hard state that only says more is committed can wait for the next write: a
// restarted node learns it again from the leader, or by becoming one. But not when a change of the members is committed:
// those who would have to confirm it again may be gone for good.
func (q *Quorum) persist(rd raft.Ready) error {
	l := &q.loop
	a := &appended{hard: l.hard, entries: rd.Entries}
	changed := len(rd.Entries) > 0 || slices.ContainsFunc(rd.CommittedEntries, func(e *pb.Entry) bool {
		return e.GetType() != pb.EntryNormal && e.GetIndex() > l.durableCommit
	})
	if h := rd.HardState; !raft.IsEmptyHardState(h) {
		changed = changed || h.GetTerm() != l.hard.GetTerm() || h.GetVote() != l.hard.GetVote()
		a.hard, l.hard = h, h
	}
	if !raft.IsEmptySnap(rd.Snapshot) {
		p, err := q.adoptSnapshot(rd.Snapshot)
		if err != nil {
			return err
		}
		a.reset, changed = &p, true
	}
	if !changed {
		return nil
	}
	before := l.wal.end
	if err := l.wal.append(a); err != nil {
		return err
	}
	l.durableCommit = a.hard.GetCommit()
	l.sinceSnapshot += l.wal.end - before
	if a.reset != nil {
		l.storage.reset(*a.reset)
	}
	l.storage.append(rd.Entries)
	return nil
}

// adoptSnapshot stores a snapshot of the leader and replaces the image. The caller resets the log.
func (q *Quorum) adoptSnapshot(s *pb.Snapshot) (position, error) {
	p := position{s.GetMetadata().GetIndex(), s.GetMetadata().GetTerm()}
	snap, err := decodeSnapshot(s.GetData())
	if err == nil && snap.position != p {
		err = fmt.Errorf("snapshot of %v where %v was announced: %w", snap.position, p, ErrCorrupt)
	}
	if err != nil {
		return p, fmt.Errorf("snapshot from the leader: %w", err)
	}
	if err := installSnapshot(q.opts.FS, q.opts.Dir, p, s.GetData()); err != nil {
		return p, err
	}
	q.log.Info("installed a snapshot of the cluster metadata", zap.Uint64("index", p.index),
		zap.Int("bytes", len(s.GetData())))
	q.loop.applied = p
	q.setConf(snap.conf)
	q.setImage(snap.image, metadata.Diff(q.Image(), snap.image))
	return p, nil
}

// apply brings committed entries into the image and answers their proposals.
func (q *Quorum) apply(entries []*pb.Entry) error {
	for _, e := range entries {
		if e.GetIndex() <= q.loop.applied.index {
			continue // covered by a snapshot
		}
		if err := q.applyEntry(e); err != nil {
			return fmt.Errorf("metadata log entry %d of epoch %d: %w", e.GetIndex(), e.GetTerm(), err)
		}
		q.loop.applied = position{e.GetIndex(), e.GetTerm()}
		q.noteLeadership()
		if p := q.takeApplied(e); p != nil {
			p.done(int64(e.GetIndex()), nil)
		}
	}
	return nil
}

func (q *Quorum) applyEntry(e *pb.Entry) error {
	switch e.GetType() {
	case pb.EntryConfChange:
		cc := &pb.ConfChange{}
		if err := proto.Unmarshal(e.GetData(), cc); err != nil {
			return err
		}
		q.applyConf(cc)
	case pb.EntryConfChangeV2:
		cc := &pb.ConfChangeV2{}
		if err := proto.Unmarshal(e.GetData(), cc); err != nil {
			return err
		}
		q.applyConf(cc)
	case pb.EntryNormal:
		return q.applyBatch(e)
	default:
		return fmt.Errorf("entry of type %d: %w", e.GetType(), ErrVersion)
	}
	return q.applyNothing(e)
}

func (q *Quorum) applyConf(cc pb.ConfChangeI) {
	q.setConf(q.loop.node.ApplyConfChange(cc))
	q.log.Info("members of the metadata quorum changed", zap.Int32s("voters", nodesOf(q.loop.conf.GetVoters())),
		zap.Int32s("observers", nodesOf(q.loop.conf.GetLearners())))
}

func (q *Quorum) setConf(c *pb.ConfState) {
	q.loop.conf, q.loop.confChanged = c, true
	v := nodesOf(c.GetVoters())
	q.voters.Store(&v)
}

func nodesOf(ids []uint64) []int32 {
	nodes := make([]int32, len(ids))
	for i, id := range ids {
		nodes[i] = nodeOf(id)
	}
	slices.Sort(nodes)
	return nodes
}

func (q *Quorum) applyBatch(e *pb.Entry) error {
	if len(e.GetData()) == 0 {
		return q.applyNothing(e) // a new leader's first entry
	}
	records, err := metadata.DecodeBatch(e.GetData())
	if err != nil {
		return err
	}
	b := metadata.NewBuilder(q.Image())
	for _, r := range records {
		if err := b.Apply(r); err != nil {
			return err
		}
	}
	b.SetPosition(int64(e.GetIndex()), int32(e.GetTerm()))
	q.setImage(b.Build())
	return nil
}

// applyNothing moves the image's position over an entry without records.
func (q *Quorum) applyNothing(e *pb.Entry) error {
	b := metadata.NewBuilder(q.Image())
	b.SetPosition(int64(e.GetIndex()), int32(e.GetTerm()))
	q.setImage(b.Build())
	return nil
}

func (q *Quorum) setImage(img *metadata.Image, d *metadata.Delta) {
	q.image.Store(img)
	q.pub.put(img, d)
}

// noteLeadership follows raft's state: who leads, whether this node may decide, whether it has caught up.
func (q *Quorum) noteLeadership() {
	l := &q.loop
	term := l.hard.GetTerm()
	now := Leadership{LeaderID: nodeOf(l.soft.Lead), Epoch: int32(term)}
	now.Active = l.soft.RaftState == raft.StateLeader && l.applied.term == term
	// An entry of this leader's own term comes after everything that was committed before it.
	if !q.pub.opened() && (now.Active || l.barrier > 0 && l.applied.index >= l.barrier) {
		close(q.caughtUp)
		q.pub.open()
	}
	was := *q.leader.Load()
	if was == now {
		return
	}
	if was.Active && (!now.Active || now.Epoch != was.Epoch) {
		q.stepDown(now, ErrNotLeader)
	}
	if now.Active && l.ahead == nil {
		l.ahead = q.Image()
	}
	q.leader.Store(&now)
	for _, fn := range q.watchers {
		fn()
	}
	if was.LeaderID != now.LeaderID || was.Epoch != now.Epoch {
		q.log.Info("metadata quorum leader", zap.Int32("leader", now.LeaderID), zap.Int32("epoch", now.Epoch))
	}
}

// stepDown answers all waiting proposals: what becomes of them is no longer in this node's hands.
func (q *Quorum) stepDown(now Leadership, why error) {
	q.leader.Store(&now)
	l := &q.loop
	waiting := l.waiting
	l.ahead, l.waiting, l.indexed, l.accepted = nil, nil, 0, 0
	for _, p := range waiting {
		p.done(model.NoOffset, why)
	}
}

// maybeSnapshot starts writing a snapshot when enough log has been written since the last one.
func (q *Quorum) maybeSnapshot() {
	l := &q.loop
	if l.snapshotting || l.sinceSnapshot < q.opts.SnapshotBytes || l.applied.index <= l.storage.snap.index {
		return
	}
	l.snapshotting, l.sinceSnapshot = true, 0
	s := &snapshot{position: l.applied, conf: l.conf, image: q.Image()}
	q.spawn(func() {
		begin := time.Now()
		n, err := writeSnapshot(q.opts.FS, q.opts.Dir, s)
		q.snapshots <- snapshotResult{at: s.position, bytes: n, took: time.Since(begin), err: err}
	})
}

// snapshotDone drops the log that a finished snapshot covers. A snapshot that failed is tried again after more log: the
// log itself is whole, it is only longer than wished.
func (q *Quorum) snapshotDone(r snapshotResult) error {
	l := &q.loop
	l.snapshotting = false
	if r.err != nil {
		q.log.Error("could not write a snapshot of the cluster metadata", zap.Error(r.err))
		return nil //nolint:nilerr // the node can go on without it
	}
	if r.at.index <= l.storage.snap.index {
		return nil // the leader sent a newer one meanwhile
	}
	q.log.Debug("wrote a snapshot of the cluster metadata", zap.Uint64("index", r.at.index), zap.Int64("bytes", r.bytes),
		zap.Duration("took", r.took))
	l.storage.compact(r.at, uint64(q.opts.SnapshotBytes)/4)
	if err := l.wal.roll(&appended{hard: l.hard}); err != nil {
		return err
	}
	if err := l.wal.removeBefore(r.at.index); err != nil {
		return err
	}
	return removeSnapshotsBefore(q.opts.FS, q.opts.Dir, r.at)
}
