package quorum

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/kbroker/kbroker/internal/vfs"
	pb "go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"
)

const (
	// maxBatchBytes bounds one proposal. A leader change of 10,000 partitions takes about 400 KiB, the creation of as
	// many with three replicas about 1.2 MiB.
	maxBatchBytes = 32 << 20
	// maxUncommittedBytes bounds what a leader accepts while its followers do not answer.
	maxUncommittedBytes = 128 << 20
	// maxMessageBytes is the size at which raft stops putting entries into one message.
	maxMessageBytes = 1 << 20
	// maxInflightMessages bounds the messages on their way to one follower.
	maxInflightMessages = 64
	// queueLength bounds proposals and peer messages that wait for the loop. Messages beyond it are dropped, as on a
	// lossy network; proposers wait.
	queueLength = 1024
	// maxGather bounds how many of them are put into one write.
	maxGather = 512
)

// Transport carries messages to other nodes.
type Transport interface {
	// Send hands over messages for other nodes. It must not block and may drop any of them; the messages must not be
	// modified. For a MsgSnap it must report the outcome with Quorum.ReportSnapshot, and it should report nodes that
	// cannot be reached with Quorum.ReportUnreachable, both from goroutines of its own and not from within Send. It is
	// called from one goroutine.
	Send(messages []*pb.Message)
}

// Options configures a Quorum.
type Options struct {
	FS vfs.FS
	// Dir is the folder of the metadata log. It is created when missing; its parent should be there. Nothing else may
	// live in it.
	Dir    string
	NodeID int32
	// Voters is the membership of a new log; ignored when Dir holds one. Empty means that this node waits until the
	// members of an existing quorum add it.
	Voters []int32
	// Transport may be nil when this node is the only voter.
	Transport Transport
	Logger    *zap.Logger

	// Tick is the unit of raft's clock. Default 100 ms. Only a node with peers ticks.
	Tick time.Duration
	// ElectionTimeout is how long a leader may be silent; the real timeout is random between one and two of it.
	// Default 1 s, at least three ticks.
	ElectionTimeout time.Duration
	// SnapshotBytes is how much log is written between two snapshots. Default 8 MiB. About a quarter of it is kept in
	// memory for followers that are a little behind.
	SnapshotBytes int64
}

// EnsureDefaults fills what was left out.
func (o *Options) EnsureDefaults() {
	if o.Tick == 0 {
		o.Tick = 100 * time.Millisecond
	}
	if o.ElectionTimeout == 0 {
		o.ElectionTimeout = time.Second
	}
	if o.SnapshotBytes == 0 {
		o.SnapshotBytes = 8 << 20
	}
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
}

// Validate reports everything that is wrong at once.
func (o *Options) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf("quorum: "+format, args...)) }
	if o.FS == nil || o.Dir == "" {
		bad("file system and folder are needed")
	}
	if o.NodeID < 0 {
		bad("node id %d is negative", o.NodeID)
	}
	for i, v := range o.Voters {
		if v < 0 || slices.Contains(o.Voters[:i], v) {
			bad("voters %v: ids must be distinct and not negative", o.Voters)
			break
		}
	}
	if o.Transport == nil && (len(o.Voters) != 1 || o.Voters[0] != o.NodeID) {
		bad("voters %v need a transport", o.Voters)
	}
	if o.Tick < 0 || o.ElectionTimeout < 3*o.Tick {
		bad("an election timeout of %s is less than three ticks of %s", o.ElectionTimeout, o.Tick)
	}
	if o.SnapshotBytes < 0 {
		bad("%d bytes between snapshots", o.SnapshotBytes)
	}
	return errors.Join(errs...)
}

// Raft reserves id 0, Kafka does not.
func raftID(node int32) uint64 { return uint64(node) + 1 }

// nodeOf returns -1 for raft's "none".
func nodeOf(raft uint64) int32 { return int32(raft) - 1 }

func raftIDs(nodes []int32) []uint64 {
	ids := make([]uint64, len(nodes))
	for i, n := range nodes {
		ids[i] = raftID(n)
	}
	return ids
}
