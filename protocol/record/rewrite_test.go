package record

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kbroker/kbroker/internal/model"
)

// rewrite keeps the records of b whose index is in keep.
func rewrite(t testing.TB, w *Rewriter, b Batch, o RewriteOptions, keep ...int) Batch {
	t.Helper()
	i := 0
	for r, err := range w.Begin(b) {
		require.NoError(t, err)
		if slices.Contains(keep, i) {
			w.Keep(&r)
		}
		i++
	}
	require.Equal(t, int32(len(keep)), w.Kept())
	out, err := w.Finish([]byte("before"), o)
	require.NoError(t, err)
	require.Equal(t, "before", string(out[:6]))
	got, err := ParseBatch(out[6:])
	require.NoError(t, err)
	require.Len(t, got, len(out)-6)
	require.NoError(t, got.VerifyCRC())
	return got
}

// identity is what a rewritten batch must have in common with its source.
func identity(b Batch) []any {
	return []any{b.BaseOffset(), b.LastOffset(), b.LeaderEpoch(), b.ProducerID(), b.ProducerEpoch(), b.BaseSequence(), b.LastSequence(),
		b.IsControl(), b.IsLogAppendTime()}
}

func txnOptions(c Codec) Options {
	return Options{BaseOffset: 500, LeaderEpoch: 6, Codec: c, Idempotent: true, ProducerID: 77, ProducerEpoch: 3, BaseSequence: 12, Transactional: true}
}

// Every choice of the records of a batch, with every codec, with and without a horizon and the transactional bit.
func TestRewriteKeepsExactlyTheChosenRecords(t *testing.T) {
	const n = 5
	w := NewRewriter(1 << 20)
	for c := None; c <= Zstd; c++ {
		src := build(t, n, txnOptions(c))
		all, before := flatten(t, src), slices.Clone(src)
		for choice := range 1 << n {
			var keep []int
			want := []flat(nil)
			for i := range n {
				if choice&(1<<i) != 0 {
					keep, want = append(keep, i), append(want, all[i])
				}
			}
			for _, o := range []RewriteOptions{{}, {ClearTransactional: true}, {SetDeleteHorizon: true, DeleteHorizon: 1 << 41},
				{SetDeleteHorizon: true, DeleteHorizon: math.MinInt64, ClearTransactional: true}} {
				got := rewrite(t, w, src, o, keep...)
				name := fmt.Sprintf("%s, keeping %v, %+v", c, keep, o)
				require.Equal(t, want, flatten(t, got), name)
				require.Equal(t, identity(src), identity(got), name)
				require.Equal(t, !o.ClearTransactional, got.IsTransactional(), name)
				horizon, has := got.DeleteHorizon()
				require.Equal(t, o.SetDeleteHorizon && choice != 0, has, name)
				if has {
					require.Equal(t, o.DeleteHorizon, horizon, name)
				}
				if choice == 0 {
					require.Equal(t, None, got.Codec(), name)
					require.Equal(t, src.MaxTimestamp(), got.MaxTimestamp(), name)
				} else {
					require.Equal(t, c, got.Codec(), name)
					require.Equal(t, want[len(want)-1].time, got.MaxTimestamp(), name)
				}
			}
		}
		require.Equal(t, before, src, "the source is left alone")
	}
}

func TestRewriteCopiesWhatIsKeptWhole(t *testing.T) {
	w := NewRewriter(1 << 20)
	src := build(t, 3, txnOptions(Zstd))
	require.Equal(t, src, rewrite(t, w, src, RewriteOptions{}, 0, 1, 2))
	cleared := slices.Clone(src)
	cleared.ClearTransactional()
	require.Equal(t, cleared, rewrite(t, w, src, RewriteOptions{ClearTransactional: true}, 0, 1, 2))
}

// The horizon of a tombstone is the one that its first cleaning gave it, however often it is rewritten.
func TestRewriteNeverMovesAHorizon(t *testing.T) {
	w := NewRewriter(1 << 20)
	src := build(t, 4, txnOptions(LZ4))
	all := flatten(t, src)
	once := rewrite(t, w, src, RewriteOptions{SetDeleteHorizon: true, DeleteHorizon: 9000}, 0, 1, 3)
	twice := rewrite(t, w, once, RewriteOptions{SetDeleteHorizon: true, DeleteHorizon: 10_000}, 0, 2)
	horizon, ok := twice.DeleteHorizon()
	require.True(t, ok)
	require.Equal(t, int64(9000), horizon)
	require.Equal(t, []flat{all[0], all[3]}, flatten(t, twice))
	remnant := rewrite(t, w, twice, RewriteOptions{SetDeleteHorizon: true, DeleteHorizon: 10_000})
	_, ok = remnant.DeleteHorizon()
	require.False(t, ok)
	require.Equal(t, identity(src), identity(remnant))
}

func TestRewriteOfLogAppendTime(t *testing.T) {
	w := NewRewriter(1 << 20)
	src := build(t, 4, txnOptions(Gzip))
	src.SetLogAppendTime(123_456)
	all := flatten(t, src)
	for _, o := range []RewriteOptions{{}, {SetDeleteHorizon: true, DeleteHorizon: 5}} {
		got := rewrite(t, w, src, o, 1, 2)
		require.True(t, got.IsLogAppendTime())
		require.Equal(t, int64(123_456), got.MaxTimestamp())
		require.Equal(t, all[1:3], flatten(t, got))
	}
}

func TestRewriteOfAMarker(t *testing.T) {
	w := NewRewriter(1 << 20)
	marker := EndTxnMarker(42, 7, 13, false, 999)
	marker.SetBaseOffset(88)
	stamped := rewrite(t, w, marker, RewriteOptions{SetDeleteHorizon: true, DeleteHorizon: 5000}, 0)
	commit, epoch, ok, err := ParseEndTxnMarker(stamped)
	require.NoError(t, err)
	require.Equal(t, []any{false, int32(13), true}, []any{commit, epoch, ok})
	require.Equal(t, int64(999), flatten(t, stamped)[0].time)
	remnant := rewrite(t, w, stamped, RewriteOptions{})
	require.Len(t, remnant, HeaderSize)
	require.True(t, remnant.IsControl() && remnant.IsTransactional())
	_, _, ok, err = ParseEndTxnMarker(remnant)
	require.NoError(t, err)
	require.False(t, ok, "a remnant ends no transaction")
}

// The bytes of a remnant, field by field.
func TestRemnantGolden(t *testing.T) {
	src := build(t, 5, txnOptions(Zstd))
	got := AppendRemnant(nil, src, false)
	want := []byte{
		0, 0, 0, 0, 0, 0, 0x01, 0xf4, // base offset 500
		0, 0, 0, 49, // length
		0, 0, 0, 6, // leader epoch
		2,                      // magic
		0x81, 0x70, 0xe9, 0x1f, // checksum
		0, 0x10, // transactional, no codec, no horizon
		0, 0, 0, 4, // last offset delta
		0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, // no base timestamp
		0, 0, 0, 0, 0, 0, 0x03, 0xec, // max timestamp 1004
		0, 0, 0, 0, 0, 0, 0, 77, // producer id
		0, 3, // producer epoch
		0, 0, 0, 12, // base sequence
		0, 0, 0, 0, // records
	}
	require.Equal(t, want, got)
	require.Equal(t, model.NoTimestamp, Batch(got).BaseTimestamp())
	require.Empty(t, flatten(t, got))
}

func TestRewriteOfABrokenBatchIsAnError(t *testing.T) {
	w := NewRewriter(1 << 10)
	bad := build(t, 3, Options{})
	bad[atCount+3] = 4
	for name, b := range map[string]Batch{"count": bad, "bomb": build(t, 500, Options{Codec: Gzip})} {
		var last error
		for _, err := range w.Begin(b) {
			last = err
		}
		require.Error(t, last, name)
	}
	// The rewriter is as good as new for the next batch.
	require.Len(t, flatten(t, rewrite(t, w, build(t, 3, Options{}), RewriteOptions{}, 1)), 1)
}

func TestRewritingDoesNotAllocatePerRecord(t *testing.T) {
	w := NewRewriter(1 << 20)
	src := build(t, 4000, Options{})
	out := make([]byte, 0, 2*len(src))
	pass := func(o RewriteOptions) func() {
		return func() {
			for r, err := range w.Begin(src) {
				if err != nil {
					panic(err)
				}
				if r.Offset%3 != 0 {
					w.Keep(&r)
				}
			}
			if _, err := w.Finish(out, o); err != nil {
				panic(err)
			}
		}
	}
	for _, o := range []RewriteOptions{{}, {SetDeleteHorizon: true, DeleteHorizon: 1}} {
		pass(o)()
		require.LessOrEqual(t, testing.AllocsPerRun(10, pass(o)), 3.0)
	}
}

func FuzzRewrite(f *testing.F) {
	for c := None; c <= Zstd; c++ {
		f.Add([]byte(build(f, 5, txnOptions(c))), uint64(0b10110), true)
	}
	f.Add([]byte(EndTxnMarker(1, 2, 3, true, 4)), uint64(1), true)
	f.Fuzz(func(t *testing.T, buf []byte, choice uint64, stamp bool) {
		b, err := ParseBatch(buf)
		if err != nil {
			return
		}
		w := NewRewriter(1 << 16)
		for r, err := range w.Begin(b) {
			if err != nil {
				return
			}
			if choice&(1<<(uint64(r.Offset)%64)) != 0 {
				w.Keep(&r)
			}
		}
		out, err := w.Finish(nil, RewriteOptions{SetDeleteHorizon: stamp, DeleteHorizon: 1 << 40, ClearTransactional: !stamp})
		if err != nil {
			t.Fatal(err)
		}
		got, err := ParseBatch(out)
		if err != nil {
			t.Fatal(err)
		}
		require.Equal(t, identity(b), identity(got))
		d, n := NewDecoder(1<<17), int32(0)
		defer d.Release()
		for _, err := range got.Records(d) {
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		require.Equal(t, w.Kept(), n)
	})
}

func BenchmarkRewrite(b *testing.B) {
	for _, c := range []Codec{None, LZ4, Zstd} {
		b.Run(c.String(), func(b *testing.B) {
			src := build(b, 2000, Options{Codec: c})
			w, out := NewRewriter(1<<20), make([]byte, 0, 1<<20)
			b.SetBytes(int64(len(src)))
			b.ReportAllocs()
			for b.Loop() {
				for r, err := range w.Begin(src) {
					if err != nil {
						b.Fatal(err)
					}
					if r.Offset%2 == 0 {
						w.Keep(&r)
					}
				}
				if _, err := w.Finish(out, RewriteOptions{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
