package record

import (
	"encoding/binary"
	"fmt"
	"iter"
	"math"

	"github.com/kbroker/kbroker/internal/model"
)

// Rewriter makes the batches that compaction leaves behind: a batch with some of its records, with a delete horizon, or with
// none of its records. What identifies a batch in the log and to its producer stays (R4). It holds buffers that serve one
// batch after the other, so a pass needs one. Not safe for concurrent use.
//
//	for r, err := range w.Begin(batch) {
//		...
//		w.Keep(&r)
//	}
//	out, err = w.Finish(out, RewriteOptions{...})
type Rewriter struct {
	d       Decoder
	b       Batch
	payload []byte // plain, of b
	runs    []run  // of kept records
	kept    int32
	max     int64  // timestamp of the kept ones
	plain   []byte // kept records of which not all were, or with other time deltas
}

// run is a range of bytes in a payload.
type run struct{ from, to int }

// RewriteOptions says what else changes in a batch that is rewritten.
type RewriteOptions struct {
	// SetDeleteHorizon gives the batch DeleteHorizon, in ms, unless it has one: the clock of a tombstone starts once.
	SetDeleteHorizon bool
	DeleteHorizon    int64
	// ClearTransactional makes a data batch visible without a marker. Meant for decided transactions only.
	ClearTransactional bool
	// Level of the batch's codec; 0 is DefaultLevel.
	Level int
}

// NewRewriter returns a rewriter that unpacks at most limit bytes of one batch.
func NewRewriter(limit int) *Rewriter { return &Rewriter{d: Decoder{limit: limit}} }

// Begin starts with a batch and iterates over its records, as Batch.Records does. Records hold until the next Begin. After
// an error the batch must not be finished.
func (w *Rewriter) Begin(b Batch) iter.Seq2[Record, error] {
	w.b, w.payload, w.runs, w.kept, w.max = b, nil, w.runs[:0], 0, model.NoTimestamp
	return func(yield func(Record, error) bool) {
		var err error
		if w.payload, err = w.d.payload(b); err != nil {
			yield(Record{}, err)
			return
		}
		b.walk(w.payload, yield)
	}
}

// Keep takes a record over into the rewritten batch. Records must come in the order of the iteration, each once; they may
// come later than it.
func (w *Rewriter) Keep(r *Record) {
	if n := len(w.runs); n > 0 && w.runs[n-1].to == r.at {
		w.runs[n-1].to += len(r.raw)
	} else {
		w.runs = append(w.runs, run{r.at, r.at + len(r.raw)})
	}
	w.kept++
	w.max = max(w.max, r.Timestamp)
}

// Kept is the number of records taken over so far.
func (w *Rewriter) Kept() int32 { return w.kept }

// Finish appends the rewritten batch to dst. One that is kept whole is copied, not packed anew; one of which nothing is kept
// becomes an empty remnant (see AppendRemnant).
func (w *Rewriter) Finish(dst []byte, o RewriteOptions) ([]byte, error) {
	_, has := w.b.DeleteHorizon()
	stamp := o.SetDeleteHorizon && !has
	switch {
	case w.kept == 0:
		return AppendRemnant(dst, w.b, o.ClearTransactional), nil
	case w.kept == w.b.Count() && !stamp:
		return appendWhole(dst, w.b, o.ClearTransactional), nil
	}
	h, err := ParseHeader(w.b)
	if err != nil {
		return dst, err
	}
	h.Count = w.kept
	if !w.b.IsLogAppendTime() { // else it is the time of all records
		h.MaxTimestamp = w.max
	}
	if stamp {
		h.Attributes |= attrDeleteHorizon
		h.BaseTimestamp = o.DeleteHorizon
	}
	if o.ClearTransactional {
		h.Attributes &^= attrTransactional
	}
	if o.Level == 0 {
		o.Level = DefaultLevel
	}
	return w.pack(dst, h, o.Level)
}

// pack appends a batch of the kept records.
func (w *Rewriter) pack(dst []byte, h Header, level int) ([]byte, error) {
	records, err := w.records(h.BaseTimestamp)
	if err != nil {
		return dst, err
	}
	at := len(dst)
	dst = append(dst, make([]byte, HeaderSize)...)
	if dst, err = Compress(dst, w.b.Codec(), level, records); err != nil {
		return dst[:at], err
	}
	if len(dst)-at > math.MaxInt32 {
		return dst[:at], fmt.Errorf("the batch at offset %d would take %d bytes", h.BaseOffset, len(dst)-at)
	}
	seal(dst[at:], h)
	return dst, nil
}

// records returns the kept records, with time deltas for the given base.
func (w *Rewriter) records(base int64) ([]byte, error) {
	if base == w.b.BaseTimestamp() && len(w.runs) == 1 {
		return w.payload[w.runs[0].from:w.runs[0].to], nil
	}
	w.plain = w.plain[:0]
	for _, r := range w.runs {
		kept := w.payload[r.from:r.to]
		if base == w.b.BaseTimestamp() {
			w.plain = append(w.plain, kept...)
			continue
		}
		var rec Record
		for len(kept) > 0 {
			rest, err := w.b.next(kept, &rec)
			if err != nil {
				return nil, err
			}
			w.plain = appendMoved(w.plain, &rec, rec.Timestamp-base)
			kept = rest
		}
	}
	return w.plain, nil
}

// appendMoved appends a record with another time delta. The rest of it stays byte for byte.
func appendMoved(dst []byte, r *Record, timeDelta int64) []byte {
	_, n := binary.Varint(r.raw) // the record was read before: neither varint can be bad
	body := r.raw[n:]
	_, old := binary.Varint(body[1:])
	var delta [binary.MaxVarintLen64]byte
	size := binary.PutVarint(delta[:], timeDelta)
	dst = binary.AppendVarint(dst, int64(len(body)-old+size))
	dst = append(dst, body[0]) // attributes
	dst = append(dst, delta[:size]...)
	return append(dst, body[1+old:]...)
}

// appendWhole appends a copy of b.
func appendWhole(dst []byte, b Batch, clearTransactional bool) []byte {
	at := len(dst)
	dst = append(dst, b...)
	if clearTransactional && b.IsTransactional() {
		Batch(dst[at:]).ClearTransactional()
	}
	return dst
}

// AppendRemnant appends what stays of a batch without records when its offsets or its producer's last sequence must not
// vanish: a header with count 0, without base timestamp, delete horizon and codec. The other fields are those of b.
func AppendRemnant(dst []byte, b Batch, clearTransactional bool) []byte {
	at := len(dst)
	dst = append(dst, b[:HeaderSize]...)
	r := Batch(dst[at:])
	a := r.Attributes() &^ (attrCodec | attrDeleteHorizon)
	if clearTransactional {
		a &^= attrTransactional
	}
	r.setAttributes(a)
	binary.BigEndian.PutUint32(r[atLength:], HeaderSize-LogOverhead)
	binary.BigEndian.PutUint64(r[atBaseTimestamp:], math.MaxUint64) // -1, no timestamp
	binary.BigEndian.PutUint32(r[atCount:], 0)
	r.sum()
	return dst
}
