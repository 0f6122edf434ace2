package api

import (
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/kbroker/kbroker/internal/broker"
	"github.com/kbroker/kbroker/internal/model"
)

// Fetch sessions (KIP-227): a client names its partitions once and from then on only what changes; the answer leaves out
// partitions about which there is nothing new.
//
//	request (id, epoch)    meaning
//	(0, 0)                 everything is named; make a session if there is room
//	(id, 0)                likewise, and forget session id
//	(x, -1)                everything is named; forget session x, make none
//	(id, n>0)              only changes; n must follow the epoch of the last answer

const (
	noSession    int32 = 0
	initialEpoch int32 = 0
	finalEpoch   int32 = -1
)

// nextEpoch returns the epoch of the request that follows one of epoch e. It wraps around to 1: 0 would start over.
func nextEpoch(e int32) int32 {
	switch {
	case e < 0:
		return finalEpoch
	case e == 1<<31-1:
		return 1
	}
	return e + 1
}

// partitionKey names a partition in a session, by topic name or by topic id as the client does.
type partitionKey struct {
	topic     broker.TopicRef
	partition int32
}

func keyOf(p *broker.FetchPartition) partitionKey {
	return partitionKey{topic: p.Topic, partition: p.Partition}
}

// cachedPartition is a partition of a session: what the client last asked, and what it was last told.
type cachedPartition struct {
	key           partitionKey
	request       broker.FetchPartition
	highWatermark int64
	logStart      int64
	prev, next    *cachedPartition
}

// session is the state of one fetch session.
type session struct {
	id         int32
	usesIDs    bool
	privileged bool // belongs to a follower
	created    time.Time

	mu struct {
		sync.Mutex
		// epoch is what the next request must carry.
		epoch int32
		// partitions are found by key and kept in a ring in the order in which they are read: the one that was served
		// last stands last, so that a small byte budget goes around.
		partitions map[partitionKey]*cachedPartition
		ring       cachedPartition // sentinel
	}
}

func newSession(id int32, usesIDs, privileged bool, now time.Time) *session {
	s := &session{id: id, usesIDs: usesIDs, privileged: privileged, created: now}
	s.mu.epoch = nextEpoch(initialEpoch)
	s.mu.partitions = map[partitionKey]*cachedPartition{}
	s.mu.ring.prev, s.mu.ring.next = &s.mu.ring, &s.mu.ring
	return s
}

// putLocked adds a partition, or takes over what the client changed about it.
func (s *session) putLocked(p *broker.FetchPartition) *cachedPartition {
	key := keyOf(p)
	c := s.mu.partitions[key]
	if c == nil {
		c = &cachedPartition{key: key, highWatermark: model.NoOffset, logStart: model.NoOffset}
		s.mu.partitions[key] = c
		s.pushLocked(c)
	}
	c.request = *p
	c.request.Err = nil // found for one request only
	return c
}

func (s *session) pushLocked(c *cachedPartition) {
	last := s.mu.ring.prev
	c.prev, c.next = last, &s.mu.ring
	last.next, s.mu.ring.prev = c, c
}

func (c *cachedPartition) unlink() {
	c.prev.next, c.next.prev = c.next, c.prev
}

func (s *session) forgetLocked(key partitionKey) {
	if c := s.mu.partitions[key]; c != nil {
		c.unlink()
		delete(s.mu.partitions, key)
	}
}

// begin takes the changes of an incremental request and returns what to read, with the cached partition of each. An empty
// session is dead afterwards: the request is answered as one without a session.
func (s *session) begin(epoch int32, changed []broker.FetchPartition, forgotten []partitionKey) (all []broker.FetchPartition, cached []*cachedPartition, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.epoch != epoch {
		return nil, nil, kerr.InvalidFetchSessionEpoch
	}
	for i := range changed {
		s.putLocked(&changed[i])
	}
	for _, key := range forgotten {
		s.forgetLocked(key)
	}
	s.mu.epoch = nextEpoch(epoch)
	all = make([]broker.FetchPartition, 0, len(s.mu.partitions))
	cached = make([]*cachedPartition, 0, len(s.mu.partitions))
	for c := s.mu.ring.next; c != &s.mu.ring; c = c.next {
		all, cached = append(all, c.request), append(cached, c)
	}
	return all, cached, nil
}

// finish decides which results an incremental answer must hold, given the epoch of its request and the partitions that
// begin returned. It fails when another request of the session was let in in between; only such a one changes the session.
func (s *session) finish(epoch int32, cached []*cachedPartition, results []broker.FetchedPartition) (include []bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.epoch != nextEpoch(epoch) {
		return nil, kerr.InvalidFetchSessionEpoch
	}
	include = make([]bool, len(results))
	for i := range results {
		c := cached[i]
		include[i] = c.update(&results[i])
		if results[i].Read.Len() > 0 {
			c.unlink()
			s.pushLocked(c)
		}
	}
	return include, nil
}

// update takes over what the client is about to be told and reports whether there is anything to tell.
func (c *cachedPartition) update(r *broker.FetchedPartition) bool {
	tell := r.Read.Len() > 0 || r.PreferredReadReplica >= 0 ||
		c.highWatermark != r.Read.HighWatermark || c.logStart != r.Read.LogStartOffset
	c.highWatermark, c.logStart = r.Read.HighWatermark, r.Read.LogStartOffset
	if r.Err != nil || r.DivergingEpoch >= 0 {
		// The next answer must name the partition again, to show that the trouble is over.
		c.highWatermark = model.NoOffset
		tell = true
	}
	return tell
}
