package metadata

import (
	"iter"
	"slices"
)

// sortedMap is a persistent B+ tree: put and remove return a map that shares all untouched nodes with the receiver, at
// a cost of O(log n). Readers of the old map are never disturbed. The zero value with cmp set is the empty map.
//
// Copies within one batch are avoided by ownership: a node that carries the batch's token was made in this batch, is not
// reachable from any published map and may be changed in place.
type sortedMap[K, V any] struct {
	root *treeNode[K, V]
	size int
	cmp  func(a, b K) int
}

// editToken identifies one batch of edits. It has a size so that no two live tokens share an address.
type editToken struct{ _ byte }

// maxTreeKeys is the fan-out: 64 keys keep the tree of 100,000 topics three levels deep and a copied path below 4 KiB.
const maxTreeKeys = 64

// treeNode is a leaf (vals set) or an inner node (kids set). keys[i] of an inner node is a lower bound of kids[i]; for
// i = 0 it is not looked at.
type treeNode[K, V any] struct {
	owner *editToken
	keys  []K
	vals  []V
	kids  []*treeNode[K, V]
}

func (n *treeNode[K, V]) isLeaf() bool { return n.kids == nil }

func (m sortedMap[K, V]) len() int { return m.size }

func (m sortedMap[K, V]) get(key K) (v V, ok bool) {
	n := m.root
	if n == nil {
		return v, false
	}
	for !n.isLeaf() {
		n = n.kids[n.childIndex(key, m.cmp)]
	}
	i, found := slices.BinarySearchFunc(n.keys, key, m.cmp)
	if !found {
		return v, false
	}
	return n.vals[i], true
}

// childIndex returns the child whose range holds key.
func (n *treeNode[K, V]) childIndex(key K, cmp func(a, b K) int) int {
	i, found := slices.BinarySearchFunc(n.keys, key, cmp)
	if !found && i > 0 {
		i--
	}
	return i
}

// from iterates in order over the entries with keys at or above start; over all when start is nil.
func (m sortedMap[K, V]) from(start *K) iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		if m.root != nil {
			m.root.walk(start, m.cmp, yield)
		}
	}
}

func (n *treeNode[K, V]) walk(start *K, cmp func(a, b K) int, yield func(K, V) bool) bool {
	if n.isLeaf() {
		i := 0
		if start != nil {
			i, _ = slices.BinarySearchFunc(n.keys, *start, cmp)
		}
		for ; i < len(n.keys); i++ {
			if !yield(n.keys[i], n.vals[i]) {
				return false
			}
		}
		return true
	}
	i := 0
	if start != nil {
		i = n.childIndex(*start, cmp)
	}
	for ; i < len(n.kids); i++ {
		if !n.kids[i].walk(start, cmp, yield) {
			return false
		}
		start = nil // everything to the right is above it
	}
	return true
}

// put sets key to v.
func (m sortedMap[K, V]) put(t *editToken, key K, v V) sortedMap[K, V] {
	if m.root == nil {
		m.root, m.size = &treeNode[K, V]{owner: t, keys: []K{key}, vals: []V{v}}, 1
		return m
	}
	n, right, added := m.root.put(t, m.cmp, key, v)
	if right != nil {
		n = &treeNode[K, V]{owner: t, keys: []K{n.keys[0], right.keys[0]}, kids: []*treeNode[K, V]{n, right}}
	}
	m.root = n
	if added {
		m.size++
	}
	return m
}

// editable returns the node itself when this batch owns it, else a copy that it owns.
func (n *treeNode[K, V]) editable(t *editToken) *treeNode[K, V] {
	if n.owner == t {
		return n
	}
	// Room for the one insertion that most copies are made for.
	c := &treeNode[K, V]{owner: t, keys: append(make([]K, 0, len(n.keys)+1), n.keys...)}
	if n.isLeaf() {
		c.vals = append(make([]V, 0, len(n.vals)+1), n.vals...)
	} else {
		c.kids = append(make([]*treeNode[K, V], 0, len(n.kids)+1), n.kids...)
	}
	return c
}

// put returns the changed node and, when it had to be split, its new right neighbour.
func (n *treeNode[K, V]) put(t *editToken, cmp func(a, b K) int, key K, v V) (self, right *treeNode[K, V], added bool) {
	n = n.editable(t)
	if n.isLeaf() {
		i, found := slices.BinarySearchFunc(n.keys, key, cmp)
		if found {
			n.vals[i] = v
			return n, nil, false
		}
		n.keys, n.vals = slices.Insert(n.keys, i, key), slices.Insert(n.vals, i, v)
		return n, n.split(t), true
	}
	i := n.childIndex(key, cmp)
	kid, kidRight, added := n.kids[i].put(t, cmp, key, v)
	n.kids[i] = kid
	if kidRight != nil {
		n.keys, n.kids = slices.Insert(n.keys, i+1, kidRight.keys[0]), slices.Insert(n.kids, i+1, kidRight)
	}
	return n, n.split(t), added
}

// split moves the upper part of an overfull node to a new one; nil when it is not overfull. Keys usually arrive in
// order (snapshots are sorted), so the left part keeps three quarters.
func (n *treeNode[K, V]) split(t *editToken) *treeNode[K, V] {
	if len(n.keys) <= maxTreeKeys {
		return nil
	}
	at := maxTreeKeys * 3 / 4
	r := &treeNode[K, V]{owner: t, keys: slices.Clone(n.keys[at:])}
	n.keys = cut(n.keys, at)
	if n.isLeaf() {
		r.vals = slices.Clone(n.vals[at:])
		n.vals = cut(n.vals, at)
	} else {
		r.kids = slices.Clone(n.kids[at:])
		n.kids = cut(n.kids, at)
	}
	return r
}

// cut shortens s to n elements in an array that holds no more than that.
func cut[T any](s []T, n int) []T { return append(make([]T, 0, n), s[:n]...) }

// remove deletes key; a missing one changes nothing.
func (m sortedMap[K, V]) remove(t *editToken, key K) sortedMap[K, V] {
	if _, ok := m.get(key); !ok {
		return m
	}
	m.root = m.root.remove(t, m.cmp, key)
	m.size--
	for m.root != nil && !m.root.isLeaf() && len(m.root.kids) == 1 {
		m.root = m.root.kids[0]
	}
	return m
}

// remove returns the node without key, which is there; nil when nothing is left.
func (n *treeNode[K, V]) remove(t *editToken, cmp func(a, b K) int, key K) *treeNode[K, V] {
	n = n.editable(t)
	if n.isLeaf() {
		i, _ := slices.BinarySearchFunc(n.keys, key, cmp)
		n.keys, n.vals = slices.Delete(n.keys, i, i+1), slices.Delete(n.vals, i, i+1)
	} else {
		i := n.childIndex(key, cmp)
		n.kids[i] = n.kids[i].remove(t, cmp, key)
		if n.kids[i] == nil {
			n.keys, n.kids = slices.Delete(n.keys, i, i+1), slices.Delete(n.kids, i, i+1)
		} else {
			n.mergeAround(t, i)
		}
	}
	if len(n.keys) == 0 {
		return nil
	}
	return n
}

// mergeAround joins child i with a neighbour when it has become small, so that deletions give memory back.
func (n *treeNode[K, V]) mergeAround(t *editToken, i int) {
	switch size := len(n.kids[i].keys); {
	case size > maxTreeKeys/4:
	case i > 0 && size+len(n.kids[i-1].keys) <= maxTreeKeys*3/4:
		n.merge(t, i-1)
	case i+1 < len(n.kids) && size+len(n.kids[i+1].keys) <= maxTreeKeys*3/4:
		n.merge(t, i)
	}
}

// merge appends child i+1 to child i.
func (n *treeNode[K, V]) merge(t *editToken, i int) {
	left, right := n.kids[i].editable(t), n.kids[i+1]
	if left.isLeaf() {
		left.keys = append(left.keys, right.keys...)
		left.vals = append(left.vals, right.vals...)
	} else {
		// The first key of an inner node is not kept up to date; the parent's bound for it is.
		left.keys = append(append(left.keys, n.keys[i+1]), right.keys[1:]...)
		left.kids = append(left.kids, right.kids...)
	}
	n.kids[i] = left
	n.keys, n.kids = slices.Delete(n.keys, i+1, i+2), slices.Delete(n.kids, i+1, i+2)
}
