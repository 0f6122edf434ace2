package coordrt_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/kbroker/kbroker/internal/coordrt"
	"github.com/kbroker/kbroker/internal/coordrt/coordtest"
	"github.com/kbroker/kbroker/internal/model"
	"github.com/kbroker/kbroker/protocol/record"
)

// C3: the answer waits for the high watermark, the state does not.
func TestAnswerWaitsForCommit(t *testing.T) {
	bubble(t, func(w *world) {
		w.log.Manual(true)
		w.elect(0, 1)
		a := w.put(0, rec("a", "1"))
		b := w.put(0, rec("b", "2"), rec("c", "3"))
		a.open()
		b.open()
		require.Equal(t, "a=1 b=2 c=3", w.state(0))
		w.log.Commit(tp(0), 1)
		synctest.Wait()
		a.ok()
		require.Equal(t, []error{nil}, a.then)
		w.log.Commit(tp(0), 2)
		synctest.Wait()
		b.open()
		w.log.Commit(tp(0), 3)
		synctest.Wait()
		b.ok()
	})
}

// C3: a reader may have seen what is not committed, so its answer waits, unless it says that it saw nothing.
func TestReadWaitsForWhatItMayHaveSeen(t *testing.T) {
	bubble(t, func(w *world) {
		w.log.Manual(true)
		w.elect(0, 1)
		read := func(soft bool) *pending {
			return w.submit(0, func(*dict, time.Time) coordrt.Result { return coordrt.Result{Soft: soft} })
		}
		read(false).ok()
		a := w.put(0, rec("a", "1"))
		r := read(false)
		read(true).ok()
		r.open()
		w.log.CommitAll()
		synctest.Wait()
		a.ok()
		r.ok()
		read(false).ok()
	})
}

func TestWriteReturnsValueAndError(t *testing.T) {
	bubble(t, func(w *world) {
		w.elect(0, 1)
		v, err := coordrt.Write(w.t.Context(), w.rt, 0, func(*dict, time.Time) (coordrt.Result, int, error) {
			return coordrt.Result{Records: []coordrt.Record{rec("a", "1")}}, 7, nil
		})
		require.NoError(t, err)
		require.Equal(t, 7, v)
		_, err = coordrt.Write(w.t.Context(), w.rt, 0, func(*dict, time.Time) (coordrt.Result, int, error) {
			return coordrt.Result{Records: []coordrt.Record{rec("b", "1")}}, 7, kerr.IllegalGeneration
		})
		require.ErrorIs(t, err, kerr.IllegalGeneration)
		require.Equal(t, "a=1", w.state(0))

		w.log.Manual(true)
		ctx, cancel := context.WithTimeout(w.t.Context(), time.Second)
		defer cancel()
		_, err = coordrt.Write(ctx, w.rt, 0, func(*dict, time.Time) (coordrt.Result, int, error) {
			return coordrt.Result{Records: []coordrt.Record{rec("c", "1")}}, 7, nil
		})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, "a=1 c=1", w.state(0), "the operation goes on")
	})
}

// C2, C4: a failed append changes nothing, and is answered.
func TestFailedAppendLeavesStateAlone(t *testing.T) {
	bubble(t, func(w *world) {
		w.elect(0, 1)
		w.put(0, rec("a", "1")).ok()
		w.log.FailAppends(kerr.NotEnoughReplicas)
		p := w.put(0, rec("a", "2")).failed(kerr.NotEnoughReplicas)
		require.Len(t, p.then, 1)
		require.ErrorIs(t, p.then[0], kerr.NotEnoughReplicas)
		require.Equal(t, "a=1", w.state(0))
		w.log.FailAppends(nil)
		w.put(0, rec("a", "3")).ok()
		require.Equal(t, "a=3", w.state(0))
	})
}

func TestThenMayWriteAgain(t *testing.T) {
	bubble(t, func(w *world) {
		w.elect(0, 1)
		w.log.FailAppends(kerr.NotEnoughReplicas)
		p := w.submit(0, func(*dict, time.Time) coordrt.Result {
			return coordrt.Result{Records: []coordrt.Record{rec("a", "1")}, Then: func(_ time.Time, err error) coordrt.Result {
				w.log.FailAppends(nil)
				return coordrt.Result{Records: []coordrt.Record{rec("repaired", "yes")}}
			}}
		})
		p.failed(kerr.NotEnoughReplicas)
		require.Equal(t, "repaired=yes", w.state(0))
	})
}

func TestCommitTimeout(t *testing.T) {
	bubble(t, func(w *world) {
		w.log.Manual(true)
		w.elect(0, 1)
		a := w.put(0, rec("a", "1"))
		time.Sleep(3 * time.Second)
		b := w.put(0, rec("b", "1"))
		time.Sleep(2 * time.Second)
		synctest.Wait()
		a.failed(kerr.RequestTimedOut)
		require.ErrorIs(t, a.then[0], kerr.RequestTimedOut)
		b.open()
		require.Equal(t, "a=1 b=1", w.state(0), "it may still be committed")
		w.log.CommitAll()
		synctest.Wait()
		b.ok()
		time.Sleep(time.Minute)
		synctest.Wait()
		a.failed(kerr.RequestTimedOut)
		b.ok()
	})
}

// C2: what a load gives is what was there, uncommitted end included; positions and flags are the same.
func TestLoadReplaysEverything(t *testing.T) {
	for _, hide := range []bool{false, true} {
		t.Run(fmt.Sprintf("hideTail=%v", hide), func(t *testing.T) {
			bubble(t, func(w *world) {
				w.elect(0, 1)
				for i := range 40 {
					w.put(0, rec(fmt.Sprint("k", i%7), fmt.Sprint(i)), rec(fmt.Sprint("x", i), "x")).ok()
				}
				w.put(0, coordrt.Record{Key: []byte("k3")}).ok()
				w.txn(0, 9, rec("t", "1"), rec("u", "2")).ok()
				w.marker(0, 9, true).ok()
				w.txn(0, 10, rec("t", "never")).ok()
				w.marker(0, 10, false).ok()
				w.log.Manual(true)
				w.log.HideTail(hide)
				w.txn(0, 11, rec("t", "pending"))
				w.put(0, rec("tail", "1"))
				live := w.state(0)
				require.Contains(t, live, "(11:t=pending)")
				require.NotContains(t, live, "never")

				w.rt.Resigned(0, 2)
				synctest.Wait()
				w.refused(0, kerr.NotCoordinator)
				w.elect(0, 3)
				if hide {
					w.refused(0, kerr.CoordinatorLoadInProgress)
					w.log.CommitAll()
					synctest.Wait()
				}
				require.Equal(t, live, w.state(0))
				require.Equal(t, w.shards[0].offsets, w.shards[1].offsets)
				require.True(t, w.shards[1].loaded)
				require.Greater(t, w.rt.Stats().LoadedRecords, int64(80))

				read := w.submit(0, func(*dict, time.Time) coordrt.Result { return coordrt.Result{} })
				if !hide {
					read.open() // the tail is not committed yet
				}
				w.log.CommitAll()
				synctest.Wait()
				read.ok()
			}, func(o *coordrt.Options[*dict]) { o.LoadBytes = 300 })
		})
	}
}

func (w *world) txn(partition int32, producer int64, recs ...coordrt.Record) *pending {
	return w.submit(partition, func(*dict, time.Time) coordrt.Result {
		return coordrt.Result{Records: recs, Transaction: &coordrt.Producer{ID: producer, Epoch: 3}}
	})
}

func (w *world) marker(partition int32, producer int64, commit bool) *pending {
	p := &pending{t: w.t}
	w.rt.WriteMarker(partition, coordrt.Marker{ProducerID: producer, ProducerEpoch: 3, Commit: commit}, func(err error) { p.n, p.err = p.n+1, err })
	synctest.Wait()
	return p
}

func TestTransactionalBatchesCarryTheirProducer(t *testing.T) {
	bubble(t, func(w *world) {
		w.elect(0, 1)
		w.txn(0, 9, rec("t", "1")).ok()
		require.Equal(t, "(9:t=1)", w.state(0))
		w.marker(0, 9, true).ok()
		require.Equal(t, "t=1", w.state(0))
		bs := w.log.Batches(tp(0))
		require.Len(t, bs, 2)
		require.True(t, bs[0].IsTransactional() && !bs[0].IsControl())
		require.Equal(t, int64(9), bs[0].ProducerID())
		require.Equal(t, int16(3), bs[0].ProducerEpoch())
		require.Equal(t, model.NoSequence, bs[0].BaseSequence())
		require.NoError(t, bs[0].VerifyCRC())
		commit, _, ok, err := record.ParseEndTxnMarker(bs[1])
		require.True(t, err == nil && ok && commit)

		w.log.FailAppends(kerr.InvalidProducerEpoch)
		w.marker(0, 9, true).failed(kerr.InvalidProducerEpoch)
	})
}

// A record whose transaction was decided and cleaned has lost its transactional bit but not its producer.
func TestCleanedRecordsOfATransactionCountAtOnce(t *testing.T) {
	bubble(t, func(w *world) {
		b := record.NewBuilder(record.Options{Idempotent: true, ProducerID: 4, Transactional: true, BaseSequence: -1})
		b.Add(0, []byte("k"), []byte("v"))
		batch, err := b.Finish()
		require.NoError(t, err)
		batch.ClearTransactional()
		require.NoError(t, w.log.Put(tp(0), batch))
		w.elect(0, 1)
		require.Equal(t, "k=v", w.state(0))
	})
}

func TestOperationsDuringLoadAreToldSo(t *testing.T) {
	bubble(t, func(w *world) {
		w.log.HideTail(true)
		w.log.Manual(true)
		w.elect(0, 1)
		w.put(0, rec("a", "1"))
		w.rt.Resigned(0, 2)
		w.elect(0, 3)
		w.put(0, rec("b", "1")).failed(kerr.CoordinatorLoadInProgress)
		w.marker(0, 1, true).failed(kerr.CoordinatorLoadInProgress)
		require.Equal(t, 1, w.rt.Stats().Loading)
		w.rt.Post(0, func(*dict, time.Time) coordrt.Result {
			return coordrt.Result{Records: []coordrt.Record{rec("posted", "1")}}
		})
		synctest.Wait()
		w.log.CommitAll()
		synctest.Wait()
		require.Equal(t, "a=1 posted=1", w.state(0), "a notice waits for the load")
		require.Equal(t, 1, w.rt.Stats().Active)
	})
}

func TestLossOfLeadershipAnswersEveryone(t *testing.T) {
	bubble(t, func(w *world) {
		w.log.Manual(true)
		w.elect(0, 1)
		a := w.put(0, rec("a", "1"))
		read := w.submit(0, func(*dict, time.Time) coordrt.Result { return coordrt.Result{} })
		var parked []error
		w.submit(0, func(d *dict, _ time.Time) coordrt.Result {
			d.waiting = append(d.waiting, func(err error) { parked = append(parked, err) })
			return coordrt.Result{Soft: true}
		}).ok()
		w.rt.Resigned(0, 2)
		synctest.Wait()
		a.failed(kerr.NotCoordinator)
		read.failed(kerr.NotCoordinator)
		require.Empty(t, a.then, "the shard is gone, Unloaded has told it")
		require.Equal(t, []error{errUnloaded}, parked)
		require.True(t, w.shards[0].unloaded)
		w.log.CommitAll()
		synctest.Wait()
		a.failed(kerr.NotCoordinator)
		require.Empty(t, w.rt.Partitions())
	})
}

// The broker may learn from its log that it is deposed before the cluster tells.
func TestLostLogUnloads(t *testing.T) {
	bubble(t, func(w *world) {
		w.log.Manual(true)
		w.elect(0, 1)
		w.put(0, rec("a", "1"))
		w.log.Commit(tp(0), 1)
		b := w.put(0, rec("b", "1"))
		w.log.Lose(tp(0), 1)
		synctest.Wait()
		b.failed(kerr.NotCoordinator)
		w.refused(0, kerr.NotCoordinator)
		w.elect(0, 2)
		require.Equal(t, "a=1", w.state(0), "what was not committed is gone")
	})
}

// C5: the log reports the old epoch's end and the cluster the new epoch, and the worker hears of both at once.
func TestNextEpochOfTheSameLeaderKeepsTheState(t *testing.T) {
	bubble(t, func(w *world) {
		w.log.Manual(true)
		w.elect(0, 1)
		w.elect(1, 1)
		a := w.put(0, rec("a", "1"))
		w.busy(func() {
			w.log.Lead(tp(0), 2)
			w.rt.Elected(0, 2)
		})
		a.failed(kerr.NotLeaderForPartition)
		require.ErrorIs(t, a.then[0], kerr.NotLeaderForPartition)
		require.Len(t, w.shards, 2, "no reload")
		read := w.submit(0, func(*dict, time.Time) coordrt.Result { return coordrt.Result{} }).open()
		b := w.put(0, rec("b", "1")).open()
		require.Equal(t, "a=1 b=1", w.state(0))
		w.log.Commit(tp(0), 1)
		synctest.Wait()
		read.ok()
		w.log.CommitAll()
		synctest.Wait()
		b.ok()

		w.elect(0, 4)
		require.Len(t, w.shards, 3, "somebody else may have led in epoch 3")
		require.True(t, w.shards[0].unloaded)
		require.Equal(t, "a=1 b=1", w.state(0))
	}, func(o *coordrt.Options[*dict]) { o.Workers = 1 })
}

// busy runs fn while the only worker is held up on partition 1.
func (w *world) busy(fn func()) {
	hold := make(chan struct{})
	w.rt.Submit(1, func(*dict, time.Time) coordrt.Result { <-hold; return coordrt.Result{} }, func(error) {})
	synctest.Wait()
	fn()
	close(hold)
	synctest.Wait()
}

func TestStaleNoticesChangeNothing(t *testing.T) {
	bubble(t, func(w *world) {
		w.elect(0, 5)
		w.put(0, rec("a", "1")).ok()
		w.rt.Resigned(0, 4)
		w.rt.Elected(0, 3)
		w.rt.Elected(0, 5)
		synctest.Wait()
		require.Equal(t, "a=1", w.state(0))
		require.Len(t, w.shards, 1)
		w.rt.Resigned(0, 5)
		synctest.Wait()
		w.refused(0, kerr.NotCoordinator)
		w.rt.Elected(0, 5)
		synctest.Wait()
		w.refused(0, kerr.NotCoordinator)
		w.rt.Resigned(1, 9) // never heard of
		w.refused(1, kerr.NotCoordinator)
	})
}

// A topic that is deleted and made again begins with epoch 0.
func TestForgottenPartitionBeginsAnew(t *testing.T) {
	bubble(t, func(w *world) {
		w.elect(0, 5)
		w.rt.Resigned(0, model.NoEpoch)
		w.elect(0, 0)
		require.Empty(t, w.state(0))
		w.rt.Resigned(0, model.NoEpoch)
		synctest.Wait()
		w.refused(0, kerr.NotCoordinator)
	})
}

func TestTimersWriteRecords(t *testing.T) {
	bubble(t, func(w *world) {
		w.elect(0, 1)
		w.submit(0, func(d *dict, now time.Time) coordrt.Result {
			d.expiry.Fire = func(now time.Time) coordrt.Result {
				if len(d.values) < 4 {
					d.timers.Set(&d.expiry, now.Add(time.Hour))
				}
				return coordrt.Result{Records: []coordrt.Record{rec(fmt.Sprint("t", len(d.values)), now.UTC().Format("15h"))}}
			}
			d.timers.Set(&d.expiry, now.Add(time.Minute))
			d.timers.Set(&d.expiry, now.Add(time.Hour)) // pushed back
			return coordrt.Result{}
		}).ok()
		time.Sleep(59 * time.Minute)
		synctest.Wait()
		require.Empty(t, w.state(0))
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, "t0=01h", w.state(0))
		time.Sleep(4 * time.Hour)
		synctest.Wait()
		require.Equal(t, "t0=01h t1=02h t2=03h t3=04h t4=05h", w.state(0))
		w.rt.Resigned(0, 2)
		time.Sleep(24 * time.Hour)
		synctest.Wait()
	})
}

func TestLoadedMayWriteAndSetTimers(t *testing.T) {
	bubble(t, func(w *world) {
		w.elect(0, 1)
		require.Equal(t, "loaded=1", w.state(0))
	}, func(o *coordrt.Options[*dict]) {
		o.NewShard = func(p int32, ts *coordrt.Timers) *dict {
			d := newDict(p, ts)
			d.onLoaded = coordrt.Result{Records: []coordrt.Record{rec("loaded", "1")}}
			return d
		}
	})
}

// C7
func TestBatchesAreBounded(t *testing.T) {
	bubble(t, func(w *world) {
		w.log.LimitBatches(1000)
		w.elect(0, 1)
		var recs []coordrt.Record
		for i := range 50 {
			recs = append(recs, rec(fmt.Sprintf("k%02d", i), strings.Repeat("v", 50)))
		}
		w.put(0, recs...).failed(kerr.MessageTooLarge)
		require.Empty(t, w.state(0), "all or none")
		require.Empty(t, w.log.Batches(tp(0)))
		w.submit(0, func(*dict, time.Time) coordrt.Result { return coordrt.Result{Records: recs, Split: true} }).ok()
		require.Equal(t, 50, strings.Count(w.state(0), "="))
		bs := w.log.Batches(tp(0))
		require.Greater(t, len(bs), 3)
		for _, b := range bs {
			require.LessOrEqual(t, len(b), 1000)
		}
		w.submit(0, func(*dict, time.Time) coordrt.Result {
			return coordrt.Result{Records: []coordrt.Record{rec("z", "1"), rec("big", strings.Repeat("v", 2000)), rec("zz", "1")}, Split: true}
		}).failed(kerr.MessageTooLarge)
	})
}

func TestCompressedBatches(t *testing.T) {
	bubble(t, func(w *world) {
		w.elect(0, 1)
		w.put(0, rec("a", strings.Repeat("v", 1000))).ok()
		require.Less(t, len(w.log.Batches(tp(0))[0]), 300)
		w.elect(0, 3)
		require.Equal(t, "a="+strings.Repeat("v", 1000), w.state(0))
	}, func(o *coordrt.Options[*dict]) { o.Codec = record.Zstd })
}

func TestFailedLoadIsTriedAgain(t *testing.T) {
	bubble(t, func(w *world) {
		w.elect(0, 1)
		w.put(0, rec("a", "1")).ok()
		w.log.FailReads(errors.New("disk"))
		w.elect(0, 3)
		w.refused(0, kerr.NotCoordinator)
		require.Equal(t, 1, w.rt.Stats().Failed)
		time.Sleep(20 * time.Second)
		w.log.FailReads(nil)
		w.refused(0, kerr.NotCoordinator)
		time.Sleep(30 * time.Second)
		require.Equal(t, "a=1", w.state(0))
		require.Less(t, len(w.shards), 8, "attempts are spaced out")
	})
}

// State that differs from the log would be worse than none.
func TestReplayErrorDropsTheState(t *testing.T) {
	bubble(t, func(w *world) {
		w.elect(0, 1)
		w.put(0, rec("a", "1")).ok()
		p := w.put(0, rec("broken", "1")).failed(kerr.NotCoordinator)
		require.Empty(t, p.then)
		w.refused(0, kerr.NotCoordinator)
		require.True(t, w.shards[0].unloaded)
	})
}

// C7: what does not fit is told to come again, and what was accepted is answered (C4).
func TestQueuesAreBounded(t *testing.T) {
	bubble(t, func(w *world) {
		w.log.Manual(true)
		w.elect(0, 1)
		var oks, busy int
		count := func(err error) {
			switch {
			case err == nil:
				oks++
			case errors.Is(err, kerr.CoordinatorNotAvailable):
				busy++
			}
		}
		limit := w.rt.Stats().UncommittedLimit
		for range limit + 10 {
			w.rt.Submit(0, func(*dict, time.Time) coordrt.Result {
				return coordrt.Result{Records: []coordrt.Record{rec("a", "1")}}
			}, count)
			if w.rt.Stats().Queued > 1000 {
				synctest.Wait()
			}
		}
		synctest.Wait()
		require.Equal(t, 10, busy)
		require.Equal(t, limit, w.rt.Stats().Uncommitted)
		w.log.CommitAll()
		synctest.Wait()
		require.Equal(t, limit, oks)
		require.Zero(t, w.rt.Stats().Uncommitted)

		// With the only worker held up, the queue fills.
		hold := make(chan struct{})
		w.rt.Submit(0, func(*dict, time.Time) coordrt.Result { <-hold; return coordrt.Result{} }, count)
		synctest.Wait()
		busy = 0
		for range w.rt.Stats().QueueLimit + 5 {
			w.rt.Submit(0, func(*dict, time.Time) coordrt.Result { return coordrt.Result{} }, count)
		}
		require.Equal(t, 5, busy)
		require.Equal(t, w.rt.Stats().QueueLimit, w.rt.Stats().FullestQueue)
		close(hold)
	}, func(o *coordrt.Options[*dict]) { o.Workers = 1 })
}

// C4
func TestCloseAnswersEverything(t *testing.T) {
	bubble(t, func(w *world) {
		w.log.Manual(true)
		w.elect(0, 1)
		a := w.put(0, rec("a", "1"))
		hold := make(chan struct{})
		held := &pending{t: t}
		w.rt.Submit(0, func(*dict, time.Time) coordrt.Result { <-hold; return coordrt.Result{} }, func(err error) { held.n, held.err = held.n+1, err })
		synctest.Wait()
		queued := w.put(0, rec("b", "1"))
		stop := w.stop
		w.stop = nil
		time.AfterFunc(time.Second, func() { close(hold) })
		stop()
		a.failed(kerr.NotCoordinator)
		queued.failed(kerr.CoordinatorNotAvailable)
		require.Equal(t, 1, held.n)
		require.Error(t, held.err)
		w.put(0, rec("c", "1")).failed(kerr.CoordinatorNotAvailable)
		w.rt.Elected(7, 1)
		w.put(7, rec("c", "1")).failed(kerr.NotCoordinator)
		require.True(t, w.shards[0].unloaded)
		require.Error(t, w.rt.Run(w.t.Context()), "once only")
	})
}

func TestPartitionsShareWorkersFairly(t *testing.T) {
	bubble(t, func(w *world) {
		w.elect(0, 1)
		w.elect(1, 1)
		var order []int32
		hold := make(chan struct{})
		w.rt.Submit(0, func(*dict, time.Time) coordrt.Result { <-hold; return coordrt.Result{} }, func(error) {})
		synctest.Wait()
		note := func(p int32) {
			w.rt.Submit(p, func(*dict, time.Time) coordrt.Result {
				order = append(order, p)
				return coordrt.Result{}
			}, func(error) {})
		}
		for range 1000 {
			note(0)
		}
		note(1)
		close(hold)
		synctest.Wait()
		require.Len(t, order, 1001)
		require.Contains(t, order[:200], int32(1), "a busy partition must not starve the others")
	}, func(o *coordrt.Options[*dict]) { o.Workers = 1 })
}

func TestPeekAllKeepsTheOrderOfPartitions(t *testing.T) {
	bubble(t, func(w *world) {
		w.log.FailReads(nil)
		for _, p := range []int32{3, 1, 2} {
			w.elect(p, 1)
			w.put(p, rec(fmt.Sprint("p", p), "1")).ok()
		}
		var got []string
		coordrt.PeekAll(w.t.Context(), w.rt, func(d *dict, _ time.Time) string { return d.String() }, func(s string, err error) {
			require.NoError(t, err)
			got = append(got, s)
		})
		require.Equal(t, []string{"p1=1", "p2=1", "p3=1"}, got)
	})
}

func TestOptionsAreChecked(t *testing.T) {
	_, err := coordrt.New(coordrt.Options[*dict]{Workers: -1})
	require.ErrorContains(t, err, "no topic")
	require.ErrorContains(t, err, "no log")
	require.ErrorContains(t, err, "no shard")
	require.ErrorContains(t, err, "negative")
}

func TestErrorOf(t *testing.T) {
	require.Nil(t, coordrt.ErrorOf(nil))
	for in, want := range map[error]*kerr.Error{
		errors.New("x"): kerr.UnknownServerError,
		fmt.Errorf("a: %w", kerr.NotEnoughReplicas):            kerr.CoordinatorNotAvailable,
		kerr.RequestTimedOut:                                   kerr.CoordinatorNotAvailable,
		kerr.UnknownTopicOrPartition:                           kerr.CoordinatorNotAvailable,
		kerr.NotLeaderForPartition:                             kerr.NotCoordinator,
		fmt.Errorf("a: %w", kerr.KafkaStorageError):            kerr.NotCoordinator,
		kerr.MessageTooLarge:                                   kerr.UnknownServerError,
		kerr.NetworkException:                                  kerr.CoordinatorLoadInProgress,
		fmt.Errorf("a: %w", kerr.IllegalGeneration):            kerr.IllegalGeneration,
		fmt.Errorf("%w: %w", kerr.CorruptMessage, errUnloaded): kerr.CorruptMessage,
	} {
		require.Equal(t, want, coordrt.ErrorOf(in), "%v", in)
	}
}

var _ coordrt.Log = (*coordtest.Log)(nil)

func TestNoticesAreBounded(t *testing.T) {
	bubble(t, func(w *world) {
		w.log.HideTail(true)
		w.log.Manual(true)
		w.elect(0, 1)
		w.put(0, rec("a", "1"))
		w.elect(0, 3) // waits for the high watermark
		ran := 0
		for range 2000 {
			w.rt.Post(0, func(*dict, time.Time) coordrt.Result { ran++; return coordrt.Result{} })
		}
		w.rt.Post(9, func(*dict, time.Time) coordrt.Result { ran++; return coordrt.Result{} })
		synctest.Wait()
		require.Zero(t, ran)
		w.log.CommitAll()
		synctest.Wait()
		require.Equal(t, 1024, ran)
		w.rt.Resigned(0, 4)
		w.rt.Post(0, func(*dict, time.Time) coordrt.Result { ran++; return coordrt.Result{} })
		synctest.Wait()
		require.Equal(t, 1024, ran, "not led here")
	})
}

// A notice outlives a load that fails.
func TestNoticesWaitForTheNextAttempt(t *testing.T) {
	bubble(t, func(w *world) {
		w.log.FailReads(errors.New("disk"))
		w.elect(0, 1)
		w.rt.Post(0, func(*dict, time.Time) coordrt.Result {
			return coordrt.Result{Records: []coordrt.Record{rec("posted", "1")}}
		})
		w.log.FailReads(nil)
		time.Sleep(2 * time.Second)
		require.Equal(t, "posted=1", w.state(0))
	})
}

// Resignation during a load ends it, and a later election begins it anew.
func TestResignedWhileLoading(t *testing.T) {
	bubble(t, func(w *world) {
		w.log.HideTail(true)
		w.log.Manual(true)
		w.elect(0, 1)
		w.put(0, rec("a", "1"))
		w.elect(0, 3)
		w.refused(0, kerr.CoordinatorLoadInProgress)
		w.rt.Resigned(0, 4)
		synctest.Wait()
		require.True(t, w.shards[1].unloaded)
		require.False(t, w.shards[1].loaded)
		w.refused(0, kerr.NotCoordinator)
		w.log.CommitAll()
		synctest.Wait()
		w.refused(0, kerr.NotCoordinator)
		w.elect(0, 5)
		require.Equal(t, "a=1", w.state(0))
		require.Equal(t, []int32{0}, w.rt.Partitions())
	})
}

// A newer epoch during a load begins it anew, because the log may have changed.
func TestNewEpochWhileLoading(t *testing.T) {
	bubble(t, func(w *world) {
		w.log.HideTail(true)
		w.log.Manual(true)
		w.elect(0, 1)
		w.put(0, rec("a", "1"))
		w.put(0, rec("b", "1"))
		w.elect(0, 3)
		w.log.Lose(tp(0), 1)
		w.elect(0, 4)
		w.log.CommitAll()
		synctest.Wait()
		require.Equal(t, "a=1", w.state(0))
	})
}

// A damaged log keeps the partition out of service, however often it is tried, and does not disturb the others.
func TestDamagedLog(t *testing.T) {
	bubble(t, func(w *world) {
		b := record.NewBuilder(record.Options{})
		b.Add(0, []byte("broken"), []byte("v"))
		batch, err := b.Finish()
		require.NoError(t, err)
		require.NoError(t, w.log.Put(tp(0), batch))
		w.elect(0, 1)
		w.elect(1, 1)
		w.put(1, rec("a", "1")).ok()
		w.refused(0, kerr.NotCoordinator)
		time.Sleep(10 * time.Minute)
		w.refused(0, kerr.NotCoordinator)
		require.Equal(t, "a=1", w.state(1))
		require.Less(t, len(w.shards), 30, "attempts are spaced out")
		for _, d := range w.shards {
			if d != w.shards[len(w.shards)-1] && !d.unloaded {
				require.Equal(t, "a=1", d.String(), "only the good one is in service")
			}
		}
	})
}
