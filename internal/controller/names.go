package controller

import (
	"strings"

	"github.com/kbroker/kbroker/internal/metadata"
	"github.com/twmb/franz-go/pkg/kerr"
)

// maxTopicName keeps topic-partition within the 255 bytes of a folder's name.
const maxTopicName = 249

// checkTopicName returns a refusal with Kafka's text unless a topic may have that name.
func checkTopicName(name string) error {
	why := ""
	switch {
	case name == "":
		why = "the empty string is not allowed"
	case name == "." || name == "..":
		why = "'" + name + "' is not allowed"
	case len(name) > maxTopicName:
		why = "the length of '" + name + "' is longer than the max allowed length 249"
	case strings.ContainsFunc(name, func(r rune) bool { return !legalInTopic(r) }):
		why = "'" + name + "' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
	default:
		return nil
	}
	return refuse(kerr.InvalidTopicException, "Topic name is invalid: %s", why)
}

func legalInTopic(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '.' || r == '_' || r == '-'
}

// collisions finds topics whose names differ only in '.' and '_': as names of metrics these are the same. It looks at the
// image once, and only when somebody asks.
type collisions struct {
	img *metadata.Image
	// byForm maps the name with '_' in place of '.' to a topic that has it.
	byForm map[string]string
}

// with returns an existing topic that collides with name, empty when there is none.
func (c *collisions) with(name string) string {
	if !strings.ContainsAny(name, "._") {
		return ""
	}
	if c.byForm == nil {
		c.byForm = map[string]string{}
		for t := range c.img.AllTopics() {
			if strings.ContainsAny(t.Name, "._") {
				c.byForm[collidingForm(t.Name)] = t.Name
			}
		}
	}
	if other := c.byForm[collidingForm(name)]; other != name {
		return other
	}
	return ""
}

func collidingForm(name string) string { return strings.ReplaceAll(name, ".", "_") }
