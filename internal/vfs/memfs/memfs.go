package memfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/kbroker/kbroker/internal/vfs"
)

// defaultCapacity is far more than any test writes: 1 TiB.
const defaultCapacity = int64(1) << 40

// maxName is the longest name of one entry, as on Linux file systems.
const maxName = 255

// FS is a file system in memory. It is safe for concurrent use; no method blocks, so it works inside a synctest bubble,
// whose clock it takes modification times from. Relative names are taken from the root.
type FS struct {
	root *inode
	mu   struct {
		sync.RWMutex
		pending        []*change // M2
		capacity, used int64
		open           map[*file]struct{}
	}
}

var _ vfs.FS = (*FS)(nil)

// New returns an empty file system with a capacity of 1 TiB.
func New() *FS { return newFS(newFolder(time.Now()), defaultCapacity) }

func newFS(root *inode, capacity int64) *FS {
	f := &FS{root: root}
	f.mu.capacity = capacity
	f.mu.open = map[*file]struct{}{}
	f.mu.used = usedBy(root)
	return f
}

func usedBy(n *inode) int64 {
	var used int64
	for _, p := range n.live.pages {
		if p != nil {
			used += pageSize
		}
	}
	if n.dir != nil {
		for _, child := range n.dir.live {
			used += usedBy(child)
		}
	}
	return used
}

// SetCapacity sets the size of the volume in bytes. It may be below what is used: then nothing is free.
func (f *FS) SetCapacity(bytes int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.capacity = bytes
}

// CrashClone returns what a crash at this moment may leave on the disk, as a new independent file system without open
// files or locks. The same state and seed give the same clone. Percent (0 to 100) is the chance that a piece of unsynced
// state survived: 0 keeps only what was synced, 100 keeps everything.
func (f *FS) CrashClone(seed uint64, percent int) *FS {
	f.mu.Lock() // the durable pages become shared, and the choice must see one moment
	defer f.mu.Unlock()
	r := rand.New(rand.NewPCG(seed, 0))
	return newFS(f.crashTree(r, percent), f.mu.capacity)
}

// OpenFiles returns the names of the files that are still open, sorted: a test's way to find leaked handles.
func (f *FS) OpenFiles() []string {
	f.mu.RLock()
	defer f.mu.RUnlock()
	names := make([]string, 0, len(f.mu.open))
	for h := range f.mu.open {
		names = append(names, h.name)
	}
	sort.Strings(names)
	return names
}

// String lists the live tree, one path with its length per line, sorted; for golden tests and failure messages.
func (f *FS) String() string {
	f.mu.RLock()
	defer f.mu.RUnlock()
	var b strings.Builder
	var walk func(prefix string, n *inode)
	walk = func(prefix string, n *inode) {
		for _, name := range sortedNames(n.dir.live) {
			child := n.dir.live[name]
			if child.dir == nil {
				fmt.Fprintf(&b, "%s%s %d\n", prefix, name, child.live.size)
				continue
			}
			fmt.Fprintf(&b, "%s%s/\n", prefix, name)
			walk(prefix+name+"/", child)
		}
	}
	walk("/", f.root)
	return b.String()
}

func split(name string) []string {
	clean := filepath.ToSlash(filepath.Clean("/" + name))
	if clean == "/" {
		return nil
	}
	return strings.Split(clean[1:], "/")
}

// lookupLocked finds a node by its parts.
func (f *FS) lookupLocked(parts []string) (*inode, error) {
	n := f.root
	for _, p := range parts {
		if n.dir == nil {
			return nil, syscall.ENOTDIR
		}
		if len(p) > maxName {
			return nil, syscall.ENAMETOOLONG
		}
		child := n.dir.live[p]
		if child == nil {
			return nil, syscall.ENOENT
		}
		n = child
	}
	return n, nil
}

// parentLocked finds the folder that holds name, and the last part.
func (f *FS) parentLocked(name string) (key, error) {
	parts := split(name)
	if len(parts) == 0 {
		return key{}, syscall.EBUSY // the root itself
	}
	last := parts[len(parts)-1]
	if len(last) > maxName {
		return key{}, syscall.ENAMETOOLONG
	}
	dir, err := f.lookupLocked(parts[:len(parts)-1])
	if err != nil {
		return key{}, err
	}
	if dir.dir == nil {
		return key{}, syscall.ENOTDIR
	}
	return key{dir, last}, nil
}

func (k key) node() *inode { return k.dir.dir.live[k.name] }

func pathError(op, name string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: name, Err: err}
}

// maybeFreeLocked gives the space of a file back once it has neither a name nor a handle.
func (f *FS) maybeFreeLocked(n *inode) {
	if n.links > 0 || n.handles > 0 || n.dir != nil {
		return
	}
	for _, p := range n.live.pages {
		if p != nil {
			f.mu.used -= pageSize
		}
	}
	// The durable pages stay: a crash may still bring the name back. Live content is kept for that clone as well.
}

// Open implements vfs.FS. O_APPEND is refused: positions are always explicit here.
func (f *FS) Open(name string, flag int, _ fs.FileMode) (vfs.File, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	h, err := f.openLocked(name, flag)
	if err != nil {
		return nil, pathError("open", name, err)
	}
	return h, nil
}

func (f *FS) openLocked(name string, flag int) (*file, error) {
	if flag&os.O_APPEND != 0 {
		return nil, syscall.EINVAL
	}
	if len(split(name)) == 0 {
		return nil, syscall.EISDIR
	}
	k, err := f.parentLocked(name)
	if err != nil {
		return nil, err
	}
	access := flag & (os.O_RDONLY | os.O_WRONLY | os.O_RDWR)
	writable := access != os.O_RDONLY
	n := k.node()
	switch {
	case n == nil && flag&os.O_CREATE == 0:
		return nil, syscall.ENOENT
	case n == nil:
		n = newFile(time.Now())
		n.links = 1
		f.changeLocked(change{to: k, node: n})
	case n.dir != nil:
		return nil, syscall.EISDIR
	case flag&(os.O_CREATE|os.O_EXCL) == os.O_CREATE|os.O_EXCL:
		return nil, syscall.EEXIST
	case flag&os.O_TRUNC != 0 && writable:
		f.truncateLocked(n, 0)
	}
	n.handles++
	h := &file{fs: f, n: n, name: name, readable: access != os.O_WRONLY, writable: writable}
	f.mu.open[h] = struct{}{}
	return h, nil
}

// Remove implements vfs.FS.
func (f *FS) Remove(name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return pathError("remove", name, f.removeLocked(name))
}

func (f *FS) removeLocked(name string) error {
	k, err := f.parentLocked(name)
	if err != nil {
		return err
	}
	n := k.node()
	switch {
	case n == nil:
		return syscall.ENOENT
	case n.dir != nil && len(n.dir.live) > 0:
		return syscall.ENOTEMPTY
	}
	f.unlinkLocked(k, n)
	return nil
}

func (f *FS) unlinkLocked(k key, n *inode) {
	f.changeLocked(change{from: k, node: n})
	n.links--
	f.maybeFreeLocked(n)
}

// RemoveAll implements vfs.FS. As with the real thing, a crash in the middle or after it may bring back any part of the
// tree until the folders are synced.
func (f *FS) RemoveAll(name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	k, err := f.parentLocked(name)
	if errors.Is(err, syscall.ENOENT) {
		return nil
	}
	if err != nil {
		return pathError("removeall", name, err)
	}
	if n := k.node(); n != nil {
		f.removeTreeLocked(k, n)
	}
	return nil
}

func (f *FS) removeTreeLocked(k key, n *inode) {
	if n.dir != nil {
		for _, name := range sortedNames(n.dir.live) {
			f.removeTreeLocked(key{n, name}, n.dir.live[name])
		}
	}
	f.unlinkLocked(k, n)
}

// Rename implements vfs.FS.
func (f *FS) Rename(oldName, newName string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.renameLocked(oldName, newName); err != nil {
		return &os.LinkError{Op: "rename", Old: oldName, New: newName, Err: err}
	}
	return nil
}

func (f *FS) renameLocked(oldName, newName string) error {
	from, err := f.parentLocked(oldName)
	if err != nil {
		return err
	}
	to, err := f.parentLocked(newName)
	if err != nil {
		return err
	}
	n := from.node()
	if n == nil {
		return syscall.ENOENT
	}
	old := to.node()
	switch {
	case old != nil && old.dir != nil:
		return syscall.EEXIST // package os refuses even an empty folder as the target
	case n.dir != nil && n.contains(to.dir):
		return syscall.EINVAL
	case old == n:
		return nil
	case old != nil && n.dir != nil:
		return syscall.ENOTDIR
	}
	f.changeLocked(change{from: from, to: to, node: n})
	if old != nil {
		old.links--
		f.maybeFreeLocked(old)
	}
	return nil
}

// contains tells whether dir is n or lies below it.
func (n *inode) contains(dir *inode) bool {
	if n == dir {
		return true
	}
	for _, child := range n.dir.live {
		if child.dir != nil && child.contains(dir) {
			return true
		}
	}
	return false
}

// MkdirAll implements vfs.FS.
func (f *FS) MkdirAll(name string, _ fs.FileMode) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.root
	for _, p := range split(name) {
		if n.dir == nil {
			return pathError("mkdir", name, syscall.ENOTDIR)
		}
		if len(p) > maxName {
			return pathError("mkdir", name, syscall.ENAMETOOLONG)
		}
		child := n.dir.live[p]
		if child == nil {
			child = newFolder(time.Now())
			child.links = 1
			f.changeLocked(change{to: key{n, p}, node: child})
		}
		n = child
	}
	if n.dir == nil {
		return pathError("mkdir", name, syscall.ENOTDIR)
	}
	return nil
}

// ReadDir implements vfs.FS.
func (f *FS) ReadDir(name string) ([]fs.DirEntry, error) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	n, err := f.lookupLocked(split(name))
	if err == nil && n.dir == nil {
		err = syscall.ENOTDIR
	}
	if err != nil {
		return nil, pathError("readdir", name, err)
	}
	out := make([]fs.DirEntry, 0, len(n.dir.live))
	for _, child := range sortedNames(n.dir.live) {
		out = append(out, fs.FileInfoToDirEntry(infoOf(child, n.dir.live[child])))
	}
	return out, nil
}

// Stat implements vfs.FS.
func (f *FS) Stat(name string) (fs.FileInfo, error) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	n, err := f.lookupLocked(split(name))
	if err != nil {
		return nil, pathError("stat", name, err)
	}
	return infoOf(filepath.Base(filepath.Clean("/"+name)), n), nil
}

// SyncDir implements vfs.FS.
func (f *FS) SyncDir(name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, err := f.lookupLocked(split(name))
	if err == nil && n.dir == nil {
		err = syscall.ENOTDIR
	}
	if err != nil {
		return pathError("syncdir", name, err)
	}
	f.syncDirLocked(n)
	n.durable.mtime = n.live.mtime
	return nil
}

// Chtimes implements vfs.FS. The time becomes durable with the next Sync of the file.
func (f *FS) Chtimes(name string, mtime time.Time) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, err := f.lookupLocked(split(name))
	if err != nil {
		return pathError("chtimes", name, err)
	}
	n.live.mtime = mtime
	return nil
}

// Usage implements vfs.FS: the capacity, and what the pages written leave of it.
func (f *FS) Usage(name string) (total, free int64, err error) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	if _, err := f.lookupLocked(split(name)); err != nil {
		return 0, 0, pathError("statfs", name, err)
	}
	return f.mu.capacity, max(0, f.mu.capacity-f.mu.used), nil
}

// Lock implements vfs.FS.
func (f *FS) Lock(name string) (io.Closer, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	h, err := f.openLocked(name, os.O_CREATE|os.O_RDWR)
	if err != nil {
		return nil, pathError("open", name, err)
	}
	if h.n.locked {
		delete(f.mu.open, h)
		h.n.handles--
		return nil, fmt.Errorf("%s: %w", name, vfs.ErrLocked)
	}
	h.n.locked = true
	return &lock{h}, nil
}

type lock struct{ h *file }

func (l *lock) Close() error {
	if l.h.closed.Load() {
		return l.h.fail("unlock", fs.ErrClosed)
	}
	l.h.fs.mu.Lock()
	l.h.n.locked = false
	l.h.fs.mu.Unlock()
	return l.h.Close()
}

// info is a snapshot of one entry.
type info struct {
	name  string
	size  int64
	mtime time.Time
	dir   bool
}

func infoOf(name string, n *inode) info {
	return info{name: name, size: n.live.size, mtime: n.live.mtime, dir: n.dir != nil}
}

func (i info) Name() string       { return i.name }
func (i info) Size() int64        { return i.size }
func (i info) ModTime() time.Time { return i.mtime }
func (i info) IsDir() bool        { return i.dir }
func (i info) Sys() any           { return nil }

func (i info) Mode() fs.FileMode {
	if i.dir {
		return fs.ModeDir | 0o755
	}
	return 0o644
}
