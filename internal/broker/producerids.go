package broker

import (
	"context"
	"fmt"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// producerIDs hands out producer ids from blocks that the controller gives this broker. No id is ever handed out twice,
// by any broker: a block belongs to one life of one broker, and what is left of it when the process ends is lost.
type producerIDs struct {
	mu struct {
		sync.Mutex
		next, end int64 // [next, end) is ours
		fetching  chan struct{}
	}
}

// NextProducerID returns an id that no producer has. It may have to ask the controller; then it waits until ctx ends.
func (b *Broker) NextProducerID(ctx context.Context) (int64, error) {
	p := &b.ids
	for {
		p.mu.Lock()
		if p.mu.next < p.mu.end {
			id := p.mu.next
			p.mu.next++
			p.mu.Unlock()
			return id, nil
		}
		if wait := p.mu.fetching; wait != nil {
			p.mu.Unlock()
			select {
			case <-wait: // somebody's block came, or failed to come: look again
				continue
			case <-ctx.Done():
				return 0, fmt.Errorf("no producer id in time: %w", kerr.RequestTimedOut)
			}
		}
		done := make(chan struct{})
		p.mu.fetching = done
		p.mu.Unlock()
		start, n, err := b.producerIDBlock(ctx)
		p.mu.Lock()
		if err == nil {
			p.mu.next, p.mu.end = start, start+n
		}
		p.mu.fetching = nil
		p.mu.Unlock()
		close(done)
		if err != nil {
			return 0, err
		}
	}
}

func (b *Broker) producerIDBlock(ctx context.Context) (start, n int64, err error) {
	req := kmsg.NewPtrAllocateProducerIDsRequest()
	req.BrokerID, req.BrokerEpoch = b.o.NodeID, b.epoch.Load()
	resp, err := b.o.Controller.Forward(ctx, req)
	if err != nil {
		return 0, 0, fmt.Errorf("no producer ids from the controller: %w: %w", kerr.CoordinatorNotAvailable, err)
	}
	r, ok := resp.(*kmsg.AllocateProducerIDsResponse)
	if !ok {
		return 0, 0, fmt.Errorf("the controller answered %T to AllocateProducerIDs: %w", resp, kerr.UnknownServerError)
	}
	if err := kerr.ErrorForCode(r.ErrorCode); err != nil {
		return 0, 0, fmt.Errorf("the controller refuses producer ids: %w: %w", kerr.CoordinatorLoadInProgress, err)
	}
	return r.ProducerIDStart, int64(r.ProducerIDLen), nil
}
