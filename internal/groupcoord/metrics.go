package groupcoord

import (
	"sync/atomic"

	"github.com/kbroker/kbroker/internal/coordrt"
)

// ShardStats is what shards count, for all partitions of a coordinator together. Safe for concurrent use.
type ShardStats struct {
	groups                                      [states]atomic.Int64
	offsets, pending                            atomic.Int64
	commits, expirations, deletions, rebalances atomic.Int64
	unknownRecords                              atomic.Int64
}

func (s *ShardStats) added(st State, n int64) { s.groups[st].Add(n) }

func (s *ShardStats) moved(from, to State) {
	s.groups[from].Add(-1)
	s.groups[to].Add(1)
}

// Stats is a snapshot of a Coordinator for telemetry.
type Stats struct {
	// Groups counts the groups by state.
	Groups map[State]int64
	// Offsets are committed ones; PendingOffsets belong to open transactions.
	Offsets, PendingOffsets int64
	// Commits, Expirations and Deletions count offsets, Rebalances assignments handed out, since the start.
	Commits, Expirations, Deletions, Rebalances int64
	// UnknownRecords counts records of types that belong to other kinds of groups, as they were read.
	UnknownRecords int64
	// Runtime tells about partitions, loads and queues.
	Runtime coordrt.Stats
}

func (s *ShardStats) snapshot() Stats {
	out := Stats{
		Groups:  make(map[State]int64, len(s.groups)),
		Offsets: s.offsets.Load(), PendingOffsets: s.pending.Load(),
		Commits: s.commits.Load(), Expirations: s.expirations.Load(), Deletions: s.deletions.Load(),
		Rebalances: s.rebalances.Load(), UnknownRecords: s.unknownRecords.Load(),
	}
	for st := range s.groups {
		out.Groups[State(st)] = s.groups[st].Load()
	}
	return out
}
