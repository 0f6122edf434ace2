package segment

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sort"

	"github.com/kbroker/kbroker/internal/vfs"
)

const (
	offsetEntrySize = 8
	timeEntrySize   = 12
)

// offsetEntry says that the batch at pos ends with the offset base + rel.
type offsetEntry struct {
	rel uint32
	pos int32
}

// timeEntry says that ts is the largest time up to and including the batch that ends with the offset base + rel.
type timeEntry struct {
	ts  int64
	rel uint32
}

func parseOffsetEntry(b []byte) offsetEntry {
	return offsetEntry{rel: binary.BigEndian.Uint32(b), pos: int32(binary.BigEndian.Uint32(b[4:]))}
}

func (e offsetEntry) append(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint32(dst, e.rel)
	return binary.BigEndian.AppendUint32(dst, uint32(e.pos))
}

func parseTimeEntry(b []byte) timeEntry {
	return timeEntry{ts: int64(binary.BigEndian.Uint64(b)), rel: binary.BigEndian.Uint32(b[8:])}
}

func (e timeEntry) append(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint64(dst, uint64(e.ts))
	return binary.BigEndian.AppendUint32(dst, e.rel)
}

// table is an index as a search sees it: n entries in ascending order.
type table interface {
	len() int
	entry(i int, buf *[timeEntrySize]byte) ([]byte, error)
}

// fileTable is an index file.
type fileTable struct {
	f    vfs.File
	n    int
	size int // of an entry
}

func (t fileTable) len() int { return t.n }

func (t fileTable) entry(i int, buf *[timeEntrySize]byte) ([]byte, error) {
	b := buf[:t.size]
	_, err := t.f.ReadAt(b, int64(i)*int64(t.size))
	return b, err
}

// lastAtMost returns the index of the last entry for which over is false, -1 when there is none. Entries for which over is
// true stand behind all others.
func lastAtMost(t table, over func(b []byte) bool) (int, error) {
	var (
		buf   [timeEntrySize]byte
		first error
	)
	i := sort.Search(t.len(), func(i int) bool {
		b, err := t.entry(i, &buf)
		if err != nil {
			first = err
			return true
		}
		return over(b)
	})
	return i - 1, first
}

// readTable reads a whole index file; a length that is no multiple of the entries' and zeros behind the last entry, which
// a preallocated file has, are cut off. A missing file is fs.ErrNotExist.
func readTable(fsys vfs.FS, path string, entrySize int) ([]byte, error) {
	b, err := vfs.ReadFile(fsys, path)
	if err != nil {
		return nil, err
	}
	b = b[:len(b)/entrySize*entrySize]
	for len(b) > entrySize && allZero(b[len(b)-entrySize:]) {
		b = b[:len(b)-entrySize]
	}
	return b, nil
}

func allZero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}

// writeTable replaces an index file. It is not synced: an index that does not survive a crash is rebuilt (S1).
func writeTable(fsys vfs.FS, path string, b []byte) error {
	f, err := fsys.Open(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	if len(b) > 0 {
		if _, err := f.WriteAt(b, 0); err != nil {
			_ = f.Close() // the write error is the one to report
			return err
		}
	}
	return f.Close()
}

// loadOffsets reads an offset index and checks that it is one for a log of size bytes: ascending, inside the log.
func loadOffsets(fsys vfs.FS, path string, logSize int64) ([]offsetEntry, error) {
	b, err := readTable(fsys, path, offsetEntrySize)
	if err != nil {
		return nil, err
	}
	entries := make([]offsetEntry, 0, len(b)/offsetEntrySize)
	for ; len(b) > 0; b = b[offsetEntrySize:] {
		e := parseOffsetEntry(b)
		if n := len(entries); int64(e.pos) >= logSize || e.pos < 0 || n > 0 && (e.pos <= entries[n-1].pos || e.rel <= entries[n-1].rel) {
			return nil, fmt.Errorf("%s: entry %d does not fit its log of %d bytes", path, n, logSize)
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// loadTimes reads a time index and checks that it ascends.
func loadTimes(fsys vfs.FS, path string) ([]timeEntry, error) {
	b, err := readTable(fsys, path, timeEntrySize)
	if err != nil {
		return nil, err
	}
	entries := make([]timeEntry, 0, len(b)/timeEntrySize)
	for ; len(b) > 0; b = b[timeEntrySize:] {
		e := parseTimeEntry(b)
		if n := len(entries); n > 0 && (e.ts < entries[n-1].ts || e.rel < entries[n-1].rel) {
			return nil, fmt.Errorf("%s: entry %d is out of order", path, n)
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// Aborted is an entry of the transaction index: the transaction of a producer from FirstOffset on was aborted by the marker
// at LastOffset. LastStableOffset is where the last stable offset stood once the marker was replicated.
type Aborted struct {
	ProducerID                                int64
	FirstOffset, LastOffset, LastStableOffset int64
}

const (
	abortedSize    = 34
	abortedVersion = 0
)

func (a Aborted) append(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint16(dst, abortedVersion)
	for _, v := range [...]int64{a.ProducerID, a.FirstOffset, a.LastOffset, a.LastStableOffset} {
		dst = binary.BigEndian.AppendUint64(dst, uint64(v))
	}
	return dst
}

// parseAborted reads a transaction index. base is the segment's base offset.
func parseAborted(b []byte, base int64) ([]Aborted, error) {
	if len(b)%abortedSize != 0 {
		return nil, fmt.Errorf("%d bytes are no whole number of entries of %d", len(b), abortedSize)
	}
	list := make([]Aborted, 0, len(b)/abortedSize)
	for ; len(b) > 0; b = b[abortedSize:] {
		if v := binary.BigEndian.Uint16(b); v != abortedVersion {
			return nil, fmt.Errorf("entry %d has version %d, only %d is known", len(list), v, abortedVersion)
		}
		u := func(i int) int64 { return int64(binary.BigEndian.Uint64(b[2+8*i:])) }
		a := Aborted{u(0), u(1), u(2), u(3)}
		if a.LastOffset < base || a.FirstOffset > a.LastOffset {
			return nil, fmt.Errorf("entry %d with marker at %d and first offset %d does not belong to a segment from %d on", len(list), a.LastOffset, a.FirstOffset, base)
		}
		list = append(list, a)
	}
	return list, nil
}

// loadAborted reads a transaction index; a missing file is an empty one.
func loadAborted(fsys vfs.FS, path string, base int64) ([]Aborted, error) {
	b, err := vfs.ReadFile(fsys, path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	list, err := parseAborted(b, base)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return list, nil
}
