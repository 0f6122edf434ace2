package groupcoord

import (
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/internal/coordrt"
)

// Sync handles a SyncGroup request. reply is called exactly once (G2): at once, or when the leader's assignment is
// committed (G3), or when it will not be. The shard keeps parts of the request.
func (s *Shard) Sync(now time.Time, req *kmsg.SyncGroupRequest, reply func(*kmsg.SyncGroupResponse)) coordrt.Result {
	g := s.groups[req.Group]
	if err := checkSync(g, req); err != nil {
		reply(syncError(err))
		return soft()
	}
	m := g.byID[req.MemberID]
	s.synced(g, m)
	if g.state == Stable {
		reply(g.assignmentOf(m))
		return soft()
	}
	m.answerSync(syncError(kerr.RebalanceInProgress)) // of an earlier request, whose sender has given up
	m.sync = reply
	if m.id != g.leader {
		return soft()
	}
	return s.assign(g, req)
}

func checkSync(g *group, req *kmsg.SyncGroupRequest) *kerr.Error {
	if g == nil || g.state == Empty {
		return kerr.UnknownMemberID
	}
	if err := g.check(req.MemberID, req.InstanceID); err != nil {
		return err
	}
	switch {
	case req.Generation != g.generation:
		return kerr.IllegalGeneration
	case req.ProtocolType != nil && *req.ProtocolType != g.protocolType,
		req.Protocol != nil && g.protocol != nil && *req.Protocol != *g.protocol:
		return kerr.InconsistentGroupProtocol
	case g.state == PreparingRebalance:
		return kerr.RebalanceInProgress
	}
	return nil
}

// assign writes the leader's assignment. Members that it left out get none.
func (s *Shard) assign(g *group, req *kmsg.SyncGroupRequest) coordrt.Result {
	parts := make(map[string][]byte, len(req.GroupAssignment))
	for _, a := range req.GroupAssignment {
		parts[a.MemberID] = a.MemberAssignment
	}
	assignment := func(m *member) []byte { return parts[m.id] }
	return s.persist(g, assignment, func(now time.Time, err error) coordrt.Result {
		if g.state != CompletingRebalance || g.generation != req.Generation {
			return soft() // somebody came or went in the meantime, and everybody was told
		}
		if err != nil {
			s.resetAssignments(now, g, coordrt.ErrorOf(err))
			return s.prepareRebalance(now, g, "the assignment could not be written: "+err.Error())
		}
		for _, m := range g.members {
			m.assignment = parts[m.id]
		}
		s.setState(now, g, Stable)
		s.o.Stats.rebalances.Add(1)
		for _, m := range g.members {
			if m.answerSync(g.assignmentOf(m)) {
				s.touch(now, m)
			}
		}
		return soft()
	})
}

func (g *group) assignmentOf(m *member) *kmsg.SyncGroupResponse {
	r := kmsg.NewPtrSyncGroupResponse()
	protocolType := g.protocolType
	r.ProtocolType, r.Protocol, r.MemberAssignment = &protocolType, g.protocol, m.assignment
	if r.MemberAssignment == nil {
		r.MemberAssignment = []byte{}
	}
	return r
}

// Heartbeat handles a Heartbeat request; the error is what the member is told.
func (s *Shard) Heartbeat(now time.Time, req *kmsg.HeartbeatRequest) *kerr.Error {
	g := s.groups[req.Group]
	if g == nil {
		return kerr.UnknownMemberID
	}
	if err := g.check(req.MemberID, req.InstanceID); err != nil {
		return err
	}
	if req.Generation != g.generation {
		return kerr.IllegalGeneration
	}
	s.touch(now, g.byID[req.MemberID])
	if g.state == PreparingRebalance {
		return kerr.RebalanceInProgress
	}
	return nil
}
