package record

import (
	"encoding/binary"
	"fmt"

	"github.com/kbroker/kbroker/internal/model"
)

// The control record types that end a transaction.
const (
	controlAbort  int16 = 0
	controlCommit int16 = 1
)

// EndTxnMarker builds the control batch that ends a producer's transaction: one record whose key is {int16 version 0, int16
// type} and whose value is {int16 version 0, int32 coordinator epoch}.
func EndTxnMarker(producerID int64, producerEpoch int16, coordinatorEpoch int32, commit bool, timestamp int64) Batch {
	kind := controlAbort
	if commit {
		kind = controlCommit
	}
	key := binary.BigEndian.AppendUint16([]byte{0, 0}, uint16(kind))
	value := binary.BigEndian.AppendUint32([]byte{0, 0}, uint32(coordinatorEpoch))
	b := NewBuilder(Options{Idempotent: true, ProducerID: producerID, ProducerEpoch: producerEpoch, BaseSequence: model.NoSequence,
		Transactional: true, Control: true})
	b.Add(timestamp, key, value)
	batch, err := b.Finish()
	if err != nil {
		panic(fmt.Errorf("a marker of one record: %w", err)) // its size does not depend on the input
	}
	return batch
}

// ParseEndTxnMarker reads a control batch. ok is false for a batch that ends no transaction: an empty remnant, or a control
// type of another kind, which readers skip.
func ParseEndTxnMarker(b Batch) (commit bool, coordinatorEpoch int32, ok bool, err error) {
	if !b.IsControl() || b.Count() == 0 {
		return false, 0, false, nil
	}
	var r Record
	d := NewDecoder(maxMarkerBytes)
	defer d.Release()
	payload, err := d.payload(b)
	if err != nil {
		return false, 0, false, err
	}
	if _, err := b.next(payload, &r); err != nil {
		return false, 0, false, err
	}
	if len(r.Key) < 4 {
		return false, 0, false, fmt.Errorf("%w: control record at offset %d has a key of %d bytes", ErrCorrupt, b.BaseOffset(), len(r.Key))
	}
	kind := int16(binary.BigEndian.Uint16(r.Key[2:]))
	if kind != controlAbort && kind != controlCommit {
		return false, 0, false, nil
	}
	if len(r.Value) < 6 {
		return false, 0, false, fmt.Errorf("%w: marker at offset %d has a value of %d bytes", ErrCorrupt, b.BaseOffset(), len(r.Value))
	}
	return kind == controlCommit, int32(binary.BigEndian.Uint32(r.Value[2:])), true, nil
}

// maxMarkerBytes is far more than any control record takes.
const maxMarkerBytes = 4 << 10
