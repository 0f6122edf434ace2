package broker

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/kbroker/kbroker/internal/logdir"
	"github.com/kbroker/kbroker/internal/model"
)

// checkpointDirt tells which checkpoints have something new to say, so that an idle broker writes nothing.
type checkpointDirt struct{ highWatermarks, logs atomic.Bool }

func mark(dirty *atomic.Bool) {
	if !dirty.Load() { // a plain load keeps the cache line shared between cores while nothing changes
		dirty.Store(true)
	}
}

// doomed are folders of deleted partitions that wait for their file.delete.delay.ms.
type doomed struct {
	mu struct {
		sync.Mutex
		list []doomedFolder
	}
}

type doomedFolder struct {
	dir  *logdir.Dir
	path string
	at   time.Time
}

func (d *doomed) add(dir *logdir.Dir, path string, at time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mu.list = append(d.mu.list, doomedFolder{dir, path, at})
}

// due takes the folders out whose time has come.
func (d *doomed) due(now time.Time) (out []doomedFolder) {
	d.mu.Lock()
	defer d.mu.Unlock()
	keep := d.mu.list[:0]
	for _, f := range d.mu.list {
		if f.at.After(now) {
			keep = append(keep, f)
		} else {
			out = append(out, f)
		}
	}
	d.mu.list = keep
	return out
}

// sweepInterval is how often deleted files are looked at and flush.ms is checked where a topic sets it: as exact as the
// delays need to be, and cheap.
const sweepInterval = time.Second

// maintain runs the periodic work of the logs, one task after the other, until ctx ends.
func (b *Broker) maintain(ctx context.Context) {
	c := b.Config().Log
	tasks := []struct {
		every time.Duration
		run   func(now time.Time)
	}{
		{sweepInterval, b.sweep},
		{c.WatermarkInterval, func(time.Time) { b.checkpointHighWatermarks() }},
		{c.RecoveryCheckpointInterval, func(time.Time) { b.checkpointLogs() }},
		{c.RetentionCheckInterval, b.retain},
		{c.ProducerIDCheckInterval, b.expireProducers},
	}
	due := make([]time.Time, len(tasks))
	for i, t := range tasks {
		due[i] = time.Now().Add(t.every)
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		next := due[0]
		for _, at := range due[1:] {
			if at.Before(next) {
				next = at
			}
		}
		timer.Reset(time.Until(next))
		select {
		case <-ctx.Done():
			return
		case now := <-timer.C:
			for i, t := range tasks {
				if !due[i].After(now) {
					t.run(now)
					due[i] = now.Add(t.every)
				}
			}
		}
	}
}

// sweep removes files whose delay has passed and flushes logs whose flush.ms has.
func (b *Broker) sweep(now time.Time) {
	for _, f := range b.doomed.due(now) {
		if err := f.dir.Remove(f.path); err != nil {
			b.log.Error("deleted partition's folder cannot be removed", zap.String("folder", f.path), zap.Error(err))
		}
	}
	b.replicas(func(r *replica) bool {
		if r.log == nil {
			return true
		}
		r.log.RemoveDeleted(now)
		if r.log.NeedsFlush(now) {
			b.flusherOf(r).request(r)
		}
		return true
	})
}

func (b *Broker) retain(now time.Time) {
	b.replicas(func(r *replica) bool {
		if r.log == nil {
			return true
		}
		n, err := r.log.Retain(now)
		if err != nil {
			b.noteLogError(r, err)
		}
		if n > 0 {
			mark(&b.dirty.logs)
			b.log.Info("segments deleted by retention", zap.String("partition", r.tp.String()), zap.Int64("bytes", n),
				zap.Int64("log_start_offset", r.log.LogStartOffset()))
		}
		return true
	})
	b.checkpointLogs()
}

func (b *Broker) expireProducers(now time.Time) {
	b.replicas(func(r *replica) bool {
		if r.log != nil {
			r.log.ExpireProducers(now)
		}
		return true
	})
}

// checkpointHighWatermarks writes the high watermarks if any moved since the last time.
func (b *Broker) checkpointHighWatermarks() {
	if b.dirty.highWatermarks.Swap(false) {
		b.checkpoint(logdir.HighWatermarks, func(r *replica) (int64, bool) { return r.log.HighWatermark(), true })
	}
}

// checkpointLogs writes recovery points and log starts if any moved since the last time. A log start is listed only where
// it lies above the first segment, as Kafka does; elsewhere the file names say it.
func (b *Broker) checkpointLogs() {
	if b.dirty.logs.Swap(false) {
		b.checkpoint(logdir.LogStarts, func(r *replica) (int64, bool) {
			start := r.log.LogStartOffset()
			return start, start > r.log.FirstSegmentBase()
		})
		b.checkpoint(logdir.RecoveryPoints, func(r *replica) (int64, bool) { return r.log.RecoveryPoint(), true })
	}
}

func (b *Broker) checkpoint(k logdir.Kind, offset func(*replica) (int64, bool)) {
	perDir := map[*logdir.Dir]map[model.TopicPartition]int64{}
	for _, d := range b.o.Dirs {
		perDir[d] = map[model.TopicPartition]int64{}
	}
	b.replicas(func(r *replica) bool {
		if r.log != nil {
			if o, ok := offset(r); ok {
				perDir[r.dir][r.tp] = o
			}
		}
		return true
	})
	for d, offsets := range perDir {
		if d.Err() != nil {
			continue
		}
		if err := d.WriteCheckpoint(k, offsets); err != nil {
			b.log.Error("checkpoint cannot be written", zap.String("dir", d.Path()), zap.String("file", string(k)), zap.Error(err))
		}
	}
}

// Close stops the loops, closes every log and leaves the directories marked as cleanly shut down where all went well.
// Requests that still wait are answered with an error. The directories stay open: they belong to the caller, who is told
// which of them are clean.
func (b *Broker) Close() (clean map[*logdir.Dir]bool, err error) {
	b.cancel()
	b.loops.Wait()
	clean = map[*logdir.Dir]bool{}
	for _, d := range b.o.Dirs {
		clean[d] = d.Err() == nil
	}
	var errs []error
	b.replicas(func(r *replica) bool {
		r.retire()
		if r.log == nil {
			return true
		}
		if cerr := r.log.Close(); cerr != nil {
			clean[r.dir] = false
			errs = append(errs, cerr)
		}
		return true
	})
	b.dirty.highWatermarks.Store(true)
	b.dirty.logs.Store(true)
	b.checkpointHighWatermarks()
	b.checkpointLogs()
	return clean, errors.Join(errs...)
}
