package partition

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kbroker/kbroker/internal/vfs"
	"github.com/kbroker/kbroker/partition/producer"
	"github.com/kbroker/kbroker/partition/segment"
	"github.com/kbroker/kbroker/protocol/record"
)

const snapshotSuffix = ".snapshot"

func (p *Partition) snapshotPath(offset int64) string {
	return filepath.Join(p.o.Dir, segment.FileName(offset, snapshotSuffix))
}

// snapshotLocked saves the producers as they are at the end of the log, unless that has been done. A log without a record
// needs none.
func (p *Partition) snapshotLocked() error {
	end := p.LogEndOffset()
	if n := len(p.mu.snapshots); end == 0 || n > 0 && p.mu.snapshots[n-1] == end {
		return nil
	}
	if err := vfs.WriteFileAtomic(p.o.FS, p.snapshotPath(end), p.mu.producers.AppendSnapshot(nil)); err != nil {
		return err
	}
	p.mu.snapshots = append(p.mu.snapshots, end)
	p.pruneSnapshotsLocked()
	return nil
}

// pruneSnapshotsLocked removes the snapshots that no recovery will begin with: those that belong neither to a segment's base
// nor to the newest two, which a clean stop left.
func (p *Partition) pruneSnapshotsLocked() {
	bases := map[int64]bool{}
	for _, s := range p.log.Segments() {
		bases[s.Base()] = true
	}
	keepFrom := len(p.mu.snapshots) - 2
	kept := p.mu.snapshots[:0]
	for i, o := range p.mu.snapshots {
		if i >= keepFrom || bases[o] || p.o.FS.Remove(p.snapshotPath(o)) != nil {
			kept = append(kept, o)
		}
	}
	p.mu.snapshots = kept
}

// dropSnapshotsLocked removes the snapshots above an offset.
func (p *Partition) dropSnapshotsLocked(above int64) error {
	had := len(p.mu.snapshots)
	for len(p.mu.snapshots) > 0 {
		last := p.mu.snapshots[len(p.mu.snapshots)-1]
		if last <= above {
			break
		}
		if err := p.o.FS.Remove(p.snapshotPath(last)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		p.mu.snapshots = p.mu.snapshots[:len(p.mu.snapshots)-1]
	}
	if len(p.mu.snapshots) == had {
		return nil
	}
	return p.o.FS.SyncDir(p.o.Dir) // one that came back would be taken for the state of other records at its offset
}

// listSnapshots finds the snapshot files of the folder.
func (p *Partition) listSnapshots() error {
	entries, err := p.o.FS.ReadDir(p.o.Dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), snapshotSuffix)
		if !ok {
			continue
		}
		if o, err := strconv.ParseInt(name, 10, 64); err == nil {
			p.mu.snapshots = append(p.mu.snapshots, o)
		}
	}
	slices.Sort(p.mu.snapshots)
	return nil
}

// loadProducersLocked brings the producers to where they were at offset end, from the newest usable snapshot that is not
// above limit and a replay of the log from there. Damaged snapshots are removed.
func (p *Partition) loadProducersLocked(limit, end int64) error {
	p.mu.producers.Reset()
	from := p.LogStartOffset()
	for i := len(p.mu.snapshots) - 1; i >= 0; i-- {
		at := p.mu.snapshots[i]
		if at > limit {
			continue
		}
		err := p.readSnapshotLocked(at)
		if err == nil {
			from = max(from, at)
			break
		}
		if !errors.Is(err, producer.ErrCorrupt) && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		_ = p.o.FS.Remove(p.snapshotPath(at)) // a file that stays is found damaged again
		p.mu.snapshots = slices.Delete(p.mu.snapshots, i, i+1)
	}
	return p.replayLocked(from, end)
}

func (p *Partition) readSnapshotLocked(at int64) error {
	b, err := vfs.ReadFile(p.o.FS, p.snapshotPath(at))
	if err == nil {
		err = p.mu.producers.Load(b, time.Now().UnixMilli(), p.expirationMs())
	}
	if err != nil {
		return fmt.Errorf("%s: %w", p.snapshotPath(at), err)
	}
	return nil
}

// replayLocked runs the producers over the batches in [from, end), of segments whose indexes are complete: aborted
// transactions are in them already.
func (p *Partition) replayLocked(from, end int64) error {
	if from >= end {
		return nil
	}
	for _, s := range p.log.From(from) {
		var inner error
		err := s.Headers(0, func(f segment.Found) bool {
			if f.Header.BaseOffset >= end {
				return false
			}
			if f.Header.LastOffset() >= from && f.Header.ProducerID >= 0 {
				inner = p.relearnLocked(s, f)
			}
			return inner == nil
		})
		if err = errors.Join(err, inner); err != nil {
			return err
		}
	}
	return nil
}

// relearnLocked makes the producer side of a batch known whose segment's index is complete.
func (p *Partition) relearnLocked(s *segment.Segment, f segment.Found) error {
	h := &f.Header
	if !h.IsControl() {
		p.mu.producers.Append(&producer.Batch{ProducerID: h.ProducerID, ProducerEpoch: h.ProducerEpoch, BaseSequence: h.BaseSequence,
			BaseOffset: h.BaseOffset, LastOffset: h.LastOffset(), MaxTimestamp: h.MaxTimestamp, Transactional: h.IsTransactional()})
		return nil
	}
	b, err := s.ReadBatch(f, nil)
	if err != nil {
		return err
	}
	commit, coordinatorEpoch, ok, err := record.ParseEndTxnMarker(b)
	if err != nil || !ok {
		return err
	}
	p.mu.producers.AppendMarker(&producer.Marker{ProducerID: h.ProducerID, ProducerEpoch: h.ProducerEpoch, CoordinatorEpoch: coordinatorEpoch,
		Commit: commit, Offset: h.BaseOffset, Timestamp: h.MaxTimestamp})
	return nil
}

func jitter(upTo time.Duration) time.Duration {
	if upTo <= 0 {
		return 0
	}
	return rand.N(upTo)
}
