package controller

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/kbroker/kbroker/internal/metadata"
	"github.com/stretchr/testify/require"
)

// brokersIn returns an image with brokers 0..n-1 on racks by turns; those listed are fenced.
func brokersIn(t *testing.T, n, racks int, fenced ...int32) *metadata.Image {
	img := metadata.Empty()
	for i := range n {
		r := &metadata.RegisterBrokerRecord{ID: int32(i), Epoch: int64(i + 1), Fenced: slices.Contains(fenced, int32(i))}
		if racks > 0 {
			r.Rack = fmt.Sprintf("rack%d", i%racks)
		}
		var err error
		img, _, err = img.Apply([]metadata.Record{r})
		require.NoError(t, err)
	}
	return img
}

// For every shape of cluster: replicas are distinct, the first one lives, no rack gets a second replica before every rack
// has one, and leaders and replicas are spread evenly.
func TestPlacementSpreads(t *testing.T) {
	for _, brokers := range []int{1, 2, 3, 5, 6, 9} {
		for _, racks := range []int{0, 1, 2, 3} {
			for factor := 1; factor <= min(4, brokers); factor++ {
				t.Run(fmt.Sprintf("brokers=%d,racks=%d,factor=%d", brokers, racks, factor), func(t *testing.T) {
					img := brokersIn(t, brokers, racks)
					p := newPlacer(img, rand.New(rand.NewPCG(uint64(brokers), uint64(racks))))
					require.NoError(t, p.check(factor))
					leaders, replicas := map[int32]int{}, map[int32]int{}
					const rounds = 20
					for range rounds * brokers {
						rs := p.next(factor)
						require.Len(t, rs, factor)
						require.Len(t, slices.Compact(slices.Sorted(slices.Values(rs))), factor, "distinct: %v", rs)
						checkRacks(t, img, rs, max(1, min(racks, brokers)))
						leaders[rs[0]]++
						for _, r := range rs {
							replicas[r]++
						}
					}
					if racks <= 1 || brokers%racks == 0 {
						for b := range int32(brokers) {
							require.InDelta(t, rounds, leaders[b], rounds/4+1, "leaders %v", leaders)
							require.InDelta(t, rounds*factor, replicas[b], float64(rounds*factor)/4+1, "replicas %v", replicas)
						}
					}
				})
			}
		}
	}
}

func checkRacks(t *testing.T, img *metadata.Image, rs []int32, racks int) {
	t.Helper()
	perRack := map[string]int{}
	for _, r := range rs {
		perRack[img.Broker(r).Rack]++
	}
	require.Len(t, perRack, min(racks, len(rs)), "racks of %v", rs)
}

func TestPlacementPrefersLivingBrokers(t *testing.T) {
	img := brokersIn(t, 4, 0, 1, 3)
	p := newPlacer(img, rand.New(rand.NewPCG(1, 1)))
	for range 50 {
		rs := p.next(3)
		require.NotContains(t, []int32{1, 3}, rs[0])
		require.Subset(t, rs, []int32{0, 2}, "the living ones first")
	}
	require.ErrorContains(t, p.check(5), "only 4 broker(s) are registered")
	p = newPlacer(brokersIn(t, 2, 0, 0, 1), rand.New(rand.NewPCG(1, 1)))
	require.ErrorContains(t, p.check(1), "All brokers are currently fenced")
	p = newPlacer(metadata.Empty(), rand.New(rand.NewPCG(1, 1)))
	require.ErrorContains(t, p.check(1), "only 0 broker(s)")
}

// A rack whose brokers are all fenced leads nothing and must not stop the search.
func TestPlacementWithADeadRack(t *testing.T) {
	img := brokersIn(t, 6, 3, 1, 4)
	p := newPlacer(img, rand.New(rand.NewPCG(3, 1)))
	for range 50 {
		rs := p.next(3)
		require.NotEqual(t, "rack1", img.Broker(rs[0]).Rack)
		checkRacks(t, img, rs, 3)
	}
}

// Same seed, same placement (C1).
func TestPlacementIsReproducible(t *testing.T) {
	run := func() (out [][]int32) {
		p := newPlacer(brokersIn(t, 7, 3), rand.New(rand.NewPCG(9, 9)))
		for range 30 {
			out = append(out, p.next(3))
		}
		return out
	}
	require.Equal(t, run(), run())
}
