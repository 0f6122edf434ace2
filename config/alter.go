package config

import (
	"maps"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Op is one change of a key, as IncrementalAlterConfigs carries it. The whole-replacing AlterConfigs is a list of
// sets over an empty current map.
type Op struct {
	Name  string
	Op    kmsg.IncrementalAlterConfigOp
	Value *string
}

// Alter returns what the overrides of a resource are after the changes. It does not check the result: ValidateTopic,
// ValidateBroker, ValidateGroup and ValidateClientMetrics do. The error is an InvalidError with Kafka's text. current is
// not changed.
func (c *Config) Alter(r kmsg.ConfigResourceType, current map[string]string, ops []Op) (map[string]string, error) {
	if err := checkOps(ops); err != nil {
		return nil, err
	}
	next := maps.Clone(current)
	if next == nil {
		next = map[string]string{}
	}
	for _, op := range ops {
		switch op.Op {
		case kmsg.IncrementalAlterConfigOpSet:
			next[op.Name] = *op.Value
		case kmsg.IncrementalAlterConfigOpDelete:
			delete(next, op.Name)
		case kmsg.IncrementalAlterConfigOpAppend, kmsg.IncrementalAlterConfigOpSubtract:
			list, err := c.alterList(r, current, op)
			if err != nil {
				return nil, err
			}
			next[op.Name] = list
		default:
			return nil, &InvalidError{Message: "Unknown config operation for key " + op.Name, Code: kerr.InvalidRequest}
		}
	}
	return next, nil
}

func checkOps(ops []Op) error {
	seen := map[string]bool{}
	var nulls []string
	for _, op := range ops {
		if seen[op.Name] {
			return &InvalidError{Message: "Error due to duplicate config keys", Code: kerr.InvalidRequest}
		}
		seen[op.Name] = true
		if op.Value == nil && op.Op != kmsg.IncrementalAlterConfigOpDelete {
			nulls = append(nulls, op.Name)
		}
	}
	if len(nulls) > 0 {
		return &InvalidError{Message: "Null value not supported for : " + strings.Join(nulls, ","), Code: kerr.InvalidRequest}
	}
	return nil
}

// alterList appends elements that are not there yet, or removes those that are. A key without a value of its own starts
// from its default.
func (c *Config) alterList(r kmsg.ConfigResourceType, current map[string]string, op Op) (string, error) {
	k := LookupKey(r, op.Name)
	if r == ResourceBroker {
		k = lookupBrokerKey(op.Name)
	}
	word := op.Op.String()
	if k == nil || k.Type != kmsg.ConfigTypeList || r == ResourceClientMetrics {
		if r == ResourceBroker && k != nil {
			return "", invalidf("Config value %s is not allowed for config key: %s", strings.ToLower(word), op.Name)
		}
		return "", invalidf("Can't %s to key %s because its type is not LIST.", word, op.Name)
	}
	text, set := current[op.Name]
	if !set {
		text = orEmpty(c.topicDefault(k).Value)
	}
	list := splitList(text)
	for _, e := range strings.Split(*op.Value, ",") {
		e = strings.TrimSpace(e)
		has := slices.Contains(list, e)
		switch {
		case op.Op == kmsg.IncrementalAlterConfigOpAppend && !has:
			list = append(list, e)
		case op.Op == kmsg.IncrementalAlterConfigOpSubtract && has:
			list = slices.DeleteFunc(list, func(x string) bool { return x == e })
		}
	}
	return strings.Join(list, ","), nil
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// NullTopicConfig is the error for a config without a value in CreateTopics.
func NullTopicConfig(name string) error {
	return invalidf("Null value not supported for topic configs: %s", name)
}
