package quorum

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/kbroker/kbroker/internal/vfs"
	pb "go.etcd.io/raft/v3/raftpb"
)

const segmentSuffix = ".raftlog"

// wal is the log on disk, open for appending. It belongs to the loop and is for one goroutine. After an error it must
// not be used again (Q6).
type wal struct {
	fs     vfs.FS
	dir    string
	nodeID int32

	// segments are in order; the last one is open as file and written at end.
	segments []segment
	file     vfs.File
	end      int64
	salt     uint32
	// nextFrame numbers frames through all segments without holes.
	nextFrame uint64
}

// segment is a file of the log.
type segment struct {
	number uint64
	// lastIndex is the highest entry index in the file, 0 when it holds none.
	lastIndex uint64
	bytes     int64
}

func (w *wal) path(number uint64) string {
	return filepath.Join(w.dir, fmt.Sprintf("%020d%s", number, segmentSuffix))
}

// replayed is what the segments amount to.
type replayed struct {
	hard *pb.HardState
	// entries are consecutive.
	entries []*pb.Entry
	// dropped is how many bytes of a torn write were cut off.
	dropped int64
}

func (r *replayed) last() uint64 {
	if n := len(r.entries); n > 0 {
		return r.entries[n-1].GetIndex()
	}
	return 0
}

// add takes one frame's content into account. Entries override what stands at their index, as raft demands.
func (r *replayed) add(a *appended) error {
	r.hard = a.hard
	if a.reset != nil {
		r.entries = nil
	}
	for _, e := range a.entries {
		if len(r.entries) > 0 {
			first := r.entries[0].GetIndex()
			switch i := e.GetIndex(); {
			case i > r.last()+1:
				return fmt.Errorf("entry %d follows entry %d: %w", i, r.last(), ErrCorrupt)
			case i < first:
				r.entries = nil
			default:
				r.entries = r.entries[:i-first]
			}
		}
		r.entries = append(r.entries, e)
	}
	return nil
}

// openWAL reads all segments and opens the last one for appending. A folder without segments gives found == false and a
// wal on which create must be called.
func openWAL(fsys vfs.FS, dir string, nodeID int32) (w *wal, r *replayed, found bool, err error) {
	w = &wal{fs: fsys, dir: dir, nodeID: nodeID, nextFrame: 1}
	numbers, err := listNumbered(fsys, dir, segmentSuffix)
	if err != nil {
		return nil, nil, false, err
	}
	if len(numbers) == 0 {
		return w, nil, false, nil
	}
	r = &replayed{}
	for i, n := range numbers {
		if i > 0 && n != numbers[i-1]+1 {
			return nil, nil, false, fmt.Errorf("%s: segment %d is missing: %w", dir, numbers[i-1]+1, ErrCorrupt)
		}
		if err := w.replaySegment(n, i == 0, i == len(numbers)-1, r); err != nil {
			return nil, nil, false, fmt.Errorf("%s: %w", w.path(n), err)
		}
	}
	if err := w.openLast(r.dropped > 0); err != nil {
		return nil, nil, false, err
	}
	return w, r, true, nil
}

// removeUnfinished deletes what a crash left of files that had not got their name yet.
func removeUnfinished(fsys vfs.FS, dir string) error {
	files, err := fsys.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, f := range files {
		if name := f.Name(); strings.HasSuffix(name, segmentSuffix+".tmp") || strings.HasSuffix(name, snapshotSuffix+".tmp") {
			if err := fsys.Remove(filepath.Join(dir, name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// listNumbered returns the numbers in front of suffix of all matching names, in order.
func listNumbered(fsys vfs.FS, dir, suffix string) ([]uint64, error) {
	files, err := fsys.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var numbers []uint64
	for _, f := range files {
		name := f.Name()
		base, ok := strings.CutSuffix(name, suffix)
		if !ok {
			continue
		}
		var n uint64
		if _, err := fmt.Sscanf(base, "%020d", &n); err != nil || fmt.Sprintf("%020d", n) != base {
			return nil, fmt.Errorf("%s: not a name of the metadata log: %w", filepath.Join(dir, name), ErrCorrupt)
		}
		numbers = append(numbers, n) // ReadDir sorts, and equal length makes that the order of numbers
	}
	return numbers, nil
}

func (w *wal) replaySegment(number uint64, first, last bool, r *replayed) error {
	b, err := vfs.ReadFile(w.fs, w.path(number))
	if err != nil {
		return err
	}
	size := len(b)
	h, b, err := w.replayHead(b, first)
	if err != nil {
		return err
	}
	w.salt = h.salt
	seg := segment{number: number}
	for len(b) > 0 {
		seq, payload, rest, err := cutFrame(b, h.salt)
		if err == nil && seq != w.nextFrame {
			return fmt.Errorf("position %d: frame %d where %d belongs: %w", size-len(b), seq, w.nextFrame, ErrCorrupt)
		}
		if err != nil {
			if err := w.checkTorn(b, size-len(b), last, err); err != nil {
				return err
			}
			r.dropped = int64(len(b))
			break
		}
		a, err := decodeAppended(payload)
		if err == nil {
			err = r.add(a)
		}
		if err != nil {
			return fmt.Errorf("position %d: %w", size-len(b), err)
		}
		for _, e := range a.entries {
			seg.lastIndex = max(seg.lastIndex, e.GetIndex())
		}
		w.nextFrame++
		b = rest
	}
	seg.bytes = int64(size) - r.dropped
	w.segments, w.end = append(w.segments, seg), seg.bytes
	return nil
}

// replayHead reads a segment's first frame. It can not be torn, because it was synced before the file got its name (Q3).
func (w *wal) replayHead(b []byte, first bool) (*head, []byte, error) {
	seq, payload, rest, err := cutFrame(b, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("head: %w: %w", err, ErrCorrupt)
	}
	h, err := decodeHead(payload)
	if err != nil {
		return nil, nil, fmt.Errorf("head: %w", err)
	}
	if h.nodeID != w.nodeID {
		return nil, nil, fmt.Errorf("this metadata log belongs to node %d, not to node %d", h.nodeID, w.nodeID)
	}
	if first {
		w.nextFrame = seq
	}
	if seq != w.nextFrame {
		return nil, nil, fmt.Errorf("head: frame %d where %d belongs: %w", seq, w.nextFrame, ErrCorrupt)
	}
	w.nextFrame++
	return h, rest, nil
}

// checkTorn decides whether the bytes from position on are the remains of a torn write (nil) or damage (Q2).
func (w *wal) checkTorn(b []byte, position int, last bool, cause error) error {
	if !last {
		return fmt.Errorf("position %d: %w, and it is not the last segment: %w", position, cause, ErrCorrupt)
	}
	if at, found := laterFrame(b, w.salt, w.nextFrame); found {
		return fmt.Errorf("position %d: %w, but a later frame stands at %d: %w", position, cause, position+at, ErrCorrupt)
	}
	return nil
}

// openLast opens the last segment for appending, cutting off a torn tail.
func (w *wal) openLast(cut bool) error {
	f, err := w.fs.Open(w.path(w.segments[len(w.segments)-1].number), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	if cut {
		err = f.Truncate(w.end)
		if err == nil {
			err = f.Sync() // else the next frame could be followed by the old remains
		}
	}
	if err != nil {
		_ = f.Close() // the first error is the one to report
		return err
	}
	w.file = f
	return nil
}

// append writes one frame and syncs it (Q2).
func (w *wal) append(a *appended) error {
	frame := appendFrame(nil, w.salt, w.nextFrame, a.encode())
	if _, err := w.file.WriteAt(frame, w.end); err != nil {
		return fmt.Errorf("write metadata log at %d: %w", w.end, err)
	}
	if err := w.file.Sync(); err != nil {
		return fmt.Errorf("sync metadata log: %w", err)
	}
	w.end += int64(len(frame))
	w.nextFrame++
	seg := &w.segments[len(w.segments)-1]
	seg.bytes = w.end
	for _, e := range a.entries {
		seg.lastIndex = max(seg.lastIndex, e.GetIndex())
	}
	return nil
}

// roll starts a new segment that begins with the present hard state, so that older segments hold nothing but entries.
// The first segment of a log is made the same way, with the entries that every log begins with.
func (w *wal) roll(begin *appended) error {
	var number uint64 = 1
	if n := len(w.segments); n > 0 {
		number = w.segments[n-1].number + 1
	}
	var salt [4]byte
	_, _ = rand.Read(salt[:]) // documented never to fail
	h := head{nodeID: w.nodeID, salt: binary.BigEndian.Uint32(salt[:])}
	b := appendFrame(nil, 0, w.nextFrame, h.encode())
	b = appendFrame(b, h.salt, w.nextFrame+1, begin.encode())
	if err := vfs.WriteFileAtomic(w.fs, w.path(number), b); err != nil {
		return fmt.Errorf("new segment of the metadata log: %w", err)
	}
	if err := w.close(); err != nil {
		return err
	}
	seg := segment{number: number, bytes: int64(len(b))}
	for _, e := range begin.entries {
		seg.lastIndex = e.GetIndex()
	}
	w.segments = append(w.segments, seg)
	w.salt, w.end, w.nextFrame = h.salt, int64(len(b)), w.nextFrame+2
	return w.openLast(false)
}

// removeBefore deletes the leading segments that hold no entry above index. The open one stays.
func (w *wal) removeBefore(index uint64) error {
	n := 0
	for n < len(w.segments)-1 && w.segments[n].lastIndex <= index {
		if err := w.fs.Remove(w.path(w.segments[n].number)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove old segment of the metadata log: %w", err)
		}
		n++
		// One by one: were a later one to vanish first in a crash, the log would have a hole.
		if err := w.fs.SyncDir(w.dir); err != nil {
			return err
		}
	}
	w.segments = w.segments[n:]
	return nil
}

func (w *wal) close() error {
	if w.file == nil {
		return nil
	}
	err := w.file.Close()
	w.file = nil
	return err
}
