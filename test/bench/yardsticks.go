package main

import (
	"hash/crc32"
	"io"
	"net"
	"os"
	"path/filepath"
	"time"
)

// The yardsticks: what the machine itself charges for the steps that a broker cannot avoid.

// touchMemory fills page cache and frees it again, so that the load which follows writes into memory that the host has
// already given to this machine: fresh memory costs more than all the work that is to be measured.
func touchMemory(dir string, n int64) error {
	f, err := os.Create(filepath.Join(dir, "touch"))
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	for b := make([]byte, 1<<20); n > 0; n -= int64(len(b)) {
		if _, err := f.Write(b); err != nil {
			return err
		}
	}
	return nil
}

// writeAndSync appends count copies of b, syncing after each, and returns the time of each step.
func writeAndSync(dir string, b []byte, count int) ([]time.Duration, error) {
	f, err := os.Create(filepath.Join(dir, "sync"))
	if err != nil {
		return nil, err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	steps := make([]time.Duration, 0, count)
	for i := range count {
		begin := time.Now()
		if _, err := f.WriteAt(b, int64(i)*int64(len(b))); err != nil {
			return nil, err
		}
		if err := datasync(f); err != nil {
			return nil, err
		}
		steps = append(steps, time.Since(begin))
	}
	return steps, nil
}

// readAndSum reads files from the page cache in large pieces and sums them, as a recovery scan must.
func readAndSum(names []string) (int64, time.Duration, error) {
	buf := make([]byte, 4<<20)
	var total int64
	begin := time.Now()
	for _, name := range names {
		f, err := os.Open(name)
		if err != nil {
			return 0, 0, err
		}
		sum := crc32.New(castagnoli)
		n, err := io.CopyBuffer(struct{ io.Writer }{sum}, struct{ io.Reader }{f}, buf)
		total += n
		if cerr := f.Close(); err == nil {
			err = cerr
		}
		if err != nil {
			return 0, 0, err
		}
	}
	return total, time.Since(begin), nil
}

// sendfileLoop answers small requests with piece after piece of a file of size bytes over one loopback connection, which
// is the request pattern of fetchRaw, and returns the time that total bytes take.
func sendfileLoop(dir string, size int64, pieceBytes int, total int64) (time.Duration, error) {
	f, err := os.Create(filepath.Join(dir, "sendfile"))
	if err != nil {
		return 0, err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	for b, n := make([]byte, 1<<20), size; n > 0; n -= int64(len(b)) {
		if _, err := f.Write(b); err != nil {
			return 0, err
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	served := make(chan error, 1)
	go func() { served <- serveFile(l, f, size, pieceBytes) }()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		return 0, err
	}
	begin := time.Now()
	buf := make([]byte, 256<<10)
	for left := total; left > 0; left -= int64(pieceBytes) {
		if _, err := c.Write(make([]byte, 80)); err != nil {
			return 0, err
		}
		for n := pieceBytes; n > 0; {
			m, err := c.Read(buf[:min(len(buf), n)])
			if err != nil {
				return 0, err
			}
			n -= m
		}
	}
	took := time.Since(begin)
	if err := c.Close(); err != nil {
		return 0, err
	}
	return took, <-served
}

func serveFile(l net.Listener, f *os.File, size int64, pieceBytes int) error {
	c, err := l.Accept()
	if err != nil {
		return err
	}
	defer c.Close()
	req := make([]byte, 80)
	for pos := int64(0); ; pos = (pos + int64(pieceBytes)) % size {
		if _, err := io.ReadFull(c, req); err != nil {
			return nil // the reader has what it wanted
		}
		if _, err := f.Seek(pos, io.SeekStart); err != nil {
			return err
		}
		if _, err := io.CopyN(c, f, int64(pieceBytes)); err != nil {
			return err
		}
	}
}
