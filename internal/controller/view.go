package controller

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/kbroker/kbroker/config"
	"github.com/kbroker/kbroker/internal/metadata"
	"github.com/kbroker/kbroker/internal/model"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"
)

// Caller says on whose behalf a request came, for log lines and for what is answered by who asked.
type Caller struct {
	Principal, Host, Listener, ClientID string
	// Broker is the node that received the request, -1 when that does not matter. Configs of a broker can only be changed
	// by asking that broker.
	Broker int32
}

// view is everything that a decision may look at (C1).
type view struct {
	img *metadata.Image
	// cfg is the configuration of the active controller with the cluster's dynamic configs applied.
	cfg  *config.Config
	now  time.Time
	rng  *rand.Rand
	who  Caller
	self self
	// sessions knows which brokers were heard of lately.
	sessions *sessions
	log      *zap.Logger
}

// self is what the controller knows of its own node.
type self struct {
	nodeID    int32
	clusterID string
	// onlyVoter is set when this node is the whole metadata quorum.
	onlyVoter bool
}

// decision is what comes out of a request.
type decision struct {
	response kmsg.Response
	records  []metadata.Record
	// visible makes the answer wait until the brokers of this process have seen the records.
	visible bool
	// committed, when set, is called once the records are committed, with their offset. It must be quick and may run on any
	// goroutine.
	committed func(offset int64)
}

// newID returns a random id that prints without a leading '-'.
func (v *view) newID() model.UUID {
	for {
		var u model.UUID
		binary.BigEndian.PutUint64(u[:8], v.rng.Uint64())
		binary.BigEndian.PutUint64(u[8:], v.rng.Uint64())
		u[6] = u[6]&0x0f | 0x40
		u[8] = u[8]&0x3f | 0x80
		if u[0]>>2 != 62 && v.img.TopicByID(u) == nil {
			return u
		}
	}
}

// eligible reports whether a broker may lead and be in an ISR.
func (v *view) eligible(broker int32) bool {
	b := v.img.Broker(broker)
	return b != nil && b.Eligible()
}

// eligibleOf returns the members of replicas that may be in an ISR, in order.
func (v *view) eligibleOf(replicas []int32) []int32 {
	var out []int32
	for _, r := range replicas {
		if v.eligible(r) {
			out = append(out, r)
		}
	}
	return out
}

// topicSetting returns the text of a topic's config as the image has it: the topic's own or the cluster's. A view with
// changed configs in its image sees the changed ones, unlike cfg.
func (v *view) topicSetting(topic, key string) (text string, ok bool) {
	if text, ok = v.img.Config(metadata.ResourceTopic, topic)[key]; ok {
		return text, true
	}
	text, ok = v.img.Config(metadata.ResourceBroker, "")[key]
	return text, ok
}

// minISR returns the number of in-sync replicas that a partition of the topic must have for acks=all.
func (v *view) minISR(topic string) int {
	if text, ok := v.topicSetting(topic, minISRKey); ok {
		if n, err := strconv.Atoi(text); err == nil {
			return n
		}
	}
	return int(v.topicDefaults().MinInsyncReplicas)
}

// uncleanElection reports whether a topic prefers an outdated leader over none.
func (v *view) uncleanElection(topic string) bool {
	if text, ok := v.topicSetting(topic, uncleanKey); ok {
		if b, err := strconv.ParseBool(text); err == nil {
			return b
		}
	}
	return v.topicDefaults().UncleanLeaderElection
}

// topicDefaults is the configuration of a topic without overrides. The configuration was checked when it was made, so
// there always is one.
func (v *view) topicDefaults() *config.Topic {
	t, err := v.cfg.Topic(nil)
	if err != nil {
		return &config.Topic{MinInsyncReplicas: 1}
	}
	return t
}

// with returns the view after some records. They were made for its image, so they fit.
func (v *view) with(records ...metadata.Record) (*view, error) {
	img, _, err := v.img.Apply(records)
	if err != nil {
		return nil, err
	}
	after := *v
	after.img = img
	return &after, nil
}

// fit reports whether a broker may lead a partition and be in its ISR: it lives, and so does the log directory.
func (v *view) fit(p *metadata.Partition, broker int32) bool {
	b := v.img.Broker(broker)
	if b == nil || !b.Eligible() {
		return false
	}
	dir := p.Directory(broker)
	return dir.IsZero() || slices.Contains(b.LogDirs, dir)
}

// elrEnabled reports whether eligible leader replicas are kept (KIP-966).
func (v *view) elrEnabled() bool { return v.img.Feature(metadata.FeatureELRVersion) > 0 }
