package producer

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
)

// naive is the dumb version: the whole log, read from the start for every question.
type naive struct{ log []logged }

type logged struct {
	batch  Batch
	marker *Marker
}

// producer returns the epoch, the batches of that epoch (newest last) and the first offset of the open transaction.
func (m *naive) producer(id int64) (known bool, epoch int16, window []Batch, open int64) {
	open = -1
	for _, l := range m.log {
		if l.marker != nil {
			if l.marker.ProducerID == id {
				if known && l.marker.ProducerEpoch != epoch {
					window = nil
				}
				known, epoch, open = true, l.marker.ProducerEpoch, -1
			}
			continue
		}
		if l.batch.ProducerID != id {
			continue
		}
		if known && l.batch.ProducerEpoch != epoch {
			window = nil
		}
		known, epoch, window = true, l.batch.ProducerEpoch, append(window, l.batch)
		if l.batch.Transactional && open < 0 {
			open = l.batch.BaseOffset
		}
	}
	return known, epoch, window, open
}

// check answers for a client's batch: the duplicate's base offset or -1, and the error.
func (m *naive) check(b *Batch) (int64, error) {
	known, epoch, window, open := m.producer(b.ProducerID)
	for _, w := range window[max(0, len(window)-5):] {
		if w.ProducerEpoch == b.ProducerEpoch && w.BaseSequence == b.BaseSequence && w.LastOffset-w.BaseOffset == b.LastOffset-b.BaseOffset {
			return w.BaseOffset, nil
		}
	}
	next := int64(0)
	if len(window) > 0 {
		w := window[len(window)-1]
		next = (int64(w.BaseSequence) + w.LastOffset - w.BaseOffset + 1) % (math.MaxInt32 + 1)
	}
	switch {
	case known && b.ProducerEpoch < epoch:
		return -1, kerr.InvalidProducerEpoch
	case known && b.ProducerEpoch > epoch && b.BaseSequence != 0:
		return -1, kerr.OutOfOrderSequenceNumber
	case known && b.ProducerEpoch == epoch && int64(b.BaseSequence) != next:
		return -1, kerr.OutOfOrderSequenceNumber
	case open >= 0 && !b.Transactional:
		return -1, kerr.InvalidTxnState
	}
	return -1, nil
}

// lastStable looks for the oldest transaction without a marker below the high watermark.
func (m *naive) lastStable(hw int64) int64 {
	type span struct{ first, last int64 }
	var spans []span
	open := map[int64]int{}
	for _, l := range m.log {
		if l.marker != nil {
			if i, ok := open[l.marker.ProducerID]; ok {
				spans[i].last = l.marker.Offset
				delete(open, l.marker.ProducerID)
			}
			continue
		}
		if _, ok := open[l.batch.ProducerID]; l.batch.Transactional && !ok {
			open[l.batch.ProducerID] = len(spans)
			spans = append(spans, span{l.batch.BaseOffset, math.MaxInt64})
		}
	}
	for _, s := range spans { // in order of first offsets
		if s.last >= hw {
			return min(s.first, hw)
		}
	}
	return hw
}

func TestAgreesWithADumbModel(t *testing.T) {
	for seed := range uint64(150) {
		r := rand.New(rand.NewPCG(seed, 0))
		var s State
		var m naive
		end, hw := int64(0), int64(0)
		base := []int32{0, math.MaxInt32 - 5}[r.IntN(2)]
		for step := range 120 {
			name := fmt.Sprintf("seed %d, step %d", seed, step)
			if r.IntN(5) == 0 {
				mk := Marker{ProducerID: r.Int64N(3), ProducerEpoch: int16(r.IntN(3)), Commit: r.IntN(2) == 0, Offset: end}
				_, epoch, _, open := m.producer(mk.ProducerID)
				if s.CheckMarker(&mk) == nil {
					require.GreaterOrEqual(t, mk.ProducerEpoch, epoch, name)
					c, ended := s.AppendMarker(&mk)
					require.Equal(t, open >= 0, ended, name)
					if ended {
						require.Equal(t, []any{open, end, !mk.Commit}, []any{c.FirstOffset, c.LastOffset, c.Aborted}, name)
					}
					m.log = append(m.log, logged{marker: &mk})
					if ended {
						require.Equal(t, m.lastStable(end+1), c.LastStableOffset, name)
					}
					end++
				}
			} else {
				b := randomBatch(r, &m, base, end)
				wantDup, wantErr := m.check(&b)
				d, dup, err := s.Check(&b, Client, Verification{})
				require.True(t, errors.Is(err, wantErr), "%s: %v, want %v", name, err, wantErr)
				require.Equal(t, wantDup >= 0, dup, name)
				switch {
				case dup:
					require.Equal(t, wantDup, d.BaseOffset, name)
				case err == nil:
					s.Append(&b)
					m.log = append(m.log, logged{batch: b})
					end = b.LastOffset + 1
				}
			}
			hw += r.Int64N(end - hw + 1)
			require.Equal(t, m.lastStable(hw), s.LastStable(hw), name)
			checkInvariants(t, &s)
		}
		checkReplay(t, &m, &s)
	}
}

// randomBatch is right most of the time: in sequence, and transactional or not by producer.
func randomBatch(r *rand.Rand, m *naive, base int32, end int64) Batch {
	n := 1 + r.Int64N(4)
	b := Batch{ProducerID: r.Int64N(3), BaseOffset: end, LastOffset: end + n - 1}
	b.Transactional = b.ProducerID > 0 && r.IntN(10) > 0
	known, epoch, window, _ := m.producer(b.ProducerID)
	switch {
	case !known:
		b.BaseSequence = base
	case len(window) > 0:
		w := window[len(window)-1]
		b.ProducerEpoch, b.BaseSequence = epoch, addSequence(w.LastSequence(), 1)
	default:
		b.ProducerEpoch = epoch
	}
	switch r.IntN(8) {
	case 0:
		b.ProducerEpoch = int16(r.IntN(3))
	case 1:
		b.BaseSequence = int32(r.IntN(20))
	case 2:
		if len(window) > 0 {
			old := window[r.IntN(len(window))]
			b.BaseSequence, b.LastOffset = old.BaseSequence, end+old.LastOffset-old.BaseOffset
		}
	}
	return b
}

func checkInvariants(t *testing.T, s *State) {
	t.Helper()
	if s.t == nil {
		return
	}
	byFirst := func(a, b txn) int { return int(a.first - b.first) }
	require.True(t, slices.IsSortedFunc(s.t.open, byFirst))
	require.True(t, slices.IsSortedFunc(s.t.unreplicated, byFirst))
	n := 0
	for p := range s.All() {
		if p.TxnFirstOffset >= 0 {
			n++
			require.Contains(t, s.t.open, txn{producerID: p.ProducerID, first: p.TxnFirstOffset})
		}
	}
	require.Len(t, s.t.open, n)
}

// checkReplay: a follower that replays the log, or a broker that scans it after loading a snapshot taken anywhere, knows
// the same as the leader (P4).
func checkReplay(t *testing.T, m *naive, leader *State) {
	t.Helper()
	const forever = math.MaxInt64
	for from := range len(m.log) {
		var s State
		replay := func(log []logged) {
			for _, l := range log {
				if l.marker != nil {
					s.AppendMarker(l.marker)
				} else {
					s.Append(&l.batch)
				}
			}
		}
		replay(m.log[:from])
		require.NoError(t, s.Load(s.AppendSnapshot(nil), 0, forever))
		replay(m.log[from:])
		require.Equal(t, slices.Collect(leader.All()), slices.Collect(s.All()))
	}
}

// A partition of which there are many thousand must not pay for what it does not use, nor a hot one per batch.
func TestCosts(t *testing.T) {
	require.LessOrEqual(t, unsafe.Sizeof(State{}), uintptr(16))
	require.LessOrEqual(t, unsafe.Sizeof(entry{}), uintptr(160))

	var s State
	b := Batch{ProducerID: 1, Transactional: true}
	mk := Marker{ProducerID: 1, Commit: true}
	hw := int64(0)
	transaction := func() {
		for range 10 {
			if _, dup, err := s.Check(&b, Client, Verification{}); dup || err != nil {
				t.Fatal(dup, err)
			}
			s.Append(&b)
			b.BaseOffset++
			b.LastOffset++
			b.BaseSequence++
		}
		mk.Offset = b.BaseOffset
		if err := s.CheckMarker(&mk); err != nil {
			t.Fatal(err)
		}
		s.AppendMarker(&mk)
		b.BaseOffset++
		b.LastOffset++
		hw = b.BaseOffset
		s.LastStable(hw)
	}
	transaction()
	require.Zero(t, testing.AllocsPerRun(100, transaction))
}

func TestWhatIsForgottenCostsNothing(t *testing.T) {
	var s State
	require.True(t, s.Empty())
	s.AdvanceTo(5)
	require.Zero(t, s.Expire(1, 1))
	s.Append(&Batch{ProducerID: 1, Transactional: true})
	require.False(t, s.Empty())
	_, ended := s.AppendMarker(&Marker{ProducerID: 1, Offset: 1})
	require.True(t, ended)
	s.Expire(math.MaxInt64, 1)
	require.False(t, s.Empty(), "the marker is not replicated yet")
	s.AdvanceTo(2)
	require.Nil(t, s.t)
	_, ok := s.Get(1)
	require.False(t, ok)
}

// P1 is for clients: a coordinator never repeats an append that it was told had failed.
func TestOnlyClientsHaveDuplicates(t *testing.T) {
	var s State
	b := Batch{ProducerID: 1, LastOffset: 3}
	s.Append(&b)
	_, dup, err := s.Check(&b, Client, Verification{})
	require.NoError(t, err)
	require.True(t, dup)
	for _, o := range []Origin{Coordinator, Replication} {
		_, dup, err = s.Check(&b, o, Verification{})
		require.NoError(t, err)
		require.False(t, dup)
	}
}

func TestGet(t *testing.T) {
	var s State
	s.Append(&Batch{ProducerID: 7, ProducerEpoch: 2, BaseSequence: 3, BaseOffset: 10, LastOffset: 14, MaxTimestamp: 99, Transactional: true})
	p, ok := s.Get(7)
	require.True(t, ok)
	require.Equal(t, Info{
		ProducerID: 7, Epoch: 2, CoordinatorEpoch: -1, LastSequence: 7, LastOffset: 14, LastDelta: 4, LastTimestamp: 99, TxnFirstOffset: 10,
	}, p)
	for range s.All() {
		break // stopping early is allowed
	}
}
