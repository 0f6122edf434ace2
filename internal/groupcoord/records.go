package groupcoord

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/internal/coordrt"
	"github.com/kbroker/kbroker/internal/model"
)

// Record types: the first two bytes of a key. 3 to 24 are Kafka's newer kinds of groups (G6).
const (
	typeLegacyOffset  int16 = 0
	typeOffset        int16 = 1
	typeGroupMetadata int16 = 2
)

// Versions of values. A 4.4 broker writes offsets in version 4, in 1 when the client asked for a retention of its own,
// and groups in version 3.
const (
	offsetVersion         int16 = 4
	offsetVersionExpiring int16 = 1
	newestOffsetVersion   int16 = 4
	groupVersion          int16 = 3
	newestGroupVersion    int16 = 4
	noExpiry              int64 = -1
	firstEpochVersion     int16 = 3
	noRebalanceTimeout    int32 = -1
	noStateTimestamp      int64 = -1
)

// errRecord marks a record that is of a known type but cannot be read.
var errRecord = errors.New("unreadable group record")

// commit is a committed offset.
type commit struct {
	offset      int64
	leaderEpoch int32 // -1: not given
	metadata    string
	commitMs    int64
	expireMs    int64      // noExpiry: by the broker's retention
	topicID     model.UUID // zero: not given
	// at is the position in the log of the record that holds it.
	at int64
}

// offsetKey names a committed offset.
type offsetKey struct {
	group     string
	topic     string
	partition int32
}

func (k offsetKey) encode() []byte {
	key := kmsg.OffsetCommitKey{Version: typeOffset, Group: k.group, Topic: k.topic, Partition: k.partition}
	return key.AppendTo(nil)
}

func (k offsetKey) tombstone() coordrt.Record { return coordrt.Record{Key: k.encode()} }

func (c *commit) record(k offsetKey) coordrt.Record {
	v := kmsg.OffsetCommitValue{Version: offsetVersion, Offset: c.offset, LeaderEpoch: c.leaderEpoch, Metadata: c.metadata,
		CommitTimestamp: c.commitMs, ExpireTimestamp: c.expireMs, TopicID: c.topicID}
	if c.expireMs != noExpiry {
		v.Version = offsetVersionExpiring // which has neither leader epoch nor topic id
	}
	return coordrt.Record{Key: k.encode(), Value: v.AppendTo(nil)}
}

func decodeOffsetKey(b []byte) (offsetKey, error) {
	var k kmsg.OffsetCommitKey
	if err := k.ReadFrom(b); err != nil {
		return offsetKey{}, fmt.Errorf("%w: offset key of %d bytes: %w", errRecord, len(b), err)
	}
	return offsetKey{k.Group, k.Topic, k.Partition}, nil
}

func decodeCommit(b []byte, at int64) (commit, error) {
	var v kmsg.OffsetCommitValue
	if err := readVersioned(b, newestOffsetVersion, v.ReadFrom); err != nil {
		return commit{}, fmt.Errorf("offset value: %w", err)
	}
	c := commit{offset: v.Offset, leaderEpoch: model.NoEpoch, metadata: v.Metadata, commitMs: v.CommitTimestamp,
		expireMs: noExpiry, topicID: v.TopicID, at: at}
	if v.Version >= firstEpochVersion {
		c.leaderEpoch = v.LeaderEpoch
	}
	if v.Version == offsetVersionExpiring {
		c.expireMs = v.ExpireTimestamp
	}
	return c, nil
}

func readVersioned(b []byte, newest int16, read func([]byte) error) error {
	if len(b) < 2 {
		return fmt.Errorf("%w: %d bytes", errRecord, len(b))
	}
	if v := int16(binary.BigEndian.Uint16(b)); v < 0 || v > newest {
		return fmt.Errorf("%w: version %d, the newest known is %d", errRecord, v, newest)
	}
	if err := read(b); err != nil {
		return fmt.Errorf("%w: %w", errRecord, err)
	}
	return nil
}

// decodeGroupKey returns the group that a record of type 2 is about.
func decodeGroupKey(b []byte) (string, error) {
	var k kmsg.GroupMetadataKey
	if err := k.ReadFrom(b); err != nil {
		return "", fmt.Errorf("%w: group key of %d bytes: %w", errRecord, len(b), err)
	}
	return k.Group, nil
}

func groupTombstone(id string) coordrt.Record {
	key := kmsg.GroupMetadataKey{Version: typeGroupMetadata, Group: id}
	return coordrt.Record{Key: key.AppendTo(nil)}
}

// record is the group as it is to be found by the next coordinator. The group has a protocol unless it has no members.
func (g *group) record(assignment func(*member) []byte) coordrt.Record {
	key := kmsg.GroupMetadataKey{Version: typeGroupMetadata, Group: g.id}
	v := kmsg.GroupMetadataValue{Version: groupVersion, ProtocolType: g.protocolType, Generation: g.generation,
		Protocol: g.protocol, CurrentStateTimestamp: g.sinceMs}
	if g.leader != "" {
		v.Leader = &g.leader
	}
	for _, m := range g.members {
		v.Members = append(v.Members, kmsg.GroupMetadataValueMember{
			MemberID: m.id, InstanceID: m.instance, ClientID: m.clientID, ClientHost: m.clientHost,
			RebalanceTimeoutMillis: m.rebalanceMs, SessionTimeoutMillis: m.sessionMs,
			Subscription: m.metadata(*g.protocol), Assignment: assignment(m),
		})
	}
	return coordrt.Record{Key: key.AppendTo(nil), Value: v.AppendTo(nil)}
}

// decodeGroup makes a group of its record. Its members have no timers yet.
func decodeGroup(id string, b []byte) (*group, error) {
	var v kmsg.GroupMetadataValue
	if err := readVersioned(b, newestGroupVersion, v.ReadFrom); err != nil {
		return nil, fmt.Errorf("value of group %q: %w", id, err)
	}
	g := newGroup(id, noStateTimestamp)
	if v.Version >= 2 {
		g.sinceMs = v.CurrentStateTimestamp
	}
	g.protocolType, g.protocol, g.generation = v.ProtocolType, v.Protocol, v.Generation
	for i := range v.Members {
		m, err := decodeMember(&v, &v.Members[i])
		if err != nil {
			return nil, fmt.Errorf("value of group %q: %w", id, err)
		}
		if g.byID[m.id] != nil || m.instance != nil && g.static[*m.instance] != "" {
			return nil, fmt.Errorf("value of group %q: %w: member %q is there twice", id, errRecord, m.id)
		}
		g.insert(m)
	}
	if len(g.members) > 0 {
		g.state = Stable
	}
	if v.Leader != nil && g.byID[*v.Leader] != nil {
		g.leader = *v.Leader // otherwise the first member
	}
	g.subscribed = g.subscriptions()
	return g, nil
}

func decodeMember(v *kmsg.GroupMetadataValue, vm *kmsg.GroupMetadataValueMember) (*member, error) {
	if v.Protocol == nil || v.ProtocolType == "" || vm.MemberID == "" {
		return nil, fmt.Errorf("%w: member %q without protocol or id", errRecord, vm.MemberID)
	}
	m := &member{id: vm.MemberID, instance: vm.InstanceID, clientID: vm.ClientID, clientHost: vm.ClientHost,
		rebalanceMs: vm.RebalanceTimeoutMillis, sessionMs: vm.SessionTimeoutMillis,
		// The value's bytes belong to the reader of the log.
		protocols:  []protocol{{*v.Protocol, bytes.Clone(vm.Subscription)}},
		assignment: bytes.Clone(vm.Assignment)}
	if v.Version < 1 || m.rebalanceMs == noRebalanceTimeout {
		m.rebalanceMs = m.sessionMs
	}
	return m, nil
}
