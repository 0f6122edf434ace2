package api

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/internal/metadata"
	"github.com/kbroker/kbroker/internal/model"
)

// creationTimeout bounds how long a request that creates a topic on the side waits for the controller.
const creationTimeout = 5 * time.Second

// newTopic describes a topic that is made because somebody asked for it. Internal topics get what their coordinator needs.
func (s *Service) newTopic(name string) kmsg.CreateTopicsRequestTopic {
	cfg := s.Cluster.Config()
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic = name
	set := func(key, value string) {
		c := kmsg.NewCreateTopicsRequestTopicConfig()
		c.Name, c.Value = key, &value
		t.Configs = append(t.Configs, c)
	}
	switch name {
	case model.GroupMetadataTopic:
		t.NumPartitions, t.ReplicationFactor = cfg.Offsets.TopicPartitions, cfg.Offsets.ReplicationFactor
		set("cleanup.policy", "compact")
		set("compression.type", "producer")
		set("segment.bytes", strconv.Itoa(int(cfg.Offsets.SegmentBytes)))
	case model.TransactionStateTopic:
		t.NumPartitions, t.ReplicationFactor = cfg.Transactions.TopicPartitions, cfg.Transactions.ReplicationFactor
		set("cleanup.policy", "compact")
		set("compression.type", "uncompressed")
		set("min.insync.replicas", strconv.Itoa(int(cfg.Transactions.MinISR)))
		set("segment.bytes", strconv.Itoa(int(cfg.Transactions.SegmentBytes)))
		set("unclean.leader.election.enable", "false")
	default:
		t.NumPartitions, t.ReplicationFactor = cfg.Topics.Partitions, int16(min(cfg.Topics.ReplicationFactor, 1<<15-1))
	}
	if model.IsInternalTopic(name) {
		t.ReplicationFactor = clampReplication(t.ReplicationFactor, s.Cluster.Image())
	}
	return t
}

// clampReplication lowers the replication factor of an internal topic to the number of brokers of the cluster, so that a
// small cluster works with the defaults of a large one.
func clampReplication(factor int16, img *metadata.Image) int16 {
	brokers := 0
	for b := range img.Brokers() {
		if !b.Fenced {
			brokers++
		}
	}
	return min(factor, int16(max(1, min(brokers, 1<<15-1))))
}

// createTopics makes topics on behalf of a requester and returns one error per topic, nil also for one that somebody else
// has made meanwhile.
func (s *Service) createTopics(ctx context.Context, who Caller, names []string) []error {
	errs := make([]error, len(names))
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version = req.MaxVersion()
	req.TimeoutMillis = int32(creationTimeout / time.Millisecond)
	for _, name := range names {
		req.Topics = append(req.Topics, s.newTopic(name))
	}
	ctx, cancel := context.WithTimeout(ctx, creationTimeout)
	defer cancel()
	resp, err := s.Controller.Forward(ctx, who, req)
	created, ok := resp.(*kmsg.CreateTopicsResponse)
	if err == nil && !ok {
		err = fmt.Errorf("the controller answered %T to CreateTopics: %w", resp, kerr.UnknownServerError)
	}
	if err != nil {
		for i := range errs {
			errs[i] = err
		}
		return errs
	}
	byName := map[string]error{}
	for i := range created.Topics {
		t := &created.Topics[i]
		byName[t.Topic] = creationError(t)
	}
	for i, name := range names {
		e, answered := byName[name]
		if !answered {
			e = fmt.Errorf("the controller did not answer for topic %s: %w", name, kerr.UnknownServerError)
		}
		errs[i] = e
	}
	return errs
}

func creationError(t *kmsg.CreateTopicsResponseTopic) error {
	err := kerr.ErrorForCode(t.ErrorCode)
	if err == nil || errors.Is(err, kerr.TopicAlreadyExists) {
		return nil
	}
	if t.ErrorMessage != nil {
		return fmt.Errorf("%s: %w", *t.ErrorMessage, err)
	}
	return err
}

// maxTopicName is the longest name of a topic, in bytes: a folder named after one of its partitions must fit.
const maxTopicName = 249

// isTopicName reports whether a topic may have this name.
func isTopicName(name string) bool {
	if name == "" || name == "." || name == ".." || len(name) > maxTopicName {
		return false
	}
	for i := range len(name) {
		c := name[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '.', c == '_', c == '-':
		default:
			return false
		}
	}
	return true
}
