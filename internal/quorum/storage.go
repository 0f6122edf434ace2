package quorum

import (
	"errors"
	"io/fs"

	"github.com/kbroker/kbroker/internal/vfs"
	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// storage is raft's view of the log: the entries since the newest snapshot, in memory, and the snapshot on disk. It is
// for the loop's goroutine alone.
type storage struct {
	fs  vfs.FS
	dir string
	// hard and conf are what raft starts with; they are not kept up to date.
	hard *pb.HardState
	conf *pb.ConfState
	// snap is the position of the newest snapshot, zero when there is none.
	snap position
	// before is the position in front of entries: at most snap, because followers that are a little behind should not
	// need a snapshot.
	before  position
	entries []*pb.Entry
}

var _ raft.Storage = (*storage)(nil)

// InitialState implements raft.Storage.
func (s *storage) InitialState() (*pb.HardState, *pb.ConfState, error) { return s.hard, s.conf, nil }

// FirstIndex implements raft.Storage.
func (s *storage) FirstIndex() (uint64, error) { return s.before.index + 1, nil }

// LastIndex implements raft.Storage.
func (s *storage) LastIndex() (uint64, error) { return s.last(), nil }

func (s *storage) last() uint64 { return s.before.index + uint64(len(s.entries)) }

// Term implements raft.Storage.
func (s *storage) Term(i uint64) (uint64, error) {
	switch {
	case i < s.before.index:
		return 0, raft.ErrCompacted
	case i == s.before.index:
		return s.before.term, nil
	case i > s.last():
		return 0, raft.ErrUnavailable
	}
	return s.entries[i-s.before.index-1].GetTerm(), nil
}

// Entries implements raft.Storage.
func (s *storage) Entries(lo, hi, maxSize uint64) ([]*pb.Entry, error) {
	if lo <= s.before.index {
		return nil, raft.ErrCompacted
	}
	if hi > s.last()+1 || lo >= hi {
		return nil, raft.ErrUnavailable
	}
	es := s.entries[lo-s.before.index-1 : hi-s.before.index-1]
	size := uint64(0)
	for i, e := range es {
		size += uint64(proto.Size(e))
		if i > 0 && size > maxSize {
			es = es[:i]
			break
		}
	}
	return es[:len(es):len(es)], nil
}

// Snapshot implements raft.Storage. The bytes of the file travel as they are; the receiver checks them.
func (s *storage) Snapshot() (*pb.Snapshot, error) {
	if s.snap.index == 0 {
		return nil, raft.ErrSnapshotTemporarilyUnavailable
	}
	b, err := vfs.ReadFile(s.fs, snapshotPath(s.dir, s.snap))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, raft.ErrSnapshotTemporarilyUnavailable
	}
	if err != nil {
		return nil, err
	}
	conf, err := snapshotConf(b)
	if err != nil {
		return nil, err
	}
	return &pb.Snapshot{
		Data:     b,
		Metadata: &pb.SnapshotMetadata{ConfState: conf, Index: new(s.snap.index), Term: new(s.snap.term)},
	}, nil
}

// snapshotConf reads the membership in a snapshot's head.
func snapshotConf(b []byte) (*pb.ConfState, error) {
	_, payload, _, err := cutFrame(b, 0)
	if err != nil {
		return nil, err
	}
	s := snapshot{conf: &pb.ConfState{}}
	r := reader{b: payload}
	r.u8()
	return s.conf, s.decodeHead(&r)
}

// append adds entries that are on disk, overriding those at the same indexes.
func (s *storage) append(entries []*pb.Entry) {
	if len(entries) == 0 {
		return
	}
	keep := entries[0].GetIndex() - s.before.index - 1
	if keep < uint64(len(s.entries)) {
		s.entries = s.entries[:keep:keep] // not in place: slices handed out by Entries may still be read
	}
	s.entries = append(s.entries, entries...)
}

// reset forgets the log in favour of a snapshot that came from the leader.
func (s *storage) reset(p position) { s.snap, s.before, s.entries = p, p, nil }

// compact makes p the newest snapshot and drops the entries up to it, save the last ones that together have at most
// keepBytes.
func (s *storage) compact(p position, keepBytes uint64) {
	s.snap = p
	cut := p.index
	for kept := uint64(0); cut > s.before.index; cut-- {
		kept += uint64(len(s.entries[cut-s.before.index-1].GetData()))
		if kept > keepBytes {
			break
		}
	}
	term, err := s.Term(cut)
	if err != nil || cut == s.before.index {
		return
	}
	s.entries = append([]*pb.Entry(nil), s.entries[cut-s.before.index:]...)
	s.before = position{cut, term}
}
