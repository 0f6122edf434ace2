package segment

import (
	"os"
	"sync"
	"sync/atomic"

	"github.com/kbroker/kbroker/internal/vfs"
)

// Cache bounds the files that idle segments hold open (S4). It is shared by all partitions and safe for concurrent use.
// Its lock is taken when a file is opened or closed, never when an open one is used.
type Cache struct {
	limit int

	mu struct {
		sync.Mutex
		open []*file // the hand of a clock goes around here
		hand int
	}
}

// NewCache returns a cache that keeps at most limit files open that nobody uses.
func NewCache(limit int) *Cache { return &Cache{limit: max(1, limit)} }

// Usage returns the number of open files and the limit.
func (c *Cache) Usage() (open, limit int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.mu.open), c.limit
}

// file is one file of a segment: opened when used, closed when the cache needs the room and nobody uses it.
type file struct {
	fs    vfs.FS
	cache *Cache
	used  atomic.Bool // since the clock's hand came by

	mu struct {
		sync.Mutex
		path    string
		f       vfs.File
		refs    int
		retired bool // to be closed by the last user and not kept again
	}
}

func newFile(fs vfs.FS, c *Cache, path string) *file {
	f := &file{fs: fs, cache: c}
	f.mu.path = path
	return f
}

// acquire returns the open file. Every acquire is followed by one release.
func (f *file) acquire() (vfs.File, error) {
	f.used.Store(true)
	f.mu.Lock()
	if f.mu.f != nil {
		f.mu.refs++
		defer f.mu.Unlock()
		return f.mu.f, nil
	}
	h, err := f.fs.Open(f.mu.path, os.O_RDWR, 0)
	if err != nil {
		f.mu.Unlock()
		return nil, err
	}
	f.mu.f, f.mu.refs = h, 1
	f.mu.Unlock()
	f.cache.add(f)
	return h, nil
}

func (f *file) release() {
	f.mu.Lock()
	f.mu.refs--
	f.closeIfRetiredLocked()
	f.mu.Unlock()
}

func (f *file) closeIfRetiredLocked() {
	if f.mu.retired && f.mu.refs == 0 && f.mu.f != nil {
		_ = f.mu.f.Close() // what had to be durable was synced before; nobody is left to tell
		f.mu.f = nil
	}
}

// retire gives the file up: it is closed now or by its last user.
func (f *file) retire() {
	f.cache.forget(f)
	f.mu.Lock()
	f.mu.retired = true
	f.closeIfRetiredLocked()
	f.mu.Unlock()
}

// renamed makes known what the file is called now; users keep what they have open.
func (f *file) renamed(path string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.path = path
}

func (f *file) path() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mu.path
}

// closeIdle closes the file if nobody uses it and reports whether it did.
func (f *file) closeIdle() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mu.refs > 0 || f.mu.f == nil {
		return f.mu.f == nil
	}
	_ = f.mu.f.Close() // written data stays with the system; syncing is the flusher's business and reopens the file
	f.mu.f = nil
	return true
}

// add enters an opened file and closes others while there are too many.
func (c *Cache) add(f *file) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.open = append(c.mu.open, f)
	// Two rounds: the first may find only files used since the last time.
	for looked := 0; len(c.mu.open) > c.limit && looked < 2*c.limit; looked++ {
		if c.mu.hand >= len(c.mu.open) {
			c.mu.hand = 0
		}
		v := c.mu.open[c.mu.hand]
		if v == f || v.used.Swap(false) || !v.closeIdle() {
			c.mu.hand++
			continue
		}
		c.removeLocked(c.mu.hand)
	}
}

func (c *Cache) removeLocked(i int) {
	last := len(c.mu.open) - 1
	c.mu.open[i] = c.mu.open[last]
	c.mu.open[last] = nil
	c.mu.open = c.mu.open[:last]
}

func (c *Cache) forget(f *file) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, v := range c.mu.open {
		if v == f {
			c.removeLocked(i)
			return
		}
	}
}
