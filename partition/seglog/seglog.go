package seglog

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/kbroker/kbroker/internal/vfs"
	"github.com/kbroker/kbroker/partition/segment"
)

// tmpSuffix is of small files that are replaced atomically (vfs.WriteFileAtomic), before they are.
const tmpSuffix = ".tmp"

// Options says where a log lies.
type Options struct {
	FS    vfs.FS
	Dir   string
	Cache *segment.Cache
	// Start is the base offset of the first segment when the folder holds none.
	Start int64
}

// Log is a sequence of segments. Readers may call concurrently with the writer.
type Log struct {
	o          Options
	segs       atomic.Pointer[[]*segment.Segment]
	generation atomic.Uint64
}

// Open lists the segments of the folder, completes interrupted changes, clears leftovers away and makes a first segment when
// there is none. It does not look into log files.
func Open(o Options) (*Log, error) {
	l := &Log{o: o}
	if err := l.complete(); err != nil {
		return nil, err
	}
	if err := l.completeSwaps(); err != nil {
		return nil, err
	}
	bases, err := l.clear()
	if err != nil {
		return nil, err
	}
	segs := make([]*segment.Segment, 0, max(1, len(bases)))
	for _, base := range bases {
		s, err := segment.Open(o.FS, o.Cache, o.Dir, base)
		if err != nil {
			return nil, err
		}
		segs = append(segs, s)
	}
	if len(segs) == 0 {
		s, err := l.create(o.Start)
		if err != nil {
			return nil, err
		}
		segs = append(segs, s)
	}
	l.segs.Store(&segs)
	return l, nil
}

func (l *Log) create(base int64) (*segment.Segment, error) {
	s, err := segment.Create(l.o.FS, l.o.Cache, l.o.Dir, base)
	if err == nil {
		err = l.o.FS.SyncDir(l.o.Dir)
	}
	return s, err
}

// clear removes leftovers (L4) and returns the base offsets of the segments, ascending.
func (l *Log) clear() ([]int64, error) {
	entries, err := l.o.FS.ReadDir(l.o.Dir)
	if err != nil {
		return nil, err
	}
	var bases []int64
	logs, indexes := map[int64]bool{}, map[int64][]string{}
	for _, e := range entries {
		name := e.Name()
		path := filepath.Join(l.o.Dir, name)
		switch ext := filepath.Ext(name); ext {
		case segment.DeletedSuffix, segment.CleanedSuffix, tmpSuffix:
			if err := l.remove(path); err != nil {
				return nil, err
			}
		case segment.LogSuffix:
			base, err := strconv.ParseInt(strings.TrimSuffix(name, ext), 10, 64)
			if err != nil || name != segment.FileName(base, ext) {
				return nil, fmt.Errorf("%s is not named like a segment", path)
			}
			bases, logs[base] = append(bases, base), true
		case segment.OffsetSuffix, segment.TimeSuffix, segment.AbortedSuffix:
			if base, err := strconv.ParseInt(strings.TrimSuffix(name, ext), 10, 64); err == nil {
				indexes[base] = append(indexes[base], path)
			}
		}
	}
	for base, paths := range indexes {
		if logs[base] {
			continue
		}
		for _, p := range paths { // an index without its log is what a crash leaves of a removal
			if err := l.remove(p); err != nil {
				return nil, err
			}
		}
	}
	slices.Sort(bases)
	return bases, nil
}

func (l *Log) remove(path string) error {
	if err := l.o.FS.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Segments returns the segments in order, the active one last. The list must not be changed.
func (l *Log) Segments() []*segment.Segment { return *l.segs.Load() }

// Active is the segment that appends go to.
func (l *Log) Active() *segment.Segment {
	s := l.Segments()
	return s[len(s)-1]
}

// From returns the segments from the one on whose range an offset falls into; all of them when it lies before the first.
func (l *Log) From(offset int64) []*segment.Segment {
	segs := l.Segments()
	i := sort.Search(len(segs), func(i int) bool { return segs[i].Base() > offset })
	return segs[max(0, i-1):]
}

// Size is the number of bytes of all segments.
func (l *Log) Size() (n int64) {
	for _, s := range l.Segments() {
		n += s.Size()
	}
	return n
}

// Roll seals the active segment and begins a new one at base. The sealed one is durable first: a crash could otherwise keep
// the new records and lose older ones, and nothing would tell the hole from a gap.
func (l *Log) Roll(base int64) error {
	if err := l.Active().Seal(); err != nil {
		return err
	}
	if err := l.Active().Sync(); err != nil {
		return err
	}
	s, err := l.create(base)
	if err != nil {
		return err
	}
	segs := append(slices.Clone(l.Segments()), s)
	l.segs.Store(&segs)
	return nil
}

// DropFirst takes the first n segments out of the log, not the active one, and returns the paths of their files, renamed
// and ready to be removed.
func (l *Log) DropFirst(n int) ([]string, error) {
	segs := l.Segments()
	if n >= len(segs) {
		return nil, fmt.Errorf("%s: %d of %d segments cannot be dropped, the active one has to stay", l.o.Dir, n, len(segs))
	}
	return l.drop(segs[:n], slices.Clone(segs[n:]), nil)
}

// drop takes segments out of the log as a whole: a crash that brought some of them back would leave a hole. With create it
// begins a new one.
func (l *Log) drop(old, after []*segment.Segment, create *int64) ([]string, error) {
	p := &plan{Create: create}
	for _, s := range old {
		p.Remove = append(p.Remove, s.Base())
	}
	return l.change(p, old, after)
}

func (l *Log) path(name string) string { return filepath.Join(l.o.Dir, name) }

// TruncateTo removes everything from offset on: whole segments, and the end of the one that holds the offset, which becomes
// the active one. A batch that begins before the offset and ends behind it goes whole. It is durable on return. The
// renamed files of dropped segments are returned, ready to be removed.
func (l *Log) TruncateTo(offset int64) (paths []string, err error) {
	segs := l.Segments()
	keep := len(segs)
	for keep > 1 && segs[keep-1].Base() >= offset {
		keep--
	}
	l.generation.Add(1)
	if keep < len(segs) {
		if paths, err = l.drop(segs[keep:], slices.Clone(segs[:keep]), nil); err != nil {
			return paths, err
		}
	}
	active := l.Active()
	if err := active.Activate(); err != nil {
		if !errors.Is(err, segment.ErrIndex) {
			return paths, err
		}
		return paths, fmt.Errorf("truncate %s to %d: %w", l.o.Dir, offset, err)
	}
	found, ok, err := active.Find(offset)
	if err != nil || !ok {
		return paths, err
	}
	return paths, active.Truncate(found.Pos)
}

// StartAt drops everything and begins anew at an offset.
func (l *Log) StartAt(offset int64) (paths []string, err error) {
	l.generation.Add(1)
	if paths, err = l.drop(l.Segments(), nil, &offset); err != nil {
		return paths, err
	}
	s, err := segment.Open(l.o.FS, l.o.Cache, l.o.Dir, offset)
	if err != nil {
		return paths, err
	}
	l.segs.Store(&[]*segment.Segment{s})
	return paths, s.Activate()
}

// Retire closes all files as soon as no reader uses them.
func (l *Log) Retire() {
	for _, s := range l.Segments() {
		s.Retire()
	}
}
