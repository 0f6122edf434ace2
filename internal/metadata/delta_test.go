package metadata

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/kbroker/kbroker/internal/model"
	"github.com/stretchr/testify/require"
)

func collect(img *Image) []Record { return slices.Collect(img.Records()) }

// history makes random batches that fit.
type history struct {
	rng   *rand.Rand
	img   *Image
	next  byte
	epoch int64
}

func (h *history) batch() []Record {
	img := h.img
	var rs []Record
	add := func(r Record) {
		if next, _, err := img.Apply([]Record{r}); err == nil {
			img = next
			rs = append(rs, r)
		}
	}
	for range 1 + h.rng.IntN(6) {
		topics := slices.Collect(img.AllTopics())
		n := h.rng.IntN(10)
		if len(topics) == 0 {
			n = 0
		}
		switch n {
		case 0, 1:
			h.next++
			name := fmt.Sprintf("t%d", h.rng.IntN(8))
			add(&TopicRecord{Name: name, ID: id(h.next)})
			add(part(id(h.next), 0, 1, 2))
		case 2:
			add(&RemoveTopicRecord{ID: topics[h.rng.IntN(len(topics))].ID})
		case 3:
			t := topics[h.rng.IntN(len(topics))]
			add(part(t.ID, int32(len(t.Partitions)), 3, 1))
		case 4:
			h.epoch++
			add(register(h.rng.Int32N(4), h.epoch))
		case 5:
			add(&UnregisterBrokerRecord{ID: h.rng.Int32N(4), Epoch: h.epoch})
		case 6:
			v := ptr(fmt.Sprint(h.rng.IntN(3)))
			if h.rng.IntN(3) == 0 {
				v = nil
			}
			add(&ConfigRecord{Resource: ConfigResource{ResourceTopic, fmt.Sprintf("t%d", h.rng.IntN(8))}, Key: "k", Value: v})
		case 7:
			add(&FeatureRecord{Name: fmt.Sprintf("f%d", h.rng.IntN(3)), Level: int16(h.rng.IntN(3))})
		default:
			t := topics[h.rng.IntN(len(topics))]
			if len(t.Partitions) > 0 {
				add(&PartitionChangeRecord{TopicID: t.ID, Index: h.rng.Int32N(int32(len(t.Partitions))), Leader: model.NoLeader})
			}
		}
	}
	return rs
}

// covers checks that a delta names everything that differs between its images and says what it was and is.
func covers(t *testing.T, d *Delta) {
	t.Helper()
	want := Diff(d.Old, d.New)
	got := map[model.UUID]TopicDelta{}
	for i := range d.Topics {
		got[d.Topics[i].Topic().ID] = d.Topics[i]
	}
	for _, w := range want.Topics {
		g, ok := got[w.Topic().ID]
		require.True(t, ok, "topic %s is missing", w.Topic().Name)
		require.Same(t, w.Old, g.Old)
		require.Same(t, w.New, g.New)
		require.Subset(t, g.Partitions, w.Partitions)
	}
	for _, g := range d.Topics {
		require.False(t, g.Old == nil && g.New == nil)
		if g.New != nil {
			require.Same(t, d.New.TopicByID(g.New.ID), g.New)
		}
		if g.Old != nil {
			require.Same(t, d.Old.TopicByID(g.Old.ID), g.Old)
		}
		require.True(t, slices.IsSorted(g.Partitions))
	}
	require.Subset(t, d.Configs, want.Configs)
	require.Subset(t, d.Brokers, want.Brokers)
	require.Subset(t, d.Features, want.Features)
	require.Equal(t, want.ProducerIDs, d.ProducerIDs)
	for i := 1; i < len(d.Topics); i++ {
		require.LessOrEqual(t, d.Topics[i-1].Topic().Name, d.Topics[i].Topic().Name, "sorted")
	}
}

// Deltas of random batches, merged deltas and differences agree, and a restored image is equal to the one it was made
// from (M7), however the history went.
func TestDeltasOfRandomHistories(t *testing.T) {
	for seed := range uint64(20) {
		h := &history{rng: rand.New(rand.NewPCG(seed, 3)), img: Empty()}
		var merged *Delta
		for i := range 60 {
			rs := h.batch()
			next, d, err := h.img.Apply(rs)
			require.NoError(t, err)
			covers(t, d)
			if merged == nil || i%7 == 0 {
				merged = d
			} else {
				merged = merged.Merge(d)
			}
			covers(t, merged)
			h.img = next
		}
		restored, _, err := Empty().Apply(collect(h.img))
		require.NoError(t, err)
		require.Equal(t, dump(h.img), dump(restored))
	}
}

func TestMergeForgetsWhatCameAndWent(t *testing.T) {
	a, d1 := apply(t, small(t), &TopicRecord{Name: "new", ID: id(50)}, part(id(50), 0, 1))
	_, d2 := apply(t, a, &RemoveTopicRecord{ID: id(50)})
	require.Empty(t, d1.Merge(d2).Topics)

	b, d1 := apply(t, small(t), &RemoveTopicRecord{ID: id(1)})
	_, d2 = apply(t, b, &TopicRecord{Name: "a", ID: id(51)}, part(id(51), 0, 1))
	m := d1.Merge(d2)
	require.Len(t, m.Topics, 2)
	require.Nil(t, m.Topics[0].New, "the deleted one first")
	require.Equal(t, id(51), m.Topics[1].New.ID)
}
