package quorum

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	pb "go.etcd.io/raft/v3/raftpb"
)

// ErrCorrupt is in the chain of Open's error when a file of the metadata log was damaged by something other than a
// crash in the middle of a write.
var ErrCorrupt = errors.New("metadata log is corrupt")

// ErrVersion is in the chain of Open's error when a file was written by a newer version of kbroker.
var ErrVersion = errors.New("metadata log has a version that this kbroker does not know")

// Layout of a frame; docs/formats/metadata-log.md draws it.
const (
	frameMagic      = 0x4b42524c // "KBRL"
	frameHeaderSize = 20
	// maxFrameBytes bounds what a damaged length can make the reader believe. Proposals are bounded by maxBatchBytes and
	// raft hands out at most what is uncommitted, see maxUncommittedBytes.
	maxFrameBytes = 256 << 20
	// formatVersion is the version of segments and snapshots.
	formatVersion = 0
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// frameKind tells what a frame holds.
type frameKind uint8

const (
	// frameHead is the first frame of a segment.
	frameHead frameKind = 1
	// frameAppend holds what raft wanted persisted at once.
	frameAppend frameKind = 2
	// frameSnapshotHead is the first frame of a snapshot.
	frameSnapshotHead frameKind = 3
	// frameSnapshotPart holds a batch of records of a snapshot.
	frameSnapshotPart frameKind = 4
	// frameSnapshotEnd is the last frame of a snapshot and holds the number of records.
	frameSnapshotEnd frameKind = 5
)

// head is the first frame of a segment.
type head struct {
	nodeID int32
	// salt goes into the checksums of the segment's other frames; the head itself and snapshots use 0.
	salt uint32
}

// appended is what one Ready persists.
type appended struct {
	hard *pb.HardState
	// reset, when set, is the snapshot that replaced the whole log before entries were added.
	reset   *position
	entries []*pb.Entry
}

// position names an entry of the log.
type position struct{ index, term uint64 }

// checksum covers the salt, so that bytes which a client managed to store in the log cannot pass for a frame of it.
func checksum(salt uint32, b []byte) uint32 {
	var s [4]byte
	binary.BigEndian.PutUint32(s[:], salt)
	return crc32.Update(crc32.Checksum(s[:], castagnoli), castagnoli, b)
}

// appendFrame appends a frame around payload to dst.
func appendFrame(dst []byte, salt uint32, seq uint64, payload []byte) []byte {
	dst = binary.BigEndian.AppendUint32(dst, frameMagic)
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(payload)))
	at := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	dst = binary.BigEndian.AppendUint64(dst, seq)
	dst = append(dst, payload...)
	binary.BigEndian.PutUint32(dst[at:], checksum(salt, dst[at+4:]))
	return dst
}

// errFrame says that there is no whole frame at the front of the bytes.
var errFrame = errors.New("no whole frame")

// cutFrame takes the frame at the front of b. Its error wraps errFrame and says what is wrong.
func cutFrame(b []byte, salt uint32) (seq uint64, payload, rest []byte, err error) {
	if len(b) < frameHeaderSize {
		return 0, nil, nil, fmt.Errorf("%w: %d bytes left", errFrame, len(b))
	}
	if m := binary.BigEndian.Uint32(b); m != frameMagic {
		return 0, nil, nil, fmt.Errorf("%w: magic is %#x", errFrame, m)
	}
	n := binary.BigEndian.Uint32(b[4:])
	if n > maxFrameBytes || int(n) > len(b)-frameHeaderSize {
		return 0, nil, nil, fmt.Errorf("%w: %d of %d bytes", errFrame, len(b)-frameHeaderSize, n)
	}
	end := frameHeaderSize + int(n)
	if sum := checksum(salt, b[12:end]); sum != binary.BigEndian.Uint32(b[8:]) {
		return 0, nil, nil, fmt.Errorf("%w: checksum is %#x", errFrame, sum)
	}
	return binary.BigEndian.Uint64(b[12:]), b[frameHeaderSize:end], b[end:], nil
}

// laterFrame looks for a whole frame with a number above seq anywhere in b, which is what Q2 forbids behind a torn one.
func laterFrame(b []byte, salt uint32, seq uint64) (at int, found bool) {
	magic := binary.BigEndian.AppendUint32(nil, frameMagic)
	for at = 0; ; at++ {
		i := bytes.Index(b[at:], magic)
		if i < 0 {
			return 0, false
		}
		at += i
		if s, _, _, err := cutFrame(b[at:], salt); err == nil && s > seq {
			return at, true
		}
	}
}

func (h *head) encode() []byte {
	b := []byte{byte(frameHead), formatVersion}
	b = binary.AppendVarint(b, int64(h.nodeID))
	return binary.AppendUvarint(b, uint64(h.salt))
}

func decodeHead(b []byte) (*head, error) {
	r := reader{b: b}
	if k := frameKind(r.u8()); k != frameHead {
		return nil, fmt.Errorf("first frame is of kind %d: %w", k, ErrCorrupt)
	}
	if v := r.u8(); v != formatVersion {
		return nil, fmt.Errorf("version %d: %w", v, ErrVersion)
	}
	h := &head{nodeID: int32(r.varint()), salt: uint32(r.uvarint())}
	return h, r.end()
}

func (a *appended) encode() []byte {
	size := 64
	for _, e := range a.entries {
		size += 32 + len(e.GetData())
	}
	b := append(make([]byte, 0, size), byte(frameAppend))
	b = binary.AppendUvarint(b, a.hard.GetTerm())
	b = binary.AppendUvarint(b, a.hard.GetVote())
	b = binary.AppendUvarint(b, a.hard.GetCommit())
	if a.reset == nil {
		b = append(b, 0)
	} else {
		b = append(b, 1)
		b = binary.AppendUvarint(b, a.reset.index)
		b = binary.AppendUvarint(b, a.reset.term)
	}
	b = binary.AppendUvarint(b, uint64(len(a.entries)))
	for _, e := range a.entries {
		b = append(b, byte(e.GetType()))
		b = binary.AppendUvarint(b, e.GetIndex())
		b = binary.AppendUvarint(b, e.GetTerm())
		b = binary.AppendUvarint(b, uint64(len(e.GetData())))
		b = append(b, e.GetData()...)
	}
	return b
}

// decodeAppended reads what encode wrote. Entries refer to b.
func decodeAppended(b []byte) (*appended, error) {
	r := reader{b: b}
	if k := frameKind(r.u8()); k != frameAppend {
		return nil, fmt.Errorf("frame of kind %d: %w", k, ErrCorrupt)
	}
	a := &appended{hard: &pb.HardState{Term: new(r.uvarint()), Vote: new(r.uvarint()), Commit: new(r.uvarint())}}
	if r.u8() == 1 {
		a.reset = &position{index: r.uvarint(), term: r.uvarint()}
	}
	n := r.uvarint()
	if n > uint64(len(r.b)/4) {
		return nil, fmt.Errorf("%d entries in %d bytes: %w", n, len(r.b), ErrCorrupt)
	}
	a.entries = make([]*pb.Entry, 0, n)
	for range n {
		t := pb.EntryType(r.u8())
		a.entries = append(a.entries, &pb.Entry{
			Type: t.Enum(), Index: new(r.uvarint()), Term: new(r.uvarint()), Data: r.bytes(),
		})
	}
	return a, r.end()
}

// reader takes fields from the front of b; after the first fault it returns zeros.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) fail() {
	r.bad, r.b = true, nil
}

func (r *reader) u8() uint8 {
	if len(r.b) == 0 {
		r.fail()
		return 0
	}
	v := r.b[0]
	r.b = r.b[1:]
	return v
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) varint() int64 {
	v, n := binary.Varint(r.b)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.b = r.b[n:]
	return v
}

// bytes returns nil for length zero, as raft has it.
func (r *reader) bytes() []byte {
	n := r.uvarint()
	if n > uint64(len(r.b)) {
		r.fail()
		return nil
	}
	if n == 0 {
		return nil
	}
	v := r.b[:n:n]
	r.b = r.b[n:]
	return v
}

func (r *reader) end() error {
	if r.bad {
		return fmt.Errorf("payload ends early: %w", ErrCorrupt)
	}
	if len(r.b) > 0 {
		return fmt.Errorf("%d bytes behind the payload: %w", len(r.b), ErrCorrupt)
	}
	return nil
}
