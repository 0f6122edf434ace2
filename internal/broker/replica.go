package broker

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"go.uber.org/zap"

	"github.com/kbroker/kbroker/internal/logdir"
	"github.com/kbroker/kbroker/internal/metadata"
	"github.com/kbroker/kbroker/internal/model"
	"github.com/kbroker/kbroker/partition"
)

// replica is this broker's replica of one partition: its log, the role that the cluster image gives it, and the requests
// that wait on it. An idle one owns no goroutine, no timer and no open file.
//
// Locks, in the order in which they may be taken: role, then waits. role is held shared across an append, so that a
// change of role never lands between the check of the leadership and the write; nothing but the log is called under it.
// Waiters are always run without locks.
type replica struct {
	b   *Broker
	tp  model.TopicPartition
	id  model.UUID
	dir *logdir.Dir
	log *partition.Partition
	// openErr, when set, says why there is no log: the replica is offline from its start.
	openErr error

	role struct {
		sync.RWMutex
		leading    bool
		leader     int32 // node id, or model.NoLeader
		epoch      int32 // leader epoch
		partEpoch  int32
		epochStart int64   // log end when this broker became leader of epoch
		inSync     int     // members of the ISR
		replicas   []int32 // the assignment
	}

	waits struct {
		sync.Mutex
		commits waitList[commit]
		flushes waitList[commit]
		reads   waitList[*fetchOp]
	}
}

// currentLeader returns the leader that the cluster image names, model.NoLeader when there is none.
func (r *replica) currentLeader() (id, epoch int32) {
	r.role.RLock()
	defer r.role.RUnlock()
	return r.role.leader, r.role.epoch
}

// checkLeaderEpoch refuses a request whose sender knows another epoch, or that only the leader may answer.
func (r *replica) checkLeaderEpoch(client int32, needLeader bool) error {
	r.role.RLock()
	defer r.role.RUnlock()
	if err := checkEpoch(client, r.role.epoch); err != nil {
		return fmt.Errorf("%s: %w", r.tp, err)
	}
	if needLeader && !r.role.leading {
		return r.notLeaderLocked()
	}
	return nil
}

func (r *replica) notLeaderLocked() error {
	return fmt.Errorf("%s is led by node %d in epoch %d, not by this one: %w", r.tp, r.role.leader, r.role.epoch, kerr.NotLeaderForPartition)
}

// appended is what an append yields: where the records went and the leader epoch in which that holds.
type appended struct {
	partition.AppendResult
	epoch int32
}

// end is the exclusive end of the appended records.
func (a appended) end() int64 { return a.LastOffset + 1 }

// appendAsLeader appends client or coordinator batches. With acks -1 it is refused while too few replicas are in sync.
func (r *replica) appendAsLeader(recs []byte, acks int16, o partition.AppendOptions) (appended, error) {
	return r.append(acks, func(epoch int32) (partition.AppendResult, error) { return r.log.AppendAsLeader(recs, epoch, o) })
}

// appendMarker appends an EndTxn marker, under the rule of acks -1.
func (r *replica) appendMarker(m partition.Marker) (appended, error) {
	return r.append(-1, func(epoch int32) (partition.AppendResult, error) { return r.log.AppendMarker(m, epoch) })
}

func (r *replica) append(acks int16, write func(epoch int32) (partition.AppendResult, error)) (appended, error) {
	r.role.RLock()
	if !r.role.leading {
		defer r.role.RUnlock()
		return appended{}, r.notLeaderLocked()
	}
	if acks == -1 && r.role.inSync < r.minInSyncLocked() {
		defer r.role.RUnlock()
		return appended{}, fmt.Errorf("%s has %d replicas in sync, min.insync.replicas asks for %d: %w",
			r.tp, r.role.inSync, r.minInSyncLocked(), kerr.NotEnoughReplicas)
	}
	res, err := write(r.role.epoch)
	out := appended{res, r.role.epoch}
	r.role.RUnlock()
	if res.Rolled {
		r.b.flusherOf(r).request(r)
	}
	if err != nil {
		r.b.noteLogError(r, err)
		return out, err
	}
	r.advance()
	return out, nil
}

func (r *replica) minInSyncLocked() int {
	return min(int(r.log.Config().MinInsyncReplicas), len(r.role.replicas))
}

// flushDue tells whether flush.messages asks for a sync before what was appended may be acknowledged.
func (r *replica) flushDue() bool {
	limit := r.log.Config().FlushMessages
	return limit != math.MaxInt64 && r.log.LogEndOffset()-r.log.RecoveryPoint() >= limit
}

// localEnd is how far this replica's own copy counts: to the log end, or to what is synced when a sync is due.
func (r *replica) localEnd() int64 {
	if r.flushDue() {
		r.b.flusherOf(r).request(r)
		return r.log.RecoveryPoint()
	}
	return r.log.LogEndOffset()
}

// advance moves the high watermark as far as the in-sync replicas allow and wakes who waited for it. Called after every
// append, flush and follower fetch, with no lock held.
func (r *replica) advance() {
	r.role.RLock()
	leading, inSync, minInSync := r.role.leading, r.role.inSync, r.minInSyncLocked()
	if leading {
		if r.log.SetHighWatermark(r.localEnd()) {
			mark(&r.b.dirty.highWatermarks)
		}
	}
	r.role.RUnlock()
	if !leading {
		return
	}
	hw := r.log.HighWatermark()
	r.waits.Lock()
	reached := r.waits.commits.take(func(c commit) bool { return c.upTo <= hw })
	reads := r.waits.reads.all()
	r.waits.Unlock()
	var err error
	if inSync < minInSync {
		err = fmt.Errorf("%s: the in-sync replicas fell below min.insync.replicas after the append: %w", r.tp, kerr.NotEnoughReplicasAfterAppend)
	}
	finish(reached, err)
	for _, op := range reads {
		op.wake()
	}
}

func finish(cs []commit, err error) {
	for _, c := range cs {
		c.done(err)
	}
}

// flush syncs the log and lets waiters know. Called by the flusher.
func (r *replica) flush() {
	if err := r.log.Flush(); err != nil {
		r.b.noteLogError(r, err)
		r.failWaiters(err)
		return
	}
	mark(&r.b.dirty.logs)
	synced := r.log.RecoveryPoint()
	r.waits.Lock()
	reached := r.waits.flushes.take(func(c commit) bool { return c.upTo <= synced })
	r.waits.Unlock()
	finish(reached, nil)
	r.advance()
}

// onCommitted calls done once: with nil when the high watermark reaches upTo, at once if it has already, with an error
// when this replica stops leading in that epoch first. The expirer gives up the wait; it is nil when done has run.
func (r *replica) onCommitted(epoch int32, upTo int64, done func(error)) expirer {
	return r.await(epoch, &r.waits.commits, commit{upTo, done}, r.log.HighWatermark)
}

// onFlushed is onCommitted for the end of what is synced.
func (r *replica) onFlushed(epoch int32, upTo int64, done func(error)) expirer {
	return r.await(epoch, &r.waits.flushes, commit{upTo, done}, r.log.RecoveryPoint)
}

func (r *replica) await(epoch int32, list *waitList[commit], c commit, reached func() int64) expirer {
	w := &wait[commit]{v: c}
	parked, err := r.park(epoch, list, w, reached)
	if !parked {
		c.done(err)
		return nil
	}
	return func() {
		r.waits.Lock()
		parked := w.parked
		list.remove(w)
		r.waits.Unlock()
		if parked {
			c.done(fmt.Errorf("%s: offset %d was not acknowledged in time: %w", r.tp, c.upTo-1, kerr.RequestTimedOut))
		}
	}
}

// park enters w unless the wait is over before it begins. Both checks are made under the locks that a change takes before
// it looks for waiters, so a change is either seen here or sees w.
func (r *replica) park(epoch int32, list *waitList[commit], w *wait[commit], reached func() int64) (parked bool, err error) {
	r.role.RLock()
	defer r.role.RUnlock()
	if !r.role.leading || r.role.epoch != epoch {
		return false, r.notLeaderLocked()
	}
	r.waits.Lock()
	defer r.waits.Unlock()
	if reached() >= w.v.upTo {
		return false, nil
	}
	list.push(w)
	return true, nil
}

func (r *replica) parkRead(w *wait[*fetchOp]) {
	r.waits.Lock()
	r.waits.reads.push(w)
	r.waits.Unlock()
}

func (r *replica) unparkRead(w *wait[*fetchOp]) {
	r.waits.Lock()
	r.waits.reads.remove(w)
	r.waits.Unlock()
}

// failWaiters answers every parked writer with err and lets the readers look again.
func (r *replica) failWaiters(err error) {
	all := func(commit) bool { return true }
	r.waits.Lock()
	commits, flushes, reads := r.waits.commits.take(all), r.waits.flushes.take(all), r.waits.reads.all()
	r.waits.Unlock()
	finish(commits, err)
	finish(flushes, err)
	for _, op := range reads {
		op.wake()
	}
}

// setRole applies what the cluster image says of this partition. It reports whether leadership began or ended here or
// went on in a new epoch.
func (r *replica) setRole(self int32, p *metadata.Partition) (changed bool) {
	r.role.Lock()
	leading := p.Leader == self
	changed = leading != r.role.leading || leading && p.LeaderEpoch != r.role.epoch
	if leading && changed && r.log != nil {
		r.role.epochStart = r.log.LogEndOffset()
		if err := r.log.BecomeLeader(p.LeaderEpoch); err != nil {
			r.b.noteLogError(r, err)
		}
	}
	r.role.leading, r.role.leader, r.role.epoch, r.role.partEpoch = leading, p.Leader, p.LeaderEpoch, p.PartitionEpoch
	r.role.inSync, r.role.replicas = len(p.ISR), p.Replicas
	err := r.notLeaderLocked()
	r.role.Unlock()
	if changed && !leading {
		r.failWaiters(err)
	}
	if r.log != nil {
		r.advance()
	}
	return changed
}

// highWatermarkReachedEpoch tells whether a leader's high watermark has passed the start of its epoch.
func (r *replica) highWatermarkReachedEpoch() bool {
	r.role.RLock()
	defer r.role.RUnlock()
	return r.log.HighWatermark() >= r.role.epochStart
}

// retire ends the replica's part in the cluster: nothing is led any more and nobody waits.
func (r *replica) retire() {
	r.role.Lock()
	r.role.leading, r.role.leader = false, model.NoLeader
	err := r.notLeaderLocked()
	r.role.Unlock()
	r.failWaiters(err)
}

// checkFollower refuses a fetch by a replica that is not part of the assignment: its position means nothing here.
func (r *replica) checkFollower(id int32) error {
	r.role.RLock()
	defer r.role.RUnlock()
	if slices.Contains(r.role.replicas, id) {
		return nil
	}
	return fmt.Errorf("%s: node %d is none of its replicas %v: %w", r.tp, id, r.role.replicas, kerr.NotLeaderForPartition)
}

// noteLogError logs what an operator must know: a log that can no longer be written or read.
func (b *Broker) noteLogError(r *replica, err error) {
	if !errors.Is(err, kerr.KafkaStorageError) {
		return
	}
	b.log.Error("partition is offline on this broker; the others go on",
		zap.String("partition", r.tp.String()), zap.String("dir", r.dir.Path()), zap.Error(err))
}
