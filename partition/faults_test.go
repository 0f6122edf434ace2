package partition

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/kbroker/kbroker/config"
	"github.com/kbroker/kbroker/internal/vfs/faultfs"
	"github.com/kbroker/kbroker/partition/segment"
	"github.com/kbroker/kbroker/protocol/record"
)

func TestASmallIndexLimitLosesNothing(t *testing.T) {
	b := newBench(t, func(c *config.Topic) { c.SegmentIndexBytes, c.FileDeleteDelay = 4, 0 })
	var want []string
	for i := range 5 {
		b.produce(fmt.Sprint(i))
		want = append(want, fmt.Sprintf("%d=%d", i, i))
	}
	require.Equal(t, want, b.values(0, LogEnd))
	bases := map[int64]bool{}
	for _, s := range b.part.Segments() {
		require.False(t, bases[s.Base()], "two segments in the same files")
		bases[s.Base()] = true
	}
	b.restart()
	require.Equal(t, want, b.values(0, LogEnd))
}

func TestAFollowerCrossesGapsOfAnyWidth(t *testing.T) {
	b := newBench(t)
	var want []string
	offset := int64(0)
	for i, gap := range []int64{0, 5, math.MaxInt32, math.MaxInt32 + 1, 1 << 40, 0} {
		offset += gap
		res, err := b.part.AppendAsFollower(batchOf(t, record.Options{BaseOffset: offset}, fmt.Sprint(i)), 0)
		require.NoError(t, err)
		require.Equal(t, offset, res.LastOffset)
		want = append(want, fmt.Sprintf("%d=%d", offset, i))
		offset++
	}
	check := func() {
		t.Helper()
		require.Equal(t, want, b.values(0, LogEnd))
		require.Equal(t, want[5:], b.values(offset-1, LogEnd))
		for _, s := range b.part.Segments() {
			_, at, err := s.MaxTime()
			require.NoError(t, err)
			require.True(t, s.FitsOffset(at), "offset %d in the indexes of segment %d", at, s.Base())
		}
	}
	check()
	b.restart()
	check()
	b.crash()
	check()
}

// The first segment behind a wide gap exists, but the write failed, and then this replica becomes the leader: the next record
// has an offset before that segment.
func TestALeaderAfterAFailedWriteBehindAGap(t *testing.T) {
	b := newBench(t)
	b.produce("a")
	ff := faultfs.New(b.mem, 1)
	b.fs = ff
	b.restart()
	ff.Add(faultfs.Rule{Ops: faultfs.OpWrite, Path: "*.log", Count: 1, Err: syscall.ENOSPC})
	_, err := b.part.AppendAsFollower(batchOf(t, record.Options{BaseOffset: 1 << 40}, "far"), 0)
	require.ErrorIs(t, err, kerr.KafkaStorageError)
	b.produce("b")
	require.Equal(t, []string{"0=a", "1=b"}, b.values(0, LogEnd))
	b.crash()
	require.Equal(t, []string{"0=a", "1=b"}, b.values(0, LogEnd))
}

// A write fails half way on a full disk, and even cutting it fails. What it left must never be taken for records.
func TestTheRestOfAFailedWriteIsCutBeforeTheNext(t *testing.T) {
	for _, then := range []string{"append", "close"} {
		t.Run(then, func(t *testing.T) {
			b := newBench(t)
			b.produce("a")
			ff := faultfs.New(b.mem, 1)
			b.fs = ff
			b.restart()
			ff.Add(faultfs.Rule{Ops: faultfs.OpWrite, Path: "*.log", Count: 1, Err: syscall.ENOSPC, Partial: 150})
			ff.Add(faultfs.Rule{Ops: faultfs.OpTruncate, Path: "*.log", Count: 1})
			long := batchOf(t, record.Options{}, string(make([]byte, 500)))
			_, err := b.part.AppendAsLeader(long, 0, AppendOptions{ProduceVersion: 9})
			require.ErrorIs(t, err, syscall.ENOSPC)
			want := []string{"0=a"}
			if then == "append" {
				b.produce("b")
				want = append(want, "1=b")
			}
			size := b.part.Size()
			name := b.part.log.Active().LogPath()
			require.NoError(t, b.part.Close())
			st, err := b.mem.Stat(name)
			require.NoError(t, err)
			require.Equal(t, size, st.Size())
			b.open(true)
			require.Equal(t, want, b.values(0, LogEnd))
		})
	}
}

func TestLostIndexesAreRebuilt(t *testing.T) {
	for _, lose := range [][]string{{segment.OffsetSuffix}, {segment.TimeSuffix}, {segment.OffsetSuffix, segment.TimeSuffix}} {
		for name, use := range map[string]func(*bench){
			"append":   func(b *bench) { b.produce("next") },
			"truncate": func(b *bench) { require.NoError(b, b.part.Truncate(12)) },
			"read":     func(b *bench) { require.Len(b, b.values(0, LogEnd), 13) },
			"crash":    func(b *bench) { b.part.o.RecoveryPoint = b.part.LogEndOffset(); b.crash() },
		} {
			t.Run(fmt.Sprint(name, lose), func(t *testing.T) {
				b := newBench(t, func(c *config.Topic) { c.SegmentBytes, c.IndexIntervalBytes = 600, 50 })
				b.transactional(7, 0, 0, "aborted")
				b.end(7, 0, false)
				for i := range 12 {
					b.produce(fmt.Sprint(i))
				}
				require.NoError(t, b.part.Close())
				for _, s := range b.part.Segments() {
					for _, suffix := range lose {
						require.NoError(t, b.mem.Remove(s.Path(suffix)))
					}
				}
				b.open(true)
				use(b)
				require.NoError(t, b.part.Err())
				res, err := b.part.Read(ReadRequest{MaxBytes: 1 << 20, UpTo: LastStable, WithAborted: true})
				require.NoError(t, err)
				require.Equal(t, []AbortedTxn{{7, 0}}, res.Aborted)
				res.Release()
				b.produce("and on")
				b.restart()
				require.Equal(t, "0=aborted", b.values(0, LogEnd)[0])
			})
		}
	}
}

// A snapshot of records that were truncated away must not come back as the state of others.
func TestTruncatedSnapshotsStayAway(t *testing.T) {
	b := newBench(t, func(c *config.Topic) { c.SegmentBytes = 200 })
	for i := range 8 {
		b.transactional(7, 0, int32(i), fmt.Sprint(i))
	}
	snapshots := b.part.mu.snapshots
	last := snapshots[len(snapshots)-1]
	require.NoError(t, b.part.Truncate(2))
	for b.part.LogEndOffset() < last+2 {
		b.produce("other")
	}
	require.NoError(t, b.part.Flush())
	o := b.options(false)
	clone := b.mem.CrashClone(1, 0)
	c := &bench{T: t, fs: clone, mem: clone, cfg: b.cfg, part: b.part}
	c.open(false)
	require.Equal(t, o.RecoveryPoint, c.part.LogEndOffset())
	require.Equal(t, b.part.DescribeProducers(), c.part.DescribeProducers())
	require.Equal(t, b.part.LastStableOffset(), c.part.LastStableOffset())
}

// What was not flushed may be lost, but only from the end: an older record must not be lost while a newer one stays.
func TestPowerFailureLeavesNoHoles(t *testing.T) {
	for seed := range uint64(60) {
		b := newBench(t, func(c *config.Topic) { c.SegmentBytes = 1200 })
		for i := range 30 {
			b.produce(fmt.Sprint(i))
		}
		clone := b.mem.CrashClone(seed, 50)
		c := &bench{T: t, fs: clone, mem: clone, cfg: b.cfg}
		c.open(false)
		got := c.values(0, LogEnd)
		require.Len(t, got, int(c.part.LogEndOffset()), "seed %d: %v", seed, got)
		require.NoError(t, c.part.Close())
	}
}

func TestALeadersBatchesCarryTheirEpochIntoTheCache(t *testing.T) {
	b := newBench(t)
	_, err := b.part.AppendAsLeader(batchOf(t, record.Options{}, "a"), 3, AppendOptions{ProduceVersion: 9})
	require.NoError(t, err)
	_, err = b.part.AppendMarker(Marker{ProducerID: 1, Commit: true}, 5)
	require.NoError(t, err)
	e, end := b.part.EpochEnd(3)
	require.Equal(t, []any{int32(3), int64(1)}, []any{e, end})
	require.Equal(t, int32(5), b.part.LatestEpoch())
}

func TestAClosedLogTakesNothing(t *testing.T) {
	b := newBench(t)
	b.produce("a")
	require.NoError(t, b.part.Close())
	_, err := b.part.AppendAsLeader(batchOf(t, record.Options{}, "b"), 0, AppendOptions{ProduceVersion: 9})
	require.ErrorIs(t, err, kerr.KafkaStorageError)
	_, err = b.part.Read(ReadRequest{MaxBytes: 100})
	require.ErrorIs(t, err, kerr.KafkaStorageError)
	require.NoError(t, b.part.Close(), "again")
	require.Empty(t, b.mem.OpenFiles())
}

func TestRetentionBySizeTakesTheActiveSegmentToo(t *testing.T) {
	b := newBench(t, func(c *config.Topic) { c.Retention, c.RetentionBytes = -1, 0 })
	b.produce("a")
	freed, err := b.part.Retain(b.part.mu.rollBase)
	require.NoError(t, err)
	require.Positive(t, freed)
	require.Equal(t, Offsets{1, 1, 1, 1}, b.part.Offsets())
}

func TestBothEndsOfTheEpochsAreCutAtOpen(t *testing.T) {
	b := newBench(t)
	for e := range int32(4) {
		require.NoError(t, b.part.BecomeLeader(e))
		b.produce("x")
	}
	require.NoError(t, b.part.BecomeLeader(9))
	require.NoError(t, b.part.Close())
	o := b.options(true)
	o.LogStartOffset, o.HighWatermark = 2, 4
	p, err := Open(t.Context(), o)
	require.NoError(t, err)
	require.Equal(t, int32(3), p.LatestEpoch(), "no record of epoch 9")
	e, end := p.EpochEnd(1)
	require.Equal(t, []any{int32(1), int64(2)}, []any{e, end}, "epoch 1 ends where the log starts")
	require.NoError(t, p.Close())
}

// A sync that failed may have thrown the data away: nothing can be promised any more.
func TestAFailedFlushTakesThePartitionOffline(t *testing.T) {
	b := newBench(t)
	ff := faultfs.New(b.mem, 1)
	b.fs = ff
	b.restart()
	b.produce("a")
	before := b.part.RecoveryPoint()
	ff.Add(faultfs.Rule{Ops: faultfs.OpSync, Count: 1})
	require.ErrorIs(t, b.part.Flush(), kerr.KafkaStorageError)
	require.Equal(t, before, b.part.RecoveryPoint())
	require.Error(t, b.part.Flush(), "asking again does not help")
	var pe *fs.PathError
	require.True(t, errors.As(b.part.Err(), &pe))
	require.False(t, errors.Is(b.part.Err(), os.ErrNotExist))
}
