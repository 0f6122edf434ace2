package partition

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/kbroker/kbroker/config"
	"github.com/kbroker/kbroker/internal/vfs"
	"github.com/kbroker/kbroker/partition/epoch"
	"github.com/kbroker/kbroker/partition/producer"
	"github.com/kbroker/kbroker/partition/seglog"
)

const epochFile = "leader-epoch-checkpoint"

// Partition is one replica's log. All methods are safe for concurrent use. Readers take no lock.
type Partition struct {
	o      Options
	cfg    atomic.Pointer[config.Topic]
	log    *seglog.Log
	bounds atomic.Pointer[bounds]
	failed atomic.Pointer[error]

	recovery atomic.Int64 // recovery point: synced below

	// mu serialises everything that changes the log. It is held over writes: they are the change.
	mu struct {
		sync.Mutex
		producers producer.State
		epochs    epoch.Cache
		// epochsUnsaved says that the file of the epochs does not hold them all (P7).
		epochsUnsaved bool
		closed        bool
		dirty         bool  // something was appended since Open
		unflushed     int64 // bytes since a flush was last hinted at
		snapshots     []int64
		// rollBase is when the active segment was begun, for rolling by time when its records carry none.
		rollBase time.Time
		jitter   time.Duration
		doomed   []doomedFile
		flushed  time.Time
	}
}

type doomedFile struct {
	path string
	at   time.Time
}

// bounds is what readers go by (P1).
type bounds struct {
	Offsets
	// activeBase and endPos are the active segment and its size when LogEnd was published: bytes behind endPos are not
	// below LogEnd. While the end is being cut endPos is -1: where LogEnd lies is to be looked up.
	activeBase, endPos int64
}

// Dir returns the folder.
func (p *Partition) Dir() string { return p.o.Dir }

// Config returns the settings in force.
func (p *Partition) Config() *config.Topic { return p.cfg.Load() }

// SetConfig replaces the settings.
func (p *Partition) SetConfig(c *config.Topic) { p.cfg.Store(c) }

// Offsets returns the bounds.
func (p *Partition) Offsets() Offsets { return p.bounds.Load().Offsets }

// LogStartOffset is the first offset that can be read.
func (p *Partition) LogStartOffset() int64 { return p.bounds.Load().LogStart }

// HighWatermark is the end of what is replicated.
func (p *Partition) HighWatermark() int64 { return p.bounds.Load().HighWatermark }

// LastStableOffset is the end of what is replicated and decided.
func (p *Partition) LastStableOffset() int64 { return p.bounds.Load().LastStable }

// LogEndOffset is the offset that the next record gets.
func (p *Partition) LogEndOffset() int64 { return p.bounds.Load().LogEnd }

// RecoveryPoint is the end of what was synced.
func (p *Partition) RecoveryPoint() int64 { return p.recovery.Load() }

// FirstSegmentBase is the base offset of the first segment.
func (p *Partition) FirstSegmentBase() int64 { return p.log.Segments()[0].Base() }

// Size is the number of bytes of the log.
func (p *Partition) Size() int64 { return p.log.Size() }

// Err returns why the partition is offline, nil when it is online.
func (p *Partition) Err() error {
	if e := p.failed.Load(); e != nil {
		return fmt.Errorf("%s is offline: %w: %w", p.o.TP, kerr.KafkaStorageError, *e)
	}
	return nil
}

// fail takes the partition offline (P4) and returns the error to report.
func (p *Partition) fail(cause error) error {
	p.failed.CompareAndSwap(nil, &cause)
	return p.Err()
}

// publishLocked makes new bounds visible.
func (p *Partition) publishLocked(change func(*bounds)) {
	b := *p.bounds.Load()
	change(&b)
	p.bounds.Store(&b)
}

// SetHighWatermark moves the high watermark, clamped to the log, and with it the last stable offset. It reports whether
// either moved.
func (p *Partition) SetHighWatermark(hw int64) bool {
	if b := p.bounds.Load(); hw == b.HighWatermark && b.LastStable == hw {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	before := p.bounds.Load().Offsets
	p.publishLocked(func(b *bounds) {
		b.HighWatermark = min(max(hw, b.LogStart), b.LogEnd)
		b.LastStable = max(b.LogStart, p.mu.producers.LastStable(b.HighWatermark))
	})
	return p.bounds.Load().Offsets != before
}

// LatestEpoch is the leader epoch of the newest batch, or the one that BecomeLeader began; -1 for none.
func (p *Partition) LatestEpoch() int32 {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e, ok := p.mu.epochs.Latest(); ok {
		return e.Epoch
	}
	return -1
}

// EpochAt is the leader epoch of the record at an offset, -1 when unknown.
func (p *Partition) EpochAt(offset int64) int32 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.epochs.At(offset)
}

// EpochEnd returns the largest known leader epoch that is at most the asked one and the offset where it ends; -1 and -1
// when there is none.
func (p *Partition) EpochEnd(e int32) (found int32, end int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.epochs.EndOf(e, p.LogEndOffset())
}

// BecomeLeader begins a leader epoch at the end of the log. It is durable when its first records are (P7).
func (p *Partition) BecomeLeader(e int32) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.Err(); err != nil {
		return err
	}
	p.assignEpochLocked(e, p.LogEndOffset())
	return nil
}

// assignEpochLocked notes where an epoch begins, in memory: of ten thousand partitions that change their leader at once
// most get no record soon, and two syncs for each would take longer than everything else that is to be done for them.
func (p *Partition) assignEpochLocked(e int32, start int64) {
	if p.mu.epochs.Assign(e, start) {
		p.mu.epochsUnsaved = true
	}
}

func (p *Partition) saveEpochsLocked() error {
	err := vfs.WriteFileAtomic(p.o.FS, filepath.Join(p.o.Dir, epochFile), p.mu.epochs.AppendText(nil))
	if err != nil {
		return p.fail(err)
	}
	p.mu.epochsUnsaved = false
	return nil
}

// DescribeProducers lists the producers by id.
func (p *Partition) DescribeProducers() []ProducerState {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Collect(p.mu.producers.All())
}

// ExpireProducers forgets producers that have been silent for too long.
func (p *Partition) ExpireProducers(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.producers.Expire(now.UnixMilli(), p.expirationMs())
}

func (p *Partition) expirationMs() int64 {
	if p.o.ProducerIDExpiration <= 0 {
		return math.MaxInt64
	}
	return p.o.ProducerIDExpiration.Milliseconds()
}

// Flush makes everything durable that was appended before the call, and moves the recovery point there.
func (p *Partition) Flush() error {
	if err := p.Err(); err != nil {
		return err
	}
	end := p.LogEndOffset() // before the sync: what comes during it is not promised
	from := p.recovery.Load()
	if end <= from {
		return nil
	}
	for _, s := range p.log.From(from) {
		if err := s.Sync(); err != nil && !errors.Is(err, fs.ErrNotExist) { // a segment deleted meanwhile needs no sync
			return p.fail(err)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.flushed = time.Now()
	if p.mu.epochsUnsaved {
		if err := p.saveEpochsLocked(); err != nil {
			return err
		}
	}
	if end = min(end, p.LogEndOffset()); end > p.recovery.Load() { // a truncation may have come in between
		p.recovery.Store(end)
	}
	return nil
}

// NeedsFlush reports whether flush.ms has passed with something unflushed.
func (p *Partition) NeedsFlush(now time.Time) bool {
	c := p.cfg.Load()
	if c.FlushInterval == math.MaxInt64 || p.recovery.Load() >= p.LogEndOffset() {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return now.Sub(p.mu.flushed) >= c.FlushInterval
}

// Close flushes the log and saves the producers, so that the next Open need not scan. No call may follow.
func (p *Partition) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.closed {
		return nil
	}
	p.mu.closed = true
	defer p.log.Retire()
	if err := p.Err(); err != nil {
		return err
	}
	defer func() { _ = p.fail(errors.New("the log was closed")) }()
	p.removeDoomedLocked(time.Time{}, true)
	if !p.mu.dirty {
		return nil
	}
	err := p.log.Active().Seal()
	for _, s := range p.log.From(p.recovery.Load()) {
		err = errors.Join(err, s.Sync())
	}
	if err == nil {
		err = p.snapshotLocked()
	}
	if err == nil && p.mu.epochsUnsaved {
		err = p.saveEpochsLocked()
	}
	if err != nil {
		return fmt.Errorf("close %s: %w", p.o.TP, err)
	}
	p.recovery.Store(p.LogEndOffset())
	return nil
}

// Abandon ends the use of a log whose folder was renamed because the partition is being deleted. Readers in the middle of a
// file finish. No call may follow.
func (p *Partition) Abandon() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.closed = true
	gone := errors.New("the partition was deleted")
	p.failed.CompareAndSwap(nil, &gone)
	p.log.Retire()
}
