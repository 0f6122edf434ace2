package memfs

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kbroker/kbroker/internal/vfs"
)

func TestOnlyWhatWasSyncedIsCertain(t *testing.T) {
	f := New()
	h := create(t, f, "file", "synced")
	require.False(t, exists(t, f.CrashClone(1, 0), "file"), "the name is not durable")
	require.NoError(t, h.Sync())
	require.False(t, exists(t, f.CrashClone(1, 0), "file"), "nor does syncing the content make it so")
	require.NoError(t, f.SyncDir("/"))
	require.Equal(t, "synced", read(t, f.CrashClone(1, 0), "file"))

	_, err := h.WriteAt([]byte("SYNCED, more"), 0)
	require.NoError(t, err)
	require.Equal(t, "synced", read(t, f.CrashClone(1, 0), "file"))
	require.Equal(t, "SYNCED, more", read(t, f.CrashClone(1, 100), "file"))
	require.Equal(t, "SYNCED, more", read(t, f, "file"), "the live file system does not notice")
	require.NoError(t, h.Sync())
	require.Equal(t, "SYNCED, more", read(t, f.CrashClone(1, 0), "file"))

	require.NoError(t, h.Truncate(3))
	require.Equal(t, "SYNCED, more", read(t, f.CrashClone(1, 0), "file"), "a truncation needs a sync too")
	require.Equal(t, "SYN", read(t, f.CrashClone(1, 100), "file"))
	require.NoError(t, h.Truncate(5))
	require.NoError(t, h.Sync())
	require.Equal(t, "SYN\x00\x00", read(t, f.CrashClone(1, 0), "file"))
	require.NoError(t, f.Remove("file"))
	require.True(t, exists(t, f.CrashClone(1, 0), "file"))
	require.False(t, exists(t, f.CrashClone(1, 100), "file"))
	require.NoError(t, f.SyncDir("/"))
	require.False(t, exists(t, f.CrashClone(1, 0), "file"))
}

func TestAFolderIsDurableByItsParent(t *testing.T) {
	f := New()
	require.NoError(t, f.MkdirAll("a/b", 0o755))
	require.NoError(t, create(t, f, "a/b/file", "x").Sync())
	require.NoError(t, f.SyncDir("a/b"))
	require.NoError(t, f.SyncDir("a"))
	require.False(t, exists(t, f.CrashClone(1, 0), "a"))
	require.NoError(t, f.SyncDir("/"))
	require.Equal(t, "x", read(t, f.CrashClone(1, 0), "a/b/file"))

	require.NoError(t, f.RemoveAll("a/b"))
	require.Equal(t, "x", read(t, f.CrashClone(1, 0), "a/b/file"))
	require.NoError(t, f.SyncDir("a"))
	require.False(t, exists(t, f.CrashClone(1, 0), "a/b"))
	require.Empty(t, f.mu.pending, "what happened inside the removed folder is forgotten")
}

func TestSectorsTearAndReorder(t *testing.T) {
	f := New()
	const sectors = 20
	h := create(t, f, "file", strings.Repeat("o", sectors*SectorSize))
	require.NoError(t, h.Sync())
	require.NoError(t, f.SyncDir("/"))
	_, err := h.WriteAt([]byte(strings.Repeat("n", sectors*SectorSize)), 0)
	require.NoError(t, err)
	reordered := false
	for seed := range uint64(20) {
		got := read(t, f.CrashClone(seed, 50), "file")
		for s := range sectors {
			sector := got[s*SectorSize : (s+1)*SectorSize]
			require.Equal(t, strings.Repeat(sector[:1], SectorSize), sector, "a sector is all old or all new")
		}
		reordered = reordered || got[0] == 'o' && got[SectorSize] == 'n'
	}
	require.True(t, reordered, "a later sector may survive without an earlier one")
}

func TestTheLengthOfAnAppendIsUncertain(t *testing.T) {
	f := New()
	h := create(t, f, "file", "")
	require.NoError(t, f.SyncDir("/"))
	_, err := h.WriteAt([]byte(strings.Repeat("n", 3*pageSize)), 0)
	require.NoError(t, err)
	sizes, holes := map[int64]bool{}, false
	for seed := range uint64(200) {
		got := read(t, f.CrashClone(seed, 50), "file")
		sizes[int64(len(got))] = true
		holes = holes || strings.Contains(got, "\x00")
		require.Empty(t, strings.Trim(got, "n\x00"))
	}
	require.True(t, sizes[0] && sizes[3*pageSize] && len(sizes) > 5, "%v", sizes)
	require.True(t, holes, "the length may be durable before the bytes are")
}

func TestALowerLengthInBetweenMayBeTheOneLeft(t *testing.T) {
	f := New()
	h := create(t, f, "file", strings.Repeat("o", 1000))
	require.NoError(t, h.Sync())
	require.NoError(t, f.SyncDir("/"))
	require.NoError(t, h.Truncate(10))
	_, err := h.WriteAt([]byte(strings.Repeat("n", 990)), 10)
	require.NoError(t, err)
	sizes := map[int]bool{}
	for seed := range uint64(200) {
		sizes[len(read(t, f.CrashClone(seed, 50), "file"))] = true
	}
	require.True(t, sizes[10] && sizes[512] && sizes[1000], "%v", sizes)
}

func TestWhatIsBehindTheEndIsZero(t *testing.T) {
	f := New()
	h := create(t, f, "file", strings.Repeat("o", 1000))
	require.NoError(t, h.Sync())
	require.NoError(t, f.SyncDir("/"))
	require.NoError(t, h.Truncate(10))
	for seed := range uint64(50) {
		clone := f.CrashClone(seed, 50)
		ch, err := clone.Open("file", os.O_RDWR, 0)
		require.NoError(t, err)
		size, err := ch.Size()
		require.NoError(t, err)
		kept := read(t, clone, "file")
		require.NoError(t, ch.Truncate(2000))
		require.Equal(t, kept+strings.Repeat("\x00", 2000-int(size)), read(t, clone, "file"))
	}
	require.Equal(t, strings.Repeat("o", 1000), read(t, f.CrashClone(1, 0), "file"), "the original's durable page is untouched")
}

func TestAnUnsyncedTimeMayBeLost(t *testing.T) {
	f := New()
	require.NoError(t, create(t, f, "file", "x").Sync())
	require.NoError(t, f.SyncDir("/"))
	before, err := f.Stat("file")
	require.NoError(t, err)
	require.NoError(t, f.Chtimes("file", time.Unix(1, 0)))
	st, err := f.CrashClone(1, 0).Stat("file")
	require.NoError(t, err)
	require.Equal(t, before.ModTime(), st.ModTime())
	st, err = f.CrashClone(1, 100).Stat("file")
	require.NoError(t, err)
	require.Equal(t, time.Unix(1, 0), st.ModTime())
}

// M3: what happened later to a name did not happen without what happened to it before.
func TestChangesOfOneNameKeepTheirOrder(t *testing.T) {
	f := New()
	for _, name := range []string{"target", "tmp"} {
		require.NoError(t, create(t, f, name, name).Sync())
	}
	require.NoError(t, f.SyncDir("/"))
	require.NoError(t, f.Rename("tmp", "target"))
	require.NoError(t, f.Remove("target"))
	seen := map[string]bool{}
	for seed := range uint64(50) {
		seen[f.CrashClone(seed, 50).String()] = true
	}
	require.Equal(t, map[string]bool{"/target 6\n/tmp 3\n": true, "/target 3\n": true, "": true}, seen)

	// The same for a sync: the new file of that name is durable only with the move that made room for it.
	f = New()
	require.NoError(t, f.MkdirAll("a", 0o755))
	require.NoError(t, f.MkdirAll("b", 0o755))
	require.NoError(t, create(t, f, "a/x", "old").Sync())
	require.NoError(t, f.SyncDir("a"))
	require.NoError(t, f.SyncDir("/"))
	require.NoError(t, f.Rename("a/x", "b/y"))
	require.NoError(t, create(t, f, "a/x", "new").Sync())
	require.NoError(t, f.SyncDir("a"))
	clone := f.CrashClone(1, 0)
	require.Equal(t, "new", read(t, clone, "a/x"))
	require.Equal(t, "old", read(t, clone, "b/y"))
}

func TestARenameIsAllOrNothing(t *testing.T) {
	f := New()
	for _, name := range []string{"target", "tmp"} {
		require.NoError(t, create(t, f, name, name).Sync())
	}
	require.NoError(t, f.SyncDir("/"))
	require.NoError(t, f.Rename("tmp", "target"))
	seen := map[string]bool{}
	for seed := range uint64(30) {
		c := f.CrashClone(seed, 50)
		got := read(t, c, "target")
		seen[got] = true
		require.Equal(t, got == "target", exists(t, c, "tmp"))
	}
	require.Len(t, seen, 2)
	require.NoError(t, f.SyncDir("/"))
	require.Equal(t, "tmp", read(t, f.CrashClone(1, 0), "target"))
}

func TestAMoveBetweenFoldersNeedsBothSyncedAndLosesNothing(t *testing.T) {
	prepare := func() *FS {
		f := New()
		require.NoError(t, f.MkdirAll("a", 0o755))
		require.NoError(t, create(t, f, "a/file", "x").Sync())
		require.NoError(t, f.SyncDir("a"))
		require.NoError(t, f.SyncDir("/"))
		require.NoError(t, f.MkdirAll("b", 0o755))
		require.NoError(t, f.Rename("a/file", "b/file"))
		return f
	}
	onlyOne := func(f *FS) {
		t.Helper()
		for seed := range uint64(30) {
			c := f.CrashClone(seed, 50)
			require.NotEqual(t, exists(t, c, "a/file"), exists(t, c, "b/file"), "seed %d: %s", seed, c)
		}
	}
	f := prepare()
	onlyOne(f)
	require.NoError(t, f.SyncDir("a"))
	require.True(t, exists(t, f.CrashClone(1, 0), "a/file"), "one side synced is not enough")
	require.NoError(t, f.SyncDir("b"))
	require.True(t, exists(t, f.CrashClone(1, 0), "b/file"), "the new folder comes along")

	f = prepare()
	require.NoError(t, f.MkdirAll("c/d", 0o755))
	require.NoError(t, f.Rename("b/file", "c/d/file"))
	require.NoError(t, f.SyncDir("a"))
	require.NoError(t, f.SyncDir("b"))
	require.NoError(t, f.SyncDir("c/d"))
	require.True(t, exists(t, f.CrashClone(1, 0), "c/d/file"), "with all folders above it")

	f = prepare()
	require.NoError(t, f.Remove("a"))
	onlyOne(f)
	require.NoError(t, f.SyncDir("/"))
	require.True(t, exists(t, f.CrashClone(1, 0), "b/file"), "a folder is not removed before it is emptied")
	onlyOne(f)
}

func TestClonesAreIndependent(t *testing.T) {
	f := New()
	h := create(t, f, "file", strings.Repeat("a", 2*pageSize))
	require.NoError(t, h.Sync())
	require.NoError(t, f.SyncDir("/"))
	clone := f.CrashClone(1, 0)
	again := clone.CrashClone(1, 100)
	ch, err := clone.Open("file", os.O_RDWR, 0)
	require.NoError(t, err)
	_, err = ch.WriteAt([]byte("clone"), 0)
	require.NoError(t, err)
	_, err = h.WriteAt([]byte("original"), 0)
	require.NoError(t, err)
	require.NoError(t, h.Truncate(pageSize+1))
	require.Equal(t, "clonea", read(t, clone, "file")[:6])
	require.Len(t, read(t, clone, "file"), 2*pageSize)
	require.Equal(t, "aaaaa", read(t, again, "file")[:5])
	require.Equal(t, "original", read(t, f, "file")[:8])
	require.Equal(t, strings.Repeat("a", 2*pageSize), read(t, clone.CrashClone(1, 0), "file"))
	require.Equal(t, f.CrashClone(7, 50).String(), f.CrashClone(7, 50).String(), "the seed decides")
	total, free, err := clone.Usage("/")
	require.NoError(t, err)
	require.Equal(t, int64(2*pageSize), total-free)
}

func TestWriteFileAtomicSurvivesACrash(t *testing.T) {
	f := New()
	require.NoError(t, vfs.WriteFileAtomic(f, "file", []byte("old")))
	require.Equal(t, "old", read(t, f.CrashClone(1, 0), "file"))
	require.NoError(t, vfs.WriteFileAtomic(f, "file", []byte("new")))
	for seed := range uint64(30) {
		require.Equal(t, "new", read(t, f.CrashClone(seed, 50), "file"))
	}
}

// model is the dumb version: whole copies of what is durable.
type model struct {
	content map[string]string // of live names, as synced
	names   map[string]bool   // durable
}

// With nothing surviving a clone is what was synced; with everything it is the live state; in between every file has
// one of the contents that its name ever had, sector by sector.
func TestClonesAgreeWithADumbModel(t *testing.T) {
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 2))
		f := New()
		m := model{content: map[string]string{}, names: map[string]bool{}}
		for range 100 {
			name := fmt.Sprint("f", r.IntN(4))
			m.step(t, f, r, name)
			zero, all := f.CrashClone(seed, 0), f.CrashClone(seed, 100)
			require.Equal(t, f.String(), all.String())
			for _, e := range must(t, f.ReadDir) {
				require.Equal(t, read(t, f, e), read(t, all, e))
			}
			for _, e := range must(t, zero.ReadDir) {
				require.True(t, m.names[e], "seed %d: %s", seed, e)
				require.Equal(t, m.content[e], read(t, zero, e), "seed %d: %s", seed, e)
			}
			require.Len(t, must(t, zero.ReadDir), len(m.names))
		}
	}
}

func must(t *testing.T, list func(string) ([]os.DirEntry, error)) (names []string) {
	t.Helper()
	es, err := list("/")
	require.NoError(t, err)
	for _, e := range es {
		names = append(names, e.Name())
	}
	return names
}

func (m *model) step(t *testing.T, f *FS, r *rand.Rand, name string) {
	t.Helper()
	h, err := f.Open(name, rw, 0o644)
	require.NoError(t, err)
	defer h.Close()
	switch r.IntN(4) {
	case 0:
		require.NoError(t, h.Truncate(r.Int64N(3*pageSize)))
	case 1, 2:
		_, err := h.WriteAt([]byte(strings.Repeat(fmt.Sprint(r.IntN(10)), r.IntN(2*pageSize))), r.Int64N(2*pageSize))
		require.NoError(t, err)
	case 3:
		require.NoError(t, h.Sync())
		m.content[name] = read(t, f, name)
		if r.IntN(2) == 0 {
			require.NoError(t, f.SyncDir("/"))
			for _, e := range must(t, f.ReadDir) {
				m.names[e] = true
			}
		}
	}
}

// The log of a long test must not slow it down: folders that are synced keep nothing.
func TestPendingChangesAreForgotten(t *testing.T) {
	f := New()
	require.NoError(t, f.MkdirAll("d", 0o755))
	for i := range 50 {
		name := filepath.Join("d", fmt.Sprint(i))
		create(t, f, name, "x").Close()
		require.NoError(t, f.Rename(name, name+".x"))
		require.NoError(t, f.Remove(name+".x"))
		require.NoError(t, f.Chtimes("d", time.Now()))
		require.NoError(t, f.SyncDir("d"))
	}
	require.Len(t, f.mu.pending, 1, "the making of d itself")
}
