package broker

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/kbroker/kbroker/internal/model"
	"github.com/kbroker/kbroker/partition"
)

// Fetch answers at once when there is enough to read, something to report or no time to wait; otherwise the request
// parks on its partitions and is looked at again whenever one of them moves.
func (b *Broker) Fetch(ctx context.Context, req FetchRequest, done func([]FetchedPartition)) {
	op := &fetchOp{b: b, req: req, done: done}
	out, bytes, urgent := op.read()
	if urgent || bytes >= int(req.MinBytes) || req.MaxWait <= 0 || len(req.Partitions) == 0 || ctx.Err() != nil {
		op.mu.done = true
		done(out)
		return
	}
	releaseAll(out)
	op.park(ctx)
}

// fetchOp is one Fetch request.
type fetchOp struct {
	b    *Broker
	req  FetchRequest
	done func([]FetchedPartition)

	// mu serialises the looks at a parked request. A look reads the logs, so nothing else may be held with it, and the
	// replicas wake requests only after letting go of their own locks.
	mu struct {
		sync.Mutex
		done  bool
		waits []fetchWait
		timer *time.Timer
		stop  func() bool
	}
}

type fetchWait struct {
	r *replica
	w wait[*fetchOp]
}

func releaseAll(parts []FetchedPartition) {
	for i := range parts {
		parts[i].Read.Release()
	}
}

// park enters the request at its replicas, then looks once more: what moved in between would wake nobody.
func (op *fetchOp) park(ctx context.Context) {
	op.mu.Lock()
	op.mu.waits = make([]fetchWait, 0, len(op.req.Partitions))
	for i := range op.req.Partitions {
		p := &op.req.Partitions[i]
		if r, err := op.b.lookup(p.Topic, p.Partition); err == nil {
			op.mu.waits = append(op.mu.waits, fetchWait{r: r, w: wait[*fetchOp]{v: op}})
		}
	}
	for i := range op.mu.waits {
		op.mu.waits[i].r.parkRead(&op.mu.waits[i].w)
	}
	op.mu.timer = time.AfterFunc(op.req.MaxWait, op.expire)
	op.mu.stop = context.AfterFunc(ctx, op.expire)
	op.mu.Unlock()
	op.b.stats.parkedFetches.Add(1)
	op.look(false)
}

// wake looks at a parked request again because one of its partitions moved.
func (op *fetchOp) wake() { op.look(false) }

// expire answers with what there is.
func (op *fetchOp) expire() { op.look(true) }

func (op *fetchOp) look(last bool) {
	op.mu.Lock()
	defer op.mu.Unlock()
	if op.mu.done {
		return
	}
	out, bytes, urgent := op.read()
	if !last && !urgent && bytes < int(op.req.MinBytes) {
		releaseAll(out)
		return
	}
	op.mu.done = true
	op.mu.timer.Stop()
	op.mu.stop()
	for i := range op.mu.waits {
		op.mu.waits[i].r.unparkRead(&op.mu.waits[i].w)
	}
	op.b.stats.parkedFetches.Add(-1)
	op.done(out)
}

// read reads every partition within the request's budget. urgent says that the answer holds something that must not
// wait: an error, a divergence, a better replica to read from. Partitions that were refused before the broker was asked
// do not count unless there are no others: such a consumer still long-polls the rest.
func (op *fetchOp) read() (out []FetchedPartition, bytes int, urgent bool) {
	out = make([]FetchedPartition, len(op.req.Partitions))
	budget, asked := int(op.req.MaxBytes), false
	for i := range op.req.Partitions {
		p, res := &op.req.Partitions[i], &out[i]
		*res = FetchedPartition{DivergingEpoch: model.NoEpoch, DivergingEndOffset: model.NoOffset,
			PreferredReadReplica: model.NoLeader, LeaderID: model.NoLeader, LeaderEpoch: model.NoEpoch}
		res.Read.HighWatermark, res.Read.LastStableOffset, res.Read.LogStartOffset = model.NoOffset, model.NoOffset, model.NoOffset
		op.readPartition(p, res, budget, bytes == 0)
		n := res.Read.Len()
		bytes += n
		budget -= n
		if p.Err == nil {
			asked = true
			urgent = urgent || res.Err != nil || res.DivergingEpoch >= 0 || res.PreferredReadReplica >= 0
		}
	}
	return out, bytes, urgent || !asked
}

// readPartition reads one partition. first says that nothing was read yet: then one batch comes whole even if it is
// larger than every limit, or a consumer would never get past it (KIP-74).
func (op *fetchOp) readPartition(p *FetchPartition, res *FetchedPartition, budget int, first bool) {
	if p.Err != nil {
		res.Err = p.Err
		return
	}
	r, err := op.b.lookup(p.Topic, p.Partition)
	if err != nil {
		res.Err = err
		return
	}
	if err = r.checkLeaderEpoch(p.CurrentLeaderEpoch, true); err == nil && op.req.ReplicaID >= 0 {
		err = r.checkFollower(op.req.ReplicaID)
	}
	if err != nil {
		res.Err = err
		res.LeaderID, res.LeaderEpoch = r.currentLeader()
		return
	}
	if r.diverges(p, res) {
		return
	}
	res.Read, res.Err = r.log.Read(partition.ReadRequest{
		Offset:      p.Offset,
		MaxBytes:    max(0, min(budget, int(p.MaxBytes))),
		MinOneBatch: first,
		UpTo:        op.bound(),
		WithAborted: op.req.ReadCommitted,
	})
	if res.Err != nil {
		res.Err = fmt.Errorf("fetch %s at %d: %w", r.tp, p.Offset, res.Err)
	}
	op.b.stats.fetched(res.Read.Len())
}

// diverges tells the requester to truncate first when the last epoch that it has read ends earlier here than where it wants
// to go on (KIP-595).
func (r *replica) diverges(p *FetchPartition, res *FetchedPartition) bool {
	if p.LastFetchedEpoch < 0 {
		return false
	}
	epoch, end := r.log.EpochEnd(p.LastFetchedEpoch)
	if end < 0 {
		res.Err = fmt.Errorf("fetch %s: nothing is known of leader epoch %d: %w", r.tp, p.LastFetchedEpoch, kerr.OffsetOutOfRange)
		return true
	}
	if epoch < p.LastFetchedEpoch || end < p.Offset {
		res.DivergingEpoch, res.DivergingEndOffset = epoch, end
		return true
	}
	return false
}

// bound is how far the requester may see: followers everything, consumers what is replicated, and with read_committed
// what is decided.
func (op *fetchOp) bound() partition.Bound {
	switch {
	case op.req.ReplicaID >= 0 || op.req.ReplicaID == debugConsumer:
		return partition.LogEnd
	case op.req.ReadCommitted:
		return partition.LastStable
	default:
		return partition.HighWatermark
	}
}

// debugConsumer is the replica id of a consumer that reads like a follower without being one.
const debugConsumer = -2

// checkEpoch compares the leader epoch that a client knows (-1: none) with ours.
func checkEpoch(client, ours int32) error {
	switch {
	case client == model.NoEpoch || client == ours:
		return nil
	case client < ours:
		return fmt.Errorf("leader epoch %d is older than the current %d: %w", client, ours, kerr.FencedLeaderEpoch)
	default:
		return fmt.Errorf("leader epoch %d is newer than the current %d: %w", client, ours, kerr.UnknownLeaderEpoch)
	}
}
