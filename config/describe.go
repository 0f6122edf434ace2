package config

import (
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Entry is one key of a resource as DescribeConfigs answers it.
type Entry struct {
	Name string
	// Value is nil for null and for sensitive keys.
	Value     *string
	Source    kmsg.ConfigSource
	ReadOnly  bool
	Sensitive bool
	Type      kmsg.ConfigType
	Doc       string
	// Synonyms are all values that are given for the key, strongest first, the one in force included.
	Synonyms []Synonym
}

// Synonym is one value that is given for a key.
type Synonym struct {
	Name   string
	Value  *string
	Source kmsg.ConfigSource
}

// DescribeTopic lists every key of a topic with these overrides, sorted by name.
func (c *Config) DescribeTopic(overrides map[string]string) []Entry {
	return c.describeLayered(topicKeys, overrides, kmsg.ConfigSourceDynamicTopicConfig)
}

// DescribeGroup lists every key of a group with these overrides, sorted by name.
func (c *Config) DescribeGroup(overrides map[string]string) []Entry {
	return c.describeLayered(groupKeys, overrides, kmsg.ConfigSourceGroupConfig)
}

// DescribeClientMetrics lists every key of a client metrics subscription, sorted by name.
func (c *Config) DescribeClientMetrics(overrides map[string]string) []Entry {
	return c.describeLayered(clientMetricsKeys, overrides, kmsg.ConfigSourceClientMetricsConfig)
}

// describeLayered answers for resources whose values lie over those of the broker. The source of a value that the
// broker gives is that of the strongest broker key alone, as in Kafka: log.retention.hours in a file shows in the value,
// but as a default.
func (c *Config) describeLayered(t *table, overrides map[string]string, own kmsg.ConfigSource) []Entry {
	entries := make([]Entry, 0, len(t.keys))
	for _, k := range t.keys {
		override, set := overrides[k.Name]
		if k.Hidden && !set {
			continue
		}
		var synonyms []Synonym
		if set {
			synonyms = append(synonyms, Synonym{Name: k.Name, Value: k.shown(&override), Source: own})
		}
		switch {
		case len(k.Synonyms) == 0:
		case k.Synonyms[0] == k.Name && brokerKeys.byName[k.Name] == nil: // a group key with a default of its own
			synonyms = append(synonyms, Synonym{Name: k.Name, Value: k.Default, Source: kmsg.ConfigSourceDefaultConfig})
		default:
			synonyms = append(synonyms, c.layers.synonyms(k.Synonyms[0])...)
		}
		text := c.topicDefault(k).Value
		if set {
			text = &override
		}
		entries = append(entries, k.entry(k.Name, text, synonyms))
	}
	return entries
}

// DescribeNewTopic lists what the answer to CreateTopics tells about the new topic's configuration: the overrides as
// they were written, and of the rest the values in force with their true source.
func (c *Config) DescribeNewTopic(overrides map[string]string) []Entry {
	entries := make([]Entry, 0, len(topicKeys.keys))
	for _, k := range topicKeys.keys {
		override, set := overrides[k.Name]
		if k.Hidden && !set {
			continue
		}
		s := c.topicDefault(k)
		e := k.entry(k.Name, s.Value, nil)
		e.Source = s.Source
		if set {
			e.Value, e.Source = &override, kmsg.ConfigSourceDynamicTopicConfig
		}
		entries = append(entries, e)
	}
	return entries
}

// DescribeBroker lists every key of this broker, and every other name that its file, environment or command line gave
// it, sorted by name.
func (c *Config) DescribeBroker() []Entry {
	given := map[string]bool{}
	for _, m := range []map[string]string{c.layers.static, c.layers.dynamicDefault, c.layers.dynamic} {
		for name := range m {
			given[name] = true
		}
	}
	for _, k := range brokerKeys.keys {
		given[k.Name] = given[k.Name] || !k.Hidden
	}
	maps.DeleteFunc(given, func(_ string, listed bool) bool { return !listed })
	entries := make([]Entry, 0, len(given))
	for _, name := range slices.Sorted(maps.Keys(given)) {
		entries = append(entries, c.describeBrokerKey(name))
	}
	return entries
}

func (c *Config) describeBrokerKey(name string) Entry {
	text, _ := c.layers.effective(name)
	return keyOrSecret(name).entry(name, text, c.layers.synonyms(name))
}

// DescribeBrokerDefaults lists the dynamic configs that hold for all brokers, sorted by name. Nothing else is known
// about "all brokers".
func DescribeBrokerDefaults(dynamic map[string]string) []Entry {
	entries := make([]Entry, 0, len(dynamic))
	for _, name := range slices.Sorted(maps.Keys(dynamic)) {
		text := dynamic[name]
		entries = append(entries, keyOrSecret(name).entry(name, &text,
			[]Synonym{{Name: name, Value: &text, Source: kmsg.ConfigSourceDynamicDefaultBrokerConfig}}))
	}
	return entries
}

// keyOrSecret returns the key of that name. What nobody knows may hold a secret, so it is treated as one.
func keyOrSecret(name string) *Key {
	if k := lookupBrokerKey(name); k != nil {
		return k
	}
	return &Key{Name: name, Type: kmsg.ConfigTypeUnknown}
}

// entry makes the answer for one key. The synonyms' values must be fit to show, except those of secrets.
func (k *Key) entry(name string, text *string, synonyms []Synonym) Entry {
	e := Entry{
		Name: name, Value: k.shown(text), Source: kmsg.ConfigSourceDefaultConfig, Type: k.Type, Doc: k.Doc,
		ReadOnly: k.Dynamic == ReadOnly || name != k.Name, Sensitive: k.hides(), Synonyms: synonyms,
	}
	if len(synonyms) > 0 {
		e.Source = synonyms[0].Source
	}
	if e.Sensitive {
		for i := range e.Synonyms {
			e.Synonyms[i].Value = nil
		}
	}
	return e
}

func (k *Key) hides() bool { return k.Sensitive() || k.Type == kmsg.ConfigTypeUnknown }

// shown returns what a client may see of a value: nothing of a secret, else the canonical text.
func (k *Key) shown(text *string) *string {
	if k.hides() {
		return nil
	}
	v, err := parseType(k, text)
	if err != nil {
		return text
	}
	if _, ok := k.valid.(listOf); ok {
		v.list = withoutRepeats(v.list)
	}
	return v.canonical(k.Type)
}
