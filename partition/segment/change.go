package segment

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"

	"github.com/kbroker/kbroker/internal/model"
	"github.com/kbroker/kbroker/internal/vfs"
	"github.com/kbroker/kbroker/protocol/record"
)

// scanSize is how much a scan reads at once.
const scanSize = 1 << 20

// Scan reads every batch from position pos on, checks its checksum and hands it to fn, whose memory is reused. It returns
// the position behind the last good batch. An error of kind record.ErrCorrupt says what is wrong with the bytes there; an
// error of fn ends the scan at the batch that it refused. buf is scratch memory and may be nil.
func (s *Segment) Scan(pos int64, buf []byte, fn func(b record.Batch, pos int64) error) (end int64, err error) {
	f, err := s.log.acquire()
	if err != nil {
		return pos, err
	}
	defer s.log.release()
	if cap(buf) < scanSize {
		buf = make([]byte, min(scanSize, max(record.HeaderSize, s.size.Load()-pos)))
	}
	buf = buf[:cap(buf)]
	size := s.size.Load()
	for have := buf[:0]; pos < size; {
		b, err := record.ParseBatch(have)
		if err != nil && pos+int64(len(have)) < size {
			if have, err = s.refill(f, &buf, have, pos, size); err != nil {
				return pos, err
			}
			b, err = record.ParseBatch(have)
		}
		if err == nil {
			err = b.VerifyCRC()
		}
		if err != nil {
			return pos, fmt.Errorf("%s at position %d: %w", s.log.path(), pos, err)
		}
		if err := fn(b, pos); err != nil {
			return pos, err
		}
		pos += int64(len(b))
		have = have[len(b):]
	}
	return pos, nil
}

// refill reads the file from pos on into buf, of which have was read already, growing it to hold the batch at its front.
func (s *Segment) refill(f vfs.File, buf *[]byte, have []byte, pos, size int64) ([]byte, error) {
	n := copy(*buf, have)
	if h, err := record.ParseHeader((*buf)[:n]); err == nil && h.Size() > int64(len(*buf)) && pos+h.Size() <= size {
		grown := make([]byte, h.Size())
		copy(grown, (*buf)[:n])
		*buf = grown
	}
	want := min(int64(len(*buf)), size-pos)
	m, err := f.ReadAt((*buf)[n:want], pos+int64(n))
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s at position %d: %w", s.log.path(), pos, err)
	}
	return (*buf)[:n+m], nil
}

// Reset empties the indexes of a segment that is about to be scanned from its start; Indexed enters each batch again. The
// segment is active afterwards.
func (s *Segment) Reset() {
	s.idx.Lock()
	defer s.idx.Unlock()
	s.idx.offsets, s.idx.times, s.idx.aborted, s.idx.active = nil, nil, nil, true
	s.dropFilesLocked()
	s.sinceEntry = 0
	s.maxTime.Store(model.NoTimestamp)
	s.maxTimeOffset.Store(s.base)
	s.firstTime.Store(model.NoTimestamp)
	s.timesKnown.Store(true)
}

// Indexed enters a batch that a scan has found at pos.
func (s *Segment) Indexed(b record.Batch, pos int64, indexInterval int32) {
	s.note(b.LastOffset(), b.MaxTimestamp(), int64(len(b)), pos, indexInterval)
}

// Truncate cuts the log at a position, which must be the beginning of a batch, and what lies behind it out of the
// indexes. It is durable on return. The segment must be active.
func (s *Segment) Truncate(pos int64) error {
	f, err := s.log.acquire()
	if err != nil {
		return err
	}
	defer s.log.release()
	s.size.Store(pos)
	if err := f.Truncate(pos); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := s.loadTimes(); err != nil {
		return err
	}
	last := s.base - 1
	err = s.Headers(0, func(f Found) bool { last = f.Header.LastOffset(); return true })
	s.idx.Lock()
	defer s.idx.Unlock()
	keep := len(s.idx.offsets)
	for keep > 0 && int64(s.idx.offsets[keep-1].pos) >= pos {
		keep--
	}
	s.idx.offsets = s.idx.offsets[:keep:keep]
	keep = len(s.idx.times)
	for keep > 0 && s.base+int64(s.idx.times[keep-1].rel) > last {
		keep--
	}
	s.idx.times = s.idx.times[:keep:keep]
	keep = len(s.idx.aborted)
	for keep > 0 && s.idx.aborted[keep-1].LastOffset > last {
		keep--
	}
	s.idx.aborted = s.idx.aborted[:keep:keep]
	return err
}

// loadTimes finds the first and the largest time by walking the headers.
func (s *Segment) loadTimes() error {
	first, top, at := model.NoTimestamp, model.NoTimestamp, s.base
	err := s.Headers(0, func(f Found) bool {
		if f.Pos == 0 {
			first = f.Header.MaxTimestamp
		}
		if f.Header.MaxTimestamp > top {
			top, at = f.Header.MaxTimestamp, f.Header.LastOffset()
		}
		return true
	})
	if err != nil {
		return err
	}
	s.firstTime.Store(first)
	s.maxTime.Store(top)
	s.maxTimeOffset.Store(at)
	s.timesKnown.Store(true)
	return nil
}

// knowTimes makes the times of a segment known that was opened and not scanned: from the last entry of the time index,
// which Seal writes, or, where there is none, from the headers.
func (s *Segment) knowTimes() error {
	if s.timesKnown.Load() {
		return nil
	}
	b, err := readTable(s.fs, s.path(TimeSuffix), timeEntrySize)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if len(b) == 0 {
		return s.loadTimes()
	}
	e := parseTimeEntry(b[len(b)-timeEntrySize:])
	err = s.Headers(0, func(f Found) bool { s.firstTime.Store(f.Header.MaxTimestamp); return false })
	s.maxTime.Store(e.ts)
	s.maxTimeOffset.Store(s.base + int64(e.rel))
	s.timesKnown.Store(err == nil)
	return err
}

// suffixes are the endings of all files of a segment, the log file last.
var suffixes = []string{OffsetSuffix, TimeSuffix, AbortedSuffix, LogSuffix}

// Suffixes returns the endings of all files of a segment, the log file last.
func Suffixes() []string { return slices.Clone(suffixes) }

// Renamed makes known that the files were given names with this state.
func (s *Segment) Renamed(state string) {
	s.idx.Lock()
	defer s.idx.Unlock()
	s.state.Store(&state)
	s.log.renamed(s.path(LogSuffix))
	s.dropFilesLocked()
}

// State is what is appended to the names of the files, empty for a segment in use.
func (s *Segment) State() string {
	if state := s.state.Load(); state != nil {
		return *state
	}
	return ""
}

// Path names one of the segment's files.
func (s *Segment) Path(suffix string) string { return s.path(suffix) }

// Files returns the endings of the files that there are.
func (s *Segment) Files() (present []string, err error) {
	for _, suffix := range suffixes {
		_, err := s.fs.Stat(s.path(suffix))
		if err == nil {
			present = append(present, suffix)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	return present, nil
}

// Retired reports whether the segment has left the log. Its names may then belong to others, so what was read of it counts
// only if it was not retired afterwards; a range that was handed out before stays good.
func (s *Segment) Retired() bool { return s.retired.Load() }

// Retire takes the segment out of use, before anything happens to its files. They are closed as soon as no reader uses
// them.
func (s *Segment) Retire() {
	s.retired.Store(true)
	s.log.retire()
	s.idx.Lock()
	defer s.idx.Unlock()
	s.dropFilesLocked()
}

// IndexSane reports whether the index files fit the log, as Kafka's own check at start does.
func (s *Segment) IndexSane() bool {
	_, oerr := loadOffsets(s.fs, s.path(OffsetSuffix), max(1, s.size.Load()))
	_, terr := loadTimes(s.fs, s.path(TimeSuffix))
	_, aerr := loadAborted(s.fs, s.path(AbortedSuffix), s.base)
	return oerr == nil && terr == nil && aerr == nil
}
