package netio

import (
	"errors"
	"net"
)

// SetBuffers sets the sizes of a connection's socket buffers in bytes; a negative one leaves the system's default.
// Connections that have none are left alone.
func SetBuffers(c net.Conn, send, receive int32) error {
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return nil
	}
	var errs []error
	if send >= 0 {
		errs = append(errs, tcp.SetWriteBuffer(int(send)))
	}
	if receive >= 0 {
		errs = append(errs, tcp.SetReadBuffer(int(receive)))
	}
	return errors.Join(errs...)
}
