package record

import (
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/kbroker/kbroker/internal/model"
)

func options() ValidateOptions {
	return ValidateOptions{
		Partition: model.TopicPartition{Topic: "t", Partition: 1}, Now: time.UnixMilli(2000), MaxMessageBytes: 1 << 20, MaxDecompressedBytes: 1 << 20,
		TimestampBeforeMax: math.MaxInt64, TimestampAfterMax: time.Hour, KeepCodec: true, ProduceVersion: 9,
	}
}

func TestAValidBatchStaysAsItIs(t *testing.T) {
	for c := None; c <= Zstd; c++ {
		b := build(t, 20, Options{Codec: c, Idempotent: true, ProducerID: 3, BaseSequence: 0})
		before := slices.Clone(b)
		v, err := Validate(b, options())
		require.NoError(t, err)
		require.False(t, v.Converted)
		require.Equal(t, before, v.Batch)
		require.Equal(t, model.NoTimestamp, v.LogAppendTime)
	}
}

func TestValidateRefuses(t *testing.T) {
	reseal := func(change func(Batch)) []byte {
		b := build(t, 3, Options{})
		change(b)
		b.sum()
		return b
	}
	plain := func() []byte { return build(t, 3, Options{}) }
	noKey := func() []byte {
		b := NewBuilder(Options{})
		b.Add(1, []byte("k"), nil)
		b.Add(1, nil, []byte("v"))
		b.Add(1, nil, []byte("v"))
		batch, err := b.Finish()
		require.NoError(t, err)
		return batch
	}()
	for _, c := range []struct {
		name    string
		recs    []byte
		o       func(*ValidateOptions)
		code    *kerr.Error
		records []int32
	}{
		{name: "nothing", code: kerr.InvalidRecord},
		{name: "two batches", recs: slices.Concat(plain(), plain()), code: kerr.InvalidRecord},
		{name: "torn", recs: plain()[:80], code: kerr.CorruptMessage},
		{name: "old format", recs: reseal(func(b Batch) { b[atMagic] = 1 }), code: kerr.InvalidRecord},
		{name: "checksum", recs: func() []byte { b := plain(); b[70] ^= 1; return b }(), code: kerr.CorruptMessage},
		{name: "base offset", recs: reseal(func(b Batch) { b.SetBaseOffset(5) }), code: kerr.InvalidRecord},
		{name: "control", recs: reseal(func(b Batch) { b.setAttributes(attrControl) }), code: kerr.InvalidRecord},
		{name: "codec", recs: reseal(func(b Batch) { b.setAttributes(5) }), code: kerr.UnsupportedCompressionType},
		{name: "count", recs: reseal(func(b Batch) { b[atCount+3] = 2 }), code: kerr.InvalidRecord},
		{name: "no records", recs: reseal(func(b Batch) { b[atCount+3] = 0 }), code: kerr.InvalidRecord},
		{name: "count and delta too many", recs: reseal(func(b Batch) { b[atCount+3], b[atLastOffsetDelta+3] = 4, 3 }), code: kerr.InvalidRecord},
		{name: "count and delta too few", recs: reseal(func(b Batch) { b[atCount+3], b[atLastOffsetDelta+3] = 2, 1 }), code: kerr.InvalidRecord},
		{name: "sequence", recs: build(t, 1, Options{Idempotent: true, ProducerID: 1, BaseSequence: -2}), code: kerr.InvalidRecord},
		{name: "too large", recs: plain(), o: func(o *ValidateOptions) { o.MaxMessageBytes = 70 }, code: kerr.MessageTooLarge},
		{name: "bomb", recs: build(t, 1000, Options{Codec: Zstd}), o: func(o *ValidateOptions) { o.MaxDecompressedBytes = 1000 }, code: kerr.MessageTooLarge},
		{name: "early zstd", recs: build(t, 1, Options{Codec: Zstd}), o: func(o *ValidateOptions) { o.ProduceVersion = 6 }, code: kerr.UnsupportedCompressionType},
		{name: "no key", recs: noKey, o: func(o *ValidateOptions) { o.Compacted = true }, code: kerr.InvalidRecord, records: []int32{1, 2}},
		{name: "old", recs: plain(), o: func(o *ValidateOptions) { o.TimestampBeforeMax = 999 * time.Millisecond }, code: kerr.InvalidTimestamp, records: []int32{0}},
		{name: "future", recs: plain(), o: func(o *ValidateOptions) { o.Now, o.TimestampAfterMax = time.UnixMilli(1000), time.Millisecond }, code: kerr.InvalidTimestamp, records: []int32{2}},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := options()
			if c.o != nil {
				c.o(&o)
			}
			_, err := Validate(c.recs, o)
			require.ErrorIs(t, err, c.code)
			var re *RecordErrors
			var indexes []int32
			if errors.As(err, &re) {
				for _, r := range re.Records {
					indexes = append(indexes, r.Index)
				}
			}
			require.Equal(t, c.records, indexes)
		})
	}
}

func TestLogAppendTimeStampsHeaderOnly(t *testing.T) {
	o := options()
	o.LogAppendTime = true
	o.TimestampBeforeMax = time.Nanosecond // the producers' times do not matter
	v, err := Validate(build(t, 3, Options{Codec: LZ4}), o)
	require.NoError(t, err)
	require.Equal(t, int64(2000), v.LogAppendTime)
	require.NoError(t, v.Batch.VerifyCRC())
	require.Equal(t, int64(2000), v.Batch.MaxTimestamp())
	require.Equal(t, int64(1000), v.Batch.BaseTimestamp())
}

func TestAWrongMaxTimestampIsCorrected(t *testing.T) {
	b := build(t, 3, Options{})
	b[atMaxTimestamp+7] ^= 0xff
	b.setAttributes(attrLogAppendTime)
	b.sum()
	v, err := Validate(b, options())
	require.NoError(t, err)
	require.NoError(t, v.Batch.VerifyCRC())
	require.False(t, v.Batch.IsLogAppendTime())
}

func TestTheTopicsCodecWins(t *testing.T) {
	for from := None; from <= Zstd; from++ {
		for to := None; to <= Zstd; to++ {
			o := options()
			o.KeepCodec, o.Codec, o.Level = false, to, DefaultLevel
			b := build(t, 50, Options{Codec: from, Idempotent: true, ProducerID: 8, ProducerEpoch: 1, BaseSequence: 4})
			want := flatten(t, b)
			v, err := Validate(b, o)
			require.NoError(t, err)
			require.Equal(t, from != to, v.Converted)
			require.NoError(t, v.Batch.VerifyCRC())
			require.Equal(t, to, v.Batch.Codec())
			require.Equal(t, want, flatten(t, v.Batch))
			require.Equal(t, []any{int64(8), int16(1), int32(4)}, []any{v.Batch.ProducerID(), v.Batch.ProducerEpoch(), v.Batch.BaseSequence()})
		}
	}
}

func FuzzValidate(f *testing.F) {
	for c := None; c <= Zstd; c++ {
		f.Add([]byte(build(f, 5, Options{Codec: c})))
	}
	f.Fuzz(func(t *testing.T, recs []byte) {
		o := options()
		o.Compacted, o.MaxDecompressedBytes = true, 1<<16
		v, err := Validate(recs, o)
		if err != nil {
			if ke := (*kerr.Error)(nil); !errors.As(err, &ke) {
				t.Fatalf("no Kafka error in %v", err)
			}
			return
		}
		if err := v.Batch.VerifyCRC(); err != nil {
			t.Fatal(err)
		}
	})
}
