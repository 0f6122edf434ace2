package coordrt

import "time"

// Stats is a snapshot of a runtime for telemetry.
type Stats struct {
	// Loading, Active and Failed count the partitions that this broker leads by what they are doing. Operations on a
	// failed one are refused until another attempt to load it succeeds.
	Loading, Active, Failed int
	// Queued are operations that wait for their turn, in the fullest partition and in all; QueueLimit bounds a partition.
	Queued, FullestQueue, QueueLimit int
	// Uncommitted are operations that wait for the high watermark; UncommittedLimit bounds a partition.
	Uncommitted, UncommittedLimit int
	// LongestLoad is the longest of the last loads of each partition; LoadedRecords and LoadedBytes are their sums.
	LongestLoad                time.Duration
	LoadedRecords, LoadedBytes int64
}

// Stats returns a snapshot. It does not wait for any operation.
func (rt *Runtime[S]) Stats() Stats {
	s := Stats{QueueLimit: maxQueued, UncommittedLimit: maxUncommitted}
	for _, p := range rt.all() {
		switch p.status() {
		case statusLoading:
			s.Loading++
		case statusActive:
			s.Active++
		case statusFailed:
			s.Failed++
		case statusIdle:
		}
		p.mu.Lock()
		n := len(p.mu.ops)
		p.mu.Unlock()
		s.Queued += n
		s.FullestQueue = max(s.FullestQueue, n)
		s.Uncommitted += int(p.uncommitted.Load())
		if l := p.lastLoad.Load(); l != nil {
			s.LongestLoad = max(s.LongestLoad, l.Took)
			s.LoadedRecords += l.Records
			s.LoadedBytes += l.Bytes
		}
	}
	return s
}
