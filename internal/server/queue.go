package server

import (
	"sync"
	"time"

	"github.com/kbroker/kbroker/internal/server/api"
)

const (
	// pendingRequests bounds the requests of a connection that are not answered yet. Clients keep 5 in flight, a few
	// (librdkafka) any number: those find the socket full.
	pendingRequests = 256
	// pendingBytes bounds the frames of these requests; one larger request alone is let through.
	pendingBytes = 32 << 20
)

// pending is a request that is not answered yet, or whose answer is not sent yet.
type pending struct {
	api      *api.API // nil for a version that is refused
	request  api.Request
	frame    frame
	size     int
	corr     int32
	tagged   bool // the response header has tagged fields
	received time.Time

	// Guarded by the queue.
	next     *pending
	answered bool
	reply    api.Reply
}

// overlaps reports whether the next request may be looked at before this one is answered.
func (p *pending) overlaps() bool { return p.api != nil && p.api.Overlaps }

// queue keeps the pending requests of a connection in order and says who may write to the socket. It does no I/O.
type queue struct {
	// changed wakes the reader when there is room or its turn has come; ready wakes the writer when the head is
	// answered. Both have capacity 1.
	changed, ready chan struct{}

	mu struct {
		sync.Mutex
		head, tail *pending
		requests   int
		bytes      int
		// blocking is the request that the next one has to wait for (S2).
		blocking *pending
		// writing is the write token; reading says that the reader is in the handler of the newest request.
		writing, reading bool
		closed           bool
	}
}

func newQueue() *queue {
	return &queue{changed: make(chan struct{}, 1), ready: make(chan struct{}, 1)}
}

func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// hasRoom reports whether a frame of n bytes may be read.
func (q *queue) hasRoom(n int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.mu.requests == 0 || q.mu.requests < pendingRequests && q.mu.bytes+n <= pendingBytes
}

// isTurn reports whether the next request may be handled (S2).
func (q *queue) isTurn() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.mu.blocking == nil
}

// isEmpty reports whether every request was answered and sent.
func (q *queue) isEmpty() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.mu.requests == 0 && !q.mu.writing
}

// isIdle reports whether the connection waits for its peer alone: for a request, or for room in the peer's socket.
func (q *queue) isIdle() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.mu.requests == 0 || q.mu.writing
}

// push enters a request and marks the reader as busy with it. It fails when the queue is closed.
func (q *queue) push(p *pending) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.mu.closed {
		return false
	}
	if q.mu.tail == nil {
		q.mu.head = p
	} else {
		q.mu.tail.next = p
	}
	q.mu.tail = p
	q.mu.requests++
	q.mu.bytes += p.size
	if !p.overlaps() {
		q.mu.blocking = p
	}
	q.mu.reading = true
	return true
}

// answer enters the answer of a request and wakes the writer if it is for it to send. It reports false when nobody will:
// the connection is gone and the caller keeps the reply.
func (q *queue) answer(p *pending, r api.Reply) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.mu.closed {
		return false
	}
	p.answered, p.reply = true, r
	// The reader looks at the head itself when it comes back from the handler of the newest request.
	readerLooks := q.mu.reading && q.mu.tail == p
	if q.mu.head == p && !q.mu.writing && !readerLooks {
		wake(q.ready)
	}
	return true
}

// handled ends what push began, and gives the write token to the reader when the head is answered.
func (q *queue) handled() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.mu.reading = false
	return q.tokenLocked()
}

// token gives the write token to the caller when the head is answered and nobody has it.
func (q *queue) token() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.tokenLocked()
}

func (q *queue) tokenLocked() bool {
	if q.mu.closed || q.mu.writing || q.mu.head == nil || !q.mu.head.answered {
		return false
	}
	q.mu.writing = true
	return true
}

// pop takes the head off when it is answered. Only the holder of the token may call it.
func (q *queue) pop() *pending {
	q.mu.Lock()
	defer q.mu.Unlock()
	p := q.mu.head
	if p == nil || !p.answered || q.mu.closed {
		return nil
	}
	if q.mu.head = p.next; q.mu.head == nil {
		q.mu.tail = nil
	}
	p.next = nil
	return p
}

// sent takes requests off the account, after their answers were written.
func (q *queue) sent(ps []*pending) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, p := range ps {
		q.mu.requests--
		q.mu.bytes -= p.size
		if q.mu.blocking == p {
			q.mu.blocking = nil
		}
	}
	wake(q.changed)
}

// yield gives the token back unless the head was answered meanwhile.
func (q *queue) yield() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.mu.closed && q.mu.head != nil && q.mu.head.answered {
		return false
	}
	q.mu.writing = false
	wake(q.changed)
	return true
}

// close ends the queue and returns what will not be sent: from now on nobody else does anything with these.
func (q *queue) close() []*pending {
	q.mu.Lock()
	defer q.mu.Unlock()
	var rest []*pending
	if !q.mu.closed {
		for p := q.mu.head; p != nil; p = p.next {
			rest = append(rest, p)
		}
	}
	q.mu.closed, q.mu.head, q.mu.tail = true, nil, nil
	return rest
}
