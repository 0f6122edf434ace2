package seglog

import (
	"errors"
	"fmt"
	"slices"

	"github.com/kbroker/kbroker/partition/segment"
)

// ErrChanged says that the log is no longer the one that a replacement was made for. What was written for it can be thrown
// away; nothing was changed.
var ErrChanged = errors.New("the log was changed meanwhile")

// ErrInterrupted marks an error in the middle of a change. The log must not be used any more; the next Open completes the
// change.
var ErrInterrupted = errors.New("a change of the log's segments was interrupted")

// Generation changes whenever records are cut off the end of the log or the log begins anew. What was derived from records
// of one generation says nothing of the next.
func (l *Log) Generation() uint64 { return l.generation.Load() }

// CreateCleaned makes a segment outside of the log for Replace: to be appended to and sealed by its maker. A crash, and
// Discard, make it disappear.
func (l *Log) CreateCleaned(base int64) (*segment.Segment, error) {
	return segment.CreateAs(l.o.FS, l.o.Cache, l.o.Dir, base, segment.CleanedSuffix)
}

// Discard removes segments of CreateCleaned that are not needed after all.
func (l *Log) Discard(segs []*segment.Segment) error {
	var err error
	for _, s := range segs {
		s.Retire()
		for _, suffix := range segment.Suffixes() {
			err = errors.Join(err, l.remove(s.Path(suffix)))
		}
	}
	return err
}

// Replace puts sealed segments made by CreateCleaned into the place of others: a run of segments that follow each other in
// the log, without the active one. The first of both has the same base offset; all of the new ones stay below what follows
// the old ones. The change is durable on return, happens as a whole or not at all, and readers see either the old or the
// new segments; those in the middle of an old file finish. The renamed files of the old ones are returned, ready to be
// removed.
//
// ErrChanged means that generation is not the log's any more, or that some of old are not in it (they were dropped from its
// start): nothing was changed. After ErrInterrupted the log must not be used. Any other error has changed nothing either.
func (l *Log) Replace(generation uint64, old, new []*segment.Segment) (doomed []string, err error) {
	segs := l.Segments()
	i, err := l.checkReplace(generation, old, new)
	if err != nil {
		return nil, err
	}
	p := &plan{}
	for _, s := range new {
		if err := s.Seal(); err != nil {
			return nil, err
		}
		if err := s.Sync(); err != nil {
			return nil, err
		}
		files, err := s.Files()
		if err != nil {
			return nil, err
		}
		p.Install = append(p.Install, install{Base: s.Base(), Files: files})
	}
	if err := l.o.FS.SyncDir(l.o.Dir); err != nil {
		return nil, err
	}
	for _, s := range old {
		p.Remove = append(p.Remove, s.Base())
	}
	after := slices.Concat(segs[:i], new, segs[i+len(old):])
	return l.change(p, old, after)
}

// change carries out a plan that takes segments out of use and leaves the log with others. Readers of the old ones look
// again from the moment on when names change until the new list is there, a few renames later.
func (l *Log) change(p *plan, old, after []*segment.Segment) (doomed []string, err error) {
	doomed, started, err := l.carryOut(p, func() {
		for _, s := range old {
			s.Retire()
		}
	}, func() {
		for _, s := range after {
			if s.State() != "" {
				s.Renamed("")
			}
		}
		if len(after) > 0 { // otherwise the caller has a new first segment to show
			l.segs.Store(&after)
		}
	})
	if err != nil && started {
		err = fmt.Errorf("%w: %w", ErrInterrupted, err)
	}
	return doomed, err
}

func (l *Log) checkReplace(generation uint64, old, new []*segment.Segment) (at int, err error) {
	segs := l.Segments()
	if len(old) == 0 || len(new) == 0 || old[0].Base() != new[0].Base() {
		return 0, fmt.Errorf("%s: %d segments cannot replace %d: both must begin at the same offset", l.o.Dir, len(new), len(old))
	}
	at = slices.Index(segs, old[0])
	if generation != l.Generation() || at < 0 || at+len(old) > len(segs) || !slices.Equal(segs[at:at+len(old)], old) {
		return 0, fmt.Errorf("%s: segments from %d on cannot be replaced: %w", l.o.Dir, old[0].Base(), ErrChanged)
	}
	if at+len(old) == len(segs) {
		return 0, fmt.Errorf("%s: the active segment cannot be replaced", l.o.Dir)
	}
	for i, s := range new {
		if i > 0 && s.Base() <= new[i-1].Base() || s.Base() >= segs[at+len(old)].Base() || s.State() != segment.CleanedSuffix {
			return 0, fmt.Errorf("%s: segment %d does not fit into the place of %d to %d", l.o.Dir, s.Base(), old[0].Base(), segs[at+len(old)].Base())
		}
	}
	return at, nil
}
