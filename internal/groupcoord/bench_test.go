package groupcoord

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/internal/coordrt"
	"github.com/kbroker/kbroker/internal/coordrt/coordtest"
	"github.com/kbroker/kbroker/internal/model"
)

// discard is a log that takes everything and keeps nothing, so that a benchmark measures the coordinator.
type discard struct {
	*coordtest.Log
	end atomic.Int64
}

func (d *discard) Append(_ context.Context, _ model.TopicPartition, _ int32, batch []byte) (int64, error) {
	n := int64(batch[57])<<24 | int64(batch[58])<<16 | int64(batch[59])<<8 | int64(batch[60])
	return d.end.Add(n) - 1, nil
}

func (d *discard) OnCommitted(_ model.TopicPartition, _ int32, _ int64, fn func(error)) { fn(nil) }

func benchCoordinator(b *testing.B) *Coordinator {
	b.Helper()
	log := &discard{Log: coordtest.New()}
	log.Lead(offsetsTP, 1)
	groups := testGroups()
	groups.MaxSize = 1 << 30
	co, err := New(Options{Log: log, Groups: groups, Offsets: testOffsets(), Topics: fakeTopics{}, Partitions: func() int32 { return 1 }})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- co.Run(ctx) }()
	b.Cleanup(func() {
		cancel()
		<-done
	})
	co.Elected(0, 1)
	for co.Stats().Runtime.Active == 0 {
		runtime.Gosched()
	}
	return co
}

// BenchmarkOffsetCommit is one commit of two partitions, from request to answer.
func BenchmarkOffsetCommit(b *testing.B) {
	co := benchCoordinator(b)
	s := &scene{peer: &localPeer{}, group: "g"}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if got := codes(co.OffsetCommit(context.Background(), Client{}, s.commitReq(9, "", -1))); got[0] != 0 {
				b.Error(got)
			}
		}
	})
}

// BenchmarkHeartbeat is a heartbeat of one of a thousand members.
func BenchmarkHeartbeat(b *testing.B) {
	co := benchCoordinator(b)
	ids := fill(b, co, 1000)
	var n atomic.Int64
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			r := kmsg.NewPtrHeartbeatRequest()
			r.Version, r.Group, r.MemberID, r.Generation = 4, "big", ids[n.Add(1)%int64(len(ids))], 1
			if resp := co.Heartbeat(context.Background(), Client{}, r); resp.ErrorCode != 0 {
				b.Error(resp.ErrorCode)
			}
		}
	})
}

// fill makes a stable group of n members by replaying its record.
func fill(b *testing.B, co *Coordinator, n int) []string {
	b.Helper()
	g := newGroup("big", 0)
	g.protocolType, g.generation = consumerType, 1
	name := "range"
	g.protocol = &name
	ids := make([]string, n)
	for i := range n {
		ids[i] = fmt.Sprintf("member-%06d", i)
		g.insert(&member{id: ids[i], sessionMs: 1800000, rebalanceMs: 60000, protocols: []protocol{{"range", subscription("t")}}})
	}
	_, err := coordrt.Peek(context.Background(), co.rt, 0, func(s *Shard, now time.Time) error {
		if err := s.Replay(coordrt.Position{}, g.record((*member).assigned)); err != nil {
			return err
		}
		s.Loaded(now)
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
	return ids
}

// BenchmarkLoad is the replay of a partition with committed offsets, in records per second.
func BenchmarkLoad(b *testing.B) {
	const groups, partitions = 1000, 20
	var recs []coordrt.Record
	for g := range groups {
		for p := range int32(partitions) {
			c := commit{offset: 1, commitMs: 1, expireMs: noExpiry, topicID: fakeTopics{}.ID("t")}
			recs = append(recs, c.record(offsetKey{fmt.Sprint("group-", g), "topic", p}))
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		var stats ShardStats
		s := NewShard(ShardOptions{Groups: testGroups(), Offsets: testOffsets(), Logger: nopLogger, Stats: &stats}, &coordrt.Timers{})
		for i, r := range recs {
			if err := s.Replay(coordrt.Position{Offset: int64(i)}, r); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(len(recs))*float64(b.N)/b.Elapsed().Seconds(), "records/s")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkMemory tells what committed offsets, groups and members cost.
func BenchmarkMemory(b *testing.B) {
	commitTo := func(s *Shard, group string, p int) {
		c := &commit{offset: 1, commitMs: 1, expireMs: noExpiry, topicID: fakeTopics{}.ID("t")}
		_ = s.Replay(coordrt.Position{}, c.record(offsetKey{group, "topic", int32(p)}))
	}
	var offset, group, perMember float64
	for b.Loop() {
		offset = heapPer(200000, func(s *Shard, i int) { commitTo(s, fmt.Sprint("group-", i/20), i%20) })
		group = heapPer(100000, func(s *Shard, i int) { commitTo(s, fmt.Sprint("group-", i), 0) })
		perMember = heapPer(1000, func(s *Shard, i int) {
			g := newGroup(fmt.Sprint("group-", i), 0)
			name := "range"
			g.protocolType, g.protocol = consumerType, &name
			for j := range 10 {
				g.insert(&member{id: fmt.Sprint("member-", j), clientID: "client", clientHost: "/10.0.0.1",
					protocols: []protocol{{"range", subscription("t")}}, assignment: make([]byte, 40)})
			}
			_ = s.Replay(coordrt.Position{}, g.record((*member).assigned))
		}) / 10
	}
	b.ReportMetric(offset, "B/offset(20_per_group)")
	b.ReportMetric(group, "B/group(1_offset)")
	b.ReportMetric(perMember, "B/member(10_per_group)")
	b.ReportMetric(0, "ns/op")
}

// heapPer calls fn n times on an empty shard and returns by how much the heap grew each time.
func heapPer(n int, fn func(s *Shard, i int)) float64 {
	var stats ShardStats
	s := NewShard(ShardOptions{Groups: testGroups(), Offsets: testOffsets(), Logger: nopLogger, Stats: &stats}, &coordrt.Timers{})
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range n {
		fn(s, i)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(s)
	return float64(after.HeapAlloc-before.HeapAlloc) / float64(n)
}
