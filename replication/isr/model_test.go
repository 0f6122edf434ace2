package isr

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
)

// naive is the dumb version of a Leader: the whole history, and sets, read anew for every question. It covers one leader
// epoch.
type naive struct {
	replicas  []int32 // followers
	committed map[int32]bool
	maximal   map[int32]bool
	pending   bool
	began     time.Time
	inSyncAt  map[int32]bool // at the begin
	fetches   map[int32][]naiveFetch
	brokers   cluster
	lag       time.Duration
	start     int64
	min       int
}

type naiveFetch struct {
	at               time.Time
	offset, leaderAt int64
	epoch            int64
}

func (n *naive) end(id int32) int64 {
	if fs := n.fetches[id]; len(fs) > 0 {
		return fs[len(fs)-1].offset
	}
	return -1
}

func (n *naive) caughtUp(id int32, logEnd int64, now time.Time) bool {
	if n.end(id) == logEnd {
		return true
	}
	last, ok := n.began, n.inSyncAt[id]
	seen := int64(-1)
	for i, f := range n.fetches[id] {
		switch {
		case f.offset >= f.leaderAt:
			last, ok = f.at, true
		case f.offset >= seen && i > 0 && (!ok || n.fetches[id][i-1].at.After(last)):
			last, ok = n.fetches[id][i-1].at, true
		}
		seen = max(seen, f.leaderAt)
	}
	return ok && now.Sub(last) <= n.lag
}

func (n *naive) eligible(id int32) bool {
	fs := n.fetches[id]
	b := n.brokers[id]
	return len(fs) > 0 && b.Alive && !b.ShuttingDown && fs[len(fs)-1].epoch == b.Epoch
}

func (n *naive) advance(logEnd, hw int64, now time.Time) int64 {
	if len(n.committed)+1 < min(n.min, len(n.replicas)+1) {
		return hw
	}
	lowest := logEnd
	for _, id := range n.replicas {
		if n.maximal[id] || n.caughtUp(id, logEnd, now) && n.eligible(id) {
			lowest = min(lowest, n.end(id))
		}
	}
	return max(hw, lowest)
}

func (n *naive) join(id int32, hw int64) bool {
	return !n.pending && !n.committed[id] && n.eligible(id) && n.end(id) >= hw && n.end(id) >= n.start
}

func (n *naive) late(logEnd int64, now time.Time) (out []int32) {
	for _, id := range n.replicas {
		if !n.pending && n.committed[id] && !n.caughtUp(id, logEnd, now) {
			out = append(out, id)
		}
	}
	return out
}

func brokersOf(p *Proposal) (out []int32) {
	for _, m := range p.ISR {
		out = append(out, m.Broker)
	}
	return out
}

func set(ids []int32) map[int32]bool {
	m := map[int32]bool{}
	for _, id := range ids {
		m[id] = id != 1
	}
	delete(m, 1)
	return m
}

func TestAgreesWithADumbModel(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 0))
		run := newRunner()
		end, hw := r.Int64N(20), int64(0)
		n := &naive{
			replicas: []int32{2, 3, 4}, committed: set([]int32{2, 3}), maximal: set([]int32{2, 3}), inSyncAt: set([]int32{2, 3}),
			began: run.now, fetches: map[int32][]naiveFetch{}, brokers: run.brokers, lag: run.o.Lag, start: end, min: 1 + r.IntN(4),
		}
		a := Assignment{LeaderEpoch: 1, PartitionEpoch: 1, Replicas: []Replica{{1, 1}, {2, 1}, {3, 1}, {4, 1}}, ISR: []int32{1, 2, 3}}
		l := New(&run.o, int32(n.min), a, end, run.now)
		part := int32(1)
		for step := range 150 {
			id := int32(2 + r.IntN(3))
			var p *Proposal
			switch r.IntN(8) {
			case 0:
				end += r.Int64N(5)
			case 1:
				run.now = run.now.Add(time.Duration(r.IntN(20)) * time.Second)
			case 2:
				late := n.late(end, run.now)
				p = l.Tick(end, run.now)
				require.Equal(t, late != nil, p != nil, "seed %d step %d", seed, step)
				for _, id := range late {
					require.NotContains(t, brokersOf(p), id, "seed %d step %d", seed, step)
				}
			case 3:
				b := run.brokers[id]
				b.Alive, b.ShuttingDown = r.IntN(4) > 0, r.IntN(6) == 0
				if r.IntN(4) == 0 {
					b.Epoch++
				}
				run.brokers[id] = b
			case 4:
				if q := l.Pending(); q != nil {
					part += n.settle(t, l, q, r, part)
				}
			default:
				// Requests are read before they are noted, so the log end may be one of a moment ago.
				f := naiveFetch{run.now, min(end, max(0, n.end(id))+r.Int64N(6)), max(0, end-r.Int64N(3)), run.brokers[id].Epoch}
				n.fetches[id] = append(n.fetches[id], f)
				join := n.join(id, hw)
				var err error
				p, err = l.Fetched(Fetch{Replica: id, Incarnation: 1, BrokerEpoch: f.epoch, Offset: f.offset}, f.leaderAt, hw, run.now)
				require.NoError(t, err)
				require.Equal(t, join, p != nil, "seed %d step %d", seed, step)
			}
			if p != nil {
				n.pending = true
				for _, id := range brokersOf(p) {
					n.maximal[id] = true
				}
			}
			got := l.Advance(end, hw, run.now)
			require.Equal(t, n.advance(end, hw, run.now), got, "seed %d step %d", seed, step)
			hw = got
		}
	}
}

// settle answers the pending proposal and returns by how much the partition epoch grew.
func (n *naive) settle(t *testing.T, l *Leader, p *Proposal, r *rand.Rand, part int32) int32 {
	t.Helper()
	if r.IntN(3) == 0 {
		l.Answer(p.ID, Answer{Err: kerr.IneligibleReplica})
		n.pending, n.maximal = false, set(l.ISR())
		return 0
	}
	isr := brokersOf(p)
	_, changed := l.Answer(p.ID, Answer{LeaderEpoch: 1, PartitionEpoch: part + 1, ISR: isr})
	require.True(t, changed)
	n.pending, n.committed, n.maximal = false, set(isr), set(isr)
	require.True(t, slices.Equal(isr, l.ISR()))
	return 1
}

func TestNoAllocationPerAppend(t *testing.T) {
	for _, replicas := range [][]Replica{{{1, 1}}, {{1, 1}, {2, 1}, {3, 1}}} {
		run := newRunner()
		a := Assignment{LeaderEpoch: 1, Replicas: replicas, ISR: []int32{1}}
		for _, r := range replicas[1:] {
			a.ISR = append(a.ISR, r.ID)
		}
		l := New(&run.o, 1, a, 0, run.now)
		end, hw := int64(0), int64(0)
		require.Zero(t, testing.AllocsPerRun(100, func() {
			end++
			for _, r := range replicas[1:] {
				p, err := l.Fetched(Fetch{Replica: r.ID, Incarnation: 1, BrokerEpoch: int64(r.ID) * 10, Offset: end}, end, hw, run.now)
				if p != nil || err != nil {
					t.Fatal(p, err)
				}
			}
			hw = l.Advance(end, hw, run.now)
		}))
		require.Equal(t, end, hw)
	}
}

func TestFollowerHighWatermark(t *testing.T) {
	require.Equal(t, int64(5), FollowerHighWatermark(5, 9))
	require.Equal(t, int64(4), FollowerHighWatermark(5, 4))
}

func TestFollowersCanBeLeftEarly(t *testing.T) {
	run := newRunner()
	l := New(&run.o, 1, Assignment{LeaderEpoch: 1, Replicas: []Replica{{1, 1}, {2, 1}, {3, 1}}, ISR: []int32{1}}, 0, run.now)
	for f := range l.Followers(run.now) {
		require.Equal(t, int32(2), f.ID)
		break
	}
}
