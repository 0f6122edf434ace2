package api

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/internal/groupcoord"
	"github.com/kbroker/kbroker/internal/metadata"
)

// member returns the requester as the group coordinator knows it. The host has Kafka's form, with a slash in front.
func (r *Request) member() groupcoord.Client {
	c := groupcoord.Client{Host: "/" + r.Peer.Host}
	if r.ClientID != nil {
		c.ID = *r.ClientID
	}
	return c
}

// namedTopic is a topic of a request about offsets: by name in older versions, by id in newer ones.
type namedTopic struct {
	name string
	id   [16]byte
}

// resolve finds the name of a topic that is named by id, and what stands against using it.
func (s *Service) resolve(r *Request, img *metadata.Image, op kmsg.ACLOperation, t namedTopic, byID bool) (string, error) {
	name := t.name
	if byID {
		topic := img.TopicByID(t.id)
		if topic == nil {
			return "", kerr.UnknownTopicID
		}
		name = topic.Name
	}
	if !s.mayTopic(r, op, name) {
		return name, kerr.TopicAuthorizationFailed
	}
	return name, nil
}
