package partition

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/kbroker/kbroker/config"
	"github.com/kbroker/kbroker/internal/vfs/faultfs"
	"github.com/kbroker/kbroker/internal/vfs/memfs"
	"github.com/kbroker/kbroker/protocol/record"
)

var errPower = errors.New("power lost")

// story runs a life of a partition that touches every kind of file operation. It keeps in promised what was flushed, and
// ends early when the disk stops answering.
func story(b *bench, promised *[]string, start *int64) error {
	var all []string
	flush := func() error {
		n := len(all)
		if err := b.part.Flush(); err != nil {
			return err
		}
		*promised = append((*promised)[:0], all[:n]...)
		return nil
	}
	produce := func(v string) error {
		res, err := b.part.AppendAsLeader(batchOf(b, record.Options{Idempotent: true, ProducerID: 1, BaseSequence: int32(len(all))}, v), 0, AppendOptions{ProduceVersion: 9})
		if err != nil {
			return err
		}
		all = append(all, fmt.Sprintf("%d=%s", res.FirstOffset, v))
		b.part.SetHighWatermark(b.part.LogEndOffset())
		return nil
	}
	for i := range 12 { // several rolls
		if err := produce(fmt.Sprint("v", i)); err != nil {
			return err
		}
		if i%4 == 3 {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	if err := b.part.BecomeLeader(2); err != nil {
		return err
	}
	if err := b.part.SetLogStartOffset(5); err != nil { // drops segments
		return err
	}
	*start = 5
	b.part.RemoveDeleted(time.Now().Add(time.Hour))
	if err := produce("last"); err != nil {
		return err
	}
	return b.part.Close()
}

// At every file operation of the story the power fails; of what was not synced a random part survives. What was flushed
// must be there, what is there must be a prefix of what was written, and the partition must take up work by itself.
func TestPowerFailsAtEveryFileOperation(t *testing.T) {
	ops := 0
	for _, percent := range []int{0, 40, 100} {
		for stopAt := 0; ; stopAt++ {
			finished := crashStory(t, stopAt, percent)
			if ops = max(ops, stopAt); finished {
				break
			}
		}
	}
	require.Greater(t, ops, 50, "the story should touch the disk often")
}

func crashStory(t *testing.T, stopAt, percent int) (finished bool) {
	mem := memfs.New()
	require.NoError(t, mem.MkdirAll(dir, 0o755))
	require.NoError(t, mem.SyncDir("/data"))
	require.NoError(t, mem.SyncDir("/"))
	base, err := config.Default().Topic(nil)
	require.NoError(t, err)
	ff := faultfs.New(mem, 1)
	b := &bench{T: t, fs: ff, mem: mem, cfg: *base}
	b.cfg.SegmentBytes, b.cfg.IndexIntervalBytes = 300, 60
	n := 0
	var clone *memfs.FS
	ff.SetHook(func(faultfs.Call) error {
		if n++; n > stopAt {
			if clone == nil {
				clone = mem.CrashClone(uint64(stopAt), percent)
			}
			return errPower
		}
		return nil
	})
	var promised []string
	start := int64(0)
	p, err := Open(context.Background(), b.options(true))
	if err == nil {
		b.part = p
		err = story(b, &promised, &start)
	}
	if clone == nil {
		require.NoError(t, err)
		return true
	}
	o := Options{RecoveryPoint: 0, LogStartOffset: start}
	after := &bench{T: t, fs: clone, mem: clone, cfg: b.cfg}
	full := after.options(false)
	full.LogStartOffset = o.LogStartOffset
	after.part, err = Open(context.Background(), full)
	require.NoError(t, err, "power failed at operation %d, %d%% of unsynced data kept\n%s", stopAt, percent, clone)
	defer after.part.Close()
	after.part.SetHighWatermark(after.part.LogEndOffset())
	got := after.values(after.part.LogStartOffset(), LogEnd)
	for i, v := range got {
		require.Equal(t, fmt.Sprint(after.part.LogStartOffset()+int64(i)), v[:len(fmt.Sprint(after.part.LogStartOffset()+int64(i)))], "gap in %v", got)
	}
	if len(promised) > 0 {
		require.GreaterOrEqual(t, after.part.LogEndOffset(), int64(len(promised)), "power failed at operation %d, %d%% kept: flushed records are gone", stopAt, percent)
	}
	after.produce("after")
	return false
}

func TestDamageInTheMiddleIsNamedAndNothingIsCut(t *testing.T) {
	b := newBench(t)
	for i := range 5 {
		b.produce(fmt.Sprint("value-", i))
	}
	name := b.part.log.Active().LogPath()
	f, err := b.mem.Open(name, os.O_RDWR, 0)
	require.NoError(t, err)
	first, ok, err := b.part.log.Active().Find(2)
	require.NoError(t, err)
	require.True(t, ok)
	_, err = f.WriteAt([]byte{'X'}, first.Pos+record.HeaderSize+8)
	require.NoError(t, err)
	size, err := f.Size()
	require.NoError(t, err)
	require.NoError(t, f.Close())

	_, err = Open(context.Background(), b.options(false))
	require.ErrorIs(t, err, record.ErrCorrupt)
	require.ErrorContains(t, err, name)
	require.ErrorContains(t, err, fmt.Sprintf("position %d", first.Pos))
	st, err := b.mem.Stat(name)
	require.NoError(t, err)
	require.Equal(t, size, st.Size())
}

func TestATornEndIsCut(t *testing.T) {
	b := newBench(t)
	b.produce("a")
	b.produce("b")
	size := b.part.Size()
	name := b.part.log.Active().LogPath()
	for cut := int64(1); cut < size/2; cut += 7 {
		clone := b.mem.CrashClone(1, 100)
		f, err := clone.Open(name, os.O_RDWR, 0)
		require.NoError(t, err)
		require.NoError(t, f.Truncate(size-cut))
		require.NoError(t, f.Close())
		c := &bench{T: t, fs: clone, mem: clone, cfg: b.cfg}
		c.open(false)
		require.Equal(t, []string{"0=a"}, c.values(0, LogEnd))
		require.NoError(t, c.part.Close())
	}
}

func TestAFullDiskHealsWithoutARestart(t *testing.T) {
	b := newBench(t)
	b.produce("a")
	b.mem.SetCapacity(1)
	_, err := b.part.AppendAsLeader(batchOf(t, record.Options{}, strings.Repeat("b", 20_000)), 0, AppendOptions{ProduceVersion: 9})
	require.ErrorIs(t, err, kerr.KafkaStorageError)
	require.NoError(t, b.part.Err())
	require.Equal(t, []string{"0=a"}, b.values(0, LogEnd))
	b.mem.SetCapacity(1 << 30)
	b.produce("c")
	b.crash()
	require.Equal(t, []string{"0=a", "1=c"}, b.values(0, LogEnd))
}

func TestADiskThatFailsTakesThePartitionOffline(t *testing.T) {
	b := newBench(t)
	b.produce("a")
	ff := faultfs.New(b.mem, 1)
	b.fs = ff
	b.restart()
	ff.SetHook(func(c faultfs.Call) error { return &fs.PathError{Op: "write", Path: dir, Err: errPower} })
	_, err := b.part.AppendAsLeader(batchOf(t, record.Options{}, "b"), 0, AppendOptions{ProduceVersion: 9})
	require.ErrorIs(t, err, kerr.KafkaStorageError)
	require.ErrorIs(t, err, errPower)
	ff.SetHook(nil)
	_, err = b.part.Read(ReadRequest{MaxBytes: 10})
	require.ErrorIs(t, err, kerr.KafkaStorageError, "once offline it stays so")
	b.fs = b.mem
	b.crash()
	require.Equal(t, []string{"0=a"}, b.values(0, LogEnd))
}
