package groupcoord

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/internal/coordrt"
)

// chaos sends random requests for a few groups, with member ids, generations and producers that fit more often than not.
type chaos struct {
	t   *testing.T
	l   *lab
	rng *rand.Rand

	mu       sync.Mutex
	ids      []string
	sent     int
	answered int
}

func (c *chaos) group() string { return string(rune('A' + c.rng.IntN(3))) }

func (c *chaos) member() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.ids) == 0 || c.rng.IntN(4) == 0 {
		return ""
	}
	return c.ids[max(len(c.ids)-1-c.rng.IntN(8), 0)]
}

func (c *chaos) instance() *string {
	if c.rng.IntN(3) > 0 {
		return nil
	}
	return kmsg.StringPtr(fmt.Sprint("i", c.rng.IntN(2)))
}

// generation looks into the coordinator, so that requests fit.
func (c *chaos) generation(group string) int32 {
	g, err := coordrt.Peek(c.l.ctx, c.l.co.rt, 0, func(s *Shard, _ time.Time) int32 {
		if g := s.groups[group]; g != nil {
			return g.generation
		}
		return -1
	})
	if err != nil || c.rng.IntN(6) == 0 {
		return c.rng.Int32N(3) - 1
	}
	return g
}

func (c *chaos) send(req kmsg.Request) {
	c.sent++
	go func() {
		resp := c.l.request(Client{ID: "m", Host: "h"}, req)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.answered++
		if j, ok := resp.(*kmsg.JoinGroupResponse); ok && j.MemberID != "" {
			c.ids = append(c.ids, j.MemberID)
		}
	}()
	if c.rng.IntN(3) > 0 {
		synctest.Wait()
	}
}

func (c *chaos) join() {
	r := kmsg.NewPtrJoinGroupRequest()
	r.Version, r.Group, r.InstanceID = int16(3+c.rng.IntN(7)), c.group(), c.instance()
	if r.MemberID = c.member(); r.Version < 5 {
		r.InstanceID = nil
	}
	r.SessionTimeoutMillis, r.RebalanceTimeoutMillis, r.ProtocolType = 6000+c.rng.Int32N(20000), c.rng.Int32N(30000), "consumer"
	for _, p := range [][]string{{"range", "rr"}, {"rr", "range"}, {"range"}}[c.rng.IntN(3)] {
		r.Protocols = append(r.Protocols, kmsg.JoinGroupRequestProtocol{Name: p, Metadata: subscription([]string{"t", "u"}[c.rng.IntN(2)])})
	}
	c.send(r)
}

func (c *chaos) sync() {
	r := kmsg.NewPtrSyncGroupRequest()
	r.Version, r.Group, r.MemberID, r.InstanceID = 3, c.group(), c.member(), c.instance()
	r.Generation = c.generation(r.Group)
	for range c.rng.IntN(4) {
		r.GroupAssignment = append(r.GroupAssignment, kmsg.SyncGroupRequestGroupAssignment{MemberID: c.member(), MemberAssignment: []byte{byte(c.rng.IntN(250))}})
	}
	c.send(r)
}

func (c *chaos) commit() {
	r := kmsg.NewPtrOffsetCommitRequest()
	r.Version, r.Group, r.MemberID, r.RetentionTimeMillis = 8, c.group(), c.member(), -1
	if r.Generation = c.generation(r.Group); r.MemberID == "" {
		r.Generation = -1
	}
	if c.rng.IntN(5) == 0 {
		r.Version, r.RetentionTimeMillis = 3, c.rng.Int64N(3600_000)
	}
	r.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: []string{"t", "u", "v"}[c.rng.IntN(3)], Partitions: []kmsg.OffsetCommitRequestTopicPartition{
		{Partition: c.rng.Int32N(2), Offset: c.rng.Int64N(1000), LeaderEpoch: c.rng.Int32N(3) - 1, Metadata: kmsg.StringPtr("x")}}}}
	c.send(r)
}

func (c *chaos) txn() {
	if c.rng.IntN(3) == 0 {
		c.sent++
		m := coordrt.Marker{ProducerID: c.rng.Int64N(3), Commit: c.rng.IntN(2) == 0}
		go func() {
			_ = c.l.co.CompleteTransaction(c.l.ctx, 0, m)
			c.mu.Lock()
			defer c.mu.Unlock()
			c.answered++
		}()
		return
	}
	r := kmsg.NewPtrTxnOffsetCommitRequest()
	r.Version, r.Group, r.ProducerID, r.Generation = 5, c.group(), c.rng.Int64N(3), -1
	r.Topics = []kmsg.TxnOffsetCommitRequestTopic{{Topic: []string{"t", "u"}[c.rng.IntN(2)], Partitions: []kmsg.TxnOffsetCommitRequestTopicPartition{
		{Partition: c.rng.Int32N(2), Offset: c.rng.Int64N(1000)}}}}
	c.send(r)
}

func (c *chaos) admin() {
	switch c.rng.IntN(6) {
	case 0:
		r := kmsg.NewPtrDeleteGroupsRequest()
		r.Groups = []string{c.group(), c.group()}
		c.send(r)
	case 1:
		r := kmsg.NewPtrOffsetDeleteRequest()
		r.Group = c.group()
		r.Topics = []kmsg.OffsetDeleteRequestTopic{{Topic: "t", Partitions: []kmsg.OffsetDeleteRequestTopicPartition{{Partition: 0}, {Partition: 1}}}}
		c.send(r)
	case 2:
		c.l.co.TopicsDeleted([]DeletedTopic{{Name: "v"}})
	default:
		r := kmsg.NewPtrOffsetFetchRequest()
		r.Version, r.RequireStable = 9, c.rng.IntN(2) == 0
		r.Groups = []kmsg.OffsetFetchRequestGroup{{Group: c.group()}}
		c.send(r)
	}
}

func (c *chaos) step() {
	switch n := c.rng.IntN(40); {
	case n < 9:
		c.join()
	case n < 15:
		c.sync()
	case n < 19:
		r := kmsg.NewPtrHeartbeatRequest()
		r.Version, r.Group, r.MemberID = 3, c.group(), c.member()
		r.Generation = c.generation(r.Group)
		c.send(r)
	case n < 21:
		r := kmsg.NewPtrLeaveGroupRequest()
		r.Version, r.Group, r.Members = 4, c.group(), []kmsg.LeaveGroupRequestMember{{MemberID: c.member(), InstanceID: c.instance()}, {MemberID: c.member()}}
		c.send(r)
	case n < 25:
		c.commit()
	case n < 29:
		c.txn()
	case n < 32:
		c.admin()
	case n < 34:
		c.l.log.Manual(c.rng.IntN(3) == 0)
	case n < 36:
		c.l.log.CommitAll()
	case n < 39:
		time.Sleep(time.Duration(c.rng.IntN(8000)) * time.Millisecond)
	default:
		time.Sleep(time.Duration(c.rng.IntN(20)) * time.Minute)
	}
}

// consistent checks what must hold between any two operations.
func (s *Shard) consistent(t require.TestingT) {
	offsets, pending := 0, 0
	var byState [states]int64
	for id, g := range s.groups {
		require.Equal(t, id, g.id)
		byState[g.state]++
		joining, toSync, static, n := 0, 0, 0, 0
		supporters := map[string]int{}
		for _, m := range g.members {
			require.Same(t, m, g.byID[m.id])
			require.Nil(t, g.pending[m.id])
			if m.join != nil {
				joining++
			}
			if m.toSync {
				toSync++
			}
			if m.instance != nil {
				static++
				require.Equal(t, m.id, g.static[*m.instance])
			}
			for _, p := range m.protocols {
				supporters[p.name]++
			}
			require.True(t, m.sync == nil || g.state == CompletingRebalance, "a sync is parked in state %s", g.state)
			require.True(t, m.session.Armed() || m.waiting(), "member %s in %s is neither timed nor waiting", m.id, g.state)
		}
		require.Equal(t, [4]int{joining, toSync, static, len(g.members)}, [4]int{g.joining, g.toSync, len(g.static), len(g.byID)})
		if len(supporters)+len(g.supporters) > 0 {
			require.Equal(t, supporters, g.supporters)
		}
		require.Equal(t, len(g.members) == 0, g.leader == "")
		require.True(t, g.leader == "" || g.byID[g.leader] != nil)
		require.True(t, g.state != Empty || len(g.members) == 0)
		require.True(t, g.state != PreparingRebalance || g.joinTimer.Armed(), "nothing ends the rebalance")
		require.Equal(t, g.state == CompletingRebalance || g.state == Stable, g.protocol != nil && len(g.members) > 0 && g.state != PreparingRebalance)
		g.eachOffset(func(string, int32, *commit) { n++ })
		require.Equal(t, n, g.noffsets)
		offsets += n
		for tp, ids := range g.unstable {
			require.NotEmpty(t, ids)
			for _, id := range ids {
				require.Contains(t, s.txns[id], offsetKey{g.id, tp.topic, tp.partition})
			}
		}
	}
	for id, txn := range s.txns {
		require.NotEmpty(t, txn)
		for k := range txn {
			require.Contains(t, s.groups[k.group].unstable[topicPartition{k.topic, k.partition}], id)
		}
		pending += len(txn)
	}
	require.EqualValues(t, [2]int{offsets, pending}, [2]int{int(s.o.Stats.offsets.Load()), int(s.o.Stats.pending.Load())})
	for st, n := range byState {
		require.Equal(t, n, s.o.Stats.groups[st].Load(), "groups in %s", State(st))
	}
}

// dump prints what a reload must bring back: everything of the offsets, and the groups that are at rest.
func (s *Shard) dump(only map[string]bool) (string, map[string]bool) {
	var b strings.Builder
	resting := map[string]bool{}
	for _, id := range sortedKeys(s.groups) {
		g := s.groups[id]
		if only == nil && (g.state == Empty || g.state == Stable) || only[id] {
			resting[id] = true
			fmt.Fprintf(&b, "group %s %s type=%q generation=%d leader=%q subscribed=%v", id, g.state, g.protocolType, g.generation, g.leader, sortedKeys(g.subscribed))
			if g.protocol != nil {
				b.WriteString(" protocol=" + *g.protocol)
			}
			if g.state == Empty {
				fmt.Fprintf(&b, " since=%d", g.sinceMs)
			}
			for _, m := range g.members {
				fmt.Fprintf(&b, " [%s %v %s %s %d/%d %x %x]", m.id, text(m.instance), m.clientID, m.clientHost, m.sessionMs, m.rebalanceMs, m.metadata(*g.protocol), m.assignment)
			}
			b.WriteString("\n")
		}
		for _, topic := range sortedKeys(g.offsets) {
			for _, p := range sortedKeys(g.offsets[topic]) {
				fmt.Fprintf(&b, "offset %s %s-%d %+v\n", id, topic, p, *g.offsets[topic][p])
			}
		}
	}
	for _, producer := range sortedKeys(s.txns) {
		var ks []offsetKey
		for k := range s.txns[producer] {
			ks = append(ks, k)
		}
		sortOffsetKeys(ks)
		for _, k := range ks {
			fmt.Fprintf(&b, "pending %d %+v %+v\n", producer, k, s.txns[producer][k])
		}
	}
	return b.String(), resting
}

func text(s *string) string {
	if s == nil {
		return "-"
	}
	return *s
}

func (c *chaos) dump(only map[string]bool) (out string, resting map[string]bool) {
	_, err := coordrt.Peek(c.l.ctx, c.l.co.rt, 0, func(s *Shard, _ time.Time) int {
		s.consistent(c.t)
		out, resting = s.dump(only)
		return 0
	})
	require.NoError(c.t, err)
	return out, resting
}

// G1, G2, G4: after any history the state is what the log says, and nobody waits for ever.
func TestReloadedStateIsTheLiveState(t *testing.T) {
	groups := 0
	for seed := range uint64(24) {
		inLab(t, func(l *lab) {
			c := &chaos{t: l.t, l: l, rng: rand.New(rand.NewPCG(seed, 3))}
			for range 400 {
				c.step()
				if c.rng.IntN(10) == 0 {
					c.dump(nil)
				}
			}
			l.log.Manual(false)
			l.log.CommitAll()
			synctest.Wait()
			live, resting := c.dump(nil)
			groups += len(resting)
			l.elect()
			reloaded, _ := c.dump(resting)
			require.Equal(c.t, live, reloaded, "seed %d", seed)
			synctest.Wait()
			c.mu.Lock()
			defer c.mu.Unlock()
			require.Equal(c.t, c.sent, c.answered, "seed %d: requests and answers", seed)
		}, func(o *Options) { o.Offsets.Retention, o.Groups.MaxSize = 10*time.Minute, 5 })
	}
	require.Greater(t, groups, 16, "most histories must end with groups that are at rest")
}
