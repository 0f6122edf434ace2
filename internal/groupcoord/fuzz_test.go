package groupcoord

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kbroker/kbroker/internal/coordrt"
	"github.com/kbroker/kbroker/protocol/record"
)

// FuzzReplay replays arbitrary records: no panic, and a state that is consistent, whatever was accepted.
func FuzzReplay(f *testing.F) {
	raw, err := os.ReadFile(goldenLog)
	if err != nil {
		f.Fatal(err)
	}
	d := record.NewDecoder(1 << 20)
	defer d.Release()
	for b := range record.Split(raw) {
		if b.IsControl() {
			continue
		}
		for r := range b.Records(d) {
			f.Add(r.Key, r.Value, r.Value == nil, b.IsTransactional())
		}
	}
	f.Fuzz(func(t *testing.T, key, value []byte, tombstone, transactional bool) {
		if tombstone {
			value = nil
		} else if value == nil {
			value = []byte{}
		}
		var stats ShardStats
		s := NewShard(ShardOptions{Groups: testGroups(), Offsets: testOffsets(), NewMemberID: numbered(), Logger: nopLogger, Stats: &stats}, &coordrt.Timers{})
		at := coordrt.Position{Offset: 1, ProducerID: 1, Transactional: transactional}
		if s.Replay(at, coordrt.Record{Key: key, Value: value}) != nil {
			return
		}
		s.Loaded(time.UnixMilli(0))
		s.consistent(t)
		for id, g := range s.groups {
			s.DescribeGroup(id, 6)
			if len(g.members) > 0 || g.protocolType != "" { // a group record: what is written again is read as the same
				again := g.record((*member).assigned)
				back, err := decodeGroup(id, again.Value)
				require.NoError(t, err)
				require.Equal(t, again, back.record((*member).assigned))
			}
			g.eachOffset(func(topic string, p int32, c *commit) {
				again, err := decodeCommit(c.record(offsetKey{id, topic, p}).Value, c.at)
				require.NoError(t, err)
				require.Equal(t, c.offset, again.offset)
			})
		}
		s.ReplayMarker(coordrt.Position{Offset: 2, ProducerID: 1}, true)
		s.consistent(t)
		s.expire(time.UnixMilli(1 << 60))
		s.Unloaded()
		for i := range stats.groups {
			require.Zero(t, stats.groups[i].Load())
		}
		require.Zero(t, stats.offsets.Load())
	})
}

func FuzzSubscription(f *testing.F) {
	f.Add(subscription("t", "u"))
	f.Add([]byte{0, 0, 0, 0, 0, 1, 0, 1, 't', 0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		topics, ok := parseSubscription(b)
		if ok && len(topics) > len(b)/2 {
			t.Fatalf("%d topics in %d bytes", len(topics), len(b))
		}
	})
}
