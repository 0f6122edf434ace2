package controller

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/kbroker/kbroker/config"
	"github.com/kbroker/kbroker/internal/metadata"
	"github.com/kbroker/kbroker/internal/model"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// What AlterConfigs and IncrementalAlterConfigs share.

// Configs that elections depend on.
const (
	minISRKey  = "min.insync.replicas"
	uncleanKey = "unclean.leader.election.enable"
)

func joined(names []string) string { return strings.Join(names, ",") }

// configChanges returns the records that turn one set of overrides into another, sorted by key.
func configChanges(res metadata.ConfigResource, from, to map[string]string) []metadata.Record {
	var records []metadata.Record
	for _, k := range slices.Sorted(maps.Keys(to)) {
		value := to[k]
		if old, ok := from[k]; !ok || old != value {
			records = append(records, &metadata.ConfigRecord{Resource: res, Key: k, Value: &value})
		}
	}
	for _, k := range slices.Sorted(maps.Keys(from)) {
		if _, ok := to[k]; !ok {
			records = append(records, &metadata.ConfigRecord{Resource: res, Key: k})
		}
	}
	return records
}

// alterConfig changes the overrides of one resource: by ops on the present ones, or on none at all when replacing.
func (v *view) alterConfig(kind kmsg.ConfigResourceType, name string, ops []config.Op, replacing bool) ([]metadata.Record, error) {
	res := metadata.ConfigResource{Type: metadata.ResourceType(kind), Name: name}
	if err := v.checkConfigResource(res); err != nil {
		return nil, err
	}
	current := v.img.Config(res.Type, res.Name)
	base := current
	if replacing {
		base = nil
	}
	next, err := v.cfg.Alter(kind, base, ops)
	if err != nil {
		return nil, err
	}
	if err := v.checkStrictISR(res, current, next); err != nil {
		return nil, err
	}
	if err := v.validateConfig(res, next); err != nil {
		return nil, err
	}
	records := configChanges(res, current, next)
	if current[minISRKey] == next[minISRKey] && current[uncleanKey] == next[uncleanKey] {
		return records, nil
	}
	return v.afterElectionConfig(res, records)
}

// afterElectionConfig returns config records followed by what they do to partitions. When min.insync.replicas falls to the
// size of an ISR, writes go on without the members of the ELR, which then hold no longer everything that is committed: they
// must leave it in the same batch. When unclean elections are allowed, partitions without a leader may get one.
func (v *view) afterElectionConfig(res metadata.ConfigResource, records []metadata.Record) ([]metadata.Record, error) {
	if res.Type != metadata.ResourceTopic && (res.Type != metadata.ResourceBroker || res.Name != "") {
		return records, nil
	}
	after, err := v.with(records...)
	if err != nil {
		return nil, err
	}
	for t := range after.img.AllTopics() {
		if res.Type == metadata.ResourceTopic && t.Name != res.Name {
			continue
		}
		for i, p := range t.Partitions {
			if len(p.ELR) == 0 && p.Leader != model.NoLeader {
				continue
			}
			if r := after.newPartitionChange(t, int32(i)).record(); r != nil {
				records = append(records, r)
			}
		}
	}
	return records, nil
}

// checkConfigResource tells whether a resource is there and can be altered through the node that was asked.
func (v *view) checkConfigResource(res metadata.ConfigResource) error {
	switch res.Type {
	case metadata.ResourceTopic:
		if res.Name == "" {
			return refuse(kerr.InvalidRequest, "Default topic resources are not allowed.")
		}
		if err := checkTopicName(res.Name); err != nil {
			return err
		}
		if v.img.Topic(res.Name) == nil {
			return refuse(kerr.UnknownTopicOrPartition, "The topic '%s' does not exist.", res.Name)
		}
	case metadata.ResourceBroker:
		return v.checkConfigBroker(res.Name)
	case metadata.ResourceClientMetrics:
		if res.Name == "" {
			return refuse(kerr.InvalidRequest, "Subscription name can't be empty")
		}
	case metadata.ResourceGroup:
		if res.Name == "" {
			return refuse(kerr.InvalidRequest, "Default group resources are not allowed.")
		}
	case metadata.ResourceBrokerLogger, metadata.ResourceUnknown:
		return refuse(kerr.InvalidRequest, "Unknown resource type %d", res.Type)
	default:
		return refuse(kerr.InvalidRequest, "Unknown resource type %d", res.Type)
	}
	return nil
}

func (v *view) checkConfigBroker(name string) error {
	if name == "" {
		return nil
	}
	id, err := strconv.ParseInt(name, 10, 32)
	if err != nil {
		return refuse(kerr.InvalidRequest, "Node id must be an integer, but it is: %s", name)
	}
	if v.who.Broker >= 0 && int32(id) != v.who.Broker {
		return refuse(kerr.InvalidRequest, "Unexpected broker id, expected %d, but received %s", v.who.Broker, name)
	}
	if v.img.Broker(int32(id)) == nil {
		return refuse(kerr.InvalidRequest, "Broker %d is not registered", id)
	}
	return nil
}

// checkStrictISR guards what ELR rests on: with it, all brokers must agree on min.insync.replicas.
func (v *view) checkStrictISR(res metadata.ConfigResource, current, next map[string]string) error {
	if res.Type != metadata.ResourceBroker || !v.elrEnabled() {
		return nil
	}
	was, had := current[minISRKey]
	is, has := next[minISRKey]
	switch {
	case res.Name != "" && (has != had || was != is):
		return refuse(kerr.InvalidConfig, "Broker-level min.insync.replicas cannot be altered while ELR is enabled.")
	case res.Name == "" && had && !has:
		return refuse(kerr.InvalidConfig, "Cluster-level min.insync.replicas cannot be removed while ELR is enabled.")
	}
	return nil
}

// validateConfig checks the overrides that a resource is to have.
func (v *view) validateConfig(res metadata.ConfigResource, next map[string]string) error {
	switch res.Type {
	case metadata.ResourceTopic:
		return v.cfg.ValidateTopic(next)
	case metadata.ResourceBroker:
		return v.cfg.ValidateBroker(next, res.Name != "")
	case metadata.ResourceClientMetrics:
		return config.ValidateClientMetrics(next)
	case metadata.ResourceGroup:
		return v.cfg.ValidateGroup(next)
	case metadata.ResourceUnknown, metadata.ResourceBrokerLogger:
	}
	return nil // checkConfigResource has refused everything else
}

// errDuplicateResource is what every mention of a resource gets that is mentioned more than once.
var errDuplicateResource = &refusal{kerr.InvalidRequest, "Each resource must appear at most once."}

// resourceKey identifies a resource within a request.
type resourceKey struct {
	kind kmsg.ConfigResourceType
	name string
}

// shownType is how an answer names a resource type: Kafka turns those it does not know into 0.
func shownType(kind kmsg.ConfigResourceType) kmsg.ConfigResourceType {
	switch kind {
	case kmsg.ConfigResourceTypeTopic, kmsg.ConfigResourceTypeBroker, kmsg.ConfigResourceTypeBrokerLogger,
		kmsg.ConfigResourceTypeClientMetrics, kmsg.ConfigResourceTypeGroupConfig:
		return kind
	case kmsg.ConfigResourceTypeUnknown:
	}
	return kmsg.ConfigResourceTypeUnknown
}
