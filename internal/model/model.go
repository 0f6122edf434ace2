// Package model holds the few value types that every floor of the house shares: the identity of a topic, of a
// partition and of a log directory, and the sentinels of Kafka's record format. It has no behaviour beyond formatting
// and parsing, does no I/O and imports nothing of ours.
//
// Offsets are int64, leader and partition epochs int32, producer ids int64, producer epochs int16 and node ids int32
// everywhere, as on the wire; the names carry the meaning. An exclusive end says so in its name (UpTo, Below, End).
package model

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"strconv"
)

// Sentinels of the record format and of the protocol.
const (
	// NoProducerID marks a batch without idempotence.
	NoProducerID int64 = -1
	// NoProducerEpoch is the epoch of a batch without idempotence.
	NoProducerEpoch int16 = -1
	// NoSequence is the base sequence of a batch without idempotence, and of every control batch.
	NoSequence int32 = -1
	// NoTimestamp stands for "no timestamp" in batches and answers.
	NoTimestamp int64 = -1
	// NoOffset stands for an unknown offset in answers.
	NoOffset int64 = -1
	// NoEpoch stands for an unknown leader epoch.
	NoEpoch int32 = -1
	// NoLeader is the leader id of a partition that has none.
	NoLeader int32 = -1
)

// Names of the topics that the broker itself writes.
const (
	// GroupMetadataTopic holds committed offsets and group state.
	GroupMetadataTopic = "__consumer_offsets"
	// TransactionStateTopic holds the state of transactional ids.
	TransactionStateTopic = "__transaction_state"
	// ShareGroupStateTopic is reserved by Apache Kafka; clients may not create it.
	ShareGroupStateTopic = "__share_group_state"
	// ClusterMetadataTopic names the metadata log; no client can create a topic of this name.
	ClusterMetadataTopic = "__cluster_metadata"
)

// IsInternalTopic tells whether Metadata answers mark the topic as internal and clients may not produce to it freely.
func IsInternalTopic(name string) bool {
	return name == GroupMetadataTopic || name == TransactionStateTopic || name == ShareGroupStateTopic
}

// UUID is Kafka's 128-bit identifier of topics, log directories, clusters and incarnations. The zero value means
// "none". It travels as 16 bytes and prints as URL-safe base64 without padding, which is Kafka's form.
type UUID [16]byte

// NewUUID returns a random version 4 UUID whose text does not begin with '-', so that it can follow a flag on a
// command line (Kafka's Uuid.randomUuid makes the same promise).
func NewUUID() UUID {
	for {
		var u UUID
		_, _ = rand.Read(u[:]) // documented never to fail
		u[6] = u[6]&0x0f | 0x40
		u[8] = u[8]&0x3f | 0x80
		if u[0]>>2 != 62 { // 62 encodes as '-'
			return u
		}
	}
}

// ParseUUID reads Kafka's text form. A text of another length or alphabet is an error that quotes it.
func ParseUUID(s string) (UUID, error) {
	var u UUID
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil || len(b) != len(u) {
		return UUID{}, fmt.Errorf("%q is not a uuid: want 22 characters of URL-safe base64", s)
	}
	copy(u[:], b)
	return u, nil
}

// String returns Kafka's text form, 22 characters.
func (u UUID) String() string { return base64.RawURLEncoding.EncodeToString(u[:]) }

// IsZero reports whether u is the "none" value.
func (u UUID) IsZero() bool { return u == UUID{} }

// TopicPartition names a partition by its topic's name.
type TopicPartition struct {
	Topic     string
	Partition int32
}

// String returns Kafka's form, topic-partition, which is also the name of the partition's folder.
func (tp TopicPartition) String() string { return tp.Topic + "-" + strconv.Itoa(int(tp.Partition)) }

// Compare orders by topic and then by partition, for output that must not depend on map order.
func (tp TopicPartition) Compare(o TopicPartition) int {
	switch {
	case tp.Topic < o.Topic:
		return -1
	case tp.Topic > o.Topic:
		return 1
	case tp.Partition < o.Partition:
		return -1
	case tp.Partition > o.Partition:
		return 1
	}
	return 0
}
