package coordrt

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/kbroker/kbroker/internal/model"
	"github.com/kbroker/kbroker/protocol/record"
)

const (
	// recordOverhead is more than the framing of a record takes beside key and value: six varints of at most ten bytes,
	// most of them of one.
	recordOverhead = 40
	// maxLoadedBatch bounds what one batch unpacks to while loading: far more than any coordinator writes, and what a
	// broken or foreign one may cost at most.
	maxLoadedBatch = 256 << 20
)

// chunk returns how many of the records fit into one batch of at most limit bytes, at least one. Limit 0 is none.
func chunk(recs []Record, limit int) int {
	size := record.HeaderSize
	for i, r := range recs {
		size += len(r.Key) + len(r.Value) + recordOverhead
		if i > 0 && limit > 0 && size > limit {
			return i
		}
	}
	return len(recs)
}

// buildBatch makes one batch. It is refused when it is larger than limit, which is the log's own limit: a batch of one
// that does not fit is an error here as it would be there. Limit 0 is none.
func buildBatch(recs []Record, txn *Producer, codec record.Codec, timestamp int64, limit int) (record.Batch, error) {
	o := record.Options{Codec: codec, BaseSequence: model.NoSequence}
	if txn != nil {
		o.Idempotent, o.Transactional = true, true
		o.ProducerID, o.ProducerEpoch = txn.ID, txn.Epoch
	}
	b := record.NewBuilder(o)
	for _, r := range recs {
		b.Add(timestamp, r.Key, r.Value)
	}
	batch, err := b.Finish()
	if err != nil {
		return nil, err
	}
	if limit > 0 && len(batch) > limit {
		return nil, fmt.Errorf("a batch of %d records takes %d bytes, the limit is %d: %w", len(recs), len(batch), limit, kerr.MessageTooLarge)
	}
	return batch, nil
}

// loaded counts what was replayed.
type loaded struct{ records, bytes int64 }

// replayBatches replays whole batches from offset from on; records below it are skipped.
func replayBatches(s Shard, batches []byte, from int64) (loaded, error) {
	var n loaded
	d := record.NewDecoder(maxLoadedBatch)
	defer d.Release()
	for b, err := range record.Split(batches) {
		if err != nil {
			return n, err
		}
		n.bytes += int64(len(b))
		if b.IsControl() {
			err = replayControl(s, b, from)
		} else {
			n.records, err = replayData(s, b, d, from, n.records)
		}
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

func position(b record.Batch, offset int64) Position {
	return Position{Offset: offset, Transactional: b.IsTransactional(), ProducerID: b.ProducerID(), ProducerEpoch: b.ProducerEpoch()}
}

func replayControl(s Shard, b record.Batch, from int64) error {
	commit, _, ok, err := record.ParseEndTxnMarker(b)
	if err != nil {
		return err
	}
	if ok && b.BaseOffset() >= from {
		s.ReplayMarker(position(b, b.BaseOffset()), commit)
	}
	return nil
}

func replayData(s Shard, b record.Batch, d *record.Decoder, from, count int64) (int64, error) {
	if b.Count() == 0 {
		return count, nil // the remnant of a batch whose records were all cleaned away
	}
	for r, err := range b.Records(d) {
		if err != nil {
			return count, err
		}
		if r.Offset < from {
			continue
		}
		if err := s.Replay(position(b, r.Offset), Record{Key: r.Key, Value: r.Value}); err != nil {
			return count, fmt.Errorf("record at offset %d: %w", r.Offset, err)
		}
		count++
	}
	return count, nil
}
