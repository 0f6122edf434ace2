package groupcoord

import (
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/kbroker/kbroker/internal/coordrt"
)

// rebalanceOrComplete begins a rebalance, or ends the joining of the one under way when everybody is there.
func (s *Shard) rebalanceOrComplete(now time.Time, g *group, reason string) coordrt.Result {
	if g.state == PreparingRebalance {
		return s.maybeComplete(now, g)
	}
	return s.prepareRebalance(now, g, reason)
}

// maybeComplete ends the joining when everybody is there. The first rebalance of a group always takes its delay.
func (s *Shard) maybeComplete(now time.Time, g *group) coordrt.Result {
	if g.state != PreparingRebalance || g.previous == Empty || !g.allJoined() {
		return soft()
	}
	return s.completeJoin(now, g)
}

// prepareRebalance asks all members to join anew.
func (s *Shard) prepareRebalance(now time.Time, g *group, reason string) coordrt.Result {
	if g.state == CompletingRebalance {
		s.resetAssignments(now, g, kerr.RebalanceInProgress)
	}
	for _, m := range g.members {
		g.clearToSync(m)
	}
	s.timers.Cancel(&g.syncTimer)
	s.o.Logger.Info("group rebalances", zap.String("group", g.id), zap.Stringer("state", g.state),
		zap.Int32("generation", g.generation), zap.Int("members", len(g.members)), zap.String("reason", reason))
	first := g.state == Empty
	s.setState(now, g, PreparingRebalance)
	if first {
		// The group is new: give others the time to come before anybody is assigned everything.
		delay := s.o.Groups.InitialRebalanceDelay
		s.delayJoin(now, g, delay, max(ms(g.rebalanceMs())-delay, 0))
		return soft()
	}
	if g.allJoined() {
		return s.completeJoin(now, g)
	}
	s.awaitJoins(now, g)
	return soft()
}

// awaitJoins ends the joining when the slowest member has had its time.
func (s *Shard) awaitJoins(now time.Time, g *group) {
	g.joinTimer.Fire = func(now time.Time) coordrt.Result { return s.completeJoin(now, g) }
	s.timers.Set(&g.joinTimer, now.Add(ms(g.rebalanceMs())))
}

// delayJoin ends the first joining after delay, but is prolonged, by remaining at most, as long as new members come.
func (s *Shard) delayJoin(now time.Time, g *group, delay, remaining time.Duration) {
	g.joinTimer.Fire = func(now time.Time) coordrt.Result {
		if !g.grown || remaining == 0 {
			return s.completeJoin(now, g)
		}
		g.grown = false
		s.delayJoin(now, g, min(s.o.Groups.InitialRebalanceDelay, remaining), max(remaining-delay, 0))
		return soft()
	}
	s.timers.Set(&g.joinTimer, now.Add(delay))
}

// completeJoin ends the joining: who has not come is out, static members excepted, and the next generation begins.
func (s *Shard) completeJoin(now time.Time, g *group) coordrt.Result {
	s.timers.Cancel(&g.joinTimer)
	for _, m := range slices.Clone(g.members) {
		if m.join == nil && m.instance == nil {
			s.removeMember(g, m)
		}
	}
	if len(g.members) > 0 && !g.electJoined() {
		// Only static members are left and none of them has come. Their sessions decide.
		s.awaitJoins(now, g)
		return soft()
	}
	g.generation++
	g.grown = false
	if len(g.members) == 0 {
		g.protocol = nil
		g.subscribed = g.subscriptions()
		s.setState(now, g, Empty)
		s.o.Logger.Info("group is empty", zap.String("group", g.id), zap.Int32("generation", g.generation))
		return s.persist(g, nil, s.logFailure(g))
	}
	name := g.vote()
	g.protocol = &name
	g.subscribed = g.subscriptions()
	s.setState(now, g, CompletingRebalance)
	s.welcome(now, g)
	return soft()
}

// electJoined makes sure that the leader is somebody who has joined; false when nobody has.
func (g *group) electJoined() bool {
	if l := g.byID[g.leader]; l != nil && l.join != nil {
		return true
	}
	for _, m := range g.members {
		if m.join != nil {
			g.leader = m.id
			return true
		}
	}
	return false
}

// welcome answers all joins of a new generation and waits for the members to ask for their assignments.
func (s *Shard) welcome(now time.Time, g *group) {
	for _, m := range g.members {
		g.answerJoin(m, g.joined(m))
		s.touch(now, m)
		m.isNew, m.toSync = false, true
	}
	g.toSync = len(g.members)
	generation := g.generation
	g.syncTimer.Fire = func(now time.Time) coordrt.Result { return s.syncExpired(now, g, generation) }
	s.timers.Set(&g.syncTimer, now.Add(ms(g.rebalanceMs())))
	s.o.Logger.Info("group has a new generation", zap.String("group", g.id), zap.Int32("generation", g.generation),
		zap.Int("members", len(g.members)), zap.String("protocol", *g.protocol))
}

// joined is the answer to a member of the current generation. The leader is told who the others are.
func (g *group) joined(m *member) *kmsg.JoinGroupResponse {
	r := kmsg.NewPtrJoinGroupResponse()
	protocolType := g.protocolType
	r.Generation, r.ProtocolType, r.Protocol = g.generation, &protocolType, g.protocol
	r.LeaderID, r.MemberID = g.leader, m.id
	if m.id == g.leader {
		r.Members = g.roster()
	}
	return r
}

func (g *group) roster() []kmsg.JoinGroupResponseMember {
	out := make([]kmsg.JoinGroupResponseMember, 0, len(g.members))
	for _, m := range g.members {
		out = append(out, kmsg.JoinGroupResponseMember{MemberID: m.id, InstanceID: m.instance, ProtocolMetadata: m.metadata(*g.protocol)})
	}
	return out
}

// persist writes the group, with the given assignments, and goes on with then. The record describes the state that is
// there already, or that then brings about.
func (s *Shard) persist(g *group, assignment func(*member) []byte, then func(time.Time, error) coordrt.Result) coordrt.Result {
	return coordrt.Result{Records: []coordrt.Record{g.record(assignment)}, Applied: true, Then: then}
}

// logFailure is for records whose loss only means that a coordinator that loads them finds an older generation, whose
// members it will not hear of.
func (s *Shard) logFailure(g *group) func(time.Time, error) coordrt.Result {
	return func(_ time.Time, err error) coordrt.Result {
		if err != nil {
			s.o.Logger.Warn("an empty group could not be written", zap.String("group", g.id), zap.Error(err))
		}
		return soft()
	}
}

// removeMember takes a member out without looking at what that means for the group.
func (s *Shard) removeMember(g *group, m *member) {
	s.timers.Cancel(&m.session)
	g.remove(m)
}

// sessionExpired removes a member that was not heard of in time.
func (s *Shard) sessionExpired(now time.Time, g *group, m *member) coordrt.Result {
	if m.waiting() {
		return soft() // it waits for us; the answer begins a new session
	}
	s.o.Logger.Info("group member is gone", zap.String("group", g.id), zap.String("member", m.id))
	s.removeMember(g, m)
	switch g.state {
	case Stable, CompletingRebalance:
		return s.prepareRebalance(now, g, "member "+m.id+" was not heard of")
	case PreparingRebalance:
		if g.allJoined() {
			return s.completeJoin(now, g)
		}
	case Empty:
	}
	return soft()
}

// pendingExpired forgets a member id that was not used in time.
func (s *Shard) pendingExpired(now time.Time, g *group, memberID string) coordrt.Result {
	delete(g.pending, memberID)
	if g.state == PreparingRebalance && g.allJoined() {
		return s.completeJoin(now, g)
	}
	return soft()
}

// syncExpired removes the members that joined a generation and never asked for their assignment.
func (s *Shard) syncExpired(now time.Time, g *group, generation int32) coordrt.Result {
	if generation != g.generation || g.toSync == 0 || g.state != CompletingRebalance && g.state != Stable {
		return soft()
	}
	for _, m := range slices.Clone(g.members) {
		if m.toSync {
			s.removeMember(g, m)
		}
	}
	return s.prepareRebalance(now, g, "members did not ask for their assignment")
}

// synced notes that a member has asked for its assignment.
func (s *Shard) synced(g *group, m *member) {
	if g.clearToSync(m); g.toSync == 0 {
		s.timers.Cancel(&g.syncTimer)
	}
}

// resetAssignments tells everybody who waits for an assignment that none comes.
func (s *Shard) resetAssignments(now time.Time, g *group, err *kerr.Error) {
	for _, m := range g.members {
		m.assignment = nil
		if m.answerSync(syncError(err)) {
			s.touch(now, m)
		}
	}
}
