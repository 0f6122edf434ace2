package record

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/kbroker/kbroker/internal/model"
)

// Options describes a batch to be built. The zero value is an uncompressed batch at offset 0 without idempotence.
type Options struct {
	BaseOffset  int64
	LeaderEpoch int32
	Codec       Codec
	Level       int // of the codec; 0 is DefaultLevel
	// Idempotent batches carry the producer's identity; without it the three fields are -1.
	Idempotent    bool
	ProducerID    int64
	ProducerEpoch int16
	BaseSequence  int32

	Transactional, Control bool
}

// Builder builds one batch from records. Not safe for concurrent use.
type Builder struct {
	o       Options
	records []byte
	count   int32
	last    int64 // offset delta of the last record, -1 for none
	base    int64 // timestamp
	max     int64
}

// NewBuilder returns a builder without records.
func NewBuilder(o Options) *Builder {
	if o.Level == 0 {
		o.Level = DefaultLevel
	}
	return &Builder{o: o, last: -1, max: model.NoTimestamp}
}

// Add appends a record behind the last one. A nil key or value is null.
func (b *Builder) Add(timestamp int64, key, value []byte, headers ...KeyValue) {
	b.AddAt(b.last+1, timestamp, key, value, headers...)
}

// AddAt appends a record at an offset delta above the last one's.
func (b *Builder) AddAt(offsetDelta, timestamp int64, key, value []byte, headers ...KeyValue) {
	if b.count == 0 {
		b.base = timestamp
	}
	body := make([]byte, 0, len(key)+len(value)+32)
	body = append(body, 0) // attributes
	body = binary.AppendVarint(body, timestamp-b.base)
	body = binary.AppendVarint(body, offsetDelta)
	body = appendBytes(body, key)
	body = appendBytes(body, value)
	body = binary.AppendVarint(body, int64(len(headers)))
	for _, h := range headers {
		body = binary.AppendVarint(body, int64(len(h.Key)))
		body = append(body, h.Key...)
		body = appendBytes(body, h.Value)
	}
	b.records = binary.AppendVarint(b.records, int64(len(body)))
	b.records = append(b.records, body...)
	b.count++
	b.last, b.max = offsetDelta, max(b.max, timestamp)
}

func appendBytes(dst, v []byte) []byte {
	if v == nil {
		return binary.AppendVarint(dst, -1)
	}
	dst = binary.AppendVarint(dst, int64(len(v)))
	return append(dst, v...)
}

// Size is the number of bytes of the records so far, before compression.
func (b *Builder) Size() int { return len(b.records) }

// Count is the number of records so far.
func (b *Builder) Count() int { return int(b.count) }

// Finish returns the batch. A batch without records or with more than its format can count is an error.
func (b *Builder) Finish() (Batch, error) {
	if b.count == 0 || b.last > math.MaxInt32 {
		return nil, fmt.Errorf("a batch of %d records with last offset delta %d cannot be built", b.count, b.last)
	}
	out, err := Compress(make([]byte, HeaderSize, HeaderSize+len(b.records)), b.o.Codec, b.o.Level, b.records)
	if err != nil {
		return nil, err
	}
	if len(out) > math.MaxInt32 {
		return nil, fmt.Errorf("a batch of %d bytes cannot be built", len(out))
	}
	h := Header{BaseOffset: b.o.BaseOffset, LeaderEpoch: b.o.LeaderEpoch, Attributes: int16(b.o.Codec), LastOffsetDelta: int32(b.last),
		BaseTimestamp: b.base, MaxTimestamp: b.max, Count: b.count,
		ProducerID: model.NoProducerID, ProducerEpoch: model.NoProducerEpoch, BaseSequence: model.NoSequence}
	if b.o.Idempotent {
		h.ProducerID, h.ProducerEpoch, h.BaseSequence = b.o.ProducerID, b.o.ProducerEpoch, b.o.BaseSequence
	}
	if b.o.Transactional {
		h.Attributes |= attrTransactional
	}
	if b.o.Control {
		h.Attributes |= attrControl
	}
	return seal(out, h), nil
}

// seal writes the header in front of the payload and takes the checksum.
func seal(out []byte, h Header) Batch {
	b := Batch(out)
	b.SetBaseOffset(h.BaseOffset)
	binary.BigEndian.PutUint32(b[atLength:], uint32(len(b)-LogOverhead))
	b.SetLeaderEpoch(h.LeaderEpoch)
	b[atMagic] = Magic
	b.setAttributes(h.Attributes)
	binary.BigEndian.PutUint32(b[atLastOffsetDelta:], uint32(h.LastOffsetDelta))
	binary.BigEndian.PutUint64(b[atBaseTimestamp:], uint64(h.BaseTimestamp))
	binary.BigEndian.PutUint64(b[atMaxTimestamp:], uint64(h.MaxTimestamp))
	binary.BigEndian.PutUint64(b[atProducerID:], uint64(h.ProducerID))
	binary.BigEndian.PutUint16(b[atProducerEpoch:], uint16(h.ProducerEpoch))
	binary.BigEndian.PutUint32(b[atBaseSequence:], uint32(h.BaseSequence))
	binary.BigEndian.PutUint32(b[atCount:], uint32(h.Count))
	b.sum()
	return b
}
