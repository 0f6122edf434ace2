package record

import (
	"encoding/binary"
	"fmt"
	"iter"
	"sync"
)

// KeyValue is a header of a record. A nil Value is null.
type KeyValue struct {
	Key   []byte
	Value []byte
}

// Record is one record of a batch. Its slices point into the batch or into the decoder, and hold until the next step of
// the iteration.
type Record struct {
	Offset    int64
	Timestamp int64
	// Key and Value are nil when null; an empty one is not nil.
	Key, Value []byte

	headers []byte // encoded, the count included
	raw     []byte // the encoded record with its length
	at      int    // of raw in the plain payload
}

// Encoded returns the record as it stands in its batch, length included. Offset and time are relative to the batch.
func (r *Record) Encoded() []byte { return r.raw }

// Headers iterates over the record's headers. They were checked when the record was read.
func (r *Record) Headers() iter.Seq[KeyValue] {
	return func(yield func(KeyValue) bool) {
		c := cursor{b: r.headers}
		for range c.varint() {
			kv := KeyValue{Key: c.bytes(), Value: c.bytes()}
			if c.bad || !yield(kv) {
				return
			}
		}
	}
}

// Decoder holds the buffer that compressed batches are unpacked into. It serves one iteration at a time; get one from
// NewDecoder and give it back with Release.
type Decoder struct {
	buf   []byte
	limit int
}

var decoders = sync.Pool{New: func() any { return new(Decoder) }}

// maxKeptBuffer bounds what a decoder keeps between uses, so that one huge batch does not hold memory for ever.
const maxKeptBuffer = 4 << 20

// NewDecoder returns a decoder that unpacks at most limit bytes of one batch.
func NewDecoder(limit int) *Decoder {
	d := decoders.Get().(*Decoder)
	d.limit = limit
	return d
}

// Release gives the decoder back; records read with it must not be used any more.
func (d *Decoder) Release() {
	if cap(d.buf) > maxKeptBuffer {
		d.buf = nil
	}
	decoders.Put(d)
}

// payload returns the plain records of a batch.
func (d *Decoder) payload(b Batch) ([]byte, error) {
	if b.Codec() == None {
		return b.Payload(), nil
	}
	var err error
	d.buf, err = Decompress(d.buf[:0], b.Codec(), b.Payload(), d.limit)
	if err != nil {
		return nil, fmt.Errorf("batch at offset %d: %w", b.BaseOffset(), err)
	}
	return d.buf, nil
}

// Records iterates over the records of a batch (R2). Bytes that do not hold as many records as the header says, or that
// are left over behind them, are an error that ends the iteration.
func (b Batch) Records(d *Decoder) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		payload, err := d.payload(b)
		if err != nil {
			yield(Record{}, err)
			return
		}
		b.walk(payload, yield)
	}
}

// walk yields the records of the plain payload.
func (b Batch) walk(payload []byte, yield func(Record, error) bool) {
	var err error
	rest := payload
	for i := range b.Count() {
		r := Record{at: len(payload) - len(rest)}
		if rest, err = b.next(rest, &r); err != nil {
			yield(Record{}, fmt.Errorf("record %d of the batch at offset %d: %w", i, b.BaseOffset(), err))
			return
		}
		if !yield(r, nil) {
			return
		}
	}
	if len(rest) > 0 {
		yield(Record{}, fmt.Errorf("%w: %d bytes behind the %d records of the batch at offset %d", ErrCorrupt, len(rest), b.Count(), b.BaseOffset()))
	}
}

// next decodes the record that buf begins with and returns what follows it.
func (b Batch) next(buf []byte, r *Record) ([]byte, error) {
	size, n := binary.Varint(buf)
	if n <= 0 || size < 0 || size > int64(len(buf)-n) {
		return nil, fmt.Errorf("%w: record length %d, %d bytes left", ErrCorrupt, size, len(buf))
	}
	end := n + int(size)
	c := cursor{b: buf[n:end]}
	c.skip(1) // attributes, unused by the format
	ts := c.varint()
	delta := c.varint()
	r.Key, r.Value = c.bytes(), c.bytes()
	r.headers = c.b
	c.skipHeaders()
	if c.bad || len(c.b) > 0 {
		return nil, fmt.Errorf("%w: record of %d bytes does not hold what it says", ErrCorrupt, size)
	}
	if delta < 0 || delta > int64(b.LastOffsetDelta()) {
		return nil, fmt.Errorf("%w: offset delta %d outside of the batch's 0..%d", ErrCorrupt, delta, b.LastOffsetDelta())
	}
	r.Offset, r.raw = b.BaseOffset()+delta, buf[:end]
	if r.Timestamp = b.BaseTimestamp() + ts; b.IsLogAppendTime() {
		r.Timestamp = b.MaxTimestamp()
	}
	return buf[end:], nil
}

// cursor reads fields from the front of b. A read beyond the end sets bad and yields zeros from then on.
type cursor struct {
	b   []byte
	bad bool
}

func (c *cursor) varint() int64 {
	v, n := binary.Varint(c.b)
	if n <= 0 {
		c.fail()
		return 0
	}
	c.b = c.b[n:]
	return v
}

func (c *cursor) skip(n int) {
	if n > len(c.b) {
		c.fail()
		return
	}
	c.b = c.b[n:]
}

// bytes reads a length and as many bytes; -1 is null.
func (c *cursor) bytes() []byte {
	n := c.varint()
	if n < 0 && n != -1 || n > int64(len(c.b)) {
		c.fail()
	}
	if c.bad || n == -1 {
		return nil
	}
	v := c.b[:n:n]
	c.b = c.b[n:]
	return v
}

func (c *cursor) skipHeaders() {
	n := c.varint()
	if n < 0 || n > int64(len(c.b)) { // a header takes two bytes at least
		c.fail()
		return
	}
	for range n {
		if key := c.bytes(); key == nil {
			c.fail()
		}
		c.bytes()
		if c.bad {
			return
		}
	}
}

func (c *cursor) fail() { c.b, c.bad = nil, true }
