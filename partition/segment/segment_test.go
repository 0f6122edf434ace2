package segment

import (
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kbroker/kbroker/internal/vfs/memfs"
	"github.com/kbroker/kbroker/protocol/record"
)

func memory(t testing.TB) *memfs.FS {
	t.Helper()
	fsys := memfs.New()
	require.NoError(t, fsys.MkdirAll("/s", 0o755))
	return fsys
}

func batch(t testing.TB, base int64, times ...int64) record.Batch {
	t.Helper()
	bl := record.NewBuilder(record.Options{BaseOffset: base})
	for _, ts := range times {
		bl.Add(ts, nil, []byte("value"))
	}
	b, err := bl.Finish()
	require.NoError(t, err)
	return b
}

// fill appends n batches of three records from base on; batch i has times 100*i, 100*i+1 and 100*i+2.
func fill(t testing.TB, s *Segment, base int64, n int) {
	t.Helper()
	for i := range n {
		ts := int64(100 * i)
		require.NoError(t, s.Append(batch(t, base+int64(3*i), ts, ts+1, ts+2), 200))
	}
}

func checkFinds(t *testing.T, s *Segment, base int64, n int) {
	t.Helper()
	for o := base; o < base+int64(3*n); o++ {
		f, ok, err := s.Find(o)
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, base+(o-base)/3*3, f.Header.BaseOffset, "offset %d", o)
	}
	_, ok, err := s.Find(base + int64(3*n))
	require.NoError(t, err)
	require.False(t, ok)
	for ms := range int64(100 * n) {
		f, ok, err := s.FindTime(ms)
		require.NoError(t, err)
		want := ms / 100
		if ms%100 > 2 {
			want++
		}
		if require.Equal(t, want < int64(n), ok, "time %d", ms); ok {
			require.Equal(t, base+3*want, f.Header.BaseOffset, "time %d", ms)
		}
	}
}

// The same answers in every state of a segment: active, sealed, reopened, without indexes, activated again.
func TestFindInEveryState(t *testing.T) {
	const base, n = 1000, 40
	fsys, c := memory(t), NewCache(4)
	s, err := Create(fsys, c, "/s", base)
	require.NoError(t, err)
	fill(t, s, base, n)
	checkFinds(t, s, base, n)
	require.NoError(t, s.Seal())
	checkFinds(t, s, base, n)
	s.Retire()

	s, err = Open(fsys, c, "/s", base)
	require.NoError(t, err)
	require.True(t, s.IndexSane())
	checkFinds(t, s, base, n)
	ms, at, err := s.MaxTime()
	require.NoError(t, err)
	require.Equal(t, []int64{100*(n-1) + 2, base + 3*n - 1}, []int64{ms, at})
	first, err := s.FirstTime()
	require.NoError(t, err)
	require.Equal(t, int64(2), first)
	require.NoError(t, s.Activate())
	checkFinds(t, s, base, n)
	require.NoError(t, s.Append(batch(t, base+3*n, 100*n, 100*n+1, 100*n+2), 200))
	checkFinds(t, s, base, n+1)
	s.Retire()

	require.NoError(t, fsys.Remove("/s/"+FileName(base, OffsetSuffix)))
	require.NoError(t, fsys.Remove("/s/"+FileName(base, TimeSuffix)))
	s, err = Open(fsys, c, "/s", base)
	require.NoError(t, err)
	require.False(t, s.IndexSane())
	checkFinds(t, s, base, n+1)
	require.ErrorIs(t, s.Activate(), ErrIndex)
	s.Retire()
	require.Empty(t, fsys.OpenFiles())
}

// Kafka's rule: an entry is due when more than the interval was written since the last one, and names the last offset of the
// batch at its position.
func TestIndexBytes(t *testing.T) {
	fsys, c := memory(t), NewCache(4)
	s, err := Create(fsys, c, "/s", 50)
	require.NoError(t, err)
	size := len(batch(t, 50, 1, 2, 3))
	for i := range 5 {
		require.NoError(t, s.Append(batch(t, 50+int64(3*i), int64(10+i), 1, 1), int32(2*size-1)))
	}
	s.AddAborted(Aborted{ProducerID: 7, FirstOffset: 50, LastOffset: 58, LastStableOffset: 59})
	require.NoError(t, s.Seal())
	read := func(suffix string) string {
		f, err := fsys.Open("/s/"+FileName(50, suffix), os.O_RDONLY, 0)
		require.NoError(t, err)
		defer f.Close()
		n, err := f.Size()
		require.NoError(t, err)
		b := make([]byte, n)
		_, err = f.ReadAt(b, 0)
		require.NoError(t, err)
		return fmt.Sprintf("%x", b)
	}
	require.Equal(t, fmt.Sprintf("00000008%08x0000000e%08x", 2*size, 4*size), read(OffsetSuffix))
	require.Equal(t, "000000000000000c00000008"+"000000000000000e0000000e", read(TimeSuffix))
	require.Equal(t, "0000"+"0000000000000007"+"0000000000000032"+"000000000000003a"+"000000000000003b", read(AbortedSuffix))
	list, err := s.Aborted()
	require.NoError(t, err)
	require.Equal(t, []Aborted{{7, 50, 58, 59}}, list)
}

func TestTruncateCutsIndexesToo(t *testing.T) {
	fsys, c := memory(t), NewCache(4)
	s, err := Create(fsys, c, "/s", 0)
	require.NoError(t, err)
	fill(t, s, 0, 20)
	s.AddAborted(Aborted{1, 0, 10, 11})
	s.AddAborted(Aborted{1, 12, 40, 41})
	f, ok, err := s.Find(21)
	require.NoError(t, err)
	require.True(t, ok)
	require.NoError(t, s.Truncate(f.Pos))
	checkFinds(t, s, 0, 7)
	list, err := s.Aborted()
	require.NoError(t, err)
	require.Equal(t, []Aborted{{1, 0, 10, 11}}, list)
	fill(t, s, 21, 3)
	require.NoError(t, s.Seal())
	require.True(t, s.IndexSane())
}

// S3 and S4: readers keep what they have while the segment goes, and the cache keeps within its limit.
func TestReadersOutliveTheirSegment(t *testing.T) {
	fsys, c := memory(t), NewCache(3)
	var segs []*Segment
	for i := range 10 {
		s, err := Create(fsys, c, "/s", int64(100*i))
		require.NoError(t, err)
		fill(t, s, int64(100*i), 2)
		segs = append(segs, s)
	}
	open, limit := c.Usage()
	require.LessOrEqual(t, open, limit)
	slice, err := segs[0].Slice(0, int(segs[0].Size()))
	require.NoError(t, err)
	segs[0].Retire()
	require.True(t, segs[0].Retired())
	present, err := segs[0].Files()
	require.NoError(t, err)
	for _, suffix := range present {
		require.NoError(t, fsys.Remove(segs[0].Path(suffix)))
	}
	data, err := slice.ReadAll()
	require.NoError(t, err)
	b, err := record.ParseBatch(data)
	require.NoError(t, err)
	require.NoError(t, b.VerifyCRC())
	slice.Release()
	for _, s := range segs[1:] {
		s.Retire()
	}
	require.Empty(t, fsys.OpenFiles())
}

func TestConcurrentReadersAndEviction(t *testing.T) {
	fsys, c := memory(t), NewCache(2)
	var segs []*Segment
	for i := range 6 {
		s, err := Create(fsys, c, "/s", int64(100*i))
		require.NoError(t, err)
		fill(t, s, int64(100*i), 10)
		require.NoError(t, s.Seal())
		segs = append(segs, s)
	}
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 300 {
				s := segs[(i+g)%len(segs)]
				f, ok, err := s.Find(s.Base() + int64(i%30))
				if err != nil || !ok {
					t.Errorf("find: %v %v", ok, err)
					return
				}
				b, err := s.ReadBatch(f, nil)
				if err != nil || b.VerifyCRC() != nil {
					t.Errorf("read: %v", err)
					return
				}
			}
		})
	}
	wg.Wait()
	for _, s := range segs {
		s.Retire()
	}
	require.Empty(t, fsys.OpenFiles())
}

func TestDamageIsToldFromATornEnd(t *testing.T) {
	fsys, c := memory(t), NewCache(4)
	s, err := Create(fsys, c, "/s", 0)
	require.NoError(t, err)
	big := record.NewBuilder(record.Options{})
	big.Add(1, nil, []byte(fmt.Sprintf("%02000d", 7)))
	first, err := big.Finish()
	require.NoError(t, err)
	require.NoError(t, s.Append(first, 100))
	require.NoError(t, s.Append(batch(t, 1, 5), 100))
	spoil := func(b []byte, at int64) {
		f, err := fsys.Open("/s/"+FileName(0, LogSuffix), os.O_RDWR, 0)
		require.NoError(t, err)
		_, err = f.WriteAt(b, at)
		require.NoError(t, err)
		require.NoError(t, f.Close())
	}
	_, err = s.Scan(0, nil, func(record.Batch, int64) error { return nil })
	require.NoError(t, err)
	spoil([]byte("!"), 900)
	end, err := s.Scan(0, nil, func(record.Batch, int64) error { return nil })
	require.ErrorIs(t, err, record.ErrCorrupt)
	require.Zero(t, end)
	require.True(t, s.DamagedAt(0), "a bad byte in front of a good batch")
	spoil(make([]byte, 512), 1024)
	require.False(t, s.DamagedAt(0), "a sector that was never written")
}

func FuzzIndexes(f *testing.F) {
	f.Add([]byte{0, 0, 0, 8, 0, 0, 1, 0, 0, 0, 0, 14, 0, 0, 2, 0}, int64(1<<20))
	f.Add(Aborted{1, 2, 3, 4}.append(nil), int64(3))
	f.Fuzz(func(t *testing.T, b []byte, size int64) {
		fsys := memory(t)
		require.NoError(t, writeTable(fsys, "/s/x", b))
		if entries, err := loadOffsets(fsys, "/s/x", size); err == nil {
			for i, e := range entries {
				if int64(e.pos) >= size || i > 0 && e.pos <= entries[i-1].pos {
					t.Fatalf("entry %d of %v was accepted for a log of %d bytes", i, entries, size)
				}
			}
		}
		_, _ = loadTimes(fsys, "/s/x")
		if list, err := parseAborted(b, 0); err == nil && len(list)*abortedSize != len(b) {
			t.Fatalf("%d entries in %d bytes", len(list), len(b))
		}
	})
}

// Whatever bytes stand in a log file, a scan ends, and what it calls good is good.
func FuzzScan(f *testing.F) {
	f.Add([]byte(batch(f, 0, 1, 2)))
	f.Add(append([]byte(batch(f, 0, 1)), batch(f, 1, 5)...))
	f.Fuzz(func(t *testing.T, b []byte) {
		fsys, c := memory(t), NewCache(2)
		require.NoError(t, writeTable(fsys, "/s/"+FileName(0, LogSuffix), b))
		s, err := Open(fsys, c, "/s", 0)
		require.NoError(t, err)
		defer s.Retire()
		s.Reset()
		end, err := s.Scan(0, nil, func(b record.Batch, pos int64) error {
			s.Indexed(b, pos, 100)
			return b.VerifyCRC()
		})
		if err == nil && end != int64(len(b)) {
			t.Fatalf("scan ended at %d of %d without an error", end, len(b))
		}
		_ = s.DamagedAt(end)
		_, _, _ = s.Find(3)
		_, _, _ = s.FindTime(3)
	})
}
