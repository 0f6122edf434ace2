package memfs

import (
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	pageSize = 4096
	// SectorSize is the unit of bytes that a crash keeps or loses as a whole.
	SectorSize = 512
)

// page is pageSize bytes; nil stands for a page of zeros that was never written.
type page []byte

// content is the bytes, the length and the modification time of a file at one moment. Pages past the end are absent.
type content struct {
	pages []page
	size  int64
	mtime time.Time
}

func (c *content) page(i int) page {
	if i < len(c.pages) {
		return c.pages[i]
	}
	return nil
}

// inode is a file (dir == nil) or a folder. All fields are guarded by FS.mu.
type inode struct {
	dir *directory

	live, durable content
	// minSize is the shortest length since the last sync: a crash may show the file in that state too.
	minSize int64
	// dirtyFrom and dirtyTo bound the page indexes in which live and durable may differ.
	dirtyFrom, dirtyTo int

	links, handles int
	locked         bool
}

func newFile(now time.Time) *inode {
	return &inode{live: content{mtime: now}, durable: content{mtime: now}}
}

func (n *inode) markDirty(from, to int) {
	if n.dirtyFrom == n.dirtyTo {
		n.dirtyFrom, n.dirtyTo = from, to
		return
	}
	n.dirtyFrom, n.dirtyTo = min(n.dirtyFrom, from), max(n.dirtyTo, to)
}

// samePage tells whether a and b are the very same memory, which for non-nil pages means: shared, do not write (M1).
func samePage(a, b page) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return &a[0] == &b[0]
}

// writableLocked returns page i for writing, copied first when a durable state shares it. It reports false when the
// volume has no room for one more page.
func (f *FS) writableLocked(n *inode, i int) (page, bool) {
	for len(n.live.pages) <= i {
		n.live.pages = append(n.live.pages, nil)
	}
	p := n.live.pages[i]
	if p == nil {
		if f.mu.used+pageSize > f.mu.capacity {
			return nil, false
		}
		f.mu.used += pageSize
		p = make(page, pageSize)
	} else if samePage(p, n.durable.page(i)) {
		p = append(page(nil), p...)
	}
	n.live.pages[i] = p
	return p, true
}

func (f *FS) writeLocked(n *inode, b []byte, off int64) (int, error) {
	done := 0
	for done < len(b) {
		at := off + int64(done)
		i, in := int(at/pageSize), int(at%pageSize)
		p, ok := f.writableLocked(n, i)
		if !ok {
			break
		}
		done += copy(p[in:], b[done:])
		n.markDirty(i, i+1)
	}
	if end := off + int64(done); done > 0 {
		n.live.size = max(n.live.size, end)
		n.live.mtime = time.Now()
	}
	if done < len(b) {
		return done, syscall.ENOSPC
	}
	return done, nil
}

func (f *FS) truncateLocked(n *inode, size int64) {
	if size < n.live.size {
		keep := int((size + pageSize - 1) / pageSize)
		for i := keep; i < len(n.live.pages); i++ {
			if n.live.pages[i] != nil {
				f.mu.used -= pageSize
			}
		}
		n.markDirty(keep, max(keep, len(n.live.pages)))
		n.live.pages = n.live.pages[:min(keep, len(n.live.pages))]
		if in := int(size % pageSize); in != 0 && keep <= len(n.live.pages) && n.live.pages[keep-1] != nil {
			// The page exists, so no room is needed; only its tail is cleared, for a later growth to read zeros.
			p, _ := f.writableLocked(n, keep-1)
			clear(p[in:])
			n.markDirty(keep-1, keep)
		}
		n.minSize = min(n.minSize, size)
	}
	n.live.size = size
	n.live.mtime = time.Now()
}

// syncLocked makes the file's live content durable.
func (n *inode) syncLocked() {
	d := &n.durable
	for len(d.pages) < len(n.live.pages) {
		d.pages = append(d.pages, nil)
	}
	for i := n.dirtyFrom; i < min(n.dirtyTo, len(n.live.pages)); i++ {
		d.pages[i] = n.live.pages[i]
	}
	clear(d.pages[len(n.live.pages):])
	d.pages = d.pages[:len(n.live.pages)]
	d.size, d.mtime = n.live.size, n.live.mtime
	n.minSize = d.size
	n.dirtyFrom, n.dirtyTo = 0, 0
}

// crash returns the file as a crash may leave it; see the package comment.
func (n *inode) crash(r *rand.Rand, percent int) *inode {
	out := content{size: n.crashSize(r, percent), mtime: n.durable.mtime}
	if chance(r, percent) {
		out.mtime = n.live.mtime
	}
	out.pages = make([]page, (out.size+pageSize-1)/pageSize)
	copy(out.pages, n.durable.pages) // clean pages are shared: both sides hold them as durable (M1)
	for i := n.dirtyFrom; i < min(n.dirtyTo, len(out.pages)); i++ {
		out.pages[i] = mixPage(r, percent, n.durable.page(i), n.live.page(i))
	}
	out.clearTail()
	durable := out
	durable.pages = append([]page(nil), out.pages...)
	return &inode{live: out, durable: durable, minSize: out.size}
}

func (n *inode) crashSize(r *rand.Rand, percent int) int64 {
	if chance(r, percent) {
		return n.live.size
	}
	if !chance(r, percent) {
		return n.durable.size
	}
	low, high := min(n.minSize, n.live.size), max(n.durable.size, n.live.size)
	at := low + r.Int64N(high-low+1)
	if at = at / SectorSize * SectorSize; at < low {
		at = low
	}
	return at
}

// mixPage returns a fresh page whose sectors are each the old or the new ones.
func mixPage(r *rand.Rand, percent int, before, after page) page {
	if samePage(before, after) {
		return before
	}
	out := make(page, pageSize)
	copy(out, before)
	for s := 0; s < pageSize; s += SectorSize {
		if !chance(r, percent) {
			continue
		}
		if after == nil {
			clear(out[s : s+SectorSize])
		} else {
			copy(out[s:s+SectorSize], after[s:s+SectorSize])
		}
	}
	return out
}

// clearTail zeroes what a page holds past the end of the file, in a copy when the page has any: the page may be shared.
func (c *content) clearTail() {
	in := int(c.size % pageSize)
	if in == 0 || len(c.pages) == 0 {
		return
	}
	last := len(c.pages) - 1
	if c.pages[last] == nil {
		return
	}
	p := append(page(nil), c.pages[last]...)
	clear(p[in:])
	c.pages[last] = p
}

func chance(r *rand.Rand, percent int) bool { return r.IntN(100) < percent }

// file is an open handle.
type file struct {
	fs       *FS
	n        *inode
	name     string
	readable bool
	writable bool
	closed   atomic.Bool
}

func (h *file) Name() string { return h.name }

func (h *file) OSFile() *os.File { return nil }

func (h *file) fail(op string, err error) error { return &fs.PathError{Op: op, Path: h.name, Err: err} }

func (h *file) check(op string, allowed bool, off int64) error {
	switch {
	case h.closed.Load():
		return h.fail(op, fs.ErrClosed)
	case !allowed:
		return h.fail(op, syscall.EBADF)
	case off < 0:
		return h.fail(op, syscall.EINVAL)
	}
	return nil
}

func (h *file) ReadAt(b []byte, off int64) (int, error) {
	if err := h.check("read", h.readable, off); err != nil {
		return 0, err
	}
	h.fs.mu.RLock()
	defer h.fs.mu.RUnlock()
	c := &h.n.live
	done := 0
	for done < len(b) && off+int64(done) < c.size {
		at := off + int64(done)
		i, in := int(at/pageSize), int(at%pageSize)
		want := b[done:min(int64(len(b)), int64(done)+c.size-at)]
		want = want[:min(len(want), pageSize-in)]
		if p := c.page(i); p != nil {
			copy(want, p[in:])
		} else {
			clear(want)
		}
		done += len(want)
	}
	if done < len(b) {
		return done, io.EOF
	}
	return done, nil
}

func (h *file) WriteAt(b []byte, off int64) (int, error) {
	if err := h.check("write", h.writable, off); err != nil {
		return 0, err
	}
	h.fs.mu.Lock()
	defer h.fs.mu.Unlock()
	n, err := h.fs.writeLocked(h.n, b, off)
	if err != nil {
		return n, h.fail("write", err)
	}
	return n, nil
}

func (h *file) Size() (int64, error) {
	if err := h.check("stat", true, 0); err != nil {
		return 0, err
	}
	h.fs.mu.RLock()
	defer h.fs.mu.RUnlock()
	return h.n.live.size, nil
}

func (h *file) Truncate(size int64) error {
	if err := h.check("truncate", h.writable, size); err != nil {
		return err
	}
	h.fs.mu.Lock()
	defer h.fs.mu.Unlock()
	h.fs.truncateLocked(h.n, size)
	return nil
}

func (h *file) Sync() error {
	if err := h.check("sync", true, 0); err != nil {
		return err
	}
	h.fs.mu.Lock()
	defer h.fs.mu.Unlock()
	h.n.syncLocked()
	return nil
}

func (h *file) Close() error {
	if h.closed.Swap(true) {
		return h.fail("close", fs.ErrClosed)
	}
	h.fs.mu.Lock()
	defer h.fs.mu.Unlock()
	delete(h.fs.mu.open, h)
	h.n.handles--
	h.fs.maybeFreeLocked(h.n)
	return nil
}
