package metadata

import (
	"slices"

	"github.com/kbroker/kbroker/internal/model"
)

// The bodies of the records, field by field in their order on disk. docs/formats/metadata-records.md draws them.

func (r *ClusterRecord) code(c *coder) { c.str(&r.ClusterID) }

func (r *CountersRecord) code(c *coder) {
	c.i64(&r.LastIncarnation)
	c.i64(&r.LastBrokerEpoch)
}

func (r *FeatureRecord) code(c *coder) {
	c.str(&r.Name)
	c.i16(&r.Level)
}

func (r *RegisterBrokerRecord) code(c *coder) {
	c.i32(&r.ID)
	c.i64(&r.Epoch)
	c.uuid(&r.Incarnation)
	c.str(&r.Rack)
	list(c, &r.Listeners, 4, func(l *Listener) {
		c.str(&l.Name)
		c.str(&l.Host)
		c.port(&l.Port)
		c.i16(&l.SecurityProtocol)
	})
	list(c, &r.Features, 3, func(f *FeatureRange) {
		c.str(&f.Name)
		c.i16(&f.Min)
		c.i16(&f.Max)
	})
	c.uuids(&r.LogDirs)
	c.boolean(&r.Fenced)
	c.boolean(&r.InControlledShutdown)
}

func (r *BrokerChangeRecord) code(c *coder) {
	c.i32(&r.ID)
	c.i64(&r.Epoch)
	optional(c, &r.Fenced, c.boolean)
	optional(c, &r.InControlledShutdown, c.boolean)
	optionalList(c, r.LogDirs != nil, &r.LogDirs, c.uuids)
}

func (r *UnregisterBrokerRecord) code(c *coder) {
	c.i32(&r.ID)
	c.i64(&r.Epoch)
}

func (r *TopicRecord) code(c *coder) {
	c.str(&r.Name)
	c.uuid(&r.ID)
}

// Flags of a partition's body: most partitions are healthy and need none of the lists they announce.
const (
	partitionRecovering   = 1 << 0
	partitionReassigning  = 1 << 1 // Adding and Removing follow
	partitionHasELR       = 1 << 2 // ELR and LastKnownELR follow
	partitionISRDiffers   = 1 << 3 // ISR follows; else it equals Replicas
	partitionDirectories  = 1 << 4 // Directories follow; else all are unknown
	partitionIncarnations = 1 << 5 // one incarnation per replica follows; else one for all
	partitionKnownFlags   = 1<<6 - 1
)

func (r *PartitionRecord) code(c *coder) {
	c.uuid(&r.TopicID)
	c.i32(&r.Index)
	p := &r.State
	f := p.flags()
	c.flags(&f, partitionKnownFlags)
	p.Recovering = f&partitionRecovering != 0
	c.i32s(&p.Replicas)
	c.i32(&p.Leader)
	c.i32(&p.LeaderEpoch)
	c.i32(&p.PartitionEpoch)
	if f&partitionISRDiffers != 0 {
		c.i32s(&p.ISR)
	} else {
		p.ISR = p.Replicas
	}
	if f&partitionReassigning != 0 {
		c.i32s(&p.Adding)
		c.i32s(&p.Removing)
	}
	if f&partitionHasELR != 0 {
		c.i32s(&p.ELR)
		c.i32s(&p.LastKnownELR)
	}
	if f&partitionDirectories != 0 {
		c.uuids(&p.Directories)
	} else if c.reading {
		p.Directories = make([]model.UUID, len(p.Replicas))
	}
	p.codeIncarnations(c, f&partitionIncarnations != 0)
}

func (p *Partition) codeIncarnations(c *coder, each bool) {
	if each {
		c.i64s(&p.Incarnations)
		return
	}
	var one int64
	if !c.reading && len(p.Incarnations) > 0 {
		one = p.Incarnations[0]
	}
	c.i64(&one)
	if c.reading {
		p.Incarnations = slices.Repeat([]int64{one}, len(p.Replicas))
	}
}

// flags tells which lists must be written for the receiver to be restored exactly.
func (p *Partition) flags() uint8 {
	var f uint8
	set := func(bit uint8, when bool) {
		if when {
			f |= bit
		}
	}
	set(partitionRecovering, p.Recovering)
	set(partitionReassigning, len(p.Adding)+len(p.Removing) > 0)
	set(partitionHasELR, len(p.ELR)+len(p.LastKnownELR) > 0)
	set(partitionISRDiffers, !slices.Equal(p.ISR, p.Replicas))
	set(partitionDirectories, len(p.Directories) != len(p.Replicas) ||
		slices.ContainsFunc(p.Directories, func(d model.UUID) bool { return !d.IsZero() }))
	set(partitionIncarnations, len(p.Incarnations) != len(p.Replicas) ||
		slices.ContainsFunc(p.Incarnations, func(n int64) bool { return n != p.Incarnations[0] }))
	return f
}

// Fields of a partition change that are present.
const (
	changeReplicas     = 1 << 0
	changeISR          = 1 << 1
	changeAdding       = 1 << 2
	changeRemoving     = 1 << 3
	changeELR          = 1 << 4
	changeLastKnownELR = 1 << 5
	changeDirectories  = 1 << 6
	changeIncarnations = 1 << 7
)

func (r *PartitionChangeRecord) code(c *coder) {
	c.uuid(&r.TopicID)
	c.i32(&r.Index)
	c.i32(&r.Leader)
	fields := []struct {
		bit     uint8
		present bool
		list    *[]int32
	}{
		{changeReplicas, r.Replicas != nil, &r.Replicas},
		{changeISR, r.ISR != nil, &r.ISR},
		{changeAdding, r.Adding != nil, &r.Adding},
		{changeRemoving, r.Removing != nil, &r.Removing},
		{changeELR, r.ELR != nil, &r.ELR},
		{changeLastKnownELR, r.LastKnownELR != nil, &r.LastKnownELR},
		{changeDirectories, r.Directories != nil, nil},
		{changeIncarnations, r.Incarnations != nil, nil},
	}
	var f uint8
	for _, x := range fields {
		if x.present {
			f |= x.bit
		}
	}
	c.u8(&f)
	for _, x := range fields {
		if x.list != nil && f&x.bit != 0 {
			present(c, x.list, c.i32s)
		}
	}
	if f&changeDirectories != 0 {
		present(c, &r.Directories, c.uuids)
	}
	if f&changeIncarnations != 0 {
		present(c, &r.Incarnations, c.i64s)
	}
	optional(c, &r.Recovering, c.boolean)
}

func (r *RemoveTopicRecord) code(c *coder) { c.uuid(&r.ID) }

func (r *ConfigRecord) code(c *coder) {
	t := uint8(r.Resource.Type)
	c.u8(&t)
	r.Resource.Type = ResourceType(t)
	c.str(&r.Resource.Name)
	c.str(&r.Key)
	optional(c, &r.Value, c.str)
}

func (r *ProducerIDsRecord) code(c *coder) {
	c.i32(&r.BrokerID)
	c.i64(&r.BrokerEpoch)
	c.i64(&r.Next)
}

// present codes a list that is there, so that reading zero elements gives an empty slice and not nil.
func present[T any](c *coder, v *[]T, codeList func(*[]T)) {
	codeList(v)
	if c.reading && *v == nil {
		*v = []T{}
	}
}

// optionalList codes a list of which nil and empty differ.
func optionalList[T any](c *coder, there bool, v *[]T, codeList func(*[]T)) {
	c.boolean(&there)
	if there {
		present(c, v, codeList)
	}
}
