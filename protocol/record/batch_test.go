package record

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// build returns a batch of n records with keys k0.. and values v0.. at times 1000...
func build(t testing.TB, n int, o Options) Batch {
	t.Helper()
	b := NewBuilder(o)
	for i := range n {
		b.Add(int64(1000+i), fmt.Appendf(nil, "k%d", i), fmt.Appendf(nil, "v%d", i), KeyValue{[]byte("h"), []byte{byte(i)}}, KeyValue{Key: []byte("null")})
	}
	batch, err := b.Finish()
	require.NoError(t, err)
	return batch
}

type flat struct {
	offset, time int64
	key, value   string
	nulls        string
	headers      string
}

func flatten(t testing.TB, b Batch) []flat {
	t.Helper()
	d := NewDecoder(1 << 20)
	defer d.Release()
	var out []flat
	for r, err := range b.Records(d) {
		require.NoError(t, err)
		f := flat{offset: r.Offset, time: r.Timestamp, key: string(r.Key), value: string(r.Value), nulls: fmt.Sprint(r.Key == nil, r.Value == nil)}
		for h := range r.Headers() {
			f.headers += fmt.Sprintf("%s=%v;", h.Key, h.Value)
		}
		out = append(out, f)
	}
	return out
}

// The builder's bytes are read by franz-go's decoder of the same format, field by field.
func TestBuilderAgainstFranz(t *testing.T) {
	b := build(t, 3, Options{BaseOffset: 70, LeaderEpoch: 5, Idempotent: true, ProducerID: 9, ProducerEpoch: 2, BaseSequence: 40, Transactional: true})
	require.NoError(t, b.VerifyCRC())
	var k kmsg.RecordBatch
	require.NoError(t, k.ReadFrom(b))
	require.Equal(t, []any{int64(70), int32(5), int8(2), int16(0x10), int32(2), int64(1000), int64(1002), int64(9), int16(2), int32(40), int32(3)},
		[]any{k.FirstOffset, k.PartitionLeaderEpoch, k.Magic, k.Attributes, k.LastOffsetDelta, k.FirstTimestamp, k.MaxTimestamp, k.ProducerID, k.ProducerEpoch, k.FirstSequence, k.NumRecords})
	rest := k.Records
	for i := range 3 {
		r := kbin.Reader{Src: rest}
		n := int(r.Varint())
		size := len(rest) - len(r.Src) + n
		var rec kmsg.Record
		require.NoError(t, rec.ReadFrom(rest[:size]))
		require.Equal(t, fmt.Sprintf("k%d", i), string(rec.Key))
		require.Equal(t, fmt.Sprintf("v%d", i), string(rec.Value))
		require.Equal(t, "h", rec.Headers[0].Key)
		require.Nil(t, rec.Headers[1].Value)
		rest = rest[size:]
	}
	require.Empty(t, rest)
}

func TestEveryCodecRoundTrips(t *testing.T) {
	want := flatten(t, build(t, 100, Options{}))
	require.Len(t, want, 100)
	require.Equal(t, flat{3, 1003, "k3", "v3", "false false", "h=[3];null=[];"}, want[3])
	for c := None; c <= Zstd; c++ {
		for _, level := range []int{0, 1, 3} {
			b := build(t, 100, Options{Codec: c, Level: level})
			require.Equal(t, c, b.Codec())
			require.Equal(t, want, flatten(t, b), "%s level %d", c, level)
		}
	}
}

func TestSnappyOfOtherClientsIsPlain(t *testing.T) {
	src := []byte("hello hello hello hello")
	framed, err := Compress(nil, Snappy, 0, src)
	require.NoError(t, err)
	plain := framed[xerialHeader+4:] // one block: what clients without Java's stream format write
	out, err := Decompress([]byte("prefix-"), Snappy, plain, 100)
	require.NoError(t, err)
	require.Equal(t, "prefix-"+string(src), string(out))
}

func TestDecompressionStopsAtTheLimit(t *testing.T) {
	bomb := make([]byte, 8<<20)
	for c := None; c <= Zstd; c++ {
		packed, err := Compress(nil, c, DefaultLevel, bomb)
		require.NoError(t, err)
		out, err := Decompress(nil, c, packed, 1<<16)
		require.ErrorIs(t, err, ErrTooLarge, c)
		require.LessOrEqual(t, cap(out), 1<<18, "%s held %d bytes", c, cap(out))
		out, err = Decompress(nil, c, packed, len(bomb))
		require.NoError(t, err)
		require.Len(t, out, len(bomb))
	}
}

func TestDecompressGarbageIsCorrupt(t *testing.T) {
	for _, c := range []Codec{Gzip, Snappy, LZ4, Zstd, 5, 7} {
		_, err := Decompress(nil, c, []byte("this is not compressed at all"), 1000)
		require.ErrorIs(t, err, ErrCorrupt, c)
	}
	_, err := Decompress(nil, Snappy, append(append([]byte{}, xerial...), 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 99), 1000)
	require.ErrorIs(t, err, ErrCorrupt)
}

func TestSplitFindsEveryBatchAndNamesTheTornOne(t *testing.T) {
	a, b := build(t, 2, Options{}), build(t, 3, Options{BaseOffset: 2})
	buf := slices.Concat(a, b)
	var sizes []int
	for x, err := range Split(buf) {
		require.NoError(t, err)
		sizes = append(sizes, len(x))
	}
	require.Equal(t, []int{len(a), len(b)}, sizes)
	for cut := len(a) + 1; cut < len(buf); cut++ {
		var last error
		for _, err := range Split(buf[:cut]) {
			last = err
		}
		require.ErrorIs(t, last, ErrCorrupt)
		require.ErrorContains(t, last, fmt.Sprintf("at byte %d", len(a)))
	}
}

func TestParseHeaderRefusesWhatCannotBe(t *testing.T) {
	good := build(t, 2, Options{})
	for name, spoil := range map[string]func(Batch){
		"magic":        func(b Batch) { b[atMagic] = 1 },
		"short length": func(b Batch) { copy(b[atLength:], []byte{0, 0, 0, 48}) },
		"negative":     func(b Batch) { b[atLength] = 0xff },
		"delta":        func(b Batch) { b[atLastOffsetDelta] = 0xff },
		"offset":       func(b Batch) { b[0] = 0xff },
		"overflow":     func(b Batch) { copy(b, []byte{0x7f, 255, 255, 255, 255, 255, 255, 255}) },
		"count":        func(b Batch) { b[atCount] = 0xff },
	} {
		b := slices.Clone(good)
		spoil(b)
		_, err := ParseBatch(b)
		require.ErrorIs(t, err, ErrCorrupt, name)
	}
}

func TestStampsKeepTheChecksumValid(t *testing.T) {
	b := build(t, 2, Options{Idempotent: true, ProducerID: 1, Transactional: true})
	b.SetBaseOffset(1 << 40)
	b.SetLeaderEpoch(77)
	require.NoError(t, b.VerifyCRC())
	require.Equal(t, int64(1<<40+1), b.LastOffset())
	b.SetLogAppendTime(5000)
	require.NoError(t, b.VerifyCRC())
	for _, r := range flatten(t, b) {
		require.Equal(t, int64(5000), r.time)
	}
	b.ClearTransactional()
	require.NoError(t, b.VerifyCRC())
	require.False(t, b.IsTransactional())
	b[HeaderSize+3] ^= 1
	require.ErrorIs(t, b.VerifyCRC(), ErrCorrupt)
}

func TestSequencesWrap(t *testing.T) {
	b := build(t, 3, Options{Idempotent: true, ProducerID: 1, BaseSequence: 1<<31 - 2})
	require.Equal(t, int32(0), b.LastSequence())
	require.Equal(t, int32(-1), build(t, 3, Options{}).LastSequence())
}

func TestMarkers(t *testing.T) {
	for _, commit := range []bool{true, false} {
		m := EndTxnMarker(42, 7, 13, commit, 999)
		require.NoError(t, m.VerifyCRC())
		require.True(t, m.IsControl() && m.IsTransactional())
		require.Equal(t, []any{int64(42), int16(7), int32(-1), int64(999)}, []any{m.ProducerID(), m.ProducerEpoch(), m.BaseSequence(), m.MaxTimestamp()})
		got, epoch, ok, err := ParseEndTxnMarker(m)
		require.NoError(t, err)
		require.Equal(t, []any{commit, int32(13), true}, []any{got, epoch, ok})
	}
	_, _, ok, err := ParseEndTxnMarker(build(t, 1, Options{}))
	require.False(t, ok)
	require.NoError(t, err)
	_, _, _, err = ParseEndTxnMarker(build(t, 1, Options{Control: true}))
	require.ErrorIs(t, err, ErrCorrupt, "a key of two bytes")
}

func TestWalkingDoesNotAllocatePerRecord(t *testing.T) {
	for c := None; c <= Zstd; c++ {
		few, many := build(t, 10, Options{Codec: c}), build(t, 5000, Options{Codec: c})
		d := NewDecoder(1 << 20)
		walk := func(b Batch) func() {
			return func() {
				for _, err := range b.Records(d) {
					if err != nil {
						panic(err)
					}
				}
			}
		}
		walk(many)()
		a, b := testing.AllocsPerRun(20, walk(few)), testing.AllocsPerRun(20, walk(many))
		require.LessOrEqual(t, b, a+40, "%s", c) // codecs may allocate per block, never per record
		d.Release()
	}
}

func FuzzRecords(f *testing.F) {
	for c := None; c <= Zstd; c++ {
		f.Add([]byte(build(f, 5, Options{Codec: c})))
	}
	f.Add([]byte(EndTxnMarker(1, 2, 3, true, 4)))
	f.Fuzz(func(t *testing.T, buf []byte) {
		d := NewDecoder(1 << 16)
		defer d.Release()
		for b, err := range Split(buf) {
			if err != nil {
				return
			}
			n := int32(0)
			for r, err := range b.Records(d) {
				if err != nil {
					break
				}
				if n++; n > b.Count() {
					t.Fatalf("%d records of %d", n, b.Count())
				}
				for range r.Headers() { // only that it ends and does not panic
				}
			}
			_, _, _, _ = ParseEndTxnMarker(b)
			_ = b.LastSequence()
		}
	})
}

func BenchmarkWalk(b *testing.B) {
	batch := build(b, 8000, Options{})
	d := NewDecoder(1 << 20)
	b.SetBytes(int64(len(batch)))
	for b.Loop() {
		for _, err := range batch.Records(d) {
			if err != nil {
				b.Fatal(err)
			}
		}
	}
}

func BenchmarkVerifyCRC(b *testing.B) {
	batch := build(b, 8000, Options{})
	b.SetBytes(int64(len(batch)))
	for b.Loop() {
		if err := batch.VerifyCRC(); err != nil {
			b.Fatal(err)
		}
	}
}
