package coordrt_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kbroker/kbroker/internal/coordrt"
	"github.com/kbroker/kbroker/internal/coordrt/coordtest"
	"github.com/kbroker/kbroker/internal/model"
)

const topic = "__state"

func tp(partition int32) model.TopicPartition {
	return model.TopicPartition{Topic: topic, Partition: partition}
}

// dict is a shard that maps keys to values; transactional values wait for their marker. Its timer, when set, deletes a key.
type dict struct {
	timers   *coordrt.Timers
	values   map[string]string
	pending  map[int64]map[string]string
	offsets  []int64 // of everything replayed
	loaded   bool
	unloaded bool
	waiting  []func(error)
	expiry   coordrt.Timer
	onLoaded coordrt.Result
}

var errUnloaded = errors.New("unloaded")

func newDict(_ int32, timers *coordrt.Timers) *dict {
	return &dict{timers: timers, values: map[string]string{}, pending: map[int64]map[string]string{}}
}

func (d *dict) Replay(at coordrt.Position, r coordrt.Record) error {
	d.offsets = append(d.offsets, at.Offset)
	if string(r.Key) == "broken" {
		return errors.New("broken record")
	}
	switch {
	case at.Transactional:
		if d.pending[at.ProducerID] == nil {
			d.pending[at.ProducerID] = map[string]string{}
		}
		d.pending[at.ProducerID][string(r.Key)] = string(r.Value)
	case r.Value == nil:
		delete(d.values, string(r.Key))
	default:
		d.values[string(r.Key)] = string(r.Value)
	}
	return nil
}

func (d *dict) ReplayMarker(at coordrt.Position, commit bool) {
	d.offsets = append(d.offsets, at.Offset)
	if commit {
		maps.Copy(d.values, d.pending[at.ProducerID])
	}
	delete(d.pending, at.ProducerID)
}

func (d *dict) Loaded(time.Time) coordrt.Result { d.loaded = true; return d.onLoaded }

func (d *dict) Unloaded() {
	d.unloaded = true
	for _, fn := range d.waiting {
		fn(errUnloaded)
	}
}

func (d *dict) String() string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(d.values)) {
		out = append(out, k+"="+d.values[k])
	}
	for _, id := range slices.Sorted(maps.Keys(d.pending)) {
		for _, k := range slices.Sorted(maps.Keys(d.pending[id])) {
			out = append(out, fmt.Sprintf("(%d:%s=%s)", id, k, d.pending[id][k]))
		}
	}
	return strings.Join(out, " ")
}

func rec(k, v string) coordrt.Record { return coordrt.Record{Key: []byte(k), Value: []byte(v)} }

// world is a runtime of dicts on a log in memory.
type world struct {
	t      *testing.T
	log    *coordtest.Log
	rt     *coordrt.Runtime[*dict]
	shards []*dict // every one ever made
	stop   func()
}

// bubble runs fn in virtual time with a running runtime, and stops that afterwards.
func bubble(t *testing.T, fn func(w *world), change ...func(*coordrt.Options[*dict])) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, log: coordtest.New()}
		o := coordrt.Options[*dict]{Topic: topic, Log: w.log, NewShard: func(p int32, ts *coordrt.Timers) *dict {
			d := newDict(p, ts)
			w.shards = append(w.shards, d)
			return d
		}}
		for _, c := range change {
			c(&o)
		}
		rt, err := coordrt.New(o)
		require.NoError(t, err)
		w.rt = rt
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- rt.Run(ctx) }()
		w.stop = func() {
			cancel()
			require.NoError(t, <-done)
		}
		fn(w)
		if w.stop != nil {
			w.stop()
		}
	})
}

func (w *world) elect(partition, epoch int32) {
	w.log.Lead(tp(partition), epoch)
	w.rt.Elected(partition, epoch)
	synctest.Wait()
}

// pending is an operation that may not be answered yet.
type pending struct {
	t    *testing.T
	err  error
	n    int
	then []error
}

func (p *pending) open() *pending {
	p.t.Helper()
	require.Zero(p.t, p.n, "answered with %v, should wait", p.err)
	return p
}

func (p *pending) ok() *pending {
	p.t.Helper()
	require.Equal(p.t, 1, p.n, "answers")
	require.NoError(p.t, p.err)
	return p
}

func (p *pending) failed(target error) *pending {
	p.t.Helper()
	require.Equal(p.t, 1, p.n, "answers")
	require.ErrorIs(p.t, p.err, target)
	return p
}

func (w *world) submit(partition int32, fn func(*dict, time.Time) coordrt.Result) *pending {
	p := &pending{t: w.t}
	w.rt.Submit(partition, fn, func(err error) { p.n, p.err = p.n+1, err })
	synctest.Wait()
	return p
}

// put writes records and notes what its Then is told.
func (w *world) put(partition int32, recs ...coordrt.Record) *pending {
	var p *pending
	then := []error{}
	p = w.submit(partition, func(*dict, time.Time) coordrt.Result {
		return coordrt.Result{Records: recs, Then: func(_ time.Time, err error) coordrt.Result {
			then = append(then, err)
			if p != nil {
				p.then = then
			}
			return coordrt.Result{}
		}}
	})
	p.then = then
	return p
}

func (w *world) state(partition int32) string {
	w.t.Helper()
	s, err := coordrt.Peek(w.t.Context(), w.rt, partition, func(d *dict, _ time.Time) string { return d.String() })
	require.NoError(w.t, err)
	return s
}

func (w *world) refused(partition int32, target error) {
	w.t.Helper()
	_, err := coordrt.Peek(w.t.Context(), w.rt, partition, func(*dict, time.Time) int { return 0 })
	require.ErrorIs(w.t, err, target)
}
