//go:build !linux

package netio

import (
	"errors"
	"net"
	"os"
)

// rawSender is not used on this system: files are copied through a buffer.
type rawSender struct{}

func newRawSender(net.Conn) *rawSender { return nil }

func (*rawSender) writeMore([]byte) error { return errors.ErrUnsupported }

func (*rawSender) sendFile(*os.File, int64, int64) error { return errors.ErrUnsupported }
