package coordrt_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/kbroker/kbroker/internal/coordrt"
	"github.com/kbroker/kbroker/internal/coordrt/coordtest"
)

// Real goroutines on all processors, for the race detector and for wake-ups that get lost: operations, elections and
// commits come from everywhere at once, and every operation is answered.
func TestNothingIsLostBetweenGoroutines(t *testing.T) {
	const partitions, writers, each = 6, 8, 300
	log := coordtest.New()
	log.Manual(true)
	rt, err := coordrt.New(coordrt.Options[*dict]{Topic: topic, Log: log, Workers: 3, LoadBytes: 500, NewShard: newDict})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	running := make(chan error, 1)
	go func() { running <- rt.Run(ctx) }()

	for p := range int32(partitions) {
		log.Lead(tp(p), 0)
		rt.Elected(p, 0)
	}
	require.Eventually(t, func() bool { return rt.Stats().Active == partitions }, time.Minute, time.Millisecond)
	stop := make(chan struct{})
	var background, clients sync.WaitGroup
	background.Go(func() { // commits
		for {
			select {
			case <-stop:
				return
			default:
				log.CommitAll()
				time.Sleep(50 * time.Microsecond)
			}
		}
	})
	background.Go(func() { // elections
		rng := rand.New(rand.NewPCG(1, 1))
		epochs := [partitions]int32{}
		for {
			select {
			case <-stop:
				return
			default:
			}
			p := rng.Int32N(partitions)
			epochs[p] += 1 + rng.Int32N(2)
			log.Lead(tp(p), epochs[p])
			if rng.IntN(4) == 0 {
				rt.Resigned(p, epochs[p])
			} else {
				rt.Elected(p, epochs[p])
			}
			_ = rt.Stats()
			time.Sleep(time.Duration(rng.IntN(2000)) * time.Microsecond)
		}
	})
	var ok, failed atomic.Int64
	for w := range writers {
		clients.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(w), 2))
			for i := range each {
				p := rng.Int32N(partitions)
				_, err := coordrt.Write(ctx, rt, p, func(*dict, time.Time) (coordrt.Result, int, error) {
					if rng.IntN(3) == 0 {
						return coordrt.Result{}, 0, nil
					}
					return coordrt.Result{Records: []coordrt.Record{rec(fmt.Sprint(w, "-", i), "v")}}, 0, nil
				})
				if err == nil {
					ok.Add(1)
					continue
				}
				failed.Add(1)
				time.Sleep(100 * time.Microsecond) // or there is no time for an election
				if !errors.Is(err, kerr.NotCoordinator) && !errors.Is(err, kerr.CoordinatorLoadInProgress) && !errors.Is(err, kerr.NotLeaderForPartition) {
					t.Errorf("unexpected: %v", err)
				}
			}
		})
	}
	clients.Wait()
	close(stop)
	background.Wait()
	require.EqualValues(t, writers*each, ok.Load()+failed.Load())
	require.Positive(t, ok.Load())
	cancel()
	require.NoError(t, <-running)
}
