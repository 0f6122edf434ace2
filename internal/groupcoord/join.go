package groupcoord

import (
	"errors"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/kbroker/kbroker/internal/coordrt"
)

// Versions of JoinGroup in which something begins.
const (
	joinMemberIDRequired = 4
	joinSkipAssignment   = 9
)

// join is one JoinGroup request on its way through the shard.
type join struct {
	now    time.Time
	client Client
	req    *kmsg.JoinGroupRequest
	reply  func(*kmsg.JoinGroupResponse)

	protocols []protocol
}

func (j *join) fail(err *kerr.Error, memberID string) coordrt.Result {
	j.reply(joinError(err, memberID))
	return soft()
}

// reason is what a client said why it joins, for the log.
func (j *join) reason(what string) string {
	if j.req.Reason != nil && *j.req.Reason != "" {
		return what + "; client: " + *j.req.Reason
	}
	return what
}

// Join handles a JoinGroup request. reply is called exactly once (G2), at once or when the rebalance is over. Group id and
// session timeout are taken to be valid. The shard keeps parts of the request.
func (s *Shard) Join(now time.Time, c Client, req *kmsg.JoinGroupRequest, reply func(*kmsg.JoinGroupResponse)) coordrt.Result {
	j := &join{now: now, client: c, req: req, reply: reply, protocols: offered(req)}
	g := s.groups[req.Group]
	isNew := g == nil
	if isNew {
		if req.MemberID != "" {
			return j.fail(kerr.UnknownMemberID, req.MemberID)
		}
		if len(s.groups) >= maxGroups {
			return j.fail(kerr.CoordinatorNotAvailable, "")
		}
		g = newGroup(strings.Clone(req.Group), now.UnixMilli())
		s.addGroup(g)
	}
	r := s.joinGroup(j, g)
	if isNew && len(r.Records) == 0 {
		return s.created(g)
	}
	return r
}

// offered copies the protocols of a request, without those of a name that came before.
func offered(req *kmsg.JoinGroupRequest) []protocol {
	out := make([]protocol, 0, len(req.Protocols))
	seen := make(map[string]struct{}, len(req.Protocols))
	for _, p := range req.Protocols {
		if _, again := seen[p.Name]; !again {
			seen[p.Name] = struct{}{}
			out = append(out, protocol{strings.Clone(p.Name), p.Metadata})
		}
	}
	return out
}

func (s *Shard) joinGroup(j *join, g *group) coordrt.Result {
	id := j.req.MemberID
	switch {
	case !s.hasRoom(g, id):
		return s.turnAway(j, g)
	case !g.accepts(j.req.ProtocolType, j.protocols):
		return j.fail(kerr.InconsistentGroupProtocol, id)
	case id == "" && j.req.InstanceID != nil:
		return s.joinStatic(j, g)
	case id == "":
		return s.joinDynamic(j, g)
	case g.pending[id] != nil:
		if j.req.InstanceID != nil {
			return j.fail(kerr.UnknownServerError, "") // as Kafka: static members are never asked to come again
		}
		return s.addMember(j, g, id)
	}
	return s.rejoin(j, g)
}

// created writes a group that has just come into being, so that the next coordinator knows of it. Without the record there
// is no group.
func (s *Shard) created(g *group) coordrt.Result {
	empty := newGroup(g.id, g.sinceMs)
	return s.persist(empty, nil, func(_ time.Time, err error) coordrt.Result {
		if err == nil || errors.Is(err, kerr.RequestTimedOut) || s.groups[g.id] != g {
			return soft()
		}
		s.o.Logger.Warn("a new group could not be written", zap.String("group", g.id), zap.Error(err))
		s.dropGroup(g, coordrt.ErrorOf(err))
		return soft()
	})
}

// hasRoom applies group.max.size. While members join, those who have joined count: who is late is out, also when the limit
// was lowered.
func (s *Shard) hasRoom(g *group, memberID string) bool {
	limit := int(s.o.Groups.MaxSize)
	m := g.byID[memberID]
	switch g.state {
	case PreparingRebalance:
		return m != nil && m.join != nil || g.joining < limit
	case CompletingRebalance, Stable:
		return m != nil || len(g.members) < limit
	case Empty:
	}
	return true
}

func (s *Shard) turnAway(j *join, g *group) coordrt.Result {
	s.dropPending(g, j.req.MemberID)
	if m := g.byID[j.req.MemberID]; m != nil {
		s.removeMember(g, m)
	}
	j.fail(kerr.GroupMaxSizeReached, "")
	return s.maybeComplete(j.now, g)
}

func (s *Shard) joinDynamic(j *join, g *group) coordrt.Result {
	id := s.o.NewMemberID(j.client.ID)
	if j.req.Version < joinMemberIDRequired {
		return s.addMember(j, g, id)
	}
	if len(g.pending) >= maxPendingMembers {
		return j.fail(kerr.GroupMaxSizeReached, "")
	}
	if g.pending == nil {
		g.pending = map[string]*coordrt.Timer{}
	}
	t := &coordrt.Timer{Fire: func(now time.Time) coordrt.Result { return s.pendingExpired(now, g, id) }}
	g.pending[id] = t
	s.timers.Set(t, j.now.Add(ms(j.req.SessionTimeoutMillis)))
	return j.fail(kerr.MemberIDRequired, id)
}

// addMember adds a member and makes the group rebalance.
func (s *Shard) addMember(j *join, g *group, id string) coordrt.Result {
	s.dropPending(g, id)
	m := &member{
		id: id, instance: cloneString(j.req.InstanceID), clientID: strings.Clone(j.client.ID), clientHost: j.client.shownHost(),
		rebalanceMs: j.req.RebalanceTimeoutMillis, sessionMs: j.req.SessionTimeoutMillis, protocols: j.protocols,
		isNew: true, join: j.reply,
	}
	if len(g.members) == 0 {
		g.protocolType = strings.Clone(j.req.ProtocolType)
	}
	if g.state == PreparingRebalance && g.previous == Empty {
		g.grown = true
	}
	g.insert(m)
	s.arm(g, m)
	s.timers.Set(&m.session, j.now.Add(newMemberTimeout))
	return s.rebalanceOrComplete(j.now, g, j.reason("member "+id+" is new"))
}

func cloneString(s *string) *string {
	if s == nil {
		return nil
	}
	c := strings.Clone(*s)
	return &c
}

// update takes over what a member says when it joins again, and makes its request wait.
func (g *group) update(j *join, m *member) {
	g.count(m, -1)
	m.protocols = j.protocols
	g.count(m, 1)
	m.rebalanceMs, m.sessionMs = j.req.RebalanceTimeoutMillis, j.req.SessionTimeoutMillis
	g.park(m, j.reply)
}

// rejoin handles the join of somebody who has an id.
func (s *Shard) rejoin(j *join, g *group) coordrt.Result {
	id := j.req.MemberID
	if err := g.check(id, j.req.InstanceID); err != nil {
		return j.fail(err, id)
	}
	m := g.byID[id]
	reason := "member " + id + " joins again"
	switch g.state {
	case PreparingRebalance:
	case CompletingRebalance:
		if m.offersSame(j.protocols) {
			j.reply(g.joined(m)) // it did not get the first answer
			return soft()
		}
		reason = "member " + id + " has changed its metadata"
	case Stable:
		if id != g.leader && m.offersSame(j.protocols) {
			j.reply(g.joined(m))
			return soft()
		}
		if id == g.leader {
			reason = "leader " + id + " joins again" // what it assigns has changed, even if its metadata has not
		}
	case Empty:
		return j.fail(kerr.UnknownMemberID, id)
	}
	g.update(j, m)
	return s.rebalanceOrComplete(j.now, g, j.reason(reason))
}
