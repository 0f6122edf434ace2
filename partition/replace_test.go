package partition

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kbroker/kbroker/config"
	"github.com/kbroker/kbroker/partition/seglog"
	"github.com/kbroker/kbroker/partition/segment"
	"github.com/kbroker/kbroker/protocol/record"
)

// copyOf writes a replacement for segments that holds the batches for which keep is true.
func copyOf(b *bench, old []*segment.Segment, keep func(record.Batch) bool) *segment.Segment {
	b.Helper()
	s, err := b.part.CreateCleaned(old[0].Base())
	require.NoError(b, err)
	for _, o := range old {
		_, err := o.Scan(0, nil, func(v record.Batch, _ int64) error {
			if !keep(v) {
				return nil
			}
			return s.Append(v, b.cfg.IndexIntervalBytes)
		})
		require.NoError(b, err)
		list, err := o.Aborted()
		require.NoError(b, err)
		for _, a := range list {
			s.AddAborted(a)
		}
	}
	return s
}

func TestReplaceSegments(t *testing.T) {
	b := newBench(t, func(c *config.Topic) { c.SegmentBytes = 300 })
	for i := range 20 {
		b.produce(fmt.Sprint(i))
	}
	old := b.part.Segments()[:3]
	even := func(v record.Batch) bool { return v.BaseOffset()%2 == 0 }
	generation := b.part.Generation()
	s := copyOf(b, old, even)
	require.NoError(t, b.part.Truncate(18))
	require.ErrorIs(t, b.part.Replace(generation, old, []*segment.Segment{s}), seglog.ErrChanged)
	require.NoError(t, b.part.Replace(b.part.Generation(), old, []*segment.Segment{s}))
	var want []string
	for i := range int64(18) {
		if i%2 == 0 || i >= b.part.Segments()[1].Base() {
			want = append(want, fmt.Sprintf("%d=%d", i, i))
		}
	}
	require.Less(t, len(want), 14)
	check := func() {
		t.Helper()
		require.Equal(t, want, b.values(0, LogEnd))
		require.Equal(t, want[2:], b.values(3, LogEnd), "a gap is skipped")
		require.Equal(t, int64(18), b.part.LogEndOffset())
	}
	check()
	b.part.RemoveDeleted(time.Now().Add(time.Hour))
	check()
	b.crash()
	check()
	b.restart()
	check()
}

// Readers never see anything but the records that are there, whatever happens to the segments under them.
func TestReadersWhileSegmentsAreReplacedAndDropped(t *testing.T) {
	b := newBench(t, func(c *config.Topic) { c.SegmentBytes, c.IndexIntervalBytes, c.FileDeleteDelay = 500, 100, 0 })
	b.part.o.Files = segment.NewCache(3)
	for i := range 100 {
		b.produce(fmt.Sprint(i))
	}
	stop := make(chan struct{})
	var readers sync.WaitGroup
	for range 3 {
		readers.Go(func() {
			for from := int64(0); ; from = (from + 7) % 100 {
				select {
				case <-stop:
					return
				default:
				}
				res, err := b.part.Read(ReadRequest{Offset: max(from, b.part.LogStartOffset()), MaxBytes: 400, MinOneBatch: true, UpTo: LastStable, WithAborted: true})
				if err != nil { // the log start may have moved
					require.NoError(t, b.part.Err())
					continue
				}
				data, err := res.Records.ReadAll()
				require.NoError(t, err)
				for len(data) > record.HeaderSize {
					v, err := record.ParseBatch(data)
					if err != nil {
						break
					}
					require.NoError(t, v.VerifyCRC())
					d := record.NewDecoder(1 << 20)
					for r, err := range v.Records(d) {
						require.NoError(t, err)
						require.Equal(t, fmt.Sprint(r.Offset), string(r.Value))
					}
					d.Release()
					data = data[len(v):]
				}
				res.Release()
				_, _, err = b.part.OffsetForTime(1_700_000_000_000, 100)
				require.NoError(t, err)
			}
		})
	}
	for round := range 40 {
		segs := b.part.Segments()
		if len(segs) < 4 {
			break
		}
		old := segs[:2+round%2]
		s := copyOf(b, old, func(v record.Batch) bool { return v.BaseOffset()%5 != int64(round%5) })
		require.NoError(t, b.part.Replace(b.part.Generation(), old, []*segment.Segment{s}))
		if round%3 == 0 {
			require.NoError(t, b.part.SetLogStartOffset(b.part.LogStartOffset()+1))
		}
		b.part.RemoveDeleted(time.Now().Add(time.Hour))
	}
	close(stop)
	readers.Wait()
	require.NoError(t, b.part.Err())
}
