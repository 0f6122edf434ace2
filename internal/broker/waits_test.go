package broker

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// The intrusive list against a plain slice, under random pushes, removals and takes.
func TestWaitListAgainstSlice(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var list waitList[int]
	var model []*wait[int]
	values := func() []int {
		out := []int(nil)
		for _, w := range model {
			out = append(out, w.v)
		}
		return out
	}
	for step := range 20_000 {
		switch op := rng.IntN(10); {
		case op < 5:
			w := &wait[int]{v: step}
			list.push(w)
			model = append(model, w)
		case op < 9 && len(model) > 0:
			i := rng.IntN(len(model))
			list.remove(model[i])
			list.remove(model[i]) // a second removal changes nothing
			model = slices.Delete(model, i, i+1)
		default:
			odd := func(v int) bool { return v%2 == 1 }
			var want []int
			model = slices.DeleteFunc(model, func(w *wait[int]) bool {
				if odd(w.v) {
					want = append(want, w.v)
				}
				return odd(w.v)
			})
			require.Equal(t, want, list.take(odd))
		}
		require.Equal(t, values(), list.all())
		require.Equal(t, len(model) == 0, list.empty())
	}
}

func TestWaitCanParkAgain(t *testing.T) {
	var list waitList[string]
	w := &wait[string]{v: "a"}
	list.push(w)
	require.Equal(t, []string{"a"}, list.take(func(string) bool { return true }))
	require.False(t, w.parked)
	list.push(w)
	require.Equal(t, []string{"a"}, list.all())
}
