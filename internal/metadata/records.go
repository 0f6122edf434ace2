package metadata

import "github.com/kbroker/kbroker/internal/model"

// Record is one change of the cluster image. The concrete types below are the whole set. A record must not be modified
// once it was given to Apply: the image keeps its slices.
type Record interface {
	kind() recordKind
	// code writes or reads the body, see coder.
	code(c *coder)
}

// recordKind is the type number on disk. Numbers are never reused.
type recordKind uint8

const (
	kindCluster          recordKind = 1
	kindCounters         recordKind = 2
	kindFeature          recordKind = 3
	kindRegisterBroker   recordKind = 4
	kindBrokerChange     recordKind = 5
	kindUnregisterBroker recordKind = 6
	kindTopic            recordKind = 7
	kindPartition        recordKind = 8
	kindPartitionChange  recordKind = 9
	kindRemoveTopic      recordKind = 10
	kindConfig           recordKind = 11
	kindProducerIDs      recordKind = 12
)

// ClusterRecord names the cluster. It is the first record of every metadata log; a second one of another name does not
// fit (M6).
type ClusterRecord struct {
	ClusterID string
}

// CountersRecord raises the counters of M5. Only snapshots need it: in the log the records that use a number raise them.
type CountersRecord struct {
	LastIncarnation, LastBrokerEpoch int64
}

// FeatureRecord finalizes a feature at a level; 0 takes it back.
type FeatureRecord struct {
	Name  string
	Level int16
}

// RegisterBrokerRecord registers a broker or replaces its registration. Epoch must be above every earlier one (M5).
type RegisterBrokerRecord struct {
	ID                           int32
	Epoch                        int64
	Incarnation                  model.UUID
	Rack                         string
	Listeners                    []Listener
	Features                     []FeatureRange
	LogDirs                      []model.UUID
	Fenced, InControlledShutdown bool
}

// BrokerChangeRecord changes a registration of the given epoch. Nil fields stay as they are.
type BrokerChangeRecord struct {
	ID                           int32
	Epoch                        int64
	Fenced, InControlledShutdown *bool
	LogDirs                      []model.UUID
}

// UnregisterBrokerRecord removes a registration of the given epoch.
type UnregisterBrokerRecord struct {
	ID    int32
	Epoch int64
}

// TopicRecord creates a topic without partitions. Name and id must be new.
type TopicRecord struct {
	Name string
	ID   model.UUID
}

// PartitionRecord creates the next partition of a topic (M2). State is owned by the image afterwards.
type PartitionRecord struct {
	TopicID model.UUID
	Index   int32
	State   Partition
}

// NoLeaderChange is the value of PartitionChangeRecord.Leader that leaves leader and leader epoch alone.
const NoLeaderChange int32 = -2

// PartitionChangeRecord changes a partition and raises its epochs (M4). A nil slice leaves its field alone, an empty one
// empties it. When Replicas is set, Directories and Incarnations must be set with it (M3).
type PartitionChangeRecord struct {
	TopicID model.UUID
	Index   int32
	// Leader is NoLeaderChange, model.NoLeader or a broker; naming the present leader again raises the leader epoch.
	Leader                                             int32
	Replicas, ISR, Adding, Removing, ELR, LastKnownELR []int32
	Directories                                        []model.UUID
	Incarnations                                       []int64
	Recovering                                         *bool
}

// RemoveTopicRecord deletes a topic, its partitions and its configuration.
type RemoveTopicRecord struct {
	ID model.UUID
}

// ConfigRecord sets one key of a resource, or removes it when Value is nil.
type ConfigRecord struct {
	Resource ConfigResource
	Key      string
	Value    *string
}

// ProducerIDsRecord hands the ids below Next that no earlier block held to a broker.
type ProducerIDsRecord struct {
	BrokerID    int32
	BrokerEpoch int64
	// Next is the first id that no block holds yet; it only grows.
	Next int64
}

func (*ClusterRecord) kind() recordKind          { return kindCluster }
func (*CountersRecord) kind() recordKind         { return kindCounters }
func (*FeatureRecord) kind() recordKind          { return kindFeature }
func (*RegisterBrokerRecord) kind() recordKind   { return kindRegisterBroker }
func (*BrokerChangeRecord) kind() recordKind     { return kindBrokerChange }
func (*UnregisterBrokerRecord) kind() recordKind { return kindUnregisterBroker }
func (*TopicRecord) kind() recordKind            { return kindTopic }
func (*PartitionRecord) kind() recordKind        { return kindPartition }
func (*PartitionChangeRecord) kind() recordKind  { return kindPartitionChange }
func (*RemoveTopicRecord) kind() recordKind      { return kindRemoveTopic }
func (*ConfigRecord) kind() recordKind           { return kindConfig }
func (*ProducerIDsRecord) kind() recordKind      { return kindProducerIDs }

// newestVersion is the version of every record body that this binary writes and the newest it reads. A body that gains
// fields raises it; coder.version tells the body which version is being read.
const newestVersion uint8 = 0

// newRecord returns an empty record of a kind, nil for an unknown one.
func newRecord(k recordKind) Record {
	switch k {
	case kindCluster:
		return &ClusterRecord{}
	case kindCounters:
		return &CountersRecord{}
	case kindFeature:
		return &FeatureRecord{}
	case kindRegisterBroker:
		return &RegisterBrokerRecord{}
	case kindBrokerChange:
		return &BrokerChangeRecord{}
	case kindUnregisterBroker:
		return &UnregisterBrokerRecord{}
	case kindTopic:
		return &TopicRecord{}
	case kindPartition:
		return &PartitionRecord{}
	case kindPartitionChange:
		return &PartitionChangeRecord{Leader: NoLeaderChange}
	case kindRemoveTopic:
		return &RemoveTopicRecord{}
	case kindConfig:
		return &ConfigRecord{}
	case kindProducerIDs:
		return &ProducerIDsRecord{}
	}
	return nil
}
