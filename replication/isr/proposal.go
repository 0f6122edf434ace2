package isr

import (
	"errors"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
)

// Member is a broker in a proposed ISR with the broker epoch that the leader knows it by.
type Member struct {
	Broker int32
	// Epoch is UnknownBrokerEpoch for a replica that has not fetched from this leader yet: the controller then does not
	// compare.
	Epoch int64
}

// Proposal is an AlterPartition for this partition; the leader recovery state in it is "recovered". The owner sends it
// until there is an answer, with back-off, and must not change it.
type Proposal struct {
	// ID is unique within the Leader; the answer carries it.
	ID                          uint64
	LeaderEpoch, PartitionEpoch int32
	ISR                         []Member
}

// propose makes the ISR pending (R7).
func (l *Leader) propose(isr []int32) *Proposal {
	l.proposals++
	p := &Proposal{ID: l.proposals, LeaderEpoch: l.epoch, PartitionEpoch: l.partEpoch, ISR: make([]Member, 0, len(isr))}
	for _, id := range isr {
		m := Member{id, UnknownBrokerEpoch}
		if id == l.o.Self {
			m.Epoch = l.o.SelfEpoch()
		} else if f := l.find(id); f != nil && f.heard {
			m.Epoch = f.brokerEpoch
		}
		p.ISR = append(p.ISR, m)
	}
	for i := range l.followers {
		l.followers[i].proposed = slices.Contains(isr, l.followers[i].id)
	}
	l.pending, l.uncertain = p, false
	return p
}

// Pending returns the proposal that has not been settled, or nil.
func (l *Leader) Pending() *Proposal { return l.pending }

// Answer is the controller's answer to a proposal. Err is nil or holds a *kerr.Error in its chain; any other error, such
// as a lost connection, means that nobody knows what became of the proposal.
type Answer struct {
	Err                         error
	LeaderEpoch, PartitionEpoch int32
	ISR                         []int32
}

// unsettled are the answers after which only newer metadata can say what the ISR is.
var unsettled = []*kerr.Error{
	kerr.UnknownTopicOrPartition, kerr.UnknownTopicID, kerr.FencedLeaderEpoch, kerr.InvalidUpdateVersion, kerr.InvalidRequest,
	kerr.NewLeaderElected,
}

// Answer applies the answer to the proposal with that id. It returns the proposal when it has to be sent again, after a
// back-off, and whether the committed ISR changed. Answers to other proposals change nothing (R7).
func (l *Leader) Answer(id uint64, a Answer) (resend *Proposal, changed bool) {
	if l.pending == nil || l.pending.ID != id {
		return nil, false
	}
	if a.Err == nil {
		return nil, l.commit(a)
	}
	for _, e := range unsettled {
		if errors.Is(a.Err, e) {
			return nil, false
		}
	}
	switch {
	case errors.Is(a.Err, kerr.IneligibleReplica), errors.Is(a.Err, kerr.OperationNotAttempted) && !l.uncertain:
		l.pending = nil
		return nil, false
	}
	l.uncertain = true
	return l.pending, false
}

// commit takes over the answered ISR. One of another leader epoch is not about this leadership; metadata will tell.
func (l *Leader) commit(a Answer) (changed bool) {
	if a.LeaderEpoch != l.epoch || a.PartitionEpoch < l.partEpoch {
		return false
	}
	changed = !slices.Equal(l.isr, a.ISR)
	l.partEpoch, l.pending = a.PartitionEpoch, nil
	l.setISR(a.ISR)
	return changed
}
