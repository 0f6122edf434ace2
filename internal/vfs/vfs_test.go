package vfs

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestOSFiles(t *testing.T) {
	var fsys OS
	dir := filepath.Join(t.TempDir(), "a", "b")
	require.NoError(t, MkdirAllDurable(fsys, dir, 0o755))
	require.NoError(t, MkdirAllDurable(fsys, dir, 0o755), "a second time changes nothing")
	name := filepath.Join(dir, "f")
	require.NoError(t, WriteFileAtomic(fsys, name, []byte("one")))
	require.NoError(t, WriteFileAtomic(fsys, name, []byte("three")))
	b, err := ReadFile(fsys, name)
	require.NoError(t, err)
	require.Equal(t, "three", string(b))

	f, err := fsys.Open(name, os.O_RDWR, 0)
	require.NoError(t, err)
	require.Equal(t, name, f.Name())
	require.NotNil(t, f.OSFile())
	require.NoError(t, f.Truncate(2))
	require.NoError(t, f.Sync())
	size, err := f.Size()
	require.NoError(t, err)
	require.Equal(t, int64(2), size)
	require.NoError(t, f.Close())

	when := time.Unix(1_600_000_000, 0)
	require.NoError(t, fsys.Chtimes(name, when))
	st, err := fsys.Stat(name)
	require.NoError(t, err)
	require.True(t, when.Equal(st.ModTime()))

	entries, err := fsys.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1, "no temporary file is left")
	require.NoError(t, fsys.Rename(name, name+"2"))
	require.NoError(t, fsys.SyncDir(dir))
	require.NoError(t, fsys.Remove(name+"2"))
	_, err = ReadFile(fsys, name)
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorContains(t, err, name)
	require.NoError(t, fsys.RemoveAll(dir))
	require.ErrorIs(t, fsys.SyncDir(dir), fs.ErrNotExist)
}

func TestOSLockIsExclusive(t *testing.T) {
	var fsys OS
	name := filepath.Join(t.TempDir(), ".lock")
	first, err := fsys.Lock(name)
	require.NoError(t, err)
	_, err = fsys.Lock(name)
	require.ErrorIs(t, err, ErrLocked)
	require.ErrorContains(t, err, name)
	require.NoError(t, first.Close())
	again, err := fsys.Lock(name)
	require.NoError(t, err)
	require.NoError(t, again.Close())
}

func TestOSUsage(t *testing.T) {
	total, free, err := OS{}.Usage(t.TempDir())
	require.NoError(t, err)
	require.Positive(t, total)
	require.LessOrEqual(t, free, total)
	_, _, err = OS{}.Usage("/does/not/exist")
	require.ErrorIs(t, err, fs.ErrNotExist)
}

func TestMkdirAllDurableSaysWhatIsInTheWay(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o644))
	require.ErrorContains(t, MkdirAllDurable(OS{}, filepath.Join(file, "x"), 0o755), "file")
}
