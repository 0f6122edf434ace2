package api

import (
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/kbroker/kbroker/internal/metadata"
	"github.com/kbroker/kbroker/internal/model"
)

// topicView shows partitions to the clients of one listener.
type topicView struct {
	img      *metadata.Image
	listener string
	// known caches which brokers these clients can reach.
	known map[int32]bool
}

func newTopicView(img *metadata.Image, listener string) *topicView {
	return &topicView{img: img, listener: listener, known: map[int32]bool{}}
}

// reachable reports whether a broker is alive and has the listener.
func (v *topicView) reachable(broker int32) bool {
	ok, seen := v.known[broker]
	if !seen {
		_, ok = endpointOf(v.img, broker, v.listener)
		v.known[broker] = ok
	}
	return ok
}

// leader returns the leader that clients are told of. When they cannot reach it the error says why, and the leader is -1:
// the broker is gone, or it is there without this listener.
func (v *topicView) leader(p *metadata.Partition) (int32, error) {
	switch {
	case v.reachable(p.Leader):
		return p.Leader, nil
	case v.img.Broker(p.Leader) == nil || v.img.Broker(p.Leader).Fenced:
		return model.NoLeader, kerr.LeaderNotAvailable
	default:
		return model.NoLeader, kerr.ListenerNotFound
	}
}

// offline lists the replicas that cannot be reached or whose log directory has failed. Never nil.
func (v *topicView) offline(p *metadata.Partition) []int32 {
	out := []int32{}
	for _, r := range p.Replicas {
		if !v.reachable(r) || !hasDirectory(v.img.Broker(r), p.Directory(r)) {
			out = append(out, r)
		}
	}
	return out
}

// hasDirectory reports whether a broker's log directory is online. A replica whose directory is not known yet counts as
// being in one.
func hasDirectory(b *metadata.Broker, dir model.UUID) bool {
	if dir.IsZero() || len(b.LogDirs) == 0 {
		return true
	}
	for _, d := range b.LogDirs {
		if d == dir {
			return true
		}
	}
	return false
}

// alive returns the members of a list that can be reached.
func (v *topicView) alive(list []int32) []int32 {
	out := make([]int32, 0, len(list))
	for _, r := range list {
		if v.reachable(r) {
			out = append(out, r)
		}
	}
	return out
}

// filled returns an empty list for nil: lists of brokers are never null on the wire.
func filled(list []int32) []int32 {
	if list == nil {
		return []int32{}
	}
	return list
}
