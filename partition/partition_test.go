package partition

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/kbroker/kbroker/config"
	"github.com/kbroker/kbroker/internal/model"
	"github.com/kbroker/kbroker/internal/vfs"
	"github.com/kbroker/kbroker/internal/vfs/memfs"
	"github.com/kbroker/kbroker/partition/segment"
	"github.com/kbroker/kbroker/protocol/record"
)

const dir = "/data/t-0"

// bench is a partition on a file system that a test can crash.
type bench struct {
	*testing.T
	fs   vfs.FS
	mem  *memfs.FS
	cfg  config.Topic
	part *Partition
}

func newBench(t *testing.T, change ...func(*config.Topic)) *bench {
	t.Helper()
	mem := memfs.New()
	require.NoError(t, mem.MkdirAll(dir, 0o755))
	require.NoError(t, mem.SyncDir("/data"))
	require.NoError(t, mem.SyncDir("/"))
	base, err := config.Default().Topic(nil)
	require.NoError(t, err)
	b := &bench{T: t, fs: mem, mem: mem, cfg: *base}
	for _, c := range change {
		c(&b.cfg)
	}
	b.open(true)
	t.Cleanup(func() { _ = b.part.Close() })
	return b
}

func (b *bench) options(clean bool) Options {
	o := Options{FS: b.fs, Dir: dir, TP: model.TopicPartition{Topic: "t"}, Config: &b.cfg, Files: segment.NewCache(8), CleanShutdown: clean}
	if b.part != nil {
		o.RecoveryPoint, o.LogStartOffset, o.HighWatermark = b.part.RecoveryPoint(), b.part.LogStartOffset(), b.part.HighWatermark()
	}
	return o
}

func (b *bench) open(clean bool) {
	b.Helper()
	p, err := Open(context.Background(), b.options(clean))
	require.NoError(b, err)
	b.part = p
}

// restart closes and opens; crash opens what a kill leaves.
func (b *bench) restart() {
	b.Helper()
	require.NoError(b, b.part.Close())
	b.open(true)
}

func (b *bench) crash() {
	b.Helper()
	b.open(false)
}

func batchOf(t testing.TB, o record.Options, values ...string) record.Batch {
	t.Helper()
	bl := record.NewBuilder(o)
	for i, v := range values {
		bl.Add(int64(1_700_000_000_000+i), []byte("k"), []byte(v))
	}
	out, err := bl.Finish()
	require.NoError(t, err)
	return out
}

// produce appends as a client and commits at once, as a leader without followers does.
func (b *bench) produce(values ...string) AppendResult {
	b.Helper()
	res, err := b.part.AppendAsLeader(batchOf(b, record.Options{}, values...), 0, AppendOptions{ProduceVersion: 9})
	require.NoError(b, err)
	b.part.SetHighWatermark(b.part.LogEndOffset())
	return res
}

func (b *bench) transactional(pid int64, epoch int16, seq int32, values ...string) AppendResult {
	b.Helper()
	res, err := b.part.AppendAsLeader(batchOf(b, record.Options{Idempotent: true, ProducerID: pid, ProducerEpoch: epoch, BaseSequence: seq, Transactional: true}, values...), 0,
		AppendOptions{ProduceVersion: 9})
	require.NoError(b, err)
	b.part.SetHighWatermark(b.part.LogEndOffset())
	return res
}

func (b *bench) end(pid int64, epoch int16, commit bool) {
	b.Helper()
	_, err := b.part.AppendMarker(Marker{ProducerID: pid, ProducerEpoch: epoch, Commit: commit}, 0)
	require.NoError(b, err)
	b.part.SetHighWatermark(b.part.LogEndOffset())
}

// values reads everything from an offset on, without regard to transactions.
func (b *bench) values(from int64, upTo Bound) (out []string) {
	b.Helper()
	for {
		res, err := b.part.Read(ReadRequest{Offset: from, MaxBytes: 300, MinOneBatch: true, UpTo: upTo})
		require.NoError(b, err)
		data, err := res.Records.ReadAll()
		require.NoError(b, err)
		res.Release()
		if len(data) == 0 {
			return out
		}
		for len(data) > 0 {
			batch, err := record.ParseBatch(data)
			if err != nil {
				break // the last one may be cut
			}
			require.NoError(b, batch.VerifyCRC())
			d := record.NewDecoder(1 << 20)
			for r, err := range batch.Records(d) {
				require.NoError(b, err)
				if r.Offset >= from && !batch.IsControl() {
					out = append(out, fmt.Sprintf("%d=%s", r.Offset, r.Value))
				}
			}
			d.Release()
			from = batch.NextOffset()
			data = data[len(batch):]
		}
	}
}

func TestAppendReadRestart(t *testing.T) {
	b := newBench(t)
	require.Equal(t, int64(0), b.produce("a", "b").FirstOffset)
	require.Equal(t, int64(2), b.produce("c", "d", "e").FirstOffset)
	want := []string{"0=a", "1=b", "2=c", "3=d", "4=e"}
	check := func() {
		t.Helper()
		require.Equal(t, want, b.values(0, HighWatermark))
		require.Equal(t, want[1:], b.values(1, HighWatermark), "an offset inside a batch")
		require.Equal(t, want[3:], b.values(3, LogEnd))
		require.Equal(t, int64(len(want)), b.part.LogEndOffset())
	}
	check()
	b.restart()
	check()
	require.Equal(t, int64(5), b.part.RecoveryPoint())
	b.produce("f")
	want = append(want, "5=f")
	check()
	b.crash()
	check()
	b.crash()
	check()
}

func TestReadBounds(t *testing.T) {
	b := newBench(t)
	b.produce("a")
	res, err := b.part.AppendAsLeader(batchOf(t, record.Options{}, "b"), 0, AppendOptions{ProduceVersion: 9})
	require.NoError(t, err)
	require.Equal(t, int64(1), res.FirstOffset)
	require.Equal(t, []string{"0=a"}, b.values(0, HighWatermark), "what is not replicated is not shown")
	require.Equal(t, []string{"0=a", "1=b"}, b.values(0, LogEnd))
	require.Empty(t, b.values(2, LogEnd))
	for _, o := range []int64{-1, 3} {
		_, err := b.part.Read(ReadRequest{Offset: o, MaxBytes: 10})
		require.ErrorIs(t, err, kerr.OffsetOutOfRange)
	}
	got, err := b.part.Read(ReadRequest{Offset: 0, MaxBytes: 0, UpTo: LogEnd})
	require.NoError(t, err)
	require.Zero(t, got.Len(), "no budget left and others had data")
	got, err = b.part.Read(ReadRequest{Offset: 0, MaxBytes: 1, MinOneBatch: true, UpTo: LogEnd})
	require.NoError(t, err)
	require.Positive(t, got.Len())
	got.Release()
}

func TestManySegmentsEveryOffsetIsFound(t *testing.T) {
	b := newBench(t, func(c *config.Topic) { c.SegmentBytes, c.IndexIntervalBytes = 1000, 100 })
	var want []string
	for i := range 300 {
		b.produce(fmt.Sprint("x", i))
		want = append(want, fmt.Sprintf("%d=x%d", i, i))
	}
	require.Greater(t, len(b.part.log.Segments()), 10)
	check := func() {
		t.Helper()
		for o := range want {
			require.Equal(t, want[o:min(o+3, len(want))], b.values(int64(o), LogEnd)[:min(3, len(want)-o)])
		}
	}
	check()
	b.restart()
	check()
	b.crash()
	check()
}

func TestTransactionsBoundCommittedReaders(t *testing.T) {
	b := newBench(t)
	b.produce("plain")
	b.transactional(7, 0, 0, "aborted-1")
	b.transactional(8, 0, 0, "committed")
	require.Equal(t, int64(1), b.part.LastStableOffset())
	require.Equal(t, []string{"0=plain"}, b.values(0, LastStable))
	b.end(8, 0, true)
	require.Equal(t, int64(1), b.part.LastStableOffset(), "7 is still open")
	b.transactional(7, 0, 1, "aborted-2")
	check := func() {
		t.Helper()
		require.Equal(t, int64(6), b.part.LastStableOffset())
		res, err := b.part.Read(ReadRequest{Offset: 0, MaxBytes: 1 << 20, UpTo: LastStable, WithAborted: true})
		require.NoError(t, err)
		require.Equal(t, []AbortedTxn{{7, 1}}, res.Aborted)
		res.Release()
		res, err = b.part.Read(ReadRequest{Offset: 6, MaxBytes: 1 << 20, UpTo: LastStable, WithAborted: true})
		require.NoError(t, err)
		require.Equal(t, []AbortedTxn{}, res.Aborted)
	}
	b.end(7, 0, false)
	check()
	b.restart()
	check()
	b.crash()
	check()
}

func TestAnOpenTransactionSurvives(t *testing.T) {
	for name, again := range map[string]func(*bench){"restart": (*bench).restart, "crash": (*bench).crash} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.transactional(7, 0, 0, "a")
			again(b)
			require.Equal(t, int64(0), b.part.LastStableOffset())
			b.end(7, 0, false)
			require.Equal(t, int64(2), b.part.LastStableOffset())
			res, err := b.part.Read(ReadRequest{MaxBytes: 1 << 20, UpTo: LastStable, WithAborted: true})
			require.NoError(t, err)
			require.Equal(t, []AbortedTxn{{7, 0}}, res.Aborted)
			res.Release()
		})
	}
}

func TestDuplicatesAreAnsweredWithTheirOffset(t *testing.T) {
	b := newBench(t)
	send := func(seq int32) (AppendResult, error) {
		return b.part.AppendAsLeader(batchOf(t, record.Options{Idempotent: true, ProducerID: 1, BaseSequence: seq}, "a", "b"), 0, AppendOptions{ProduceVersion: 9})
	}
	for i := range int32(3) {
		res, err := send(2 * i)
		require.NoError(t, err)
		require.False(t, res.Duplicate)
	}
	res, err := send(2)
	require.NoError(t, err)
	require.True(t, res.Duplicate)
	require.Equal(t, []int64{2, 3}, []int64{res.FirstOffset, res.LastOffset})
	require.Equal(t, int64(6), b.part.LogEndOffset())
	_, err = send(99)
	require.ErrorIs(t, err, kerr.OutOfOrderSequenceNumber)
	b.restart()
	res, err = send(4)
	require.NoError(t, err)
	require.True(t, res.Duplicate, "the last batch is remembered across a restart")
}

func TestRetentionKeepsAnEmptyLogAtItsEnd(t *testing.T) {
	b := newBench(t, func(c *config.Topic) { c.SegmentBytes, c.Retention = 300, time.Hour })
	for i := range 10 {
		b.produce(fmt.Sprint(i))
	}
	newest := time.UnixMilli(1_700_000_000_000)
	freed, err := b.part.Retain(newest.Add(time.Minute))
	require.NoError(t, err)
	require.Zero(t, freed)
	size := b.part.Size()
	freed, err = b.part.Retain(newest.Add(2 * time.Hour))
	require.NoError(t, err)
	require.Equal(t, size, freed)
	require.Equal(t, Offsets{10, 10, 10, 10}, b.part.Offsets())
	require.Equal(t, int64(10), b.produce("next").FirstOffset)
	b.restart()
	require.Equal(t, []string{"10=next"}, b.values(10, LogEnd))
}

func TestRetentionBySize(t *testing.T) {
	b := newBench(t, func(c *config.Topic) { c.SegmentBytes, c.Retention, c.RetentionBytes = 300, -1, 700 })
	for i := range 30 {
		b.produce(fmt.Sprint(i))
	}
	_, err := b.part.Retain(time.Now())
	require.NoError(t, err)
	require.LessOrEqual(t, b.part.Size(), int64(1000))
	require.GreaterOrEqual(t, b.part.Size(), int64(700))
	require.Len(t, b.values(b.part.LogStartOffset(), LogEnd), int(30-b.part.LogStartOffset()))
}

func TestDeleteRecordsMovesTheStart(t *testing.T) {
	b := newBench(t, func(c *config.Topic) { c.SegmentBytes = 300 })
	for i := range 10 {
		b.produce(fmt.Sprint(i))
	}
	require.NoError(t, b.part.SetLogStartOffset(7))
	require.ErrorIs(t, b.part.SetLogStartOffset(11), kerr.OffsetOutOfRange)
	require.Equal(t, []string{"7=7", "8=8", "9=9"}, b.values(7, LogEnd))
	_, err := b.part.Read(ReadRequest{Offset: 6, MaxBytes: 1})
	require.ErrorIs(t, err, kerr.OffsetOutOfRange)
	b.restart()
	require.Equal(t, int64(7), b.part.LogStartOffset())
	require.NoError(t, b.part.SetLogStartOffset(10))
	b.restart()
	require.Equal(t, Offsets{10, 10, 10, 10}, b.part.Offsets())
}

func TestTruncateForgetsProducersAndTransactions(t *testing.T) {
	b := newBench(t, func(c *config.Topic) { c.SegmentBytes = 400 })
	b.produce("a")
	b.transactional(7, 0, 0, "b")
	b.end(7, 0, false)
	for i := range 10 {
		b.transactional(9, 0, int32(i), fmt.Sprint(i))
	}
	require.NoError(t, b.part.Truncate(4))
	require.Equal(t, int64(4), b.part.LogEndOffset())
	require.Equal(t, []string{"0=a", "1=b", "3=0"}, b.values(0, LogEnd))
	require.Equal(t, int64(3), b.part.LastStableOffset())
	require.NoError(t, b.part.Truncate(2))
	require.Equal(t, int64(1), b.part.LastStableOffset(), "the marker is gone, the transaction open again")
	b.end(7, 0, true)
	res, err := b.part.Read(ReadRequest{MaxBytes: 1 << 20, UpTo: LastStable, WithAborted: true})
	require.NoError(t, err)
	require.Empty(t, res.Aborted)
	res.Release()
	b.restart()
	require.Equal(t, []string{"0=a", "1=b"}, b.values(0, LogEnd))
	require.NoError(t, b.part.TruncateFullyAndStartAt(50))
	require.Equal(t, Offsets{50, 50, 50, 50}, b.part.Offsets())
	require.Equal(t, int64(50), b.produce("z").FirstOffset)
	b.crash()
	require.Equal(t, []string{"50=z"}, b.values(50, LogEnd))
}

func TestOffsetForTime(t *testing.T) {
	b := newBench(t, func(c *config.Topic) { c.SegmentBytes, c.IndexIntervalBytes = 400, 50 })
	for i := range 20 {
		bl := record.NewBuilder(record.Options{Codec: record.LZ4})
		for j := range 3 {
			bl.Add(int64(1000*i+100*j), nil, []byte("v"))
		}
		batch, err := bl.Finish()
		require.NoError(t, err)
		_, err = b.part.AppendAsLeader(batch, 4, AppendOptions{ProduceVersion: 9})
		require.NoError(t, err)
	}
	for again := range 2 {
		for ms := int64(-5); ms < 19200; ms += 50 {
			want := int64(0)
			for o := range int64(60) {
				if 1000*(o/3)+100*(o%3) >= ms {
					want = o
					break
				}
			}
			found, ok, err := b.part.OffsetForTime(ms, 60)
			require.NoError(t, err)
			require.True(t, ok, ms)
			require.Equal(t, want, found.Offset, "time %d, round %d", ms, again)
			require.Equal(t, int32(4), found.LeaderEpoch)
		}
		_, ok, err := b.part.OffsetForTime(19201, 60)
		require.NoError(t, err)
		require.False(t, ok)
		_, ok, err = b.part.OffsetForTime(19200, 59)
		require.NoError(t, err)
		require.False(t, ok, "at the bound")
		top, err := b.part.MaxTimestamp()
		require.NoError(t, err)
		require.Equal(t, TimedOffset{59, 19200, 4}, top)
		b.restart()
	}
}

func TestLeaderEpochs(t *testing.T) {
	b := newBench(t)
	require.NoError(t, b.part.BecomeLeader(3))
	b.produce("a", "b")
	require.NoError(t, b.part.BecomeLeader(5))
	b.produce("c")
	for range 2 {
		require.Equal(t, int32(5), b.part.LatestEpoch())
		e, end := b.part.EpochEnd(4)
		require.Equal(t, []any{int32(3), int64(2)}, []any{e, end})
		e, end = b.part.EpochEnd(5)
		require.Equal(t, []any{int32(5), int64(3)}, []any{e, end})
		b.restart()
	}
}

// P7: epochs are written when their records are synced, and what was not written is learned from the records.
func TestLeaderEpochsSurviveACrash(t *testing.T) {
	b := newBench(t, func(c *config.Topic) { c.SegmentBytes = 300 })
	lead := func(epoch int32, records int) {
		require.NoError(t, b.part.BecomeLeader(epoch))
		for range records {
			_, err := b.part.AppendAsLeader(batchOf(t, record.Options{}, "a"), epoch, AppendOptions{ProduceVersion: 9})
			require.NoError(t, err)
		}
	}
	lead(1, 20)
	lead(2, 1)
	check := func(newest int32) {
		t.Helper()
		require.Equal(t, newest, b.part.LatestEpoch())
		for asked, want := range map[int32]int64{1: 20, 2: b.part.LogEndOffset()} {
			e, end := b.part.EpochEnd(asked)
			require.Equal(t, []any{asked, want}, []any{e, end})
		}
	}
	lead(3, 0)
	require.Equal(t, int32(3), b.part.LatestEpoch())
	b.crash()
	check(2) // nothing was appended in epoch 3, and nothing was saved so far
	require.NoError(t, b.part.Flush())
	require.Equal(t, int64(21), b.part.RecoveryPoint())
	b.crash()
	check(2) // only the last segment was scanned
	b.crash()
	check(2)
	b.restart()
	check(2)
}
