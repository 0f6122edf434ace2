package coordrt_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/kbroker/kbroker/internal/coordrt"
	"github.com/kbroker/kbroker/internal/coordrt/coordtest"
)

// history is two brokers that take turns in leading one partition of a shared log, under random operations, commits,
// failing appends, and elections whose notices come late.
type history struct {
	t     *testing.T
	rng   *rand.Rand
	log   *coordtest.Log
	rts   [2]*coordrt.Runtime[*dict]
	live  [2]*dict
	epoch int32

	submitted int
	n         int

	mu       sync.Mutex
	answered int
	acked    map[string]string
}

func (h *history) step() {
	switch h.rng.IntN(20) {
	default:
		h.write()
	case 0, 1, 2:
		_, hw, end, _ := h.log.Bounds(tp(0))
		h.log.Commit(tp(0), hw+h.rng.Int64N(end-hw+1))
	case 3:
		h.elect()
	case 4:
		time.Sleep(time.Duration(h.rng.IntN(4000)) * time.Millisecond)
	case 5:
		h.log.FailAppends(kerr.NotEnoughReplicas)
	case 6, 7:
		h.log.FailAppends(nil)
	case 8, 9:
		synctest.Wait()
	case 10:
		h.markers()
	}
}

func (h *history) write() {
	h.n++
	key, value := fmt.Sprint("k", h.n), fmt.Sprint(h.n)
	recs := []coordrt.Record{rec(key, value)}
	var txn *coordrt.Producer
	switch h.rng.IntN(4) {
	case 0:
		txn = &coordrt.Producer{ID: h.rng.Int64N(3)}
	case 1:
		recs = append(recs, coordrt.Record{Key: []byte("gone")}, rec("last", value))
	}
	h.submitted++
	h.rts[h.rng.IntN(2)].Submit(0, func(*dict, time.Time) coordrt.Result {
		return coordrt.Result{Records: recs, Transaction: txn}
	}, func(err error) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.answered++
		if err == nil && txn == nil {
			h.acked[key] = value
		}
	})
}

func (h *history) markers() {
	h.submitted++
	h.rts[h.rng.IntN(2)].WriteMarker(0, coordrt.Marker{ProducerID: h.rng.Int64N(3), Commit: h.rng.IntN(2) == 0}, func(error) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.answered++
	})
}

// elect moves the leadership, to the same broker at times, and tells the brokers in any order and sometimes not at once.
func (h *history) elect() {
	h.epoch += 1 + h.rng.Int32N(2)
	epoch, leader := h.epoch, h.rng.IntN(2)
	if h.rng.IntN(2) == 0 {
		_, hw, end, _ := h.log.Bounds(tp(0))
		h.log.Lose(tp(0), hw+h.rng.Int64N(end-hw+1))
		h.epoch++
		epoch = h.epoch
	}
	h.log.Lead(tp(0), epoch)
	tell := []func(){
		func() { h.rts[leader].Elected(0, epoch) },
		func() { h.rts[1-leader].Resigned(0, epoch) },
	}
	for _, i := range h.rng.Perm(2) {
		if h.rng.IntN(3) == 0 {
			time.AfterFunc(time.Duration(h.rng.IntN(2000))*time.Millisecond, tell[i])
		} else {
			tell[i]()
		}
	}
}

// C2, C3, C4, C5
func TestRandomHistories(t *testing.T) {
	for seed := range uint64(100) {
		synctest.Test(t, func(t *testing.T) {
			h := &history{t: t, rng: rand.New(rand.NewPCG(seed, 7)), log: coordtest.New(), acked: map[string]string{}}
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 2)
			for i := range h.rts {
				rt, err := coordrt.New(coordrt.Options[*dict]{Topic: topic, Log: h.log, LoadBytes: 200, Workers: 2, NewShard: func(p int32, ts *coordrt.Timers) *dict {
					h.live[i] = newDict(p, ts)
					return h.live[i]
				}})
				require.NoError(t, err)
				h.rts[i] = rt
				go func() { done <- rt.Run(ctx) }()
			}
			h.log.Manual(true)
			h.log.HideTail(seed%3 == 0)
			for range 150 {
				h.step()
			}
			h.settle()
			cancel()
			require.NoError(t, <-done)
			require.NoError(t, <-done)
			require.Equal(t, h.submitted, h.answered, "seed %d: answers", seed)
		})
	}
}

// settle heals everything and compares the leader's state, however it came to be, with a reload by the other broker.
func (h *history) settle() {
	time.Sleep(time.Minute) // late notices, time-outs
	h.log.FailAppends(nil)
	h.log.CommitAll()
	synctest.Wait()
	h.epoch += 2
	h.log.Lead(tp(0), h.epoch)
	h.rts[1].Resigned(0, h.epoch)
	h.rts[0].Elected(0, h.epoch)
	time.Sleep(time.Minute)
	for range 20 { // live changes on top of what was loaded
		h.write()
		h.markers()
	}
	synctest.Wait()
	h.log.CommitAll()
	synctest.Wait()
	live := h.live[0].String()

	h.epoch++
	h.log.Lead(tp(0), h.epoch)
	h.rts[0].Resigned(0, h.epoch)
	h.rts[1].Elected(0, h.epoch)
	synctest.Wait()
	reloaded, err := coordrt.Peek(h.t.Context(), h.rts[1], 0, func(d *dict, _ time.Time) string { return d.String() })
	require.NoError(h.t, err)
	require.Equal(h.t, live, reloaded, "live and reloaded state")
	for k, v := range h.acked {
		require.Equal(h.t, v, h.live[1].values[k], "acknowledged write of %s", k)
	}
	offsets := h.live[1].offsets
	for i := 1; i < len(offsets); i++ {
		require.Less(h.t, offsets[i-1], offsets[i], "replayed once and in order")
	}
}
