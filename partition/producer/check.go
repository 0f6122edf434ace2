package producer

import (
	"fmt"
	"math"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/kbroker/kbroker/internal/model"
)

// Guard identifies one verification of one producer's transaction (P7). The zero value verifies nothing.
type Guard uint64

// verification is the time between asking the coordinator whether a transaction is open and the append that relies on
// the answer. Any marker in between ends it.
type verification struct {
	guard     Guard
	startedMs int64
	// lowestSequence is the lowest seen meanwhile. A batch above it must wait for that one: its producer would otherwise
	// be told OUT_OF_ORDER_SEQUENCE_NUMBER for the lower one until its retries run out.
	lowestSequence int32
	epoch          int16
	// epochBump is set for producers of transaction version 2, whose epoch grows with every transaction.
	epochBump bool
}

// Duplicate is a batch that is in the log already.
type Duplicate struct {
	BaseOffset, LastOffset int64
	// Timestamp is the batch's maximum, in milliseconds.
	Timestamp int64
}

// Verification is how a leader treats the beginning of a transaction.
type Verification struct {
	// Required is the broker's transaction.partition.verification.enable.
	Required bool
	// Guard is what StartVerification returned for this request, if it was asked.
	Guard Guard
}

// Check tells whether a leader may append the batch: yes, no with the error for the client, or not again since it is a
// duplicate (then the second result is true). It changes nothing, so a batch that is not appended leaves no trace. A
// batch must be checked with the state after the one before it was appended.
func (s *State) Check(b *Batch, o Origin, v Verification) (Duplicate, bool, error) {
	if o == Replication {
		return Duplicate{}, false, nil
	}
	e := s.find(b.ProducerID)
	if e != nil && o == Client {
		if d, ok := e.duplicate(b); ok {
			return Duplicate{d.lastOffset - int64(d.delta), d.lastOffset, d.timestamp}, true, nil
		}
	}
	if e != nil && b.ProducerEpoch < e.epoch {
		return Duplicate{}, false, staleEpoch(b.ProducerID, b.ProducerEpoch, b.BaseOffset, e.epoch)
	}
	if err := s.checkVerified(e, b, v); err != nil {
		return Duplicate{}, false, err
	}
	if o == Client {
		if err := s.checkSequence(e, b); err != nil {
			return Duplicate{}, false, err
		}
	}
	if e != nil && e.txnFirst >= 0 && !b.Transactional { // P5
		return Duplicate{}, false, fmt.Errorf(
			"producer %d has an open transaction and wrote a batch outside of it for offset %d: %w",
			b.ProducerID, b.BaseOffset, kerr.InvalidTxnState)
	}
	return Duplicate{}, false, nil
}

func staleEpoch(id int64, epoch int16, offset int64, current int16) error {
	return fmt.Errorf("epoch %d of producer %d for offset %d is smaller than the last seen epoch %d: %w",
		epoch, id, offset, current, kerr.InvalidProducerEpoch)
}

// checkVerified applies P7.
func (s *State) checkVerified(e *entry, b *Batch, v Verification) error {
	if !b.Transactional || !v.Required || e != nil && e.txnFirst >= 0 && e.epoch == b.ProducerEpoch {
		return nil
	}
	if own := s.verification(b.ProducerID); own == nil || own.guard != v.Guard {
		return fmt.Errorf("the batch of producer %d for offset %d was not part of an ongoing transaction: %w",
			b.ProducerID, b.BaseOffset, kerr.InvalidTxnState)
	}
	return nil
}

// checkSequence applies P2. The epoch is not below the entry's.
func (s *State) checkSequence(e *entry, b *Batch) error {
	if v := s.verification(b.ProducerID); v != nil {
		if v.epochBump && b.BaseSequence != 0 && (e == nil || e.used == 0) {
			return fmt.Errorf("sequence %d of producer %d for offset %d: a producer of transaction version 2 without "+
				"state begins at 0: %w", b.BaseSequence, b.ProducerID, b.BaseOffset, kerr.OutOfOrderSequenceNumber)
		}
		if b.BaseSequence > v.lowestSequence {
			return fmt.Errorf("sequence %d of producer %d for offset %d comes before sequence %d, which was seen earlier: %w",
				b.BaseSequence, b.ProducerID, b.BaseOffset, v.lowestSequence, kerr.OutOfOrderSequenceNumber)
		}
	}
	if e == nil || e.epoch == model.NoProducerEpoch {
		return nil
	}
	if b.ProducerEpoch != e.epoch {
		if b.BaseSequence != 0 {
			return fmt.Errorf("sequence %d of producer %d for offset %d: the new epoch %d (now %d) begins at 0: %w",
				b.BaseSequence, b.ProducerID, b.BaseOffset, b.ProducerEpoch, e.epoch, kerr.OutOfOrderSequenceNumber)
		}
		return nil
	}
	if last := e.last().lastSequence; !follows(last, b.BaseSequence) {
		return fmt.Errorf("sequence %d of producer %d for offset %d does not follow the last one, %d: %w",
			b.BaseSequence, b.ProducerID, b.BaseOffset, last, kerr.OutOfOrderSequenceNumber)
	}
	return nil
}

func follows(last, next int32) bool {
	return int64(next) == int64(last)+1 || next == 0 && last == math.MaxInt32
}

// CheckMarker tells whether a leader may append the marker; an error is for the coordinator.
func (s *State) CheckMarker(m *Marker) error {
	e := s.find(m.ProducerID)
	if e == nil {
		return nil
	}
	if m.ProducerEpoch < e.epoch {
		return staleEpoch(m.ProducerID, m.ProducerEpoch, m.Offset, e.epoch)
	}
	repeated := e.txnFirst < 0 || m.ProducerEpoch == math.MaxInt16 // P6
	if m.TransactionVersion >= 2 && m.ProducerEpoch == e.epoch && !repeated {
		return fmt.Errorf("epoch %d of producer %d for the marker at offset %d is that of the open transaction; "+
			"transaction version 2 ends it with a higher one: %w",
			m.ProducerEpoch, m.ProducerID, m.Offset, kerr.InvalidProducerEpoch)
	}
	if m.CoordinatorEpoch < e.coordinatorEpoch {
		return fmt.Errorf("coordinator epoch %d for the marker of producer %d at offset %d is smaller than the last seen %d: %w",
			m.CoordinatorEpoch, m.ProducerID, m.Offset, e.coordinatorEpoch, kerr.TransactionCoordinatorFenced)
	}
	return nil
}

// StartVerification tells whether the coordinator has to be asked before a transactional batch may be appended, and
// returns the guard to pass to Check then. An epoch below the known one is an error already. EpochBump is set for
// requests of transaction version 2.
func (s *State) StartVerification(id int64, epoch int16, baseSequence int32, epochBump bool, nowMs int64) (Guard, bool, error) {
	if e := s.find(id); e != nil {
		if epoch < e.epoch {
			return 0, false, fmt.Errorf("epoch %d of producer %d is smaller than the last seen epoch %d: %w",
				epoch, id, e.epoch, kerr.InvalidProducerEpoch)
		}
		if e.txnFirst >= 0 && e.epoch == epoch {
			return 0, false, nil
		}
	}
	t := s.table()
	v := t.verifications[id]
	if v == nil {
		s.guards++
		v = &verification{
			guard: Guard(s.guards), startedMs: nowMs, lowestSequence: baseSequence, epoch: epoch, epochBump: epochBump,
		}
		if t.verifications == nil {
			t.verifications = map[int64]*verification{}
		}
		t.verifications[id] = v
	}
	switch {
	case epoch > v.epoch:
		v.epoch, v.lowestSequence = epoch, baseSequence
	case epoch == v.epoch:
		v.lowestSequence = min(v.lowestSequence, baseSequence)
	}
	return v.guard, true, nil
}

func (s *State) verification(id int64) *verification {
	if s.t == nil {
		return nil
	}
	return s.t.verifications[id]
}

// endVerification ends a verification at a marker: the transaction it asked about is over. With epoch bumps the marker
// carries the epoch that the next transaction uses, and a verification of that epoch is of that next one: it stays.
func (s *State) endVerification(m *Marker) {
	if v := s.verification(m.ProducerID); v != nil && (!v.epochBump || v.epoch != m.ProducerEpoch) {
		delete(s.t.verifications, m.ProducerID)
	}
}
