package api

import (
	"container/list"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/kbroker/kbroker/internal/broker"
)

// sessionGrace is how long a session cannot be pushed out by a bigger one after it was made, and how long it may lie
// unused before anybody may take its place. Kafka's value.
const sessionGrace = 2 * time.Minute

// sessionCache holds the fetch sessions of all connections, at most a fixed number. When it is full a new session takes
// the place of one unused for sessionGrace; a follower's, of any consumer's; a bigger one, of a smaller one older than
// sessionGrace. Otherwise the client gets no session and names all its partitions every time.
//
// The lock is held for a few map operations only; it comes before that of a session and never with it.
type sessionCache struct {
	slots int

	mu struct {
		sync.Mutex
		random   *rand.Rand
		byID     map[int32]*list.Element // values are *sessionEntry
		lru      *list.List              // least recently used first
		evicted  int64
		entities int64 // partitions of all sessions
	}
}

type sessionEntry struct {
	*session
	used time.Time
	// partitions is the size when the session was last used.
	partitions int
}

func newSessionCache(slots int, random *rand.Rand) *sessionCache {
	c := &sessionCache{slots: slots}
	c.mu.random = random
	c.mu.byID = map[int32]*list.Element{}
	c.mu.lru = list.New()
	return c
}

// sessionStats describes the cache for metrics.
type sessionStats struct {
	sessions, partitions, evicted int64
}

func (c *sessionCache) stats() sessionStats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return sessionStats{sessions: int64(len(c.mu.byID)), partitions: c.mu.entities, evicted: c.mu.evicted}
}

// fetchContext is one Fetch request on its way through a session.
type fetchContext struct {
	cache *sessionCache
	// parts is what to read, in order.
	parts []broker.FetchPartition
	// create says that the answer may found a session.
	create, privileged, usesIDs bool
	// session is set for incremental requests, with its partitions in the order of parts; epoch is that of the request.
	session *session
	cached  []*cachedPartition
	epoch   int32
}

// fetchStart is what a Fetch request says about its session.
type fetchStart struct {
	id, epoch int32
	usesIDs   bool
	follower  bool
	parts     []broker.FetchPartition
	forgotten []partitionKey
}

// begin finds out what a request is to read. The error is a *kerr.Error for the top of the answer.
func (c *sessionCache) begin(now time.Time, f fetchStart) (*fetchContext, error) {
	fc := &fetchContext{cache: c, parts: f.parts, privileged: f.follower, usesIDs: f.usesIDs, epoch: f.epoch}
	if f.epoch == initialEpoch || f.epoch == finalEpoch {
		if f.id != noSession {
			c.remove(f.id)
		}
		fc.create = f.epoch == initialEpoch
		return fc, nil
	}
	s := c.find(f.id)
	switch {
	case s == nil:
		return nil, kerr.FetchSessionIDNotFound
	case s.usesIDs != f.usesIDs:
		return nil, s.refuse(f.epoch)
	}
	all, cached, err := s.begin(f.epoch, f.parts, f.forgotten)
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		c.remove(s.id)
		return fc, nil
	}
	c.touch(s, now, len(all))
	fc.session, fc.parts, fc.cached = s, all, cached
	return fc, nil
}

// refuse answers a request that names topics in another way than its session. A wrong epoch is reported first.
func (s *session) refuse(epoch int32) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.epoch != epoch {
		return kerr.InvalidFetchSessionEpoch
	}
	return kerr.FetchSessionTopicIDError
}

// finish takes the results and says what goes into the answer: the session's id, and which results (all when include is
// nil). The error is a *kerr.Error for the top of the answer.
func (fc *fetchContext) finish(now time.Time, results []broker.FetchedPartition) (id int32, include []bool, err error) {
	if fc.session != nil {
		include, err = fc.session.finish(fc.epoch, fc.cached, results)
		return fc.session.id, include, err
	}
	if fc.create {
		id = fc.cache.create(now, fc, results)
	}
	return id, nil, nil
}

// create founds a session on a full answer, if there is room.
func (c *sessionCache) create(now time.Time, fc *fetchContext, results []broker.FetchedPartition) int32 {
	if c.slots <= 0 {
		return noSession
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.mu.byID) >= c.slots && !c.evictLocked(now, fc.privileged, len(fc.parts)) {
		return noSession
	}
	id := c.newIDLocked()
	s := newSession(id, fc.usesIDs, fc.privileged, now)
	for i := range fc.parts {
		s.putLocked(&fc.parts[i]).update(&results[i]) // nobody else can know s yet
	}
	e := &sessionEntry{session: s, used: now, partitions: len(s.mu.partitions)}
	c.mu.byID[id] = c.mu.lru.PushBack(e)
	c.mu.entities += int64(e.partitions)
	return id
}

func (c *sessionCache) newIDLocked() int32 {
	for {
		id := c.mu.random.Int32()
		if id != noSession && c.mu.byID[id] == nil {
			return id
		}
	}
}

// evictLocked makes room for a session of so many partitions and reports whether it could.
func (c *sessionCache) evictLocked(now time.Time, privileged bool, partitions int) bool {
	oldest := c.mu.lru.Front()
	if oldest == nil {
		return false
	}
	if now.Sub(oldest.Value.(*sessionEntry).used) > sessionGrace {
		c.dropLocked(oldest)
		c.mu.evicted++
		return true
	}
	var victim *list.Element
	for el := oldest; el != nil; el = el.Next() {
		e := el.Value.(*sessionEntry)
		evictable := now.Sub(e.created) > sessionGrace || privileged && !e.privileged
		if evictable && (victim == nil || e.lessThan(victim.Value.(*sessionEntry))) {
			victim = el
		}
	}
	if victim == nil {
		return false
	}
	v := victim.Value.(*sessionEntry)
	if v.privileged && !privileged || v.privileged == privileged && v.partitions >= partitions {
		return false
	}
	c.dropLocked(victim)
	c.mu.evicted++
	return true
}

// lessThan orders sessions by worth: consumers before followers, small before big.
func (e *sessionEntry) lessThan(o *sessionEntry) bool {
	if e.privileged != o.privileged {
		return o.privileged
	}
	if e.partitions != o.partitions {
		return e.partitions < o.partitions
	}
	return e.id < o.id
}

func (c *sessionCache) dropLocked(el *list.Element) {
	e := el.Value.(*sessionEntry)
	c.mu.lru.Remove(el)
	delete(c.mu.byID, e.id)
	c.mu.entities -= int64(e.partitions)
}

func (c *sessionCache) remove(id int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if el := c.mu.byID[id]; el != nil {
		c.dropLocked(el)
	}
}

func (c *sessionCache) find(id int32) *session {
	c.mu.Lock()
	defer c.mu.Unlock()
	if el := c.mu.byID[id]; el != nil {
		return el.Value.(*sessionEntry).session
	}
	return nil
}

// touch marks a session as used. It may have been evicted since it was found; then this request is its last.
func (c *sessionCache) touch(s *session, now time.Time, partitions int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	el := c.mu.byID[s.id]
	if el == nil {
		return
	}
	e := el.Value.(*sessionEntry)
	if e.session != s {
		return
	}
	c.mu.entities += int64(partitions - e.partitions)
	e.used, e.partitions = now, partitions
	c.mu.lru.MoveToBack(el)
}
