package quorum

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kbroker/kbroker/internal/metadata"
	"github.com/kbroker/kbroker/internal/model"
	"github.com/kbroker/kbroker/internal/vfs/memfs"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// network carries messages between the nodes of a test, after a delay, unless they are cut off or unlucky.
type network struct {
	mu struct {
		sync.Mutex
		nodes map[int32]*Quorum
		cut   map[int32]bool
		rng   *rand.Rand
		// lossPercent of the messages are lost, as many are sent twice.
		lossPercent int
	}
	delay time.Duration
	wg    sync.WaitGroup
}

func newNetwork() *network {
	n := &network{delay: time.Millisecond}
	n.mu.nodes, n.mu.cut = map[int32]*Quorum{}, map[int32]bool{}
	n.mu.rng = rand.New(rand.NewPCG(1, 1))
	return n
}

func (n *network) isolate(id int32, cut bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.mu.cut[id] = cut
}

// copies returns how often a message arrives.
func (n *network) copies(from, to int32) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.mu.cut[from] || n.mu.cut[to]:
		return 0
	case n.mu.rng.IntN(100) < n.mu.lossPercent:
		return 0
	case n.mu.rng.IntN(100) < n.mu.lossPercent:
		return 2
	}
	return 1
}

// wire is one node's transport.
type wire struct {
	n    *network
	from int32
}

func (w wire) Send(ms []*pb.Message) {
	for _, m := range ms {
		to := nodeOf(m.GetTo())
		b, err := proto.Marshal(m)
		if err != nil {
			panic(err)
		}
		copies := w.n.copies(w.from, to)
		w.n.wg.Add(1)
		go func() {
			defer w.n.wg.Done()
			time.Sleep(w.n.delay)
			w.n.mu.Lock()
			from, target := w.n.mu.nodes[w.from], w.n.mu.nodes[to]
			w.n.mu.Unlock()
			for range copies {
				c := &pb.Message{}
				if err := proto.Unmarshal(b, c); err != nil {
					panic(err)
				}
				if target != nil {
					target.Step(c)
				}
			}
			if m.GetType() == pb.MsgSnap && from != nil {
				from.ReportSnapshot(to, copies > 0 && target != nil)
			}
			if copies == 0 && from != nil {
				from.ReportUnreachable(to)
			}
		}()
	}
}

// cluster is a set of nodes in a bubble.
type cluster struct {
	t     *testing.T
	net   *network
	disks map[int32]*memfs.FS
	nodes map[int32]*node
	tune  func(o *Options)
}

func newCluster(t *testing.T, size int, tune func(o *Options)) *cluster {
	c := &cluster{t: t, net: newNetwork(), disks: map[int32]*memfs.FS{}, nodes: map[int32]*node{}, tune: tune}
	var voters []int32
	for i := range size {
		voters = append(voters, int32(i))
	}
	for _, id := range voters {
		c.disks[id] = newDisk(t)
		c.start(id, voters...)
	}
	return c
}

func (c *cluster) start(id int32, voters ...int32) *node {
	c.t.Helper()
	o := Options{FS: c.disks[id], Dir: dir, NodeID: id, Voters: voters, Transport: wire{c.net, id}}
	if c.tune != nil {
		c.tune(&o)
	}
	q, err := Open(o)
	require.NoError(c.t, err)
	c.net.mu.Lock()
	c.net.mu.nodes[id] = q
	c.net.mu.Unlock()
	c.nodes[id] = run(c.t, q)
	return c.nodes[id]
}

// kill ends a node and brings its disk into the state that a power failure could leave.
func (c *cluster) kill(id int32, seed uint64) {
	c.t.Helper()
	c.net.mu.Lock()
	delete(c.net.mu.nodes, id)
	c.net.mu.Unlock()
	c.nodes[id].stop()
	delete(c.nodes, id)
	c.disks[id] = c.disks[id].CrashClone(seed, 50)
}

func (c *cluster) stop() {
	for _, id := range slices.Sorted(keysOf(c.nodes)) {
		c.nodes[id].stop()
	}
	c.net.wg.Wait()
}

func keysOf[V any](m map[int32]V) func(func(int32) bool) {
	return func(yield func(int32) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// leader waits for an active node that the network reaches.
func (c *cluster) leader() *node {
	c.t.Helper()
	for range 300 {
		for _, id := range slices.Sorted(keysOf(c.nodes)) {
			c.net.mu.Lock()
			cut := c.net.mu.cut[id]
			c.net.mu.Unlock()
			if !cut && c.nodes[id].Leadership().Active {
				return c.nodes[id]
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
	c.t.Fatal("no leader after 30 s")
	return nil
}

// followers returns the nodes other than the leader, by id.
func (c *cluster) followers(leader *node) []*node {
	var ns []*node
	for _, id := range slices.Sorted(keysOf(c.nodes)) {
		if c.nodes[id] != leader {
			ns = append(ns, c.nodes[id])
		}
	}
	return ns
}

// agree waits until all nodes have the same image and have published it.
func (c *cluster) agree() {
	c.t.Helper()
	for range 300 {
		var offsets []int64
		for n := range c.nodes {
			offsets = append(offsets, c.nodes[n].Image().Offset())
		}
		if slices.Min(offsets) == slices.Max(offsets) && slices.Min(offsets) >= 0 {
			l := c.leader()
			for _, f := range c.nodes {
				require.Equal(c.t, confs(l.Image()), confs(f.Image()))
				require.NoError(c.t, f.WaitPublished(c.t.Context(), f.Image().Offset()))
			}
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	c.t.Fatal("the nodes do not agree after 30 s")
}

func TestThreeNodesReplicate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3, nil)
		l := c.leader()
		for i := range 20 {
			l.propose(batch(i)...)
		}
		c.agree()
		require.Len(t, confs(l.Image()), 20)
		for _, f := range c.followers(l) {
			f.caught()
			_, err := f.Propose(t.Context(), batch(0))
			require.ErrorIs(t, err, kerr.NotController)
			id, epoch := f.Leader()
			require.Equal(t, []int32{l.opts.NodeID, l.Leadership().Epoch}, []int32{id, epoch})
		}
		d, err := l.Describe(t.Context())
		require.NoError(t, err)
		require.Len(t, d.Voters, 3)
		for _, v := range d.Voters {
			require.Equal(t, d.HighWatermark, v.LogEndOffset, "voter %d", v.ID)
			require.False(t, v.LastFetch.IsZero())
			require.False(t, v.LastCaughtUp.IsZero())
		}
		c.stop()
	})
}

// The leader loses the network: the others elect one within two election timeouts, it steps down, what it could not
// commit is answered and comes to nothing.
func TestLeaderLosesTheNetwork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3, nil)
		old := c.leader()
		old.propose(conf("before", "1"))
		c.net.isolate(old.opts.NodeID, true)
		lost := make(chan error, 1)
		go func() {
			_, err := old.Propose(t.Context(), []metadata.Record{conf("lost", "1")})
			lost <- err
		}()
		begin := time.Now()
		next := c.leader()
		require.NotSame(t, old, next)
		require.LessOrEqual(t, time.Since(begin), 3*time.Second)
		require.ErrorIs(t, <-lost, ErrNotLeader)
		require.False(t, old.Leadership().Active)
		next.propose(conf("after", "1"))
		c.net.isolate(old.opts.NodeID, false)
		c.agree()
		require.Equal(t, map[string]string{"before": "1", "after": "1"}, confs(old.Image()))
		require.Same(t, next, c.leader(), "PreVote: the returning node disturbs nobody")
		c.stop()
	})
}

func TestMinorityCommitsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3, nil)
		l := c.leader()
		l.propose(conf("before", "1"))
		for _, f := range c.followers(l) {
			c.net.isolate(f.opts.NodeID, true)
		}
		time.Sleep(5 * time.Second)
		require.False(t, l.Leadership().Active, "CheckQuorum")
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		_, err := l.Propose(ctx, batch(1))
		cancel()
		require.ErrorIs(t, err, kerr.NotController)
		for _, f := range c.followers(l) {
			c.net.isolate(f.opts.NodeID, false)
		}
		c.leader().propose(conf("after", "1"))
		c.agree()
		c.stop()
	})
}

// A node that was away for longer than the log reaches back gets a snapshot, and its subscribers see one step.
func TestLongAbsentNodeGetsASnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3, func(o *Options) { o.SnapshotBytes = 500 })
		l := c.leader()
		away := c.followers(l)[0]
		r := newRecorder(t)
		away.Subscribe(r.see)
		l.propose(&metadata.TopicRecord{Name: "kept", ID: model.UUID{1}})
		l.propose(&metadata.TopicRecord{Name: "deleted", ID: model.UUID{2}})
		c.agree()
		c.net.isolate(away.opts.NodeID, true)
		l.propose(&metadata.RemoveTopicRecord{ID: model.UUID{2}})
		for i := range 60 {
			l.propose(batch(i)...)
			settle(l.Quorum)
		}
		c.net.isolate(away.opts.NodeID, false)
		c.agree()
		require.NotEmpty(t, files(t, c.disks[away.opts.NodeID], snapshotSuffix))
		require.Len(t, confs(away.Image()), 60)
		require.NotNil(t, r.img.Topic("kept"))
		require.Nil(t, r.img.Topic("deleted"))
		require.Less(t, r.calls, 60)

		// It can restart from what it was given, and go on.
		id := away.opts.NodeID
		c.kill(id, 1)
		c.start(id, 0, 1, 2)
		c.leader().propose(conf("end", "1"))
		c.agree()
		c.stop()
	})
}

// A snapshot of the leader that was stored while the log did not know yet replaces the log at the next start, unless the
// log leads up to it.
func TestCrashBetweenSnapshotAndLog(t *testing.T) {
	for name, tc := range map[string]struct {
		at   position
		want int // configs
	}{
		"beyond the log":   {position{50, 3}, 7},
		"another history":  {position{4, 9}, 7},
		"the same history": {position{4, 1}, 7 + 6}, // entries 5 to 10 are applied to it
	} {
		t.Run(name, func(t *testing.T) {
			fsys := newDisk(t)
			require.NoError(t, fsys.MkdirAll(dir, 0o755))
			w, _, _, err := openWAL(fsys, dir, 0)
			require.NoError(t, err)
			log := &appended{hard: hardState(1, 1, 2)}
			for i := range 10 {
				data := string(metadata.AppendBatch(nil, batch(i)))
				log.entries = append(log.entries, entries(uint64(i+1), 1, data)...)
			}
			require.NoError(t, w.roll(log))
			require.NoError(t, w.close())
			b := metadata.NewBuilder(metadata.Empty())
			for i := range 7 {
				require.NoError(t, b.Apply(batch(100 + i)[0]))
			}
			img, _ := b.Build()
			_, err = writeSnapshot(fsys, dir, &snapshot{position: tc.at, conf: confState(0), image: img})
			require.NoError(t, err)
			for range 2 {
				n := start(t, single(fsys)).caught()
				require.Len(t, confs(n.Image()), tc.want)
				require.GreaterOrEqual(t, n.Leadership().Epoch, int32(tc.at.term))
				n.propose(conf("key-100", "again")) // the log goes on behind the snapshot
				n.stop()
			}
		})
	}
}

func TestMembersChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1, nil)
		l := c.leader()
		for i := range 5 {
			l.propose(batch(i)...)
		}
		for _, id := range []int32{1, 2} {
			c.disks[id] = newDisk(t)
			c.start(id) // knows no members: waits to be added
			_, err := l.ChangeMembers(t.Context(), []int32{id}, nil)
			require.NoError(t, err)
		}
		require.Equal(t, []int32{0, 1, 2}, l.Voters())
		c.agree()
		c.kill(0, 3)
		next := c.leader()
		next.propose(conf("without 0", "1"))
		_, err := next.ChangeMembers(t.Context(), nil, []int32{0})
		require.NoError(t, err)
		require.Equal(t, []int32{1, 2}, next.Voters())
		c.agree()

		// Two changes at once are one too many. The one that is refused must say so and change nothing.
		errs := make(chan error, 2)
		for _, id := range []int32{5, 6} {
			go func() {
				_, err := next.ChangeMembers(t.Context(), []int32{id}, nil)
				errs <- err
			}()
		}
		first, second := <-errs, <-errs
		require.ErrorContains(t, errors.Join(first, second), "another change of its members is in progress")
		require.True(t, first == nil || second == nil)
		require.Len(t, next.Voters(), 3)
		c.stop()
	})
}

// A node whose log says that it is alone leads at once, also when it was not always alone.
func TestLastMemberRestartsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2, nil)
		l := c.leader()
		other := c.followers(l)[0]
		_, err := l.ChangeMembers(t.Context(), nil, []int32{other.opts.NodeID})
		require.NoError(t, err)
		id := l.opts.NodeID
		other.stop()
		delete(c.nodes, other.opts.NodeID)
		c.kill(id, 1)
		n := c.start(id)
		n.caught()
		require.True(t, n.Leadership().Active)
		n.propose(batch(1)...)
		time.Sleep(time.Hour)
		c.stop()
	})
}

// Nodes crash, restart, lose the network and messages, in a random order. What was acknowledged stays, in the order it
// was acknowledged; in the end everybody agrees.
func TestRandomFaults(t *testing.T) {
	for seed := range uint64(3) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { randomFaults(t, seed) })
		})
	}
}

func randomFaults(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 99))
	c := newCluster(t, 3, func(o *Options) { o.SnapshotBytes = 2000 })
	c.net.mu.Lock()
	c.net.mu.rng, c.net.mu.lossPercent = rand.New(rand.NewPCG(seed, 5)), 5
	c.net.mu.Unlock()
	offsets := map[string]int64{}
	down := int32(-1)
	for i := range 120 {
		switch n := rng.IntN(20); {
		case down < 0 && n == 0:
			down = int32(rng.IntN(3))
			c.kill(down, seed*1000+uint64(i))
		case down < 0 && n == 1:
			down = int32(rng.IntN(3))
			c.net.isolate(down, true)
		case down >= 0 && n < 4:
			c.net.isolate(down, false)
			if c.nodes[down] == nil {
				c.start(down, 0, 1, 2)
			}
			down = -1
		}
		key := fmt.Sprintf("key-%d", i)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		o, err := c.leader().Propose(ctx, []metadata.Record{conf(key, "x")})
		cancel()
		if err == nil {
			offsets[key] = o
		}
		time.Sleep(time.Duration(rng.IntN(200)) * time.Millisecond)
	}
	if down >= 0 {
		c.net.isolate(down, false)
		if c.nodes[down] == nil {
			c.start(down, 0, 1, 2)
		}
	}
	c.net.mu.Lock()
	c.net.mu.lossPercent = 0
	c.net.mu.Unlock()
	// A leader that was cut off a moment ago may not know yet that it is none any more.
	for done := false; !done; time.Sleep(100 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		_, err := c.leader().Propose(ctx, []metadata.Record{conf("end", "x")})
		done = err == nil
		cancel()
	}
	c.agree()
	require.Greater(t, len(offsets), 60, "most proposals succeed")
	last := int64(-1)
	for i := range 120 {
		key := fmt.Sprintf("key-%d", i)
		o, acknowledged := offsets[key]
		if !acknowledged {
			continue
		}
		require.Contains(t, confs(c.leader().Image()), key)
		require.Greater(t, o, last, "offsets grow in the order of acknowledgement")
		last = o
	}
	c.stop()
}

func TestForeignAndBrokenMessagesAreDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3, nil)
		l := c.leader()
		l.propose(batch(0)...)
		c.agree()
		f := c.followers(l)[0]
		term := uint64(l.Leadership().Epoch)
		to, from := raftID(f.opts.NodeID), raftID(l.opts.NodeID)
		f.Step(&pb.Message{Type: pb.MsgApp.Enum(), To: new(to + 40), From: &from, Term: &term})
		f.Step(&pb.Message{Type: pb.MsgHup.Enum(), To: &to, From: &from})
		f.Step(&pb.Message{Type: pb.MsgAppResp.Enum(), To: &to, From: new(uint64(77)), Term: &term})
		f.Step(&pb.Message{Type: pb.MsgSnap.Enum(), To: &to, From: &from, Term: &term, Snapshot: &pb.Snapshot{
			Data: []byte("not a snapshot"), Metadata: &pb.SnapshotMetadata{Index: new(uint64(900)), Term: &term, ConfState: confState(0, 1, 2)},
		}})
		l.propose(batch(1)...)
		c.agree()
		c.stop()
	})
}

// A message that breaks raft's own invariants ends the node with an error, not the process with a panic.
func TestImpossibleMessageEndsTheNodeInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3, nil)
		l := c.leader()
		f := c.followers(l)[0]
		term := uint64(l.Leadership().Epoch)
		f.Step(&pb.Message{Type: pb.MsgHeartbeat.Enum(), To: new(raftID(f.opts.NodeID)), From: new(raftID(l.opts.NodeID)), Term: &term, Commit: new(uint64(9999))})
		require.ErrorContains(t, <-f.done, "raft: tocommit(9999) is out of range")
		delete(c.nodes, f.opts.NodeID)
		c.stop()
	})
}

// strictWire refuses to carry a promise that a power failure at this moment would break (Q1).
type strictWire struct {
	wire
	t    *testing.T
	disk *memfs.FS
}

func (w strictWire) Send(ms []*pb.Message) {
	_, r, found, err := openWAL(w.disk.CrashClone(1, 0), dir, w.from)
	require.NoError(w.t, err)
	require.True(w.t, found)
	for _, m := range ms {
		switch m.GetType() {
		case pb.MsgAppResp:
			if !m.GetReject() {
				require.GreaterOrEqual(w.t, r.last(), m.GetIndex(), "acknowledged entries are durable")
			}
		case pb.MsgVoteResp:
			if !m.GetReject() {
				require.Equal(w.t, []uint64{m.GetTerm(), m.GetTo()}, []uint64{r.hard.GetTerm(), r.hard.GetVote()}, "the vote is durable")
			}
		case pb.MsgVote:
			require.Equal(w.t, []uint64{m.GetTerm(), m.GetFrom()}, []uint64{r.hard.GetTerm(), r.hard.GetVote()}, "the own vote is durable")
		default:
		}
	}
	w.wire.Send(ms)
}

func TestNothingIsPromisedBeforeItIsDurable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &cluster{t: t, net: newNetwork(), disks: map[int32]*memfs.FS{}, nodes: map[int32]*node{}}
		c.tune = func(o *Options) { o.Transport = strictWire{wire{c.net, o.NodeID}, t, c.disks[o.NodeID]} }
		for id := range int32(3) {
			c.disks[id] = newDisk(t)
			c.start(id, 0, 1, 2)
		}
		for round := range 3 {
			l := c.leader()
			for i := range 5 {
				l.propose(batch(10*round + i)...)
			}
			c.net.isolate(l.opts.NodeID, true)
			c.leader().propose(batch(10*round + 9)...)
			c.net.isolate(l.opts.NodeID, false)
			c.agree()
		}
		c.stop()
	})
}
