package quorum

import (
	"io/fs"
	"strings"
	"sync/atomic"
	"syscall"

	"testing"

	"github.com/kbroker/kbroker/internal/vfs"
	"github.com/kbroker/kbroker/internal/vfs/memfs"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/raft/v3/raftpb"
)

// countingFS counts the syncs of files.
type countingFS struct {
	vfs.FS
	syncs atomic.Int64
}

type countingFile struct {
	vfs.File
	fs *countingFS
}

func (c *countingFS) Open(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	f, err := c.FS.Open(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return countingFile{f, c}, nil
}

func (f countingFile) Sync() error {
	f.fs.syncs.Add(1)
	return f.File.Sync()
}

// nowhere loses every message.
type nowhere struct{}

func (nowhere) Send([]*pb.Message) {}

// failingSnapshots has no room for snapshots until working is set.
type failingSnapshots struct {
	vfs.FS
	working atomic.Bool
}

func (f *failingSnapshots) Open(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	if !f.working.Load() && strings.HasSuffix(name, snapshotSuffix+".tmp") {
		return nil, &fs.PathError{Op: "open", Path: name, Err: syscall.ENOSPC}
	}
	return f.FS.Open(name, flag, perm)
}

func confState(nodes ...int32) *pb.ConfState { return &pb.ConfState{Voters: raftIDs(nodes)} }

func hardState(term, vote, commit uint64) *pb.HardState {
	return &pb.HardState{Term: &term, Vote: &vote, Commit: &commit}
}

func entries(index, term uint64, data ...string) []*pb.Entry {
	var es []*pb.Entry
	for i, d := range data {
		es = append(es, &pb.Entry{Type: pb.EntryNormal.Enum(), Index: new(index + uint64(i)), Term: new(term), Data: []byte(d)})
	}
	return es
}

// newDisk returns an empty disk on which the parent of dir is durable.
func newDisk(t testing.TB) *memfs.FS {
	fsys := memfs.New()
	require.NoError(t, fsys.MkdirAll("/data", 0o755))
	require.NoError(t, fsys.SyncDir("/"))
	return fsys
}
