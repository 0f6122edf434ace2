package api

import (
	"errors"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/kbroker/kbroker/internal/metadata"
	"github.com/kbroker/kbroker/internal/model"
)

// endpoint is where a broker is reached by the clients of one listener.
type endpoint struct {
	id   int32
	host string
	port int32
	rack *string // nil for none
}

// endpointOf returns where a broker is reached; ok is false when it is unknown, fenced, or has no such listener.
func endpointOf(img *metadata.Image, id int32, listener string) (e endpoint, ok bool) {
	b := img.Broker(id)
	if b == nil || b.Fenced {
		return endpoint{}, false
	}
	return listenerOf(b, listener)
}

// listenerOf returns a broker's endpoint, fenced or not.
func listenerOf(b *metadata.Broker, listener string) (e endpoint, ok bool) {
	l, ok := b.Listener(listener)
	if !ok {
		return endpoint{}, false
	}
	e = endpoint{id: b.ID, host: l.Host, port: int32(l.Port)}
	if b.Rack != "" {
		e.rack = &b.Rack
	}
	return e, true
}

// controllerHint returns a broker that clients may send requests for the controller to: the active controller when it is
// such a broker, else the first one; all of them pass requests on. -1 when there is none.
func (s *Service) controllerHint(img *metadata.Image, listener string) int32 {
	if id, _ := s.Cluster.Leader(); id >= 0 {
		if _, ok := endpointOf(img, id, listener); ok {
			return id
		}
	}
	for b := range img.Brokers() {
		if _, ok := listenerOf(b, listener); ok && !b.Fenced {
			return b.ID
		}
	}
	return model.NoLeader
}

// leaderHints collects where the leaders are that an answer sends the client to (KIP-951).
type leaderHints struct {
	img      *metadata.Image
	listener string
	found    map[int32]endpoint // nil until the first
}

func newLeaderHints(img *metadata.Image, listener string) leaderHints {
	return leaderHints{img: img, listener: listener}
}

// useful reports whether an answer with this error should name the leader, and remembers its endpoint.
func (h *leaderHints) useful(err error, leader int32) bool {
	if err == nil || leader < 0 || !errors.Is(err, kerr.NotLeaderForPartition) && !errors.Is(err, kerr.FencedLeaderEpoch) {
		return false
	}
	if e, ok := endpointOf(h.img, leader, h.listener); ok {
		if h.found == nil {
			h.found = map[int32]endpoint{}
		}
		h.found[leader] = e
	}
	return true
}

// brokers lists the endpoints by id.
func (h *leaderHints) brokers() []endpoint {
	var out []endpoint
	for _, id := range slices.Sorted(maps.Keys(h.found)) {
		out = append(out, h.found[id])
	}
	return out
}
