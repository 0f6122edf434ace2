package prototype

import (
	"errors"
	"io"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// piece bounds one sendfile call, so that a slow reader's socket buffer is refilled in large steps.
const piece = 1 << 20

func write(c *net.TCPConn, b []byte, more bool) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	flags := 0
	if more {
		flags = unix.MSG_MORE
	}
	var werr error
	err = raw.Write(func(fd uintptr) bool {
		for len(b) > 0 {
			n, err := unix.SendmsgN(int(fd), b, nil, nil, flags)
			if errors.Is(err, unix.EAGAIN) {
				return false
			}
			if err != nil {
				werr = err
				return true
			}
			b = b[n:]
		}
		return true
	})
	return errors.Join(err, werr)
}

func sendfile(c *net.TCPConn, f *os.File, pos, n int64, _ bool) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var werr error
	err = raw.Write(func(fd uintptr) bool {
		for n > 0 {
			sent, err := unix.Sendfile(int(fd), int(f.Fd()), &pos, int(min(n, piece)))
			if errors.Is(err, unix.EAGAIN) {
				return false
			}
			if err == nil && sent == 0 {
				err = io.ErrUnexpectedEOF
			}
			if err != nil {
				werr = err
				return true
			}
			n -= int64(sent)
		}
		return true
	})
	return errors.Join(err, werr)
}
