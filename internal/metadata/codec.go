package metadata

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/kbroker/kbroker/internal/model"
)

// ErrUnknownRecord is in the chain of DecodeBatch's error when the bytes were written by a newer binary (M8).
var ErrUnknownRecord = errors.New("written by a version of kbroker that this one does not know")

// ErrMalformed is in the chain of DecodeBatch's error when the bytes are no batch at all.
var ErrMalformed = errors.New("malformed metadata")

// batchVersion is the version of the envelope around the records of a batch.
const batchVersion = 0

// recordOverhead is the least a record takes in a batch: kind, version and length.
const recordOverhead = 3

// AppendBatch appends the encoding of a batch to dst.
func AppendBatch(dst []byte, records []Record) []byte {
	dst = append(dst, batchVersion)
	dst = binary.AppendUvarint(dst, uint64(len(records)))
	var body coder
	for _, r := range records {
		body.buf, body.version = body.buf[:0], newestVersion
		r.code(&body)
		dst = append(dst, byte(r.kind()), newestVersion)
		dst = binary.AppendUvarint(dst, uint64(len(body.buf)))
		dst = append(dst, body.buf...)
	}
	return dst
}

// DecodeBatch reads what AppendBatch wrote. It allocates in proportion to len(b) whatever the bytes are, keeps no
// reference to b and returns errors that wrap ErrUnknownRecord or ErrMalformed and name the position.
func DecodeBatch(b []byte) ([]Record, error) {
	c := coder{buf: b, reading: true}
	var version uint8
	if c.u8(&version); c.err == nil && version != batchVersion {
		return nil, fmt.Errorf("metadata batch of version %d: %w", version, ErrUnknownRecord)
	}
	n := c.count(recordOverhead)
	records := make([]Record, 0, n)
	for i := 0; i < n && c.err == nil; i++ {
		r, err := c.record()
		if err != nil {
			return nil, fmt.Errorf("metadata record %d of %d at byte %d: %w", i, n, len(b)-len(c.buf), err)
		}
		records = append(records, r)
	}
	if c.err == nil && len(c.buf) > 0 {
		c.fail("%d bytes behind the last record", len(c.buf))
	}
	if c.err != nil {
		return nil, fmt.Errorf("metadata batch at byte %d of %d: %w", len(b)-len(c.buf), len(b), c.err)
	}
	return records, nil
}

// record reads one record with its header.
func (c *coder) record() (Record, error) {
	var kind, version uint8
	c.u8(&kind)
	c.u8(&version)
	n := c.count(1)
	if c.err != nil {
		return nil, c.err
	}
	r := newRecord(recordKind(kind))
	if r == nil {
		return nil, fmt.Errorf("record type %d: %w", kind, ErrUnknownRecord)
	}
	if version > newestVersion {
		return nil, fmt.Errorf("record type %d has version %d, this binary reads up to %d: %w", kind, version, newestVersion, ErrUnknownRecord)
	}
	body := coder{buf: c.buf[:n], reading: true, version: version}
	r.code(&body)
	if body.err == nil && len(body.buf) > 0 {
		body.fail("%d bytes too many", len(body.buf))
	}
	if body.err != nil {
		return nil, fmt.Errorf("record type %d version %d: %w", kind, version, body.err)
	}
	c.buf = c.buf[n:]
	return r, nil
}

// coder walks the fields of a record in one direction or the other, so that encoding and decoding cannot differ: each
// method writes its argument to the end of buf, or reads it from the front. After the first error it does nothing.
type coder struct {
	buf     []byte
	reading bool
	version uint8 // of the record being coded
	err     error
}

func (c *coder) fail(format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf("%w: %s", ErrMalformed, fmt.Sprintf(format, args...))
	}
}

// take removes n bytes from the front; nil when there are fewer.
func (c *coder) take(n int) []byte {
	if c.err != nil {
		return nil
	}
	if len(c.buf) < n {
		c.fail("want %d bytes, %d left", n, len(c.buf))
		return nil
	}
	b := c.buf[:n]
	c.buf = c.buf[n:]
	return b
}

func (c *coder) u8(v *uint8) {
	if !c.reading {
		c.buf = append(c.buf, *v)
		return
	}
	if b := c.take(1); b != nil {
		*v = b[0]
	}
}

func (c *coder) boolean(v *bool) {
	var b uint8
	if *v {
		b = 1
	}
	c.u8(&b)
	if b > 1 {
		c.fail("boolean of value %d", b)
	}
	*v = b == 1
}

func (c *coder) uvarint(v *uint64) {
	if !c.reading {
		c.buf = binary.AppendUvarint(c.buf, *v)
		return
	}
	if c.err != nil {
		return
	}
	u, n := binary.Uvarint(c.buf)
	if n <= 0 {
		c.fail("bad varint")
		return
	}
	*v, c.buf = u, c.buf[n:]
}

// varint codes a zigzag varint; lo and hi bound what is accepted when reading.
func (c *coder) varint(v *int64, lo, hi int64) {
	if !c.reading {
		c.buf = binary.AppendVarint(c.buf, *v)
		return
	}
	if c.err != nil {
		return
	}
	i, n := binary.Varint(c.buf)
	if n <= 0 || i < lo || i > hi {
		c.fail("bad varint")
		return
	}
	*v, c.buf = i, c.buf[n:]
}

func (c *coder) i64(v *int64) { c.varint(v, math.MinInt64, math.MaxInt64) }

func (c *coder) i32(v *int32) {
	w := int64(*v)
	c.varint(&w, math.MinInt32, math.MaxInt32)
	*v = int32(w)
}

func (c *coder) i16(v *int16) {
	w := int64(*v)
	c.varint(&w, math.MinInt16, math.MaxInt16)
	*v = int16(w)
}

func (c *coder) port(v *uint16) {
	w := int64(*v)
	c.varint(&w, 0, math.MaxUint16)
	*v = uint16(w)
}

func (c *coder) uuid(v *model.UUID) {
	if !c.reading {
		c.buf = append(c.buf, v[:]...)
		return
	}
	if b := c.take(len(v)); b != nil {
		copy(v[:], b)
	}
}

// count reads the number of elements of which each takes at least size bytes. It is bounded by what is left, so that
// a few bytes cannot make the reader allocate much.
func (c *coder) count(size int) int {
	var n uint64
	c.uvarint(&n)
	if c.err == nil && n > uint64(len(c.buf)/size) {
		c.fail("%d elements of at least %d bytes in %d bytes", n, size, len(c.buf))
	}
	if c.err != nil {
		return 0
	}
	return int(n)
}

func (c *coder) str(v *string) {
	if !c.reading {
		c.buf = binary.AppendUvarint(c.buf, uint64(len(*v)))
		c.buf = append(c.buf, *v...)
		return
	}
	if b := c.take(c.count(1)); b != nil {
		*v = string(b)
	}
}

// list codes a slice of which each element takes at least size bytes. Reading zero elements gives nil.
func list[T any](c *coder, v *[]T, size int, element func(*T)) {
	if !c.reading {
		c.buf = binary.AppendUvarint(c.buf, uint64(len(*v)))
		for i := range *v {
			element(&(*v)[i])
		}
		return
	}
	n := c.count(size)
	if n == 0 {
		return
	}
	s := make([]T, n)
	for i := range s {
		element(&s[i])
	}
	*v = s
}

func (c *coder) i32s(v *[]int32)       { list(c, v, 1, c.i32) }
func (c *coder) i64s(v *[]int64)       { list(c, v, 1, c.i64) }
func (c *coder) uuids(v *[]model.UUID) { list(c, v, 16, c.uuid) }

// flags codes a byte of which only the bits of known may be set.
func (c *coder) flags(v *uint8, known uint8) {
	c.u8(v)
	if *v&^known != 0 {
		c.fail("unknown flags %#x", *v)
	}
}

// optional codes a pointer as presence and value.
func optional[T any](c *coder, v **T, value func(*T)) {
	present := *v != nil
	c.boolean(&present)
	if !present || c.err != nil {
		return
	}
	if c.reading {
		*v = new(T)
	}
	value(*v)
}
