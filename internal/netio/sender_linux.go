package netio

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// pieceBytes bounds one sendfile call, so that a closed connection is noticed in the middle of a large range.
const pieceBytes = 4 << 20

// rawSender talks to the socket below a TCP connection. The function that the runtime calls when the socket is writable
// is made once: it reads its work from the fields.
type rawSender struct {
	raw  syscall.RawConn
	step func(fd uintptr) bool

	// What is left to send: bytes, or else a range of a file.
	bytes []byte
	file  int
	off   int64
	left  int64
	err   error
}

func newRawSender(c net.Conn) *rawSender {
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return nil
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return nil
	}
	s := &rawSender{raw: raw}
	s.step = s.push
	return s
}

func (s *rawSender) writeMore(p []byte) error {
	s.bytes, s.left, s.err = p, 0, nil
	return s.run("send")
}

func (s *rawSender) sendFile(f *os.File, off, n int64) error {
	s.bytes, s.file, s.off, s.left, s.err = nil, int(f.Fd()), off, n, nil
	return s.run("sendfile")
}

func (s *rawSender) run(op string) error {
	if err := s.raw.Write(s.step); err != nil {
		return err
	}
	if s.err != nil {
		return fmt.Errorf("%s: %w", op, s.err)
	}
	return nil
}

// push sends until all is sent, the socket is full (false: call again when it is writable) or something fails.
func (s *rawSender) push(fd uintptr) bool {
	for len(s.bytes) > 0 || s.left > 0 {
		err := s.once(int(fd))
		switch {
		case err == nil || errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EAGAIN):
			return false
		default:
			s.err = err
			return true
		}
	}
	return true
}

// once makes one system call.
func (s *rawSender) once(fd int) error {
	if len(s.bytes) > 0 {
		n, err := unix.SendmsgN(fd, s.bytes, nil, nil, unix.MSG_MORE|unix.MSG_NOSIGNAL)
		if err == nil {
			s.bytes = s.bytes[n:]
		}
		return err
	}
	n, err := unix.Sendfile(fd, s.file, &s.off, int(min(s.left, pieceBytes)))
	switch {
	case n > 0:
		s.left -= int64(n)
		return nil
	case err == nil:
		return io.ErrUnexpectedEOF
	case errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EOPNOTSUPP):
		return errors.ErrUnsupported // a file system that cannot; nothing was sent yet
	}
	return err
}
