package partition

import (
	"fmt"
	"math"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/kbroker/kbroker/internal/model"
	"github.com/kbroker/kbroker/partition/segment"
	"github.com/kbroker/kbroker/protocol/record"
)

// Read returns whole batches from the one that holds the offset on (the last one may be cut), from one segment, as a range
// of its file. Outside of [log start, log end] it is OFFSET_OUT_OF_RANGE; at or behind the bound there is nothing, and no
// error. The caller releases the result.
func (p *Partition) Read(r ReadRequest) (ReadResult, error) {
	b := p.bounds.Load()
	res := ReadResult{HighWatermark: b.HighWatermark, LastStableOffset: b.LastStable, LogStartOffset: b.LogStart, LogEndOffset: b.LogEnd}
	if r.WithAborted {
		res.Aborted = []AbortedTxn{}
	}
	if err := p.Err(); err != nil {
		return res, err
	}
	if r.Offset < b.LogStart || r.Offset > b.LogEnd {
		return res, fmt.Errorf("offset %d is outside of the log, %d to %d: %w", r.Offset, b.LogStart, b.LogEnd, kerr.OffsetOutOfRange)
	}
	upper := b.bound(r.UpTo)
	if r.Offset >= upper || r.MaxBytes <= 0 && !r.MinOneBatch {
		return res, nil
	}
	for _, s := range p.log.From(r.Offset) {
		first, ok, err := s.Find(r.Offset)
		if err == nil && !ok {
			continue // the offset lies in a gap at the end of this segment
		}
		if err == nil {
			err = p.readFrom(s, first, b, upper, &r, &res)
		}
		return res, p.readFailed(b, err)
	}
	return res, nil
}

func (b *bounds) bound(k Bound) int64 {
	switch k {
	case LogEnd:
		return b.LogEnd
	case HighWatermark:
		return b.HighWatermark
	default:
		return b.LastStable
	}
}

// readFrom fills in what can be read of a segment from the batch found in it.
func (p *Partition) readFrom(s *segment.Segment, first segment.Found, b *bounds, upper int64, r *ReadRequest, res *ReadResult) error {
	end, err := readEnd(s, b, upper)
	if err != nil {
		return err
	}
	n := int64(r.MaxBytes)
	if r.MinOneBatch {
		n = max(n, first.Header.Size())
	}
	n = min(n, end-first.Pos, math.MaxInt32)
	if n <= 0 {
		return nil
	}
	if r.WithAborted {
		if err := p.aborted(s, first.Pos+n, end, upper, r.Offset, res); err != nil {
			return err
		}
	}
	res.Records, err = s.Slice(first.Pos, int(n))
	return err
}

// readEnd is the position in the segment up to which may be read.
func readEnd(s *segment.Segment, b *bounds, upper int64) (int64, error) {
	end := s.Size()
	if s.Base() == b.activeBase {
		end = b.endPos
	}
	if upper == b.LogEnd {
		return end, nil
	}
	behind, ok, err := s.Find(upper)
	if err != nil || !ok {
		return end, err
	}
	return min(end, behind.Pos), nil
}

// aborted collects the aborted transactions that touch what is read: from the segment of the first batch on, until none can
// follow.
func (p *Partition) aborted(s *segment.Segment, pos, end, upper, from int64, res *ReadResult) error {
	if pos < end {
		at, err := s.OffsetBehind(pos)
		if err != nil {
			return err
		}
		upper = min(upper, at)
	}
	for _, s := range p.log.From(s.Base()) {
		list, err := s.Aborted()
		if err != nil {
			return err
		}
		for _, a := range list {
			if a.LastOffset >= from && a.FirstOffset < upper {
				res.Aborted = append(res.Aborted, AbortedTxn{a.ProducerID, a.FirstOffset})
			}
			if a.LastStableOffset >= upper {
				return nil
			}
		}
	}
	return nil
}

// readFailed decides what a failed read means, which went by b. If the part of the log that it looked at was dropped or cut
// meanwhile, nothing is wrong and the reader may ask again. Otherwise bytes that are no batch, or a disk that does not
// answer, take the partition offline.
func (p *Partition) readFailed(b *bounds, err error) error {
	if err == nil {
		return nil
	}
	if now := p.bounds.Load(); now.LogStart > b.LogStart || now.LogEnd < b.LogEnd {
		return fmt.Errorf("%s: the log was cut during the read: %w", p.o.TP, kerr.OffsetNotAvailable)
	}
	return p.fail(err)
}

// OffsetForTime returns the first record below upper whose time is at least ms.
func (p *Partition) OffsetForTime(ms, upper int64) (found TimedOffset, ok bool, err error) {
	if err := p.Err(); err != nil {
		return TimedOffset{}, false, err
	}
	b := p.bounds.Load()
	start := b.LogStart
	for _, s := range p.log.From(start) {
		at, hit, err := s.FindTime(ms)
		if err != nil {
			return TimedOffset{}, false, p.readFailed(b, err)
		}
		for hit {
			found, ok, err := recordIn(s, at, func(r *record.Record) bool { return r.Offset >= start && r.Timestamp >= ms })
			if err != nil {
				return TimedOffset{}, false, p.readFailed(b, err)
			}
			if ok {
				return found, found.Offset < upper, nil
			}
			// A compacted batch may have lost the record that made its time, and one at the log start may lie before it.
			if at, hit, err = s.NextTime(at, ms); err != nil {
				return TimedOffset{}, false, p.readFailed(b, err)
			}
		}
	}
	return TimedOffset{}, false, nil
}

// MaxTimestamp returns the record with the largest time; its offset is -1 when the log is empty.
func (p *Partition) MaxTimestamp() (TimedOffset, error) {
	none := TimedOffset{Offset: model.NoOffset, Timestamp: model.NoTimestamp, LeaderEpoch: model.NoEpoch}
	if err := p.Err(); err != nil {
		return none, err
	}
	b := p.bounds.Load()
	var (
		best *segment.Segment
		top  = model.NoTimestamp
	)
	for _, s := range p.log.Segments() {
		ms, _, err := s.MaxTime()
		if err != nil {
			return none, p.readFailed(b, err)
		}
		if ms > top {
			best, top = s, ms
		}
	}
	if best == nil {
		return none, nil
	}
	found, ok, err := p.OffsetForTime(top, math.MaxInt64)
	if err != nil || !ok {
		return none, err
	}
	return found, nil
}

// recordIn returns the first record of a batch that is wanted.
func recordIn(s *segment.Segment, at segment.Found, want func(*record.Record) bool) (TimedOffset, bool, error) {
	b, err := s.ReadBatch(at, nil)
	if err != nil {
		return TimedOffset{}, false, err
	}
	d := record.NewDecoder(math.MaxInt32)
	defer d.Release()
	for r, err := range b.Records(d) {
		if err != nil {
			return TimedOffset{}, false, fmt.Errorf("%s at position %d: %w", s.LogPath(), at.Pos, err)
		}
		if want(&r) {
			return TimedOffset{Offset: r.Offset, Timestamp: r.Timestamp, LeaderEpoch: b.LeaderEpoch()}, true, nil
		}
	}
	return TimedOffset{}, false, nil
}
