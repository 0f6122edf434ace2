package record

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/kbroker/kbroker/internal/model"
)

// RecordError is the complaint about one record of a batch, as Produce answers carry it from version 8 on.
type RecordError struct {
	Index   int32
	Message string
}

// RecordErrors is the error of a batch of which single records are refused. It wraps a *kerr.Error.
type RecordErrors struct {
	Code    *kerr.Error
	Message string
	Records []RecordError
}

// Error implements error.
func (e *RecordErrors) Error() string { return e.Message }

// Unwrap returns the code.
func (e *RecordErrors) Unwrap() error { return e.Code }

// ValidateOptions says what a topic demands of what clients append to it.
type ValidateOptions struct {
	// Partition names the place in error texts.
	Partition model.TopicPartition
	// Now is the broker's clock.
	Now time.Time
	// Compacted topics take only records with keys.
	Compacted bool
	// MaxMessageBytes bounds the batch as sent, compressed.
	MaxMessageBytes int32
	// MaxDecompressedBytes bounds what a compressed batch may hold.
	MaxDecompressedBytes int
	// LogAppendTime makes the broker stamp all records with Now.
	LogAppendTime bool
	// TimestampBeforeMax and TimestampAfterMax bound how far a record's own time may lie from Now; math.MaxInt64 is no bound.
	TimestampBeforeMax, TimestampAfterMax time.Duration
	// KeepCodec appends batches with whatever codec they came; otherwise they are converted to Codec at Level.
	KeepCodec bool
	Codec     Codec
	Level     int
	// ProduceVersion is the version of the Produce request; zstd needs 7.
	ProduceVersion int16
}

// Validated is a batch that may be appended.
type Validated struct {
	Batch Batch
	// Converted says that Batch is new memory and not the bytes that were given.
	Converted bool
	// LogAppendTime is the stamp in ms, -1 when the records keep their own times.
	LogAppendTime int64
}

// Validate checks what a client wants to append to one partition and prepares it in place: times and, where the topic
// demands it, the codec. Offsets are assigned later. The rules, their order and the codes are those of Kafka's
// ProduceRequest and LogValidator.
func Validate(recs []byte, o ValidateOptions) (Validated, error) {
	b, err := onlyBatch(recs, &o)
	if err != nil {
		return Validated{}, err
	}
	if err := checkHeader(b, &o); err != nil {
		return Validated{}, err
	}
	out := Validated{Batch: b, LogAppendTime: model.NoTimestamp}
	maxTime, err := checkRecords(b, &o)
	if err != nil {
		return Validated{}, err
	}
	if !o.KeepCodec && o.Codec != b.Codec() {
		if out.Batch, err = recompress(b, &o); err != nil {
			return Validated{}, err
		}
		out.Converted = true
		if int64(len(out.Batch)) > int64(o.MaxMessageBytes) {
			return Validated{}, tooLarge(out.Batch, &o)
		}
	}
	if o.LogAppendTime {
		out.LogAppendTime = o.Now.UnixMilli()
		out.Batch.SetLogAppendTime(out.LogAppendTime)
		return out, nil
	}
	out.Batch.setCreateTime(maxTime)
	return out, nil
}

// onlyBatch returns the one batch that a Produce request may hold for a partition.
func onlyBatch(recs []byte, o *ValidateOptions) (Batch, error) {
	if len(recs) == 0 {
		return nil, fmt.Errorf("produce requests must have exactly one record batch per partition, %s has none: %w", o.Partition, kerr.InvalidRecord)
	}
	if len(recs) > atMagic && recs[atMagic] != Magic {
		return nil, fmt.Errorf("%s: record batches of magic version %d are not allowed, only %d is: %w", o.Partition, int8(recs[atMagic]), Magic, kerr.InvalidRecord)
	}
	b, err := ParseBatch(recs)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", o.Partition, kerr.CorruptMessage, err)
	}
	if len(b) != len(recs) {
		return nil, fmt.Errorf("produce requests must have exactly one record batch per partition, %s has more: %w", o.Partition, kerr.InvalidRecord)
	}
	if b.Codec() == Zstd && o.ProduceVersion < 7 {
		return nil, fmt.Errorf("%s: zstd needs produce version 7, this is %d: %w", o.Partition, o.ProduceVersion, kerr.UnsupportedCompressionType)
	}
	return b, nil
}

func tooLarge(b Batch, o *ValidateOptions) error {
	return fmt.Errorf("the record batch of %d bytes for %s exceeds max.message.bytes of %d: %w", len(b), o.Partition, o.MaxMessageBytes, kerr.MessageTooLarge)
}

func checkHeader(b Batch, o *ValidateOptions) error {
	invalid := func(format string, args ...any) error {
		return fmt.Errorf("%s: %s: %w", o.Partition, fmt.Sprintf(format, args...), kerr.InvalidRecord)
	}
	if b.BaseOffset() != 0 {
		return invalid("the base offset of an appended batch should be 0, it is %d", b.BaseOffset())
	}
	if int64(len(b)) > int64(o.MaxMessageBytes) {
		return tooLarge(b, o)
	}
	if err := b.VerifyCRC(); err != nil {
		return fmt.Errorf("%s: %w: %w", o.Partition, kerr.CorruptMessage, err)
	}
	switch {
	case b.Count() <= 0:
		return invalid("the batch says that it has %d records", b.Count())
	case b.LastOffsetDelta() != b.Count()-1:
		return invalid("the batch has offsets 0..%d, but %d records", b.LastOffsetDelta(), b.Count())
	case b.IsControl():
		return invalid("clients are not allowed to write control records")
	case b.HasProducerID() && b.BaseSequence() < 0:
		return invalid("sequence number %d of producer %d is negative", b.BaseSequence(), b.ProducerID())
	case !b.Codec().known():
		return fmt.Errorf("%s: %s is unknown: %w", o.Partition, b.Codec(), kerr.UnsupportedCompressionType)
	}
	return nil
}

// checkRecords looks at every record and returns the largest of their times.
func checkRecords(b Batch, o *ValidateOptions) (maxTime int64, err error) {
	c := recordCheck{o: o, max: model.NoTimestamp, oldest: math.MinInt64, newest: math.MaxInt64}
	now := o.Now.UnixMilli()
	if !o.LogAppendTime {
		if o.TimestampBeforeMax != math.MaxInt64 {
			c.oldest = now - o.TimestampBeforeMax.Milliseconds()
		}
		if o.TimestampAfterMax != math.MaxInt64 {
			c.newest = now + o.TimestampAfterMax.Milliseconds()
		}
	}
	d := NewDecoder(o.MaxDecompressedBytes)
	defer d.Release()
	rest, err := d.payload(b)
	if err == nil {
		rest, err = c.walk(b, rest)
	}
	switch {
	case errors.Is(err, ErrTooLarge):
		return 0, fmt.Errorf("%s: %w: %w", o.Partition, kerr.MessageTooLarge, err)
	case err != nil:
		return 0, fmt.Errorf("%s: %w: %w", o.Partition, kerr.InvalidRecord, err)
	case len(rest) > 0:
		return 0, fmt.Errorf("%s: %d bytes behind the last of %d records: %w", o.Partition, len(rest), b.Count(), kerr.InvalidRecord)
	}
	return c.max, c.err()
}

// recordCheck gathers the complaints about the records of a batch.
type recordCheck struct {
	o              *ValidateOptions
	oldest, newest int64
	max            int64
	errs           []RecordError
	firstIsTime    bool
}

// walk looks at the records and returns what is left behind the last one. Those that nothing is wrong with, in general
// all, are not taken apart.
func (c *recordCheck) walk(b Batch, rest []byte) (left []byte, err error) {
	var (
		r          Record
		base       = b.BaseTimestamp()
		stamped    = b.IsLogAppendTime()
		lastDelta  = uint64(b.LastOffsetDelta())
		compressed = b.Codec() != None
	)
	for i := range b.Count() {
		h, ok := hopRecord(rest)
		t := base + h.timeDelta
		if stamped {
			t = b.MaxTimestamp()
		}
		fine := ok && uint64(h.offsetDelta) <= lastDelta && t >= c.oldest && t <= c.newest &&
			(!h.null || !c.o.Compacted) && (!compressed || h.offsetDelta == int64(i))
		if fine {
			c.max = max(c.max, t)
			rest = rest[h.size:]
			continue
		}
		if rest, err = b.next(rest, &r); err != nil {
			return nil, err
		}
		c.look(b, i, &r)
	}
	return rest, nil
}

func (c *recordCheck) look(b Batch, i int32, r *Record) {
	c.max = max(c.max, r.Timestamp)
	switch {
	case c.o.Compacted && r.Key == nil:
		c.add(i, fmt.Sprintf("Compacted topic cannot accept message without key in topic partition %s.", c.o.Partition), false)
	case r.Timestamp != model.NoTimestamp && (r.Timestamp < c.oldest || r.Timestamp > c.newest):
		c.add(i, fmt.Sprintf("Timestamp %d of message with offset %d is out of range. The timestamp should be within [%d, %d]",
			r.Timestamp, r.Offset, c.oldest, c.newest), true)
	case b.Codec() != None && r.Offset != int64(i):
		c.add(i, fmt.Sprintf("Inner record at offset %d inside the compressed record batch does not have incremental offsets, expected offset is %d in topic partition %s.",
			r.Offset, i, c.o.Partition), false)
	}
}

func (c *recordCheck) add(i int32, text string, isTime bool) {
	if len(c.errs) == 0 {
		c.firstIsTime = isTime
	}
	c.errs = append(c.errs, RecordError{Index: i, Message: text})
}

func (c *recordCheck) err() error {
	if len(c.errs) == 0 {
		return nil
	}
	if c.firstIsTime {
		return &RecordErrors{Code: kerr.InvalidTimestamp, Message: "One or more records have been rejected due to invalid timestamp", Records: c.errs}
	}
	return &RecordErrors{Code: kerr.InvalidRecord, Records: c.errs,
		Message: fmt.Sprintf("One or more records have been rejected due to %d record errors in total", len(c.errs))}
}

// recompress returns the batch with the topic's codec.
func recompress(b Batch, o *ValidateOptions) (Batch, error) {
	d := NewDecoder(o.MaxDecompressedBytes)
	defer d.Release()
	payload, err := d.payload(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", o.Partition, kerr.InvalidRecord, err)
	}
	out, err := Compress(make([]byte, HeaderSize, HeaderSize+len(payload)/2), o.Codec, o.Level, payload)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.Partition, err)
	}
	h, err := ParseHeader(b)
	if err != nil {
		return nil, err
	}
	h.Attributes = h.Attributes&^attrCodec | int16(o.Codec)
	return seal(out, h), nil
}
