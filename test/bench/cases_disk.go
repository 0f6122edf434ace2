package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/test/bench/prototype"
)

// produceTimed sends one batch at a time and returns how long each acknowledgement took.
func produceTimed(addr, topic string, records []byte, count int) ([]time.Duration, error) {
	c, err := dialRaw(addr)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	steps := make([]time.Duration, 0, count)
	for range count {
		begin := time.Now()
		resp, err := c.roundTrip(produceRequest(topic, 0, records))
		if err != nil {
			return nil, err
		}
		if code := resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode; code != 0 {
			return nil, fmt.Errorf("produce refused with error code %d", code)
		}
		steps = append(steps, time.Since(begin))
	}
	return steps, nil
}

// syncedProduce compares a topic that syncs every message with a loop that writes and syncs the same batches.
func syncedProduce(e *env) (rows, error) {
	const count = 400
	one := "1"
	topic := map[string]*string{"flush.messages": &one}
	small, large := batch(16<<10, 1000), batch(largeBatch, 1000)
	var mbOurs, mbRaw, p50Ours, p50Raw []float64
	for range e.rounds {
		err := e.withBroker(false, nil, topic, func(b *broker) error {
			begin := time.Now()
			n, err := produceRaw(b.addr, prototype.Topic, large, count, 4)
			if err != nil {
				return err
			}
			mbOurs = append(mbOurs, float64(n)/1e6/time.Since(begin).Seconds())
			steps, err := produceTimed(b.addr, prototype.Topic, small, count)
			if err == nil {
				p50Ours = append(p50Ours, percentile(steps, 0.5).Seconds()*1e3)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
		begin := time.Now()
		if _, err := writeAndSync(e.dir, large, count); err != nil {
			return nil, err
		}
		mbRaw = append(mbRaw, count*largeBatch/1e6/time.Since(begin).Seconds())
		steps, err := writeAndSync(e.dir, small, count)
		if err != nil {
			return nil, err
		}
		p50Raw = append(p50Raw, percentile(steps, 0.5).Seconds()*1e3)
	}
	const loop = "write+fdatasync loop"
	return rows{
		{id: "T7", what: "acks=all, flush.messages=1, 1 MB batches", kbroker: median(mbOurs), yardstick: median(mbRaw), unit: "MB/s", yardstickName: loop, target: 0.5},
		{id: "T7", what: "acks=all, flush.messages=1, 16 KB batches, p50", kbroker: median(p50Ours), yardstick: median(p50Raw), unit: "ms", yardstickName: loop, lower: true, target: 4},
	}, nil
}

// recovery kills a broker and times the start that has to scan its log, beside a loop that reads and sums the files.
func recovery(e *env) (rows, error) {
	b := batch(largeBatch, 1000)
	var ours, raw []float64
	for range e.rounds {
		err := e.withBroker(false, nil, nil, func(br *broker) error {
			if _, err := produceRaw(br.addr, prototype.Topic, b, produceSize/largeBatch, 8); err != nil {
				return err
			}
			if err := br.kill(); err != nil {
				return err
			}
			took, err := br.start(e.ctx, prototype.Topic)
			if err != nil {
				return err
			}
			files, err := filepath.Glob(filepath.Join(br.dir, "data", prototype.Topic+"-0", "*.log"))
			if err != nil {
				return err
			}
			total, loop, err := readAndSum(files)
			if err != nil {
				return err
			}
			ours = append(ours, float64(total)/1e9/took.Seconds())
			raw = append(raw, float64(total)/1e9/loop.Seconds())
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return rows{{id: "T9", what: "start after kill -9, log in page cache", kbroker: median(ours), yardstick: median(raw), unit: "GB/s",
		yardstickName: "read+CRC loop", target: 0.5}}, nil
}

const (
	idlePartitions = 10_000
	idlePerTopic   = 100
	idleTime       = 2 * time.Second
)

// weights are the figures of footprint, one of each a round.
type weights struct {
	empty, full           []float64 // start, ms
	idle, perPartition    []float64 // RSS, MB and KiB
	idleCPU, idleCPUFull  []float64 // percent of a core
	stopFull, createTopic []float64 // ms
}

// footprint times starts and weighs the process: empty, and with many idle partitions.
func footprint(e *env) (rows, error) {
	var w weights
	for range e.rounds {
		dir, err := e.fresh()
		if err != nil {
			return nil, err
		}
		b, err := newKBroker(e.binary, dir, e.settings...)
		if err != nil {
			return nil, err
		}
		if err := errors.Join(e.weigh(b, &w), b.kill(), os.RemoveAll(dir)); err != nil {
			return nil, err
		}
	}
	return rows{
		{id: "T11", what: "start on an empty directory, to the first answer", kbroker: median(w.empty), unit: "ms", lower: true, limit: 50},
		{id: "T12", what: "RSS idle", kbroker: median(w.idle), unit: "MB", lower: true, limit: 30},
		{id: "T12", what: "CPU idle", kbroker: median(w.idleCPU), unit: "% of a core", lower: true},
		{id: "T11", what: "start with 10,000 partitions, clean, to a leader's name", kbroker: median(w.full), unit: "ms", lower: true, limit: 2000},
		{id: "T10", what: "RSS per idle partition, of 10,000", kbroker: median(w.perPartition), unit: "KiB", lower: true, limit: 4},
		{id: "T10", what: "CPU idle with 10,000 partitions", kbroker: median(w.idleCPUFull), unit: "% of a core", lower: true},
		{id: "T11", what: "create a topic of 100 partitions", kbroker: median(w.createTopic), unit: "ms", lower: true},
		{id: "T11", what: "stop with 10,000 partitions", kbroker: median(w.stopFull), unit: "ms", lower: true},
	}, nil
}

func (e *env) weigh(b *broker, w *weights) error {
	took, err := b.start(e.ctx, "")
	if err != nil {
		return err
	}
	w.empty = append(w.empty, milliseconds(took))
	bare, err := b.rest(&w.idleCPU)
	if err != nil {
		return err
	}
	w.idle = append(w.idle, float64(bare)/1e6)
	begin := time.Now()
	for i := range idlePartitions / idlePerTopic {
		if err := createTopics(e.ctx, b.addr, idlePerTopic, 1, nil, idleTopic(i)); err != nil {
			return err
		}
	}
	w.createTopic = append(w.createTopic, milliseconds(time.Since(begin))/(idlePartitions/idlePerTopic))
	if err := b.stop(); err != nil {
		return err
	}
	if took, err = b.start(e.ctx, idleTopic(idlePartitions/idlePerTopic-1)); err != nil {
		return err
	}
	w.full = append(w.full, milliseconds(took))
	loaded, err := b.rest(&w.idleCPUFull)
	if err != nil {
		return err
	}
	w.perPartition = append(w.perPartition, float64(loaded-bare)/1024/idlePartitions)
	begin = time.Now()
	if err := b.stop(); err != nil {
		return err
	}
	w.stopFull = append(w.stopFull, milliseconds(time.Since(begin)))
	return nil
}

func idleTopic(i int) string { return fmt.Sprintf("idle-%d", i) }

func milliseconds(d time.Duration) float64 { return d.Seconds() * 1e3 }

// rest leaves the process alone for a while, notes what it used of a core, and returns its resident memory.
func (b *broker) rest(percent *[]float64) (rss int64, err error) {
	before, err := b.cpu()
	if err != nil {
		return 0, err
	}
	time.Sleep(idleTime) // what is measured is that nothing happens
	after, err := b.cpu()
	if err != nil {
		return 0, err
	}
	*percent = append(*percent, 100*(after-before).Seconds()/idleTime.Seconds())
	return b.rss()
}
