package quorum

import (
	"context"
	"errors"
	"fmt"

	"github.com/kbroker/kbroker/internal/metadata"
	"github.com/kbroker/kbroker/internal/model"
	"github.com/twmb/franz-go/pkg/kerr"
	pb "go.etcd.io/raft/v3/raftpb"
)

// Turn says when a batch may go into the log. A writer that decides on an image with its own uncommitted batches applied
// numbers them within an epoch; when one is refused, all later ones are, until it has started again from there. So no
// batch is ever committed that was decided on something that was not.
type Turn struct {
	// Epoch is the leadership in which the batch was decided.
	Epoch int32
	// Number counts the accepted batches of the writer in this epoch, from 1. 0 is for batches that stand for themselves:
	// they are accepted in any order.
	Number uint64
}

// anyTurn is the turn of a batch that depends on nothing.
var anyTurn = Turn{Epoch: -1}

// proposal is a batch or a change of membership on its way into the log.
type proposal struct {
	turn    Turn
	records []metadata.Record
	data    []byte
	conf    *pb.ConfChangeV2
	// done is called exactly once, from the loop's goroutine or from that of Run.
	done func(offset int64, err error)
	// index is where the proposal stands in the log; 0 until raft has said.
	index uint64
}

// Submit puts a batch into the log if this node is active in the turn's epoch and it is its turn, and calls done once it
// is committed and applied here, or cannot be. done runs on the loop's goroutine: it must be quick and must not call
// Submit. Batches submitted by one goroutine are committed, and their done is called, in that order. Submit returns an
// error, and never calls done, when the batch could not be queued: ctx ended or Run has. The records must not be
// modified afterwards.
//
// An error of ErrMismatch means that the batch does not fit what was proposed before it and was left out. After
// ErrNotLeader it is unknown whether the batch will be committed.
func (q *Quorum) Submit(ctx context.Context, turn Turn, records []metadata.Record, done func(offset int64, err error)) error {
	if len(records) == 0 {
		return errors.New("metadata quorum: empty batch")
	}
	data := metadata.AppendBatch(nil, records)
	if len(data) > maxBatchBytes {
		return fmt.Errorf("metadata batch of %d bytes, at most %d are possible: %w", len(data), maxBatchBytes, kerr.PolicyViolation)
	}
	return q.enqueue(ctx, &proposal{turn: turn, records: records, data: data, done: done})
}

func (q *Quorum) enqueue(ctx context.Context, p *proposal) error {
	select {
	case <-q.stopped:
		return ErrClosed
	default:
	}
	select {
	case q.proposals <- p:
	case <-ctx.Done():
		return ctx.Err()
	case <-q.stopped:
		return ErrClosed
	}
	// Run may have ended between the two and looked at the queue for the last time.
	select {
	case <-q.stopped:
		q.drainProposals()
	default:
	}
	return nil
}

// drainProposals answers what nobody will accept any more.
func (q *Quorum) drainProposals() {
	gather(q.proposals, func(p *proposal) { p.done(model.NoOffset, ErrClosed) })
	gather(q.proposals, func(p *proposal) { p.done(model.NoOffset, ErrClosed) })
}

// Propose puts a batch into the log and waits until it is committed and applied here. When ctx ends first, the batch
// may still be committed.
func (q *Quorum) Propose(ctx context.Context, records []metadata.Record) (offset int64, err error) {
	return q.wait(ctx, func(done func(int64, error)) error { return q.Submit(ctx, anyTurn, records, done) })
}

// ChangeMembers adds and removes voters and waits until the change is committed and applied here. It is refused while
// another change is in progress.
func (q *Quorum) ChangeMembers(ctx context.Context, add, remove []int32) (offset int64, err error) {
	cc := &pb.ConfChangeV2{}
	for _, n := range add {
		cc.Changes = append(cc.Changes, &pb.ConfChangeSingle{Type: pb.ConfChangeAddNode.Enum(), NodeId: new(raftID(n))})
	}
	for _, n := range remove {
		cc.Changes = append(cc.Changes, &pb.ConfChangeSingle{Type: pb.ConfChangeRemoveNode.Enum(), NodeId: new(raftID(n))})
	}
	return q.wait(ctx, func(done func(int64, error)) error {
		return q.enqueue(ctx, &proposal{turn: anyTurn, conf: cc, done: done})
	})
}

func (q *Quorum) wait(ctx context.Context, submit func(done func(int64, error)) error) (int64, error) {
	type outcome struct {
		offset int64
		err    error
	}
	c := make(chan outcome, 1)
	if err := submit(func(offset int64, err error) { c <- outcome{offset, err} }); err != nil {
		return model.NoOffset, err
	}
	select {
	case o := <-c:
		return o.offset, o.err
	case <-ctx.Done():
		return model.NoOffset, ctx.Err()
	}
}

// accept hands a proposal to raft. It runs in the loop.
func (q *Quorum) accept(p *proposal) {
	l := &q.loop
	now := q.leader.Load()
	inTurn := p.turn == anyTurn || p.turn.Epoch == now.Epoch && (p.turn.Number == 0 || p.turn.Number == l.accepted+1)
	if !now.Active || !inTurn {
		p.done(model.NoOffset, ErrNotLeader)
		return
	}
	ahead := l.ahead
	if p.conf == nil {
		var err error
		if ahead, _, err = l.ahead.Apply(p.records); err != nil {
			p.done(model.NoOffset, err) // Q4
			return
		}
	}
	var err error
	if p.conf != nil {
		err = l.node.ProposeConfChange(p.conf)
	} else {
		err = l.node.Propose(p.data)
	}
	if err != nil {
		// Too much is uncommitted, or leadership is being handed over. Nothing was written.
		p.done(model.NoOffset, fmt.Errorf("metadata quorum: %w: %w", err, ErrNotLeader))
		return
	}
	l.ahead, p.records, p.data = ahead, nil, nil
	l.waiting = append(l.waiting, p)
	if p.turn.Number > 0 {
		l.accepted = p.turn.Number
	}
}

// indexProposals learns where raft has put the accepted proposals. Nothing is accepted before the first, empty entry of
// a leader's term is applied; after that the entries of the term are exactly the accepted proposals, in order, and
// the changes without content by which raft ends a membership change of several nodes.
func (q *Quorum) indexProposals(entries []*pb.Entry) {
	l := &q.loop
	for _, e := range entries {
		if l.indexed == len(l.waiting) || e.GetTerm() != l.hard.GetTerm() {
			continue
		}
		isConf := e.GetType() != pb.EntryNormal
		if isConf && len(e.GetData()) == 0 {
			continue
		}
		p := l.waiting[l.indexed]
		p.index = e.GetIndex()
		l.indexed++
		if p.conf != nil && !isConf {
			p.refuse() // raft puts an empty entry in the place of a change that it does not take
		}
	}
}

// refuse makes a membership change that raft did not take end in an error.
func (p *proposal) refuse() {
	done := p.done
	p.done = func(int64, error) {
		done(model.NoOffset, errors.New("metadata quorum: another change of its members is in progress"))
	}
}

// takeApplied removes and returns the proposal that stands at e, if one of this node's does.
func (q *Quorum) takeApplied(e *pb.Entry) *proposal {
	l := &q.loop
	if l.indexed == 0 || l.waiting[0].index != e.GetIndex() {
		return nil
	}
	p := l.waiting[0]
	l.waiting = l.waiting[1:]
	l.indexed--
	return p
}
