package partition

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/kbroker/kbroker/internal/vfs"
	"github.com/kbroker/kbroker/partition/epoch"
	"github.com/kbroker/kbroker/partition/seglog"
	"github.com/kbroker/kbroker/partition/segment"
	"github.com/kbroker/kbroker/protocol/record"
)

// Open reads what is there. After a clean stop it looks at the end of the log only; otherwise it scans from the recovery
// point on, cuts a torn end and rebuilds indexes and producers (P6). Damage is an error that names file and position;
// nothing is changed then. ctx ends a scan.
func Open(ctx context.Context, o Options) (*Partition, error) {
	p := &Partition{o: o}
	p.cfg.Store(o.Config)
	if err := p.open(ctx); err != nil {
		if p.log != nil {
			p.log.Retire()
		}
		return nil, fmt.Errorf("open %s: %w", o.TP, err)
	}
	return p, nil
}

func (p *Partition) open(ctx context.Context) (err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.rollBase, p.mu.flushed = time.Now(), time.Now()
	p.mu.jitter = jitter(p.o.Config.SegmentJitter)
	if p.log, err = seglog.Open(seglog.Options{FS: p.o.FS, Dir: p.o.Dir, Cache: p.o.Files, Start: max(0, p.o.LogStartOffset)}); err != nil {
		return err
	}
	if err := p.readEpochs(); err != nil {
		return err
	}
	if err := p.listSnapshots(); err != nil {
		return err
	}
	start := max(p.o.LogStartOffset, p.FirstSegmentBase())
	p.bounds.Store(&bounds{Offsets: Offsets{LogStart: start, HighWatermark: start, LastStable: start, LogEnd: start}})
	var end int64
	if p.o.CleanShutdown {
		end, err = p.findEnd()
	} else {
		end, err = p.recover(ctx, start)
	}
	if err != nil {
		return err
	}
	if end < start { // the log start was moved by DeleteRecords beyond what survived
		if _, err := p.log.StartAt(start); err != nil {
			return err
		}
		end = start
	}
	return p.opened(start, end)
}

// opened publishes the bounds and loads the producers.
func (p *Partition) opened(start, end int64) error {
	hw := min(max(p.o.HighWatermark, start), end)
	active := p.log.Active()
	p.bounds.Store(&bounds{Offsets: Offsets{LogStart: start, HighWatermark: hw, LastStable: hw, LogEnd: end}, activeBase: active.Base(), endPos: active.Size()})
	if p.o.CleanShutdown {
		p.recovery.Store(end)
	} else {
		p.recovery.Store(min(max(p.o.RecoveryPoint, p.FirstSegmentBase()), end))
	}
	if p.mu.epochs.TruncateFromEnd(end) {
		p.mu.epochsUnsaved = true
	}
	if p.mu.epochs.TruncateFromStart(start) {
		p.mu.epochsUnsaved = true
	}
	if err := p.dropSnapshotsLocked(end); err != nil {
		return err
	}
	if end > start {
		if err := p.loadProducersLocked(hw, end); err != nil {
			return err
		}
		p.publishLocked(func(b *bounds) { b.LastStable = max(start, p.mu.producers.LastStable(hw)) })
	}
	return nil
}

func (p *Partition) readEpochs() error {
	path := filepath.Join(p.o.Dir, epochFile)
	text, err := vfs.ReadFile(p.o.FS, path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		p.mu.epochs, err = epoch.Parse(text)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// findEnd returns the end of a cleanly closed log. The last index entry leads near it; where the index cannot be used the
// whole segment is walked.
func (p *Partition) findEnd() (int64, error) {
	s := p.log.Active()
	end := s.Base()
	if s.Size() == 0 {
		return end, nil
	}
	err := s.Last(func(h record.Header) { end = h.LastOffset() + 1 })
	if errors.Is(err, segment.ErrIndex) || errors.Is(err, record.ErrCorrupt) {
		return p.recover(context.Background(), p.bounds.Load().LogStart)
	}
	return end, err
}

// recover scans the segments that may hold what was not synced, and those whose indexes are not sane.
func (p *Partition) recover(ctx context.Context, start int64) (end int64, err error) {
	segs := p.log.Segments()
	from := max(p.o.RecoveryPoint, start)
	// What the producers were at the first segment to be scanned decides which transactions its markers abort.
	first := p.log.From(from)[0]
	buf := make([]byte, 0, recoveryBuffer)
	for _, s := range segs {
		if s.Base() < first.Base() && !s.IndexSane() {
			if _, err := p.reindex(s, buf); err != nil {
				return 0, err
			}
		}
	}
	if err := p.loadProducersLocked(first.Base(), first.Base()); err != nil {
		return 0, err
	}
	end = first.Base()
	for i, s := range segs {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		if s.Base() < first.Base() {
			continue
		}
		if end, err = p.scan(s, i == len(segs)-1, from, end, buf); err != nil {
			return 0, err
		}
	}
	p.mu.dirty = true // what was rebuilt is to be saved by the next clean stop
	return end, nil
}

const recoveryBuffer = 4 << 20

// scan reads a segment that may be torn, rebuilding its indexes, and returns the end of the log so far.
func (p *Partition) scan(s *segment.Segment, last bool, recoveryPoint, end int64, buf []byte) (int64, error) {
	s.Reset()
	interval := p.o.Config.IndexIntervalBytes
	good, err := s.Scan(0, buf, func(b record.Batch, pos int64) error {
		if b.BaseOffset() < end || !s.FitsOffset(b.LastOffset()) {
			return fmt.Errorf("%w: %s at position %d: offset %d, expected %d or more", record.ErrCorrupt, s.LogPath(), pos, b.BaseOffset(), end)
		}
		s.Indexed(b, pos, interval)
		if e, ok := p.mu.epochs.Latest(); !ok || b.LeaderEpoch() > e.Epoch { // others are known from the file
			p.assignEpochLocked(b.LeaderEpoch(), b.BaseOffset())
		}
		end = b.NextOffset()
		return p.learnLocked(b, s)
	})
	if err != nil {
		if !errors.Is(err, record.ErrCorrupt) {
			return 0, err
		}
		if !last || end < recoveryPoint || s.DamagedAt(good) {
			return 0, fmt.Errorf("the log is damaged, nothing was changed; restore the file from another replica or cut it there by hand: %w", err)
		}
		if err := s.Truncate(good); err != nil {
			return 0, err
		}
	}
	if last {
		return end, nil
	}
	return end, s.Seal()
}

// reindex rebuilds the indexes of a segment whose log is sound. When the transaction index is lost as well, relearned says
// that the producers are now those at the end of this segment.
func (p *Partition) reindex(s *segment.Segment, buf []byte) (relearned bool, err error) {
	aborted, aerr := s.Aborted()
	s.Reset()
	_, err = s.Scan(0, buf, func(b record.Batch, pos int64) error {
		s.Indexed(b, pos, p.o.Config.IndexIntervalBytes)
		return nil
	})
	if err != nil {
		return false, fmt.Errorf("the log is damaged, nothing was changed; restore the file from another replica or cut it there by hand: %w", err)
	}
	if aerr != nil {
		if err := p.reabort(s); err != nil {
			return true, err
		}
	} else {
		for _, a := range aborted {
			s.AddAborted(a)
		}
	}
	return aerr != nil, s.Seal()
}

// reabort rebuilds the transaction index of a segment by running the producers over the log up to its end.
func (p *Partition) reabort(s *segment.Segment) error {
	if err := p.loadProducersLocked(s.Base(), s.Base()); err != nil {
		return err
	}
	_, err := s.Scan(0, nil, func(b record.Batch, _ int64) error { return p.learnLocked(b, s) })
	return err
}
