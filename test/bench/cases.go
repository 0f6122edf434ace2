package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/kbroker/kbroker/test/bench/prototype"
)

type env struct {
	ctx         context.Context
	dir, binary string
	rounds      int
	settings    []string // of kbroker, for all cases
	// profiles is the directory that profiles go into, empty for none; name is that of the case.
	profiles, name string
	n              int
	// writes is about how much the loads of the case write.
	writes int64
	// between, when set, runs in each round of pair after the first side.
	between func() error
}

type benchCase struct {
	name string
	run  func(*env) (rows, error)
}

var cases = []benchCase{
	{"T1 produce 1 MB batches", produceLarge},
	{"T2 produce with kgo", produceKgo},
	{"T5 fetch", fetchLarge},
	{"T6 small requests", smallRequests},
	{"T7 synced produce", syncedProduce},
	{"T9 recovery", recovery},
	{"T10-T12 start and memory", footprint},
}

// fresh returns a new empty directory.
func (e *env) fresh() (string, error) {
	e.n++
	d := filepath.Join(e.dir, fmt.Sprint(e.n))
	return d, os.Mkdir(d, 0o755)
}

// sample is what one load on one broker cost.
type sample struct {
	bytes     int64
	wall, cpu time.Duration
	rss       int64
}

func (s sample) mbPerSecond() float64 { return float64(s.bytes) / 1e6 / s.wall.Seconds() }
func (s sample) cpuPerGB() float64    { return s.cpu.Seconds() / (float64(s.bytes) / 1e9) }

// measure runs load against a started broker.
func (e *env) measure(b *broker, load func() (int64, error)) (s sample, err error) {
	if b.profiles != "" {
		e.n++
		path, done := filepath.Join(e.profiles, fmt.Sprintf("%s-%d.pprof", strings.Fields(e.name)[0], e.n)), make(chan error, 1)
		go func() { done <- b.profile(e.ctx, path) }()
		defer func() { err = errors.Join(err, <-done) }()
	}
	before, err := b.cpu()
	if err != nil {
		return s, err
	}
	begin := time.Now()
	if s.bytes, err = load(); err != nil {
		return s, err
	}
	s.wall = time.Since(begin)
	after, err := b.cpu()
	if err != nil {
		return s, err
	}
	s.cpu = after - before
	s.rss, err = b.rss()
	return s, err
}

// withBroker starts a broker of the kind in a fresh directory, with the topic in it, and stops it afterwards.
func (e *env) withBroker(prototyped bool, settings []string, topic map[string]*string, fn func(*broker) error) error {
	dir, err := e.fresh()
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	var b *broker
	if prototyped {
		b, err = newPrototype(dir)
	} else {
		b, err = newKBroker(e.binary, dir, append(slices.Clone(e.settings), settings...)...)
		if err == nil && e.profiles != "" {
			err = b.profiled()
		}
	}
	if err != nil {
		return err
	}
	serving := ""
	if prototyped {
		serving = prototype.Topic
	}
	if _, err := b.start(e.ctx, serving); err != nil {
		return err
	}
	defer func() { _ = b.kill() }()
	if !prototyped {
		if err := createTopics(e.ctx, b.addr, 1, 1, topic, prototype.Topic); err != nil {
			return err
		}
	}
	return fn(b)
}

func createTopics(ctx context.Context, addr string, partitions int32, rf int16, configs map[string]*string, names ...string) error {
	c, err := kgo.NewClient(kgo.SeedBrokers(addr))
	if err != nil {
		return err
	}
	defer c.Close()
	resp, err := kadm.NewClient(c).CreateTopics(ctx, partitions, rf, configs, names...)
	if err != nil {
		return err
	}
	return resp.Error()
}

// pair runs a load on kbroker and on the prototype in turn and returns the medians of what figure makes of them.
func (e *env) pair(load func(addr string) (int64, error), prepare func(addr string) error, figures ...func(sample) float64) (ours, theirs []float64, err error) {
	all := [2][][]float64{make([][]float64, len(figures)), make([][]float64, len(figures))}
	for round := range e.rounds {
		for turn := range 2 {
			side := (round + turn) % 2 // who goes first finds another machine than who goes second
			if turn == 1 && e.between != nil {
				if err := e.between(); err != nil {
					return nil, nil, err
				}
			}
			if err := touchMemory(e.dir, e.writes); err != nil {
				return nil, nil, err
			}
			err := e.withBroker(side == 1, nil, nil, func(b *broker) error {
				if prepare != nil {
					if err := prepare(b.addr); err != nil {
						return err
					}
				}
				s, err := e.measure(b, func() (int64, error) { return load(b.addr) })
				for i, f := range figures {
					all[side][i] = append(all[side][i], f(s))
				}
				return err
			})
			if err != nil {
				return nil, nil, err
			}
		}
	}
	for i := range figures {
		ours = append(ours, median(all[0][i]))
		theirs = append(theirs, median(all[1][i]))
	}
	return ours, theirs, nil
}

const (
	largeBatch  = 1_000_000
	produceSize = 2_000_000_000
)

func produceLarge(e *env) (rows, error) {
	b := batch(largeBatch, 1000)
	e.writes = produceSize
	load := func(addr string) (int64, error) {
		return produceRaw(addr, prototype.Topic, b, produceSize/largeBatch, 8)
	}
	ours, theirs, err := e.pair(load, nil, sample.cpuPerGB, sample.mbPerSecond)
	if err != nil {
		return nil, err
	}
	return rows{
		{id: "T1", what: "produce RF=1, 1 MB batches", kbroker: ours[0], yardstick: theirs[0], unit: "CPU-s/GB", yardstickName: "prototype", lower: true, target: 1.3},
		{id: "T1", what: "produce RF=1, 1 MB batches", kbroker: ours[1], yardstick: theirs[1], unit: "MB/s", yardstickName: "prototype"},
	}, nil
}

// produceWithKgo sends count records of the size, all acknowledged by all, without idempotence as the prototype has none.
func produceWithKgo(ctx context.Context, addr string, size, count int) (int64, error) {
	c, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.DefaultProduceTopic(prototype.Topic), kgo.DisableIdempotentWrite(),
		kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.MaxBufferedRecords(200_000), kgo.ProducerBatchMaxBytes(1<<20),
		kgo.ProducerLinger(0), kgo.MaxProduceRequestsInflightPerBroker(5), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		return 0, err
	}
	defer c.Close()
	value := make([]byte, size)
	var (
		mu     sync.Mutex
		failed error
	)
	done := func(_ *kgo.Record, err error) {
		if err != nil {
			mu.Lock()
			failed = err
			mu.Unlock()
		}
	}
	for range count {
		c.Produce(ctx, &kgo.Record{Value: value}, done)
	}
	if err := c.Flush(ctx); err != nil {
		return 0, err
	}
	mu.Lock()
	defer mu.Unlock()
	return int64(size) * int64(count), failed
}

func produceKgo(e *env) (rows, error) {
	var out rows
	for _, c := range []struct{ size, count int }{{100, 4_000_000}, {1000, 1_000_000}} {
		e.writes = int64(c.count) * int64(c.size+20)
		load := func(addr string) (int64, error) { return produceWithKgo(e.ctx, addr, c.size, c.count) }
		rate := func(s sample) float64 { return float64(c.count) / s.wall.Seconds() }
		ours, theirs, err := e.pair(load, nil, rate, sample.cpuPerGB, func(s sample) float64 { return float64(s.rss) / 1e6 })
		if err != nil {
			return nil, err
		}
		what := fmt.Sprintf("produce RF=1, kgo, %d B records", c.size)
		out = append(out,
			row{id: "T2", what: what, kbroker: ours[0], yardstick: theirs[0], unit: "records/s", yardstickName: "prototype", target: 0.8},
			row{id: "T2", what: what, kbroker: ours[1], yardstick: theirs[1], unit: "CPU-s/GB", yardstickName: "prototype", lower: true},
			row{id: "T12", what: "RSS after that load", kbroker: ours[2], unit: "MB", lower: true, limit: 256})
	}
	return out, nil
}

const (
	fetchPiece = 1 << 20
	fetchLog   = 256 * fetchPiece
	fetchTotal = 4_000_000_000
)

func fetchLarge(e *env) (rows, error) {
	b := batch(fetchPiece/8, 1000)
	e.writes = fetchLog
	fill := func(addr string) error {
		_, err := produceRaw(addr, prototype.Topic, b, fetchLog/len(b), 8)
		return err
	}
	var raw []float64
	e.between = func() error {
		took, err := sendfileLoop(e.dir, fetchLog, fetchPiece, fetchTotal)
		raw = append(raw, fetchTotal/1e6/took.Seconds())
		return err
	}
	load := func(addr string) (int64, error) { return fetchRaw(addr, prototype.Topic, fetchPiece, fetchTotal) }
	ours, theirs, err := e.pair(load, fill, sample.mbPerSecond, sample.cpuPerGB)
	if err != nil {
		return nil, err
	}
	return rows{
		{id: "T5", what: "fetch from page cache, 1 connection", kbroker: ours[0], yardstick: median(raw), unit: "MB/s", yardstickName: "raw sendfile loop", target: 0.8},
		{id: "T5", what: "fetch from page cache, 1 connection", kbroker: ours[0], yardstick: theirs[0], unit: "MB/s", yardstickName: "prototype"},
		{id: "T5", what: "fetch from page cache, 1 connection", kbroker: ours[1], yardstick: theirs[1], unit: "CPU-s/GB", yardstickName: "prototype", lower: true, target: 1.3},
	}, nil
}

const (
	smallBatch       = 16 << 10
	smallConnections = 8
	smallPerConn     = 8_000
)

func smallRequests(e *env) (rows, error) {
	b := batch(smallBatch, 1000)
	e.writes = smallBatch * smallConnections * smallPerConn
	load := func(addr string) (int64, error) {
		errs := make(chan error, smallConnections)
		for range smallConnections {
			go func() {
				_, err := produceRaw(addr, prototype.Topic, append([]byte(nil), b...), smallPerConn, 4)
				errs <- err
			}()
		}
		for range smallConnections {
			if err := <-errs; err != nil {
				return 0, err
			}
		}
		return int64(len(b)) * smallConnections * smallPerConn, nil
	}
	rate := func(s sample) float64 { return smallConnections * smallPerConn / s.wall.Seconds() }
	ours, theirs, err := e.pair(load, nil, rate, sample.cpuPerGB)
	if err != nil {
		return nil, err
	}
	return rows{
		{id: "T6", what: "produce 16 KB requests, 8 connections", kbroker: ours[0], yardstick: theirs[0], unit: "requests/s", yardstickName: "prototype", target: 0.6},
		{id: "T6", what: "produce 16 KB requests, 8 connections", kbroker: ours[1], yardstick: theirs[1], unit: "CPU-s/GB", yardstickName: "prototype", lower: true},
	}, nil
}
