package config

import (
	"maps"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// layers holds the texts of broker keys by where they come from. All maps are read-only once a Config exists.
type layers struct {
	static         map[string]string // file, environment, overrides
	dynamicDefault map[string]string // cluster-wide dynamic configs
	dynamic        map[string]string // dynamic configs of this broker
	// defaults replaces defaults of the key table: what kbroker chooses where Kafka demands a value.
	defaults map[string]string
}

// defaultOf returns the default of a broker key.
func (l *layers) defaultOf(name string) *string {
	if d, ok := l.defaults[name]; ok {
		return &d
	}
	if k := brokerKeys.byName[name]; k != nil {
		return k.Default
	}
	return nil
}

// effective returns the value in force and where it comes from; nil when nothing gives one.
func (l *layers) effective(name string) (*string, kmsg.ConfigSource) {
	for _, s := range l.sources(name) {
		return s.Value, s.Source
	}
	return nil, kmsg.ConfigSourceDefaultConfig
}

// sources returns every value that is given for a broker key, strongest first.
func (l *layers) sources(name string) []Synonym {
	var all []Synonym
	add := func(m map[string]string, s kmsg.ConfigSource) {
		if v, ok := m[name]; ok {
			all = append(all, Synonym{Name: name, Value: &v, Source: s})
		}
	}
	add(l.dynamic, kmsg.ConfigSourceDynamicBrokerConfig)
	add(l.dynamicDefault, kmsg.ConfigSourceDynamicDefaultBrokerConfig)
	add(l.static, kmsg.ConfigSourceStaticBrokerConfig)
	if d := l.defaultOf(name); d != nil {
		all = append(all, Synonym{Name: name, Value: d, Source: kmsg.ConfigSourceDefaultConfig})
	}
	return all
}

func (l *layers) clone() layers {
	return layers{
		static: maps.Clone(l.static), dynamicDefault: maps.Clone(l.dynamicDefault),
		dynamic: maps.Clone(l.dynamic), defaults: maps.Clone(l.defaults),
	}
}
