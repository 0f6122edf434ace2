package controller

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// decide works out what a request does (C1). An error means that there is no answer of the request's kind.
func (v *view) decide(req kmsg.Request) (decision, error) {
	switch r := req.(type) {
	case *kmsg.CreateTopicsRequest:
		return v.createTopics(r), nil
	case *kmsg.DeleteTopicsRequest:
		return v.deleteTopics(r), nil
	case *kmsg.AlterConfigsRequest:
		return v.alterConfigs(r), nil
	case *kmsg.CreatePartitionsRequest:
		return v.createPartitions(r), nil
	case *kmsg.IncrementalAlterConfigsRequest:
		return v.incrementalAlterConfigs(r), nil
	case *kmsg.AlterPartitionRequest:
		return v.alterPartition(r), nil
	case *kmsg.UpdateFeaturesRequest:
		return v.updateFeatures(r), nil
	case *kmsg.BrokerRegistrationRequest:
		return v.registerBroker(r), nil
	case *kmsg.BrokerHeartbeatRequest:
		return v.brokerHeartbeat(r), nil
	case *kmsg.AllocateProducerIDsRequest:
		return v.allocateProducerIDs(r), nil
	}
	return decision{}, refuse(kerr.UnsupportedVersion, "The controller does not answer requests of key %d.", req.Key())
}
