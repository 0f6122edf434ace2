package groupcoord

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"go.uber.org/zap"

	"github.com/kbroker/kbroker/config"
	"github.com/kbroker/kbroker/internal/coordrt"
)

const (
	// newMemberTimeout is how long a member that joins for the first time is waited for: it can neither send heartbeats
	// nor be told that its connection is gone. Kafka's constant.
	newMemberTimeout = 5 * time.Minute
	// maxPendingMembers bounds the member ids of one group that were handed out and not used. They time out with the
	// session; a group of this size could not be written as one record either.
	maxPendingMembers = 100_000
	// maxGroups bounds the groups of one partition: at a few hundred bytes each, some hundreds of megabytes.
	maxGroups = 1_000_000
	// maxExpired bounds the tombstones of one round of expiry; the next round then comes at once, after others had their
	// turn.
	maxExpired = 10_000
)

// ShardOptions configures the state of one partition.
type ShardOptions struct {
	Groups  config.Groups
	Offsets config.Offsets
	// NewMemberID makes a member id that begins with the given text and is unique.
	NewMemberID func(prefix string) string
	Logger      *zap.Logger
	// Stats is where the shard counts.
	Stats *ShardStats
}

// Shard is the state of one partition of the offsets topic: its groups and their offsets. Pure: the clock is an argument,
// and nothing blocks. It implements coordrt.Shard, and its operations are to be run by a coordrt.Runtime or by somebody
// who does the same: append what they return, then replay it. Not safe for concurrent use.
type Shard struct {
	o      ShardOptions
	timers *coordrt.Timers
	groups map[string]*group
	// txns are the offsets of open transactions by producer id (G4).
	txns   map[int64]map[offsetKey]commit
	expiry coordrt.Timer
}

var _ coordrt.Shard = (*Shard)(nil)

// NewShard returns the state of an empty partition.
func NewShard(o ShardOptions, timers *coordrt.Timers) *Shard {
	s := &Shard{o: o, timers: timers, groups: map[string]*group{}, txns: map[int64]map[offsetKey]commit{}}
	s.expiry.Fire = s.expire
	return s
}

// soft is the result of an operation that writes nothing and whose answer tells nothing of what others have written.
func soft() coordrt.Result { return coordrt.Result{Soft: true} }

// setState moves a group to a state. Kafka keeps the time of the last move, from which offsets of an empty group expire.
func (s *Shard) setState(now time.Time, g *group, to State) {
	s.o.Stats.moved(g.state, to)
	g.previous, g.state, g.sinceMs = g.state, to, now.UnixMilli()
}

func (s *Shard) addGroup(g *group) {
	s.groups[g.id] = g
	s.o.Stats.added(g.state, 1)
	g.joinTimer.Fire = func(now time.Time) coordrt.Result { return s.completeJoin(now, g) }
	for _, m := range g.members {
		s.arm(g, m)
	}
}

// arm prepares the member's session timer; touch sets it.
func (s *Shard) arm(g *group, m *member) {
	m.session.Fire = func(now time.Time) coordrt.Result { return s.sessionExpired(now, g, m) }
}

func (s *Shard) touch(now time.Time, m *member) {
	s.timers.Set(&m.session, now.Add(ms(m.sessionMs)))
}

func ms(n int32) time.Duration { return time.Duration(max(n, 0)) * time.Millisecond }

// dropGroup forgets a group; its offsets are gone already. What its timers and parked requests wait for will not come.
func (s *Shard) dropGroup(g *group, err *kerr.Error) {
	delete(s.groups, g.id)
	s.o.Stats.added(g.state, -1)
	s.timers.Cancel(&g.joinTimer)
	s.timers.Cancel(&g.syncTimer)
	for id := range g.pending {
		s.dropPending(g, id)
	}
	for _, m := range g.members {
		s.timers.Cancel(&m.session)
		g.answerJoin(m, joinError(err, ""))
		m.answerSync(syncError(err))
	}
}

func (s *Shard) dropPending(g *group, memberID string) {
	if t := g.pending[memberID]; t != nil {
		s.timers.Cancel(t)
		delete(g.pending, memberID)
	}
}

// Loaded implements coordrt.Shard: members get a full session to be heard of.
func (s *Shard) Loaded(now time.Time) coordrt.Result {
	for _, g := range s.groups {
		for _, m := range g.members {
			s.touch(now, m)
		}
		if len(g.members) > int(s.o.Groups.MaxSize) {
			// The limit was lowered. Nobody has joined yet, so this only opens the rebalance and cannot yield records.
			s.prepareRebalance(now, g, "more members than group.max.size allows")
		}
	}
	s.timers.Set(&s.expiry, now.Add(s.o.Offsets.CheckInterval))
	return soft()
}

// Unloaded implements coordrt.Shard (G2).
func (s *Shard) Unloaded() {
	for _, g := range s.groups {
		for _, m := range g.members {
			g.answerJoin(m, joinError(kerr.NotCoordinator, m.id))
			m.answerSync(syncError(kerr.NotCoordinator))
		}
		s.o.Stats.added(g.state, -1)
		s.o.Stats.offsets.Add(int64(-g.noffsets))
	}
	s.o.Stats.pending.Add(int64(-s.pendingOffsets()))
	s.groups, s.txns = nil, nil
}

func (s *Shard) pendingOffsets() int {
	n := 0
	for _, t := range s.txns {
		n += len(t)
	}
	return n
}

// Replay implements coordrt.Shard.
func (s *Shard) Replay(at coordrt.Position, r coordrt.Record) error {
	if len(r.Key) < 2 {
		return nil // nobody who writes groups writes that (G6)
	}
	switch kind := int16(binary.BigEndian.Uint16(r.Key)); kind {
	case typeLegacyOffset, typeOffset:
		return s.replayOffset(at, r)
	case typeGroupMetadata:
		return s.replayGroup(r)
	default:
		s.o.Stats.unknownRecords.Add(1)
		return nil
	}
}

func (s *Shard) replayOffset(at coordrt.Position, r coordrt.Record) error {
	k, err := decodeOffsetKey(r.Key)
	if err != nil {
		return err
	}
	if r.Value == nil {
		s.removeOffset(k)
		return nil
	}
	c, err := decodeCommit(r.Value, at.Offset)
	if err != nil {
		return fmt.Errorf("group %q, %s-%d: %w", k.group, k.topic, k.partition, err)
	}
	g := s.groups[k.group]
	if g == nil {
		g = newGroup(k.group, noStateTimestamp)
		s.addGroup(g)
	}
	if at.Transactional {
		s.addPending(g, at.ProducerID, k, c)
		return nil
	}
	s.o.Stats.offsets.Add(int64(g.setOffset(k.topic, k.partition, c)))
	return nil
}

func (s *Shard) replayGroup(r coordrt.Record) error {
	id, err := decodeGroupKey(r.Key)
	if err != nil {
		return err
	}
	old := s.groups[id]
	if r.Value == nil {
		if old != nil {
			s.buryGroup(old)
		}
		return nil
	}
	g, err := decodeGroup(id, r.Value)
	if err != nil {
		return err
	}
	if old != nil {
		g.offsets, g.noffsets, g.unstable = old.offsets, old.noffsets, old.unstable
		s.dropGroup(old, kerr.UnknownMemberID)
	}
	s.addGroup(g)
	return nil
}

// buryGroup applies the deletion of a group. Offsets that are still there, which only a log that others wrote can show,
// become those of a simple group, so that they can expire.
func (s *Shard) buryGroup(g *group) {
	s.dropGroup(g, kerr.UnknownMemberID)
	if g.noffsets > 0 || len(g.unstable) > 0 {
		heir := newGroup(g.id, noStateTimestamp)
		heir.offsets, heir.noffsets, heir.unstable = g.offsets, g.noffsets, g.unstable
		s.addGroup(heir)
	}
}
