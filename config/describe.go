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

// describeLayered answers for resources whose values lie over those of the broker.
func (c *Config) describeLayered(t *table, overrides map[string]string, own kmsg.ConfigSource) []Entry {
	entries := make([]Entry, 0, len(t.keys))
	for _, k := range t.keys {
		override, set := overrides[k.Name]
		if k.Hidden && !set {
			continue
		}
		inForce := c.topicDefault(k)
		e := k.entry(inForce.Value, inForce.Source)
		if set {
			e = k.entry(&override, own)
			e.addSynonym(k, Synonym{Name: k.Name, Value: &override, Source: own})
		}
		if len(k.Synonyms) > 0 {
			for _, s := range c.layers.sources(k.Synonyms[0]) {
				e.addSynonym(k, s)
			}
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
	k := lookupBrokerKey(name)
	if k == nil {
		// Nobody knows what it holds, so it is treated as a secret.
		k = &Key{Type: kmsg.ConfigTypeUnknown}
	}
	text, source := c.layers.effective(name)
	e := k.entry(text, source)
	e.Name = name
	for _, s := range c.layers.sources(name) {
		e.addSynonym(k, s)
	}
	return e
}

// DescribeBrokerDefaults lists the dynamic configs that hold for all brokers, sorted by name. Nothing else is known
// about "all brokers".
func DescribeBrokerDefaults(dynamic map[string]string) []Entry {
	entries := make([]Entry, 0, len(dynamic))
	for _, name := range slices.Sorted(maps.Keys(dynamic)) {
		k := lookupBrokerKey(name)
		if k == nil {
			k = &Key{Type: kmsg.ConfigTypeUnknown}
		}
		text := dynamic[name]
		e := k.entry(&text, kmsg.ConfigSourceDynamicDefaultBrokerConfig)
		e.Name = name
		e.addSynonym(k, Synonym{Name: name, Value: &text, Source: kmsg.ConfigSourceDynamicDefaultBrokerConfig})
		entries = append(entries, e)
	}
	return entries
}

// entry makes the answer for one key without its synonyms.
func (k *Key) entry(text *string, source kmsg.ConfigSource) Entry {
	e := Entry{
		Name: k.Name, Source: source, Type: k.Type, Doc: k.Doc,
		ReadOnly: k.Dynamic == ReadOnly, Sensitive: k.hides(),
	}
	e.Value = k.shown(text)
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
	return v.canonical(k.Type)
}

func (e *Entry) addSynonym(k *Key, s Synonym) {
	s.Value = k.shown(s.Value)
	e.Synonyms = append(e.Synonyms, s)
}
