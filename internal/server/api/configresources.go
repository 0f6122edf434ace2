package api

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// configResource names what a config request is about.
type configResource struct {
	kind kmsg.ConfigResourceType
	name string
}

// mayConfig returns an error unless the requester may do op (describe or alter configs) on a resource.
func (s *Service) mayConfig(r *Request, op kmsg.ACLOperation, c configResource) error {
	switch c.kind {
	case kmsg.ConfigResourceTypeTopic:
		if !s.mayTopic(r, op, c.name) {
			return kerr.TopicAuthorizationFailed
		}
	case kmsg.ConfigResourceTypeGroupConfig:
		if !s.mayGroup(r, op, c.name) {
			return kerr.GroupAuthorizationFailed
		}
	case kmsg.ConfigResourceTypeBroker, kmsg.ConfigResourceTypeBrokerLogger, kmsg.ConfigResourceTypeClientMetrics:
		if !s.mayCluster(r, op) {
			return kerr.ClusterAuthorizationFailed
		}
	default:
		return saying(kerr.InvalidRequest, "Unknown resource type %d", c.kind)
	}
	return nil
}

// refuseAlterations returns an error for each resource of a request to alter configs that must not go to the controller,
// nil for the others.
func (s *Service) refuseAlterations(r *Request, resources []configResource) []error {
	times := map[configResource]int{}
	for _, c := range resources {
		times[c]++
	}
	errs := make([]error, len(resources))
	for i, c := range resources {
		switch {
		case times[c] > 1:
			errs[i] = saying(kerr.InvalidRequest, "Each resource must appear at most once.")
		case c.kind == kmsg.ConfigResourceTypeBrokerLogger:
			errs[i] = fmt.Errorf("the levels of loggers cannot be changed while the broker runs: %w", kerr.InvalidRequest)
		default:
			errs[i] = s.mayConfig(r, kmsg.ACLOperationAlterConfigs, c)
		}
	}
	return errs
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// unanswered is the error of a resource that is missing in the controller's answer.
func unanswered(answered bool) error {
	if answered {
		return nil
	}
	return fmt.Errorf("the controller did not answer for this resource: %w", kerr.UnknownServerError)
}
