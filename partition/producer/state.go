package producer

import (
	"cmp"
	"iter"
	"math"
	"slices"

	"github.com/kbroker/kbroker/internal/model"
)

// windowSize is how many batches a producer may have in flight and still be recognised when it repeats one.
const windowSize = 5

// Origin says who appends.
type Origin uint8

const (
	// Client is a Produce request: everything is checked.
	Client Origin = iota
	// Coordinator is a group or transaction coordinator on this broker: epochs are checked, sequences are not.
	Coordinator
	// Replication is a follower's copy, or the scan of a log that is opened: nothing is checked.
	Replication
)

// Batch is what the state needs from the header of a data batch (not a control batch) with a producer id.
type Batch struct {
	ProducerID    int64
	ProducerEpoch int16
	// BaseSequence is model.NoSequence in batches of coordinators.
	BaseSequence int32
	// BaseOffset and LastOffset are those in the log. Their distance is the header's last offset delta, also after
	// compaction, so it gives the last sequence too.
	BaseOffset, LastOffset int64
	// MaxTimestamp is in milliseconds.
	MaxTimestamp  int64
	Transactional bool
}

// LastSequence returns the sequence of the batch's last record.
func (b *Batch) LastSequence() int32 {
	if b.BaseSequence < 0 {
		return model.NoSequence
	}
	return addSequence(b.BaseSequence, b.LastOffset-b.BaseOffset)
}

// addSequence moves a sequence by d records; after math.MaxInt32 comes 0.
func addSequence(seq int32, d int64) int32 {
	const period = int64(math.MaxInt32) + 1
	return int32(((int64(seq)+d)%period + period) % period)
}

// Marker is the end of a transaction: a control batch that holds one COMMIT or ABORT record. The empty control batch that
// compaction may leave of one says nothing and must not be passed in.
type Marker struct {
	ProducerID       int64
	ProducerEpoch    int16
	CoordinatorEpoch int32
	Commit           bool
	// TransactionVersion is 0, 1 or 2 as in WriteTxnMarkers; it matters to CheckMarker only, the log does not keep it.
	TransactionVersion int16
	Offset             int64
	// Timestamp is in milliseconds.
	Timestamp int64
}

// Completed is a transaction that a marker has just ended.
type Completed struct {
	ProducerID int64
	// FirstOffset is that of its first batch, LastOffset that of the marker.
	FirstOffset, LastOffset int64
	// LastStableOffset is where readers of committed data may go once the marker is replicated: the first offset of the
	// next open transaction or the marker's successor. An aborted transaction's index entry holds it.
	LastStableOffset int64
	Aborted          bool
}

// Info describes one producer, for DescribeProducers, snapshots and the cleaner.
type Info struct {
	ProducerID int64
	Epoch      int16
	// CoordinatorEpoch is that of the last marker, -1 before the first.
	CoordinatorEpoch int32
	// LastSequence and LastOffset are of the last data batch, -1 when none of this epoch is known. LastDelta is the
	// distance of its offsets.
	LastSequence int32
	LastOffset   int64
	LastDelta    int32
	// LastTimestamp is of the last batch or marker, in milliseconds.
	LastTimestamp int64
	// TxnFirstOffset is the first offset of the open transaction, -1 without one.
	TxnFirstOffset int64
}

// State is a partition's producers. The zero value is empty and ready. It is not safe for concurrent use.
type State struct {
	t *table
	// guards counts the verifications ever begun, so that no guard is given out twice.
	guards uint64
}

// table is allocated with the first producer or verification and dropped with the last.
type table struct {
	producers     map[int64]*entry
	verifications map[int64]*verification
	// open and unreplicated are sorted by first offset.
	open, unreplicated []txn
}

type txn struct {
	producerID int64
	first      int64
	last       int64 // the marker; unreplicated ones only
}

type entry struct {
	window           [windowSize]lastBatch
	used, newest     uint8 // newest is the index of the youngest when used > 0
	epoch            int16
	coordinatorEpoch int32
	txnFirst         int64
	lastTimestamp    int64
}

type lastBatch struct {
	lastOffset, timestamp int64
	lastSequence, delta   int32
}

func (s *State) table() *table {
	if s.t == nil {
		s.t = &table{}
	}
	return s.t
}

func (s *State) find(id int64) *entry {
	if s.t == nil {
		return nil
	}
	return s.t.producers[id]
}

// entry returns the producer's entry and makes one of the given epoch when there is none.
func (s *State) entry(id int64, epoch int16) *entry {
	t := s.table()
	e := t.producers[id]
	if e == nil {
		if t.producers == nil {
			t.producers = map[int64]*entry{}
		}
		e = &entry{epoch: epoch, coordinatorEpoch: -1, txnFirst: -1}
		t.producers[id] = e
	}
	e.setEpoch(epoch)
	return e
}

// setEpoch forgets the window of another epoch: sequences begin anew.
func (e *entry) setEpoch(epoch int16) {
	if e.epoch != epoch {
		e.epoch, e.used, e.newest = epoch, 0, 0
	}
}

func (e *entry) push(b lastBatch) {
	if e.used > 0 {
		e.newest = (e.newest + 1) % windowSize
	}
	e.used = min(e.used+1, windowSize)
	e.window[e.newest] = b
}

// last returns the youngest batch; without one its fields are the snapshot's words for "none".
func (e *entry) last() lastBatch {
	if e.used == 0 {
		return lastBatch{lastSequence: model.NoSequence, lastOffset: -1, timestamp: model.NoTimestamp}
	}
	return e.window[e.newest]
}

// duplicate finds the batch with exactly this range of sequences (P1).
func (e *entry) duplicate(b *Batch) (lastBatch, bool) {
	if b.ProducerEpoch != e.epoch {
		return lastBatch{}, false
	}
	last := b.LastSequence()
	for i := range int(e.used) {
		w := e.window[i]
		if w.lastSequence == last && addSequence(w.lastSequence, -int64(w.delta)) == b.BaseSequence {
			return w, true
		}
	}
	return lastBatch{}, false
}

// Append records a data batch that the log has taken. It does not allocate for a producer that is known (P4, P5).
func (s *State) Append(b *Batch) {
	e := s.entry(b.ProducerID, b.ProducerEpoch)
	e.push(lastBatch{
		lastOffset: b.LastOffset, timestamp: b.MaxTimestamp,
		lastSequence: b.LastSequence(), delta: int32(b.LastOffset - b.BaseOffset),
	})
	e.lastTimestamp = b.MaxTimestamp
	if !b.Transactional {
		return
	}
	delete(s.t.verifications, b.ProducerID)
	if e.txnFirst < 0 {
		e.txnFirst = b.BaseOffset
		s.t.open = insert(s.t.open, txn{producerID: b.ProducerID, first: b.BaseOffset})
	}
}

// AppendMarker records a marker that the log has taken, and tells which transaction it ended: none when the producer had
// none open here. The caller puts an aborted one into the index.
func (s *State) AppendMarker(m *Marker) (Completed, bool) {
	e := s.entry(m.ProducerID, m.ProducerEpoch)
	e.coordinatorEpoch, e.lastTimestamp = m.CoordinatorEpoch, m.Timestamp
	s.endVerification(m)
	if e.txnFirst < 0 {
		return Completed{}, false
	}
	c := Completed{
		ProducerID: m.ProducerID, FirstOffset: e.txnFirst, LastOffset: m.Offset, LastStableOffset: m.Offset + 1,
		Aborted: !m.Commit,
	}
	e.txnFirst = -1
	s.t.open = slices.DeleteFunc(s.t.open, func(t txn) bool { return t.producerID == m.ProducerID })
	if len(s.t.open) > 0 {
		c.LastStableOffset = s.t.open[0].first
	}
	s.t.unreplicated = insert(s.t.unreplicated, txn{m.ProducerID, c.FirstOffset, c.LastOffset})
	return c, true
}

// insert keeps the order by first offset; nearly always that is an append.
func insert(list []txn, t txn) []txn {
	at, _ := slices.BinarySearchFunc(list, t, func(a, b txn) int { return cmp.Compare(a.first, b.first) })
	return slices.Insert(list, at, t)
}

// FirstUnstable returns the lowest offset whose fate is undecided or decided by a marker that is not known to be
// replicated, and false when there is none.
func (s *State) FirstUnstable() (int64, bool) {
	if s.t == nil {
		return 0, false
	}
	first := int64(math.MaxInt64)
	if len(s.t.open) > 0 {
		first = s.t.open[0].first
	}
	if len(s.t.unreplicated) > 0 {
		first = min(first, s.t.unreplicated[0].first)
	}
	return first, first != math.MaxInt64
}

// FirstOpen returns the first offset of the oldest open transaction, whatever is replicated.
func (s *State) FirstOpen() (int64, bool) {
	if s.t == nil || len(s.t.open) == 0 {
		return 0, false
	}
	return s.t.open[0].first, true
}

// AdvanceTo forgets the decided transactions whose marker lies below offset, the high watermark (or the log start, which
// is never above it).
func (s *State) AdvanceTo(offset int64) {
	if s.t == nil || len(s.t.unreplicated) == 0 {
		return
	}
	s.t.unreplicated = slices.DeleteFunc(s.t.unreplicated, func(t txn) bool { return t.last < offset })
	s.shrink()
}

// LastStable returns the last stable offset for a high watermark, which it makes known as AdvanceTo does.
func (s *State) LastStable(highWatermark int64) int64 {
	s.AdvanceTo(highWatermark)
	if first, ok := s.FirstUnstable(); ok {
		return min(first, highWatermark)
	}
	return highWatermark
}

// Reset forgets everything, before a reload or when the log begins anew.
func (s *State) Reset() { s.t = nil }

// Empty tells that no producer and no undecided transaction is known: truncating the log needs no reload.
func (s *State) Empty() bool {
	return s.t == nil || len(s.t.producers) == 0 && len(s.t.unreplicated) == 0
}

// Len returns the number of producers.
func (s *State) Len() int {
	if s.t == nil {
		return 0
	}
	return len(s.t.producers)
}

// shrink drops the table when nothing is left in it.
func (s *State) shrink() {
	if t := s.t; t != nil && len(t.producers) == 0 && len(t.verifications) == 0 && len(t.unreplicated) == 0 {
		s.t = nil
	}
}

// Expire forgets the producers without an open transaction (P8) and the verifications that have been silent for
// expirationMs at nowMs, and returns how many producers.
func (s *State) Expire(nowMs, expirationMs int64) int {
	if s.t == nil {
		return 0
	}
	before := len(s.t.producers)
	for id, e := range s.t.producers {
		if e.expired(nowMs, expirationMs) {
			delete(s.t.producers, id)
		}
	}
	for id, v := range s.t.verifications {
		if nowMs-v.startedMs >= expirationMs {
			delete(s.t.verifications, id)
		}
	}
	removed := before - len(s.t.producers)
	s.shrink()
	return removed
}

func (e *entry) expired(nowMs, expirationMs int64) bool {
	return e.txnFirst < 0 && nowMs-e.lastTimestamp >= expirationMs
}

// Late tells whether the oldest open transaction has been silent for more than limitMs at nowMs: its coordinator has
// lost track of it. A producer without a timestamp counts as not late.
func (s *State) Late(nowMs, limitMs int64) bool {
	if s.t == nil || len(s.t.open) == 0 {
		return false
	}
	e := s.t.producers[s.t.open[0].producerID]
	return e != nil && e.lastTimestamp > 0 && nowMs-e.lastTimestamp > limitMs
}

// Get returns what is known of one producer.
func (s *State) Get(id int64) (Info, bool) {
	e := s.find(id)
	if e == nil {
		return Info{}, false
	}
	return e.info(id), true
}

func (e *entry) info(id int64) Info {
	b := e.last()
	return Info{
		ProducerID: id, Epoch: e.epoch, CoordinatorEpoch: e.coordinatorEpoch, LastSequence: b.lastSequence,
		LastOffset: b.lastOffset, LastDelta: b.delta, LastTimestamp: e.lastTimestamp, TxnFirstOffset: e.txnFirst,
	}
}

// All iterates over the producers by ascending id. The state must not change meanwhile.
func (s *State) All() iter.Seq[Info] {
	return func(yield func(Info) bool) {
		for _, id := range s.ids() {
			if !yield(s.t.producers[id].info(id)) {
				return
			}
		}
	}
}

func (s *State) ids() []int64 {
	if s.Len() == 0 {
		return nil
	}
	ids := make([]int64, 0, len(s.t.producers))
	for id := range s.t.producers {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}
