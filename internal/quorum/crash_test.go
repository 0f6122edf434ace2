package quorum

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"testing"

	"github.com/kbroker/kbroker/internal/vfs"
	"github.com/kbroker/kbroker/internal/vfs/memfs"
	"github.com/stretchr/testify/require"
)

// errPulled is what every operation answers once the plug was pulled.
var errPulled = errors.New("plug pulled")

// plugFS lets a number of changing operations through and fails all later ones, which do nothing.
type plugFS struct {
	vfs.FS
	left int
	ops  int
}

func (p *plugFS) op() error {
	p.ops++
	if p.left == 0 {
		return errPulled
	}
	p.left--
	return nil
}

func (p *plugFS) Open(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	if flag != 0 {
		if err := p.op(); err != nil {
			return nil, err
		}
	}
	f, err := p.FS.Open(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return plugFile{f, p}, nil
}

func (p *plugFS) Remove(name string) error {
	if err := p.op(); err != nil {
		return err
	}
	return p.FS.Remove(name)
}

func (p *plugFS) Rename(a, b string) error {
	if err := p.op(); err != nil {
		return err
	}
	return p.FS.Rename(a, b)
}

func (p *plugFS) SyncDir(name string) error {
	if err := p.op(); err != nil {
		return err
	}
	return p.FS.SyncDir(name)
}

type plugFile struct {
	vfs.File
	p *plugFS
}

func (f plugFile) WriteAt(b []byte, off int64) (int, error) {
	if err := f.p.op(); err != nil {
		return 0, err
	}
	return f.File.WriteAt(b, off)
}

func (f plugFile) Truncate(n int64) error {
	if err := f.p.op(); err != nil {
		return err
	}
	return f.File.Truncate(n)
}

func (f plugFile) Sync() error {
	if err := f.p.op(); err != nil {
		return err
	}
	return f.File.Sync()
}

// story writes a fixed history through two starts, with snapshots small enough that segments roll and go. It returns
// what was acknowledged, and whether the plug was pulled meanwhile.
func story(t *testing.T, fsys vfs.FS) (acknowledged int, pulled bool) {
	t.Helper()
	for life := range 2 {
		o := single(fsys)
		o.SnapshotBytes = 400
		q, err := Open(o)
		if err != nil {
			require.ErrorIs(t, err, errPulled)
			return acknowledged, true
		}
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- q.Run(ctx) }()
		end := func() error { cancel(); return <-done }
		select {
		case <-q.CaughtUp():
		case err := <-done:
			cancel()
			require.ErrorIs(t, err, errPulled)
			return acknowledged, true
		}
		for i := range 9 {
			if _, err := q.Propose(ctx, batch(life*9+i)); err != nil {
				require.ErrorIs(t, end(), errPulled)
				return acknowledged, true
			}
			acknowledged++
			settle(q)
		}
		if err := end(); err != nil {
			require.ErrorIs(t, err, errPulled)
			return acknowledged, true
		}
	}
	return acknowledged, false
}

// settle waits until a snapshot in progress is written and taken note of, so that the operations of a story always come
// in the same order.
func settle(q *Quorum) {
	for busy := true; busy; {
		c := make(chan bool, 1)
		q.try(func() { c <- q.loop.snapshotting })
		select {
		case busy = <-c:
		case <-q.stopped:
			return
		}
	}
}

// checkAfterCrash opens what a crash left and expects every acknowledged batch, at most one more, and nothing else.
func checkAfterCrash(t *testing.T, fsys *memfs.FS, acknowledged int, what string) {
	t.Helper()
	for range 2 { // recovery must not need to happen at once
		q, err := Open(single(fsys))
		require.NoError(t, err, what)
		n := run(t, q).caught()
		got := len(confs(n.Image()))
		require.GreaterOrEqual(t, got, acknowledged, what)
		require.LessOrEqual(t, got, acknowledged+1, what)
		for i := range got {
			require.Equal(t, fmt.Sprintf("value-%d", i), confs(n.Image())[fmt.Sprintf("key-%d", i)], what)
		}
		acknowledged = got
		n.propose(batch(got)...)
		acknowledged++
		n.stop()
	}
}

// The plug is pulled at every single file operation of the story, and what remains of unsynced data is varied.
func TestCrashAtEveryFileOperation(t *testing.T) {
	dry := &plugFS{FS: newDisk(t), left: -1}
	all, pulled := story(t, dry)
	require.False(t, pulled)
	require.Equal(t, 18, all)
	require.Greater(t, dry.ops, 80)
	snapshots := len(files(t, dry, snapshotSuffix))
	require.Equal(t, 1, snapshots, "older snapshots must go")
	require.LessOrEqual(t, len(files(t, dry, segmentSuffix)), 3, "older segments must go")

	for n := range dry.ops {
		disk := newDisk(t)
		acknowledged, pulled := story(t, &plugFS{FS: disk, left: n})
		require.True(t, pulled, "operation %d", n)
		for seed, percent := range []int{0, 50, 100} {
			what := fmt.Sprintf("plug pulled at operation %d, %d%% of the rest kept", n, percent)
			checkAfterCrash(t, disk.CrashClone(uint64(n*3+seed), percent), acknowledged, what)
		}
	}
}
