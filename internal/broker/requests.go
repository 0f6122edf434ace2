package broker

import (
	"context"
	"time"

	"github.com/kbroker/kbroker/internal/model"
	"github.com/kbroker/kbroker/partition"
	"github.com/kbroker/kbroker/protocol/record"
)

// TopicRef names a topic as a request does: by name in older versions, by id in newer ones (the other one is empty).
type TopicRef struct {
	Name string
	ID   model.UUID
}

// ProducePartition is the part of a Produce request for one partition.
type ProducePartition struct {
	Topic     TopicRef
	Partition int32
	// Records holds whole batches. The broker stamps offsets and epochs into it in place, so it must stay untouched and
	// alive until the request is done.
	Records []byte
}

// ProduceRequest is one client's append to any number of partitions.
type ProduceRequest struct {
	// Acks is 0, 1 or -1; anything else answers INVALID_REQUIRED_ACKS on every partition.
	Acks int16
	// Timeout bounds the wait for the followers when Acks is -1.
	Timeout         time.Duration
	TransactionalID *string
	// ImplicitAdd is set for versions whose clients rely on the broker to add partitions to the transaction (KIP-890).
	ImplicitAdd bool
	Internal    bool // the writer may append to internal topics
	// Version is the request's version; some rules of validation depend on it (zstd needs 7).
	Version    int16
	Partitions []ProducePartition
}

// ProduceResult answers for one partition, in the order of the request.
type ProduceResult struct {
	Err error
	// BaseOffset and LogAppendTime are -1 on error; LogAppendTime also when the topic keeps the producer's time.
	BaseOffset, LogAppendTime, LogStartOffset int64
	RecordErrors                              []record.RecordError
	// LeaderID and LeaderEpoch are set (LeaderID >= 0) when Err says that this broker does not lead the partition.
	LeaderID, LeaderEpoch int32
}

// FetchPartition is the part of a Fetch request for one partition.
type FetchPartition struct {
	Topic     TopicRef
	Partition int32
	// Err, when set, was found before the broker is asked (authorization, unknown topic id) and is answered as it stands.
	Err                    error
	Offset                 int64
	MaxBytes               int32
	CurrentLeaderEpoch     int32 // -1: not given
	LastFetchedEpoch       int32 // -1: not given
	FollowerLogStartOffset int64 // -1 from consumers
	// FollowerHighWatermark is what the follower knows (KIP-1166); -1 when not sent.
	FollowerHighWatermark int64
	// FollowerIncarnation is the replica incarnation that a kbroker follower sends; 0 from everybody else.
	FollowerIncarnation int64
	FollowerDirectory   model.UUID
}

// FetchRequest is one read of any number of partitions, by a consumer (ReplicaID < 0) or a follower.
type FetchRequest struct {
	ReplicaID    int32 // -1 consumer, -2 debug consumer, >= 0 follower
	ReplicaEpoch int64 // broker epoch of the follower, -1 unknown
	MaxWait      time.Duration
	MinBytes     int32
	MaxBytes     int32
	// ReadCommitted bounds the read by the last stable offset and asks for the aborted transactions.
	ReadCommitted bool
	Rack          string
	Partitions    []FetchPartition
}

// FetchedPartition answers for one partition, in the order of the request. The caller owns Read.Records and must
// release it, also when Err is set.
type FetchedPartition struct {
	Err  error
	Read partition.ReadResult
	// Diverging is set (Epoch >= 0) when the follower's log must be truncated first.
	DivergingEpoch     int32
	DivergingEndOffset int64
	// PreferredReadReplica is -1 unless the consumer should read elsewhere.
	PreferredReadReplica  int32
	LeaderID, LeaderEpoch int32
}

// ListOffsetsPartition asks for one offset of one partition. Timestamp is a time in ms or one of Kafka's specials.
type ListOffsetsPartition struct {
	Topic              string
	Partition          int32
	Timestamp          int64
	CurrentLeaderEpoch int32
}

// ListOffsetsRequest asks for offsets by time.
type ListOffsetsRequest struct {
	ReplicaID     int32
	ReadCommitted bool
	Partitions    []ListOffsetsPartition
}

// ListedOffset answers for one partition, in the order of the request. Offset and Timestamp are -1 when nothing matches.
type ListedOffset struct {
	Err               error
	Offset, Timestamp int64
	LeaderEpoch       int32
}

// EpochEndPartition asks where a leader epoch ends.
type EpochEndPartition struct {
	Topic                           string
	Partition                       int32
	CurrentLeaderEpoch, LeaderEpoch int32
}

// EpochEnd answers with the largest epoch at most the asked one and its end; both are -1 when unknown.
type EpochEnd struct {
	Err         error
	LeaderEpoch int32
	EndOffset   int64
}

// DeleteRecordsPartition asks to move the log start. Offset -1 stands for the high watermark.
type DeleteRecordsPartition struct {
	Topic     string
	Partition int32
	Offset    int64
}

// DeletedRecords answers with the low watermark, -1 on error.
type DeletedRecords struct {
	Err          error
	LowWatermark int64
}

// LogDirReplica is one replica in a log directory.
type LogDirReplica struct {
	model.TopicPartition
	Size, OffsetLag int64
	Future          bool
}

// LogDir describes one directory of log.dirs.
type LogDir struct {
	Path     string
	Err      error // set when the directory is offline
	Replicas []LogDirReplica
	// TotalBytes and UsableBytes describe the volume; -1 when unknown.
	TotalBytes, UsableBytes int64
}

// MarkerRequest is one EndTxn marker for a list of partitions (WriteTxnMarkers).
type MarkerRequest struct {
	Marker     partition.Marker
	Partitions []model.TopicPartition
}

// DataPlane is what this package offers to the request handlers. Methods are safe for concurrent use. Done callbacks run
// exactly once, on any goroutine (the caller's included), and must not block. When ctx ends the request is completed
// early with what there is.
type DataPlane interface {
	Produce(ctx context.Context, r ProduceRequest, done func([]ProduceResult))
	Fetch(ctx context.Context, r FetchRequest, done func([]FetchedPartition))
	ListOffsets(ctx context.Context, r ListOffsetsRequest) []ListedOffset
	EpochEnds(ctx context.Context, ps []EpochEndPartition) []EpochEnd
	DeleteRecords(ctx context.Context, timeout time.Duration, ps []DeleteRecordsPartition) []DeletedRecords
	// LogDirs lists all directories; only the replicas of the given topics' partitions, or all when filter is nil.
	LogDirs(filter func(model.TopicPartition) bool) []LogDir
	// WriteMarkers appends and waits until the markers are as durable as acks=all makes them.
	WriteMarkers(ctx context.Context, r MarkerRequest) []error
	DescribeProducers(tp model.TopicPartition) ([]partition.ProducerState, error)
}
