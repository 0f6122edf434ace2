package broker

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/kbroker/kbroker/internal/model"
)

// Special timestamps of ListOffsets.
const (
	latestOffset          int64 = -1
	earliestOffset        int64 = -2
	maxTimestamp          int64 = -3
	earliestLocal         int64 = -4
	latestTiered          int64 = -5
	earliestPendingUpload int64 = -6
)

// ListOffsets answers for each partition in the order of the request.
func (b *Broker) ListOffsets(_ context.Context, req ListOffsetsRequest) []ListedOffset {
	out := make([]ListedOffset, len(req.Partitions))
	for i, p := range req.Partitions {
		out[i] = b.listOffset(&req, p)
		if out[i].Err != nil {
			out[i].Offset, out[i].Timestamp, out[i].LeaderEpoch = model.NoOffset, model.NoTimestamp, model.NoEpoch
		}
	}
	return out
}

func (b *Broker) listOffset(req *ListOffsetsRequest, p ListOffsetsPartition) ListedOffset {
	r, err := b.lookup(TopicRef{Name: p.Topic}, p.Partition)
	if err != nil {
		return ListedOffset{Err: err}
	}
	// A debug consumer may ask any replica, everybody else must ask the leader.
	if err := r.checkLeaderEpoch(p.CurrentLeaderEpoch, req.ReplicaID != debugConsumer); err != nil {
		return ListedOffset{Err: err}
	}
	upper := r.readableEnd(req)
	if upper < 0 {
		return ListedOffset{Err: fmt.Errorf("%s: the high watermark has not reached the start of this leader's epoch: %w", r.tp, kerr.OffsetNotAvailable)}
	}
	return r.offsetFor(p.Timestamp, upper)
}

// readableEnd is the exclusive end of what the requester may see, or -1 while a new leader cannot tell yet: what is above
// its high watermark may have been readable under its predecessor.
func (r *replica) readableEnd(req *ListOffsetsRequest) int64 {
	o := r.log.Offsets()
	switch {
	case req.ReplicaID != model.NoLeader:
		return o.LogEnd
	case !r.highWatermarkReachedEpoch():
		return -1
	case req.ReadCommitted:
		return o.LastStable
	default:
		return o.HighWatermark
	}
}

func (r *replica) offsetFor(ts, upper int64) ListedOffset {
	none := ListedOffset{Offset: model.NoOffset, Timestamp: model.NoTimestamp, LeaderEpoch: model.NoEpoch}
	switch ts {
	case latestOffset:
		return ListedOffset{Offset: upper, Timestamp: model.NoTimestamp, LeaderEpoch: r.log.LatestEpoch()}
	case earliestOffset, earliestLocal:
		start := r.log.LogStartOffset()
		return ListedOffset{Offset: start, Timestamp: model.NoTimestamp, LeaderEpoch: r.log.EpochAt(start)}
	case maxTimestamp:
		found, err := r.log.MaxTimestamp()
		if err != nil || found.Offset < 0 || found.Offset >= upper {
			none.Err = err
			return none
		}
		return ListedOffset{Offset: found.Offset, Timestamp: found.Timestamp, LeaderEpoch: found.LeaderEpoch}
	case latestTiered, earliestPendingUpload: // there is no tiered storage, so nothing is tiered and nothing pends
		return none
	}
	if ts < 0 {
		none.Err = fmt.Errorf("timestamp %d is none of the special ones: %w", ts, kerr.UnsupportedVersion)
		return none
	}
	found, ok, err := r.log.OffsetForTime(ts, upper)
	if err != nil || !ok {
		none.Err = err
		return none
	}
	return ListedOffset{Offset: found.Offset, Timestamp: found.Timestamp, LeaderEpoch: found.LeaderEpoch}
}

// EpochEnds answers OffsetForLeaderEpoch in the order of the request.
func (b *Broker) EpochEnds(_ context.Context, ps []EpochEndPartition) []EpochEnd {
	out := make([]EpochEnd, len(ps))
	for i, p := range ps {
		out[i] = EpochEnd{LeaderEpoch: model.NoEpoch, EndOffset: model.NoOffset}
		r, err := b.lookup(TopicRef{Name: p.Topic}, p.Partition)
		if err == nil {
			err = r.checkLeaderEpoch(p.CurrentLeaderEpoch, true)
		}
		if err != nil {
			out[i].Err = err
			continue
		}
		out[i].LeaderEpoch, out[i].EndOffset = r.log.EpochEnd(p.LeaderEpoch)
	}
	return out
}

// DeleteRecords moves log starts and answers with the low watermark: the smallest log start among the live replicas, which
// with one replica is its own.
func (b *Broker) DeleteRecords(_ context.Context, _ time.Duration, ps []DeleteRecordsPartition) []DeletedRecords {
	out := make([]DeletedRecords, len(ps))
	for i, p := range ps {
		out[i].LowWatermark, out[i].Err = b.deleteRecords(p)
	}
	return out
}

func (b *Broker) deleteRecords(p DeleteRecordsPartition) (lowWatermark int64, err error) {
	r, err := b.lookup(TopicRef{Name: p.Topic}, p.Partition)
	if err != nil {
		return model.NoOffset, err
	}
	if err := r.checkLeaderEpoch(model.NoEpoch, true); err != nil {
		return model.NoOffset, err
	}
	hw := r.log.HighWatermark()
	to := p.Offset
	if to == -1 {
		to = hw
	}
	if !r.log.Config().CleanupDelete {
		return model.NoOffset, fmt.Errorf("%s: records can be deleted only where cleanup.policy contains delete: %w", r.tp, kerr.PolicyViolation)
	}
	if to < 0 || to > hw {
		return model.NoOffset, fmt.Errorf("%s: cannot delete records below %d, the high watermark is %d: %w", r.tp, to, hw, kerr.OffsetOutOfRange)
	}
	if err := r.log.SetLogStartOffset(to); err != nil {
		return model.NoOffset, err
	}
	mark(&b.dirty.logs)
	return r.log.LogStartOffset(), nil
}
