package partition

import (
	"errors"
	"fmt"
	"math"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/kbroker/kbroker/config"
	"github.com/kbroker/kbroker/internal/model"
	"github.com/kbroker/kbroker/partition/producer"
	"github.com/kbroker/kbroker/partition/segment"
	"github.com/kbroker/kbroker/protocol/record"
)

// AppendAsLeader validates and appends what a client, or a coordinator of this broker, wants to write. Offsets, leader epoch
// and times are stamped into recs in place, which must hold one batch and belongs to the log until the call returns.
func (p *Partition) AppendAsLeader(recs []byte, leaderEpoch int32, o AppendOptions) (AppendResult, error) {
	res := AppendResult{FirstOffset: model.NoOffset, LastOffset: model.NoOffset, LogAppendTime: model.NoTimestamp, LogStartOffset: model.NoOffset}
	if err := p.Err(); err != nil {
		return res, err
	}
	cfg := p.cfg.Load()
	v := record.Validated{LogAppendTime: model.NoTimestamp}
	var err error
	if o.Origin == Client {
		v, err = record.Validate(recs, p.validation(cfg, o.ProduceVersion))
	} else {
		v.Batch, err = record.ParseBatch(recs)
	}
	if err != nil {
		var re *record.RecordErrors
		if errors.As(err, &re) {
			res.RecordErrors = re.Records
		}
		return res, err
	}
	res.LogAppendTime = v.LogAppendTime
	p.mu.Lock()
	defer p.mu.Unlock()
	return res, p.appendLocked(v.Batch, leaderEpoch, o, cfg, &res)
}

func (p *Partition) validation(c *config.Topic, produceVersion int16) record.ValidateOptions {
	o := record.ValidateOptions{
		Partition: p.o.TP, Now: time.Now(), Compacted: c.CleanupCompact, MaxMessageBytes: c.MaxMessageBytes,
		MaxDecompressedBytes: int(c.MaxDecompressedBytes), LogAppendTime: c.TimestampLogAppend,
		TimestampBeforeMax: c.TimestampBeforeMax, TimestampAfterMax: c.TimestampAfterMax, ProduceVersion: produceVersion,
	}
	if o.KeepCodec = c.CompressionType == "producer"; o.KeepCodec {
		return o
	}
	var err error
	if o.Codec, err = record.ParseCodec(c.CompressionType); err != nil { // the configuration was checked
		o.KeepCodec = true
	}
	switch o.Codec {
	case record.Gzip:
		o.Level = c.GzipLevel
	case record.LZ4:
		o.Level = c.LZ4Level
	case record.Zstd:
		o.Level = c.ZstdLevel
	case record.None, record.Snappy:
	}
	return o
}

// appendLocked gives the batch its offsets and writes it.
func (p *Partition) appendLocked(b record.Batch, leaderEpoch int32, o AppendOptions, cfg *config.Topic, res *AppendResult) error {
	if err := p.Err(); err != nil {
		return err
	}
	bounds := p.bounds.Load()
	base := bounds.LogEnd
	b.SetBaseOffset(base)
	b.SetLeaderEpoch(leaderEpoch)
	pb := producerBatch(b)
	if b.HasProducerID() {
		d, duplicate, err := p.mu.producers.Check(&pb, o.Origin, o.Verification)
		if err != nil {
			return fmt.Errorf("%s: %w", p.o.TP, err)
		}
		if duplicate {
			res.FirstOffset, res.LastOffset, res.Duplicate = d.BaseOffset, d.LastOffset, true
			res.LogStartOffset = bounds.LogStart
			return nil
		}
	}
	if len(b) > int(cfg.SegmentBytes) {
		return fmt.Errorf("%s: a batch of %d bytes is larger than segment.bytes %d: %w", p.o.TP, len(b), cfg.SegmentBytes, kerr.RecordListTooLarge)
	}
	p.leadLocked(leaderEpoch, base)
	if err := p.writeLocked(b, b.LastOffset(), b.MaxTimestamp(), cfg, res); err != nil {
		return err
	}
	if b.HasProducerID() {
		p.mu.producers.Append(&pb)
	}
	p.grewLocked(b.NextOffset())
	res.FirstOffset, res.LastOffset, res.LogStartOffset = base, b.LastOffset(), bounds.LogStart
	return nil
}

func producerBatch(b record.Batch) producer.Batch {
	return producer.Batch{ProducerID: b.ProducerID(), ProducerEpoch: b.ProducerEpoch(), BaseSequence: b.BaseSequence(),
		BaseOffset: b.BaseOffset(), LastOffset: b.LastOffset(), MaxTimestamp: b.MaxTimestamp(), Transactional: b.IsTransactional()}
}

// AppendMarker ends a producer's transaction with a control batch.
func (p *Partition) AppendMarker(m Marker, leaderEpoch int32) (AppendResult, error) {
	res := AppendResult{FirstOffset: model.NoOffset, LastOffset: model.NoOffset, LogAppendTime: model.NoTimestamp, LogStartOffset: model.NoOffset}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.Err(); err != nil {
		return res, err
	}
	b := record.EndTxnMarker(m.ProducerID, m.ProducerEpoch, m.CoordinatorEpoch, m.Commit, time.Now().UnixMilli())
	b.SetBaseOffset(p.LogEndOffset())
	b.SetLeaderEpoch(leaderEpoch)
	pm := producer.Marker{ProducerID: m.ProducerID, ProducerEpoch: m.ProducerEpoch, CoordinatorEpoch: m.CoordinatorEpoch, Commit: m.Commit,
		TransactionVersion: m.TransactionVersion, Offset: b.BaseOffset(), Timestamp: b.MaxTimestamp()}
	if err := p.mu.producers.CheckMarker(&pm); err != nil {
		return res, fmt.Errorf("%s: %w", p.o.TP, err)
	}
	p.leadLocked(leaderEpoch, b.BaseOffset())
	if err := p.writeLocked(b, b.LastOffset(), b.MaxTimestamp(), p.cfg.Load(), &res); err != nil {
		return res, err
	}
	p.markerLocked(&pm, p.log.Active())
	p.grewLocked(b.NextOffset())
	res.FirstOffset, res.LastOffset, res.LogStartOffset = b.BaseOffset(), b.LastOffset(), p.LogStartOffset()
	return res, nil
}

// markerLocked makes a marker known that lies in s.
func (p *Partition) markerLocked(m *producer.Marker, s *segment.Segment) {
	if c, ended := p.mu.producers.AppendMarker(m); ended && c.Aborted {
		s.AddAborted(segment.Aborted{ProducerID: c.ProducerID, FirstOffset: c.FirstOffset, LastOffset: c.LastOffset, LastStableOffset: c.LastStableOffset})
	}
}

// AppendAsFollower appends what the leader sent, whole batches whose offsets increase and may have gaps, as it is. An
// unfinished batch at the end is left out. It returns the offsets of what was appended.
func (p *Partition) AppendAsFollower(recs []byte, _ int32) (AppendResult, error) {
	res := AppendResult{FirstOffset: model.NoOffset, LastOffset: model.NoOffset, LogAppendTime: model.NoTimestamp}
	p.mu.Lock()
	defer p.mu.Unlock()
	res.LogStartOffset = p.LogStartOffset()
	cfg := p.cfg.Load()
	for len(recs) >= record.HeaderSize {
		h, err := record.ParseHeader(recs)
		if err == nil && h.Size() > int64(len(recs)) {
			break
		}
		if err == nil {
			err = record.Batch(recs[:h.Size()]).VerifyCRC()
		}
		if err != nil {
			return res, fmt.Errorf("%s: the leader's answer at offset %d: %w: %w", p.o.TP, p.LogEndOffset(), kerr.CorruptMessage, err)
		}
		if err := p.followLocked(record.Batch(recs[:h.Size()]), cfg, &res); err != nil {
			return res, err
		}
		recs = recs[h.Size():]
	}
	return res, nil
}

func (p *Partition) followLocked(b record.Batch, cfg *config.Topic, res *AppendResult) error {
	if err := p.Err(); err != nil {
		return err
	}
	if end := p.LogEndOffset(); b.BaseOffset() < end {
		return fmt.Errorf("%s: the leader sent offset %d, the log ends at %d: %w", p.o.TP, b.BaseOffset(), end, kerr.OffsetOutOfRange)
	}
	p.assignEpochLocked(b.LeaderEpoch(), b.BaseOffset())
	if err := p.writeLocked(b, b.LastOffset(), b.MaxTimestamp(), cfg, res); err != nil {
		return err
	}
	if err := p.learnLocked(b, p.log.Active()); err != nil {
		return p.fail(err)
	}
	p.grewLocked(b.NextOffset())
	if res.FirstOffset < 0 {
		res.FirstOffset = b.BaseOffset()
	}
	res.LastOffset = b.LastOffset()
	return nil
}

// learnLocked makes the producer side of a batch known that lies in s: in replication and in recovery.
func (p *Partition) learnLocked(b record.Batch, s *segment.Segment) error {
	if !b.HasProducerID() {
		return nil
	}
	if !b.IsControl() {
		pb := producerBatch(b)
		p.mu.producers.Append(&pb)
		return nil
	}
	commit, coordinatorEpoch, ok, err := record.ParseEndTxnMarker(b)
	if err != nil || !ok {
		return err
	}
	p.markerLocked(&producer.Marker{ProducerID: b.ProducerID(), ProducerEpoch: b.ProducerEpoch(), CoordinatorEpoch: coordinatorEpoch,
		Commit: commit, Offset: b.BaseOffset(), Timestamp: b.MaxTimestamp()}, s)
	return nil
}

// writeLocked writes batches at the end of the log, in a new segment where one is due.
func (p *Partition) writeLocked(batches []byte, lastOffset, maxTime int64, cfg *config.Topic, res *AppendResult) error {
	rolled, err := p.rollIfDueLocked(int64(len(batches)), lastOffset, maxTime, cfg)
	if err != nil {
		return p.writeFailed(err)
	}
	res.Rolled = res.Rolled || rolled
	p.mu.dirty = true
	if err := p.log.Active().Append(batches, cfg.IndexIntervalBytes); err != nil {
		return p.writeFailed(err)
	}
	if p.mu.unflushed += int64(len(batches)); p.mu.unflushed >= flushHint {
		p.mu.unflushed, res.Rolled = 0, true
	}
	return nil
}

// flushHint is how much is written before a flush in the background is worth its while: a segment is synced before the next
// one begins, and appends wait for what is left to sync then.
const flushHint = 64 << 20

// leadLocked notes the epoch of a leader's batch. One that the log knows, or has passed, needs nothing.
func (p *Partition) leadLocked(leaderEpoch int32, base int64) {
	if e, ok := p.mu.epochs.Latest(); !ok || leaderEpoch > e.Epoch {
		p.assignEpochLocked(leaderEpoch, base)
	}
}

// activateLocked makes a segment ready for appends, rebuilding its indexes where they cannot be used.
func (p *Partition) activateLocked(s *segment.Segment) error {
	err := s.Activate()
	if !errors.Is(err, segment.ErrIndex) {
		return err
	}
	relearned, err := p.reindex(s, nil)
	if err == nil && relearned {
		err = p.loadProducersLocked(p.HighWatermark(), p.LogEndOffset())
	}
	if err != nil {
		return err
	}
	return s.Activate()
}

// writeFailed decides what a failed write means (P3). On a full disk nothing was kept and nothing is wrong with what is
// there: the next append may succeed. Anything else takes the partition offline.
func (p *Partition) writeFailed(err error) error {
	if errors.Is(err, syscall.ENOSPC) {
		return fmt.Errorf("%s: %w: %w", p.o.TP, kerr.KafkaStorageError, err)
	}
	return p.fail(err)
}

// grewLocked publishes a new log end.
func (p *Partition) grewLocked(end int64) {
	active := p.log.Active()
	p.publishLocked(func(b *bounds) {
		b.LogEnd, b.activeBase, b.endPos = end, active.Base(), active.Size()
	})
}

// rollIfDueLocked begins a new segment when the active one cannot or should not take n more bytes.
func (p *Partition) rollIfDueLocked(n, lastOffset, maxTime int64, cfg *config.Topic) (bool, error) {
	s := p.log.Active()
	if s.Size() == 0 && s.Base() > p.LogEndOffset() { // begun for a batch behind a gap that could not be written
		paths, err := p.log.TruncateTo(p.LogEndOffset())
		p.doomLocked(paths)
		if err != nil {
			return false, err
		}
		s = p.log.Active()
	}
	if err := p.activateLocked(s); err != nil {
		return false, err
	}
	// An empty segment takes any batch: another one in its place would be no better.
	due := s.Size() > 0 && (s.Size()+n > min(int64(cfg.SegmentBytes), math.MaxInt32) || s.IndexFull(cfg.SegmentIndexBytes)) || !s.FitsOffset(lastOffset)
	if !due && s.Size() > 0 {
		waited, err := p.ageLocked(s, maxTime)
		if err != nil {
			return false, err
		}
		due = waited > cfg.SegmentAge-p.mu.jitter
	}
	if !due {
		return false, nil
	}
	// A gap may be wider than what a segment can count. Then the new one begins in the gap.
	return true, p.rollLocked(cfg, max(p.LogEndOffset(), lastOffset-math.MaxInt32))
}

// ageLocked is how old the active segment is for an append of the given time: in records' time where they carry one, by
// the clock otherwise.
func (p *Partition) ageLocked(s *segment.Segment, maxTime int64) (time.Duration, error) {
	first, err := s.FirstTime()
	if err != nil {
		return 0, err
	}
	if first < 0 || maxTime < 0 {
		return time.Since(p.mu.rollBase), nil
	}
	ms := maxTime - first
	if ms > math.MaxInt64/int64(time.Millisecond) {
		return math.MaxInt64, nil
	}
	return time.Duration(ms) * time.Millisecond, nil
}

// rollLocked seals the active segment and begins one, at the end of the log or behind it, with a snapshot of the producers.
func (p *Partition) rollLocked(cfg *config.Topic, base int64) error {
	if err := p.snapshotLocked(); err != nil {
		return err
	}
	if err := p.log.Roll(base); err != nil {
		return err
	}
	p.mu.rollBase = time.Now()
	p.mu.jitter = jitter(cfg.SegmentJitter)
	p.publishLocked(func(b *bounds) { b.activeBase, b.endPos = base, 0 })
	return nil
}
