package config

import (
	"maps"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
)

// WithDynamic returns the configuration with dynamic configs laid over it: defaults hold for all brokers, own for this
// one. They replace those that c was made with. Values that cannot be used are left out and returned as problems, and
// when the rest breaks a rule between keys it is left out as a whole, so that a bad entry in the metadata never takes a
// broker down.
func (c *Config) WithDynamic(defaults, own map[string]string) (*Config, []Problem) {
	var left []Problem
	pick := func(m map[string]string, perBroker bool, where string) map[string]string {
		out := map[string]string{}
		for _, name := range slices.Sorted(maps.Keys(m)) {
			one := map[string]string{name: m[name]}
			if err := checkDynamic(one, perBroker); err != nil {
				left = append(left, Problem{Key: name, Where: where, Reason: err.Error()})
				continue
			}
			out[name] = m[name]
		}
		return out
	}
	defaults = pick(defaults, false, "dynamic, all brokers")
	own = pick(own, true, "dynamic, this broker")
	next, problems := c.relay(defaults, own)
	if next == nil {
		return c, append(left, problems...)
	}
	return next, left
}

// relay builds the configuration anew with other dynamic layers; nil when that breaks a rule.
func (c *Config) relay(defaults, own map[string]string) (*Config, Problems) {
	l := &loader{
		layers: c.layers.clone(), where: map[string]string{},
		env: map[string]string{clusterIDVariable: c.Node.ClusterID},
	}
	l.layers.dynamicDefault, l.layers.dynamic = defaults, own
	for _, s := range l.layers.given() {
		for name := range s.values {
			l.where[name] = s.source.String()
		}
	}
	next := l.build()
	if len(l.problems) > 0 {
		return nil, l.problems
	}
	return next, nil
}

// ValidateBroker checks all dynamic configs that this broker (perBroker) or all brokers are to have: that they may be
// changed at that level, their values, and the rules between keys with this broker's own configuration. The error is
// an InvalidError with kerr.InvalidRequest, as Kafka answers. Names that nobody knows pass: Kafka keeps them for plug-ins.
func (c *Config) ValidateBroker(configs map[string]string, perBroker bool) error {
	if err := checkDynamic(configs, perBroker); err != nil {
		return err
	}
	defaults, own := c.layers.dynamicDefault, c.layers.dynamic
	if perBroker {
		own = configs
	} else {
		defaults = configs
	}
	_, problems := c.relay(defaults, own)
	if len(problems) == 0 {
		return nil
	}
	text := problems[0].Reason
	if problems[0].required {
		text = "requirement failed: " + text
	}
	return &InvalidError{Message: text, Code: kerr.InvalidRequest}
}

// checkDynamic tells whether every key may be changed at a level and takes its value.
func checkDynamic(configs map[string]string, perBroker bool) error {
	var fixed, single, bare []string
	names := slices.Sorted(maps.Keys(configs))
	for _, name := range names {
		k := lookupBrokerKey(name)
		switch {
		case k == nil:
		case k.Dynamic == ReadOnly:
			fixed = append(fixed, name)
		case k.Dynamic == PerBroker && !perBroker && !needsPrefix(name):
			single = append(single, name)
		case needsPrefix(name):
			bare = append(bare, name)
		}
	}
	refuse := func(why string, names []string) error {
		return &InvalidError{Message: why + "[" + strings.Join(names, ", ") + "]", Code: kerr.InvalidRequest}
	}
	switch {
	case len(fixed) > 0:
		return refuse("Cannot update these configs dynamically: ", fixed)
	case len(bare) > 0:
		return refuse("These security configs can be dynamically updated only per-listener using the listener prefix: ", bare)
	}
	for _, name := range names {
		k, text := lookupBrokerKey(name), configs[name]
		if k == nil {
			continue
		}
		if _, err := parseValue(k, &text); err != nil {
			return &InvalidError{Message: err.Error(), Code: kerr.InvalidRequest}
		}
	}
	if len(single) > 0 {
		return refuse("Cannot update these configs at default cluster level, broker id must be specified: ", single)
	}
	return nil
}

// needsPrefix recognises the TLS keys that can change while the broker runs only for one listener by name: changing
// them for all would cut off whoever uses another certificate.
func needsPrefix(name string) bool {
	return strings.HasPrefix(name, "ssl.keystore.") || strings.HasPrefix(name, "ssl.truststore.") || name == "ssl.key.password"
}

// ValidateTopic checks all overrides that a topic is to have: names, values and the rules between them, over this
// configuration's defaults. The error is an InvalidError with Kafka's text.
func (c *Config) ValidateTopic(overrides map[string]string) error {
	if err := checkNames(topicKeys, "topic", overrides); err != nil {
		return err
	}
	if err := checkTexts(topicKeys, overrides); err != nil {
		return err
	}
	_, err := c.Topic(overrides)
	return err
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
