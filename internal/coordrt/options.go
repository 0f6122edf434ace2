package coordrt

import (
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/kbroker/kbroker/protocol/record"
)

const (
	// maxQueued bounds the operations that wait for their turn in one partition. A connection has one group or
	// transaction request under way at a time, so reaching it takes as many connections; an operation holds a few hundred
	// bytes beside its request.
	maxQueued = 8192
	// maxUncommitted bounds the operations of one partition whose records wait for the high watermark.
	maxUncommitted = 8192
	// maxPosted bounds the notices (Post) of one partition that wait, for a load as a rule.
	maxPosted = 1024
	// maxTurn is how many operations or timers a worker runs on one partition before it looks after the next one.
	maxTurn = 64
	// minLoadRetry and maxLoadRetry bound the back-off between attempts to load a partition.
	minLoadRetry = time.Second
	maxLoadRetry = 30 * time.Second
)

// Options configures a Runtime.
type Options[S Shard] struct {
	// Topic is the internal topic whose partitions hold the state.
	Topic string
	Log   Log
	// NewShard makes an empty state for a partition. The timers are the shard's own.
	NewShard func(partition int32, timers *Timers) S
	Logger   *zap.Logger
	// Workers is how many partitions are worked on at the same time. Default 4.
	Workers int
	// CommitTimeout is how long an operation waits for its records to be committed. Default 5 s.
	CommitTimeout time.Duration
	// LoadBytes is how much of the log is read at once while loading. Default 5 MiB.
	LoadBytes int
	// Codec compresses the batches that are appended.
	Codec record.Codec
}

// EnsureDefaults fills what was left out.
func (o *Options[S]) EnsureDefaults() {
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	if o.Workers == 0 {
		o.Workers = 4
	}
	if o.CommitTimeout == 0 {
		o.CommitTimeout = 5 * time.Second
	}
	if o.LoadBytes == 0 {
		o.LoadBytes = 5 << 20
	}
}

// Validate reports everything that is wrong at once.
func (o *Options[S]) Validate() error {
	var errs []error
	if o.Topic == "" {
		errs = append(errs, errors.New("coordinator runtime: no topic"))
	}
	if o.Log == nil {
		errs = append(errs, errors.New("coordinator runtime: no log"))
	}
	if o.NewShard == nil {
		errs = append(errs, errors.New("coordinator runtime: no shard"))
	}
	if o.Workers < 0 || o.CommitTimeout < 0 || o.LoadBytes < 0 {
		errs = append(errs, errors.New("coordinator runtime: workers, commit timeout and load bytes must not be negative"))
	}
	return errors.Join(errs...)
}
