package controller

import (
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/kbroker/kbroker/internal/metadata"
)

// sessions remembers when the active controller last heard of each broker. It is not part of the image: a new controller
// starts with a fresh session for everybody. It is for the loop's goroutine alone.
type sessions struct {
	// timeout is how long a broker may be silent.
	timeout time.Duration
	// local is the broker in this process, which is never fenced for silence (C5); -1 for none.
	local int32
	byID  map[int32]*session
}

// session is one registration's.
type session struct {
	epoch int64
	heard time.Time
	// offset is how much of the metadata log the broker has applied.
	offset int64
	// registered is the offset of its registration, MaxInt64 until that is committed. A broker that has not seen itself
	// registered is not caught up.
	registered atomic.Int64
	// leavingAt is the offset from which no other broker still sees it as a leader, -1 when it is not leaving. A broker
	// may stop once all others have got that far.
	leavingAt atomic.Int64
}

func newSessions(timeout time.Duration, local int32) *sessions {
	return &sessions{timeout: timeout, local: local, byID: map[int32]*session{}}
}

// reset gives every registered broker a fresh session.
func (s *sessions) reset(img *metadata.Image, now time.Time) {
	s.byID = map[int32]*session{}
	for b := range img.Brokers() {
		e := s.open(b.ID, b.Epoch, now)
		e.registered.Store(img.Offset()) // it was before, but nobody knows any more when
		if b.InControlledShutdown {
			e.leavingAt.Store(img.Offset())
		}
	}
}

// open begins a session.
func (s *sessions) open(id int32, epoch int64, now time.Time) *session {
	e := &session{epoch: epoch, heard: now, offset: -1}
	e.registered.Store(math.MaxInt64)
	e.leavingAt.Store(-1)
	s.byID[id] = e
	return e
}

// of returns the session of a registration, a new one when there is none.
func (s *sessions) of(id int32, epoch int64, now time.Time) *session {
	if e := s.byID[id]; e != nil && e.epoch == epoch {
		return e
	}
	return s.open(id, epoch, now)
}

// valid reports whether a registration's broker was heard of lately.
func (s *sessions) valid(id int32, epoch int64, now time.Time) bool {
	e := s.byID[id]
	return e != nil && e.epoch == epoch && now.Sub(e.heard) < s.timeout
}

// watched reports whether a broker can be fenced for silence.
func (s *sessions) watched(b *metadata.Broker) bool { return !b.Fenced && b.ID != s.local }

// expired returns the brokers that were silent for too long, by id.
func (s *sessions) expired(img *metadata.Image, now time.Time) []int32 {
	var ids []int32
	for b := range img.Brokers() {
		if s.watched(b) && now.Sub(s.of(b.ID, b.Epoch, now).heard) >= s.timeout {
			ids = append(ids, b.ID)
		}
	}
	return ids
}

// next returns when a session may end at the earliest; ok is false when no broker is watched.
func (s *sessions) next(img *metadata.Image, now time.Time) (at time.Time, ok bool) {
	for b := range img.Brokers() {
		if !s.watched(b) {
			continue
		}
		if end := s.of(b.ID, b.Epoch, now).heard.Add(s.timeout); !ok || end.Before(at) {
			at, ok = end, true
		}
	}
	return at, ok
}

// catchUp makes up for time in which this process did not run: it heard of nobody then, and that is nobody's fault but
// its own. due is when the loop wanted to wake up.
func (s *sessions) catchUp(due, now time.Time) {
	late := now.Sub(due)
	if late < s.timeout/4 {
		return
	}
	for _, e := range s.byID {
		e.heard = e.heard.Add(late)
	}
}

// lowestOffset returns how much of the log every living broker other than id has applied.
func (s *sessions) lowestOffset(img *metadata.Image, id int32, now time.Time) int64 {
	lowest := int64(math.MaxInt64)
	for b := range img.Brokers() {
		if b.ID != id && b.Eligible() {
			lowest = min(lowest, s.of(b.ID, b.Epoch, now).offset)
		}
	}
	return lowest
}

// forget drops the sessions of brokers that are registered no more.
func (s *sessions) forget(img *metadata.Image) {
	for id := range s.byID {
		if img.Broker(id) == nil {
			delete(s.byID, id)
		}
	}
}

// liveDirs returns dirs without those that are offline, sorted.
func liveDirs[T comparable](dirs, offline []T) []T {
	return slices.DeleteFunc(slices.Clone(dirs), func(d T) bool { return slices.Contains(offline, d) })
}
