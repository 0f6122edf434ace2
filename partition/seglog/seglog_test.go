package seglog

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kbroker/kbroker/internal/vfs"
	"github.com/kbroker/kbroker/internal/vfs/faultfs"
	"github.com/kbroker/kbroker/internal/vfs/memfs"
	"github.com/kbroker/kbroker/partition/segment"
	"github.com/kbroker/kbroker/protocol/record"
)

const dir = "/data/t-0"

func newFS(t testing.TB) *memfs.FS {
	t.Helper()
	mem := memfs.New()
	require.NoError(t, mem.MkdirAll(dir, 0o755))
	require.NoError(t, mem.SyncDir("/data"))
	require.NoError(t, mem.SyncDir("/"))
	return mem
}

func open(t testing.TB, fsys vfs.FS) *Log {
	t.Helper()
	l, err := Open(options(fsys))
	require.NoError(t, err)
	return l
}

func options(fsys vfs.FS) Options { return Options{FS: fsys, Dir: dir, Cache: segment.NewCache(4)} }

func batch(t testing.TB, offset int64, value string) record.Batch {
	t.Helper()
	bl := record.NewBuilder(record.Options{BaseOffset: offset})
	bl.Add(1000+offset, nil, []byte(value))
	b, err := bl.Finish()
	require.NoError(t, err)
	return b
}

// fill appends one record per batch and rolls after every two; everything is durable afterwards.
func fill(t testing.TB, l *Log, from, to int64) {
	t.Helper()
	for o := from; o < to; o++ {
		if o > from && o%2 == 0 {
			require.NoError(t, l.Roll(o))
		}
		require.NoError(t, l.Active().Append(batch(t, o, fmt.Sprint("v", o)), 10))
	}
	for _, s := range l.Segments() {
		require.NoError(t, s.Sync())
	}
}

// content lists what is in the log: base offset of each segment and its records.
func content(l *Log) (string, error) {
	var b strings.Builder
	for _, s := range l.Segments() {
		fmt.Fprintf(&b, "%d:", s.Base())
		_, err := s.Scan(0, nil, func(v record.Batch, _ int64) error {
			d := record.NewDecoder(1 << 20)
			defer d.Release()
			for r, err := range v.Records(d) {
				if err != nil {
					return err
				}
				fmt.Fprintf(&b, " %d=%s", r.Offset, r.Value)
			}
			return nil
		})
		if err != nil {
			return "", err
		}
		b.WriteByte('\n')
	}
	return b.String(), nil
}

func mustContent(t testing.TB, l *Log) string {
	t.Helper()
	c, err := content(l)
	require.NoError(t, err)
	return c
}

// clean writes a replacement with one record for the first n segments.
func clean(l *Log, t testing.TB, n int) (old, new []*segment.Segment, err error) {
	old = l.Segments()[:n:n]
	s, err := l.CreateCleaned(old[0].Base())
	if err != nil {
		return nil, nil, err
	}
	err = s.Append(batch(t, old[0].Base()+1, "cleaned"), 10)
	s.AddAborted(segment.Aborted{ProducerID: 1, FirstOffset: old[0].Base(), LastOffset: old[0].Base() + 1})
	return old, []*segment.Segment{s}, err
}

const (
	before = "0: 0=v0 1=v1\n2: 2=v2 3=v3\n4: 4=v4 5=v5\n6: 6=v6 7=v7\n"
	after  = "0: 1=cleaned\n4: 4=v4 5=v5\n6: 6=v6 7=v7\n"
)

func TestReplace(t *testing.T) {
	fsys := newFS(t)
	l := open(t, fsys)
	fill(t, l, 0, 8)
	require.Equal(t, before, mustContent(t, l))
	reader, err := l.Segments()[0].Slice(0, int(l.Segments()[0].Size()))
	require.NoError(t, err)
	want, err := reader.ReadAll()
	require.NoError(t, err)

	old, new, err := clean(l, t, 2)
	require.NoError(t, err)
	paths, err := l.Replace(l.Generation(), old, new)
	require.NoError(t, err)
	require.Equal(t, after, mustContent(t, l))
	require.True(t, old[0].Retired())
	for _, p := range paths {
		require.NoError(t, fsys.Remove(p))
	}
	got, err := reader.ReadAll()
	require.NoError(t, err)
	require.Equal(t, want, got, "a reader in the middle of an old file finishes")
	reader.Release()
	check := func(l *Log) {
		t.Helper()
		require.Equal(t, after, mustContent(t, l))
		list, err := l.Segments()[0].Aborted()
		require.NoError(t, err)
		require.Equal(t, []segment.Aborted{{ProducerID: 1, FirstOffset: 0, LastOffset: 1}}, list)
		f, ok, err := l.Segments()[0].Find(0)
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, int64(1), f.Header.BaseOffset)
	}
	check(l)
	l.Retire()
	require.Empty(t, fsys.OpenFiles())
	check(open(t, fsys.CrashClone(1, 0)))
}

func TestReplaceIsRefusedWhenTheLogChanged(t *testing.T) {
	fsys := newFS(t)
	l := open(t, fsys)
	fill(t, l, 0, 8)
	old, new, err := clean(l, t, 2)
	require.NoError(t, err)
	generation := l.Generation()
	_, err = l.TruncateTo(7)
	require.NoError(t, err)
	_, err = l.Replace(generation, old, new)
	require.ErrorIs(t, err, ErrChanged)
	_, err = l.DropFirst(1)
	require.NoError(t, err)
	_, err = l.Replace(l.Generation(), old, new)
	require.ErrorIs(t, err, ErrChanged, "a segment that retention took")
	_, err = l.Replace(l.Generation(), l.Segments()[2:], []*segment.Segment{l.Segments()[2]})
	require.ErrorContains(t, err, "active")
	_, err = l.Replace(l.Generation(), l.Segments()[:1], new)
	require.ErrorContains(t, err, "begin at the same offset")
	_, err = l.Replace(l.Generation(), nil, nil)
	require.Error(t, err)
	s, err := l.CreateCleaned(2)
	require.NoError(t, err)
	far, err := l.CreateCleaned(5)
	require.NoError(t, err)
	_, err = l.Replace(l.Generation(), l.Segments()[:1], []*segment.Segment{s, far})
	require.ErrorContains(t, err, "does not fit")
	require.Equal(t, "2: 2=v2 3=v3\n4: 4=v4 5=v5\n6: 6=v6\n", mustContent(t, l))
	require.NoError(t, l.Discard(append(new, s, far)))
	require.NotContains(t, fsys.String(), ".cleaned")
}

// powerCut runs change on a prepared log with the power failing at the n-th file operation, and opens what is left. The
// contents that may be there are those in allowed; must is the one that has to be there when change said that it was done.
func powerCut(t *testing.T, change func(*Log) error, must string, allowed ...string) {
	t.Helper()
	for _, percent := range []int{0, 30, 60, 100} {
		for n := 0; ; n++ {
			mem := newFS(t)
			ff := faultfs.New(mem, 1)
			l := open(t, ff)
			fill(t, l, 0, 8)
			var clone *memfs.FS
			ops := 0
			ff.SetHook(func(faultfs.Call) error {
				if ops++; ops <= n {
					return nil
				}
				if clone == nil {
					clone = mem.CrashClone(uint64(n), percent)
				}
				return errors.New("power lost")
			})
			err := change(l)
			if clone == nil {
				require.NoError(t, err)
				require.Greater(t, n, 5)
				clone = mem.CrashClone(uint64(n), percent)
			}
			again := faultfs.New(clone, 1)
			twice := 0
			again.SetHook(func(faultfs.Call) error { // and once more in the middle of the recovery
				if twice++; twice > n%7 {
					return errors.New("power lost again")
				}
				return nil
			})
			_, _ = Open(options(again))
			clone = clone.CrashClone(uint64(n), percent)
			what := fmt.Sprintf("power failed at operation %d, %d%% kept\n%s", n, percent, clone)
			after, oerr := Open(options(clone))
			require.NoError(t, oerr, what)
			got, cerr := content(after)
			require.NoError(t, cerr, what)
			require.Contains(t, allowed, got, what)
			for _, leftover := range []string{".cleaned", ".swap", planFile} {
				require.NotContains(t, clone.String(), leftover, what)
			}
			if err == nil {
				require.Equal(t, must, got, what)
				break
			}
		}
	}
}

func TestPowerFailsDuringReplace(t *testing.T) {
	powerCut(t, func(l *Log) error {
		old, new, err := clean(l, t, 2)
		if err == nil {
			_, err = l.Replace(l.Generation(), old, new)
		}
		return err
	}, after, before, after)
}

func TestPowerFailsDuringDrops(t *testing.T) {
	drop := func(n int) func(*Log) error {
		return func(l *Log) error { _, err := l.DropFirst(n); return err }
	}
	powerCut(t, drop(1), "2: 2=v2 3=v3\n4: 4=v4 5=v5\n6: 6=v6 7=v7\n", before, "2: 2=v2 3=v3\n4: 4=v4 5=v5\n6: 6=v6 7=v7\n")
	powerCut(t, drop(3), "6: 6=v6 7=v7\n", before, "6: 6=v6 7=v7\n")
	powerCut(t, func(l *Log) error { _, err := l.StartAt(100); return err }, "100:\n", before, "100:\n")
	powerCut(t, func(l *Log) error { _, err := l.StartAt(2); return err }, "2:\n", before, "2:\n")
	whole := "0: 0=v0 1=v1\n2: 2=v2 3=v3\n"
	powerCut(t, func(l *Log) error { _, err := l.TruncateTo(3); return err }, "0: 0=v0 1=v1\n2: 2=v2\n", before, whole, "0: 0=v0 1=v1\n2: 2=v2\n")
}

// A failure that comes before the plan was written leaves a log that works.
func TestAFailedReplaceChangesNothing(t *testing.T) {
	mem := newFS(t)
	ff := faultfs.New(mem, 1)
	l := open(t, ff)
	fill(t, l, 0, 8)
	old, new, err := clean(l, t, 2)
	require.NoError(t, err)
	rule := ff.Add(faultfs.Rule{Ops: faultfs.OpWrite | faultfs.OpCreate, Path: planFile + ".tmp"})
	_, err = l.Replace(l.Generation(), old, new)
	require.Error(t, err)
	require.NotErrorIs(t, err, ErrInterrupted)
	require.Equal(t, before, mustContent(t, l))
	require.False(t, old[0].Retired())
	rule.Remove()
	_, err = l.Replace(l.Generation(), old, new)
	require.NoError(t, err)
	require.Equal(t, after, mustContent(t, l))

	old, new, err = clean(l, t, 1)
	require.NoError(t, err)
	ff.Add(faultfs.Rule{Ops: faultfs.OpRename, Path: "*" + segment.SwapSuffix})
	_, err = l.Replace(l.Generation(), old, new)
	require.ErrorIs(t, err, ErrInterrupted)
	require.Equal(t, after, mustContent(t, open(t, mem)), "the next Open completes it; this one has the same content")
}

// Kafka writes no plan. What its cleaner leaves behind when it is killed is settled by its own rules.
func TestWhatKafkaLeavesBehind(t *testing.T) {
	rename := func(t *testing.T, fsys vfs.FS, base int64, from, to string) {
		t.Helper()
		for _, suffix := range segment.Suffixes() {
			name := dir + "/" + segment.FileName(base, suffix)
			if _, err := fsys.Stat(name + from); err == nil {
				require.NoError(t, fsys.Rename(name+from, name+to))
			}
		}
	}
	prepare := func(t *testing.T) *memfs.FS {
		fsys := newFS(t)
		l := open(t, fsys)
		fill(t, l, 0, 8)
		_, new, err := clean(l, t, 2)
		require.NoError(t, err)
		require.NoError(t, new[0].Append(batch(t, 3, "kept"), 10))
		require.NoError(t, new[0].Seal())
		l.Retire()
		return fsys
	}
	cleaned := "0: 1=cleaned 3=kept\n4: 4=v4 5=v5\n6: 6=v6 7=v7\n"
	for name, c := range map[string]struct {
		change func(t *testing.T, fsys *memfs.FS)
		want   string
	}{
		"half made": {func(*testing.T, *memfs.FS) {}, before},
		"finished":  {func(t *testing.T, f *memfs.FS) { rename(t, f, 0, ".cleaned", ".swap") }, cleaned},
		"old ones gone": {func(t *testing.T, f *memfs.FS) {
			rename(t, f, 0, ".cleaned", ".swap")
			rename(t, f, 0, "", ".deleted")
		}, cleaned},
		"another one unfinished below": {func(t *testing.T, f *memfs.FS) {
			rename(t, f, 0, ".cleaned", ".swap")
			h, err := f.Open(dir+"/"+segment.FileName(0, ".log")+".cleaned", os.O_CREATE|os.O_RDWR, 0o644)
			require.NoError(t, err)
			require.NoError(t, h.Close())
		}, before},
	} {
		t.Run(name, func(t *testing.T) {
			fsys := prepare(t)
			c.change(t, fsys)
			l := open(t, fsys)
			require.Equal(t, c.want, mustContent(t, l))
			require.Equal(t, c.want, mustContent(t, open(t, fsys)))
			for _, leftover := range []string{".cleaned", ".swap", planFile} {
				require.NotContains(t, fsys.String(), leftover)
			}
		})
	}
	t.Run("damaged", func(t *testing.T) {
		fsys := prepare(t)
		rename(t, fsys, 0, ".cleaned", ".swap")
		name := dir + "/" + segment.FileName(0, ".log") + ".swap"
		h, err := fsys.Open(name, os.O_RDWR, 0)
		require.NoError(t, err)
		_, err = h.WriteAt([]byte{9}, 16)
		require.NoError(t, err)
		require.NoError(t, h.Close())
		_, err = Open(options(fsys))
		require.ErrorIs(t, err, record.ErrCorrupt)
		require.ErrorContains(t, err, name)
	})
}

func TestPlanFormat(t *testing.T) {
	create := int64(9)
	const text = `{"version":1,"remove":[0,2],"install":[{"base":0,"files":[".index",".log"]}],"create":9}`
	p, err := parsePlan([]byte(text))
	require.NoError(t, err)
	require.Equal(t, &plan{Version: 1, Remove: []int64{0, 2}, Install: []install{{0, []string{".index", ".log"}}}, Create: &create}, p)
	for _, bad := range []string{
		"", "{}", `{"version":2}`, `{"version":1,"remove":[-1]}`, `{"version":1,"create":-1}`,
		`{"version":1,"install":[{"base":0,"files":[".index"]}]}`, `{"version":1,"install":[{"base":0,"files":[".log","/../x"]}]}`,
		`{"version":1,"install":[{"base":2,"files":[".log"]},{"base":1,"files":[".log"]}]}`,
	} {
		_, err := parsePlan([]byte(bad))
		require.Error(t, err, bad)
	}
	fsys := newFS(t)
	require.NoError(t, vfs.WriteFileAtomic(fsys, dir+"/"+planFile, []byte(`{"version":2}`)))
	_, err = Open(options(fsys))
	require.ErrorContains(t, err, dir+"/"+planFile)
}

func FuzzParsePlan(f *testing.F) {
	f.Add([]byte(`{"version":1,"remove":[0,2],"install":[{"base":0,"files":[".index",".log"]}],"create":9}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := parsePlan(text)
		if err != nil {
			return
		}
		fsys := newFS(t)
		l := open(t, fsys)
		fill(t, l, 0, 4)
		_, _ = l.replay(p, func() {}) // any plan that parses stays inside the folder
		require.NoError(t, fsys.RemoveAll(dir))
		require.Equal(t, "/data/\n", fsys.String())
	})
}
