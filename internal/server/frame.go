package server

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/protocol"
)

const (
	// windowBytes is read at once from a socket while a frame's head is awaited: most requests fit and cost one read.
	windowBytes = 4 << 10
	// plainFrameBytes bounds frames of everything but Produce. Decoding multiplies the size of a hostile frame, and no
	// honest request of these comes near. The surplus is for the header.
	plainFrameBytes = protocol.MaxControlFrame + 64<<10
	// trustedBytes is what is allocated for a frame because its head says so. A larger one gets more as its bytes come in.
	trustedBytes = 2 << 20
	// frameGrowth is by how much a buffer grows once it is full of bytes that came in.
	frameGrowth = 4
	// smallestFrame holds key, version, correlation id and the length of a client id.
	smallestFrame = 10
)

// errNotKafka is in the chain of the error for a stream that does not begin with a Kafka request.
var errNotKafka = errors.New("not the Kafka protocol")

// frameHead is what is known of a frame before it is read.
type frameHead struct {
	size int // bytes after the length
	key  int16
}

// frame is a request as it came in, without its length.
type frame struct {
	bytes []byte
	pool  *bufferPool // nil when the bytes are not to be reused
}

// release gives the frame's buffer back; nobody may use its bytes afterwards.
func (f *frame) release() {
	if f.pool != nil {
		f.pool.put(f.bytes)
		f.pool, f.bytes = nil, nil
	}
}

// frameReader cuts a stream into frames. It is used by one goroutine.
type frameReader struct {
	src  io.Reader
	pool *bufferPool
	// begun is set once the stream has begun like Kafka's.
	begun  bool
	window []byte
	r, w   int // window[r:w] was read and not used
}

func newFrameReader(src io.Reader, pool *bufferPool) *frameReader {
	return &frameReader{src: src, pool: pool, window: make([]byte, windowBytes)}
}

// head reads the beginning of the next frame. io.EOF means that the stream ended between frames.
func (f *frameReader) head(maxBytes int32) (frameHead, error) {
	if err := f.fill(4); err != nil {
		return frameHead{}, err
	}
	size := int32(binary.BigEndian.Uint32(f.window[f.r:]))
	if err := f.checkBeginning(); err != nil {
		return frameHead{}, err
	}
	if size < smallestFrame || size > maxBytes {
		return frameHead{}, fmt.Errorf("a frame of %d bytes: want %d to %d (socket.request.max.bytes)", size, smallestFrame, maxBytes)
	}
	if err := f.fill(6); err != nil {
		return frameHead{}, noEOF(err)
	}
	h := frameHead{size: int(size), key: int16(binary.BigEndian.Uint16(f.window[f.r+4:]))}
	if h.key != int16(kmsg.Produce) && h.size > plainFrameBytes {
		return frameHead{}, fmt.Errorf("a frame of %d bytes for %s: want at most %d", size, kmsg.NameForKey(h.key), plainFrameBytes)
	}
	f.r += 4
	return h, nil
}

// checkBeginning recognises peers that speak something else, once.
func (f *frameReader) checkBeginning() error {
	if f.begun {
		return nil
	}
	f.begun = true
	if err := protocol.CheckFirstBytes(f.window[f.r:f.w]); err != nil {
		return fmt.Errorf("%w: %w", errNotKafka, err)
	}
	return nil
}

// body reads the frame that belongs to a head. Frames of Produce come in pooled buffers.
func (f *frameReader) body(h frameHead) (frame, error) {
	fr := frame{}
	if h.key == int16(kmsg.Produce) {
		fr.pool = f.pool
	}
	got := 0
	for got < h.size {
		want := h.size
		if fr.bytes = f.grow(&fr, h.size, got); len(fr.bytes) < want {
			want = len(fr.bytes)
		}
		n := copy(fr.bytes[got:want], f.window[f.r:f.w])
		f.r += n
		got += n
		m, err := io.ReadFull(f.src, fr.bytes[got:want])
		if got += m; err != nil {
			fr.release()
			return frame{}, noEOF(err)
		}
	}
	return fr, nil
}

// grow returns a buffer for a frame of size bytes that holds the first got of them: the whole size when that is little,
// or there is a used buffer at hand; else frameGrowth times what has come in.
func (f *frameReader) grow(fr *frame, size, got int) []byte {
	old := fr.bytes
	if fr.pool == nil {
		if size <= trustedBytes {
			return make([]byte, size)
		}
		next := make([]byte, min(size, max(trustedBytes, got*frameGrowth)))
		copy(next, old[:got])
		return next
	}
	next := fr.pool.take(size)
	if next == nil && size > trustedBytes {
		next = fr.pool.get(min(size, max(trustedBytes, got*frameGrowth)))
	}
	if next == nil {
		next = fr.pool.get(size)
	}
	copy(next, old[:got])
	if got > 0 {
		fr.pool.put(old)
	}
	return next
}

// fill reads until the window holds n unused bytes.
func (f *frameReader) fill(n int) error {
	if f.w-f.r >= n {
		return nil
	}
	if f.r > 0 {
		copy(f.window, f.window[f.r:f.w])
		f.w -= f.r
		f.r = 0
	}
	m, err := io.ReadAtLeast(f.src, f.window[f.w:], n-f.w)
	f.w += m
	if err != nil && f.w > 0 {
		return noEOF(err)
	}
	return err
}

// noEOF makes the end of the stream inside a frame an error of its own.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
