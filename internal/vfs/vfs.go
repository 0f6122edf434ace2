// Package vfs is the seam between the broker and the file system. Production uses OS; tests use memfs, which can
// forget everything that was not synced (a crash clone), and faultfs, which makes chosen operations fail.
//
// What callers may rely on, and what memfs enforces:
//
//   - File.Sync makes the file's bytes and its length durable, nothing else. The file's *name* is durable only after
//     FS.SyncDir of its folder; so is a rename or a removal.
//   - Rename replaces the target atomically: after a crash the target holds either the old or the new content, provided
//     the source was synced before.
//   - Reads and writes at different offsets of one File may run concurrently.
package vfs

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"time"
)

// FS is a file system. All methods may be called concurrently. Errors are *fs.PathError or wrap one, so that
// errors.Is(err, fs.ErrNotExist) and friends work and the text names the path.
type FS interface {
	// Open opens with the flags of os.OpenFile. Folders cannot be opened; see SyncDir and ReadDir.
	Open(name string, flag int, perm fs.FileMode) (File, error)
	// Remove removes a file or an empty folder.
	Remove(name string) error
	// RemoveAll removes a tree; a missing one is no error.
	RemoveAll(name string) error
	// Rename replaces newName atomically. Neither name is durable until their folders are synced.
	Rename(oldName, newName string) error
	// MkdirAll creates a folder and its missing parents.
	MkdirAll(name string, perm fs.FileMode) error
	// ReadDir lists a folder sorted by name.
	ReadDir(name string) ([]fs.DirEntry, error)
	// Stat follows links.
	Stat(name string) (fs.FileInfo, error)
	// SyncDir makes creations, renames and removals in the folder durable.
	SyncDir(name string) error
	// Chtimes sets the modification time, which retention of Kafka's log reads when a segment holds no timestamp.
	Chtimes(name string, mtime time.Time) error
	// Lock takes an exclusive advisory lock, creating the file. It does not wait: a held lock is ErrLocked.
	// The lock ends when the closer is closed or the process ends.
	Lock(name string) (io.Closer, error)
	// Usage returns the size of the volume that holds name and what is left of it for us, in bytes.
	Usage(name string) (total, free int64, err error)
}

// File is an open file. ReadAt and WriteAt may be called concurrently.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	// Name returns the name given to Open.
	Name() string
	// Size returns the current length in bytes.
	Size() (int64, error)
	// Truncate changes the length; growing fills with zeros.
	Truncate(size int64) error
	// Sync makes content and length durable (fdatasync where the system has it).
	Sync() error
	// OSFile returns the file behind, for sendfile; nil when there is none. The caller must not close it nor move its
	// position.
	OSFile() *os.File
}

// ReadFile returns the whole content of a file. Meant for small files such as checkpoints.
func ReadFile(fsys FS, name string) ([]byte, error) {
	f, err := fsys.Open(name, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // read only: nothing can be lost
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	b := make([]byte, size)
	n, err := f.ReadAt(b, 0)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return b[:n], err
}

// WriteFileAtomic replaces a file so that after a crash it holds either its old or its new content, durably the new
// one once this returns: write name+".tmp", sync, rename, sync the folder.
func WriteFileAtomic(fsys FS, name string, data []byte) error {
	tmp := name + ".tmp"
	if err := writeSynced(fsys, tmp, data); err != nil {
		return err
	}
	if err := fsys.Rename(tmp, name); err != nil {
		return err
	}
	return fsys.SyncDir(dirOf(name))
}

func writeSynced(fsys FS, name string, data []byte) error {
	f, err := fsys.Open(name, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	if _, err := f.WriteAt(data, 0); err != nil {
		_ = f.Close() // the write error is the one to report
		return err
	}
	if err := f.Sync(); err != nil {
		_ = f.Close()
		return err
	}
	return f.Close()
}

// MkdirAllDurable creates a folder and its missing parents, all of which survive a crash once this returns.
func MkdirAllDurable(fsys FS, name string, perm fs.FileMode) error {
	var created []string // folders that get a new entry, the deepest first
	for dir := name; ; {
		_, err := fsys.Stat(dir)
		if err == nil {
			break
		}
		parent := dirOf(dir)
		if !errors.Is(err, fs.ErrNotExist) || parent == dir {
			return err
		}
		created, dir = append(created, parent), parent
	}
	if err := fsys.MkdirAll(name, perm); err != nil {
		return err
	}
	for _, dir := range created {
		if err := fsys.SyncDir(dir); err != nil {
			return err
		}
	}
	return nil
}
