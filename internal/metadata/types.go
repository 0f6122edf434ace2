package metadata

import (
	"fmt"
	"slices"

	"github.com/kbroker/kbroker/internal/model"
)

// ResourceType is the kind of thing a configuration belongs to, with Kafka's numbers.
type ResourceType int8

// The resource types of Kafka's config requests. Broker loggers are never stored.
const (
	ResourceUnknown       ResourceType = 0
	ResourceTopic         ResourceType = 2
	ResourceBroker        ResourceType = 4
	ResourceBrokerLogger  ResourceType = 8
	ResourceClientMetrics ResourceType = 16
	ResourceGroup         ResourceType = 32
)

// String returns Kafka's name of the type.
func (t ResourceType) String() string {
	switch t {
	case ResourceUnknown:
		return "UNKNOWN"
	case ResourceTopic:
		return "TOPIC"
	case ResourceBroker:
		return "BROKER"
	case ResourceBrokerLogger:
		return "BROKER_LOGGER"
	case ResourceClientMetrics:
		return "CLIENT_METRICS"
	case ResourceGroup:
		return "GROUP"
	}
	return fmt.Sprintf("RESOURCE_TYPE_%d", int8(t))
}

// ConfigResource names the owner of a set of configuration overrides. The cluster-wide default of brokers is
// {ResourceBroker, ""}.
type ConfigResource struct {
	Type ResourceType
	Name string
}

// Compare orders by type, then by name.
func (r ConfigResource) Compare(o ConfigResource) int {
	if r.Type != o.Type {
		return int(r.Type) - int(o.Type)
	}
	switch {
	case r.Name < o.Name:
		return -1
	case r.Name > o.Name:
		return 1
	}
	return 0
}

// Topic is a topic and all its partitions, immutable (M1). Partitions[i] is partition i (M2) and never nil.
type Topic struct {
	Name       string
	ID         model.UUID
	Partitions []*Partition
}

// Partition returns partition i, or nil when there is none.
func (t *Topic) Partition(i int32) *Partition {
	if i < 0 || int(i) >= len(t.Partitions) {
		return nil
	}
	return t.Partitions[i]
}

// Partition is what the cluster knows about one partition, immutable (M1). Nil and empty slices mean the same.
type Partition struct {
	// Replicas lists the brokers of the assignment in order of preference; during a reassignment the target ones first,
	// then those that will go.
	Replicas []int32
	// ISR are the replicas that hold everything the leader calls committed.
	ISR []int32
	// Adding and Removing are the parts of Replicas that a reassignment in progress adds and removes.
	Adding, Removing []int32
	// ELR are replicas outside the ISR that left it when it fell below min.insync.replicas: they still hold everything
	// up to the high watermark and may be elected (KIP-966).
	ELR []int32
	// LastKnownELR are members that left the ELR by an unclean restart; a single one may be elected as the last resort.
	LastKnownELR []int32
	// Directories[i] is the log directory of Replicas[i]; zero when the broker has not said yet.
	Directories []model.UUID
	// Incarnations[i] is the incarnation number of Replicas[i], at least 1. A log on disk of a smaller number is not this
	// replica's and must be discarded before it is fetched into or served.
	Incarnations []int64
	// Leader is model.NoLeader when no replica may lead.
	Leader int32
	// LeaderEpoch and PartitionEpoch follow M4.
	LeaderEpoch, PartitionEpoch int32
	// Recovering is set by an unclean election until the leader has written an ISR of its own.
	Recovering bool
}

// HasReplica reports whether a broker is part of the assignment.
func (p *Partition) HasReplica(broker int32) bool { return slices.Contains(p.Replicas, broker) }

// Incarnation returns the incarnation number of a broker's replica, 0 when it has none here.
func (p *Partition) Incarnation(broker int32) int64 {
	if i := slices.Index(p.Replicas, broker); i >= 0 {
		return p.Incarnations[i]
	}
	return 0
}

// Directory returns the log directory of a broker's replica, zero when unknown.
func (p *Partition) Directory(broker int32) model.UUID {
	if i := slices.Index(p.Replicas, broker); i >= 0 {
		return p.Directories[i]
	}
	return model.UUID{}
}

// Listener is one endpoint of a broker, as clients and peers should dial it.
type Listener struct {
	Name string
	Host string
	Port uint16
	// SecurityProtocol has Kafka's numbers: 0 PLAINTEXT, 1 SSL, 2 SASL_PLAINTEXT, 3 SASL_SSL.
	SecurityProtocol int16
}

// FeatureRange is the range of levels of one feature that a broker's binary supports.
type FeatureRange struct {
	Name     string
	Min, Max int16
}

// Broker is a registered broker, immutable (M1).
type Broker struct {
	ID int32
	// Epoch is new at every registration, so that requests of an earlier life of the process can be told apart.
	Epoch int64
	// Incarnation is the random id of the broker's process.
	Incarnation model.UUID
	// Rack is empty when the broker has none.
	Rack      string
	Listeners []Listener
	Features  []FeatureRange
	// LogDirs are the directory ids of the broker's online log directories, sorted.
	LogDirs []model.UUID
	// Fenced brokers lead nothing, are in no ISR and are not shown to clients.
	Fenced bool
	// InControlledShutdown is set from the moment a broker asks to leave until it registers again.
	InControlledShutdown bool
}

// Listener returns the endpoint of that name; ok is false when the broker has none.
func (b *Broker) Listener(name string) (l Listener, ok bool) {
	for _, l := range b.Listeners {
		if l.Name == name {
			return l, true
		}
	}
	return Listener{}, false
}

// Eligible reports whether the broker may lead partitions and be in an ISR.
func (b *Broker) Eligible() bool { return !b.Fenced && !b.InControlledShutdown }
