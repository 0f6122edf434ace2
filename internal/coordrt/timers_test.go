package coordrt

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The heap is checked against a list that is searched.
func TestTimersFireInOrderOfDeadlineAndSetting(t *testing.T) {
	type entry struct {
		timer *Timer
		at    time.Time
		seq   int
	}
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		var ts Timers
		var list []entry
		timers := make([]*Timer, 12)
		for i := range timers {
			timers[i] = &Timer{}
		}
		now := time.UnixMilli(0)
		for seq := range 300 {
			timer := timers[rng.IntN(len(timers))]
			switch rng.IntN(4) {
			case 0, 1:
				at := now.Add(time.Duration(rng.IntN(20)) * time.Millisecond)
				ts.Set(timer, at)
				list = slices.DeleteFunc(list, func(e entry) bool { return e.timer == timer })
				list = append(list, entry{timer, at, seq})
			case 2:
				ts.Cancel(timer)
				list = slices.DeleteFunc(list, func(e entry) bool { return e.timer == timer })
			case 3:
				now = now.Add(time.Duration(rng.IntN(4)) * time.Millisecond)
				for {
					best := -1
					for i, e := range list {
						if !e.at.After(now) && (best < 0 || e.at.Before(list[best].at) || e.at.Equal(list[best].at) && e.seq < list[best].seq) {
							best = i
						}
					}
					got := ts.Pop(now)
					if best < 0 {
						require.Nil(t, got, "seed %d", seed)
						break
					}
					require.Same(t, list[best].timer, got, "seed %d", seed)
					require.False(t, got.Armed())
					list = slices.Delete(list, best, best+1)
				}
			}
			require.Equal(t, len(list), ts.Len())
			require.Equal(t, slices.ContainsFunc(list, func(e entry) bool { return e.timer == timer }), timer.Armed())
			at, ok := ts.Next()
			require.Equal(t, len(list) > 0, ok)
			for _, e := range list {
				require.False(t, e.at.Before(at), "seed %d", seed)
			}
		}
	}
}
