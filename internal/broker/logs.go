package broker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"go.uber.org/zap"

	"github.com/kbroker/kbroker/internal/logdir"
	"github.com/kbroker/kbroker/internal/metadata"
	"github.com/kbroker/kbroker/internal/model"
	"github.com/kbroker/kbroker/partition"
)

// placement knows which directory holds which partition and what the checkpoints said at start.
type placement struct {
	mu struct {
		sync.Mutex
		found  map[model.TopicPartition]located // folders that no replica has taken over yet
		counts map[*logdir.Dir]int
		marks  map[*logdir.Dir]checkpoints
	}
}

type located struct {
	logdir.Found
	dir *logdir.Dir
}

// checkpoints are the offsets that a directory's files held when the broker started.
type checkpoints struct {
	recovery, start, highWatermark map[model.TopicPartition]int64
}

// load lists the directories and reads their checkpoints. What an earlier process had marked for deletion is removed. A
// directory that cannot be read goes offline; only when none is left is that an error.
func (p *placement) load(dirs []*logdir.Dir, log *zap.Logger) error {
	p.mu.found = map[model.TopicPartition]located{}
	p.mu.counts = map[*logdir.Dir]int{}
	p.mu.marks = map[*logdir.Dir]checkpoints{}
	var errs []error
	for _, d := range dirs {
		if err := p.loadDir(d, log); err != nil {
			d.Fail(err)
			errs = append(errs, err)
			log.Error("log directory is offline", zap.String("dir", d.Path()), zap.Error(err))
		}
	}
	if len(errs) == len(dirs) {
		return fmt.Errorf("no log directory can be used: %w", errors.Join(errs...))
	}
	return nil
}

func (p *placement) loadDir(d *logdir.Dir, log *zap.Logger) error {
	found, strange, err := d.Scan()
	if err != nil {
		return err
	}
	for _, name := range strange {
		log.Warn("folder in a log directory is not a partition's and is left alone", zap.String("dir", d.Path()), zap.String("folder", name))
	}
	for _, f := range found {
		switch f.State {
		case logdir.Doomed:
			if err := d.Remove(f.Path); err != nil {
				return err
			}
		case logdir.Live:
			if other, twice := p.mu.found[f.TopicPartition]; twice {
				return fmt.Errorf("partition %s lies in two log directories, %s and %s: move one of the folders away", f.TopicPartition, other.dir.Path(), d.Path())
			}
			p.mu.found[f.TopicPartition] = located{f, d}
			p.mu.counts[d]++
		case logdir.Future, logdir.Stray:
		}
	}
	var c checkpoints
	for kind, into := range map[logdir.Kind]*map[model.TopicPartition]int64{
		logdir.RecoveryPoints: &c.recovery, logdir.LogStarts: &c.start, logdir.HighWatermarks: &c.highWatermark,
	} {
		if *into, err = d.ReadCheckpoint(kind); err != nil {
			return err
		}
	}
	p.mu.marks[d] = c
	return nil
}

// claim returns the folder of a partition: the one found at start if it is of the same topic id, else a new one in the
// online directory with the fewest partitions. A folder of another id is marked as stray first.
func (p *placement) claim(dirs []*logdir.Dir, tp model.TopicPartition, id model.UUID) (d *logdir.Dir, path string, isNew bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if f, ok := p.mu.found[tp]; ok {
		delete(p.mu.found, tp)
		if f.TopicID == id {
			return f.dir, f.Path, false, nil
		}
		p.mu.counts[f.dir]--
		if _, err := f.dir.Mark(tp, f.Path, logdir.Stray); err != nil {
			return f.dir, "", false, err
		}
	}
	for _, c := range dirs {
		if c.Err() == nil && (d == nil || p.mu.counts[c] < p.mu.counts[d]) {
			d = c
		}
	}
	if d == nil {
		return nil, "", false, fmt.Errorf("every log directory is offline: %w", kerr.KafkaStorageError)
	}
	if path, err = d.Create(tp, id); err != nil {
		return d, "", false, err
	}
	p.mu.counts[d]++
	return d, path, true, nil
}

// marksOf returns the checkpointed offsets of a partition, zeros when there are none.
func (p *placement) marksOf(d *logdir.Dir, tp model.TopicPartition) (recovery, start, highWatermark int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.mu.marks[d]
	return c.recovery[tp], c.start[tp], c.highWatermark[tp]
}

// unclaimed returns the folders that no partition of the cluster image has asked for.
func (p *placement) unclaimed() []located {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []located
	for _, l := range p.mu.found {
		out = append(out, l)
	}
	clear(p.mu.found)
	return out
}

// setStraysAside marks the folders that the cluster image does not know: of topics that were deleted while this broker was
// away, or put here by hand. They are kept, under a name that no start takes for a partition. The first image that a broker
// sees is complete, so what it does not claim is nobody's.
func (b *Broker) setStraysAside() {
	for _, l := range b.place.unclaimed() {
		path, err := l.dir.Mark(l.TopicPartition, l.Path, logdir.Stray)
		b.log.Warn("folder of a partition that the cluster does not have was set aside; remove it when you do not need it",
			zap.String("partition", l.String()), zap.String("folder", path), zap.Error(err))
	}
}

// openReplica opens the log of a partition. One that cannot be opened is returned as an offline replica: requests for it
// are answered with the reason and every other partition is served.
func (b *Broker) openReplica(ctx context.Context, img *metadata.Image, t *metadata.Topic, i int32) *replica {
	r := &replica{b: b, tp: model.TopicPartition{Topic: t.Name, Partition: i}, id: t.ID}
	r.role.leader = model.NoLeader
	if err := b.openLog(ctx, img, r); err != nil {
		r.openErr = fmt.Errorf("%s is offline: %w: %w", r.tp, kerr.KafkaStorageError, err)
		b.log.Error("partition is offline on this broker; the others are served", zap.String("partition", r.tp.String()), zap.Error(err))
	}
	return r
}

func (b *Broker) openLog(ctx context.Context, img *metadata.Image, r *replica) error {
	dir, path, isNew, err := b.place.claim(b.o.Dirs, r.tp, r.id)
	r.dir = dir
	if err != nil {
		return err
	}
	cfg, err := b.topicConfig(img, r.tp.Topic)
	if err != nil {
		return err
	}
	o := partition.Options{
		FS: dir.FS(), Dir: path, TP: r.tp, TopicID: r.id, Config: cfg, Files: b.o.Files,
		CleanShutdown:        isNew || dir.CleanShutdown().Clean,
		ProducerIDExpiration: b.Config().Log.ProducerIDExpiration,
	}
	if !isNew {
		o.RecoveryPoint, o.LogStartOffset, o.HighWatermark = b.place.marksOf(dir, r.tp)
	}
	r.log, err = partition.Open(ctx, o)
	return err
}

// deleteReplica takes a replica's files away: the folder is renamed at once, so that a new topic of the name finds its
// place free, and removed after file.delete.delay.ms, when no reader is in the middle of it.
func (b *Broker) deleteReplica(r *replica) {
	if r.log == nil {
		return
	}
	delay := r.log.Config().FileDeleteDelay
	path, err := r.dir.Mark(r.tp, r.log.Dir(), logdir.Doomed)
	r.log.Abandon()
	if err != nil {
		b.log.Error("deleted partition's folder cannot be moved out of the way", zap.String("partition", r.tp.String()), zap.Error(err))
		return
	}
	b.place.mu.Lock()
	b.place.mu.counts[r.dir]--
	b.place.mu.Unlock()
	b.doomed.add(r.dir, path, time.Now().Add(delay))
}
