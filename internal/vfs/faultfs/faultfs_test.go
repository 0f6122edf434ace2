package faultfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kbroker/kbroker/internal/vfs"
	"github.com/kbroker/kbroker/internal/vfs/memfs"
)

func newFS(t *testing.T) (*FS, *memfs.FS) {
	t.Helper()
	base := memfs.New()
	require.NoError(t, base.MkdirAll("d", 0o755))
	return New(base, 1), base
}

// everyOp performs each operation once and returns the errors by operation.
func everyOp(f vfs.FS) map[Op]error {
	errs := map[Op]error{}
	h, err := f.Open("d/file", os.O_CREATE|os.O_RDWR, 0o644)
	errs[OpCreate] = err
	if err == nil {
		_, errs[OpWrite] = h.WriteAt([]byte("abc"), 0)
		_, errs[OpRead] = h.ReadAt(make([]byte, 1), 0)
		_, errs[OpSize] = h.Size()
		errs[OpTruncate] = h.Truncate(1)
		errs[OpSync] = h.Sync()
		errs[OpClose] = h.Close()
	}
	h, errs[OpOpen] = f.Open("d/file", os.O_RDONLY, 0)
	if h != nil {
		_ = h.Close()
	}
	_, errs[OpStat] = f.Stat("d/file")
	_, errs[OpReadDir] = f.ReadDir("d")
	errs[OpSyncDir] = f.SyncDir("d")
	errs[OpChtimes] = f.Chtimes("d/file", time.Unix(1, 0))
	_, _, errs[OpUsage] = f.Usage("d")
	errs[OpRename] = f.Rename("d/file", "d/other")
	errs[OpRemove] = f.Remove("d/other")
	errs[OpMkdirAll] = f.MkdirAll("d/sub", 0o755)
	errs[OpRemoveAll] = f.RemoveAll("d/sub")
	l, err := f.Lock("d/.lock")
	errs[OpLock] = err
	if l != nil {
		_ = l.Close()
	}
	return errs
}

func TestEveryOperationCanFail(t *testing.T) {
	for op := OpOpen; op < opEnd; op <<= 1 {
		t.Run(op.String(), func(t *testing.T) {
			f, base := newFS(t)
			rule := f.Add(Rule{Ops: op})
			got := everyOp(f)
			var perr *fs.PathError
			require.ErrorAs(t, got[op], &perr)
			require.ErrorIs(t, got[op], syscall.EIO, "the default")
			require.Equal(t, op.String(), perr.Op)
			require.NotEmpty(t, perr.Path)
			require.Positive(t, rule.Fired())
			for other, err := range got {
				if other != op {
					require.NotErrorIs(t, err, syscall.EIO, "%s fails with a rule on %s", other, op)
				}
			}
			require.Empty(t, base.OpenFiles(), "a failed close releases the handle")
		})
	}
}

func TestWithoutRulesEverythingPasses(t *testing.T) {
	f, base := newFS(t)
	got := everyOp(f)
	require.Len(t, got, len(opNames), "every operation was tried")
	for op, err := range got {
		require.NoError(t, err, op.String())
	}
	require.Equal(t, "/d/\n/d/.lock 0\n", base.String())
}

func TestRulesChoose(t *testing.T) {
	calls := func(f *FS, n int) (failed []int) {
		for i := 1; i <= n; i++ {
			if f.SyncDir("d") != nil {
				failed = append(failed, i)
			}
		}
		return failed
	}
	for name, c := range map[string]struct {
		rules []Rule
		want  []int
	}{
		"from the third on": {[]Rule{{Nth: 3}}, []int{3, 4, 5}},
		"only the third":    {[]Rule{{Nth: 3, Count: 1}}, []int{3}},
		"two from the 2nd":  {[]Rule{{Nth: 2, Count: 2}}, []int{2, 3}},
		"other operation":   {[]Rule{{Ops: OpRead | OpWrite}}, nil},
		"other path":        {[]Rule{{Path: "e"}}, nil},
		"whole path":        {[]Rule{{Path: "/d"}}, nil},
		"glob":              {[]Rule{{Path: "[a-d]", Nth: 5}}, []int{5}},
		// The first rule eats a call, so the second counts one less.
		"in order": {[]Rule{{Nth: 1, Count: 1}, {Nth: 2, Count: 1}}, []int{1, 3}},
	} {
		t.Run(name, func(t *testing.T) {
			f, _ := newFS(t)
			for _, r := range c.rules {
				f.Add(r)
			}
			require.Equal(t, c.want, calls(f, 5))
		})
	}
	t.Run("seeded chance", func(t *testing.T) {
		a, _ := newFS(t)
		b, _ := newFS(t)
		rule := a.Add(Rule{Probability: 0.5})
		b.Add(Rule{Probability: 0.5})
		got := calls(a, 100)
		require.Equal(t, got, calls(b, 100))
		require.InDelta(t, 50, len(got), 20)
		require.Equal(t, len(got), rule.Fired())
		rule.Remove()
		require.Empty(t, calls(a, 10))
		rule.Remove() // twice is no fault
	})
	t.Run("either name of a rename", func(t *testing.T) {
		f, base := newFS(t)
		require.NoError(t, vfs.WriteFileAtomic(base, "d/x", nil))
		f.Add(Rule{Path: "y", Err: syscall.ENOSPC})
		require.ErrorIs(t, f.Rename("d/x", "d/y"), syscall.ENOSPC)
		require.NoError(t, f.Rename("d/x", "d/z"))
	})
}

func TestAWriteMayStopHalfWay(t *testing.T) {
	f, base := newFS(t)
	f.Add(Rule{Ops: OpWrite, Err: syscall.ENOSPC, Partial: 2})
	h, err := f.Open("d/file", os.O_CREATE|os.O_RDWR, 0o644)
	require.NoError(t, err)
	require.Nil(t, h.OSFile())
	require.Equal(t, "d/file", h.Name())
	n, err := h.WriteAt([]byte("abc"), 0)
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.Equal(t, 2, n)
	n, err = h.WriteAt([]byte("x"), 2)
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.Equal(t, 1, n)
	got, err := vfs.ReadFile(base, "d/file")
	require.NoError(t, err)
	require.Equal(t, "abx", string(got))
	base.SetCapacity(0)
	n, err = h.WriteAt([]byte("abc"), 1<<20)
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.Zero(t, n, "the base may refuse the part as well")
	require.NoError(t, h.Close())
}

func TestTheHookSeesEveryChangeBeforeItHappens(t *testing.T) {
	f, base := newFS(t)
	var trace []string
	f.SetHook(func(c Call) error {
		trace = append(trace, c.String())
		base.CrashClone(1, 50) // the base FS may be used here
		return nil
	})
	require.NoError(t, vfs.WriteFileAtomic(f, "d/file", []byte("abc")))
	h, err := f.Open("d/file", os.O_RDWR, 0)
	require.NoError(t, err)
	require.NoError(t, h.Truncate(1))
	require.NoError(t, h.Close())
	require.Equal(t, []string{
		"create d/file.tmp", "write d/file.tmp [0,3)", "sync d/file.tmp", "rename d/file.tmp -> d/file", "syncdir d",
		"truncate d/file to 1",
	}, trace)
	trace = nil
	for op, err := range everyOp(f) {
		require.NoError(t, err, op.String())
	}
	require.Len(t, trace, 11, "%v", trace)

	off := errors.New("power is off")
	f.SetHook(func(Call) error { return off })
	require.ErrorIs(t, f.Remove("d/.lock"), off)
	f.SetHook(nil)
	require.NoError(t, f.Remove("d/.lock"))
}

// The scenario that the package is for: whatever the moment, an atomic replacement leaves the old or the new content.
func TestACrashAtEveryOperationOfAnAtomicWrite(t *testing.T) {
	f, base := newFS(t)
	require.NoError(t, base.SyncDir("/"))
	require.NoError(t, vfs.WriteFileAtomic(base, "d/file", []byte("old")))
	moments := 0
	f.SetHook(func(c Call) error {
		moments++
		for seed := range uint64(20) {
			got, err := vfs.ReadFile(base.CrashClone(seed, 50), "d/file")
			require.NoError(t, err)
			require.Contains(t, []string{"old", "new"}, string(got), c.String())
			if c.Op != OpSyncDir {
				require.Equal(t, "old", string(got), "before the rename: %s", c)
			}
		}
		return nil
	})
	require.NoError(t, vfs.WriteFileAtomic(f, "d/file", []byte("new")))
	require.Equal(t, 5, moments)
}

func TestGlobsAreChecked(t *testing.T) {
	f, _ := newFS(t)
	require.Panics(t, func() { f.Add(Rule{Path: "["}) })
	require.Equal(t, "read /x [5,8)", fmt.Sprint(Call{Op: OpRead, Path: "/x", Offset: 5, Len: 3}))
	require.Equal(t, "open|create", (OpOpen | OpCreate).String())
}
