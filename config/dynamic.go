package config

import (
	"maps"
	"slices"
)

// WithDynamic returns the configuration with dynamic configs laid over it: defaults hold for all brokers, own for this
// one. They replace those that c was made with. Names and values that cannot be used are left out and returned as
// problems, so that a bad entry never takes a broker down.
func (c *Config) WithDynamic(defaults, own map[string]string) (*Config, []Problem) {
	l := &loader{layers: c.layers.clone(), where: map[string]string{}, env: map[string]string{"CLUSTER_ID": c.Node.ClusterID}}
	for name := range c.layers.static {
		l.where[name] = "static"
	}
	var left []Problem
	pick := func(m map[string]string, level Dynamic, where string) map[string]string {
		out := map[string]string{}
		for _, name := range slices.Sorted(maps.Keys(m)) {
			if err := checkDynamic(name, m[name], level); err != nil {
				left = append(left, Problem{Key: name, Where: where, Reason: err.Error()})
				continue
			}
			out[name] = m[name]
		}
		return out
	}
	l.layers.dynamicDefault = pick(defaults, ClusterWide, "dynamic, all brokers")
	l.layers.dynamic = pick(own, PerBroker, "dynamic, this broker")
	next := l.build()
	if len(l.problems) > 0 { // together they break a rule between keys
		return c, append(left, l.problems...)
	}
	return next, left
}

// checkDynamic tells whether a key may be changed at a level and takes the value.
func checkDynamic(name, text string, level Dynamic) error {
	k := lookupBrokerKey(name)
	switch {
	case k == nil:
		return nil // Kafka keeps names of plug-ins
	case k.Dynamic == ReadOnly:
		return invalidf("Cannot update these configs dynamically: Set(%s)", name)
	case k.Dynamic == PerBroker && level == ClusterWide:
		return invalidf("Cannot update these configs at default cluster level, broker id must be specified: Set(%s)", name)
	}
	_, err := parseValue(k, &text)
	return err
}

// ValidateTopic checks all overrides that a topic is to have: names, values and the rules between them, over this
// configuration's defaults.
func (c *Config) ValidateTopic(overrides map[string]string) error {
	_, err := c.Topic(overrides)
	return err
}

// ValidateBroker checks dynamic broker configs. perBroker is false for those of all brokers.
func ValidateBroker(configs map[string]string, perBroker bool) error {
	level := ClusterWide
	if perBroker {
		level = PerBroker
	}
	for _, name := range slices.Sorted(maps.Keys(configs)) {
		if err := checkDynamic(name, configs[name], level); err != nil {
			return err
		}
	}
	return nil
}

// ValidateGroup checks all overrides that a group is to have.
func (c *Config) ValidateGroup(overrides map[string]string) error {
	if err := checkNames(groupKeys, "group", overrides); err != nil {
		return err
	}
	return checkTexts(groupKeys, overrides)
}

// ValidateClientMetrics checks all values that a client metrics subscription is to have.
func ValidateClientMetrics(overrides map[string]string) error {
	if err := checkNames(clientMetricsKeys, "client metrics", overrides); err != nil {
		return err
	}
	return checkTexts(clientMetricsKeys, overrides)
}

func checkTexts(t *table, texts map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		text := texts[name]
		if _, err := parseValue(t.byName[name], &text); err != nil {
			return err
		}
	}
	return nil
}
