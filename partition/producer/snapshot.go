package producer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// ErrCorrupt marks a snapshot that cannot be used: the owner deletes it and takes an older one, or scans the log.
var ErrCorrupt = errors.New("corrupt producer snapshot")

const (
	snapshotVersion = 1
	crcAt           = 2
	checkedFrom     = 6
	headerSize      = 10
	entrySize       = 46
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// AppendSnapshot appends the state in the format of Kafka's .snapshot files, version 1 (docs/formats/producer-snapshot.md),
// producers by ascending id. Of each producer it keeps the last batch only.
func (s *State) AppendSnapshot(dst []byte) []byte {
	start := len(dst)
	dst = binary.BigEndian.AppendUint16(dst, snapshotVersion)
	dst = binary.BigEndian.AppendUint32(dst, 0) // the checksum, below
	dst = binary.BigEndian.AppendUint32(dst, uint32(s.Len()))
	for p := range s.All() {
		dst = binary.BigEndian.AppendUint64(dst, uint64(p.ProducerID))
		dst = binary.BigEndian.AppendUint16(dst, uint16(p.Epoch))
		dst = binary.BigEndian.AppendUint32(dst, uint32(p.LastSequence))
		dst = binary.BigEndian.AppendUint64(dst, uint64(p.LastOffset))
		dst = binary.BigEndian.AppendUint32(dst, uint32(p.LastDelta))
		dst = binary.BigEndian.AppendUint64(dst, uint64(p.LastTimestamp))
		dst = binary.BigEndian.AppendUint32(dst, uint32(p.CoordinatorEpoch))
		dst = binary.BigEndian.AppendUint64(dst, uint64(p.TxnFirstOffset))
	}
	b := dst[start:]
	binary.BigEndian.PutUint32(b[crcAt:], crc32.Checksum(b[checkedFrom:], castagnoli))
	return dst
}

// ParseSnapshot reads a snapshot. Every fault is an ErrCorrupt that says what and where; the caller names the file.
func ParseSnapshot(b []byte) ([]Info, error) {
	if len(b) < headerSize {
		return nil, fmt.Errorf("%w: %d bytes are less than the %d of a header", ErrCorrupt, len(b), headerSize)
	}
	if v := binary.BigEndian.Uint16(b); v != snapshotVersion {
		return nil, fmt.Errorf("%w: unknown version %d", ErrCorrupt, v)
	}
	if stored, sum := binary.BigEndian.Uint32(b[crcAt:]), crc32.Checksum(b[checkedFrom:], castagnoli); stored != sum {
		return nil, fmt.Errorf("%w: checksum %08x stored, %08x computed", ErrCorrupt, stored, sum)
	}
	n, rest := int64(binary.BigEndian.Uint32(b[checkedFrom:])), b[headerSize:]
	if n*entrySize != int64(len(rest)) {
		return nil, fmt.Errorf("%w: %d producers of %d bytes in %d bytes", ErrCorrupt, n, entrySize, len(rest))
	}
	infos := make([]Info, 0, n)
	for ; len(rest) > 0; rest = rest[entrySize:] {
		infos = append(infos, parseEntry(rest))
	}
	return infos, nil
}

func parseEntry(b []byte) Info {
	u32 := func(at int) int32 { return int32(binary.BigEndian.Uint32(b[at:])) }
	u64 := func(at int) int64 { return int64(binary.BigEndian.Uint64(b[at:])) }
	p := Info{
		ProducerID: u64(0), Epoch: int16(binary.BigEndian.Uint16(b[8:])), LastSequence: u32(10), LastOffset: u64(14),
		LastDelta: u32(22), LastTimestamp: u64(26), CoordinatorEpoch: u32(34), TxnFirstOffset: u64(38),
	}
	if p.TxnFirstOffset < 0 {
		p.TxnFirstOffset = -1
	}
	return p
}

// Load replaces the state by a snapshot, without the producers that would expire at nowMs. On error the state is empty.
// Decided transactions are not in a snapshot: the caller loads one that is not above the high watermark and replays the
// log from there, or the last stable offset could pass a marker that is not replicated.
func (s *State) Load(b []byte, nowMs, expirationMs int64) error {
	s.Reset()
	infos, err := ParseSnapshot(b)
	if err != nil {
		return err
	}
	for _, p := range infos {
		e := entry{epoch: p.Epoch, coordinatorEpoch: p.CoordinatorEpoch, txnFirst: p.TxnFirstOffset, lastTimestamp: p.LastTimestamp}
		if p.LastOffset >= 0 {
			e.push(lastBatch{lastOffset: p.LastOffset, timestamp: p.LastTimestamp, lastSequence: p.LastSequence, delta: p.LastDelta})
		}
		if e.expired(nowMs, expirationMs) {
			continue
		}
		if s.find(p.ProducerID) != nil {
			s.Reset()
			return fmt.Errorf("%w: producer %d appears twice", ErrCorrupt, p.ProducerID)
		}
		*s.entry(p.ProducerID, p.Epoch) = e
		if e.txnFirst >= 0 {
			s.t.open = insert(s.t.open, txn{producerID: p.ProducerID, first: e.txnFirst})
		}
	}
	return nil
}
