package quorum

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kbroker/kbroker/internal/metadata"
	"github.com/kbroker/kbroker/internal/model"
	"github.com/kbroker/kbroker/internal/vfs"
	"github.com/kbroker/kbroker/internal/vfs/memfs"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
)

const dir = "/data/__cluster_metadata-0"

// node is a running quorum of a test.
type node struct {
	*Quorum
	t      testing.TB
	cancel context.CancelFunc
	done   chan error
}

func single(fsys vfs.FS) Options {
	return Options{FS: fsys, Dir: dir, NodeID: 0, Voters: []int32{0}}
}

func start(t testing.TB, o Options) *node {
	t.Helper()
	q, err := Open(o)
	require.NoError(t, err)
	return run(t, q)
}

func run(t testing.TB, q *Quorum) *node {
	ctx, cancel := context.WithCancel(context.Background())
	n := &node{Quorum: q, t: t, cancel: cancel, done: make(chan error, 1)}
	go func() { n.done <- q.Run(ctx) }()
	t.Cleanup(func() { n.cancel() })
	return n
}

func (n *node) stop() {
	n.t.Helper()
	n.cancel()
	require.NoError(n.t, <-n.done)
}

func (n *node) caught() *node {
	n.t.Helper()
	select {
	case <-n.CaughtUp():
	case err := <-n.done:
		n.t.Fatalf("node ended before it caught up: %v", err)
	}
	return n
}

func (n *node) propose(records ...metadata.Record) int64 {
	n.t.Helper()
	o, err := n.Propose(n.t.Context(), records)
	require.NoError(n.t, err)
	return o
}

func conf(key, value string) metadata.Record {
	return &metadata.ConfigRecord{Resource: metadata.ConfigResource{Type: metadata.ResourceTopic, Name: "t"}, Key: key, Value: &value}
}

func confs(img *metadata.Image) map[string]string { return img.Config(metadata.ResourceTopic, "t") }

func files(t testing.TB, fsys vfs.FS, suffix string) []string {
	es, err := fsys.ReadDir(dir)
	require.NoError(t, err)
	var names []string
	for _, e := range es {
		if strings.HasSuffix(e.Name(), suffix) {
			names = append(names, filepath.Join(dir, e.Name()))
		}
	}
	return names
}

func TestSingleVoterLeadsAtOnceAndRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		fsys := memfs.New()
		n := start(t, single(fsys)).caught()
		require.Zero(t, time.Since(begin), "an only voter has nobody to wait for")
		require.True(t, n.Leadership().Active)
		id, epoch := n.Leader()
		require.Equal(t, int32(0), id)
		require.Equal(t, int32(2), epoch, "epoch 1 is that of the first members")

		first := n.propose(conf("a", "1"))
		require.Equal(t, first+1, n.propose(conf("b", "2")))
		require.Equal(t, map[string]string{"a": "1", "b": "2"}, confs(n.Image()))
		require.Equal(t, first+1, n.Image().Offset())
		require.Equal(t, int32(2), n.Image().Epoch())
		n.stop()
		id, _ = n.Leader()
		require.Equal(t, model.NoLeader, id)

		n = start(t, single(fsys)).caught()
		require.Equal(t, map[string]string{"a": "1", "b": "2"}, confs(n.Image()))
		_, epoch = n.Leader()
		require.Equal(t, int32(3), epoch)
		n.propose(conf("c", "3"))
		n.stop()
		require.Empty(t, fsys.OpenFiles())
	})
}

// Q7: in a bubble, time moves only when all goroutines wait. Ten years of ticks would take minutes of real time.
func TestSingleVoterDoesNotTick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := start(t, single(memfs.New())).caught()
		time.Sleep(87600 * time.Hour)
		d, err := n.Describe(t.Context())
		require.NoError(t, err)
		require.Equal(t, int32(2), d.Epoch)
		n.stop()
	})
}

func TestConcurrentProposalsShareSyncs(t *testing.T) {
	fsys := &countingFS{FS: memfs.New()}
	n := start(t, single(fsys)).caught()
	before := fsys.syncs.Load()
	// Hold the loop so that all proposals are queued when it comes back.
	hold := make(chan struct{})
	go n.try(func() { <-hold })
	var wg sync.WaitGroup
	const count = 200
	offsets := make([]int64, count)
	for i := range count {
		wg.Add(1)
		require.NoError(t, n.Submit(t.Context(), anyTurn, []metadata.Record{conf(fmt.Sprint(i), "x")}, func(o int64, err error) {
			require.NoError(t, err)
			offsets[i] = o
			wg.Done()
		}))
	}
	close(hold)
	wg.Wait()
	require.True(t, slices.IsSorted(offsets), "in the order of submission")
	require.Len(t, confs(n.Image()), count)
	require.LessOrEqual(t, fsys.syncs.Load()-before, int64(3), "200 proposals in a few syncs")
	n.stop()
}

// Q4
func TestBatchThatDoesNotFitIsRefused(t *testing.T) {
	n := start(t, single(memfs.New())).caught()
	_, err := n.Propose(t.Context(), []metadata.Record{conf("a", "1"), &metadata.RemoveTopicRecord{ID: model.UUID{1}}})
	require.ErrorIs(t, err, metadata.ErrMismatch)
	require.Empty(t, confs(n.Image()))
	n.propose(conf("b", "2"))
	require.Equal(t, map[string]string{"b": "2"}, confs(n.Image()))

	_, err = n.Propose(t.Context(), nil)
	require.ErrorContains(t, err, "empty batch")
	_, err = n.Propose(t.Context(), []metadata.Record{conf("c", strings.Repeat("x", maxBatchBytes))})
	require.ErrorIs(t, err, kerr.PolicyViolation)
	n.stop()
}

// A second batch is checked against the first even when that is not committed yet.
func TestBatchesAreCheckedAgainstThoseBeforeThem(t *testing.T) {
	n := start(t, single(memfs.New())).caught()
	hold := make(chan struct{})
	go n.try(func() { <-hold })
	topic := func(id byte) []metadata.Record {
		return []metadata.Record{&metadata.TopicRecord{Name: "t", ID: model.UUID{id}}}
	}
	errs := make(chan error, 2)
	done := func(_ int64, err error) { errs <- err }
	require.NoError(t, n.Submit(t.Context(), anyTurn, topic(1), done))
	require.NoError(t, n.Submit(t.Context(), anyTurn, topic(2), done))
	close(hold)
	require.ErrorIs(t, <-errs, metadata.ErrMismatch)
	require.NoError(t, <-errs)
	require.Equal(t, model.UUID{1}, n.Image().Topic("t").ID)
	n.stop()
}

func TestSubmitInAnotherEpoch(t *testing.T) {
	n := start(t, single(memfs.New())).caught()
	c := make(chan error, 1)
	require.NoError(t, n.Submit(t.Context(), Turn{Epoch: 7}, []metadata.Record{conf("a", "1")}, func(_ int64, err error) { c <- err }))
	err := <-c
	require.ErrorIs(t, err, ErrNotLeader)
	require.ErrorIs(t, err, kerr.NotController)
	n.stop()
	_, err = n.Propose(context.Background(), []metadata.Record{conf("a", "1")})
	require.ErrorIs(t, err, ErrClosed)
	_, err = n.Describe(context.Background())
	require.ErrorIs(t, err, ErrClosed)
	require.ErrorIs(t, n.WaitPublished(context.Background(), 1000), ErrClosed)
	require.ErrorContains(t, n.Run(context.Background()), "before")
}

// After a refused batch no later one of the same writer may pass: it was decided on an image that never came to be.
func TestTurnsStopAtARefusedBatch(t *testing.T) {
	n := start(t, single(memfs.New())).caught()
	hold := make(chan struct{})
	go n.try(func() { <-hold })
	_, epoch := n.Leader()
	errs := make([]error, 5)
	var wg sync.WaitGroup
	submit := func(i int, turn uint64, r ...metadata.Record) {
		wg.Add(1)
		require.NoError(t, n.Submit(t.Context(), Turn{epoch, turn}, r, func(_ int64, err error) { errs[i] = err; wg.Done() }))
	}
	submit(0, 1, conf("a", "1"))
	submit(1, 2, &metadata.RemoveTopicRecord{ID: model.UUID{9}})
	submit(2, 3, conf("b", "1"))
	submit(3, 2, conf("c", "1")) // the writer starts again with the number that was refused
	submit(4, 0, conf("d", "1"))
	close(hold)
	wg.Wait()
	require.NoError(t, errs[0])
	require.ErrorIs(t, errs[1], metadata.ErrMismatch)
	require.ErrorIs(t, errs[2], ErrNotLeader)
	require.NoError(t, errs[3])
	require.NoError(t, errs[4])
	require.Equal(t, map[string]string{"a": "1", "c": "1", "d": "1"}, confs(n.Image()))
	require.Equal(t, []int32{0}, n.Voters())
	n.stop()
}

func TestProposeGivesUpWithItsContext(t *testing.T) {
	n := start(t, single(memfs.New())).caught()
	hold := make(chan struct{})
	go n.try(func() { <-hold })
	ctx, cancel := context.WithCancel(t.Context())
	got := make(chan error, 1)
	go func() {
		_, err := n.Propose(ctx, []metadata.Record{conf("a", "1")})
		got <- err
	}()
	cancel()
	require.ErrorIs(t, <-got, context.Canceled)
	close(hold)
	n.stop()
}

// Q5
func TestSubscribersSeeEverythingInOrder(t *testing.T) {
	fsys := memfs.New()
	n := start(t, single(fsys)).caught()
	n.propose(conf("old", "1"))
	n.stop()

	q, err := Open(single(fsys))
	require.NoError(t, err)
	early := newRecorder(t)
	q.Subscribe(early.see)
	n = run(t, q).caught()
	var last int64
	for i := range 50 {
		last = n.propose(conf(fmt.Sprint(i), "x"))
		if i == 25 {
			late := newRecorder(t)
			n.Subscribe(late.see)
			defer func() { require.Len(t, confs(late.img), 51) }()
		}
	}
	require.NoError(t, n.WaitPublished(t.Context(), last))
	require.Len(t, confs(early.img), 51)
	require.Equal(t, last, early.img.Offset())
	require.Contains(t, confs(early.first), "old", "the first image is one that has caught up")
	n.stop()
}

// recorder checks that deltas follow each other.
type recorder struct {
	t          *testing.T
	img, first *metadata.Image
	calls      int
}

func newRecorder(t *testing.T) *recorder { return &recorder{t: t} }

func (r *recorder) see(img *metadata.Image, d *metadata.Delta) {
	if r.img == nil {
		r.first = img
		require.Zero(r.t, d.Old.TopicCount())
		require.Equal(r.t, model.NoOffset, d.Old.Offset())
	} else {
		require.Same(r.t, r.img, d.Old)
		require.Greater(r.t, img.Offset(), r.img.Offset())
	}
	require.Same(r.t, img, d.New)
	r.img = img
	r.calls++
}

// A slow subscriber gets one merged change instead of a queue.
func TestSlowSubscriberGetsMergedChanges(t *testing.T) {
	n := start(t, single(memfs.New())).caught()
	r := newRecorder(t)
	entered, leave := make(chan struct{}, 1), make(chan struct{})
	n.Subscribe(func(img *metadata.Image, d *metadata.Delta) {
		r.see(img, d)
		if r.calls == 1 {
			entered <- struct{}{}
			<-leave
		}
	})
	<-entered
	var last int64
	for i := range 100 {
		last = n.propose(conf(fmt.Sprint(i), "x"))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, n.WaitPublished(ctx, last), context.Canceled)
	close(leave)
	require.NoError(t, n.WaitPublished(t.Context(), last))
	require.Equal(t, 2, r.calls)
	require.Len(t, confs(r.img), 100)
	n.stop()
}

func TestDescribeSingle(t *testing.T) {
	n := start(t, single(memfs.New())).caught()
	last := n.propose(conf("a", "1"))
	d, err := n.Describe(t.Context())
	require.NoError(t, err)
	require.Equal(t, int32(0), d.LeaderID)
	require.Equal(t, last+1, d.HighWatermark)
	require.Len(t, d.Voters, 1)
	require.Equal(t, last+1, d.Voters[0].LogEndOffset)
	require.False(t, d.Voters[0].LastCaughtUp.IsZero())
	n.stop()
}

func TestOptionsAreChecked(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(o *Options)
		want   string
	}{
		"no folder":      {func(o *Options) { o.Dir = "" }, "file system and folder"},
		"no transport":   {func(o *Options) { o.Voters = []int32{0, 1} }, "need a transport"},
		"not the voter":  {func(o *Options) { o.Voters = []int32{1} }, "need a transport"},
		"duplicate":      {func(o *Options) { o.Voters = []int32{1, 1}; o.Transport = nowhere{} }, "distinct"},
		"negative":       {func(o *Options) { o.NodeID = -1 }, "negative"},
		"fast elections": {func(o *Options) { o.ElectionTimeout = time.Millisecond }, "three ticks"},
		"snapshots":      {func(o *Options) { o.SnapshotBytes = -1 }, "between snapshots"},
	} {
		t.Run(name, func(t *testing.T) {
			o := single(memfs.New())
			tc.change(&o)
			_, err := Open(o)
			require.ErrorContains(t, err, tc.want)
		})
	}
}
