package controller

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kbroker/kbroker/config"
	"github.com/kbroker/kbroker/internal/metadata"
	"github.com/kbroker/kbroker/internal/model"
	"github.com/kbroker/kbroker/internal/quorum"
	"github.com/kbroker/kbroker/internal/vfs/memfs"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// node is a controller on a quorum of one.
type node struct {
	*Controller
	t      *testing.T
	q      *quorum.Quorum
	cancel context.CancelFunc
	ended  chan error
}

func options(q Quorum, cfg *config.Config) Options {
	return Options{
		Quorum: q, Config: cfg, NodeID: 1, ClusterID: testCluster, Rand: rand.New(rand.NewPCG(1, 1)),
		Voters: []Voter{{ID: 1, Directory: model.UUID{1}, Listeners: []metadata.Listener{{Name: "CONTROLLER", Host: "h", Port: 9093}}}},
	}
}

func startNode(t *testing.T, disk *memfs.FS, cfg *config.Config) *node {
	t.Helper()
	q, err := quorum.Open(quorum.Options{FS: disk, Dir: "/meta", NodeID: 1, Voters: []int32{1}})
	require.NoError(t, err)
	c, err := New(options(q, cfg))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	n := &node{Controller: c, t: t, q: q, cancel: cancel, ended: make(chan error, 2)}
	go func() { n.ended <- q.Run(ctx) }()
	go func() { n.ended <- c.Run(ctx) }()
	return n
}

func (n *node) stop() {
	n.t.Helper()
	n.cancel()
	require.NoError(n.t, <-n.ended)
	require.NoError(n.t, <-n.ended)
}

func handle[R kmsg.Response](n *node, req kmsg.Request) R {
	n.t.Helper()
	resp, err := n.Handle(n.t.Context(), Caller{Broker: 1}, req)
	require.NoError(n.t, err)
	return resp.(R)
}

func (n *node) join(id int32, life byte) {
	n.t.Helper()
	r := handle[*kmsg.BrokerRegistrationResponse](n, registration(id, life))
	require.Zero(n.t, r.ErrorCode)
	require.False(n.t, n.heartbeat(id).IsFenced)
}

func (n *node) heartbeat(id int32) *kmsg.BrokerHeartbeatResponse {
	n.t.Helper()
	h := kmsg.NewPtrBrokerHeartbeatRequest()
	h.BrokerID, h.BrokerEpoch, h.CurrentMetadataOffset = id, n.q.Image().Broker(id).Epoch, n.q.Image().Offset()
	return handle[*kmsg.BrokerHeartbeatResponse](n, h)
}

func TestFirstStartWritesTheBasics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		disk := memfs.New()
		n := startNode(t, disk, config.Default())
		n.join(1, 1)
		require.Zero(t, time.Since(begin), "a new node needs no timeout to get going")
		img := n.q.Image()
		require.Equal(t, testCluster, img.ClusterID())
		require.Equal(t, int16(33), img.Feature(metadata.FeatureMetadataVersion))
		require.Equal(t, map[string]string{minISRKey: "1"}, img.Config(metadata.ResourceBroker, ""))
		got := handle[*kmsg.CreateTopicsResponse](n, createRequest(topicRequest("t", 3, 1)))
		require.Zero(t, got.Topics[0].ErrorCode)
		require.Len(t, n.q.Image().Topic("t").Partitions, 3, "C4: the answer comes after the commit")
		n.stop()

		n = startNode(t, disk, config.Default())
		n.join(1, 2) // the same broker in a new process, at once
		require.Equal(t, img.ClusterID(), n.q.Image().ClusterID())
		require.Equal(t, int32(1), n.q.Image().Topic("t").Partitions[0].Leader)
		n.stop()
		require.Empty(t, disk.OpenFiles())
	})
}

func TestAnotherClustersLogEndsRun(t *testing.T) {
	disk := memfs.New()
	n := startNode(t, disk, config.Default())
	n.join(1, 1)
	n.stop()
	q, err := quorum.Open(quorum.Options{FS: disk, Dir: "/meta", NodeID: 1, Voters: []int32{1}})
	require.NoError(t, err)
	o := options(q, config.Default())
	o.ClusterID = "other"
	c, err := New(o)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	quorumEnded := make(chan error, 1)
	go func() { quorumEnded <- q.Run(ctx) }()
	require.ErrorContains(t, c.Run(ctx), "belongs to cluster "+testCluster)
	cancel()
	require.NoError(t, <-quorumEnded)
	_, err = c.Handle(context.Background(), Caller{}, createRequest())
	require.ErrorIs(t, err, errClosed)
}

// A client that creates a topic and uses it at once must not meet a broker that has not heard of it.
func TestChangesAreVisibleWhenAnswered(t *testing.T) {
	n := startNode(t, memfs.New(), config.Default())
	seen := map[string]bool{}
	n.q.Subscribe(func(img *metadata.Image, d *metadata.Delta) {
		for _, x := range d.Topics {
			seen[x.Topic().Name] = x.New != nil
		}
	})
	n.join(1, 1)
	for i := range 20 {
		name := fmt.Sprint("t", i)
		handle[*kmsg.CreateTopicsResponse](n, createRequest(topicRequest(name, 1, 1)))
		require.True(t, seen[name])
		again := handle[*kmsg.CreateTopicsResponse](n, createRequest(topicRequest(name, 1, 1)))
		require.Equal(t, kerr.TopicAlreadyExists.Code, again.Topics[0].ErrorCode)
	}
	n.stop()
}

func TestManyCallersAtOnce(t *testing.T) {
	n := startNode(t, memfs.New(), config.Default())
	n.join(1, 1)
	var wg sync.WaitGroup
	var mu sync.Mutex
	codes := map[int16]int{}
	ids := map[int64]bool{}
	for i := range 200 {
		wg.Add(2)
		go func() {
			defer wg.Done()
			r := handle[*kmsg.CreateTopicsResponse](n, createRequest(topicRequest(fmt.Sprint("t", i%50), 2, 1)))
			mu.Lock()
			defer mu.Unlock()
			codes[r.Topics[0].ErrorCode]++
		}()
		go func() {
			defer wg.Done()
			a := kmsg.NewPtrAllocateProducerIDsRequest()
			a.BrokerID, a.BrokerEpoch = 1, n.q.Image().Broker(1).Epoch
			r := handle[*kmsg.AllocateProducerIDsResponse](n, a)
			mu.Lock()
			defer mu.Unlock()
			ids[r.ProducerIDStart] = true
		}()
	}
	wg.Wait()
	require.Equal(t, map[int16]int{0: 50, kerr.TopicAlreadyExists.Code: 150}, codes)
	require.Len(t, ids, 200, "no block twice")
	n.stop()
}

// C5, through the loop's timer and in virtual time.
func TestSilentBrokersAreFenced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := startNode(t, memfs.New(), config.Default())
		n.join(1, 1)
		n.join(2, 1)
		n.join(3, 1)
		handle[*kmsg.CreateTopicsResponse](n, createRequest(assigned("t", []int32{2, 3, 1})))
		for range 6 {
			time.Sleep(2 * time.Second)
			n.heartbeat(3)
		}
		img := n.q.Image()
		require.True(t, img.Broker(2).Fenced, "silent for 12 s")
		require.False(t, img.Broker(3).Fenced)
		require.False(t, img.Broker(1).Fenced, "the broker of this process is never silent")
		p := img.Topic("t").Partitions[0]
		require.Equal(t, int32(3), p.Leader)
		require.Equal(t, []int32{3, 1}, p.ISR)
		require.False(t, n.heartbeat(2).IsFenced, "and comes back with its next heartbeat")
		n.stop()
	})
}

// An idle cluster of one node has nothing to watch and must not run timers (the bubble would spin for ten years).
func TestIdleControllerSleeps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := startNode(t, memfs.New(), config.Default())
		n.join(1, 1)
		time.Sleep(87600 * time.Hour)
		require.False(t, n.q.Image().Broker(1).Fenced)
		n.stop()
	})
}

func TestDynamicConfigsReachDecisions(t *testing.T) {
	n := startNode(t, memfs.New(), config.Default())
	n.join(1, 1)
	r := kmsg.NewPtrIncrementalAlterConfigsRequest()
	res := kmsg.NewIncrementalAlterConfigsRequestResource()
	res.ResourceType = kmsg.ConfigResourceTypeBroker
	c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	value := "7"
	c.Name, c.Value = "log.retention.ms", &value
	res.Configs = append(res.Configs, c)
	r.Resources = append(r.Resources, res)
	require.Zero(t, handle[*kmsg.IncrementalAlterConfigsResponse](n, r).Resources[0].ErrorCode)
	got := handle[*kmsg.CreateTopicsResponse](n, createRequest(topicRequest("t", 1, 1)))
	for _, c := range got.Topics[0].Configs {
		if c.Name == "retention.ms" {
			require.Equal(t, []any{"7", int8(kmsg.ConfigSourceDynamicDefaultBrokerConfig)}, []any{*c.Value, c.Source})
		}
	}
	n.stop()
}

func TestDescribeQuorum(t *testing.T) {
	n := startNode(t, memfs.New(), config.Default())
	n.join(1, 1)
	r := kmsg.NewPtrDescribeQuorumRequest()
	r.Version = 2
	for _, name := range []string{model.ClusterMetadataTopic, "x"} {
		rt := kmsg.NewDescribeQuorumRequestTopic()
		rt.Topic = name
		p := kmsg.NewDescribeQuorumRequestTopicPartition()
		rt.Partitions = append(rt.Partitions, p)
		p.Partition = 3
		rt.Partitions = append(rt.Partitions, p)
		r.Topics = append(r.Topics, rt)
	}
	got := handle[*kmsg.DescribeQuorumResponse](n, r)
	require.Zero(t, got.ErrorCode)
	p := got.Topics[0].Partitions[0]
	require.Equal(t, []any{int16(0), int32(1), n.q.Image().Offset() + 1}, []any{p.ErrorCode, p.LeaderID, p.HighWatermark})
	require.Len(t, p.CurrentVoters, 1)
	require.Equal(t, [16]byte{1}, p.CurrentVoters[0].ReplicaDirectoryID)
	require.Positive(t, p.CurrentVoters[0].LastCaughtUpTimestamp)
	for _, o := range []kmsg.DescribeQuorumResponseTopicPartition{got.Topics[0].Partitions[1], got.Topics[1].Partitions[0]} {
		require.Equal(t, answer{3, "This server does not host this topic-partition."}, answer{o.ErrorCode, deref(o.ErrorMessage)})
	}
	require.Equal(t, "h", got.Nodes[0].Listeners[0].Host)
	r.Topics = nil
	require.Empty(t, handle[*kmsg.DescribeQuorumResponse](n, r).Nodes)
	n.stop()
}

func TestRequestsThatNobodyDecides(t *testing.T) {
	n := startNode(t, memfs.New(), config.Default())
	n.join(1, 1)
	_, err := n.Handle(t.Context(), Caller{}, kmsg.NewPtrProduceRequest())
	require.ErrorIs(t, err, kerr.UnsupportedVersion)
	n.stop()
	_, err = n.Handle(t.Context(), Caller{}, createRequest())
	require.Error(t, err)
	require.ErrorContains(t, n.Run(t.Context()), "before")
}

func TestOptionsAreChecked(t *testing.T) {
	_, err := New(Options{})
	for _, what := range []string{"quorum", "configuration", "cluster id", "random numbers"} {
		require.ErrorContains(t, err, "no "+what)
	}
}

// fakeQuorum commits what it is told to, when it is told to.
type fakeQuorum struct {
	mu struct {
		sync.Mutex
		img    *metadata.Image
		leader quorum.Leadership
		queue  []fakeBatch
	}
	watch    func()
	submits  chan struct{}
	queueing error
}

type fakeBatch struct {
	turn    quorum.Turn
	records []metadata.Record
	done    func(int64, error)
}

func newFakeQuorum() *fakeQuorum {
	f := &fakeQuorum{submits: make(chan struct{}, 100)}
	f.mu.img = metadata.Empty()
	f.mu.leader = quorum.Leadership{LeaderID: -1}
	return f
}

func (f *fakeQuorum) Image() *metadata.Image {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mu.img
}

func (f *fakeQuorum) Leadership() quorum.Leadership {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mu.leader
}

func (f *fakeQuorum) lead(l quorum.Leadership) {
	f.mu.Lock()
	f.mu.leader = l
	f.mu.Unlock()
	f.watch()
}

func (f *fakeQuorum) Voters() []int32                            { return []int32{1, 2, 3} }
func (f *fakeQuorum) Watch(fn func())                            { f.watch = fn }
func (f *fakeQuorum) WaitPublished(context.Context, int64) error { return nil }
func (f *fakeQuorum) Describe(context.Context) (quorum.Description, error) {
	return quorum.Description{}, nil
}

func (f *fakeQuorum) Submit(_ context.Context, turn quorum.Turn, records []metadata.Record, done func(int64, error)) error {
	if f.queueing != nil {
		return f.queueing
	}
	f.mu.Lock()
	f.mu.queue = append(f.mu.queue, fakeBatch{turn, records, done})
	f.mu.Unlock()
	f.submits <- struct{}{}
	return nil
}

// take returns the oldest batch.
func (f *fakeQuorum) take() fakeBatch {
	f.mu.Lock()
	defer f.mu.Unlock()
	b := f.mu.queue[0]
	f.mu.queue = f.mu.queue[1:]
	return b
}

func (f *fakeQuorum) commit(t *testing.T) quorum.Turn {
	t.Helper()
	b := f.take()
	f.mu.Lock()
	next, _, err := f.mu.img.Apply(b.records)
	require.NoError(t, err)
	f.mu.img = next
	f.mu.Unlock()
	b.done(1, nil)
	return b.turn
}

// C4: decisions run ahead, answers do not. A refused batch takes everything after it along, and the loop goes on from
// what is committed, with the number of the refused one.
func TestRefusedBatchTakesLaterDecisionsAlong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeQuorum()
		c, err := New(options(f, config.Default()))
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- c.Run(ctx) }()

		type result struct {
			code int16
			err  error
		}
		create := func(name string) chan result {
			out := make(chan result, 1)
			go func() {
				resp, err := c.Handle(ctx, Caller{}, createRequest(topicRequest(name, 1, 1)))
				if err != nil {
					out <- result{err: err}
					return
				}
				out <- result{code: resp.(*kmsg.CreateTopicsResponse).Topics[0].ErrorCode}
			}()
			synctest.Wait()
			return out
		}
		early := create("early") // waits for a leader
		f.lead(quorum.Leadership{LeaderID: 1, Epoch: 5, Active: true})
		synctest.Wait()
		require.Equal(t, quorum.Turn{Epoch: 5, Number: 1}, f.commit(t), "the bootstrap")
		synctest.Wait()
		require.Equal(t, kerr.InvalidReplicationFactor.Code, (<-early).code, "decided after the bootstrap: no broker yet")

		register := make(chan error, 1)
		go func() {
			_, err := c.Handle(ctx, Caller{}, registration(2, 1))
			register <- err
		}()
		synctest.Wait()
		require.Equal(t, uint64(2), f.commit(t).Number)
		require.NoError(t, <-register)
		heartbeat := kmsg.NewPtrBrokerHeartbeatRequest()
		heartbeat.BrokerID, heartbeat.BrokerEpoch, heartbeat.CurrentMetadataOffset = 2, 1, 100
		beat := make(chan error, 1)
		go func() {
			_, err := c.Handle(ctx, Caller{}, heartbeat)
			beat <- err
		}()
		synctest.Wait()
		require.Equal(t, uint64(3), f.commit(t).Number)
		require.NoError(t, <-beat)

		first, second := create("a"), create("b")
		seesFirst := create("a") // sees a, which is not committed
		require.Empty(t, first)
		require.Empty(t, seesFirst)
		lost := f.take()
		require.Equal(t, uint64(4), lost.turn.Number)
		lost.done(-1, quorum.ErrNotLeader)
		late := f.take()
		require.Equal(t, uint64(5), late.turn.Number)
		late.done(-1, quorum.ErrNotLeader)
		for _, r := range []chan result{first, second, seesFirst} {
			require.ErrorIs(t, (<-r).err, kerr.NotController)
		}
		again := create("a")
		require.Equal(t, uint64(4), f.commit(t).Number)
		require.Equal(t, result{}, <-again)

		f.lead(quorum.Leadership{LeaderID: 2, Epoch: 6})
		synctest.Wait()
		require.ErrorIs(t, (<-create("c")).err, kerr.NotController)
		f.lead(quorum.Leadership{LeaderID: 1, Epoch: 7, Active: true})
		synctest.Wait()
		next := create("d")
		require.Equal(t, quorum.Turn{Epoch: 7, Number: 1}, f.commit(t), "numbers start again with the epoch; nothing to bootstrap")
		require.Equal(t, result{}, <-next)

		f.queueing = errors.New("no room")
		require.ErrorContains(t, (<-create("e")).err, "no room")
		f.queueing = nil
		fine := create("e")
		require.Equal(t, uint64(2), f.commit(t).Number)
		require.Equal(t, result{}, <-fine)

		f.lead(quorum.Leadership{LeaderID: -1, Epoch: 8})
		short, stop := context.WithTimeout(ctx, time.Second)
		defer stop()
		_, err = c.Handle(short, Caller{}, createRequest())
		require.ErrorIs(t, err, context.DeadlineExceeded, "nobody leads: retry later")
		cancel()
		require.NoError(t, <-ended)
	})
}

// Decisions stop running ahead at maxOutstanding batches.
func TestOutstandingBatchesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeQuorum()
		f.submits = make(chan struct{}, 10*maxOutstanding)
		c, err := New(options(f, config.Default()))
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- c.Run(ctx) }()
		f.lead(quorum.Leadership{LeaderID: 1, Epoch: 1, Active: true})
		for i := range 2 * maxOutstanding {
			go func() { _, _ = c.Handle(ctx, Caller{}, registration(int32(i+1), 1)) }()
		}
		synctest.Wait()
		require.Len(t, f.submits, maxOutstanding)
		f.commit(t)
		synctest.Wait()
		require.Len(t, f.submits, maxOutstanding+1)
		cancel()
		require.NoError(t, <-ended)
	})
}
