package vfs

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// datasync flushes content and length but not the access times: one journal commit less than fsync.
func datasync(f *os.File) error {
	for {
		err := unix.Fdatasync(int(f.Fd()))
		if err == nil {
			return nil
		}
		if !errors.Is(err, unix.EINTR) {
			return &os.PathError{Op: "fdatasync", Path: f.Name(), Err: err}
		}
	}
}
