package partition

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/kbroker/kbroker/config"
	"github.com/kbroker/kbroker/internal/model"
	"github.com/kbroker/kbroker/protocol/record"
)

// modelBatch is a batch as the dumb model of a log knows it.
type modelBatch struct {
	first, last, time int64
	epoch             int32
	values            []string
	pid               int64 // -1 for none
	marker, commit    bool
}

// logModel is a log as a list of batches: every answer is found by looking at all of them.
type logModel struct {
	batches        []modelBatch
	start, hw, end int64
	flushed        int64
}

// open lists the producers with an open transaction at an offset, with its first offset.
func (m *logModel) open(below int64) map[int64]int64 {
	open := map[int64]int64{}
	for _, b := range m.batches {
		switch {
		case b.pid < 0 || b.first >= below:
		case b.marker:
			delete(open, b.pid)
		default:
			if _, ok := open[b.pid]; !ok {
				open[b.pid] = b.first
			}
		}
	}
	return open
}

// lastStable is where the first transaction begins that is not decided below the high watermark. A marker that is not
// replicated decides nothing.
func (m *logModel) lastStable() int64 {
	lso := m.hw
	for _, first := range m.open(m.hw) {
		lso = min(lso, first)
	}
	return max(lso, m.start)
}

// aborted lists the transactions whose records lie in [from, upper) and whose ABORT marker is in the log.
func (m *logModel) aborted(from, upper int64) []AbortedTxn {
	out := []AbortedTxn{}
	for i, b := range m.batches {
		if !b.marker || b.commit || b.first < from {
			continue
		}
		first := int64(-1)
		for _, d := range m.batches[:i] {
			if d.pid != b.pid {
				continue
			}
			if d.marker {
				first = -1
			} else if first < 0 {
				first = d.first
			}
		}
		if first >= 0 && first < upper {
			out = append(out, AbortedTxn{b.pid, first})
		}
	}
	return out
}

func (m *logModel) values(from, upper int64) (out []string) {
	for _, b := range m.batches {
		for i, v := range b.values {
			if o := b.first + int64(i); !b.marker && o >= from && b.last < upper { // a batch is shown whole or not at all
				out = append(out, fmt.Sprintf("%d=%s", o, v))
			}
		}
	}
	return out
}

func (m *logModel) forTime(ms, upper int64) int64 {
	for _, b := range m.batches {
		if b.marker && b.first >= m.start && b.first < upper { // its time is the clock's, far behind all others
			return b.first
		}
		for i := range b.values {
			if o := b.first + int64(i); b.time+int64(i) >= ms && o >= m.start && o < upper {
				return o
			}
		}
	}
	return -1
}

func (m *logModel) truncate(to int64) {
	m.batches = slices.DeleteFunc(m.batches, func(b modelBatch) bool { return b.last >= to })
	m.end, m.hw, m.flushed = to, min(m.hw, to), min(m.flushed, to)
}

// modelRun drives a partition and its model with the same random operations.
type modelRun struct {
	*bench
	r     *rand.Rand
	m     logModel
	seq   map[int64]int32
	epoch int32
}

func (x *modelRun) append() {
	n := 1 + x.r.IntN(3)
	b := modelBatch{first: x.m.end, last: x.m.end + int64(n) - 1, time: 1_000_000 + x.r.Int64N(2000), epoch: x.epoch, pid: -1}
	o := record.Options{}
	if x.r.IntN(2) == 0 {
		b.pid = x.r.Int64N(3)
		o = record.Options{Idempotent: true, Transactional: true, ProducerID: b.pid, BaseSequence: x.seq[b.pid]}
	}
	bl := record.NewBuilder(o)
	for i := range n {
		b.values = append(b.values, fmt.Sprint("v", x.r.IntN(1000)))
		bl.Add(b.time+int64(i), nil, []byte(b.values[i]))
	}
	batch, err := bl.Finish()
	require.NoError(x, err)
	if x.r.IntN(4) == 0 { // as a follower would, with a gap
		gap := x.r.Int64N(3)
		b.first, b.last = b.first+gap, b.last+gap
		batch.SetBaseOffset(b.first)
		batch.SetLeaderEpoch(x.epoch)
		_, err = x.part.AppendAsFollower(batch, x.epoch)
	} else {
		_, err = x.part.AppendAsLeader(batch, x.epoch, AppendOptions{ProduceVersion: 9})
	}
	require.NoError(x, err)
	if b.pid >= 0 {
		x.seq[b.pid] += int32(n)
	}
	x.m.batches, x.m.end = append(x.m.batches, b), b.last+1
}

func (x *modelRun) mark() {
	pid, commit := x.r.Int64N(3), x.r.IntN(2) == 0
	res, err := x.part.AppendMarker(Marker{ProducerID: pid, Commit: commit}, x.epoch)
	require.NoError(x, err)
	require.Equal(x, x.m.end, res.FirstOffset)
	x.m.batches = append(x.m.batches, modelBatch{first: x.m.end, last: x.m.end, epoch: x.epoch, pid: pid, marker: true, commit: commit})
	x.m.end++
}

// relearn makes the producers go on where the log leaves them, after its end was cut.
func (x *modelRun) relearn() {
	x.seq = map[int64]int32{}
	for _, p := range x.part.DescribeProducers() {
		if p.LastSequence != model.NoSequence {
			x.seq[p.ProducerID] = p.LastSequence + 1
		}
	}
}

func (x *modelRun) step() string {
	switch k := x.r.IntN(100); {
	case k < 45:
		x.append()
		return "append"
	case k < 55:
		x.mark()
		return "marker"
	case k < 70:
		x.m.hw += x.r.Int64N(x.m.end - x.m.hw + 1)
		x.part.SetHighWatermark(x.m.hw)
		return "high watermark"
	case k < 76:
		require.NoError(x, x.part.Flush())
		x.m.flushed = x.m.end
		return "flush"
	case k < 81:
		to := x.m.end - x.r.Int64N(min(12, x.m.end-x.m.start+1))
		if slices.ContainsFunc(x.m.batches, func(b modelBatch) bool { return b.first < to && to <= b.last }) {
			return "none" // followers are told batch boundaries
		}
		require.NoError(x, x.part.Truncate(to))
		x.m.truncate(to)
		x.relearn()
		return fmt.Sprint("truncate to ", to)
	case k < 84:
		x.epoch += int32(x.r.IntN(3))
		require.NoError(x, x.part.BecomeLeader(x.epoch))
		return "epoch"
	case k < 90:
		require.NoError(x, x.part.Close())
		x.open(true)
		x.m.flushed = x.m.end
		return "restart"
	case k < 96:
		return x.powerFailure()
	default:
		_, err := x.part.Retain(time.Now())
		require.NoError(x, err)
		x.part.RemoveDeleted(time.Now().Add(time.Hour))
		return "retain"
	}
}

// powerFailure loses a random part of what was not flushed.
func (x *modelRun) powerFailure() string {
	x.mem = x.mem.CrashClone(x.r.Uint64(), x.r.IntN(101))
	x.fs = x.mem
	x.open(false)
	end := x.part.LogEndOffset()
	for _, b := range x.m.batches {
		require.False(x, b.last < x.m.flushed && end <= b.last, "flushed record %d is gone, the log ends at %d", b.last, end)
	}
	require.LessOrEqual(x, end, x.m.end)
	require.False(x, slices.ContainsFunc(x.m.batches, func(b modelBatch) bool { return b.first < end && end <= b.last }))
	x.m.truncate(end)
	require.Equal(x, x.m.hw, x.part.HighWatermark())
	x.relearn()
	return "power failure"
}

func lastOf(bs []modelBatch) int64 {
	if len(bs) == 0 {
		return -1
	}
	return bs[len(bs)-1].last
}

func (x *modelRun) check(did string) {
	m := &x.m
	if end := lastOf(m.batches) + 1; did == "restart" && x.part.LogEndOffset() == end {
		m.truncate(max(end, m.start)) // a log that ended in a gap begins again behind its last record
	}
	require.Equal(x, Offsets{m.start, m.lastStable(), m.hw, m.end}, x.part.Offsets(), did)
	from := m.start + x.r.Int64N(m.end-m.start+1)
	require.Equal(x, m.values(from, m.end), x.values(from, LogEnd), did)
	lso := m.lastStable()
	require.Equal(x, m.values(m.start, lso), x.values(m.start, LastStable), did)
	res, err := x.part.Read(ReadRequest{Offset: from, MaxBytes: 1 << 20, UpTo: LastStable, WithAborted: true})
	require.NoError(x, err)
	if res.Len() > 0 {
		data, err := res.Records.ReadAll()
		require.NoError(x, err)
		need := m.aborted(from, endOf(x, data))
		for _, a := range need {
			require.Contains(x, res.Aborted, a, did)
		}
		all := m.aborted(from, lso)
		for _, a := range res.Aborted {
			require.Contains(x, all, a, did)
		}
	}
	res.Release()
	ms := 1_000_000 + x.r.Int64N(2100)
	found, ok, err := x.part.OffsetForTime(ms, m.end)
	require.NoError(x, err)
	want := m.forTime(ms, m.end)
	if require.Equal(x, want >= 0, ok, "%s: time %d", did, ms); ok {
		require.Equal(x, want, found.Offset, "%s: time %d", did, ms)
	}
	_, err = x.part.Read(ReadRequest{Offset: m.end + 1, MaxBytes: 1})
	require.ErrorIs(x, err, kerr.OffsetOutOfRange)
}

func endOf(x *modelRun, data []byte) (end int64) {
	for b, err := range record.Split(data) {
		require.NoError(x, err)
		end = b.NextOffset()
	}
	return end
}

func TestAgainstTheModel(t *testing.T) {
	for seed := range uint64(5) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			x := &modelRun{r: rand.New(rand.NewPCG(seed, 1)), seq: map[int64]int32{}}
			x.bench = newBench(t, func(c *config.Topic) { c.SegmentBytes, c.IndexIntervalBytes, c.Retention = 700, 100, -1 })
			for range 250 {
				x.check(x.step())
			}
		})
	}
}
