package broker

// wait is a parked request's place on one replica. Two kinds of request park: writers until the high watermark passes
// their last record, readers until there is more to read.
type wait[T any] struct {
	next, prev *wait[T]
	parked     bool
	v          T
}

// waitList holds what is parked on a replica in the order of arrival. It is intrusive, so that a request that times out
// leaves its place in constant time and an idle partition pays two nil pointers.
//
// It is guarded by the replica's wait lock. Nothing is called while that lock is held: what has to wake up is taken out
// first (take, collect), because waking reads logs and runs callbacks that may park again.
type waitList[T any] struct{ head, tail *wait[T] }

func (l *waitList[T]) empty() bool { return l.head == nil }

func (l *waitList[T]) push(w *wait[T]) {
	w.prev, w.next, w.parked = l.tail, nil, true
	if l.tail == nil {
		l.head = w
	} else {
		l.tail.next = w
	}
	l.tail = w
}

// remove takes w out; a no-op when it is not parked.
func (l *waitList[T]) remove(w *wait[T]) {
	if !w.parked {
		return
	}
	if w.prev == nil {
		l.head = w.next
	} else {
		w.prev.next = w.next
	}
	if w.next == nil {
		l.tail = w.prev
	} else {
		w.next.prev = w.prev
	}
	w.next, w.prev, w.parked = nil, nil, false
}

// take removes the waits that which names and returns what they hold.
func (l *waitList[T]) take(which func(T) bool) []T {
	var out []T
	for w := l.head; w != nil; {
		next := w.next
		if which(w.v) {
			l.remove(w)
			out = append(out, w.v)
		}
		w = next
	}
	return out
}

// all returns what the list holds and leaves it there.
func (l *waitList[T]) all() []T {
	var out []T
	for w := l.head; w != nil; w = w.next {
		out = append(out, w.v)
	}
	return out
}

// commit waits for the high watermark to reach upTo.
type commit struct {
	upTo int64 // exclusive end of the waiter's records
	// done runs once, with nil when the high watermark passed upTo and with the reason when it never will here. It runs
	// without locks held and must not block.
	done func(error)
}
