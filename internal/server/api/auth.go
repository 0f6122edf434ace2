package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"
)

// clusterName is the name of the one resource of type CLUSTER.
const clusterName = "kafka-cluster"

// may asks the authorizer whether the requester may do op on a resource.
func (s *Service) may(r *Request, op kmsg.ACLOperation, t kmsg.ACLResourceType, name string) bool {
	if !s.Authorizer.Enabled() {
		return true
	}
	return s.Authorizer.Allowed(r.Caller(), op, Resource{Type: t, Name: name})
}

func (s *Service) mayTopic(r *Request, op kmsg.ACLOperation, topic string) bool {
	return s.may(r, op, kmsg.ACLResourceTypeTopic, topic)
}

func (s *Service) mayGroup(r *Request, op kmsg.ACLOperation, group string) bool {
	return s.may(r, op, kmsg.ACLResourceTypeGroup, group)
}

func (s *Service) mayCluster(r *Request, op kmsg.ACLOperation) bool {
	return s.may(r, op, kmsg.ACLResourceTypeCluster, clusterName)
}

// operations returns the bit field of what the requester may do with a resource (KIP-430): bit n stands for the
// operation of that number.
func (s *Service) operations(r *Request, t kmsg.ACLResourceType, name string) int32 {
	var bits int32
	for _, op := range operationsOf(t) {
		if s.may(r, op, t, name) {
			bits |= 1 << op
		}
	}
	return bits
}

// operationsOf lists the operations that Kafka knows for a type of resource.
func operationsOf(t kmsg.ACLResourceType) []kmsg.ACLOperation {
	switch t {
	case kmsg.ACLResourceTypeTopic:
		return []kmsg.ACLOperation{
			kmsg.ACLOperationRead, kmsg.ACLOperationWrite, kmsg.ACLOperationCreate, kmsg.ACLOperationDescribe,
			kmsg.ACLOperationDelete, kmsg.ACLOperationAlter, kmsg.ACLOperationDescribeConfigs, kmsg.ACLOperationAlterConfigs,
		}
	case kmsg.ACLResourceTypeGroup:
		return []kmsg.ACLOperation{
			kmsg.ACLOperationRead, kmsg.ACLOperationDescribe, kmsg.ACLOperationDelete,
			kmsg.ACLOperationDescribeConfigs, kmsg.ACLOperationAlterConfigs,
		}
	case kmsg.ACLResourceTypeCluster:
		return []kmsg.ACLOperation{
			kmsg.ACLOperationCreate, kmsg.ACLOperationClusterAction, kmsg.ACLOperationDescribeConfigs,
			kmsg.ACLOperationAlterConfigs, kmsg.ACLOperationIdempotentWrite, kmsg.ACLOperationAlter, kmsg.ACLOperationDescribe,
		}
	default:
		return nil
	}
}
