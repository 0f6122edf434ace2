package partition

import (
	"errors"
	"fmt"

	"github.com/kbroker/kbroker/partition/seglog"
	"github.com/kbroker/kbroker/partition/segment"
)

// Segments returns the segments of the log in order, the active one last, for a cleaner. The list must not be changed.
func (p *Partition) Segments() []*segment.Segment { return p.log.Segments() }

// Generation changes whenever records are cut off the end of the log or the log begins anew.
func (p *Partition) Generation() uint64 { return p.log.Generation() }

// CreateCleaned makes a segment for Replace, to be appended to and sealed by its maker; Discard removes one that is not
// needed after all. Both do not touch the log.
func (p *Partition) CreateCleaned(base int64) (*segment.Segment, error) {
	if err := p.Err(); err != nil {
		return nil, err
	}
	return p.log.CreateCleaned(base)
}

// Discard removes segments of CreateCleaned.
func (p *Partition) Discard(segs []*segment.Segment) error { return p.log.Discard(segs) }

// Replace puts cleaned segments into the place of others; see seglog.Log.Replace. It is durable on return. seglog.ErrChanged
// says that the log was cut since generation was read, or that some of old were dropped: nothing was changed. An error in
// the middle takes the partition offline; the next Open completes the change.
func (p *Partition) Replace(generation uint64, old, new []*segment.Segment) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.Err(); err != nil {
		return err
	}
	paths, err := p.log.Replace(generation, old, new)
	p.doomLocked(paths)
	if errors.Is(err, seglog.ErrInterrupted) {
		return p.fail(err)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", p.o.TP, err)
	}
	p.mu.dirty = true
	p.pruneSnapshotsLocked()
	return nil
}
