package groupcoord

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/internal/coordrt"
	"github.com/kbroker/kbroker/internal/model"
)

// State is what a group is doing.
type State uint8

// The states of a group. A group that does not exist is shown as Dead.
const (
	Empty State = iota
	PreparingRebalance
	CompletingRebalance
	Stable
)

const states = int(Stable) + 1

var stateNames = [states]string{"Empty", "PreparingRebalance", "CompletingRebalance", "Stable"}

// String returns Kafka's name of the state.
func (s State) String() string {
	if int(s) < states {
		return stateNames[s]
	}
	return fmt.Sprintf("State(%d)", uint8(s))
}

// deadState is Kafka's name for the state of a group that is not there.
const deadState = "Dead"

// protocol is one way of assigning partitions that a member offers, with what the leader needs to know for it.
type protocol struct {
	name     string
	metadata []byte
}

// member is somebody who has joined.
type member struct {
	id                     string
	instance               *string // of a static member
	clientID, clientHost   string
	rebalanceMs, sessionMs int32
	protocols              []protocol // best first
	assignment             []byte
	// isNew is set until the member has been told its id by a completed rebalance: it cannot send heartbeats before.
	isNew bool
	// toSync is set from the answer to a join until the member asks for its assignment.
	toSync bool
	// join and sync are the parked requests of the member (G2).
	join func(*kmsg.JoinGroupResponse)
	sync func(*kmsg.SyncGroupResponse)
	// session removes the member when it is not heard of in time.
	session coordrt.Timer
}

// metadata of one of the member's protocols.
func (m *member) metadata(protocol string) []byte {
	for _, p := range m.protocols {
		if p.name == protocol {
			return p.metadata
		}
	}
	return nil
}

// waiting members are not expected to send heartbeats, unless they do not know their id yet.
func (m *member) waiting() bool { return !m.isNew && (m.join != nil || m.sync != nil) }

func (m *member) offersSame(ps []protocol) bool {
	return slices.EqualFunc(m.protocols, ps, func(a, b protocol) bool {
		return a.name == b.name && bytes.Equal(a.metadata, b.metadata)
	})
}

// answerSync answers the member's parked sync, if there is one, and reports whether there was.
func (m *member) answerSync(r *kmsg.SyncGroupResponse) bool {
	if m.sync == nil {
		return false
	}
	m.sync(r)
	m.sync = nil
	return true
}

// group is one group: its members, and the offsets committed under its name.
type group struct {
	id string
	// state and previous are changed by Shard.setState only.
	state, previous State
	sinceMs         int64 // of state; -1 unknown
	generation      int32
	protocolType    string // empty: nobody has ever joined
	protocol        *string
	leader          string // member id, empty without members

	members []*member // in the order of joining (G5)
	byID    map[string]*member
	static  map[string]string // instance id -> member id
	// pending are member ids that were handed out and not used yet, each with its deadline.
	pending map[string]*coordrt.Timer
	// supporters counts the members that offer a protocol.
	supporters map[string]int
	// joining counts the parked joins, toSync the members that have not asked for their assignment.
	joining, toSync int
	// grown is set when a member joined while the first rebalance was being delayed.
	grown bool
	// subscribed are the topics of the members; nil when that cannot be told.
	subscribed map[string]struct{}

	// joinTimer ends the joining, syncTimer the waiting for syncs.
	joinTimer, syncTimer coordrt.Timer

	offsets  map[string]map[int32]*commit
	noffsets int
	// unstable are the partitions that open transactions have committed offsets for: the producers' ids.
	unstable map[topicPartition][]int64
}

type topicPartition struct {
	topic     string
	partition int32
}

func newGroup(id string, sinceMs int64) *group {
	return &group{id: id, sinceMs: sinceMs, byID: map[string]*member{}}
}

// insert adds a member that is not there yet, at the end.
func (g *group) insert(m *member) {
	if len(g.members) == 0 && g.leader == "" {
		g.leader = m.id
	}
	g.members = append(g.members, m)
	g.byID[m.id] = m
	if m.instance != nil {
		if g.static == nil {
			g.static = map[string]string{}
		}
		g.static[*m.instance] = m.id
	}
	g.count(m, 1)
	if m.join != nil {
		g.joining++
	}
}

// count adds by to the supporters of the member's protocols.
func (g *group) count(m *member, by int) {
	if g.supporters == nil {
		g.supporters = map[string]int{}
	}
	for _, p := range m.protocols {
		if g.supporters[p.name] += by; g.supporters[p.name] == 0 {
			delete(g.supporters, p.name)
		}
	}
}

// remove takes a member out. Its parked requests are told that it is none. When it led the group, the eldest leads now.
func (g *group) remove(m *member) {
	g.answerJoin(m, joinError(kerr.UnknownMemberID, ""))
	m.answerSync(syncError(kerr.UnknownMemberID))
	g.clearToSync(m)
	g.count(m, -1)
	g.members = slices.DeleteFunc(g.members, func(o *member) bool { return o == m })
	delete(g.byID, m.id)
	if m.instance != nil {
		delete(g.static, *m.instance)
	}
	if g.leader == m.id {
		g.leader = ""
		if len(g.members) > 0 {
			g.leader = g.members[0].id
		}
	}
}

// park makes a join wait for the end of the rebalance, in place of the member's earlier one.
func (g *group) park(m *member, reply func(*kmsg.JoinGroupResponse)) {
	g.answerJoin(m, joinError(kerr.RebalanceInProgress, m.id))
	if m.join = reply; reply != nil {
		g.joining++
	}
}

// answerJoin answers the member's parked join, if there is one.
func (g *group) answerJoin(m *member, r *kmsg.JoinGroupResponse) {
	if m.join == nil {
		return
	}
	m.join(r)
	m.join = nil
	g.joining--
}

func (g *group) clearToSync(m *member) {
	if m.toSync {
		m.toSync = false
		g.toSync--
	}
}

// allJoined reports whether nobody is missing.
func (g *group) allJoined() bool { return g.joining == len(g.members) && len(g.pending) == 0 }

// rebalanceMs is how long the slowest member may take to join.
func (g *group) rebalanceMs() int32 {
	var most int32
	for _, m := range g.members {
		most = max(most, m.rebalanceMs)
	}
	return most
}

// accepts reports whether a member may join that offers these protocols: at least one must suit everybody.
func (g *group) accepts(protocolType string, ps []protocol) bool {
	if g.state == Empty {
		return protocolType != "" && len(ps) > 0
	}
	return g.protocolType == protocolType && slices.ContainsFunc(ps, func(p protocol) bool {
		return g.supporters[p.name] == len(g.members)
	})
}

// vote chooses the protocol that most members prefer among those that all of them offer. A tie goes to the one that comes
// first in a Java hash table of 16 buckets, which is Kafka's rule, though hardly its intention.
func (g *group) vote() string {
	votes := map[string]int{}
	for _, m := range g.members {
		for _, p := range m.protocols {
			if g.supporters[p.name] == len(g.members) {
				votes[p.name]++
				break
			}
		}
	}
	best, most := "", 0
	for name, n := range votes { // the order of iteration does not matter: the rule is total
		if n > most || n == most && (bucket(name) < bucket(best) || bucket(name) == bucket(best) && name < best) {
			best, most = name, n
		}
	}
	return best
}

func bucket(s string) int {
	h := uint32(javaHash(s))
	return int((h ^ h>>16) & 15)
}

// subscriptions returns the topics of all members, nil when the group is no consumer group or a member's subscription
// cannot be read.
func (g *group) subscriptions() map[string]struct{} {
	if g.protocolType != consumerType || g.protocol == nil && len(g.members) > 0 {
		return nil
	}
	all := map[string]struct{}{}
	for _, m := range g.members {
		topics, ok := parseSubscription(m.metadata(*g.protocol))
		if !ok {
			return nil
		}
		for _, t := range topics {
			all[t] = struct{}{}
		}
	}
	return all
}

// subscribes reports whether the group's offsets of a topic are in use. A consumer group whose topics are not known is
// taken to use all.
func (g *group) subscribes(topic string) bool {
	if g.subscribed == nil {
		return g.protocolType == consumerType
	}
	_, ok := g.subscribed[topic]
	return ok
}

// check tells whether a request may speak for a member (Kafka's validateMember).
func (g *group) check(memberID string, instance *string) *kerr.Error {
	if instance != nil {
		switch id := g.static[*instance]; id {
		case "":
			return kerr.UnknownMemberID
		case memberID:
		default:
			return kerr.FencedInstanceID
		}
	}
	if g.byID[memberID] == nil {
		return kerr.UnknownMemberID
	}
	return nil
}

// setOffset stores a committed offset and returns how many there are more than before.
func (g *group) setOffset(topic string, partition int32, c commit) int {
	if g.offsets == nil {
		g.offsets = map[string]map[int32]*commit{}
	}
	ps := g.offsets[topic]
	if ps == nil {
		ps = map[int32]*commit{}
		g.offsets[topic] = ps
	}
	before := len(ps)
	ps[partition] = &c
	g.noffsets += len(ps) - before
	return len(ps) - before
}

// dropOffset removes a committed offset and returns how many there are less than before.
func (g *group) dropOffset(topic string, partition int32) int {
	ps := g.offsets[topic]
	if _, ok := ps[partition]; !ok {
		return 0
	}
	g.noffsets--
	if delete(ps, partition); len(ps) == 0 {
		delete(g.offsets, topic)
	}
	return 1
}

// eachOffset calls fn for every committed offset, in no particular order.
func (g *group) eachOffset(fn func(topic string, partition int32, c *commit)) {
	for topic, ps := range g.offsets {
		for p, c := range ps {
			fn(topic, p, c)
		}
	}
}

// joinError is the answer to a join that failed.
func joinError(err *kerr.Error, memberID string) *kmsg.JoinGroupResponse {
	r := kmsg.NewPtrJoinGroupResponse()
	r.ErrorCode, r.Generation, r.MemberID = err.Code, -1, memberID
	return r
}

func syncError(err *kerr.Error) *kmsg.SyncGroupResponse {
	r := kmsg.NewPtrSyncGroupResponse()
	r.ErrorCode, r.MemberAssignment = err.Code, []byte{}
	return r
}

// noTopic is the topic id of a topic that has none.
var noTopic model.UUID
