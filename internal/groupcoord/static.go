package groupcoord

import (
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/kbroker/kbroker/internal/coordrt"
)

// joinStatic handles the join of a static member that does not know its id: a new one, or one that was restarted.
func (s *Shard) joinStatic(j *join, g *group) coordrt.Result {
	id := s.o.NewMemberID(*j.req.InstanceID)
	old := g.byID[g.static[*j.req.InstanceID]]
	if old == nil {
		return s.addMember(j, g, id)
	}
	return s.replace(j, g, old, id)
}

// rename gives a static member another id and fences whoever uses the old one.
func (s *Shard) rename(now time.Time, g *group, m *member, id string) {
	g.answerJoin(m, joinError(kerr.FencedInstanceID, m.id))
	m.answerSync(syncError(kerr.FencedInstanceID))
	if g.leader == m.id {
		g.leader = id
	}
	delete(g.byID, m.id)
	m.id = id
	g.byID[id] = m
	g.static[*m.instance] = id
	g.clearToSync(m)
	s.touch(now, m)
}

// replace puts a restarted static member in the place of its former self. As long as that changes nothing for the others,
// they are not disturbed.
func (s *Shard) replace(j *join, g *group, m *member, id string) coordrt.Result {
	before := *m
	leader := g.leader // as it was: clients before v9 are not told that they lead, or they would assign
	s.rename(j.now, g, m, id)
	g.update(j, m)
	switch g.state {
	case Stable:
		if g.protocol == nil || g.vote() != *g.protocol {
			return s.prepareRebalance(j.now, g, j.reason("static member "+*m.instance+" has changed the protocol"))
		}
		return s.persist(g, (*member).assigned, s.replaced(j, g, m, &before, leader))
	case CompletingRebalance:
		// The leader may be assigning to the old id.
		return s.prepareRebalance(j.now, g, j.reason("static member "+*m.instance+" was restarted"))
	case PreparingRebalance, Empty:
	}
	return s.maybeComplete(j.now, g)
}

func (m *member) assigned() []byte { return m.assignment }

// replaced answers a restarted static member once its new id is in the log.
func (s *Shard) replaced(j *join, g *group, m *member, before *member, leader string) func(time.Time, error) coordrt.Result {
	id := m.id
	return func(now time.Time, err error) coordrt.Result {
		if g.byID[id] != m {
			return soft() // replaced or removed in the meantime, and told so
		}
		if err != nil {
			s.o.Logger.Warn("a static member's new id could not be written, the old one stays", zap.String("group", g.id),
				zap.String("instance", *m.instance), zap.Error(err))
			s.restore(now, g, m, before, leader, coordrt.ErrorOf(err))
			return soft()
		}
		r := g.joined(m)
		if j.req.Version >= joinSkipAssignment {
			r.SkipAssignment = g.leader == id
		} else {
			r.LeaderID, r.Members = leader, nil
		}
		g.answerJoin(m, r)
		return soft()
	}
}

// restore brings back what a static member was before it was replaced.
func (s *Shard) restore(now time.Time, g *group, m *member, before *member, leader string, err *kerr.Error) {
	r := joinError(err, "")
	protocolType := strings.Clone(g.protocolType)
	r.Generation, r.ProtocolType, r.Protocol, r.LeaderID = g.generation, &protocolType, g.protocol, leader
	g.answerJoin(m, r)
	g.count(m, -1)
	m.protocols, m.rebalanceMs, m.sessionMs = before.protocols, before.rebalanceMs, before.sessionMs
	g.count(m, 1)
	s.rename(now, g, m, before.id)
}

// Leave handles a LeaveGroup request: every member in it is removed, or has an error. The answer is in the form of version
// 3 and later.
func (s *Shard) Leave(now time.Time, req *kmsg.LeaveGroupRequest) (coordrt.Result, *kmsg.LeaveGroupResponse) {
	resp := kmsg.NewPtrLeaveGroupResponse()
	g := s.groups[req.Group]
	var left []string
	for _, l := range req.Members {
		err := kerr.UnknownMemberID
		if g != nil {
			err = s.leave(g, l.MemberID, l.InstanceID)
		}
		rm := kmsg.LeaveGroupResponseMember{MemberID: l.MemberID, InstanceID: l.InstanceID}
		if err != nil {
			rm.ErrorCode = err.Code
		} else {
			left = append(left, l.MemberID)
		}
		resp.Members = append(resp.Members, rm)
	}
	if len(left) == 0 || g.state == Empty {
		return soft(), resp
	}
	return s.rebalanceOrComplete(now, g, "members left: "+strings.Join(left, ", ")), resp
}

// leave removes one member. An administrator may name a static one by its instance id alone.
func (s *Shard) leave(g *group, memberID string, instance *string) *kerr.Error {
	if memberID == "" && instance != nil && g.static[*instance] != "" {
		memberID = g.static[*instance]
	}
	if g.pending[memberID] != nil {
		s.dropPending(g, memberID)
		return nil
	}
	if err := g.check(memberID, instance); err != nil {
		return err
	}
	s.removeMember(g, g.byID[memberID])
	return nil
}
