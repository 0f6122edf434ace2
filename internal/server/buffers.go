package server

import (
	"math/bits"
	"sync"
)

const (
	smallestBuffer = 4 << 10
	// pooledFrom is the size from which buffers are kept in lists of our own: the garbage collector must not take them,
	// because touching fresh memory costs more than everything else that is done with a large frame.
	pooledFrom = 64 << 10
	// largestBuffer holds the largest frame that can be configured to be accepted and is common; larger ones are not kept.
	largestBuffer = 128 << 20
	// retainedBytes bounds the unused buffers that are kept.
	retainedBytes = 64 << 20
)

// bufferPool hands out buffers in sizes of powers of two. It is safe for concurrent use.
type bufferPool struct {
	small []sync.Pool // of *[]byte, below pooledFrom

	mu struct {
		sync.Mutex
		free     [][][]byte // by class, from pooledFrom on
		retained int
	}
}

// class returns the number of the smallest class that holds n bytes, counted from smallestBuffer.
func class(n int) int {
	if n <= smallestBuffer {
		return 0
	}
	return bits.Len(uint(n-1)) - bits.Len(uint(smallestBuffer-1))
}

func newBufferPool() *bufferPool {
	p := &bufferPool{small: make([]sync.Pool, class(pooledFrom))}
	p.mu.free = make([][][]byte, class(largestBuffer)-class(pooledFrom)+1)
	return p
}

// get returns a buffer of length n. The content is arbitrary.
func (p *bufferPool) get(n int) []byte {
	if b := p.take(n); b != nil {
		return b
	}
	if n > largestBuffer {
		return make([]byte, n)
	}
	return make([]byte, n, smallestBuffer<<class(n))
}

// take returns a used buffer of length n, or nil when there is none.
func (p *bufferPool) take(n int) []byte {
	c := class(n)
	if c < len(p.small) {
		if b, ok := p.small[c].Get().(*[]byte); ok {
			return (*b)[:n]
		}
		return nil
	}
	if n > largestBuffer {
		return nil
	}
	c -= len(p.small)
	p.mu.Lock()
	defer p.mu.Unlock()
	list := p.mu.free[c]
	if len(list) == 0 {
		return nil
	}
	b := list[len(list)-1]
	list[len(list)-1] = nil
	p.mu.free[c] = list[:len(list)-1]
	p.mu.retained -= cap(b)
	return b[:n]
}

// put takes back a buffer that get returned. Nobody may use it afterwards.
func (p *bufferPool) put(b []byte) {
	size := cap(b)
	c := class(size)
	if size > largestBuffer || size != smallestBuffer<<c {
		return
	}
	if c < len(p.small) {
		b = b[:size]
		p.small[c].Put(&b)
		return
	}
	c -= len(p.small)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.retained+size > retainedBytes {
		return
	}
	p.mu.retained += size
	p.mu.free[c] = append(p.mu.free[c], b)
}

// retained returns the bytes of the unused buffers that are kept.
func (p *bufferPool) retained() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.retained
}
