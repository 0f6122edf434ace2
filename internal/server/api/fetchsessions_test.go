package api

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/kbroker/kbroker/internal/broker"
	"github.com/kbroker/kbroker/partition"
)

func TestNextEpochWrapsAroundToOne(t *testing.T) {
	for e, want := range map[int32]int32{0: 1, 1: 2, 1<<31 - 2: 1<<31 - 1, 1<<31 - 1: 1, -1: -1} {
		require.Equal(t, want, nextEpoch(e))
	}
}

// cacheClient drives a cache as clients would.
type cacheClient struct {
	t   *testing.T
	c   *sessionCache
	now time.Time
}

func newCacheClient(t *testing.T, slots int) *cacheClient {
	return &cacheClient{t: t, c: newSessionCache(slots, rand.New(rand.NewPCG(1, 2))), now: time.Unix(1000, 0)}
}

func parts(topic string, n int) []broker.FetchPartition {
	out := make([]broker.FetchPartition, n)
	for i := range out {
		out[i] = broker.FetchPartition{Topic: broker.TopicRef{Name: topic}, Partition: int32(i)}
	}
	return out
}

func results(n int) []broker.FetchedPartition {
	out := make([]broker.FetchedPartition, n)
	for i := range out {
		out[i] = broker.FetchedPartition{DivergingEpoch: -1, PreferredReadReplica: -1, Read: partition.ReadResult{HighWatermark: 10}}
	}
	return out
}

// open makes a session of n partitions and returns its id, 0 when there is no room.
func (c *cacheClient) open(n int, follower bool) int32 {
	fc, err := c.c.begin(c.now, fetchStart{parts: parts("t", n), follower: follower})
	require.NoError(c.t, err)
	id, include, err := fc.finish(c.now, results(n))
	require.NoError(c.t, err)
	require.Nil(c.t, include)
	return id
}

// use sends an empty incremental request.
func (c *cacheClient) use(id, epoch int32) error {
	fc, err := c.c.begin(c.now, fetchStart{id: id, epoch: epoch})
	if err != nil {
		return err
	}
	_, _, err = fc.finish(c.now, results(len(fc.parts)))
	return err
}

func TestSessionsHaveAPlaceAsLongAsThereIsOne(t *testing.T) {
	c := newCacheClient(t, 2)
	a, b := c.open(3, false), c.open(1, false)
	require.NotZero(t, a)
	require.NotZero(t, b)
	require.NotEqual(t, a, b)
	require.Zero(t, c.open(100, false), "young sessions are not pushed out, however small")
	require.Equal(t, sessionStats{sessions: 2, partitions: 4}, c.c.stats())
	require.Zero(t, newCacheClient(t, 0).open(1, false), "no slots, no sessions")
}

func TestUnusedSessionsMakeRoomFirst(t *testing.T) {
	c := newCacheClient(t, 2)
	a, b := c.open(100, true), c.open(1, false)
	c.now = c.now.Add(sessionGrace)
	require.NoError(t, c.use(b, 1))
	c.now = c.now.Add(time.Second) // a lay unused for more than the grace
	n := c.open(1, false)
	require.NotZero(t, n)
	require.ErrorIs(t, c.use(a, 1), kerr.FetchSessionIDNotFound)
	require.NoError(t, c.use(b, 2))
	require.Equal(t, sessionStats{sessions: 2, partitions: 2, evicted: 1}, c.c.stats())
}

func TestBiggerSessionsPushOutSmallerOldOnes(t *testing.T) {
	c := newCacheClient(t, 2)
	a, b := c.open(5, false), c.open(3, false)
	c.now = c.now.Add(sessionGrace)
	require.NoError(t, c.use(a, 1))
	require.NoError(t, c.use(b, 1))
	c.now = c.now.Add(time.Second) // both are old, and in use
	require.Zero(t, c.open(3, false), "as big is not bigger")
	require.NotZero(t, c.open(4, false))
	require.ErrorIs(t, c.use(b, 2), kerr.FetchSessionIDNotFound, "the smallest goes")
	require.NoError(t, c.use(a, 2))
}

func TestFollowersPushOutConsumersAtOnce(t *testing.T) {
	c := newCacheClient(t, 2)
	a, b := c.open(5, false), c.open(50, false)
	f := c.open(1, true)
	require.NotZero(t, f)
	require.ErrorIs(t, c.use(a, 1), kerr.FetchSessionIDNotFound)
	g := c.open(1, true)
	require.NotZero(t, g)
	require.ErrorIs(t, c.use(b, 1), kerr.FetchSessionIDNotFound)
	require.Zero(t, c.open(100, true), "young sessions of followers stay")
	c.now = c.now.Add(sessionGrace)
	require.NoError(t, c.use(f, 1))
	require.NoError(t, c.use(g, 1))
	c.now = c.now.Add(time.Second)
	require.Zero(t, c.open(1000, false), "a consumer never pushes out a follower")
	require.NotZero(t, c.open(2, true), "a bigger follower does")
}

func TestSizeCountsAsLastUsed(t *testing.T) {
	c := newCacheClient(t, 1)
	a := c.open(1, false)
	fc, err := c.c.begin(c.now, fetchStart{id: a, epoch: 1, parts: parts("u", 9)})
	require.NoError(t, err)
	require.Len(t, fc.parts, 10)
	require.Equal(t, int64(10), c.c.stats().partitions)
	c.now = c.now.Add(sessionGrace)
	require.NoError(t, c.use(a, 2))
	c.now = c.now.Add(time.Second)
	require.Zero(t, c.open(10, false))
	require.NotZero(t, c.open(11, false))
}

// A request that overtakes another one of its session makes that one fail, as in Kafka.
func TestOvertakenRequestFails(t *testing.T) {
	c := newCacheClient(t, 1)
	a := c.open(2, false)
	first, err := c.c.begin(c.now, fetchStart{id: a, epoch: 1})
	require.NoError(t, err)
	require.NoError(t, c.use(a, 2))
	_, _, err = first.finish(c.now, results(2))
	require.ErrorIs(t, err, kerr.InvalidFetchSessionEpoch)
}

// A session that is evicted while a request is under way answers that request, and no further one.
func TestEvictionDuringARequest(t *testing.T) {
	c := newCacheClient(t, 1)
	a := c.open(2, false)
	fc, err := c.c.begin(c.now, fetchStart{id: a, epoch: 1})
	require.NoError(t, err)
	require.NotZero(t, c.open(1, true))
	id, include, err := fc.finish(c.now, results(2))
	require.NoError(t, err)
	require.Equal(t, a, id)
	require.Equal(t, []bool{false, false}, include)
	require.ErrorIs(t, c.use(a, 2), kerr.FetchSessionIDNotFound)
	c.c.touch(fc.session, c.now, 7) // no longer counted
	require.Equal(t, int64(1), c.c.stats().partitions)
}

// What was served goes to the end of the line, so that a small byte budget reaches every partition.
func TestServedPartitionsGoLast(t *testing.T) {
	s := newSession(1, false, false, time.Unix(0, 0))
	ps := parts("t", 4)
	s.mu.Lock()
	for i := range ps {
		s.putLocked(&ps[i])
	}
	s.mu.Unlock()
	order := func(epoch int32) (out []int32) {
		all, _, err := s.begin(epoch, nil, nil)
		require.NoError(t, err)
		for _, p := range all {
			out = append(out, p.Partition)
		}
		return out
	}
	require.Equal(t, []int32{0, 1, 2, 3}, order(1))
	s.mu.Lock()
	for _, p := range []int32{0, 2} {
		c := s.mu.partitions[keyOf(&ps[p])]
		c.unlink()
		s.pushLocked(c)
	}
	s.mu.Unlock()
	require.Equal(t, []int32{1, 3, 0, 2}, order(2))
	_, _, err := s.begin(3, nil, []partitionKey{keyOf(&ps[3])})
	require.NoError(t, err)
	require.Equal(t, []int32{1, 0, 2}, order(4))
}

// What an incremental answer holds, case by case.
func TestWhatIsWorthTelling(t *testing.T) {
	quiet := func() broker.FetchedPartition { return results(1)[0] }
	c := &cachedPartition{}
	for _, step := range []struct {
		name   string
		change func(*broker.FetchedPartition)
		want   bool
	}{
		{"first", func(*broker.FetchedPartition) {}, true},
		{"nothing new", func(*broker.FetchedPartition) {}, false},
		{"high watermark", func(r *broker.FetchedPartition) { r.Read.HighWatermark = 11 }, true},
		{"the same again", func(r *broker.FetchedPartition) { r.Read.HighWatermark = 11 }, false},
		{"log start", func(r *broker.FetchedPartition) { r.Read.HighWatermark = 11; r.Read.LogStartOffset = 3 }, true},
		{"back", func(*broker.FetchedPartition) {}, true},
		{"last stable offset alone", func(r *broker.FetchedPartition) { r.Read.LastStableOffset = 9 }, false},
		{"preferred replica", func(r *broker.FetchedPartition) { r.PreferredReadReplica = 2 }, true},
		{"no more", func(*broker.FetchedPartition) {}, false},
		{"error", func(r *broker.FetchedPartition) { r.Err = kerr.NotLeaderForPartition }, true},
		{"error again", func(r *broker.FetchedPartition) { r.Err = kerr.NotLeaderForPartition }, true},
		{"error over", func(*broker.FetchedPartition) {}, true},
		{"nothing new again", func(*broker.FetchedPartition) {}, false},
		{"divergence", func(r *broker.FetchedPartition) { r.DivergingEpoch = 3 }, true},
		{"divergence over", func(*broker.FetchedPartition) {}, true},
	} {
		r := quiet()
		step.change(&r)
		require.Equal(t, step.want, c.update(&r), step.name)
	}
}

func TestCacheUnderConcurrentUse(t *testing.T) {
	c := newSessionCache(8, rand.New(rand.NewPCG(1, 2)))
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			now := time.Unix(1000, 0)
			for i := range 200 {
				fc, err := c.begin(now, fetchStart{parts: parts("t", 1+i%5), follower: g == 0})
				if err != nil {
					panic(err)
				}
				id, _, _ := fc.finish(now, results(1+i%5))
				for e := int32(1); id != 0 && e < 4; e++ {
					inc, err := c.begin(now, fetchStart{id: id, epoch: e})
					if err != nil {
						break // evicted
					}
					_, _, _ = inc.finish(now, results(len(inc.parts)))
				}
				now = now.Add(time.Minute)
			}
		})
	}
	wg.Wait()
	st := c.stats()
	require.LessOrEqual(t, st.sessions, int64(8))
	sum := 0
	for el := c.mu.lru.Front(); el != nil; el = el.Next() {
		sum += el.Value.(*sessionEntry).partitions
	}
	require.Equal(t, int64(sum), st.partitions)
}
