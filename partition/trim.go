package partition

import (
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/kbroker/kbroker/partition/segment"
	"github.com/kbroker/kbroker/protocol/record"
)

// Truncate removes everything from an offset on, durably, and forgets what the producers did there. All bounds become at
// most the new end.
func (p *Partition) Truncate(to int64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.Err(); err != nil {
		return err
	}
	b := p.bounds.Load()
	if to >= b.LogEnd {
		if p.mu.epochs.TruncateFromEnd(b.LogEnd) {
			return p.saveEpochsLocked()
		}
		return nil
	}
	if to < b.LogStart {
		return p.startAtLocked(to)
	}
	p.mu.dirty = true
	// The bounds go first: a reader must not be led to where nothing is any more.
	p.publishLocked(func(b *bounds) {
		b.HighWatermark, b.LastStable, b.LogEnd = min(b.HighWatermark, to), min(b.LastStable, to), to
		b.endPos = -1
	})
	p.recovery.Store(min(p.recovery.Load(), to))
	err := p.activateLocked(p.log.From(max(0, to-1))[0]) // its end is what will be cut
	if err == nil {
		var paths []string
		paths, err = p.log.TruncateTo(to)
		p.doomLocked(paths)
	}
	if err == nil {
		err = p.dropSnapshotsLocked(to)
	}
	if err != nil {
		return p.fail(err)
	}
	if p.mu.epochs.TruncateFromEnd(to) {
		if err := p.saveEpochsLocked(); err != nil {
			return err
		}
	}
	if err := p.loadProducersLocked(min(to, p.HighWatermark()), to); err != nil {
		return p.fail(err)
	}
	if err := p.holdEndLocked(to); err != nil { // with a snapshot of the producers as they are now
		return p.fail(err)
	}
	active := p.log.Active()
	hw := p.HighWatermark()
	p.publishLocked(func(b *bounds) {
		b.activeBase, b.endPos = active.Base(), active.Size()
		b.LastStable = max(b.LogStart, p.mu.producers.LastStable(hw))
	})
	return nil
}

// holdEndLocked begins a segment at the log end when the last record ends before it, in a gap. Otherwise nothing on the disk
// would say that the log reaches that far, and after a crash a torn write there would look like damage to flushed records.
func (p *Partition) holdEndLocked(end int64) error {
	s := p.log.Active()
	reached := s.Base()
	if s.Size() > 0 {
		if err := s.Last(func(h record.Header) { reached = h.LastOffset() + 1 }); err != nil {
			return err
		}
	}
	if reached >= end {
		return nil
	}
	return p.rollLocked(p.cfg.Load(), end)
}

// TruncateFullyAndStartAt drops the whole log and begins anew at an offset.
func (p *Partition) TruncateFullyAndStartAt(offset int64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.Err(); err != nil {
		return err
	}
	return p.startAtLocked(offset)
}

func (p *Partition) startAtLocked(offset int64) error {
	p.mu.dirty = true
	p.bounds.Store(&bounds{Offsets: Offsets{LogStart: offset, LastStable: offset, HighWatermark: offset, LogEnd: offset}, activeBase: offset})
	p.recovery.Store(offset)
	paths, err := p.log.StartAt(offset)
	p.doomLocked(paths)
	if err == nil {
		err = p.dropSnapshotsLocked(-1)
	}
	if err != nil {
		return p.fail(err)
	}
	p.mu.producers.Reset()
	p.mu.epochs.Clear()
	return p.saveEpochsLocked()
}

// SetLogStartOffset moves the log start up, to at most the high watermark, and drops the segments that lie below it whole.
// An offset below the log start changes nothing. The move itself becomes durable with the next log start checkpoint.
func (p *Partition) SetLogStartOffset(to int64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.Err(); err != nil {
		return err
	}
	b := p.bounds.Load()
	if to > b.HighWatermark {
		return fmt.Errorf("%s: the log cannot start at %d, its high watermark is %d: %w", p.o.TP, to, b.HighWatermark, kerr.OffsetOutOfRange)
	}
	if to <= b.LogStart {
		return nil
	}
	return p.startFromLocked(to)
}

func (p *Partition) startFromLocked(to int64) error {
	p.mu.dirty = true
	p.publishLocked(func(b *bounds) { b.LogStart, b.LastStable = to, max(to, b.LastStable) })
	segs := p.log.Segments()
	n := 0
	for n+1 < len(segs) && segs[n+1].Base() <= to {
		n++
	}
	if n > 0 {
		paths, err := p.log.DropFirst(n)
		p.doomLocked(paths)
		if err != nil {
			return p.fail(err)
		}
		p.pruneSnapshotsLocked()
	}
	p.recovery.Store(max(p.recovery.Load(), p.FirstSegmentBase()))
	if p.mu.epochs.TruncateFromStart(to) {
		return p.saveEpochsLocked()
	}
	return nil
}

// Retain deletes whole segments by retention.ms, retention.bytes and the log start, never above the high watermark, and
// returns the bytes freed. Only logs whose policy says delete lose data; what lies below the log start goes from all. A
// log whose every record has expired keeps an empty segment at its end. Files whose delay has passed are removed.
func (p *Partition) Retain(now time.Time) (freed int64, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.Err(); err != nil {
		return 0, err
	}
	p.removeDoomedLocked(now, false)
	cfg := p.cfg.Load()
	if !cfg.CleanupDelete {
		return 0, nil
	}
	segs := p.log.Segments()
	excess := p.log.Size() - cfg.RetentionBytes
	n := 0
	for ; n < len(segs); n++ {
		due, err := p.retentionDueLocked(segs, n, now, excess)
		if err != nil {
			return freed, p.fail(err)
		}
		if !due {
			break
		}
		excess -= segs[n].Size()
		freed += segs[n].Size()
	}
	if freed == 0 {
		return 0, nil
	}
	if n == len(segs) {
		if err := p.rollLocked(cfg, p.LogEndOffset()); err != nil {
			return 0, p.writeFailed(err)
		}
	}
	return freed, p.startFromLocked(p.log.Segments()[n].Base())
}

// retentionDueLocked tells whether segment i, before which all are due, may and must go.
func (p *Partition) retentionDueLocked(segs []*segment.Segment, i int, now time.Time, excess int64) (bool, error) {
	cfg, s := p.cfg.Load(), segs[i]
	end := p.LogEndOffset()
	if i+1 < len(segs) {
		end = segs[i+1].Base()
	}
	if end > p.HighWatermark() || s.Size() == 0 {
		return false, nil
	}
	if cfg.RetentionBytes >= 0 && excess >= s.Size() {
		return true, nil
	}
	if cfg.Retention < 0 {
		return false, nil
	}
	newest, _, err := s.MaxTime()
	if err != nil {
		return false, err
	}
	last := time.UnixMilli(newest)
	if newest < 0 {
		if last, err = s.ModTime(); err != nil {
			return false, err
		}
	}
	return now.Sub(last) > cfg.Retention, nil
}

// doomLocked remembers files to be removed when readers have had file.delete.delay.ms to finish.
func (p *Partition) doomLocked(paths []string) {
	at := time.Now().Add(p.cfg.Load().FileDeleteDelay)
	for _, path := range paths {
		// A file of the same name that was still waiting has been overwritten.
		p.mu.doomed = slices.DeleteFunc(p.mu.doomed, func(d doomedFile) bool { return d.path == path })
		p.mu.doomed = append(p.mu.doomed, doomedFile{path, at})
	}
}

// RemoveDeleted removes the files of dropped segments whose delay has passed.
func (p *Partition) RemoveDeleted(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.removeDoomedLocked(now, false)
}

func (p *Partition) removeDoomedLocked(now time.Time, all bool) {
	keep := p.mu.doomed[:0]
	for _, d := range p.mu.doomed {
		if !all && d.at.After(now) {
			keep = append(keep, d)
			continue
		}
		_ = p.o.FS.Remove(d.path) // a file that stays is removed by the next start
	}
	if p.mu.doomed = keep; len(keep) == 0 {
		p.mu.doomed = nil
	}
}
