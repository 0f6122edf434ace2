package netio

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
)

// copyBytes is the size of the buffers that files are copied through where the system cannot send them itself.
const copyBytes = 256 << 10

// Sender writes to one connection. It is not safe for concurrent use. After an error the stream is broken: the connection
// must be closed.
type Sender struct {
	conn net.Conn
	raw  *rawSender // nil where the system or the connection has nothing better to offer
}

// NewSender returns a sender on a connection.
func NewSender(c net.Conn) *Sender { return &Sender{conn: c, raw: newRawSender(c)} }

// Direct reports whether SendFile does without copying through user space.
func (s *Sender) Direct() bool { return s.raw != nil }

// Write sends p. With more set the system may hold the bytes back because others follow at once.
func (s *Sender) Write(p []byte, more bool) error {
	if more && s.raw != nil {
		return s.raw.writeMore(p)
	}
	_, err := s.conn.Write(p)
	return err
}

// SendFile sends n bytes of f from offset off. The file's own position is neither used nor moved, so many senders may
// share a file. A file that ends before is io.ErrUnexpectedEOF, after part of it was sent.
func (s *Sender) SendFile(f *os.File, off, n int64) error {
	if s.raw != nil {
		if err := s.raw.sendFile(f, off, n); !errors.Is(err, errors.ErrUnsupported) {
			return err
		}
	}
	return s.Copy(f, off, n)
}

// buffers are shared by all senders. A pool, because a copy is short and rare on systems and connections that matter.
var buffers = sync.Pool{New: func() any { b := make([]byte, copyBytes); return &b }}

// Copy sends n bytes that are read from r at offset off.
func (s *Sender) Copy(r io.ReaderAt, off, n int64) error {
	b := buffers.Get().(*[]byte)
	defer buffers.Put(b)
	for n > 0 {
		piece := (*b)[:min(n, copyBytes)]
		got, err := r.ReadAt(piece, off)
		if got < len(piece) {
			if err == nil || errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return fmt.Errorf("read %d bytes at %d: %w", len(piece), off, err)
		}
		if _, err := s.conn.Write(piece); err != nil {
			return err
		}
		off += int64(got)
		n -= int64(got)
	}
	return nil
}
