package broker

import (
	"github.com/kbroker/kbroker/internal/logdir"
	"github.com/kbroker/kbroker/internal/model"
)

// LogDirs lists all log directories with the replicas in them; filter, when not nil, chooses the partitions.
func (b *Broker) LogDirs(filter func(model.TopicPartition) bool) []LogDir {
	at := map[*logdir.Dir]int{}
	out := make([]LogDir, len(b.o.Dirs))
	for i, d := range b.o.Dirs {
		at[d] = i
		out[i] = LogDir{Path: d.Path(), Err: d.Err(), TotalBytes: -1, UsableBytes: -1}
		if out[i].Err != nil {
			continue
		}
		if total, free, err := d.Usage(); err == nil {
			out[i].TotalBytes, out[i].UsableBytes = total, free
		}
	}
	b.replicas(func(r *replica) bool {
		if r.log == nil || filter != nil && !filter(r.tp) {
			return true
		}
		i := at[r.dir]
		out[i].Replicas = append(out[i].Replicas, LogDirReplica{TopicPartition: r.tp, Size: r.log.Size(), OffsetLag: r.offsetLag()})
		return true
	})
	return out
}

// offsetLag is how far this replica is behind what it knows to be committed; 0 on a leader.
func (r *replica) offsetLag() int64 {
	o := r.log.Offsets()
	return max(0, o.HighWatermark-o.LogEnd)
}
