package prototype

import (
	"context"
	"fmt"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
)

// A real client can produce and consume: what the yardstick is measured with is the protocol.
func TestProduceAndConsume(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s, err := New(l, t.TempDir(), 2)
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() { served <- s.Serve() }()
	defer func() {
		require.NoError(t, l.Close())
		require.NoError(t, <-served)
	}()
	c, err := kgo.NewClient(kgo.SeedBrokers(l.Addr().String()), kgo.DisableIdempotentWrite(), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ConsumeTopics(Topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	require.NoError(t, err)
	defer c.Close()
	const perPartition = 500
	for p := range int32(2) {
		for i := range perPartition {
			c.Produce(context.Background(), &kgo.Record{Topic: Topic, Partition: p, Value: fmt.Appendf(nil, "%d/%d", p, i)}, func(_ *kgo.Record, err error) {
				if err != nil {
					t.Error(err)
				}
			})
		}
	}
	require.NoError(t, c.Flush(t.Context()))
	got := map[int32]int{}
	for got[0] < perPartition || got[1] < perPartition {
		fetches := c.PollFetches(t.Context())
		require.NoError(t, fetches.Err())
		fetches.EachRecord(func(r *kgo.Record) {
			require.Equal(t, fmt.Sprintf("%d/%d", r.Partition, got[r.Partition]), string(r.Value))
			require.Equal(t, int64(got[r.Partition]), r.Offset)
			got[r.Partition]++
		})
	}
}
