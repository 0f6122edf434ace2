package api

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/config"
	"github.com/kbroker/kbroker/internal/metadata"
	"github.com/kbroker/kbroker/protocol"
)

// DescribeConfigs (key 32) lists what is configured for topics, brokers, groups and client metrics, and where each value
// comes from. A broker answers for itself and for what the cluster has stored.
func describeConfigsAPI() API {
	return API{
		Key: 32, Min: 0, Max: 4,
		Since: []string{"v1 sources and synonyms (KIP-226)", "v3 types and documentation (KIP-569)"},
		Deviations: []string{
			"Version 0 is served although Apache Kafka 4 has dropped it.",
			"There is one logger (resource type BROKER_LOGGER), named root.",
		},
		serve: answer((*Service).describeConfigs),
	}
}

func (s *Service) describeConfigs(_ context.Context, r *Request, q *kmsg.DescribeConfigsRequest) *kmsg.DescribeConfigsResponse {
	resp := kmsg.NewPtrDescribeConfigsResponse()
	for i := range q.Resources {
		qr := &q.Resources[i]
		rr := kmsg.NewDescribeConfigsResponseResource()
		rr.ResourceType, rr.ResourceName = qr.ResourceType, qr.ResourceName
		entries, err := s.configEntries(r, configResource{qr.ResourceType, qr.ResourceName})
		if err != nil {
			rr.ErrorCode, rr.ErrorMessage = protocol.CodeOf(err), protocol.MessageOf(err)
		} else {
			rr.ErrorMessage = text("")
		}
		for _, e := range entries {
			if len(qr.ConfigNames) == 0 || slices.Contains(qr.ConfigNames, e.Name) {
				rr.Configs = append(rr.Configs, describedConfig(&e, q))
			}
		}
		resp.Resources = append(resp.Resources, rr)
	}
	return resp
}

func (s *Service) configEntries(r *Request, c configResource) ([]config.Entry, error) {
	if err := s.mayConfig(r, kmsg.ACLOperationDescribeConfigs, c); err != nil {
		return nil, err
	}
	img, cfg := s.Cluster.Image(), s.Cluster.Config()
	switch c.kind {
	case kmsg.ConfigResourceTypeTopic:
		switch {
		case !isTopicName(c.name):
			return nil, fmt.Errorf("topic name %q is invalid: %w", c.name, kerr.InvalidTopicException)
		case img.Topic(c.name) == nil:
			return nil, kerr.UnknownTopicOrPartition
		}
		return cfg.DescribeTopic(img.Config(metadata.ResourceTopic, c.name)), nil
	case kmsg.ConfigResourceTypeGroupConfig:
		if c.name == "" {
			return nil, saying(kerr.InvalidRequest, "Group name must not be empty")
		}
		return cfg.DescribeGroup(img.Config(metadata.ResourceGroup, c.name)), nil
	case kmsg.ConfigResourceTypeClientMetrics:
		if c.name == "" {
			return nil, saying(kerr.InvalidRequest, "Client metrics subscription name must not be empty")
		}
		return cfg.DescribeClientMetrics(img.Config(metadata.ResourceClientMetrics, c.name)), nil
	case kmsg.ConfigResourceTypeBroker:
		if c.name == "" {
			return config.DescribeBrokerDefaults(img.Config(metadata.ResourceBroker, "")), nil
		}
	default: // loggers; mayConfig has refused unknown types
	}
	if err := s.ownID(c.name); err != nil {
		return nil, err
	}
	if c.kind == kmsg.ConfigResourceTypeBrokerLogger {
		return loggerEntries(cfg), nil
	}
	return cfg.DescribeBroker(), nil
}

// ownID returns an error unless the name is this broker's id: nobody knows the static configuration of another one.
func (s *Service) ownID(name string) error {
	id, err := strconv.ParseInt(name, 10, 32)
	switch {
	case name == "":
		return saying(kerr.InvalidRequest, "Broker id must not be empty")
	case err != nil:
		return saying(kerr.InvalidRequest, "Broker id must be an integer, but it is: %s", name)
	case int32(id) != s.NodeID:
		return saying(kerr.InvalidRequest, "Unexpected broker id, expected %d or empty string, but received %s", s.NodeID, name)
	}
	return nil
}

func loggerEntries(cfg *config.Config) []config.Entry {
	level := strings.ToUpper(cfg.Logging.Level)
	source := kmsg.ConfigSourceDynamicBrokerLoggerConfig
	return []config.Entry{{
		Name: "root", Value: &level, Source: source, ReadOnly: true, Type: kmsg.ConfigTypeString,
		Doc: "The level below which nothing is logged.",
	}}
}

func describedConfig(e *config.Entry, q *kmsg.DescribeConfigsRequest) kmsg.DescribeConfigsResponseResourceConfig {
	c := kmsg.NewDescribeConfigsResponseResourceConfig()
	c.Name, c.Value, c.ReadOnly, c.IsSensitive = e.Name, e.Value, e.ReadOnly, e.Sensitive
	c.Source, c.ConfigType, c.IsDefault = e.Source, e.Type, e.Source == kmsg.ConfigSourceDefaultConfig
	if q.IncludeDocumentation {
		c.Documentation = &e.Doc
	}
	c.ConfigSynonyms = []kmsg.DescribeConfigsResponseResourceConfigConfigSynonym{}
	if q.IncludeSynonyms {
		for _, syn := range e.Synonyms {
			cs := kmsg.NewDescribeConfigsResponseResourceConfigConfigSynonym()
			cs.Name, cs.Value, cs.Source = syn.Name, syn.Value, syn.Source
			c.ConfigSynonyms = append(c.ConfigSynonyms, cs)
		}
	}
	return c
}
