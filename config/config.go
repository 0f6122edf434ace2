package config

import "time"

// Config is one complete, checked broker configuration. It is immutable: Load and WithDynamic return new ones, so a
// component may keep a pointer and read it from any goroutine.
//
// Every field with a key tag is set from that key's effective value; docs/configuration.md and --help list the
// same keys. Durations come from keys in milliseconds, seconds, minutes or hours. A negative number in such a key is a
// sentinel (mostly "no limit") and stays that number of nanoseconds; a number too large for a time.Duration becomes
// math.MaxInt64.
type Config struct {
	Node         Node
	Sockets      Sockets
	Topics       Topics
	Log          Log
	Cleaner      Cleaner
	Replication  Replication
	Offsets      Offsets
	Groups       Groups
	Transactions Transactions
	Controller   Controller
	Quotas       Quotas
	HTTP         HTTP
	Logging      Logging

	layers layers
	// topic is the configuration of a topic without overrides.
	topic *Topic
}

// Node says who this process is and where it is reached.
type Node struct {
	// ID is unique in the cluster, 0..2^31-1.
	ID int32 `key:"node.id"`
	// Broker and Controller are the roles of process.roles; at least one is set.
	Broker, Controller bool
	// Rack is empty when not configured.
	Rack string `key:"broker.rack"`
	// Listeners are all sockets to open, controller listeners included, in configured order. An empty Host means all
	// addresses; a name means every address that it stands for, so localhost is 127.0.0.1 and ::1.
	Listeners []Listener
	// Advertised are the addresses told to clients and other brokers. Port 0 means the port that was bound.
	Advertised []Listener
	// AdvertisedControllers are addresses of controller listeners that advertised.listeners names.
	AdvertisedControllers []Listener
	// InterBroker is the name of the listener that brokers use among themselves.
	InterBroker string
	// ControllerListeners names the listeners of controllers, the preferred one first.
	ControllerListeners []string
	// Voters are the members of controller.quorum.voters in configured order; empty when the quorum is found through
	// BootstrapServers, or when nothing is said about it (then Standalone is set).
	Voters []Voter
	// BootstrapServers are host:port pairs of controllers.
	BootstrapServers []string
	// Standalone is set for a controller that is the whole quorum: a combined node that names neither voters nor bootstrap
	// servers, or one that names only itself.
	Standalone bool
	// LogDirs holds at least one directory; MetadataLogDir is one of them unless configured apart.
	LogDirs        []string
	MetadataLogDir string
	// ClusterID is what the environment variable CLUSTER_ID gives for formatting empty directories; empty when absent.
	ClusterID string
	// ControlledShutdown makes a stopping broker hand its leaders over first.
	ControlledShutdown bool `key:"controlled.shutdown.enable"`
}

// Voter is one member of a static quorum.
type Voter struct {
	ID   int32
	Host string
	Port int32
}

// Sockets bounds connections and requests.
type Sockets struct {
	SendBuffer          int32         `key:"socket.send.buffer.bytes"`    // bytes; -1 keeps the system's default
	ReceiveBuffer       int32         `key:"socket.receive.buffer.bytes"` // bytes; -1 keeps the system's default
	RequestMaxBytes     int32         `key:"socket.request.max.bytes"`
	Backlog             int32         `key:"socket.listen.backlog.size"`
	MaxIdle             time.Duration `key:"connections.max.idle.ms"` // negative: never closed
	MaxConnections      int32         `key:"max.connections"`
	MaxPerIP            int32         `key:"max.connections.per.ip"`
	MaxCreationRate     int32         `key:"max.connection.creation.rate"` // new connections per second
	QueuedRequests      int32         `key:"queued.max.requests"`
	QueuedRequestBytes  int64         `key:"queued.max.request.bytes"` // -1: no limit
	RequestTimeout      time.Duration `key:"request.timeout.ms"`
	FetchMaxBytes       int32         `key:"fetch.max.bytes"`
	FetchSessions       int32         `key:"max.incremental.fetch.session.cache.slots"`
	MaxPartitionsListed int32         `key:"max.request.partition.size.limit"`
	// MaxPerIPOverrides holds limits of single addresses or host names.
	MaxPerIPOverrides map[string]int32
}

// Topics says how topics are made.
type Topics struct {
	AutoCreate        bool  `key:"auto.create.topics.enable"`
	Partitions        int32 `key:"num.partitions"`
	ReplicationFactor int32 `key:"default.replication.factor"`
	DeleteEnabled     bool  `key:"delete.topic.enable"`
}

// Log holds what applies to all logs of a broker. What a topic can override stands in Topic.
type Log struct {
	RetentionCheckInterval     time.Duration `key:"log.retention.check.interval.ms"`
	FlushCheckInterval         time.Duration `key:"log.flush.scheduler.interval.ms"`
	RecoveryCheckpointInterval time.Duration `key:"log.flush.offset.checkpoint.interval.ms"`
	StartCheckpointInterval    time.Duration `key:"log.flush.start.offset.checkpoint.interval.ms"`
	WatermarkInterval          time.Duration `key:"replica.high.watermark.checkpoint.interval.ms"`
	DirFailureTimeout          time.Duration `key:"log.dir.failure.timeout.ms"`
	RecoveryThreads            int32         `key:"num.recovery.threads.per.data.dir"`
	BackgroundThreads          int32         `key:"background.threads"`
	ProducerIDExpiration       time.Duration `key:"producer.id.expiration.ms"`
	ProducerIDCheckInterval    time.Duration `key:"producer.id.expiration.check.interval.ms"`
	MaxDecompressedBytes       int32         `key:"max.decompressed.message.bytes"`
}

// Cleaner steers log compaction.
type Cleaner struct {
	Enabled           bool          `key:"log.cleaner.enable"`
	Threads           int32         `key:"log.cleaner.threads"`
	Backoff           time.Duration `key:"log.cleaner.backoff.ms"`
	DedupeBuffer      int64         `key:"log.cleaner.dedupe.buffer.size"` // bytes over all threads
	IOBuffer          int32         `key:"log.cleaner.io.buffer.size"`     // bytes over all threads
	LoadFactor        float64       `key:"log.cleaner.io.buffer.load.factor"`
	MaxBytesPerSecond float64       `key:"log.cleaner.io.max.bytes.per.second"`
	// CoordinationInterval is how often leader and followers exchange compaction offsets; negative means derived from
	// each topic's delete.retention.ms.
	CoordinationInterval time.Duration `key:"compaction.coordination.interval.ms"`
	// ReplicaTimeout is how long an unreachable replica may hold removal back before it has to be rebuilt; negative: for ever.
	ReplicaTimeout time.Duration `key:"compaction.coordination.replica.timeout.ms"`
}

// Replication steers followers and leaders of partitions.
type Replication struct {
	LagTimeMax        time.Duration `key:"replica.lag.time.max.ms"`
	FetchWaitMax      time.Duration `key:"replica.fetch.wait.max.ms"`
	FetchMinBytes     int32         `key:"replica.fetch.min.bytes"`
	FetchMaxBytes     int32         `key:"replica.fetch.max.bytes"`
	ResponseMaxBytes  int32         `key:"replica.fetch.response.max.bytes"`
	FetchBackoff      time.Duration `key:"replica.fetch.backoff.ms"`
	Fetchers          int32         `key:"num.replica.fetchers"`
	SocketTimeout     time.Duration `key:"replica.socket.timeout.ms"`
	SocketReceive     int32         `key:"replica.socket.receive.buffer.bytes"`
	Selector          string        `key:"replica.selector.class"`             // empty: consumers read from the leader
	AlterDirThreads   int32         `key:"num.replica.alter.log.dirs.threads"` // 0: one per log directory
	AutoRebalance     bool          `key:"auto.leader.rebalance.enable"`
	RebalanceInterval time.Duration `key:"leader.imbalance.check.interval.seconds"`
}

// Offsets steers committed offsets and their topic.
type Offsets struct {
	TopicPartitions   int32         `key:"offsets.topic.num.partitions"`
	ReplicationFactor int16         `key:"offsets.topic.replication.factor"`
	SegmentBytes      int32         `key:"offsets.topic.segment.bytes"`
	Codec             int32         `key:"offsets.topic.compression.codec"` // 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd
	MetadataMaxBytes  int32         `key:"offset.metadata.max.bytes"`
	CommitTimeout     time.Duration `key:"offsets.commit.timeout.ms"`
	LoadBuffer        int32         `key:"offsets.load.buffer.size"`
	Retention         time.Duration `key:"offsets.retention.minutes"`
	CheckInterval     time.Duration `key:"offsets.retention.check.interval.ms"`
}

// Groups steers the group coordinator.
type Groups struct {
	MinSessionTimeout     time.Duration `key:"group.min.session.timeout.ms"`
	MaxSessionTimeout     time.Duration `key:"group.max.session.timeout.ms"`
	InitialRebalanceDelay time.Duration `key:"group.initial.rebalance.delay.ms"`
	MaxSize               int32         `key:"group.max.size"`
	Protocols             []string      `key:"group.coordinator.rebalance.protocols"`
	AppendLinger          time.Duration `key:"group.coordinator.append.linger.ms"` // -1: as long as batches are filled
	Threads               int32         `key:"group.coordinator.threads"`
}

// Transactions steers the transaction coordinator.
type Transactions struct {
	TopicPartitions       int32         `key:"transaction.state.log.num.partitions"`
	ReplicationFactor     int16         `key:"transaction.state.log.replication.factor"`
	MinISR                int32         `key:"transaction.state.log.min.isr"`
	SegmentBytes          int32         `key:"transaction.state.log.segment.bytes"`
	LoadBuffer            int32         `key:"transaction.state.log.load.buffer.size"`
	MaxTimeout            time.Duration `key:"transaction.max.timeout.ms"`
	IDExpiration          time.Duration `key:"transactional.id.expiration.ms"`
	AbortInterval         time.Duration `key:"transaction.abort.timed.out.transaction.cleanup.interval.ms"`
	ExpireInterval        time.Duration `key:"transaction.remove.expired.transaction.cleanup.interval.ms"`
	VerifyPartitions      bool          `key:"transaction.partition.verification.enable"`
	TwoPhaseCommit        bool          `key:"transaction.two.phase.commit.enable"`
	AddPartitionsRetry    time.Duration `key:"add.partitions.to.txn.retry.backoff.ms"`
	AddPartitionsRetryMax time.Duration `key:"add.partitions.to.txn.retry.backoff.max.ms"`
}

// Controller steers the metadata quorum and the life of brokers in the cluster.
type Controller struct {
	ElectionTimeout     time.Duration `key:"controller.quorum.election.timeout.ms"`
	FetchTimeout        time.Duration `key:"controller.quorum.fetch.timeout.ms"`
	RequestTimeout      time.Duration `key:"controller.quorum.request.timeout.ms"`
	ElectionBackoffMax  time.Duration `key:"controller.quorum.election.backoff.max.ms"`
	RetryBackoff        time.Duration `key:"controller.quorum.retry.backoff.ms"`
	AppendLinger        time.Duration `key:"controller.quorum.append.linger.ms"`
	AutoJoin            bool          `key:"controller.quorum.auto.join.enable"`
	HeartbeatInterval   time.Duration `key:"broker.heartbeat.interval.ms"`
	SessionTimeout      time.Duration `key:"broker.session.timeout.ms"`
	RegistrationTimeout time.Duration `key:"initial.broker.registration.timeout.ms"`
	SnapshotBytes       int64         `key:"metadata.log.max.record.bytes.between.snapshots"`
	SnapshotInterval    time.Duration `key:"metadata.log.max.snapshot.interval.ms"`
	SegmentBytes        int32         `key:"metadata.log.segment.bytes"`
	SegmentAge          time.Duration `key:"metadata.log.segment.ms"`
	RetentionBytes      int64         `key:"metadata.max.retention.bytes"`
	Retention           time.Duration `key:"metadata.max.retention.ms"`
	MaxIdleInterval     time.Duration `key:"metadata.max.idle.interval.ms"`
}

// Quotas sizes the windows over which rates are measured.
type Quotas struct {
	Windows            int32         `key:"quota.window.num"`
	Window             time.Duration `key:"quota.window.size.seconds"`
	ReplicationWindows int32         `key:"replication.quota.window.num"`
	ReplicationWindow  time.Duration `key:"replication.quota.window.size.seconds"`
	AlterDirWindows    int32         `key:"alter.log.dirs.replication.quota.window.num"`
	AlterDirWindow     time.Duration `key:"alter.log.dirs.replication.quota.window.size.seconds"`
	ControllerWindows  int32         `key:"controller.quota.window.num"`
	ControllerWindow   time.Duration `key:"controller.quota.window.size.seconds"`
}

// HTTP is the console: health, metrics, profiles.
type HTTP struct {
	// Listener is host:port, empty when the console is off.
	Listener string `key:"http.listener"`
	// Profiles offers /debug/pprof.
	Profiles bool `key:"http.pprof.enable"`
}

// Logging steers the structured log.
type Logging struct {
	Level  string `key:"logging.level"`  // debug, info, warn, error, in any case
	Format string `key:"logging.format"` // auto (console on a terminal), console, json, in any case
}
