package controller

import (
	"slices"

	"github.com/kbroker/kbroker/internal/metadata"
	"github.com/kbroker/kbroker/internal/model"
)

// electionKind says how far an election may go.
type electionKind int8

const (
	// electAny keeps the present leader if it may lead, else takes the first replica that may.
	electAny electionKind = iota
	// electPreferred takes the first replica of the assignment if it may lead.
	electPreferred
	// electUnclean is electAny and, when nobody may lead, takes whoever lives.
	electUnclean
)

// partitionChange works out what happens to one partition when something about it, or about a broker, changes. Fill in
// the fields that change and call record. The rules are Kafka's, KIP-966 included:
//
//	ISR member that goes while the ISR is below min.insync.replicas  -> ELR: it still holds all that is committed
//	ISR empty                                                        -> a member of the ELR may lead
//	both empty                                                       -> the last leader may lead, as an unclean election
//	all of that in vain and unclean elections allowed                -> whoever lives may lead
type partitionChange struct {
	topic model.UUID
	index int32
	old   *metadata.Partition

	// The wanted state; start from newPartitionChange.
	isr, replicas, adding, removing []int32
	recovering                      bool
	// lost are replicas whose log can not be trusted to hold what it held: they are in no ISR or ELR afterwards.
	lost []int32

	election electionKind
	minISR   int
	elr      bool
	// mayLead tells whether a broker is fit to lead.
	mayLead func(broker int32) bool

	newELR, newLastKnown []int32
}

// newPartitionChange begins a change that wants nothing yet.
func (v *view) newPartitionChange(t *metadata.Topic, index int32) *partitionChange {
	p := t.Partitions[index]
	c := &partitionChange{
		topic: t.ID, index: index, old: p,
		isr: p.ISR, replicas: p.Replicas, adding: p.Adding, removing: p.Removing, recovering: p.Recovering,
		election: electAny, minISR: v.minISR(t.Name), elr: v.elrEnabled(),
		mayLead: func(broker int32) bool { return v.fit(p, broker) },
	}
	if v.uncleanElection(t.Name) {
		c.election = electUnclean
	}
	return c
}

// record returns the record that makes the change, nil when nothing changes.
func (c *partitionChange) record() *metadata.PartitionChangeRecord {
	r := &metadata.PartitionChangeRecord{TopicID: c.topic, Index: c.index, Leader: metadata.NoLeaderChange}
	c.completeReassignment()
	c.targetELR()
	clean := c.elect(r)
	if r.Leader == metadata.NoLeaderChange && !containsAll(c.replicas, c.old.Replicas) {
		r.Leader = c.old.Leader // followers that are gone must not fetch in this epoch any more
	}
	c.setELR(r, clean)
	c.setISR(r)
	c.setAssignment(r)
	if c.recovering != c.old.Recovering {
		r.Recovering = &c.recovering
	}
	if isNoChange(r) {
		return nil
	}
	return r
}

// completeReassignment ends a reassignment once every replica that shall stay is in the ISR.
func (c *partitionChange) completeReassignment() {
	if len(c.adding)+len(c.removing) == 0 {
		return
	}
	isr := without(c.isr, c.removing)
	replicas := without(c.replicas, c.removing)
	if len(isr) == 0 || !containsAll(isr, c.adding) || !containsAll(isr, replicas) {
		return
	}
	c.isr, c.replicas, c.adding, c.removing = isr, replicas, nil, nil
}

// targetELR works out who outside the ISR holds everything that is committed.
func (c *partitionChange) targetELR() {
	c.newELR, c.newLastKnown = c.old.ELR, c.old.LastKnownELR
	if !c.elr {
		return
	}
	if c.enough() {
		c.newELR, c.newLastKnown = nil, nil
		return
	}
	candidates := append(slices.Clone(c.old.ELR), c.old.ISR...)
	slices.Sort(candidates)
	candidates = slices.Compact(candidates)
	candidates = keepOnly(without(candidates, c.isr), c.replicas)
	c.newELR = without(candidates, c.lost)
	// Kept only for the time without a leader, see setELR.
	c.newLastKnown = nil
}

// enough reports whether the ISR is large enough to commit anything.
func (c *partitionChange) enough() bool { return len(c.isr) >= min(c.minISR, len(c.replicas)) }

// elect chooses the leader and reports whether nothing that is committed can be lost by it.
func (c *partitionChange) elect(r *metadata.PartitionChangeRecord) (clean bool) {
	leader, clean := c.choose()
	if leader == c.old.Leader && clean {
		return true
	}
	if leader != c.old.Leader {
		r.Leader = leader
	}
	if clean {
		if slices.Contains(c.newELR, leader) {
			c.isr, c.newELR = []int32{leader}, without(c.newELR, []int32{leader})
			if c.enough() {
				c.newELR = nil // the leader may commit alone from now on
			}
		}
		return true
	}
	c.isr = []int32{leader}
	c.recovering = true
	r.Leader = leader // also when it is the present one again: its log may have been cut
	return false
}

func (c *partitionChange) choose() (leader int32, clean bool) {
	if c.election == electPreferred && c.isValid(c.replicas[0]) {
		return c.replicas[0], true
	}
	if c.old.Leader != model.NoLeader && c.isValid(c.old.Leader) {
		return c.old.Leader, true
	}
	if i := slices.IndexFunc(c.replicas, c.isValid); i >= 0 {
		return c.replicas[i], true
	}
	if last, ok := c.lastLeader(); ok {
		return last, false
	}
	if c.election == electUnclean {
		if i := slices.IndexFunc(c.replicas, c.mayLead); i >= 0 {
			return c.replicas[i], false
		}
	}
	return model.NoLeader, true
}

// isValid reports whether a replica may lead without losing anything that is committed.
func (c *partitionChange) isValid(r int32) bool {
	in := slices.Contains(c.isr, r) || len(c.isr) == 0 && c.elr && slices.Contains(c.newELR, r)
	return in && slices.Contains(c.replicas, r) && c.mayLead(r)
}

// lastLeader returns the last resort before electing just anybody: nobody can have more than the last leader had.
func (c *partitionChange) lastLeader() (int32, bool) {
	if !c.elr || len(c.isr)+len(c.newELR) > 0 || len(c.old.LastKnownELR) != 1 {
		return 0, false
	}
	last := c.old.LastKnownELR[0]
	return last, slices.Contains(c.replicas, last) && c.mayLead(last)
}

func (c *partitionChange) setELR(r *metadata.PartitionChangeRecord, clean bool) {
	if !clean || !c.elr {
		c.newELR, c.newLastKnown = nil, nil
	}
	leaderless := r.Leader == model.NoLeader || r.Leader == metadata.NoLeaderChange && c.old.Leader == model.NoLeader
	if c.elr && leaderless {
		c.newLastKnown = keepOnly(c.old.LastKnownELR, c.replicas)
		if len(c.isr) == 0 && c.old.Leader != model.NoLeader && slices.Contains(c.replicas, c.old.Leader) {
			c.newLastKnown = []int32{c.old.Leader}
		}
	}
	if !slices.Equal(c.newELR, c.old.ELR) {
		r.ELR = present(c.newELR)
	}
	if !slices.Equal(c.newLastKnown, c.old.LastKnownELR) {
		r.LastKnownELR = present(c.newLastKnown)
	}
}

// setISR writes the ISR. Without an ELR an ISR never becomes empty: its last member is the only trace of who may lead.
func (c *partitionChange) setISR(r *metadata.PartitionChangeRecord) {
	if len(c.isr) == 0 && !c.elr {
		return
	}
	if !slices.Equal(c.isr, c.old.ISR) {
		r.ISR = present(c.isr)
	}
}

func (c *partitionChange) setAssignment(r *metadata.PartitionChangeRecord) {
	if !slices.Equal(c.replicas, c.old.Replicas) {
		r.Replicas = c.replicas
		r.Directories = make([]model.UUID, len(c.replicas))
		r.Incarnations = make([]int64, len(c.replicas))
		for i, b := range c.replicas {
			r.Directories[i], r.Incarnations[i] = c.old.Directory(b), c.old.Incarnation(b)
		}
	}
	if !slices.Equal(c.adding, c.old.Adding) {
		r.Adding = present(c.adding)
	}
	if !slices.Equal(c.removing, c.old.Removing) {
		r.Removing = present(c.removing)
	}
}

func isNoChange(r *metadata.PartitionChangeRecord) bool {
	return r.Leader == metadata.NoLeaderChange && r.Replicas == nil && r.ISR == nil && r.Adding == nil && r.Removing == nil &&
		r.ELR == nil && r.LastKnownELR == nil && r.Directories == nil && r.Incarnations == nil && r.Recovering == nil
}

// present makes an empty list differ from an absent one.
func present(s []int32) []int32 {
	if s == nil {
		return []int32{}
	}
	return s
}

func containsAll(set, members []int32) bool {
	for _, m := range members {
		if !slices.Contains(set, m) {
			return false
		}
	}
	return true
}

// without returns a copy of set less the given members, in order.
func without(set, members []int32) []int32 {
	var out []int32
	for _, s := range set {
		if !slices.Contains(members, s) {
			out = append(out, s)
		}
	}
	return out
}

// keepOnly returns a copy of set that holds only members of allowed.
func keepOnly(set, allowed []int32) []int32 {
	var out []int32
	for _, s := range set {
		if slices.Contains(allowed, s) {
			out = append(out, s)
		}
	}
	return out
}
