package coordrt

import "time"

// Timer is one deadline of a shard. It belongs to the object it is about (a member, a group) and is set and cancelled
// through the Timers of its shard. The zero value with Fire set is ready for use.
type Timer struct {
	// Fire runs when the deadline has passed, as an operation of the shard: what it returns is appended.
	Fire func(now time.Time) Result

	at  time.Time
	seq uint64
	pos int // position in the heap + 1, 0 when not set
}

// Armed reports whether the timer is set.
func (t *Timer) Armed() bool { return t.pos > 0 }

// Timers are the deadlines of one shard, a heap. Pure: somebody else looks at the clock. Not safe for concurrent use (C1).
// Deadlines that are equal fire in the order in which they were set.
type Timers struct {
	heap []*Timer
	seq  uint64
}

// Set makes t fire at the given time, instead of when it was set to before.
func (ts *Timers) Set(t *Timer, at time.Time) {
	ts.seq++
	t.at, t.seq = at, ts.seq
	if t.pos == 0 {
		ts.heap = append(ts.heap, t)
		t.pos = len(ts.heap)
		ts.up(t.pos - 1)
		return
	}
	ts.fix(t.pos - 1)
}

// Cancel makes t not fire; a no-op when it is not set.
func (ts *Timers) Cancel(t *Timer) {
	if t.pos == 0 {
		return
	}
	i, last := t.pos-1, len(ts.heap)-1
	t.pos = 0
	if i != last {
		ts.put(i, ts.heap[last])
	}
	ts.heap[last] = nil
	ts.heap = ts.heap[:last]
	if i != last {
		ts.fix(i)
	}
}

// Next returns the earliest deadline, false when no timer is set.
func (ts *Timers) Next() (time.Time, bool) {
	if len(ts.heap) == 0 {
		return time.Time{}, false
	}
	return ts.heap[0].at, true
}

// Pop takes out the earliest timer whose deadline has come, nil when there is none. The caller runs its Fire.
func (ts *Timers) Pop(now time.Time) *Timer {
	if len(ts.heap) == 0 || ts.heap[0].at.After(now) {
		return nil
	}
	t := ts.heap[0]
	ts.Cancel(t)
	return t
}

// Len is the number of timers that are set.
func (ts *Timers) Len() int { return len(ts.heap) }

func (ts *Timers) less(i, j int) bool {
	a, b := ts.heap[i], ts.heap[j]
	if a.at.Equal(b.at) {
		return a.seq < b.seq
	}
	return a.at.Before(b.at)
}

func (ts *Timers) put(i int, t *Timer) {
	ts.heap[i] = t
	t.pos = i + 1
}

func (ts *Timers) swap(i, j int) {
	a, b := ts.heap[i], ts.heap[j]
	ts.put(i, b)
	ts.put(j, a)
}

func (ts *Timers) fix(i int) {
	if !ts.down(i) {
		ts.up(i)
	}
}

func (ts *Timers) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !ts.less(i, parent) {
			return
		}
		ts.swap(i, parent)
		i = parent
	}
}

func (ts *Timers) down(i int) (moved bool) {
	for {
		child := 2*i + 1
		if child >= len(ts.heap) {
			return moved
		}
		if right := child + 1; right < len(ts.heap) && ts.less(right, child) {
			child = right
		}
		if !ts.less(child, i) {
			return moved
		}
		ts.swap(i, child)
		i, moved = child, true
	}
}
