package memfs

import (
	"maps"
	"math/rand/v2"
	"sort"
	"time"
)

// directory is a folder's entries now and after a crash that keeps nothing unsynced.
type directory struct {
	live, durable map[string]*inode
}

func newFolder(now time.Time) *inode {
	return &inode{
		dir:  &directory{live: map[string]*inode{}, durable: map[string]*inode{}},
		live: content{mtime: now}, durable: content{mtime: now},
	}
}

// key is one name in one folder.
type key struct {
	dir  *inode
	name string
}

// change is one folder operation that happened whole or not at all. A creation has only to, a removal only from, a rename
// both; the zero key means absent.
type change struct {
	from, to key
	node     *inode // what to points at afterwards, or what from pointed at before
	// synced is set for each side once its folder was synced. A rename is durable when both are (M3 aside).
	fromSynced, toSynced bool
}

func (c *change) durable() bool {
	return (c.from.dir == nil || c.fromSynced) && (c.to.dir == nil || c.toSynced)
}

func (c *change) eachKey(fn func(key)) {
	if c.from.dir != nil {
		fn(c.from)
	}
	if c.to.dir != nil {
		fn(c.to)
	}
}

// apply performs the change on one view of the folders.
func (c *change) apply(view func(*inode) map[string]*inode) {
	if c.from.dir != nil {
		delete(view(c.from.dir), c.from.name)
	}
	if c.to.dir != nil {
		view(c.to.dir)[c.to.name] = c.node
	}
}

func durableView(n *inode) map[string]*inode { return n.dir.durable }

func liveView(n *inode) map[string]*inode { return n.dir.live }

// changeLocked performs c on the live tree and remembers it as pending (M2).
func (f *FS) changeLocked(c change) {
	now := time.Now()
	c.eachKey(func(k key) { k.dir.live.mtime = now })
	c.apply(liveView)
	f.mu.pending = append(f.mu.pending, &c)
}

// needs collects what earlier pending changes must be part of a durable state, walking the list backwards (M3).
type needs struct {
	keys    map[key]bool
	emptied map[*inode]bool // removed folders: whatever left them before must have left them
	reached map[*inode]bool // folders that a file moved into: they must exist, or the file would be lost
}

func (s *needs) wants(c *change) bool {
	want := c.to.dir != nil && s.reached[c.node]
	c.eachKey(func(k key) { want = want || s.keys[k] || s.emptied[k.dir] })
	return want
}

func (s *needs) add(c *change) {
	c.eachKey(func(k key) { s.keys[k] = true })
	if c.to.dir == nil {
		s.emptied[c.node] = true
	} else if c.from.dir != nil && c.from.dir != c.to.dir || s.reached[c.node] {
		s.reached[c.to.dir] = true
	}
}

// syncDirLocked makes the pending changes of one folder durable, with all those they build on (M3).
func (f *FS) syncDirLocked(dir *inode) {
	for _, c := range f.mu.pending {
		c.fromSynced = c.fromSynced || c.from.dir == dir
		c.toSynced = c.toSynced || c.to.dir == dir
	}
	need := needs{map[key]bool{}, map[*inode]bool{}, map[*inode]bool{}}
	chosen := make([]bool, len(f.mu.pending))
	for i := len(f.mu.pending) - 1; i >= 0; i-- {
		c := f.mu.pending[i]
		if chosen[i] = c.durable() || need.wants(c); chosen[i] {
			need.add(c)
		}
	}
	rest := f.mu.pending[:0]
	for i, c := range f.mu.pending {
		if chosen[i] {
			c.apply(durableView)
		} else {
			rest = append(rest, c)
		}
	}
	clear(f.mu.pending[len(rest):])
	f.mu.pending = rest
}

// crashTree returns the folder tree that a crash may leave: the durable one plus a random, consistent choice of the
// pending changes.
func (f *FS) crashTree(r *rand.Rand, percent int) *inode {
	views := map[*inode]map[string]*inode{}
	view := func(n *inode) map[string]*inode {
		if views[n] == nil {
			views[n] = maps.Clone(n.dir.durable)
		}
		return views[n]
	}
	lost := map[key]bool{}
	full := map[*inode]bool{}    // folders that something did not leave: they were not removed
	missing := map[*inode]bool{} // folders that were not made: nothing moved into them
	for _, c := range f.mu.pending {
		keep := chance(r, percent) && (c.to.dir != nil || !full[c.node])
		c.eachKey(func(k key) { keep = keep && !lost[k] && !missing[k.dir] })
		if keep {
			c.apply(view)
			continue
		}
		c.eachKey(func(k key) { lost[k], full[k.dir] = true, true })
		if c.from.dir == nil {
			missing[c.node] = true
		}
	}
	return crashCopy(f.root, view, r, percent)
}

func crashCopy(n *inode, view func(*inode) map[string]*inode, r *rand.Rand, percent int) *inode {
	if n.dir == nil {
		return n.crash(r, percent)
	}
	out := newFolder(n.durable.mtime)
	entries := view(n)
	for _, name := range sortedNames(entries) {
		child := crashCopy(entries[name], view, r, percent)
		child.links = 1
		out.dir.live[name] = child
		out.dir.durable[name] = child
	}
	return out
}

func sortedNames(m map[string]*inode) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}
