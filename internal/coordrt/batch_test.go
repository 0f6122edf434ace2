package coordrt

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/kbroker/kbroker/protocol/record"
)

// tape is a shard that notes what it is given.
type tape struct{ offsets []int64 }

func (s *tape) Replay(at Position, _ Record) error {
	s.offsets = append(s.offsets, at.Offset)
	return nil
}
func (s *tape) ReplayMarker(at Position, _ bool) { s.offsets = append(s.offsets, at.Offset) }
func (s *tape) Loaded(time.Time) Result          { return Result{} }
func (s *tape) Unloaded()                        {}

func batchOf(t *testing.T, base int64, n int) record.Batch {
	t.Helper()
	b := record.NewBuilder(record.Options{BaseOffset: base})
	for range n {
		b.Add(0, []byte("k"), []byte("v"))
	}
	batch, err := b.Finish()
	require.NoError(t, err)
	return batch
}

// The log start may lie in the middle of a batch.
func TestReplayBeginsAtTheLogStart(t *testing.T) {
	marker := record.EndTxnMarker(1, 0, 0, true, 0)
	marker.SetBaseOffset(5)
	log := append(append(batchOf(t, 0, 5), marker...), batchOf(t, 6, 4)...)
	for from, want := range map[int64][]int64{0: {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, 3: {3, 4, 5, 6, 7, 8, 9}, 5: {5, 6, 7, 8, 9}, 8: {8, 9}} {
		s := &tape{}
		n, err := replayBatches(s, log, from)
		require.NoError(t, err)
		require.Equal(t, want, s.offsets)
		require.EqualValues(t, len(log), n.bytes)
	}
	_, err := replayBatches(&tape{}, log[:len(log)-1], 0)
	require.ErrorIs(t, err, record.ErrCorrupt)
}

func TestChunk(t *testing.T) {
	recs := []Record{{Value: make([]byte, 100)}, {Value: make([]byte, 100)}, {Value: make([]byte, 500)}}
	require.Equal(t, 2, chunk(recs, 400))
	require.Equal(t, 1, chunk(recs[2:], 10), "one at least, for the log to refuse")
	require.Equal(t, 3, chunk(recs, 1<<20))
	require.Equal(t, 3, chunk(recs, 0), "no limit known")
	_, err := buildBatch(recs, nil, record.None, 0, 0)
	require.NoError(t, err)
	_, err = buildBatch(recs, nil, record.None, 0, 100)
	require.ErrorIs(t, err, kerr.MessageTooLarge)
}
