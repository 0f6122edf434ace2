package segment

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"sync"

	"github.com/kbroker/kbroker/internal/vfs"
	"github.com/kbroker/kbroker/protocol/record"
)

// Found is where a batch lies.
type Found struct {
	Header record.Header
	Pos    int64
}

// End is the position behind the batch.
func (f Found) End() int64 { return f.Pos + f.Header.Size() }

// chunkSize is how much of a log is read at once in search of a batch: about what lies between two index entries.
const chunkSize = 8 << 10

var chunks = sync.Pool{New: func() any { b := make([]byte, chunkSize); return &b }}

// Find returns the first batch that ends at or behind an offset; ok is false when all end before it.
func (s *Segment) Find(offset int64) (found Found, ok bool, err error) {
	pos, err := s.floor(offset)
	if err != nil {
		return Found{}, false, err
	}
	return s.firstFrom(pos, func(h *record.Header) bool { return h.LastOffset() >= offset })
}

// FindTime returns the first batch that holds a record of time ms or later; ok is false when there is none.
func (s *Segment) FindTime(ms int64) (found Found, ok bool, err error) {
	if newest, _, err := s.MaxTime(); err != nil || newest < ms {
		return Found{}, false, err
	}
	start, err := s.floorTime(ms)
	if err != nil {
		return Found{}, false, err
	}
	pos, err := s.floor(start)
	if err != nil {
		return Found{}, false, err
	}
	return s.firstFrom(pos, func(h *record.Header) bool { return h.MaxTimestamp >= ms })
}

// firstFrom walks the headers from pos on.
func (s *Segment) firstFrom(pos int64, want func(*record.Header) bool) (found Found, ok bool, err error) {
	err = s.Headers(pos, func(f Found) bool {
		if want(&f.Header) {
			found, ok = f, true
		}
		return !ok
	})
	return found, ok, err
}

// Headers calls fn for each batch from position pos on until it returns false. It reads headers, not records.
func (s *Segment) Headers(pos int64, fn func(Found) bool) error {
	f, err := s.log.acquire()
	if err != nil {
		return err
	}
	defer s.log.release()
	chunk := chunks.Get().(*[]byte)
	defer chunks.Put(chunk)
	size := s.size.Load()
	var have []byte // what was read of the file from pos on
	for pos < size {
		if len(have) < record.HeaderSize {
			n, err := f.ReadAt((*chunk)[:min(int64(chunkSize), size-pos)], pos)
			if err != nil && !errors.Is(err, io.EOF) {
				return err
			}
			have = (*chunk)[:n]
		}
		h, err := record.ParseHeader(have)
		if err == nil && pos+h.Size() > size {
			err = fmt.Errorf("%w: %d bytes, %d left", record.ErrCorrupt, h.Size(), size-pos)
		}
		if err != nil {
			return fmt.Errorf("%s at position %d: %w", s.log.path(), pos, err)
		}
		if !fn(Found{h, pos}) {
			return nil
		}
		pos += h.Size()
		have = have[min(int64(len(have)), h.Size()):]
	}
	return nil
}

// floor returns a position from which a search for offset may begin: of a batch that does not end behind it.
func (s *Segment) floor(offset int64) (pos int64, err error) {
	rel := offset - s.base
	if rel <= 0 {
		return 0, nil
	}
	s.idx.RLock()
	if s.idx.active {
		defer s.idx.RUnlock()
		return s.floorInMemory(rel), nil
	}
	s.idx.RUnlock()
	err = s.withIndexes(func(offsets, _ table) error {
		i, err := lastAtMost(offsets, func(b []byte) bool { return int64(parseOffsetEntry(b).rel) > rel })
		if err != nil || i < 0 {
			return err
		}
		var buf [timeEntrySize]byte
		b, err := offsets.entry(i, &buf)
		pos = int64(parseOffsetEntry(b).pos)
		return err
	})
	return pos, err
}

func (s *Segment) floorInMemory(rel int64) int64 {
	lo, hi := 0, len(s.idx.offsets)
	for lo < hi {
		if m := (lo + hi) / 2; int64(s.idx.offsets[m].rel) <= rel {
			lo = m + 1
		} else {
			hi = m
		}
	}
	if lo == 0 {
		return 0
	}
	return int64(s.idx.offsets[lo-1].pos)
}

// floorTime returns an offset from which a search for a time may begin.
func (s *Segment) floorTime(ms int64) (offset int64, err error) {
	s.idx.RLock()
	if s.idx.active {
		defer s.idx.RUnlock()
		offset = s.base
		for i := len(s.idx.times) - 1; i >= 0; i-- {
			if s.idx.times[i].ts <= ms {
				return s.base + int64(s.idx.times[i].rel), nil
			}
		}
		return offset, nil
	}
	s.idx.RUnlock()
	offset = s.base
	err = s.withIndexes(func(_, times table) error {
		i, err := lastAtMost(times, func(b []byte) bool { return parseTimeEntry(b).ts > ms })
		if err != nil || i < 0 {
			return err
		}
		var buf [timeEntrySize]byte
		b, err := times.entry(i, &buf)
		offset = s.base + int64(parseTimeEntry(b).rel)
		return err
	})
	return offset, err
}

// withIndexes runs fn with the index files of a sealed segment. Files that are missing count as empty: a search then
// begins at the start of the segment.
func (s *Segment) withIndexes(fn func(offsets, times table) error) error {
	s.idx.Lock()
	if s.idx.files == nil {
		files, err := s.openIndexes()
		if err != nil {
			s.idx.Unlock()
			return err
		}
		s.idx.files = files
	}
	files := s.idx.files
	s.idx.Unlock()
	if !files.present {
		return fn(fileTable{}, fileTable{})
	}
	of, err := files.offsets.acquire()
	if err != nil {
		return err
	}
	defer files.offsets.release()
	tf, err := files.times.acquire()
	if err != nil {
		return err
	}
	defer files.times.release()
	return fn(fileTable{of, files.offsetN, offsetEntrySize}, fileTable{tf, files.timeN, timeEntrySize})
}

// openIndexes counts the entries of the index files, without the zeros behind them.
func (s *Segment) openIndexes() (*indexFiles, error) {
	offsets, err := readTable(s.fs, s.path(OffsetSuffix), offsetEntrySize)
	var times []byte
	if err == nil {
		times, err = readTable(s.fs, s.path(TimeSuffix), timeEntrySize)
	}
	f := &indexFiles{offsets: newFile(s.fs, s.cache, s.path(OffsetSuffix)), times: newFile(s.fs, s.cache, s.path(TimeSuffix))}
	if errors.Is(err, fs.ErrNotExist) {
		return f, nil
	}
	f.present, f.offsetN, f.timeN = err == nil, len(offsets)/offsetEntrySize, len(times)/timeEntrySize
	return f, err
}

// ReadBatch reads one whole batch into buf, growing it when needed.
func (s *Segment) ReadBatch(at Found, buf []byte) (record.Batch, error) {
	n := int(at.Header.Size())
	if cap(buf) < n {
		buf = make([]byte, n)
	}
	buf = buf[:n]
	f, err := s.log.acquire()
	if err != nil {
		return nil, err
	}
	defer s.log.release()
	if _, err := f.ReadAt(buf, at.Pos); err != nil {
		return nil, fmt.Errorf("%s at position %d: %w", s.log.path(), at.Pos, err)
	}
	return record.ParseBatch(buf)
}

// Slice is a range of bytes of a log file. It holds whole batches, except that the last one may be cut. The file stays
// open and readable until Release. A nil Slice is empty.
type Slice struct {
	file *file
	f    vfs.File
	pos  int64
	n    int
}

// Slice returns n bytes from pos on; the caller releases it. The range must lie below Size.
func (s *Segment) Slice(pos int64, n int) (*Slice, error) {
	f, err := s.log.acquire()
	if err != nil {
		return nil, err
	}
	return &Slice{file: s.log, f: f, pos: pos, n: n}, nil
}

// Len is the number of bytes.
func (r *Slice) Len() int {
	if r == nil {
		return 0
	}
	return r.n
}

// File returns the file and the range's position in it, for sendfile. Not to be called on an empty one.
func (r *Slice) File() (f vfs.File, pos int64) { return r.f, r.pos }

// ReadAll returns the bytes in new memory.
func (r *Slice) ReadAll() ([]byte, error) {
	if r.Len() == 0 {
		return nil, nil
	}
	b := make([]byte, r.n)
	_, err := r.f.ReadAt(b, r.pos)
	return b, err
}

// Release gives the file back. It must be called once; the Slice is not usable afterwards.
func (r *Slice) Release() {
	if r != nil && r.file != nil {
		r.file.release()
		r.file = nil
	}
}

// Last calls fn with the header of the last batch. The segment must not be empty. ErrIndex says that the index leads astray.
func (s *Segment) Last(fn func(record.Header)) error {
	pos, err := s.floor(s.base + 1<<31)
	if err != nil {
		return err
	}
	if pos >= s.size.Load() {
		return fmt.Errorf("%w: %s points behind the end of its log", ErrIndex, s.path(OffsetSuffix))
	}
	var last Found
	if err := s.Headers(pos, func(f Found) bool { last = f; return true }); err != nil {
		return err
	}
	fn(last.Header)
	return nil
}

// DamagedAt tells damage from a torn end at the position where a scan ended. A torn end is what a crash leaves of a write:
// bytes that stop short, or sectors that were never written and read as zeros. Anything else that is followed by a good
// batch, or that has the length it says but not the content, was good once.
func (s *Segment) DamagedAt(pos int64) bool {
	f, err := s.log.acquire()
	if err != nil {
		return false
	}
	defer s.log.release()
	size := s.fileSize(f)
	var head [record.HeaderSize]byte
	if n, err := f.ReadAt(head[:], pos); n < len(head) || err != nil && !errors.Is(err, io.EOF) {
		return false
	}
	h, err := record.ParseHeader(head[:])
	if err != nil || pos+h.Size() >= size {
		return false
	}
	b := make([]byte, h.Size())
	if _, err := f.ReadAt(b, pos); err != nil || hasHole(b, pos) {
		return false
	}
	next := pos + h.Size()
	if n, err := f.ReadAt(head[:], next); n < len(head) || err != nil {
		return false
	}
	h, err = record.ParseHeader(head[:])
	if err != nil || next+h.Size() > size {
		return false
	}
	b = make([]byte, h.Size())
	if _, err := f.ReadAt(b, next); err != nil {
		return false
	}
	return record.Batch(b).VerifyCRC() == nil
}

func (s *Segment) fileSize(f vfs.File) int64 {
	n, err := f.Size()
	if err != nil {
		return s.size.Load()
	}
	return n
}

const sectorSize = 512

// hasHole reports whether a whole sector of the file, as far as b holds it, is zero. b was read from pos.
func hasHole(b []byte, pos int64) bool {
	for at := (sectorSize - pos%sectorSize) % sectorSize; at+sectorSize <= int64(len(b)); at += sectorSize {
		if allZero(b[at : at+sectorSize]) {
			return true
		}
	}
	return false
}

// NextTime is FindTime for the batches behind one that was found.
func (s *Segment) NextTime(after Found, ms int64) (found Found, ok bool, err error) {
	return s.firstFrom(after.End(), func(h *record.Header) bool { return h.MaxTimestamp >= ms })
}

// OffsetBehind returns an offset that no batch which begins before position pos reaches; it may be larger than needed.
func (s *Segment) OffsetBehind(pos int64) (offset int64, err error) {
	behind := func(rel uint32) int64 { return s.base + int64(rel) + 1 }
	s.idx.RLock()
	if s.idx.active {
		defer s.idx.RUnlock()
		for i := len(s.idx.offsets) - 1; i >= 0 && int64(s.idx.offsets[i].pos) >= pos; i-- {
			offset = behind(s.idx.offsets[i].rel)
		}
		if offset == 0 {
			offset = math.MaxInt64
		}
		return offset, nil
	}
	s.idx.RUnlock()
	offset = math.MaxInt64
	err = s.withIndexes(func(offsets, _ table) error {
		i, err := lastAtMost(offsets, func(b []byte) bool { return int64(parseOffsetEntry(b).pos) >= pos })
		if err != nil || i+1 >= offsets.len() {
			return err
		}
		var buf [timeEntrySize]byte
		b, err := offsets.entry(i+1, &buf)
		offset = behind(parseOffsetEntry(b).rel)
		return err
	})
	return offset, err
}
