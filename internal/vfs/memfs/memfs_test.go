package memfs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kbroker/kbroker/internal/vfs"
)

const rw = os.O_CREATE | os.O_RDWR

func create(t *testing.T, f vfs.FS, name, content string) vfs.File {
	t.Helper()
	h, err := f.Open(name, rw, 0o644)
	require.NoError(t, err)
	_, err = h.WriteAt([]byte(content), 0)
	require.NoError(t, err)
	return h
}

func read(t *testing.T, f vfs.FS, name string) string {
	t.Helper()
	b, err := vfs.ReadFile(f, name)
	require.NoError(t, err)
	return string(b)
}

func exists(t *testing.T, f vfs.FS, name string) bool {
	t.Helper()
	_, err := f.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false
	}
	require.NoError(t, err)
	return true
}

func TestErrorsAreThoseOfARealFileSystem(t *testing.T) {
	f := New()
	require.NoError(t, f.MkdirAll("d/sub", 0o755))
	create(t, f, "d/file", "x").Close()
	for name, c := range map[string]struct {
		do   func() error
		want error
	}{
		"open missing":           {func() error { _, err := f.Open("d/none", os.O_RDONLY, 0); return err }, fs.ErrNotExist},
		"open in missing folder": {func() error { _, err := f.Open("none/file", rw, 0); return err }, fs.ErrNotExist},
		"open below a file":      {func() error { _, err := f.Open("d/file/x", rw, 0); return err }, syscall.ENOTDIR},
		"open a folder":          {func() error { _, err := f.Open("d", os.O_RDONLY, 0); return err }, syscall.EISDIR},
		"open the root":          {func() error { _, err := f.Open("/", os.O_RDONLY, 0); return err }, syscall.EISDIR},
		"create exclusively":     {func() error { _, err := f.Open("d/file", rw|os.O_EXCL, 0); return err }, fs.ErrExist},
		"append mode":            {func() error { _, err := f.Open("d/file", rw|os.O_APPEND, 0); return err }, syscall.EINVAL},
		"long name":              {func() error { _, err := f.Open("d/"+strings.Repeat("n", 256), rw, 0); return err }, syscall.ENAMETOOLONG},
		"long folder":            {func() error { return f.MkdirAll(strings.Repeat("n", 256), 0o755) }, syscall.ENAMETOOLONG},
		"mkdir over a file":      {func() error { return f.MkdirAll("d/file", 0o755) }, syscall.ENOTDIR},
		"mkdir below a file":     {func() error { return f.MkdirAll("d/file/x", 0o755) }, syscall.ENOTDIR},
		"remove missing":         {func() error { return f.Remove("d/none") }, fs.ErrNotExist},
		"remove a full folder":   {func() error { return f.Remove("d") }, syscall.ENOTEMPTY},
		"remove the root":        {func() error { return f.RemoveAll("/") }, syscall.EBUSY},
		"rename missing":         {func() error { return f.Rename("d/none", "d/x") }, fs.ErrNotExist},
		"rename file to folder":  {func() error { return f.Rename("d/file", "d/sub") }, fs.ErrExist},
		"rename folder to file":  {func() error { return f.Rename("d/sub", "d/file") }, syscall.ENOTDIR},
		"rename over full":       {func() error { return f.Rename("d/sub", "d") }, fs.ErrExist},
		"rename into itself":     {func() error { return f.Rename("d", "d/sub/d") }, syscall.EINVAL},
		"list a file":            {func() error { _, err := f.ReadDir("d/file"); return err }, syscall.ENOTDIR},
		"list missing":           {func() error { _, err := f.ReadDir("none"); return err }, fs.ErrNotExist},
		"sync missing folder":    {func() error { return f.SyncDir("none") }, fs.ErrNotExist},
		"sync a file as folder":  {func() error { return f.SyncDir("d/file") }, syscall.ENOTDIR},
		"stat missing":           {func() error { _, err := f.Stat("none"); return err }, fs.ErrNotExist},
		"chtimes missing":        {func() error { return f.Chtimes("none", time.Now()) }, fs.ErrNotExist},
		"usage of missing":       {func() error { _, _, err := f.Usage("none"); return err }, fs.ErrNotExist},
	} {
		t.Run(name, func(t *testing.T) { require.ErrorIs(t, c.do(), c.want) })
	}
	require.NoError(t, f.RemoveAll("none/at/all"), "a missing tree is no error")
	require.Empty(t, f.OpenFiles())
}

func TestHandlesKeepTheirMode(t *testing.T) {
	f := New()
	h := create(t, f, "file", "abc")
	require.Equal(t, []string{"file"}, f.OpenFiles())
	require.Nil(t, h.OSFile())

	ro, err := f.Open("file", os.O_RDONLY, 0)
	require.NoError(t, err)
	_, err = ro.WriteAt([]byte("x"), 0)
	require.ErrorIs(t, err, syscall.EBADF)
	require.ErrorIs(t, ro.Truncate(0), syscall.EBADF)
	_, err = ro.ReadAt(make([]byte, 1), -1)
	require.ErrorIs(t, err, syscall.EINVAL)
	require.NoError(t, ro.Close())
	require.ErrorIs(t, ro.Close(), fs.ErrClosed)
	require.ErrorIs(t, ro.Sync(), fs.ErrClosed)
	_, err = ro.Size()
	require.ErrorIs(t, err, fs.ErrClosed)

	wo, err := f.Open("file", os.O_WRONLY|os.O_TRUNC, 0)
	require.NoError(t, err)
	_, err = wo.ReadAt(make([]byte, 1), 0)
	require.ErrorIs(t, err, syscall.EBADF)
	require.NoError(t, wo.Close())
	size, err := h.Size()
	require.NoError(t, err)
	require.Zero(t, size, "O_TRUNC empties the file for every handle")
	require.NoError(t, h.Close())
	require.Empty(t, f.OpenFiles())
}

func TestARemovedFileLivesAsLongAsItsHandle(t *testing.T) {
	f := New()
	h := create(t, f, "file", "abc")
	require.NoError(t, f.Remove("file"))
	b := make([]byte, 3)
	_, err := h.ReadAt(b, 0)
	require.NoError(t, err)
	require.Equal(t, "abc", string(b))
	_, free, err := f.Usage("/")
	require.NoError(t, err)
	require.Equal(t, defaultCapacity-pageSize, free)
	require.NoError(t, h.Close())
	_, free, err = f.Usage("/")
	require.NoError(t, err)
	require.Equal(t, defaultCapacity, free)
}

func TestAFullVolumeWritesWhatFits(t *testing.T) {
	f := New()
	f.SetCapacity(3 * pageSize)
	h := create(t, f, "file", "abc")
	defer h.Close()
	n, err := h.WriteAt(make([]byte, 4*pageSize), 0)
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.Equal(t, 3*pageSize, n)
	size, _ := h.Size()
	require.Equal(t, int64(3*pageSize), size)
	n, err = h.WriteAt(make([]byte, 2*pageSize), pageSize)
	require.NoError(t, err, "overwriting needs no room")
	require.Equal(t, 2*pageSize, n)

	total, free, err := f.Usage("file")
	require.NoError(t, err)
	require.Equal(t, []int64{3 * pageSize, 0}, []int64{total, free})
	require.NoError(t, h.Truncate(pageSize+1))
	_, free, _ = f.Usage("/")
	require.Equal(t, int64(pageSize), free)
	require.NoError(t, h.Truncate(100*pageSize), "growing writes nothing")
	f.SetCapacity(1)
	_, free, _ = f.Usage("/")
	require.Zero(t, free)
}

func TestRoomComesBack(t *testing.T) {
	f := New()
	f.SetCapacity(10 * pageSize)
	free := func(f *FS) int64 {
		_, free, err := f.Usage("/")
		require.NoError(t, err)
		return free / pageSize
	}
	for _, name := range []string{"a", "b", "c"} {
		create(t, f, name, "x").Close()
	}
	require.Equal(t, int64(7), free(f))
	require.Equal(t, int64(7), free(f.CrashClone(1, 100)))
	require.NoError(t, f.Remove("a"))
	require.Equal(t, int64(8), free(f))
	require.NoError(t, f.Rename("b", "c"))
	require.Equal(t, int64(9), free(f))
	require.NoError(t, f.RemoveAll("c"))
	require.Equal(t, int64(10), free(f))
}

func TestLocksExcludeEachOtherAndDieInACrash(t *testing.T) {
	f := New()
	l, err := f.Lock(".lock")
	require.NoError(t, err)
	_, err = f.Lock(".lock")
	require.ErrorIs(t, err, vfs.ErrLocked)
	require.ErrorContains(t, err, ".lock")
	clone := f.CrashClone(1, 100)
	other, err := clone.Lock(".lock")
	require.NoError(t, err)
	require.NoError(t, other.Close())
	require.NoError(t, l.Close())
	require.ErrorIs(t, l.Close(), fs.ErrClosed)
	l, err = f.Lock(".lock")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	require.Empty(t, f.OpenFiles())
}

func TestTimesAreThoseOfTheBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := New()
		h := create(t, f, "file", "abc")
		defer h.Close()
		st, err := f.Stat("file")
		require.NoError(t, err)
		require.Equal(t, time.Now(), st.ModTime())
		require.False(t, st.IsDir())
		require.True(t, st.Mode().IsRegular())

		old := time.Now().Add(-time.Hour)
		require.NoError(t, f.Chtimes("file", old))
		require.NoError(t, h.Sync())
		st, _ = f.CrashClone(1, 0).Stat("/")
		require.True(t, st.IsDir())
		require.NoError(t, f.SyncDir("/"))
		st, err = f.CrashClone(1, 0).Stat("file")
		require.NoError(t, err)
		require.Equal(t, old, st.ModTime())
	})
}

func TestStringListsTheTree(t *testing.T) {
	f := New()
	require.NoError(t, f.MkdirAll("a/b", 0o755))
	create(t, f, "a/z", "12").Close()
	create(t, f, "a/b/c", "").Close()
	require.Equal(t, "/a/\n/a/b/\n/a/b/c 0\n/a/z 2\n", f.String())
}

// The operating system is the model: any sequence of operations has the same outcome there.
func TestBehavesLikeTheOperatingSystem(t *testing.T) {
	for seed := range uint64(10) {
		r := rand.New(rand.NewPCG(seed, 1))
		mem, dir := New(), t.TempDir()
		names := []string{"a", "b", "d", "d/a", "d/b", "d/e", "d/e/a"}
		pick := func() string { return names[r.IntN(len(names))] }
		for range 300 {
			name, other, op := pick(), pick(), r.IntN(9)
			off, size := r.Int64N(3*pageSize), r.IntN(2*pageSize)
			data := bytes.Repeat([]byte{byte(1 + r.IntN(255))}, size)
			got := step(mem, "", op, name, other, off, data)
			want := step(vfs.OS{}, dir, op, name, other, off, data)
			require.Equal(t, want, got, "seed %d: op %d on %s and %s", seed, op, name, other)
		}
		require.Empty(t, mem.OpenFiles())
	}
}

// step performs one operation and returns what can be seen of its outcome.
func step(f vfs.FS, root string, op int, name, other string, off int64, data []byte) string {
	name, other = filepath.Join(root, name), filepath.Join(root, other)
	outcome := func(err error) string {
		var no syscall.Errno
		if errors.As(err, &no) {
			return no.Error()
		}
		return fmt.Sprint(err)
	}
	switch op {
	case 0:
		return outcome(f.MkdirAll(name, 0o755))
	case 1:
		return outcome(f.Remove(name))
	case 2:
		return outcome(f.Rename(name, other))
	case 3:
		return outcome(f.RemoveAll(name))
	case 4:
		es, err := f.ReadDir(name)
		var b strings.Builder
		for _, e := range es {
			fmt.Fprint(&b, e.Name(), e.IsDir(), " ")
		}
		return b.String() + outcome(err)
	}
	flag := os.O_RDWR
	if op >= 6 {
		flag |= os.O_CREATE
	}
	h, err := f.Open(name, flag, 0o644)
	if err != nil {
		return outcome(err)
	}
	defer func() { _ = h.Close() }()
	switch op {
	case 5:
		err = h.Truncate(off)
	case 6, 7:
		_, err = h.WriteAt(data, off)
	case 8:
		err = h.Sync()
	}
	size, serr := h.Size()
	b := make([]byte, size+5)
	n, rerr := h.ReadAt(b, 0)
	return fmt.Sprintf("%s %d %v %v %d %x", outcome(err), size, serr, errors.Is(rerr, io.EOF), n, sum(b[:n]))
}

func sum(b []byte) (s uint64) {
	for i, c := range b {
		s = s*31 + uint64(c) + uint64(i)
	}
	return s
}
