package record

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// recordBytes encodes a record by hand, so that a test can also encode what the builder refuses.
func recordBytes(timeDelta, offsetDelta int64, key, value []byte, headers ...KeyValue) []byte {
	field := func(b, v []byte) []byte {
		if v == nil {
			return binary.AppendVarint(b, -1)
		}
		return append(binary.AppendVarint(b, int64(len(v))), v...)
	}
	b := binary.AppendVarint(binary.AppendVarint([]byte{0}, timeDelta), offsetDelta)
	b = binary.AppendVarint(field(field(b, key), value), int64(len(headers)))
	for _, h := range headers {
		b = field(field(b, h.Key), h.Value)
	}
	return append(binary.AppendVarint(nil, int64(len(b))), b...)
}

// walkBatch is a batch whose offsets may be anything, for the slow walk.
func walkBatch() Batch {
	b := make(Batch, HeaderSize)
	binary.BigEndian.PutUint32(b[atLastOffsetDelta:], math.MaxInt32)
	return b
}

// sameWalk compares the two ways to read the record at the front of buf.
func sameWalk(t *testing.T, buf []byte) (accepted bool) {
	t.Helper()
	var r Record
	rest, err := walkBatch().next(buf, &r)
	h, ok := hopRecord(buf)
	ok = ok && h.offsetDelta >= 0 && h.offsetDelta <= math.MaxInt32
	require.Equal(t, err == nil, ok, "%x: %v", buf, err)
	if ok {
		require.Equal(t, len(buf)-len(rest), h.size)
		require.Equal(t, r.Offset, h.offsetDelta)
		require.Equal(t, r.Timestamp, h.timeDelta)
		require.Equal(t, r.Key == nil, h.null)
	}
	return ok
}

func TestHopReadsWhatTheWalkReads(t *testing.T) {
	long := make([]byte, 20_000)
	header := KeyValue{Key: []byte("k"), Value: []byte("v")}
	for _, rec := range [][]byte{
		recordBytes(0, 0, nil, nil),
		recordBytes(0, 0, []byte{}, []byte{}),
		recordBytes(-1, 1, []byte("key"), nil),
		recordBytes(math.MaxInt64, math.MaxInt32, nil, long),
		recordBytes(math.MinInt64, 63, long, long[:63]),
		recordBytes(64, 64, long[:64], long[:8191], header),
		recordBytes(8192, 8192, long[:8192], nil, header, KeyValue{Key: []byte{}}, KeyValue{Key: long[:100], Value: long[:100]}),
	} {
		require.True(t, sameWalk(t, rec))
		require.True(t, sameWalk(t, append(rec, "what follows"...)))
		if len(rec) > 100 {
			continue
		}
		for i := range rec { // cut, and with every bit wrong
			require.False(t, sameWalk(t, rec[:i]))
			for bit := range 8 {
				rec[i] ^= 1 << bit
				sameWalk(t, rec)
				rec[i] ^= 1 << bit
			}
		}
	}
	for _, rec := range [][]byte{
		recordBytes(0, -1, nil, nil),
		recordBytes(0, 0, nil, nil, KeyValue{Value: []byte("a header needs a key")}),
		recordBytes(0, math.MaxInt32+1, nil, nil),
	} {
		require.False(t, sameWalk(t, rec))
	}
}

func FuzzHop(f *testing.F) {
	f.Add(recordBytes(0, 0, nil, nil))
	f.Add(recordBytes(-1, 1, []byte("key"), []byte("value"), KeyValue{Key: []byte("k"), Value: []byte("v")}))
	f.Add(recordBytes(math.MaxInt64, math.MaxInt32, nil, make([]byte, 200)))
	f.Add([]byte{0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x02})
	f.Fuzz(func(t *testing.T, buf []byte) { sameWalk(t, buf) })
}

func BenchmarkHop(b *testing.B) {
	headers := []KeyValue{{Key: []byte("trace"), Value: []byte("0123456789abcdef")}}
	for _, c := range []struct {
		name    string
		headers []KeyValue
	}{{"plain", nil}, {"headers", headers}} {
		var recs []byte
		const n = 1000
		for i := range int64(n) {
			recs = append(recs, recordBytes(i/10, i, []byte("some key"), make([]byte, 100), c.headers...)...)
		}
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				for rest := recs; len(rest) > 0; {
					h, ok := hopRecord(rest)
					if !ok {
						b.Fatal("refused")
					}
					rest = rest[h.size:]
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/record")
		})
		b.Run(c.name+"/slow", func(b *testing.B) {
			batch := walkBatch()
			for b.Loop() {
				var r Record
				for rest := recs; len(rest) > 0; {
					rest, _ = batch.next(rest, &r)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/record")
		})
	}
}
