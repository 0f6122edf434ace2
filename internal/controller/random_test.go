package controller

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/kbroker/kbroker/internal/metadata"
	"github.com/kbroker/kbroker/internal/model"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// chaos drives a cluster through random events. Invariants of single images are checked after every batch by apply; here
// are those between one image and the next.
type chaos struct {
	*world
	lives map[int32]byte
	// crashed are brokers whose last process did not end cleanly.
	crashed map[int32]bool
	count   int
}

// transition checks every partition against what it was before the event.
func (c *chaos) transition(before *metadata.Image, event string, uncleanRestart int32) {
	c.t.Helper()
	for t := range before.AllTopics() {
		now := c.v.img.TopicByID(t.ID)
		if now == nil {
			continue
		}
		for i, o := range t.Partitions {
			n := now.Partitions[i]
			if n == o {
				continue
			}
			at := fmt.Sprintf("%s: %s-%d\nfrom %+v\nto   %+v", event, t.Name, i, *o, *n)
			require.Greater(c.t, n.PartitionEpoch, o.PartitionEpoch, at)
			require.GreaterOrEqual(c.t, n.LeaderEpoch, o.LeaderEpoch, at)
			if n.Leader == o.Leader {
				continue
			}
			require.Greater(c.t, n.LeaderEpoch, o.LeaderEpoch, "a new leader has a new epoch: %s", at)
			if n.Leader == model.NoLeader || n.Recovering {
				continue
			}
			in := slices.Contains(o.ISR, n.Leader) || slices.Contains(o.ELR, n.Leader)
			require.True(c.t, in, "a clean leader holds all that is committed: %s", at)
			require.NotEqual(c.t, uncleanRestart, n.Leader, "what it held may be gone: %s", at)
		}
	}
	if uncleanRestart < 0 {
		return
	}
	for t := range c.v.img.AllTopics() {
		for i, p := range t.Partitions {
			trusted := slices.Contains(p.ELR, uncleanRestart) || slices.Contains(p.ISR, uncleanRestart) && !p.Recovering
			require.False(c.t, trusted, "%s: %s-%d trusts broker %d: %+v", event, t.Name, i, uncleanRestart, *p)
		}
	}
}

func (c *chaos) pick() *metadata.Broker {
	return slices.Collect(c.v.img.Brokers())[c.rng.IntN(c.v.img.BrokerCount())]
}

func (c *chaos) pickTopic() *metadata.Topic {
	ts := slices.Collect(c.v.img.AllTopics())
	if len(ts) == 0 {
		return nil
	}
	return ts[c.rng.IntN(len(ts))]
}

func (c *chaos) step() {
	b, t := c.pick(), c.pickTopic()
	before := c.v.img
	event, unclean := "", int32(-1)
	switch n := c.rng.IntN(100); {
	case n < 10 || t == nil:
		event = "create"
		c.count++
		ask[*kmsg.CreateTopicsResponse](c.world, createRequest(topicRequest(fmt.Sprintf("t%d", c.count), 1+c.rng.Int32N(3), 1+int16(c.rng.IntN(3)))))
	case n < 13:
		event = "delete " + t.Name
		r := kmsg.NewPtrDeleteTopicsRequest()
		r.TopicNames = []string{t.Name}
		ask[*kmsg.DeleteTopicsResponse](c.world, r)
	case n < 30 && !b.Fenced:
		event = fmt.Sprintf("silence %d", b.ID)
		c.silence(b.ID)
		c.crashed[b.ID] = c.rng.IntN(2) == 0
	case n < 60 && b.Fenced:
		clean := !c.crashed[b.ID]
		event = fmt.Sprintf("restart %d, clean %t", b.ID, clean)
		c.lives[b.ID]++
		r := registration(b.ID, c.lives[b.ID])
		if clean {
			r.PreviousBrokerEpoch = b.Epoch
		} else {
			unclean = b.ID
		}
		c.v.now = c.v.now.Add(time.Minute)
		require.Zero(c.t, ask[*kmsg.BrokerRegistrationResponse](c.world, r).ErrorCode)
		c.transition(before, event, unclean)
		before = c.v.img
		c.heartbeat(b.ID)
	case n < 70 && !b.Fenced:
		event = fmt.Sprintf("shutdown step %d", b.ID)
		c.crashed[b.ID] = false
		c.heartbeat(b.ID, wantShutdown)
	case n < 75:
		event = "min isr of " + t.Name
		c.alter(false, one(ofTopic, t.Name, change{opSet, minISRKey, fmt.Sprint(1 + c.rng.IntN(3))}))
	case n < 78:
		event = "unclean elections of " + t.Name
		c.alter(false, one(ofTopic, t.Name, change{opSet, uncleanKey, fmt.Sprint(c.rng.IntN(2) == 0)}))
	default:
		event = "alter ISR of " + t.Name
		c.randomISR(t)
	}
	c.transition(before, event, unclean)
}

// randomISR lets a leader ask for any ISR with itself in it; the controller refuses what cannot be.
func (c *chaos) randomISR(t *metadata.Topic) {
	p := t.Partitions[0]
	if p.Leader == model.NoLeader {
		return
	}
	isr := []int32{p.Leader}
	for _, r := range p.Replicas {
		if r != p.Leader && c.rng.IntN(2) == 0 {
			isr = append(isr, r)
		}
	}
	c.alterISR(p.Leader, t.Name, isr...)
}

func TestRandomEventsKeepTheInvariants(t *testing.T) {
	for seed := range uint64(10) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			w := newWorld(t, 4)
			w.rng = rand.New(rand.NewPCG(seed, 7))
			w.v.rng = w.rng
			c := &chaos{world: w, lives: map[int32]byte{1: 1, 2: 1, 3: 1, 4: 1}, crashed: map[int32]bool{}}
			for range 200 {
				c.step()
			}
		})
	}
}

// Same seed, same history, byte for byte (C1).
func TestDecisionsAreReproducible(t *testing.T) {
	run := func() []byte {
		w := newWorld(t, 4)
		c := &chaos{world: w, lives: map[int32]byte{1: 1, 2: 1, 3: 1, 4: 1}, crashed: map[int32]bool{}}
		for range 300 {
			c.step()
		}
		return metadata.AppendBatch(nil, slices.Collect(w.v.img.Records()))
	}
	require.Equal(t, run(), run())
}
