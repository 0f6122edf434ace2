package quorum

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/kbroker/kbroker/internal/metadata"
	"github.com/kbroker/kbroker/internal/model"
	"github.com/twmb/franz-go/pkg/kerr"
	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"
)

var (
	// ErrNotLeader is what a proposal gets that this node may not, or may no longer, put into the log. Whether it was
	// written is unknown when it had been accepted before.
	ErrNotLeader = fmt.Errorf("this node does not lead the metadata quorum: %w", kerr.NotController)
	// ErrClosed is what a proposal gets when Run has ended.
	ErrClosed = fmt.Errorf("metadata quorum is closed: %w", kerr.NotController)
)

// Quorum is this node's member of the metadata quorum. All methods are safe for concurrent use, unless they say
// otherwise.
type Quorum struct {
	opts Options
	log  *zap.Logger

	inbox     chan *pb.Message
	proposals chan *proposal
	calls     chan func()
	snapshots chan snapshotResult

	image    atomic.Pointer[metadata.Image]
	leader   atomic.Pointer[Leadership]
	voters   atomic.Pointer[[]int32]
	caughtUp chan struct{}
	stopped  chan struct{} // closed when Run has ended
	pub      publisher
	workers  sync.WaitGroup
	running  atomic.Bool
	watchers []func()

	// loop is what only the loop's goroutine touches (after Open).
	loop loopState
}

// Leadership says who leads the metadata quorum, as far as this node knows.
type Leadership struct {
	// LeaderID is -1 when there is no leader.
	LeaderID int32
	// Epoch is the raft term. It grows with every election.
	Epoch int32
	// Active is set when this node leads and has applied everything that earlier leaders committed, so that it may decide.
	Active bool
}

// Open reads the log and the newest snapshot, and prepares the node without starting anything. An empty folder becomes
// a new log. Errors name the file and wrap ErrCorrupt or ErrVersion where these are the reason.
func Open(o Options) (*Quorum, error) {
	o.EnsureDefaults()
	if err := o.Validate(); err != nil {
		return nil, err
	}
	q := &Quorum{
		opts:      o,
		log:       o.Logger,
		inbox:     make(chan *pb.Message, queueLength),
		proposals: make(chan *proposal, queueLength),
		calls:     make(chan func()),
		snapshots: make(chan snapshotResult, 1),
		caughtUp:  make(chan struct{}),
		stopped:   make(chan struct{}),
	}
	q.pub.init()
	q.leader.Store(&Leadership{LeaderID: model.NoLeader})
	if err := q.open(); err != nil {
		return nil, fmt.Errorf("open metadata log in %s: %w", o.Dir, err)
	}
	return q, nil
}

func (q *Quorum) open() error {
	if err := q.opts.FS.MkdirAll(q.opts.Dir, 0o755); err != nil {
		return err
	}
	if err := q.opts.FS.SyncDir(filepath.Dir(q.opts.Dir)); err != nil {
		return err
	}
	if err := removeUnfinished(q.opts.FS, q.opts.Dir); err != nil {
		return err
	}
	snap, err := loadSnapshot(q.opts.FS, q.opts.Dir)
	if err != nil {
		return err
	}
	w, log, found, err := openWAL(q.opts.FS, q.opts.Dir, q.opts.NodeID)
	if err != nil {
		return err
	}
	if !found {
		if snap != nil {
			return fmt.Errorf("there is a snapshot of entry %d but no log: %w", snap.index, ErrCorrupt)
		}
		if log, err = q.create(w); err != nil {
			return err
		}
	}
	if log.dropped > 0 {
		q.log.Warn("cut a torn write off the metadata log", zap.String("dir", q.opts.Dir), zap.Int64("bytes", log.dropped))
	}
	if err := q.restore(w, log, snap); err != nil {
		return errors.Join(err, w.close())
	}
	return nil
}

// create makes the first segment. The membership of a new log is its first entries, the same on every voter, so that nodes
// which join later learn it as they learn everything else. A node that joins begins with nothing.
func (q *Quorum) create(w *wal) (*replayed, error) {
	begin := &appended{hard: &pb.HardState{}}
	for i, n := range slices.Sorted(slices.Values(q.opts.Voters)) {
		cc := &pb.ConfChange{Type: pb.ConfChangeAddNode.Enum(), NodeId: new(raftID(n))}
		data, err := proto.MarshalOptions{Deterministic: true}.Marshal(cc)
		if err != nil {
			return nil, fmt.Errorf("first members: %w", err)
		}
		index := uint64(i + 1)
		begin.entries = append(begin.entries, &pb.Entry{Type: pb.EntryConfChange.Enum(), Index: &index, Term: new(uint64(1)), Data: data})
		begin.hard = &pb.HardState{Term: new(uint64(1)), Vote: new(uint64), Commit: &index}
	}
	return &replayed{hard: begin.hard, entries: begin.entries}, w.roll(begin)
}

// restore fits log and snapshot together and makes raft and the image of them.
func (q *Quorum) restore(w *wal, log *replayed, snap *snapshot) error {
	st := &storage{fs: q.opts.FS, dir: q.opts.Dir, hard: log.hard, conf: &pb.ConfState{}}
	img := metadata.Empty()
	if snap != nil {
		st.snap, st.before, st.conf, img = snap.position, snap.position, snap.conf, snap.image
		if err := log.trim(w, snap.position); err != nil {
			return err
		}
	}
	if len(log.entries) > 0 && log.entries[0].GetIndex() != st.before.index+1 {
		return fmt.Errorf("log begins with entry %d, the snapshot ends with %d: %w",
			log.entries[0].GetIndex(), st.before.index, ErrCorrupt)
	}
	st.entries = log.entries
	st.hard = hardStateAt(log.hard, st.before)
	if c := st.hard.GetCommit(); c > st.last() {
		return fmt.Errorf("entry %d was committed but the log ends with %d: %w", c, st.last(), ErrCorrupt)
	}
	q.image.Store(img)
	q.loop = loopState{wal: w, storage: st, applied: st.before, hard: st.hard, durableCommit: st.hard.GetCommit()}
	q.setConf(st.conf)
	rn, err := raft.NewRawNode(q.raftConfig(st))
	if err != nil {
		return err
	}
	q.loop.node = rn
	return nil
}

// trim drops what the snapshot at p covers. When the log does not lead up to p with the same history, the snapshot came
// from a leader and the crash was before the log knew: the log is dropped now, durably, as it would have been then.
func (r *replayed) trim(w *wal, p position) error {
	if len(r.entries) == 0 {
		return nil
	}
	first := r.entries[0].GetIndex()
	if first > p.index {
		return nil // what the snapshot covers went with its segments, or there is a hole, which restore reports
	}
	if p.index <= r.last() && r.entries[p.index-first].GetTerm() == p.term {
		r.entries = r.entries[p.index-first+1:]
		return nil
	}
	r.entries = nil
	r.hard = hardStateAt(r.hard, p)
	return w.append(&appended{hard: r.hard, reset: &p})
}

// hardStateAt returns what hard amounts to once a snapshot at p is there: no older term, no vote of one, nothing
// committed less.
func hardStateAt(hard *pb.HardState, p position) *pb.HardState {
	h := &pb.HardState{
		Term: new(max(hard.GetTerm(), p.term)), Vote: new(hard.GetVote()), Commit: new(max(hard.GetCommit(), p.index)),
	}
	if hard.GetTerm() < p.term {
		h.Vote = new(uint64)
	}
	return h
}

func (q *Quorum) raftConfig(st *storage) *raft.Config {
	ticks := int(q.opts.ElectionTimeout / q.opts.Tick)
	return &raft.Config{
		ID:                        raftID(q.opts.NodeID),
		ElectionTick:              ticks,
		HeartbeatTick:             max(1, ticks/5),
		Storage:                   st,
		Applied:                   st.before.index,
		MaxSizePerMsg:             maxMessageBytes,
		MaxUncommittedEntriesSize: maxUncommittedBytes,
		MaxInflightMsgs:           maxInflightMessages,
		CheckQuorum:               true,
		PreVote:                   true,
		DisableProposalForwarding: true,
		StepDownOnRemoval:         true,
		Logger:                    raftLogger{q.log.Named("raft").Sugar()},
	}
}

// Image returns the newest image that this node has applied. It never blocks.
func (q *Quorum) Image() *metadata.Image { return q.image.Load() }

// Leader returns who leads the quorum (-1 for nobody) and since which epoch, as far as this node knows.
func (q *Quorum) Leader() (id, epoch int32) {
	l := q.leader.Load()
	return l.LeaderID, l.Epoch
}

// Leadership returns the same and whether this node may decide.
func (q *Quorum) Leadership() Leadership { return *q.leader.Load() }

// Voters returns the members that vote, in order, as of the last change that this node has applied. The slice must not be
// modified.
func (q *Quorum) Voters() []int32 { return *q.voters.Load() }

// CaughtUp is closed once this node has applied everything that was committed before it started. Before that its image
// may be arbitrarily old.
func (q *Quorum) CaughtUp() <-chan struct{} { return q.caughtUp }

// Watch makes fn be called whenever Leadership changes. It must be called before Run; fn runs on the loop's goroutine
// and must be quick.
func (q *Quorum) Watch(fn func()) { q.watchers = append(q.watchers, fn) }
