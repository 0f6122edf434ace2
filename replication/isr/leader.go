package isr

import (
	"fmt"
	"iter"
	"math"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

// UnknownBrokerEpoch is the broker epoch of a fetch that carries none (versions before 15).
const UnknownBrokerEpoch int64 = -1

// Broker is what the cluster image says of a broker.
type Broker struct {
	Epoch int64
	// Alive means registered and not fenced.
	Alive        bool
	ShuttingDown bool
}

// Cluster answers for the brokers of the cluster, from the newest image that the owner has. It is called with whatever
// locks the owner holds, on every advance of the high watermark: it must be fast and must not call back.
type Cluster interface {
	Broker(id int32) Broker
}

// Options are what all partitions led by a broker share.
type Options struct {
	// Self is this broker, the leader. SelfEpoch returns its broker epoch, for proposals.
	Self      int32
	SelfEpoch func() int64
	Cluster   Cluster
	// Lag is replica.lag.time.max.ms.
	Lag time.Duration
	// Base is a moment before all others, such as the start of the process: times are kept as distances from it.
	Base time.Time
}

// Replica is a member of the assignment.
type Replica struct {
	ID int32
	// Incarnation is the number that the controller gave this copy (R9).
	Incarnation int64
}

// Assignment is what the cluster image says of the partition.
type Assignment struct {
	LeaderEpoch, PartitionEpoch int32
	// Replicas is the whole assignment, those being added and removed and the leader included.
	Replicas []Replica
	// ISR includes the leader.
	ISR []int32
}

// never stands for a time before all others.
const never = math.MinInt64

// follower is one remote replica. Times are nanoseconds since Options.Base, so that a step of the wall clock does not
// make everybody late.
type follower struct {
	id                int32
	inSync            bool // in the committed ISR
	proposed          bool // in the ISR of the pending proposal, if there is one
	heard             bool // brokerEpoch is known
	incarnation       int64
	brokerEpoch       int64
	logStart, logEnd  int64 // -1 until it fetches
	leaderEnd         int64 // the leader's log end at its last fetch
	fetched, caughtUp int64
}

// Leader is the bookkeeping of one partition led by this broker, from the time it becomes leader until it no longer is.
// It is not safe for concurrent use.
type Leader struct {
	o                *Options
	epoch, partEpoch int32
	start            int64   // log end when the epoch began
	isr              []int32 // committed, in the controller's order
	replicas         int32
	minConfigured    int32
	followers        []follower
	pending          *Proposal
	proposals        uint64
	// uncertain is set when the pending proposal was sent again: an earlier copy may still be taken.
	uncertain bool
}

// New returns the bookkeeping of a broker that has just become leader with the given log end. MinInSync is the topic's
// min.insync.replicas.
func New(o *Options, minInSync int32, a Assignment, logEnd int64, now time.Time) *Leader {
	l := &Leader{o: o, minConfigured: minInSync}
	l.assign(a)
	l.begin(a, logEnd, now)
	return l
}

// Update applies newer metadata that still names this broker as leader. Older metadata changes nothing and is reported as
// not applied. LogEnd matters when the leader epoch is new.
func (l *Leader) Update(a Assignment, logEnd int64, now time.Time) bool {
	if a.LeaderEpoch < l.epoch || a.PartitionEpoch < l.partEpoch {
		return false
	}
	newEpoch, newer := a.LeaderEpoch > l.epoch, a.PartitionEpoch > l.partEpoch
	if newEpoch || newer {
		l.pending = nil
	}
	l.assign(a)
	if newEpoch {
		l.begin(a, logEnd, now)
	}
	return true
}

// assign takes over replicas and ISR, keeping what is known of replicas that stay (R9). A pending proposal survives only
// while it is about replicas that there are (R8).
func (l *Leader) assign(a Assignment) {
	old := l.followers
	l.followers = make([]follower, 0, max(0, len(a.Replicas)-1))
	for _, r := range a.Replicas {
		if r.ID == l.o.Self {
			continue
		}
		f := follower{id: r.ID, incarnation: r.Incarnation, logStart: -1, logEnd: -1, leaderEnd: -1, fetched: never, caughtUp: never}
		for i := range old {
			if old[i].id == r.ID && old[i].incarnation == r.Incarnation {
				f = old[i]
			}
		}
		l.followers = append(l.followers, f)
	}
	l.replicas, l.partEpoch = int32(len(a.Replicas)), a.PartitionEpoch
	l.setISR(a.ISR)
	if l.pending != nil {
		for _, m := range l.pending.ISR {
			if m.Broker != l.o.Self && l.find(m.Broker) == nil {
				l.pending = nil
				return
			}
		}
	}
}

func (l *Leader) setISR(isr []int32) {
	l.isr = slices.Clone(isr)
	for i := range l.followers {
		l.followers[i].inSync = slices.Contains(isr, l.followers[i].id)
	}
}

// begin starts a leader epoch (R10). Where the followers were stays as a guess for a broker that led before.
func (l *Leader) begin(a Assignment, logEnd int64, now time.Time) {
	l.epoch, l.start = a.LeaderEpoch, logEnd
	for i := range l.followers {
		f := &l.followers[i]
		f.caughtUp, f.fetched = never, never
		if f.inSync {
			f.caughtUp = l.at(now)
		}
	}
}

func (l *Leader) at(now time.Time) int64 { return int64(now.Sub(l.o.Base)) }

func (l *Leader) find(id int32) *follower {
	for i := range l.followers {
		if l.followers[i].id == id {
			return &l.followers[i]
		}
	}
	return nil
}

// Fetch is a follower's request for the records from Offset on, which tells that it holds all before. It must have passed
// the check of the current leader epoch, and not be one that was answered with a diverging epoch.
type Fetch struct {
	Replica     int32
	Incarnation int64
	// BrokerEpoch is UnknownBrokerEpoch when the request carries none.
	BrokerEpoch      int64
	Offset, LogStart int64
	// KnowsEpoch is set when the request carried the current leader epoch.
	KnowsEpoch bool
}

// Fetched notes where a follower is. LogEnd is the leader's log end when the request was read. A proposal is returned when
// the follower may join the ISR (R5). An error is for the follower: it should learn the newest metadata.
func (l *Leader) Fetched(r Fetch, logEnd, highWatermark int64, now time.Time) (*Proposal, error) {
	f := l.find(r.Replica)
	if f == nil || r.Incarnation > f.incarnation {
		return nil, l.unknown(r)
	}
	if r.Incarnation < f.incarnation {
		return nil, fmt.Errorf("replica incarnation %d of broker %d is outdated, it is %d now: %w",
			r.Incarnation, r.Replica, f.incarnation, kerr.NotLeaderForPartition)
	}
	if b := l.o.Cluster.Broker(r.Replica); r.BrokerEpoch != UnknownBrokerEpoch && b.Alive && b.Epoch > r.BrokerEpoch {
		return nil, fmt.Errorf("broker epoch %d of broker %d is outdated, it is %d now: %w",
			r.BrokerEpoch, r.Replica, b.Epoch, kerr.NotLeaderForPartition)
	}
	at := l.at(now)
	switch { // R4
	case r.Offset >= logEnd:
		f.caughtUp = max(f.caughtUp, at)
	case r.Offset >= f.leaderEnd:
		f.caughtUp = max(f.caughtUp, f.fetched)
	}
	f.logStart, f.logEnd, f.leaderEnd, f.fetched = r.LogStart, r.Offset, max(f.leaderEnd, logEnd), at
	f.brokerEpoch, f.heard = r.BrokerEpoch, true
	if l.pending != nil || f.inSync || !l.eligible(f) || f.logEnd < highWatermark || f.logEnd < l.start {
		return nil, nil
	}
	return l.propose(append(slices.Clone(l.isr), f.id)), nil
}

// unknown answers a follower that this leader's metadata does not have: whoever is behind will catch up.
func (l *Leader) unknown(r Fetch) error {
	cause := kerr.NotLeaderForPartition
	if r.KnowsEpoch {
		cause = kerr.UnknownLeaderEpoch
	}
	return fmt.Errorf("broker %d with replica incarnation %d is not a replica that this leader knows of: %w",
		r.Replica, r.Incarnation, cause)
}

// eligible tells whether a replica may be in the ISR as far as its broker is concerned (R5).
func (l *Leader) eligible(f *follower) bool {
	b := l.o.Cluster.Broker(f.id)
	return b.Alive && !b.ShuttingDown && f.heard && (f.brokerEpoch == UnknownBrokerEpoch || f.brokerEpoch == b.Epoch)
}

func (l *Leader) caughtUp(f *follower, logEnd, at int64) bool {
	return f.logEnd == logEnd || f.caughtUp != never && at-f.caughtUp <= int64(l.o.Lag)
}

// Tick looks for members of the ISR that have fallen behind and returns the proposal to leave them out (R6). It is called
// every half of Options.Lag.
func (l *Leader) Tick(logEnd int64, now time.Time) *Proposal {
	if l.pending != nil {
		return nil
	}
	var late []int32
	for i := range l.followers {
		if f := &l.followers[i]; f.inSync && !l.caughtUp(f, logEnd, l.at(now)) {
			late = append(late, f.id)
		}
	}
	if late == nil {
		return nil
	}
	return l.propose(slices.DeleteFunc(slices.Clone(l.isr), func(id int32) bool { return slices.Contains(late, id) }))
}

// Limit says why the high watermark cannot be higher than it is.
type Limit int

// The limits.
const (
	LogEnd    Limit = iota // everything in the leader's log is replicated
	InSync                 // a member of the maximal ISR (R1)
	Joining                // a replica that is about to join (R2)
	MinInSync              // too few replicas in sync (R3)
)

// String returns a word for metrics and status pages.
func (l Limit) String() string {
	return [...]string{"log end", "in-sync replica", "joining replica", "min.insync.replicas"}[l]
}

// Bound is how far the high watermark may go, and who holds it there.
type Bound struct {
	// Offset is exclusive; for MinInSync it is 0, for nothing may move.
	Offset int64
	Why    Limit
	// Replica is the leader itself for LogEnd and MinInSync.
	Replica int32
}

// Bound computes the limit of the high watermark for the leader's log end. It does not allocate.
func (l *Leader) Bound(logEnd int64, now time.Time) Bound {
	b := Bound{logEnd, LogEnd, l.o.Self}
	if l.BelowMin() {
		return Bound{0, MinInSync, l.o.Self}
	}
	at := l.at(now)
	for i := range l.followers {
		f := &l.followers[i]
		switch {
		case f.logEnd >= b.Offset:
		case f.inSync || l.pending != nil && f.proposed:
			b = Bound{f.logEnd, InSync, f.id}
		case l.caughtUp(f, logEnd, at) && l.eligible(f):
			b = Bound{f.logEnd, Joining, f.id}
		}
	}
	return b
}

// Advance returns the new high watermark, highWatermark itself when it cannot move (R3). Call it after every event and
// every append. A partition with one replica takes a short way, and none allocates.
func (l *Leader) Advance(logEnd, highWatermark int64, now time.Time) int64 {
	if len(l.followers) == 0 {
		return max(highWatermark, logEnd)
	}
	return max(highWatermark, l.Bound(logEnd, now).Offset)
}

// SetMinInSync changes min.insync.replicas.
func (l *Leader) SetMinInSync(n int32) { l.minConfigured = n }

func (l *Leader) minInSync() int { return int(min(l.minConfigured, l.replicas)) }

// BelowMin tells whether the committed ISR is too small: a write with acks=all is then refused before it is appended
// (NOT_ENOUGH_REPLICAS) and the high watermark stands still.
func (l *Leader) BelowMin() bool { return len(l.isr) < l.minInSync() }

// BelowMinAfter tells the same of the maximal ISR, which counts for a write that the high watermark has reached: when it is
// true the write is in the log but fewer replicas than asked for vouch for it (NOT_ENOUGH_REPLICAS_AFTER_APPEND).
func (l *Leader) BelowMinAfter() bool {
	n := len(l.isr)
	if l.pending != nil {
		for i := range l.followers {
			if f := &l.followers[i]; f.proposed && !f.inSync {
				n++
			}
		}
	}
	return n < l.minInSync()
}

// LowWatermark returns the lowest log start of the leader (given) and of the replicas whose brokers are alive; -1 while
// one of those has not fetched yet. DeleteRecords waits for it.
func (l *Leader) LowWatermark(logStart int64) int64 {
	for i := range l.followers {
		if f := &l.followers[i]; f.logStart < logStart && l.o.Cluster.Broker(f.id).Alive {
			logStart = f.logStart
		}
	}
	return logStart
}

// EpochStart returns the leader's log end when its epoch began.
func (l *Leader) EpochStart() int64 { return l.start }

// Epochs returns the leader epoch and the partition epoch.
func (l *Leader) Epochs() (leader, partition int32) { return l.epoch, l.partEpoch }

// ISR returns the committed in-sync replicas in the controller's order. The caller must not change it.
func (l *Leader) ISR() []int32 { return l.isr }

// Follower describes a remote replica.
type Follower struct {
	ID     int32
	InSync bool
	// LogStart and LogEnd are -1 until it has fetched in this leadership.
	LogStart, LogEnd int64
	// Behind is how long ago it was known to be caught up; negative when that is not known.
	Behind time.Duration
}

// Followers iterates over the remote replicas in the order of the assignment.
func (l *Leader) Followers(now time.Time) iter.Seq[Follower] {
	return func(yield func(Follower) bool) {
		for i := range l.followers {
			f := &l.followers[i]
			behind := time.Duration(-1)
			if f.caughtUp != never {
				behind = time.Duration(l.at(now) - f.caughtUp)
			}
			if !yield(Follower{f.id, f.inSync, f.logStart, f.logEnd, behind}) {
				return
			}
		}
	}
}

// FollowerHighWatermark is a follower's own high watermark after a fetch: the leader's, as far as its log goes.
func FollowerHighWatermark(leaders, logEnd int64) int64 { return min(leaders, logEnd) }
