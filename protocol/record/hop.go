package record

import "encoding/binary"

// hop is what validation wants to know of a record.
type hop struct {
	size                   int // encoded, with its length
	timeDelta, offsetDelta int64
	null                   bool // the key
}

// hopRecord checks the record that buf begins with and says where the next one begins. It accepts exactly what next does,
// the range of the offset apart, and costs a fraction: it takes nothing apart, and reads numbers of one or two bytes, which
// most are, without a call. It does not say what is wrong.
func hopRecord(buf []byte) (h hop, ok bool) {
	size, i := short(buf, 0)
	end := i + int(size>>1)
	if i < 0 || size&1 != 0 || end > len(buf) {
		return hopAny(buf)
	}
	b := buf[:end]
	time, i := short(b, i+1) // attributes are unused by the format
	delta, i := short(b, i)
	key, i := short(b, i)
	if i < 0 || key != nullLength && key&1 != 0 {
		return hopAny(buf)
	}
	if key != nullLength {
		i += int(key >> 1)
	}
	value, i := short(b, i)
	if i < 0 || value != nullLength && value&1 != 0 {
		return hopAny(buf)
	}
	if value != nullLength {
		i += int(value >> 1)
	}
	h = hop{size: end, timeDelta: unzigzag(time), offsetDelta: unzigzag(delta), null: key == nullLength}
	if i == end-1 && b[i] == 0 { // no headers
		return h, true
	}
	return h, hopHeaders(b, i)
}

// nullLength is the length of what is not there, -1, as a varint.
const nullLength = 1

// short reads a varint of at most two bytes that is not the last thing in b, without undoing its zigzag, and returns the
// position behind it; -1 when it is none.
func short(b []byte, i int) (u uint64, next int) {
	if i < 0 || i >= len(b)-1 {
		return 0, -1
	}
	c, d := b[i], b[i+1]
	if c < 0x80 {
		return uint64(c), i + 1
	}
	if d < 0x80 {
		return uint64(c&0x7f) | uint64(d)<<7, i + 2
	}
	return 0, -1
}

// hopAny is hopRecord for any record.
func hopAny(buf []byte) (h hop, ok bool) {
	u, i := uvarint(buf, 0)
	if i < 0 || u&1 != 0 || u>>1 > uint64(len(buf)-i) {
		return h, false
	}
	h.size = i + int(u>>1)
	b := buf[i:h.size]
	u, i = uvarint(b, 1) // attributes are unused by the format
	h.timeDelta = unzigzag(u)
	u, i = uvarint(b, i)
	h.offsetDelta = unzigzag(u)
	i, h.null = hopBytes(b, i)
	i, _ = hopBytes(b, i)
	if i >= 0 && i == len(b)-1 && b[i] == 0 { // no headers
		return h, true
	}
	return h, hopHeaders(b, i)
}

// hopHeaders reports whether b ends with the headers that begin at i.
func hopHeaders(b []byte, i int) bool {
	if i > len(b) {
		return false
	}
	u, i := uvarint(b, i)
	if i < 0 || u&1 != 0 || u>>1 > uint64(len(b)-i) { // a header takes two bytes at least
		return false
	}
	for range u >> 1 {
		var null bool
		if key, next := short(b, i); next >= 0 && key&1 == 0 {
			i = next + int(key>>1)
		} else if i, null = hopBytes(b, i); null {
			return false
		}
		if value, next := short(b, i); next >= 0 && value&1 == 0 {
			i = next + int(value>>1)
		} else if i, _ = hopBytes(b, i); i < 0 {
			return false
		}
	}
	return i == len(b)
}

// hopBytes returns the position behind the length at i and as many bytes, or behind a null. -1 is no position, before as
// after.
func hopBytes(b []byte, i int) (next int, null bool) {
	u, i := uvarint(b, i)
	switch {
	case u == nullLength:
		return i, true
	case i < 0 || u&1 != 0 || u>>1 > uint64(len(b)-i):
		return -1, false
	}
	return i + int(u>>1), false
}

// uvarint reads a varint without undoing its zigzag and returns the position behind it. What is no varint, and the
// position -1, yield -1.
func uvarint(b []byte, i int) (u uint64, next int) {
	if u, next = short(b, i); next >= 0 {
		return u, next
	}
	if uint(i) >= uint(len(b)) {
		return 0, -1
	}
	u, n := binary.Uvarint(b[i:])
	if n <= 0 {
		return 0, -1
	}
	return u, i + n
}

func unzigzag(u uint64) int64 { return int64(u>>1) ^ -int64(u&1) }
