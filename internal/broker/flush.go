package broker

import (
	"context"
	"sync"
)

// flusher makes partitions durable in groups. Appends whose topic asks for a flush (flush.messages) put their partition
// into a set and wait; one goroutine per log directory syncs each partition of the set once and thereby answers every
// append that came before: the slower the disk, the larger the groups.
type flusher struct {
	wakeup chan struct{} // of capacity 1: a hint that the set is not empty

	mu struct {
		sync.Mutex
		dirty map[*replica]struct{}
	}
}

func newFlusher() *flusher {
	f := &flusher{wakeup: make(chan struct{}, 1)}
	f.mu.dirty = map[*replica]struct{}{}
	return f
}

// request asks for a flush of r. It does not block.
func (f *flusher) request(r *replica) {
	f.mu.Lock()
	f.mu.dirty[r] = struct{}{}
	f.mu.Unlock()
	select {
	case f.wakeup <- struct{}{}:
	default: // a wake-up is pending already and will see r
	}
}

func (f *flusher) take() map[*replica]struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.mu.dirty) == 0 {
		return nil
	}
	d := f.mu.dirty
	f.mu.dirty = make(map[*replica]struct{}, len(d))
	return d
}

// run flushes until ctx ends, then flushes once more what is left, since waiters are owed an answer.
func (f *flusher) run(ctx context.Context) {
	for {
		select {
		case <-f.wakeup:
		case <-ctx.Done():
		}
		for r := range f.take() {
			r.flush()
		}
		if ctx.Err() != nil {
			return
		}
	}
}
