package coordtest_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/kbroker/kbroker/internal/coordrt"
	"github.com/kbroker/kbroker/internal/coordrt/coordtest"
	"github.com/kbroker/kbroker/internal/model"
	"github.com/kbroker/kbroker/protocol/record"
)

var tp = model.TopicPartition{Topic: "t"}

func batch(t *testing.T, n int, o record.Options) []byte {
	t.Helper()
	b := record.NewBuilder(o)
	for range n {
		b.Add(0, []byte("k"), []byte("v"))
	}
	out, err := b.Finish()
	require.NoError(t, err)
	return out
}

func bounds(t *testing.T, l *coordtest.Log) [3]int64 {
	t.Helper()
	start, hw, end, err := l.Bounds(tp)
	require.NoError(t, err)
	return [3]int64{start, hw, end}
}

func TestHighWatermarkMovesWhenTold(t *testing.T) {
	l := coordtest.New()
	l.Lead(tp, 1)
	last, err := l.Append(t.Context(), tp, 1, batch(t, 3, record.Options{}))
	require.NoError(t, err)
	require.EqualValues(t, 2, last)
	require.Equal(t, [3]int64{0, 3, 3}, bounds(t, l), "committed at once")

	l.Manual(true)
	_, err = l.Append(t.Context(), tp, 1, batch(t, 2, record.Options{}))
	require.NoError(t, err)
	require.Equal(t, [3]int64{0, 3, 5}, bounds(t, l))
	var got []error
	note := func(err error) { got = append(got, err) }
	l.OnCommitted(tp, 1, 3, note)
	require.Equal(t, []error{nil}, got, "is committed already")
	l.OnCommitted(tp, 1, 5, note)
	l.Commit(tp, 4)
	require.Len(t, got, 1)
	l.Commit(tp, 2)
	require.Equal(t, [3]int64{0, 4, 5}, bounds(t, l), "never back")
	l.Commit(tp, 99)
	require.Equal(t, []error{nil, nil}, got)
	require.Equal(t, [3]int64{0, 5, 5}, bounds(t, l), "never beyond the end")
}

func TestLeadership(t *testing.T) {
	l := coordtest.New()
	_, err := l.Append(t.Context(), tp, 1, batch(t, 1, record.Options{}))
	require.ErrorIs(t, err, kerr.NotLeaderForPartition)
	l.Lead(tp, 2)
	l.Manual(true)
	_, err = l.Append(t.Context(), tp, 1, batch(t, 1, record.Options{}))
	require.ErrorIs(t, err, kerr.NotLeaderForPartition, "an older epoch")
	for range 3 {
		_, err = l.Append(t.Context(), tp, 2, batch(t, 2, record.Options{}))
		require.NoError(t, err)
	}
	l.Commit(tp, 2)
	var lost error
	l.OnCommitted(tp, 2, 6, func(err error) { lost = err })
	l.Lose(tp, 5)
	require.ErrorIs(t, lost, kerr.NotLeaderForPartition)
	require.Equal(t, [3]int64{0, 2, 4}, bounds(t, l), "whole batches are cut off")
	l.OnCommitted(tp, 2, 1, func(err error) { lost = err })
	require.ErrorIs(t, lost, kerr.NotLeaderForPartition)
	l.Lose(tp, 0)
	require.Equal(t, [3]int64{0, 0, 0}, bounds(t, l))
}

func TestRead(t *testing.T) {
	l := coordtest.New()
	l.Lead(tp, 1)
	size := len(batch(t, 2, record.Options{}))
	for range 4 {
		_, err := l.Append(t.Context(), tp, 1, batch(t, 2, record.Options{}))
		require.NoError(t, err)
	}
	read := func(from int64, maxBytes int) (int, int64) {
		got, next, err := l.Read(t.Context(), tp, from, maxBytes)
		require.NoError(t, err)
		return len(got) / size, next
	}
	check := func(from int64, maxBytes, batches int, next int64) {
		n, to := read(from, maxBytes)
		require.Equal(t, batches, n, "batches from %d", from)
		require.Equal(t, next, to)
	}
	check(0, 1<<20, 4, 8)
	check(3, 1<<20, 3, 8)
	check(0, 1, 1, 2)
	check(0, 2*size, 2, 4)
	check(8, 1<<20, 0, 8)
	l.Manual(true)
	_, err := l.Append(t.Context(), tp, 1, batch(t, 2, record.Options{}))
	require.NoError(t, err)
	check(6, 1<<20, 2, 10)
	l.HideTail(true)
	check(6, 1<<20, 1, 8)
	l.FailReads(errors.New("disk"))
	_, _, err = l.Read(t.Context(), tp, 0, 1)
	require.ErrorContains(t, err, "disk")
}

func TestRefusals(t *testing.T) {
	l := coordtest.New()
	l.Lead(tp, 1)
	l.FailAppends(kerr.NotEnoughReplicas)
	_, err := l.Append(t.Context(), tp, 1, batch(t, 1, record.Options{}))
	require.ErrorIs(t, err, kerr.NotEnoughReplicas)
	l.FailAppends(nil)
	l.LimitBatches(70)
	require.Equal(t, 70, l.MaxBatchBytes(tp))
	_, err = l.Append(t.Context(), tp, 1, batch(t, 5, record.Options{}))
	require.ErrorIs(t, err, kerr.MessageTooLarge)
	l.LimitBatches(1 << 20)
	_, err = l.Append(t.Context(), tp, 1, []byte("no batch"))
	require.Error(t, err)
	_, err = l.Append(t.Context(), tp, 1, batch(t, 1, record.Options{Idempotent: true, ProducerID: 5, ProducerEpoch: 3, Transactional: true}))
	require.NoError(t, err)
	_, err = l.AppendMarker(t.Context(), tp, 1, coordrt.Marker{ProducerID: 5, ProducerEpoch: 2})
	require.ErrorIs(t, err, kerr.InvalidProducerEpoch)
	offset, err := l.AppendMarker(t.Context(), tp, 1, coordrt.Marker{ProducerID: 5, ProducerEpoch: 3, Commit: true})
	require.NoError(t, err)
	require.EqualValues(t, 1, offset)
	require.Len(t, l.Batches(tp), 2)
	require.Error(t, l.Put(tp, []byte("no batch")))
}
