package config

import (
	"maps"
	"slices"

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
	for _, s := range l.given() {
		if v, ok := s.values[name]; ok {
			return &v, s.source
		}
	}
	return l.defaultOf(name), kmsg.ConfigSourceDefaultConfig
}

type layer struct {
	values map[string]string
	source kmsg.ConfigSource
}

// given returns the layers above the defaults, strongest first.
func (l *layers) given() [3]layer {
	return [...]layer{
		{l.dynamic, kmsg.ConfigSourceDynamicBrokerConfig},
		{l.dynamicDefault, kmsg.ConfigSourceDynamicDefaultBrokerConfig},
		{l.static, kmsg.ConfigSourceStaticBrokerConfig},
	}
}

// synonyms returns every value given for a broker key and for the keys that stand in for it, layer by layer and in a
// layer the stronger key first. As in Kafka, what stands before the key's own first value is left out: a key without a
// value has no synonyms, though another one decides.
func (l *layers) synonyms(name string) []Synonym {
	names := standIns(name)
	var all []Synonym
	for _, s := range l.given() {
		for _, n := range names {
			if v, ok := s.values[n]; ok {
				all = append(all, Synonym{Name: n, Value: &v, Source: s.source})
			}
		}
	}
	for _, n := range names {
		if d := l.defaultOf(n); d != nil {
			all = append(all, Synonym{Name: n, Value: d, Source: kmsg.ConfigSourceDefaultConfig})
		}
	}
	own := slices.IndexFunc(all, func(s Synonym) bool { return s.Name == name })
	if own < 0 {
		return nil
	}
	return all[own:]
}

// standInGroups are keys of one meaning in several units, the strongest first.
var standInGroups = [...][]string{
	{"log.retention.ms", "log.retention.minutes", "log.retention.hours"},
	{"log.roll.ms", "log.roll.hours"},
	{"log.roll.jitter.ms", "log.roll.jitter.hours"},
	{"log.flush.interval.ms", "log.flush.scheduler.interval.ms"},
}

// standIns returns the keys that can give a broker key its value, itself included, strongest first.
func standIns(name string) []string {
	for _, g := range standInGroups {
		if slices.Contains(g, name) && name != "log.flush.scheduler.interval.ms" {
			return g
		}
	}
	if k := lookupBrokerKey(name); k != nil && k.Name != name {
		return []string{name, k.Name} // listener.name.NAME.KEY falls back to KEY
	}
	return []string{name}
}

func (l *layers) clone() layers {
	return layers{
		static: maps.Clone(l.static), dynamicDefault: maps.Clone(l.dynamicDefault),
		dynamic: maps.Clone(l.dynamic), defaults: maps.Clone(l.defaults),
	}
}
