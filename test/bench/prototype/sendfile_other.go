//go:build !linux

package prototype

import (
	"io"
	"net"
	"os"
)

func write(c *net.TCPConn, b []byte, _ bool) error {
	_, err := c.Write(b)
	return err
}

func sendfile(c *net.TCPConn, f *os.File, pos, n int64, _ bool) error {
	_, err := io.Copy(c, io.NewSectionReader(f, pos, n))
	return err
}
