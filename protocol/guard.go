package protocol

import (
	"encoding/binary"
	"fmt"
)

// Bounds on what one request may make a decoder allocate. kmsg's decoders check that an array's elements fit into the rest
// of the frame at their smallest, but an element in memory is up to some forty times larger than that. So requests that
// carry no records are kept small, and the one that does has its elements counted before it is decoded.
const (
	// MaxControlFrame bounds every request but Produce. A commit of 100,000 offsets takes 5 MiB.
	MaxControlFrame = 8 << 20
	// MaxProduceElements bounds topics and partitions of one Produce request together.
	MaxProduceElements = 200_000

	keyProduce             = 0
	produceFlexibleFrom    = 9
	produceTopicIDsFrom    = 13
	produceTransactionFrom = 3
)

// Guard refuses a request body whose decoding could take memory out of proportion. It looks at lengths only; a body that
// passes may still be malformed.
func Guard(key, version int16, body []byte) error {
	if key != keyProduce {
		if len(body) > MaxControlFrame {
			return fmt.Errorf("%w: %d bytes, at most %d are taken of a request without records", ErrMalformed, len(body), MaxControlFrame)
		}
		return nil
	}
	w := walker{b: body, flexible: version >= produceFlexibleFrom}
	if version >= produceTransactionFrom {
		w.skipString()
	}
	w.skip(2 + 4) // acks, timeout
	for range w.elements() {
		if version >= produceTopicIDsFrom {
			w.skip(16)
		} else {
			w.skipString()
		}
		for range w.elements() {
			w.skip(4)
			w.skipBytes()
			w.skipTags()
		}
		w.skipTags()
	}
	if w.err != nil {
		return w.err
	}
	return nil
}

// walker steps over fields. After the first fault it stands still and yields nothing.
type walker struct {
	b        []byte
	flexible bool
	seen     int
	err      error
}

func (w *walker) fail(format string, args ...any) {
	if w.err == nil {
		w.err = fmt.Errorf("%w: "+format, append([]any{ErrMalformed}, args...)...)
	}
	w.b = nil
}

func (w *walker) skip(n int) {
	if n < 0 || n > len(w.b) {
		w.fail("%d bytes wanted, %d left", n, len(w.b))
		return
	}
	w.b = w.b[n:]
}

// length reads a length: of the given width, or a compact one, which counts from 1; -1 is null.
func (w *walker) length(width int) int {
	if w.flexible {
		v, n := binary.Uvarint(w.b)
		if n <= 0 || v > 1<<31 {
			w.fail("bad length")
			return -1
		}
		w.b = w.b[n:]
		return int(v) - 1
	}
	if len(w.b) < width {
		w.fail("the request ends in a length")
		return -1
	}
	n := int(int16(binary.BigEndian.Uint16(w.b)))
	if width == 4 {
		n = int(int32(binary.BigEndian.Uint32(w.b)))
	}
	w.b = w.b[width:]
	return n
}

func (w *walker) skipString() { w.skip(max(0, w.length(2))) }
func (w *walker) skipBytes()  { w.skip(max(0, w.length(4))) }

// elements reads an array's length and counts its elements against the bound.
func (w *walker) elements() int {
	n := max(0, w.length(4))
	if w.seen += n; w.seen > MaxProduceElements || n > len(w.b) {
		w.fail("array of %d elements, %d bytes left", n, len(w.b))
	}
	if w.err != nil {
		return 0
	}
	return n
}

func (w *walker) skipTags() {
	if !w.flexible || w.err != nil {
		return
	}
	rest, err := skipTags(w.b)
	if err != nil {
		w.err, w.b = err, nil
		return
	}
	w.b = rest
}
