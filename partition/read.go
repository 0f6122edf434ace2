package partition

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/kbroker/kbroker/internal/model"
	"github.com/kbroker/kbroker/partition/segment"
	"github.com/kbroker/kbroker/protocol/record"
)

// Read returns whole batches from the one that holds the offset on (the last one may be cut), from one segment, as a range
// of its file. Outside of [log start, log end] it is OFFSET_OUT_OF_RANGE; at or behind the bound there is nothing, and no
// error. The caller releases the result.
func (p *Partition) Read(r ReadRequest) (ReadResult, error) {
	var res ReadResult
	err := p.look(func(v *view) (err error) {
		res, err = p.read(v, &r)
		return err
	}, func() { res.Release() })
	return res, err
}

// view is the log as one reader sees it. Segments may be replaced, dropped or cut while he looks; then what he found does
// not count, and he looks again.
type view struct {
	p          *Partition
	b          *bounds
	generation uint64
	used       []*segment.Segment
	few        [4]*segment.Segment // used, most of the time
}

// lookAttempts is how often a reader looks without a lock. Changes of segments are rare: a second look nearly always does.
const lookAttempts = 3

// look runs a reader until the log did not change under it; undo takes back what a run that does not count has yielded.
// Errors of such a run do not count either. In an unchanged log a batch that cannot be read, or a disk that does not
// answer, takes the partition offline.
func (p *Partition) look(run func(*view) error, undo func()) error {
	for range lookAttempts {
		if done, err := p.lookOnce(run, undo); done {
			return err
		}
	}
	p.mu.Lock() // a change is going on: wait for its end, and keep the next one away
	defer p.mu.Unlock()
	if done, err := p.lookOnce(run, undo); done {
		return err
	}
	return p.fail(errors.New("the log changed under its lock")) // cannot be
}

func (p *Partition) lookOnce(run func(*view) error, undo func()) (done bool, err error) {
	if err := p.Err(); err != nil {
		return true, err
	}
	v := &view{p: p, generation: p.log.Generation()}
	v.b, v.used = p.bounds.Load(), v.few[:0]
	err = run(v)
	switch {
	case v.stale():
		undo()
		return false, nil
	case err != nil && !protocolError(err):
		undo()
		return true, p.fail(err)
	}
	return true, err
}

func protocolError(err error) bool {
	var ke *kerr.Error
	return errors.As(err, &ke)
}

// from returns the segments that hold the offset and what follows.
func (v *view) from(offset int64) []*segment.Segment { return v.p.log.From(offset) }

// use remembers that the answer rests on a segment.
func (v *view) use(s *segment.Segment) { v.used = append(v.used, s) }

func (v *view) stale() bool {
	return v.p.log.Generation() != v.generation || v.p.LogStartOffset() > v.b.LogStart ||
		slices.ContainsFunc(v.used, (*segment.Segment).Retired)
}

func (p *Partition) read(v *view, r *ReadRequest) (ReadResult, error) {
	b := v.b
	res := ReadResult{HighWatermark: b.HighWatermark, LastStableOffset: b.LastStable, LogStartOffset: b.LogStart, LogEndOffset: b.LogEnd}
	if r.WithAborted {
		res.Aborted = []AbortedTxn{}
	}
	if r.Offset < b.LogStart || r.Offset > b.LogEnd {
		return res, fmt.Errorf("offset %d is outside of the log, %d to %d: %w", r.Offset, b.LogStart, b.LogEnd, kerr.OffsetOutOfRange)
	}
	upper := b.bound(r.UpTo)
	if r.Offset >= upper || r.MaxBytes <= 0 && !r.MinOneBatch {
		return res, nil
	}
	segs := v.from(r.Offset)
	for i, s := range segs {
		if s.Base() >= b.LogEnd { // begun after this look was
			break
		}
		v.use(s)
		first, ok, err := s.Find(r.Offset)
		if err == nil && !ok {
			continue // the offset lies in a gap at the end of this segment
		}
		if err == nil {
			err = v.readFrom(segs[i:], first, upper, r, &res)
		}
		return res, err
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

// readFrom fills in what can be read of the first of segs from the batch found in it.
func (v *view) readFrom(segs []*segment.Segment, first segment.Found, upper int64, r *ReadRequest, res *ReadResult) error {
	s := segs[0]
	end, err := readEnd(segs, v.b, upper)
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
		if err := v.aborted(segs, first.Pos+n, end, upper, r.Offset, res); err != nil {
			return err
		}
	}
	res.Records, err = s.Slice(first.Pos, int(n))
	return err
}

// readEnd is the position in the first segment up to which may be read.
func readEnd(segs []*segment.Segment, b *bounds, upper int64) (int64, error) {
	s := segs[0]
	end := s.Size()
	if s.Base() == b.activeBase && b.endPos >= 0 {
		end = b.endPos
	}
	if upper == b.LogEnd && b.endPos >= 0 || len(segs) > 1 && segs[1].Base() <= upper {
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
func (v *view) aborted(segs []*segment.Segment, pos, end, upper, from int64, res *ReadResult) error {
	if pos < end {
		at, err := segs[0].OffsetBehind(pos)
		if err != nil {
			return err
		}
		upper = min(upper, at)
	}
	for _, s := range segs {
		v.use(s)
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

// OffsetForTime returns the first record below upper whose time is at least ms.
func (p *Partition) OffsetForTime(ms, upper int64) (found TimedOffset, ok bool, err error) {
	err = p.look(func(v *view) (err error) {
		found, ok, err = v.offsetForTime(ms, upper)
		return err
	}, func() {})
	return found, ok, err
}

func (v *view) offsetForTime(ms, upper int64) (found TimedOffset, ok bool, err error) {
	start := v.b.LogStart
	for _, s := range v.from(start) {
		v.use(s)
		at, hit, err := s.FindTime(ms)
		if err != nil {
			return TimedOffset{}, false, err
		}
		for hit {
			found, ok, err := recordIn(s, at, func(r *record.Record) bool { return r.Offset >= start && r.Timestamp >= ms })
			if err != nil {
				return TimedOffset{}, false, err
			}
			if ok {
				return found, found.Offset < upper, nil
			}
			// A compacted batch may have lost the record that made its time, and one at the log start may lie before it.
			if at, hit, err = s.NextTime(at, ms); err != nil {
				return TimedOffset{}, false, err
			}
		}
	}
	return TimedOffset{}, false, nil
}

// MaxTimestamp returns the record with the largest time; its offset is -1 when the log is empty.
func (p *Partition) MaxTimestamp() (found TimedOffset, err error) {
	err = p.look(func(v *view) error {
		found = TimedOffset{Offset: model.NoOffset, Timestamp: model.NoTimestamp, LeaderEpoch: model.NoEpoch}
		top := model.NoTimestamp
		for _, s := range v.from(v.b.LogStart) {
			v.use(s)
			ms, _, err := s.MaxTime()
			if err != nil {
				return err
			}
			top = max(top, ms)
		}
		if top < 0 {
			return nil
		}
		first, ok, err := v.offsetForTime(top, math.MaxInt64)
		if ok {
			found = first
		}
		return err
	}, func() {})
	return found, err
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
