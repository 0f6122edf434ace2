package record

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"iter"
)

// Sizes and positions of a batch's fields.
const (
	// HeaderSize is the size of a batch without records.
	HeaderSize = 61
	// LogOverhead is the part of the header that the length field does not count.
	LogOverhead = 12
	// Magic is the format version.
	Magic = 2

	atLength          = 8
	atLeaderEpoch     = 12
	atMagic           = 16
	atCRC             = 17
	atAttributes      = 21
	atLastOffsetDelta = 23
	atBaseTimestamp   = 27
	atMaxTimestamp    = 35
	atProducerID      = 43
	atProducerEpoch   = 51
	atBaseSequence    = 53
	atCount           = 57

	attrCodec         = 0x07
	attrLogAppendTime = 1 << 3
	attrTransactional = 1 << 4
	attrControl       = 1 << 5
	attrDeleteHorizon = 1 << 6
)

// ErrCorrupt marks bytes that are not a batch: a wrong checksum, an impossible length, an unknown format. Errors that
// wrap it say what was found.
var ErrCorrupt = errors.New("corrupt record batch")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Batch is one whole batch: exactly LogOverhead + length bytes.
type Batch []byte

// Header is the fixed part of a batch, for scans that do not need the records.
type Header struct {
	BaseOffset      int64
	Length          int32 // of the batch after the length field
	LeaderEpoch     int32
	CRC             uint32
	Attributes      int16
	LastOffsetDelta int32
	BaseTimestamp   int64
	MaxTimestamp    int64
	ProducerID      int64
	ProducerEpoch   int16
	BaseSequence    int32
	Count           int32
}

// ParseHeader reads the header from the first HeaderSize bytes of a batch. It refuses what no batch of this version can
// say, so that a scan does not follow a wild length.
func ParseHeader(b []byte) (Header, error) {
	if len(b) < HeaderSize {
		return Header{}, fmt.Errorf("%w: %d bytes are fewer than a header of %d", ErrCorrupt, len(b), HeaderSize)
	}
	v := Batch(b)
	h := Header{
		BaseOffset: v.BaseOffset(), Length: int32(binary.BigEndian.Uint32(b[atLength:])), LeaderEpoch: v.LeaderEpoch(), CRC: v.CRC(),
		Attributes: v.Attributes(), LastOffsetDelta: v.LastOffsetDelta(), BaseTimestamp: v.BaseTimestamp(), MaxTimestamp: v.MaxTimestamp(),
		ProducerID: v.ProducerID(), ProducerEpoch: v.ProducerEpoch(), BaseSequence: v.BaseSequence(), Count: v.Count(),
	}
	switch {
	case b[atMagic] != Magic:
		return h, fmt.Errorf("%w: magic %d, only %d is known", ErrCorrupt, int8(b[atMagic]), Magic)
	case h.Length < HeaderSize-LogOverhead:
		return h, fmt.Errorf("%w: length %d is less than a header", ErrCorrupt, h.Length)
	case h.LastOffsetDelta < 0 || h.BaseOffset < 0 || h.BaseOffset+int64(h.LastOffsetDelta) < 0:
		return h, fmt.Errorf("%w: base offset %d with last offset delta %d", ErrCorrupt, h.BaseOffset, h.LastOffsetDelta)
	case h.Count < 0:
		return h, fmt.Errorf("%w: %d records", ErrCorrupt, h.Count)
	}
	return h, nil
}

// Size returns the bytes of the whole batch.
func (h *Header) Size() int64 { return LogOverhead + int64(h.Length) }

// LastOffset is the offset of the last record the batch had when it was written.
func (h *Header) LastOffset() int64 { return h.BaseOffset + int64(h.LastOffsetDelta) }

// IsTransactional reports the transactional attribute.
func (h *Header) IsTransactional() bool { return h.Attributes&attrTransactional != 0 }

// IsControl reports the control attribute.
func (h *Header) IsControl() bool { return h.Attributes&attrControl != 0 }

// ParseBatch returns the batch that b begins with. b may be longer.
func ParseBatch(b []byte) (Batch, error) {
	h, err := ParseHeader(b)
	if err != nil {
		return nil, err
	}
	if h.Size() > int64(len(b)) {
		return nil, fmt.Errorf("%w: length %d, only %d bytes left", ErrCorrupt, h.Length, len(b)-LogOverhead)
	}
	return Batch(b[:h.Size():h.Size()]), nil
}

// Split iterates over the batches that follow each other in buf without looking at checksums. Anything that is not a
// whole batch, a torn end included, is an error that names its position and ends the iteration.
func Split(buf []byte) iter.Seq2[Batch, error] {
	return func(yield func(Batch, error) bool) {
		for pos := 0; pos < len(buf); {
			b, err := ParseBatch(buf[pos:])
			if err != nil {
				yield(nil, fmt.Errorf("at byte %d: %w", pos, err))
				return
			}
			if !yield(b, nil) {
				return
			}
			pos += len(b)
		}
	}
}

// BaseOffset is the offset of the first record that the batch had when it was written.
func (b Batch) BaseOffset() int64 { return int64(binary.BigEndian.Uint64(b)) }

// LastOffset is the offset of the last record that the batch had when it was written.
func (b Batch) LastOffset() int64 { return b.BaseOffset() + int64(b.LastOffsetDelta()) }

// NextOffset is the offset after the batch.
func (b Batch) NextOffset() int64 { return b.LastOffset() + 1 }

// LeaderEpoch is the epoch of the leader that appended the batch.
func (b Batch) LeaderEpoch() int32 { return int32(binary.BigEndian.Uint32(b[atLeaderEpoch:])) }

// Magic is the format version.
func (b Batch) Magic() int8 { return int8(b[atMagic]) }

// CRC is the checksum as stored.
func (b Batch) CRC() uint32 { return binary.BigEndian.Uint32(b[atCRC:]) }

// Attributes are the raw attribute bits.
func (b Batch) Attributes() int16 { return int16(binary.BigEndian.Uint16(b[atAttributes:])) }

// Codec is how the records are compressed. It may be a number that stands for no codec.
func (b Batch) Codec() Codec { return Codec(b.Attributes() & attrCodec) }

// IsLogAppendTime reports whether the broker stamped the records: then every record's time is MaxTimestamp.
func (b Batch) IsLogAppendTime() bool { return b.Attributes()&attrLogAppendTime != 0 }

// IsTransactional reports the transactional attribute.
func (b Batch) IsTransactional() bool { return b.Attributes()&attrTransactional != 0 }

// IsControl reports the control attribute.
func (b Batch) IsControl() bool { return b.Attributes()&attrControl != 0 }

// DeleteHorizon is the time in ms from which tombstones (or the marker) in the batch may go, when a cleaner has set one.
func (b Batch) DeleteHorizon() (ms int64, ok bool) {
	if b.Attributes()&attrDeleteHorizon == 0 {
		return 0, false
	}
	return b.BaseTimestamp(), true
}

// LastOffsetDelta is LastOffset - BaseOffset.
func (b Batch) LastOffsetDelta() int32 { return int32(binary.BigEndian.Uint32(b[atLastOffsetDelta:])) }

// BaseTimestamp is the time in ms that records' deltas are added to.
func (b Batch) BaseTimestamp() int64 { return int64(binary.BigEndian.Uint64(b[atBaseTimestamp:])) }

// MaxTimestamp is the largest time in ms of the records that the batch had when it was written.
func (b Batch) MaxTimestamp() int64 { return int64(binary.BigEndian.Uint64(b[atMaxTimestamp:])) }

// ProducerID is -1 when the producer is not idempotent.
func (b Batch) ProducerID() int64 { return int64(binary.BigEndian.Uint64(b[atProducerID:])) }

// HasProducerID reports whether the batch is of an idempotent producer.
func (b Batch) HasProducerID() bool { return b.ProducerID() >= 0 }

// ProducerEpoch is -1 when the producer is not idempotent.
func (b Batch) ProducerEpoch() int16 { return int16(binary.BigEndian.Uint16(b[atProducerEpoch:])) }

// BaseSequence is the sequence number of the first record, -1 for none.
func (b Batch) BaseSequence() int32 { return int32(binary.BigEndian.Uint32(b[atBaseSequence:])) }

// LastSequence is the sequence number of the last record, -1 for none. Sequences wrap from 2^31-1 to 0.
func (b Batch) LastSequence() int32 {
	if b.BaseSequence() < 0 {
		return -1
	}
	return int32((int64(b.BaseSequence()) + int64(b.LastOffsetDelta())) & 0x7fffffff)
}

// Count is the number of records in the batch.
func (b Batch) Count() int32 { return int32(binary.BigEndian.Uint32(b[atCount:])) }

// Payload is what follows the header: records, or a compressed block of them.
func (b Batch) Payload() []byte { return b[HeaderSize:] }

// VerifyCRC compares the checksum.
func (b Batch) VerifyCRC() error {
	if sum := crc32.Checksum(b[atAttributes:], castagnoli); sum != b.CRC() {
		return fmt.Errorf("%w: checksum %08x, the batch at offset %d says %08x", ErrCorrupt, sum, b.BaseOffset(), b.CRC())
	}
	return nil
}

// SetBaseOffset gives the batch its place in the log. The checksum does not cover it.
func (b Batch) SetBaseOffset(o int64) { binary.BigEndian.PutUint64(b, uint64(o)) }

// SetLeaderEpoch stamps the batch with its leader's epoch. The checksum does not cover it.
func (b Batch) SetLeaderEpoch(e int32) { binary.BigEndian.PutUint32(b[atLeaderEpoch:], uint32(e)) }

// SetLogAppendTime stamps all records with the broker's time, in ms, and renews the checksum.
func (b Batch) SetLogAppendTime(ms int64) {
	b.setAttributes(b.Attributes() | attrLogAppendTime)
	binary.BigEndian.PutUint64(b[atMaxTimestamp:], uint64(ms))
	b.sum()
}

// setCreateTime states that records carry their producers' times, of which max is the largest. It renews the checksum
// only when something changes: batches of well-behaved clients stay as they are.
func (b Batch) setCreateTime(max int64) {
	if !b.IsLogAppendTime() && b.MaxTimestamp() == max {
		return
	}
	b.setAttributes(b.Attributes() &^ attrLogAppendTime)
	binary.BigEndian.PutUint64(b[atMaxTimestamp:], uint64(max))
	b.sum()
}

// ClearTransactional makes the batch one that needs no marker to be visible and renews the checksum.
func (b Batch) ClearTransactional() {
	b.setAttributes(b.Attributes() &^ attrTransactional)
	b.sum()
}

func (b Batch) setAttributes(a int16) { binary.BigEndian.PutUint16(b[atAttributes:], uint16(a)) }

func (b Batch) sum() {
	binary.BigEndian.PutUint32(b[atCRC:], crc32.Checksum(b[atAttributes:], castagnoli))
}
