package config

import (
	"maps"
	"slices"
	"strings"
)

// build turns the gathered texts into a Config; what is wrong goes to l.problems.
func (l *loader) build() *Config {
	c := &Config{}
	l.linkIDs()
	l.checkValues()
	l.chooseDefaults()
	c.layers = l.layers
	if err := setFields(c, brokerKeys, c.value); err != nil {
		l.problem("", err.Error(), "")
		return nil
	}
	l.buildNode(c)
	l.checkRules(c)
	if len(l.problems) > 0 {
		return nil
	}
	t, err := c.buildTopic(nil)
	if err != nil {
		l.problem("", err.Error(), "")
		return nil
	}
	c.topic = t
	return c
}

// value returns the parsed effective value of a broker key.
func (c *Config) value(name string) (value, error) {
	text, _ := c.layers.effective(name)
	return parseValue(brokerKeys.byName[name], text)
}

// Value returns the text in force for a broker key, nil for null or for a name that nobody gave. Sensitive values come
// in clear: this is for the component that uses the key, not for answers.
func (c *Config) Value(name string) *string {
	text, _ := c.layers.effective(name)
	return text
}

// ListenerValue returns the value of a key for one listener: listener.name.NAME.KEY when that is given, else KEY.
func (c *Config) ListenerValue(listener, key string) *string {
	if v := c.Value(listenerPrefix + strings.ToLower(listener) + "." + key); v != nil {
		return v
	}
	return c.Value(key)
}

// checkValues reports every static value that does not parse or is not allowed, and takes it away: the rules between keys
// are then checked with the default in its place, so that all that is wrong comes out at once.
func (l *loader) checkValues() {
	l.bad = map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(l.layers.static)) {
		k := lookupBrokerKey(name)
		if k == nil {
			continue
		}
		text := l.layers.static[name]
		if _, err := parseValue(k, &text); err != nil {
			l.problem(name, strings.ReplaceAll(err.Error(), "configuration "+k.Name, "configuration "+name), k.Allowed())
			delete(l.layers.static, name)
			l.bad[name] = true
		}
	}
}

// linkIDs makes node.id and broker.id the same thing, as Kafka does.
func (l *loader) linkIDs() {
	node, hasNode := l.layers.static["node.id"]
	broker, hasBroker := l.layers.static["broker.id"]
	switch {
	case hasNode && hasBroker && strings.TrimSpace(node) != strings.TrimSpace(broker):
		l.problem("node.id", "`node.id` and `broker.id` must be set to the same value. `broker.id` is deprecated, please use"+
			" `node.id` instead.", "")
	case hasNode:
		l.set("broker.id", node, l.where["node.id"])
	case hasBroker:
		l.set("node.id", broker, l.where["broker.id"])
	}
}

const (
	// localListener is opened when nothing is configured, openListener when somebody configured anything but listeners.
	localListener = "PLAINTEXT://localhost:9092"
	openListener  = "PLAINTEXT://:9092"
	// defaultController is the listener of a controller that nobody named.
	defaultController = "CONTROLLER"
)

// chosenDefaults is what kbroker chooses where Kafka demands a value or means all addresses.
var chosenDefaults = map[string]string{
	"process.roles": "broker,controller", "node.id": "1", "broker.id": "1", "listeners": localListener,
	"controller.listener.names": defaultController,
}

// chooseDefaults fills in roles, id and listeners. Without any configuration the node listens on this machine only; once
// somebody configures it, it opens all addresses as Kafka does.
func (l *loader) chooseDefaults() {
	if l.layers.defaults != nil {
		return // WithDynamic starts from what Load chose
	}
	given := func(key string) bool { _, ok := l.layers.static[key]; return ok }
	d := maps.Clone(chosenDefaults)
	maps.DeleteFunc(d, func(key, _ string) bool { return given(key) })
	if !given("listeners") && l.outside {
		d["listeners"] = openListener
	}
	if !given("node.id") && !l.bad["node.id"] && (given("controller.quorum.voters") || given("controller.quorum.bootstrap.servers")) {
		l.problem("node.id", "must be set on a node of a larger cluster", "0 or greater, unique in the cluster")
	}
	l.layers.defaults = d
}
