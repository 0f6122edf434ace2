package record

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// Codec is a compression of the batch format, with the numbers of the attributes.
type Codec int8

// The codecs that the format knows.
const (
	None Codec = iota
	Gzip
	Snappy
	LZ4
	Zstd
)

var codecNames = [...]string{"none", "gzip", "snappy", "lz4", "zstd"}

// String returns Kafka's name of the codec.
func (c Codec) String() string {
	if c.known() {
		return codecNames[c]
	}
	return fmt.Sprintf("codec %d", int8(c))
}

func (c Codec) known() bool { return c >= None && c <= Zstd }

// ParseCodec reads Kafka's name of a codec; "uncompressed" is None.
func ParseCodec(name string) (Codec, error) {
	if name == "uncompressed" {
		return None, nil
	}
	for i, n := range codecNames {
		if n == name {
			return Codec(i), nil
		}
	}
	return None, fmt.Errorf("codec %q is unknown: use %s", name, strings.Join(codecNames[:], ", "))
}

// DefaultLevel asks for the codec's own default level.
const DefaultLevel = -1 << 31

// ErrTooLarge says that a compressed block holds more than it may.
var ErrTooLarge = errors.New("decompressed records exceed the limit")

// The pools hold codec states: setting one up costs far more than compressing a small batch. They drain with the garbage
// collector, so an idle broker keeps none.
var (
	gzipReaders = sync.Pool{New: func() any { return new(gzip.Reader) }}
	lz4Readers  = sync.Pool{New: func() any { return lz4.NewReader(nil) }}
	zstdReaders = sync.Pool{New: func() any {
		d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxZstdWindow))
		if err != nil {
			return err // options are constants: a test builds one
		}
		return d
	}}
	gzipWriters pooledByLevel[*gzip.Writer]
	lz4Writers  pooledByLevel[*lz4.Writer]
	zstdWriters pooledByLevel[*zstd.Encoder]
)

// maxZstdWindow is the largest window that zstd's own command line decodes without being told to.
const maxZstdWindow = 128 << 20

// pooledByLevel is a pool per compression level.
type pooledByLevel[T any] struct{ m sync.Map }

func (p *pooledByLevel[T]) get(level int, make func() (T, error)) (v T, put func(), err error) {
	pool, _ := p.m.LoadOrStore(level, &sync.Pool{})
	pl := pool.(*sync.Pool)
	if x := pl.Get(); x != nil {
		v = x.(T)
	} else if v, err = make(); err != nil {
		return v, nil, err
	}
	return v, func() { pl.Put(v) }, nil
}

// Decompress appends the decompressed block to dst. More than limit bytes are ErrTooLarge (R3); bytes that the codec
// cannot read are ErrCorrupt.
func Decompress(dst []byte, c Codec, src []byte, limit int) ([]byte, error) {
	var err error
	switch c {
	case None:
		if len(src) > limit {
			return dst, ErrTooLarge
		}
		return append(dst, src...), nil
	case Gzip:
		dst, err = gunzip(dst, src, limit)
	case Snappy:
		dst, err = unsnappy(dst, src, limit)
	case LZ4:
		r := lz4Readers.Get().(*lz4.Reader)
		r.Reset(bytes.NewReader(src))
		dst, err = readLimited(dst, r, limit)
		lz4Readers.Put(r)
	case Zstd:
		dst, err = unzstd(dst, src, limit)
	default:
		return dst, fmt.Errorf("%w: %s", ErrCorrupt, c)
	}
	if err != nil && !errors.Is(err, ErrTooLarge) && !errors.Is(err, ErrCorrupt) {
		err = fmt.Errorf("%w: %s: %w", ErrCorrupt, c, err)
	}
	return dst, err
}

func gunzip(dst, src []byte, limit int) ([]byte, error) {
	r := gzipReaders.Get().(*gzip.Reader)
	defer gzipReaders.Put(r)
	if err := r.Reset(bytes.NewReader(src)); err != nil {
		return dst, err
	}
	return readLimited(dst, r, limit)
}

func unzstd(dst, src []byte, limit int) ([]byte, error) {
	x := zstdReaders.Get()
	r, ok := x.(*zstd.Decoder)
	if !ok {
		return dst, x.(error)
	}
	defer zstdReaders.Put(r)
	if err := r.Reset(bytes.NewReader(src)); err != nil {
		return dst, err
	}
	return readLimited(dst, r, limit)
}

// readLimited appends what r yields, growing dst by doubling.
func readLimited(dst []byte, r io.Reader, limit int) ([]byte, error) {
	start := len(dst)
	for {
		if cap(dst)-len(dst) < 512 {
			grown := make([]byte, len(dst), 2*cap(dst)+4096)
			copy(grown, dst)
			dst = grown
		}
		n, err := r.Read(dst[len(dst):min(cap(dst), start+limit+1)])
		dst = dst[:len(dst)+n]
		if len(dst)-start > limit {
			return dst, ErrTooLarge
		}
		if errors.Is(err, io.EOF) {
			return dst, nil
		}
		if err != nil {
			return dst, err
		}
	}
}

// xerial is how Java's snappy stream begins: a magic, a version and the lowest compatible version. Blocks with a length
// of four bytes each follow. Other clients write one plain block.
var xerial = []byte{0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0}

const (
	xerialHeader = 16
	xerialBlock  = 32 << 10
)

func unsnappy(dst, src []byte, limit int) ([]byte, error) {
	if !bytes.HasPrefix(src, xerial) || len(src) < xerialHeader {
		return unsnappyBlock(dst, src, limit)
	}
	start := len(dst)
	for src = src[xerialHeader:]; len(src) > 0; {
		if len(src) < 4 {
			return dst, fmt.Errorf("%w: snappy: torn block length", ErrCorrupt)
		}
		n := binary.BigEndian.Uint32(src)
		if int64(n) > int64(len(src)-4) {
			return dst, fmt.Errorf("%w: snappy: block of %d bytes, %d left", ErrCorrupt, n, len(src)-4)
		}
		var err error
		if dst, err = unsnappyBlock(dst, src[4:4+n], limit-(len(dst)-start)); err != nil {
			return dst, err
		}
		src = src[4+n:]
	}
	return dst, nil
}

func unsnappyBlock(dst, src []byte, limit int) ([]byte, error) {
	n, err := snappy.DecodedLen(src)
	if err != nil {
		return dst, err
	}
	if n > limit {
		return dst, ErrTooLarge
	}
	at := len(dst)
	if cap(dst)-at < n {
		grown := make([]byte, at, 2*at+n)
		copy(grown, dst)
		dst = grown
	}
	out, err := snappy.Decode(dst[at:at+n:at+n], src)
	if err != nil {
		return dst, err
	}
	return dst[:at+len(out)], nil
}

// Compress appends the compressed block to dst. level is the codec's own scale, or DefaultLevel.
func Compress(dst []byte, c Codec, level int, src []byte) ([]byte, error) {
	switch c {
	case None:
		return append(dst, src...), nil
	case Gzip:
		if level == DefaultLevel {
			level = gzip.DefaultCompression
		}
		w, put, err := gzipWriters.get(level, func() (*gzip.Writer, error) { return gzip.NewWriterLevel(nil, level) })
		if err != nil {
			return dst, err
		}
		defer put()
		return compressStream(dst, w, src)
	case Snappy:
		return snappyStream(dst, src), nil
	case LZ4:
		w, put, err := lz4Writers.get(level, func() (*lz4.Writer, error) { return newLZ4Writer(level) })
		if err != nil {
			return dst, err
		}
		defer put()
		return compressStream(dst, w, src)
	case Zstd:
		w, put, err := zstdWriters.get(level, func() (*zstd.Encoder, error) { return newZstdWriter(level) })
		if err != nil {
			return dst, err
		}
		defer put()
		return w.EncodeAll(src, dst), nil
	}
	return dst, fmt.Errorf("cannot compress with %s", c)
}

// newLZ4Writer maps Kafka's levels 1-17 (default 9, where Java's high compressor begins) to the library's nine.
func newLZ4Writer(level int) (*lz4.Writer, error) {
	w := lz4.NewWriter(nil)
	opts := []lz4.Option{lz4.BlockSizeOption(lz4.Block64Kb), lz4.BlockChecksumOption(false), lz4.ChecksumOption(false), lz4.ConcurrencyOption(1)}
	if level != DefaultLevel && level > 9 {
		opts = append(opts, lz4.CompressionLevelOption(lz4.CompressionLevel(1<<(8+min(level-9, 9)))))
	}
	return w, w.Apply(opts...)
}

func newZstdWriter(level int) (*zstd.Encoder, error) {
	opts := []zstd.EOption{zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true), zstd.WithEncoderCRC(false)}
	if level != DefaultLevel {
		opts = append(opts, zstd.WithEncoderLevel(zstd.EncoderLevelFromZstd(level)))
	}
	return zstd.NewWriter(nil, opts...)
}

type resetWriter interface {
	io.WriteCloser
	Reset(w io.Writer)
}

func compressStream(dst []byte, w resetWriter, src []byte) ([]byte, error) {
	out := appender{dst}
	w.Reset(&out)
	if _, err := w.Write(src); err != nil {
		return dst, err
	}
	err := w.Close()
	return out.b, err
}

type appender struct{ b []byte }

func (a *appender) Write(p []byte) (int, error) {
	a.b = append(a.b, p...)
	return len(p), nil
}

func snappyStream(dst, src []byte) []byte {
	dst = append(dst, xerial...)
	dst = append(dst, 0, 0, 0, 1, 0, 0, 0, 1)
	for len(src) > 0 {
		n := min(len(src), xerialBlock)
		at := len(dst)
		dst = append(dst, 0, 0, 0, 0)
		dst = append(dst, snappy.Encode(nil, src[:n])...)
		binary.BigEndian.PutUint32(dst[at:], uint32(len(dst)-at-4))
		src = src[n:]
	}
	return dst
}
