package isr

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

// The simulation: one partition on four brokers, a controller, late, lost and repeated messages, fencing, restarts that
// lose the end of a log. Whatever happens, what a leader's high watermark has passed is in the log of every broker that
// the controller may elect next; and when things calm down everybody is in sync again.

const simBrokers = 4

// image is the partition in the cluster metadata.
type image struct {
	leader      int32
	epoch, part int32
	isr         []int32
	brokers     [simBrokers + 1]Broker
}

func (im image) Broker(id int32) Broker { return im.brokers[id] }

type simBroker struct {
	id    int32
	log   []int // record ids
	hw    int64
	epoch int64
	view  int // index into sim.images
	l     *Leader
	o     Options
}

type simMessage struct {
	from  int32
	epoch int64 // the sender's broker epoch: a connection dies with its process
	p     *Proposal
}

type simAnswer struct {
	to    int32
	epoch int64
	id    uint64
	a     Answer
}

type sim struct {
	r         *rand.Rand
	now       time.Time
	images    []image
	brokers   [simBrokers + 1]*simBroker
	requests  []simMessage
	answers   []simAnswer
	committed []int
	records   int
	fault     string
	trace     []string
}

func newSim(seed uint64) *sim {
	s := &sim{r: rand.New(rand.NewPCG(seed, 0)), now: time.Unix(0, 0)}
	im := image{leader: 1, epoch: 1, part: 1, isr: []int32{1, 2, 3, 4}}
	for id := int32(1); id <= simBrokers; id++ {
		im.brokers[id] = Broker{Epoch: int64(id), Alive: true}
		s.brokers[id] = &simBroker{id: id, epoch: int64(id), view: -1}
	}
	s.images = []image{im}
	for _, b := range s.brokers[1:] {
		b.o = Options{Self: b.id, SelfEpoch: func() int64 { return b.epoch }, Cluster: simCluster{s, b}, Lag: 30 * time.Second, Base: s.now}
		s.learn(b, false)
	}
	return s
}

// simCluster answers from the image that the broker has.
type simCluster struct {
	s *sim
	b *simBroker
}

func (c simCluster) Broker(id int32) Broker { return c.s.images[c.b.view].brokers[id] }

func (s *sim) note(format string, args ...any) {
	s.trace = append(s.trace, fmt.Sprintf(format, args...))
}

func (s *sim) image() *image { return &s.images[len(s.images)-1] }

// change makes a new image; the partition epoch grows with every change of the partition.
func (s *sim) change(f func(*image)) {
	im := *s.image()
	im.isr = slices.Clone(im.isr)
	leader, isr := im.leader, slices.Clone(im.isr)
	f(&im)
	if leader != im.leader {
		im.epoch++
	}
	if leader != im.leader || !slices.Equal(isr, im.isr) {
		im.part++
	}
	s.images = append(s.images, im)
	s.note("image %d: leader %d epoch %d/%d isr %v", len(s.images)-1, im.leader, im.epoch, im.part, im.isr)
}

func (im *image) assignment() Assignment {
	a := Assignment{LeaderEpoch: im.epoch, PartitionEpoch: im.part, ISR: im.isr}
	for id := int32(1); id <= simBrokers; id++ {
		a.Replicas = append(a.Replicas, Replica{id, 1})
	}
	return a
}

// learn brings a broker the next image, or the same one again.
func (s *sim) learn(b *simBroker, again bool) {
	if !again && b.view < len(s.images)-1 {
		b.view++
	}
	im := &s.images[b.view]
	switch {
	case im.leader != b.id:
		b.l = nil
	case b.l == nil:
		b.l = New(&b.o, 1, im.assignment(), int64(len(b.log)), s.now)
	default:
		b.l.Update(im.assignment(), int64(len(b.log)), s.now)
	}
	s.advance(b)
}

// advance moves a leader's high watermark and holds it against what was committed before.
func (s *sim) advance(b *simBroker) {
	if b.l == nil {
		return
	}
	b.hw = b.l.Advance(int64(len(b.log)), b.hw, s.now)
	done := b.log[:b.hw]
	shared := min(len(done), len(s.committed))
	if !slices.Equal(done[:shared], s.committed[:shared]) {
		s.fault = fmt.Sprintf("leader %d commits %v, but %v was committed before", b.id, done, s.committed)
	}
	if len(done) > len(s.committed) {
		s.note("leader %d commits up to %d", b.id, len(done))
		s.committed = slices.Clone(done)
	}
}

// check is the promise: whoever may be elected holds what is committed.
func (s *sim) check() {
	for _, id := range s.image().isr {
		if log := s.brokers[id].log; len(log) < len(s.committed) || !slices.Equal(log[:len(s.committed)], s.committed) {
			s.fault = fmt.Sprintf("broker %d in the ISR lacks committed records: %v of %v", id, log, s.committed)
		}
	}
}

// fetch lets a follower fetch from the leader of its image, when both are of the same epoch.
func (s *sim) fetch(b *simBroker, limit int) {
	im := &s.images[b.view]
	if im.leader == b.id || im.leader == 0 {
		return
	}
	leader := s.brokers[im.leader]
	if leader.l == nil {
		return
	}
	if le, _ := leader.l.Epochs(); le != im.epoch {
		return
	}
	common := 0
	for common < min(len(b.log), len(leader.log)) && b.log[common] == leader.log[common] {
		common++
	}
	if common < len(b.log) {
		b.log = b.log[:common] // the answer was a diverging epoch, which does not count as a fetch
		b.hw = min(b.hw, int64(common))
		return
	}
	p, err := leader.l.Fetched(Fetch{Replica: b.id, Incarnation: 1, BrokerEpoch: b.epoch, Offset: int64(len(b.log)), KnowsEpoch: true},
		int64(len(leader.log)), leader.hw, s.now)
	if err != nil {
		return
	}
	s.send(leader, p)
	s.advance(leader)
	to := min(len(leader.log), len(b.log)+limit)
	b.log = append(b.log, leader.log[len(b.log):to]...)
	b.hw = FollowerHighWatermark(leader.hw, int64(len(b.log)))
}

func (s *sim) send(b *simBroker, p *Proposal) {
	if p != nil {
		s.note("broker %d proposes %v in %d/%d", b.id, p.ISR, p.LeaderEpoch, p.PartitionEpoch)
		s.requests = append(s.requests, simMessage{b.id, b.epoch, p})
	}
}

// decide is the controller's part of AlterPartition.
func (s *sim) decide(m simMessage) Answer {
	im := s.image()
	switch {
	case m.p.LeaderEpoch != im.epoch || im.leader != m.from:
		return Answer{Err: kerr.FencedLeaderEpoch}
	case m.p.PartitionEpoch != im.part:
		return Answer{Err: kerr.InvalidUpdateVersion}
	}
	var isr []int32
	for _, member := range m.p.ISR {
		b := im.brokers[member.Broker]
		if !b.Alive || member.Epoch != UnknownBrokerEpoch && member.Epoch != b.Epoch {
			return Answer{Err: kerr.IneligibleReplica}
		}
		isr = append(isr, member.Broker)
	}
	s.change(func(im *image) { im.isr = isr })
	return Answer{LeaderEpoch: s.image().epoch, PartitionEpoch: s.image().part, ISR: isr}
}

// network delivers, loses, repeats or delays one request and one answer.
func (s *sim) network(loss int) {
	if len(s.requests) > 0 {
		i := s.r.IntN(len(s.requests))
		m := s.requests[i]
		fate := s.r.IntN(100)
		if fate >= loss/2 { // below: delivered, and once more later
			s.requests = slices.Delete(s.requests, i, i+1)
		}
		ans := Answer{Err: fmt.Errorf("lost")}
		if fate < loss/2 || fate >= loss {
			ans = s.decide(m)
			s.note("controller answers %d's proposal %d: %v", m.from, m.p.ID, ans.Err)
		}
		if s.r.IntN(100) < loss {
			ans = Answer{Err: fmt.Errorf("answer lost")}
		}
		s.answers = append(s.answers, simAnswer{m.from, m.epoch, m.p.ID, ans})
	}
	if len(s.answers) > 0 {
		i := s.r.IntN(len(s.answers))
		a := s.answers[i]
		s.answers = slices.Delete(s.answers, i, i+1)
		if b := s.brokers[a.to]; b.l != nil && b.epoch == a.epoch {
			again, _ := b.l.Answer(a.id, a.a)
			s.send(b, again)
			s.advance(b)
		}
	}
}

// fence takes a broker out, in the ISR only if somebody else is left there; elect finds a leader when there is none.
func (s *sim) fence(id int32) {
	s.change(func(im *image) {
		im.brokers[id].Alive = false
		if im.leader == id {
			im.leader = 0
		}
		if len(im.isr) > 1 {
			im.isr = slices.DeleteFunc(im.isr, func(m int32) bool { return m == id })
		}
	})
	s.elect()
}

func (s *sim) elect() {
	im := s.image()
	if im.leader != 0 {
		return
	}
	for _, id := range im.isr {
		if im.brokers[id].Alive {
			s.change(func(im *image) { im.leader = id })
			return
		}
	}
}

// restart loses the end of a log and comes back with a new broker epoch, which the controller knows at once: it takes
// the broker out of the ISR. A broker that is the last member is left alone, for its loss would be everybody's.
func (s *sim) restart(b *simBroker) {
	if im := s.image(); len(im.isr) == 1 && im.isr[0] == b.id {
		return
	}
	s.fence(b.id)
	b.log = b.log[:s.r.IntN(len(b.log)+1)]
	b.hw = min(b.hw, int64(len(b.log)))
	b.epoch += 100
	b.l = nil
	s.note("broker %d restarts with %d records", b.id, len(b.log))
	s.change(func(im *image) { im.brokers[b.id].Epoch = b.epoch })
	b.view = len(s.images) - 1
}

func (s *sim) step() {
	b := s.brokers[1+s.r.IntN(simBrokers)]
	switch s.r.IntN(20) {
	case 0:
		s.now = s.now.Add(time.Duration(s.r.IntN(25)) * time.Second)
		s.advance(b)
	case 1:
		if b.l != nil {
			s.send(b, b.l.Tick(int64(len(b.log)), s.now))
		}
	case 2:
		if s.image().brokers[b.id].Alive && s.r.IntN(4) == 0 {
			s.fence(b.id)
		}
	case 3, 4:
		if !s.image().brokers[b.id].Alive {
			s.change(func(im *image) { im.brokers[b.id].Alive = true })
			s.elect()
		}
	case 5:
		if s.r.IntN(4) == 0 {
			s.restart(b)
		}
	case 6, 7, 8:
		s.learn(b, false)
	case 9:
		s.learn(b, true)
	case 10, 11, 12:
		s.network(30)
	case 13, 14, 15:
		if b.l != nil {
			s.records++
			b.log = append(b.log, s.records)
			s.advance(b)
		}
	default:
		s.fetch(b, 1+s.r.IntN(3))
	}
	s.check()
}

// calm heals everything and gives it time.
func (s *sim) calm() {
	s.change(func(im *image) {
		for id := range im.brokers {
			im.brokers[id].Alive = id > 0
		}
	})
	s.elect()
	for range 400 {
		s.now = s.now.Add(time.Second)
		for _, b := range s.brokers[1:] {
			for b.view < len(s.images)-1 {
				s.learn(b, false)
			}
			s.fetch(b, 10)
			if b.l != nil {
				s.send(b, b.l.Tick(int64(len(b.log)), s.now))
			}
			s.network(0)
		}
		s.check()
	}
	im := s.image()
	if len(im.isr) != simBrokers {
		s.fault = fmt.Sprintf("the ISR is %v after everything healed", im.isr)
	}
	if l := s.brokers[im.leader]; l == nil || int(l.hw) != len(l.log) {
		s.fault = fmt.Sprintf("leader %d does not commit its whole log after everything healed", im.leader)
	}
}

func TestCommittedRecordsSurviveEveryElection(t *testing.T) {
	const seeds, steps = 300, 500
	committed, proposals := 0, uint64(0)
	for seed := range uint64(seeds) {
		s := newSim(seed)
		for range steps {
			if s.step(); s.fault != "" {
				break
			}
		}
		if s.fault == "" {
			s.calm()
		}
		if s.fault != "" {
			for _, line := range s.trace {
				t.Log(line)
			}
			t.Fatalf("seed %d: %s", seed, s.fault)
		}
		committed += len(s.committed)
		for _, b := range s.brokers[1:] {
			if b.l != nil {
				proposals += b.l.proposals
			}
		}
	}
	if committed < 10*seeds || proposals < seeds {
		t.Fatalf("only %d records were committed and %d proposals made: the simulation does too little", committed, proposals)
	}
}
