package controller

import (
	"math/rand/v2"
	"slices"

	"github.com/kbroker/kbroker/internal/metadata"
	"github.com/twmb/franz-go/pkg/kerr"
)

// placer spreads replicas over racks and brokers the way Kafka does:
//
//	           rack a     rack b     rack c
//	           1 2        3 4        5
//	p0         1          3          5        leader in rack a
//	p1         2          4          5        leader in rack b: order 4 5 2
//	p2         1          3          5        leader in rack c: order 5 1 3
//
// The leaders go round the racks, and round the brokers within each rack; the other replicas follow in the next racks,
// so that no rack gets a second one before every rack has one. The first replica is a broker that lives; the others may
// be fenced ones when there are not enough. After as many partitions as there are living brokers everything is shuffled,
// lest the same brokers meet in the same order again and again.
type placer struct {
	rng    *rand.Rand
	racks  []*placerRack
	alive  int
	total  int
	placed int // since the last shuffle
	rack   int // that gets the next leader
}

type placerRack struct {
	alive, fenced []int32
	// leads and follows count how often the rack was given the first replica and another one: its brokers take turns in
	// either role. One counter for both would move in step with the turns of the racks and favour some brokers.
	leads, follows int
	// start and taken are of the partition being placed.
	start, taken int
}

func newPlacer(img *metadata.Image, rng *rand.Rand) *placer {
	p := &placer{rng: rng}
	byName := map[string]*placerRack{}
	var names []string
	for b := range img.Brokers() {
		r := byName[b.Rack]
		if r == nil {
			r = &placerRack{}
			byName[b.Rack] = r
			names = append(names, b.Rack)
		}
		p.total++
		if b.Fenced {
			r.fenced = append(r.fenced, b.ID)
		} else {
			r.alive = append(r.alive, b.ID)
			p.alive++
		}
	}
	slices.Sort(names)
	for _, n := range names {
		r := byName[n]
		r.leads = rng.IntN(max(1, len(r.alive)))
		r.follows = rng.IntN(max(1, len(r.alive)))
		p.racks = append(p.racks, r)
	}
	if len(p.racks) > 0 {
		p.rack = rng.IntN(len(p.racks))
	}
	return p
}

// check tells whether that many replicas can be placed at all.
func (p *placer) check(factor int) error {
	switch {
	case factor > p.total:
		return refuse(kerr.InvalidReplicationFactor, "The target replication factor of %d cannot be reached because only "+
			"%d broker(s) are registered or some brokers have all their log directories cordoned.", factor, p.total)
	case p.alive == 0:
		return refuse(kerr.InvalidReplicationFactor, "All brokers are currently fenced, or have all their log directories cordoned.")
	}
	return nil
}

// next returns the replicas of the next partition. check must have passed.
func (p *placer) next(factor int) []int32 {
	if p.placed == p.alive {
		p.shuffle()
	}
	p.placed++
	leader := p.rack
	for len(p.racks[leader].alive) == 0 {
		leader = (leader + 1) % len(p.racks)
	}
	p.rack = (p.rack + 1) % len(p.racks)
	for i, r := range p.racks {
		r.taken, r.start = 0, r.follows
		if i == leader {
			r.start = r.leads
			r.leads++
		}
	}
	replicas := make([]int32, 0, factor)
	for at := leader; len(replicas) < factor; at = (at + 1) % len(p.racks) {
		if b, ok := p.racks[at].pick(); ok {
			replicas = append(replicas, b)
		}
	}
	for i, r := range p.racks {
		if i != leader && r.taken > 0 {
			r.follows++
		}
	}
	return replicas
}

// pick returns the next broker of this rack for the present partition: the living ones first.
func (r *placerRack) pick() (int32, bool) {
	n := r.taken
	r.taken++
	if n < len(r.alive) {
		return r.alive[(r.start+n)%len(r.alive)], true
	}
	if n -= len(r.alive); n < len(r.fenced) {
		return r.fenced[(r.start+n)%len(r.fenced)], true
	}
	return 0, false
}

func (p *placer) shuffle() {
	p.placed = 0
	p.rng.Shuffle(len(p.racks), func(i, j int) { p.racks[i], p.racks[j] = p.racks[j], p.racks[i] })
	for _, r := range p.racks {
		p.rng.Shuffle(len(r.alive), func(i, j int) { r.alive[i], r.alive[j] = r.alive[j], r.alive[i] })
		p.rng.Shuffle(len(r.fenced), func(i, j int) { r.fenced[i], r.fenced[j] = r.fenced[j], r.fenced[i] })
	}
}
