package metadata

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// version is a published map beside what it must hold.
type version struct {
	m    sortedMap[int32, int]
	want map[int32]int
}

func (v version) check(t *testing.T) {
	t.Helper()
	require.Equal(t, len(v.want), v.m.len())
	keys := slices.Sorted(maps.Keys(v.want))
	i := 0
	for k, x := range v.m.from(nil) {
		require.Equal(t, keys[i], k)
		require.Equal(t, v.want[k], x)
		i++
	}
	require.Equal(t, len(keys), i)
}

// The tree is compared with a plain map through random batches; every published version is checked again at the end,
// when many later batches have been built on top of it (M1).
func TestSortedMapAgainstPlainMap(t *testing.T) {
	for seed := range uint64(8) {
		rng := rand.New(rand.NewPCG(seed, 1))
		keys := int32(1 + rng.IntN(2000))
		cur := version{m: sortedMap[int32, int]{cmp: compareInt32}, want: map[int32]int{}}
		var published []version
		for batch := range 60 {
			token := new(editToken)
			cur.want = maps.Clone(cur.want)
			shrink := batch%20 > 12
			for range 1 + rng.IntN(200) {
				k := rng.Int32N(keys)
				if rng.IntN(10) < 3 || shrink && rng.IntN(10) < 8 {
					cur.m = cur.m.remove(token, k)
					delete(cur.want, k)
				} else {
					v := rng.Int()
					cur.m = cur.m.put(token, k, v)
					cur.want[k] = v
				}
			}
			for range 50 {
				k := rng.Int32N(keys)
				got, ok := cur.m.get(k)
				want, wantOK := cur.want[k]
				require.Equal(t, wantOK, ok)
				require.Equal(t, want, got)
			}
			published = append(published, cur)
		}
		for _, v := range published {
			v.check(t)
		}
	}
}

func TestSortedMapFrom(t *testing.T) {
	m := sortedMap[int32, int]{cmp: compareInt32}
	token := new(editToken)
	for i := range int32(1000) {
		m = m.put(token, i*2, int(i))
	}
	for _, start := range []int32{-5, 0, 1, 2, 95, 96, 97, 1001, 1998, 1999, 5000} {
		want := max(0, (start+1)/2*2)
		for k := range m.from(&start) {
			require.Equal(t, want, k, "start %d", start)
			want += 2
		}
		require.GreaterOrEqual(t, want, int32(2000), "start %d", start)
	}
	for k := range m.from(nil) {
		require.Zero(t, k)
		break // stopping early must not visit more
	}
}

func TestSortedMapGivesNodesBack(t *testing.T) {
	m := sortedMap[int32, int]{cmp: compareInt32}
	token := new(editToken)
	for i := range int32(10000) {
		m = m.put(token, i, 0)
	}
	for i := range int32(10000) {
		if i%100 != 0 {
			m = m.remove(token, i)
		}
	}
	leaves := 0
	var count func(n *treeNode[int32, int])
	count = func(n *treeNode[int32, int]) {
		if n.isLeaf() {
			leaves++
		}
		for _, k := range n.kids {
			count(k)
		}
	}
	count(m.root)
	require.Equal(t, 100, m.len())
	require.LessOrEqual(t, leaves, 12, "100 keys must not stay spread over the leaves of 10,000")
	for i := range int32(10000) {
		m = m.remove(token, i)
	}
	require.Zero(t, m.len())
	require.Nil(t, m.root)
}
