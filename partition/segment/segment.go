package segment

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kbroker/kbroker/internal/model"
	"github.com/kbroker/kbroker/internal/vfs"
	"github.com/kbroker/kbroker/protocol/record"
)

// The endings of a segment's files.
const (
	LogSuffix      = ".log"
	OffsetSuffix   = ".index"
	TimeSuffix     = ".timeindex"
	AbortedSuffix  = ".txnindex"
	fileNameDigits = 20
)

// What is appended to the names of files that are not, or not yet, part of the log.
const (
	// DeletedSuffix is of files on their way out.
	DeletedSuffix = ".deleted"
	// CleanedSuffix is of files being written that are to replace others.
	CleanedSuffix = ".cleaned"
	// SwapSuffix is of finished replacements on the way to their places.
	SwapSuffix = ".swap"
)

// FileName is the name of one of a segment's files.
func FileName(base int64, suffix string) string {
	return fmt.Sprintf("%0*d%s", fileNameDigits, base, suffix)
}

// Segment is one segment. Readers may call concurrently with everything; Append, Truncate, Seal and the like have one
// caller at a time.
type Segment struct {
	fs    vfs.FS
	dir   string
	base  int64
	log   *file
	cache *Cache

	size atomic.Int64 // bytes of whole batches, all of them readable

	state   atomic.Pointer[string] // appended to the files' names; nil for none
	retired atomic.Bool

	// idx is what a reader needs of the indexes.
	idx struct {
		sync.RWMutex
		active  bool // entries are here and not yet in the files
		offsets []offsetEntry
		times   []timeEntry
		aborted []Aborted
		files   *indexFiles // of a sealed segment, made when first used
	}

	// What only the appender uses.
	sinceEntry int64 // bytes since the last index entry

	maxTime       atomic.Int64 // the largest time of all batches, -1 for none
	maxTimeOffset atomic.Int64 // last offset of the batch that holds it
	firstTime     atomic.Int64 // of the first batch, -1 for none
	timesKnown    atomic.Bool  // the three above are valid
	unsynced      atomic.Bool  // index files were written and not synced
	torn          atomic.Bool  // a failed write may have left bytes behind size
}

type indexFiles struct {
	offsets, times *file
	offsetN, timeN int
	present        bool
}

func newSegment(fsys vfs.FS, c *Cache, dir string, base int64, state string) *Segment {
	s := &Segment{fs: fsys, dir: dir, base: base, cache: c}
	if state != "" {
		s.state.Store(&state)
	}
	s.log = newFile(fsys, c, s.path(LogSuffix))
	s.maxTime.Store(model.NoTimestamp)
	s.maxTimeOffset.Store(base)
	s.firstTime.Store(model.NoTimestamp)
	return s
}

func (s *Segment) path(suffix string) string {
	name := filepath.Join(s.dir, FileName(s.base, suffix))
	if state := s.state.Load(); state != nil {
		name += *state
	}
	return name
}

// Create makes a new, empty, active segment. Leftovers of its name are removed. The caller syncs the folder.
func Create(fsys vfs.FS, c *Cache, dir string, base int64) (*Segment, error) {
	return CreateAs(fsys, c, dir, base, "")
}

// CreateAs is Create with something appended to the names of the files: CleanedSuffix for a replacement to be.
func CreateAs(fsys vfs.FS, c *Cache, dir string, base int64, state string) (*Segment, error) {
	s := newSegment(fsys, c, dir, base, state)
	for _, suffix := range []string{OffsetSuffix, TimeSuffix, AbortedSuffix} {
		if err := fsys.Remove(s.path(suffix)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	f, err := fsys.Open(s.path(LogSuffix), os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	s.idx.active = true
	s.timesKnown.Store(true)
	return s, f.Close()
}

// Open prepares a segment that is on disk. The indexes are not looked at before they are needed.
func Open(fsys vfs.FS, c *Cache, dir string, base int64) (*Segment, error) {
	return OpenAs(fsys, c, dir, base, "")
}

// OpenAs is Open for files to whose names something is appended.
func OpenAs(fsys vfs.FS, c *Cache, dir string, base int64, state string) (*Segment, error) {
	s := newSegment(fsys, c, dir, base, state)
	st, err := fsys.Stat(s.path(LogSuffix))
	if err != nil {
		return nil, err
	}
	if st.Size() > math.MaxInt32 {
		return nil, fmt.Errorf("%s has %d bytes, a segment has at most %d", s.path(LogSuffix), st.Size(), math.MaxInt32)
	}
	s.size.Store(st.Size())
	return s, nil
}

// Base is the offset that the segment is named by; no record in it has a smaller one.
func (s *Segment) Base() int64 { return s.base }

// Size is the number of bytes of whole batches.
func (s *Segment) Size() int64 { return s.size.Load() }

// LogPath names the log file in messages.
func (s *Segment) LogPath() string { return s.log.path() }

// MaxTime is the largest time of the segment's records in ms and the last offset of the batch that holds it; -1 and the
// base offset when there is none.
func (s *Segment) MaxTime() (ms, offset int64, err error) {
	err = s.knowTimes()
	return s.maxTime.Load(), s.maxTimeOffset.Load(), err
}

// FirstTime is the time of the first batch in ms, -1 when there is none.
func (s *Segment) FirstTime() (int64, error) {
	err := s.knowTimes()
	return s.firstTime.Load(), err
}

// ModTime is when the log file was last written, as the file system says.
func (s *Segment) ModTime() (time.Time, error) {
	st, err := s.fs.Stat(s.log.path())
	if err != nil {
		return time.Time{}, err
	}
	return st.ModTime(), nil
}

// SetModTime sets what ModTime returns, for a segment that takes the place of an older one.
func (s *Segment) SetModTime(t time.Time) error { return s.fs.Chtimes(s.log.path(), t) }

// FitsOffset reports whether an offset can stand in this segment's indexes.
func (s *Segment) FitsOffset(offset int64) bool {
	return offset >= s.base && offset-s.base <= math.MaxInt32
}

// IndexFull reports whether the indexes have no room for another entry within maxBytes.
func (s *Segment) IndexFull(maxBytes int32) bool {
	s.idx.RLock()
	defer s.idx.RUnlock()
	return (len(s.idx.offsets)+1)*offsetEntrySize > int(maxBytes) || (len(s.idx.times)+2)*timeEntrySize > int(maxBytes)
}

// Append writes whole batches behind the last one with a single write and enters them into the indexes. Nothing is
// visible before all of it is written; after an error the file may hold a torn end behind Size, which is cut at once
// or, when that fails too, before anything else is written.
func (s *Segment) Append(batches []byte, indexInterval int32) error {
	f, err := s.log.acquire()
	if err != nil {
		return err
	}
	defer s.log.release()
	pos := s.size.Load()
	if s.torn.Load() {
		if err := s.heal(f); err != nil {
			return err
		}
	}
	if _, err := f.WriteAt(batches, pos); err != nil {
		s.torn.Store(true)
		return errors.Join(err, s.heal(f))
	}
	for rest := batches; len(rest) > 0; {
		b, err := record.ParseBatch(rest)
		if err != nil {
			return fmt.Errorf("%s at %d: %w", s.log.path(), pos, err) // checked by the caller before
		}
		s.note(b.LastOffset(), b.MaxTimestamp(), int64(len(b)), pos, indexInterval)
		pos += int64(len(b))
		rest = rest[len(b):]
	}
	s.size.Store(pos)
	return nil
}

// heal cuts what a failed write has left behind Size.
func (s *Segment) heal(f vfs.File) error {
	if err := f.Truncate(s.size.Load()); err != nil {
		return err
	}
	s.torn.Store(false)
	return nil
}

// note enters a batch of n bytes at pos into the indexes.
func (s *Segment) note(lastOffset, maxTime, n, pos int64, indexInterval int32) {
	if pos == 0 {
		s.firstTime.Store(maxTime)
	}
	if maxTime > s.maxTime.Load() {
		s.maxTime.Store(maxTime)
		s.maxTimeOffset.Store(lastOffset)
	}
	if s.sinceEntry > int64(indexInterval) {
		s.idx.Lock()
		s.idx.offsets = append(s.idx.offsets, offsetEntry{uint32(lastOffset - s.base), int32(pos)})
		s.noteTimeLocked()
		s.idx.Unlock()
		s.sinceEntry = 0
	}
	s.sinceEntry += n
}

// noteTimeLocked enters the largest time so far, unless the last entry says the same.
func (s *Segment) noteTimeLocked() {
	e := timeEntry{s.maxTime.Load(), uint32(s.maxTimeOffset.Load() - s.base)}
	n := len(s.idx.times)
	if e.ts >= 0 && (n == 0 || e.ts > s.idx.times[n-1].ts) {
		s.idx.times = append(s.idx.times, e)
	}
}

// AddAborted enters a transaction whose ABORT marker is in this segment.
func (s *Segment) AddAborted(a Aborted) {
	s.idx.Lock()
	defer s.idx.Unlock()
	s.idx.aborted = append(s.idx.aborted, a)
}

// Aborted returns the transactions whose ABORT markers are in this segment, in the order of the markers.
func (s *Segment) Aborted() ([]Aborted, error) {
	s.idx.RLock()
	active, list := s.idx.active, s.idx.aborted
	s.idx.RUnlock()
	if active {
		return list[:len(list):len(list)], nil
	}
	return loadAborted(s.fs, s.path(AbortedSuffix), s.base)
}

// Sync makes the log file durable up to Size, and the index files if they were written since the last time.
func (s *Segment) Sync() error {
	f, err := s.log.acquire()
	if err != nil {
		return err
	}
	defer s.log.release()
	if err := f.Sync(); err != nil {
		return err
	}
	if !s.unsynced.Swap(false) {
		return nil
	}
	for _, suffix := range suffixes[:len(suffixes)-1] {
		if err := syncFile(s.fs, s.path(suffix)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			s.unsynced.Store(true)
			return err
		}
	}
	return s.fs.SyncDir(s.dir)
}

func syncFile(fsys vfs.FS, path string) error {
	f, err := fsys.Open(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	err = f.Sync()
	return errors.Join(err, f.Close())
}

// Seal writes the indexes to their files and drops them from memory. The time index gets a last entry for the largest
// time. The segment takes no more appends until Activate.
func (s *Segment) Seal() error {
	s.idx.Lock()
	defer s.idx.Unlock()
	if !s.idx.active {
		return nil
	}
	if s.torn.Load() {
		f, err := s.log.acquire()
		if err != nil {
			return err
		}
		defer s.log.release()
		if err := s.heal(f); err != nil {
			return err
		}
	}
	s.noteTimeLocked()
	if err := s.writeIndexesLocked(); err != nil {
		return err
	}
	s.idx.active, s.idx.offsets, s.idx.times, s.idx.aborted, s.idx.files = false, nil, nil, nil, nil
	return nil
}

func (s *Segment) writeIndexesLocked() error {
	s.unsynced.Store(true)
	offsets := make([]byte, 0, len(s.idx.offsets)*offsetEntrySize)
	for _, e := range s.idx.offsets {
		offsets = e.append(offsets)
	}
	times := make([]byte, 0, len(s.idx.times)*timeEntrySize)
	for _, e := range s.idx.times {
		times = e.append(times)
	}
	err := errors.Join(writeTable(s.fs, s.path(OffsetSuffix), offsets), writeTable(s.fs, s.path(TimeSuffix), times))
	if len(s.idx.aborted) == 0 {
		if rerr := s.fs.Remove(s.path(AbortedSuffix)); rerr != nil && !errors.Is(rerr, fs.ErrNotExist) {
			return errors.Join(err, rerr)
		}
		return err
	}
	aborted := make([]byte, 0, len(s.idx.aborted)*abortedSize)
	for _, a := range s.idx.aborted {
		aborted = a.append(aborted)
	}
	return errors.Join(err, writeTable(s.fs, s.path(AbortedSuffix), aborted))
}

// Activate loads the indexes into memory, so that the segment can be appended to. ErrIndex means that they cannot be
// trusted: then Rebuild makes them anew.
func (s *Segment) Activate() error {
	if err := s.knowTimes(); err != nil {
		return err
	}
	s.idx.Lock()
	defer s.idx.Unlock()
	if s.idx.active {
		return nil
	}
	if s.size.Load() == 0 { // index files, if there are any, are of a log that is gone
		s.idx.offsets, s.idx.times, s.idx.aborted, s.idx.active, s.sinceEntry = nil, nil, nil, true, 0
		s.dropFilesLocked()
		return nil
	}
	offsets, err := loadOffsets(s.fs, s.path(OffsetSuffix), s.size.Load())
	if err != nil {
		return fmt.Errorf("%w: %w", ErrIndex, err)
	}
	times, err := loadTimes(s.fs, s.path(TimeSuffix))
	if err != nil {
		return fmt.Errorf("%w: %w", ErrIndex, err)
	}
	aborted, err := loadAborted(s.fs, s.path(AbortedSuffix), s.base)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrIndex, err)
	}
	s.idx.offsets, s.idx.times, s.idx.aborted, s.idx.active = offsets, times, aborted, true
	s.dropFilesLocked()
	s.sinceEntry = s.size.Load()
	if n := len(offsets); n > 0 {
		s.sinceEntry -= int64(offsets[n-1].pos)
	}
	return nil
}

// ErrIndex marks an index file that is missing or does not fit its log.
var ErrIndex = errors.New("index cannot be used")

func (s *Segment) dropFilesLocked() {
	if f := s.idx.files; f != nil {
		f.offsets.retire()
		f.times.retire()
		s.idx.files = nil
	}
}
