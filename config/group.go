package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
)

// ValidateGroup checks all overrides that a group is to have against this broker's bounds. The error is an InvalidError
// with Kafka's text.
func (c *Config) ValidateGroup(overrides map[string]string) error {
	if err := checkNames(groupKeys, "group", overrides); err != nil {
		return err
	}
	if err := checkTexts(groupKeys, overrides); err != nil {
		return err
	}
	for _, b := range groupBounds {
		key := b.kind + "." + b.name
		n, set := groupNum(key, overrides)
		low, high := boundKeys(b.kind, b.name)
		if set && (n < c.num(low) || n > c.num(high)) {
			return invalidf("%s must be in the range %d to %d inclusive.", key, c.num(low), c.num(high))
		}
	}
	for _, b := range []struct{ key, low, high string }{
		{key: "streams.num.standby.replicas", high: "group.streams.max.standby.replicas"},
		{key: "streams.num.warmup.replicas", high: "group.streams.max.warmup.replicas"},
		{key: "streams.task.offset.interval.ms", low: "group.streams.min.task.offset.interval.ms"},
	} {
		n, set := groupNum(b.key, overrides)
		switch {
		case !set:
		case b.high != "" && n > c.num(b.high):
			return invalidf("%s must be less than or equal to %d", b.key, c.num(b.high))
		case b.low != "" && n < c.num(b.low):
			return invalidf("%s must be greater than or equal to %d", b.key, c.num(b.low))
		}
	}
	return c.checkGroupTexts(overrides)
}

func groupNum(key string, overrides map[string]string) (int64, bool) {
	text, set := overrides[key]
	v, _ := parseType(groupKeys.byName[key], &text) // checkTexts has accepted it
	return v.num, set
}

func (c *Config) checkGroupTexts(overrides map[string]string) error {
	if a, ok := overrides["streams.assignor.name"]; ok {
		if known := c.list("group.streams.assignors"); !slices.Contains(known, strings.TrimSpace(a)) {
			return invalidf("streams.assignor.name '%s' is not a registered task assignor. Registered assignors are: [%s].",
				strings.TrimSpace(a), strings.Join(known, ", "))
		}
	}
	if strings.HasPrefix(strings.TrimSpace(overrides["errors.deadletterqueue.topic.name"]), "__") {
		return invalidf("errors.deadletterqueue.topic.name: DLQ topic name must not start with '__'")
	}
	tags := splitList(overrides["streams.rack.aware.assignment.tags"])
	if len(withoutRepeats(tags)) < len(tags) {
		return invalidf("streams.rack.aware.assignment.tags must not contain duplicate tag keys.")
	}
	return nil
}

// Bounds of interval.ms of a client metrics subscription, which stand in no ConfigDef of Kafka's.
const (
	minPushIntervalMs = 100
	maxPushIntervalMs = 3600000
)

// matchNames are the client properties that a subscription can select by.
var matchNames = []string{
	"client_instance_id", "client_id", "client_software_name", "client_software_version", "client_source_address",
	"client_source_port",
}

// ValidateClientMetrics checks all values that a client metrics subscription is to have. The error is an InvalidError
// with Kafka's text.
func ValidateClientMetrics(overrides map[string]string) error {
	for _, name := range sortedKeys(overrides) {
		if clientMetricsKeys.byName[name] == nil {
			return &InvalidError{Message: "Unknown client metrics configuration: " + name, Code: kerr.InvalidRequest}
		}
	}
	if err := checkTexts(clientMetricsKeys, overrides); err != nil {
		return err
	}
	if text, ok := overrides["interval.ms"]; ok {
		v, _ := parseType(clientMetricsKeys.byName["interval.ms"], &text) // checkTexts has accepted it
		if v.num < minPushIntervalMs || v.num > maxPushIntervalMs {
			return &InvalidError{Code: kerr.InvalidRequest, Message: fmt.Sprintf(
				"Invalid value %d for interval.ms, interval must be between 100 and 3600000 (1 hour)", v.num)}
		}
	}
	for _, e := range splitList(overrides["match"]) {
		name, pattern, _ := strings.Cut(e, "=")
		pattern = strings.TrimSpace(pattern)
		_, err := regexp.Compile(pattern)
		if err != nil || pattern == "" || strings.Contains(pattern, "=") || !slices.Contains(matchNames, strings.TrimSpace(name)) {
			return invalidf("Illegal client matching pattern: %s", e)
		}
	}
	return nil
}
