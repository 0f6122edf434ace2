package quorum

import (
	"context"
	"sync"

	"github.com/kbroker/kbroker/internal/metadata"
)

// Subscriber is told of every new image, in log order and from one goroutine (Q5). Changes that come while it is busy
// are merged into one delta. It may block, but must not wait for a proposal or for WaitPublished.
type Subscriber func(img *metadata.Image, d *metadata.Delta)

// publisher hands images from the loop to the subscribers.
type publisher struct {
	mu struct {
		sync.Mutex
		// ready is set once the node has caught up; nothing is published before.
		ready  bool
		closed bool
		// newest is the last image put in, pending the change that leads to it from the last one published; nil when there
		// is none.
		newest  *metadata.Image
		pending *metadata.Delta
		// fresh are subscribers that have seen nothing yet.
		fresh     []Subscriber
		published int64
		// changed is closed and replaced when published or closed changes.
		changed chan struct{}
	}
	wake chan struct{} // of capacity 1
}

func (p *publisher) init() {
	p.wake = make(chan struct{}, 1)
	p.mu.newest = metadata.Empty()
	p.mu.published = -1
	p.mu.changed = make(chan struct{})
}

func (p *publisher) signal() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// put enters a new image; d leads to it from the image put in before.
func (p *publisher) put(img *metadata.Image, d *metadata.Delta) {
	p.mu.Lock()
	p.mu.newest = img
	if p.mu.pending != nil {
		d = p.mu.pending.Merge(d)
	}
	p.mu.pending = d
	p.mu.Unlock()
	p.signal()
}

func (p *publisher) opened() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.ready
}

// open lets the publisher begin.
func (p *publisher) open() {
	p.mu.Lock()
	p.mu.ready = true
	p.mu.Unlock()
	p.signal()
}

func (p *publisher) close() {
	p.mu.Lock()
	p.mu.closed = true
	close(p.mu.changed)
	p.mu.changed = make(chan struct{})
	p.mu.Unlock()
	p.signal()
}

// Subscribe adds a subscriber. Its first call brings the whole image as a change from the empty one. It can be called
// before Run and at any time during it, but not from a subscriber.
func (q *Quorum) Subscribe(fn Subscriber) {
	q.pub.mu.Lock()
	q.pub.mu.fresh = append(q.pub.mu.fresh, fn)
	q.pub.mu.Unlock()
	q.pub.signal()
}

// publish is the goroutine that calls the subscribers.
func (q *Quorum) publish() {
	var subscribers []Subscriber
	for range q.pub.wake {
		for {
			w, ok := q.pub.take()
			if !ok {
				break
			}
			if w.closed {
				return
			}
			for _, fn := range subscribers {
				if w.delta != nil {
					fn(w.img, w.delta)
				}
			}
			if len(w.fresh) > 0 {
				whole := metadata.Diff(metadata.Empty(), w.img)
				for _, fn := range w.fresh {
					fn(w.img, whole)
				}
				subscribers = append(subscribers, w.fresh...)
			}
			q.pub.didPublish(w.img.Offset())
		}
	}
}

// publication is one round of calls.
type publication struct {
	img    *metadata.Image
	delta  *metadata.Delta // nil when only fresh subscribers have something to see
	fresh  []Subscriber
	closed bool
}

func (p *publisher) take() (w publication, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.closed {
		return publication{closed: true}, true
	}
	if !p.mu.ready || p.mu.pending == nil && len(p.mu.fresh) == 0 {
		return publication{}, false
	}
	w = publication{img: p.mu.newest, delta: p.mu.pending, fresh: p.mu.fresh}
	p.mu.pending, p.mu.fresh = nil, nil
	return w, true
}

func (p *publisher) didPublish(offset int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.published = offset
	close(p.mu.changed)
	p.mu.changed = make(chan struct{})
}

// WaitPublished returns once every subscriber has returned from its call for the image at offset or a later one. It
// returns early with ctx's error or ErrClosed.
func (q *Quorum) WaitPublished(ctx context.Context, offset int64) error {
	for {
		q.pub.mu.Lock()
		published, closed, changed := q.pub.mu.published, q.pub.mu.closed, q.pub.mu.changed
		q.pub.mu.Unlock()
		if published >= offset {
			return nil
		}
		if closed {
			return ErrClosed
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
