package server

import (
	"context"

	"golang.org/x/sync/semaphore"
)

// budget bounds the bytes of all frames that are in memory (queued.max.request.bytes). A nil budget has no bound.
type budget struct {
	size int64
	sem  *semaphore.Weighted
}

func newBudget(size int64) *budget {
	if size <= 0 {
		return nil
	}
	return &budget{size: size, sem: semaphore.NewWeighted(size)}
}

// cost is what a frame takes: one larger than everything waits until it is alone.
func (b *budget) cost(n int) int64 { return min(int64(n), b.size) }

// take waits until there is room for a frame of n bytes.
func (b *budget) take(ctx context.Context, n int) error {
	if b == nil {
		return nil
	}
	return b.sem.Acquire(ctx, b.cost(n))
}

// give returns what take took.
func (b *budget) give(n int) {
	if b != nil {
		b.sem.Release(b.cost(n))
	}
}
