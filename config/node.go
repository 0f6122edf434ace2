package config

import (
	"maps"
	"os"
	"slices"
	"strings"
)

// buildNode fills c.Node from the keys that need more than a conversion.
func (l *loader) buildNode(c *Config) {
	n := &c.Node
	roles := c.list("process.roles")
	n.Broker, n.Controller = slices.Contains(roles, "broker"), slices.Contains(roles, "controller")
	n.ControllerListeners = upper(c.list("controller.listener.names"))
	n.ClusterID = l.env["CLUSTER_ID"]
	n.LogDirs = c.list("log.dirs")
	if len(n.LogDirs) == 0 {
		n.LogDirs = c.list("log.dir")
	}
	n.MetadataLogDir = n.LogDirs[0]
	if d := c.Value("metadata.log.dir"); d != nil {
		n.MetadataLogDir = strings.TrimSpace(*d)
	}
	n.Voters, _ = parseVoters("controller.quorum.voters", c.list("controller.quorum.voters")) // checked with all values
	n.BootstrapServers = c.list("controller.quorum.bootstrap.servers")
	n.Standalone = n.Broker && n.Controller && len(n.Voters) == 0 && len(n.BootstrapServers) == 0
	l.buildListeners(c)
	l.buildPerIP(c)
}

// list returns the elements of a LIST key, which checkValues has accepted.
func (c *Config) list(name string) []string {
	v, _ := c.value(name) // checked with all values
	return v.list
}

func upper(names []string) []string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = strings.ToUpper(n)
	}
	return out
}

// buildListeners reads the sockets to open, gives the controller of a standalone node one of its own when it has none,
// and works out what is advertised.
func (l *loader) buildListeners(c *Config) {
	n := &c.Node
	protocols := l.protocolMap(c)
	n.Listeners = l.readListeners(c, "listeners", protocols)
	controller := func(name string) bool { return slices.Contains(n.ControllerListeners, name) }
	if n.Standalone && !slices.ContainsFunc(n.Listeners, func(x Listener) bool { return controller(x.Name) }) &&
		l.where["controller.listener.names"] == "" {
		n.Listeners = append(n.Listeners, Listener{Name: defaultController, Host: "localhost", SecurityProtocol: Plaintext})
	}
	n.InterBroker = l.interBroker(c)
	if c.Value("advertised.listeners") == nil {
		for _, x := range n.Listeners {
			if !controller(x.Name) {
				n.Advertised = append(n.Advertised, x)
			}
		}
	}
	for _, x := range l.readListeners(c, "advertised.listeners", protocols) {
		if controller(x.Name) {
			n.AdvertisedControllers = append(n.AdvertisedControllers, x)
		} else {
			n.Advertised = append(n.Advertised, x)
		}
	}
	for i := range n.Advertised {
		if n.Advertised[i].Host == "" {
			n.Advertised[i].Host = ownHostName()
		}
	}
}

// ownHostName is what a listener without a host advertises.
func ownHostName() string {
	if h, err := os.Hostname(); err == nil && h != "" {
		return h
	}
	return "localhost"
}

func (l *loader) readListeners(c *Config, key string, protocols map[string]string) []Listener {
	var all []Listener
	for _, e := range c.list(key) {
		x, err := parseListener(e)
		if err != nil {
			l.problem(key, "Error creating broker listeners from '"+*c.Value(key)+"': "+err.Error(), "NAME://host:port, ...")
			continue
		}
		proto, ok := protocols[x.Name]
		if !ok {
			l.problemf(key, "No security protocol defined for listener %s", x.Name)
			continue
		}
		x.SecurityProtocol = proto
		all = append(all, x)
	}
	return all
}

// protocolMap reads listener.security.protocol.map. When nobody sets it, the names of controller listeners mean
// PLAINTEXT as long as no other listener is encrypted or authenticated.
func (l *loader) protocolMap(c *Config) map[string]string {
	const key = "listener.security.protocol.map"
	m := map[string]string{}
	for _, e := range splitList(strings.TrimSpace(*c.Value(key))) {
		name, proto, ok := strings.Cut(e, ":")
		name, proto = strings.ToUpper(strings.TrimSpace(name)), strings.ToUpper(strings.TrimSpace(proto))
		switch {
		case !ok || name == "":
			l.problem(key, "entry '"+e+"' is not of the form NAME:PROTOCOL", "")
		case !slices.Contains([]string{Plaintext, SSL, SASLPlaintext, SASLSSL}, proto):
			l.problem(key, "No enum constant "+proto, "PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL")
		case m[name] != "":
			l.problemf(key, "listener name %s stands twice", name)
		default:
			m[name] = proto
		}
	}
	if l.where[key] == "" {
		for _, name := range c.Node.ControllerListeners {
			if _, ok := m[name]; !ok {
				m[name] = Plaintext
			}
		}
	}
	return m
}

func (l *loader) interBroker(c *Config) string {
	name := c.Value("inter.broker.listener.name")
	if name == nil {
		return strings.ToUpper(strings.TrimSpace(*c.Value("security.inter.broker.protocol")))
	}
	if l.where["security.inter.broker.protocol"] != "" {
		l.problemf("inter.broker.listener.name",
			"Only one of inter.broker.listener.name and security.inter.broker.protocol should be set.")
	}
	return strings.ToUpper(strings.TrimSpace(*name))
}

// buildPerIP reads max.connections.per.ip.overrides: host:count, ...
func (l *loader) buildPerIP(c *Config) {
	const key = "max.connections.per.ip.overrides"
	c.Sockets.MaxPerIPOverrides = map[string]int32{}
	text := c.Value(key)
	if text == nil {
		return
	}
	for _, e := range splitList(strings.TrimSpace(*text)) {
		at := strings.LastIndexByte(e, ':')
		if at <= 0 {
			l.problem(key, "entry '"+e+"' is not of the form host:count", "")
			continue
		}
		k := &Key{Name: key, Type: brokerKeys.byName["max.connections.per.ip"].Type}
		v, err := parseInt(k, strings.TrimSpace(e[at+1:]), 32, "INT")
		if err != nil || v.num < 0 {
			l.problem(key, "entry '"+e+"' has no count of 0 or more", "")
			continue
		}
		c.Sockets.MaxPerIPOverrides[strings.Trim(strings.TrimSpace(e[:at]), "[]")] = int32(v.num)
	}
}

// names lists the names of listeners, sorted.
func names(ls []Listener) []string {
	set := map[string]bool{}
	for _, x := range ls {
		set[x.Name] = true
	}
	return slices.Sorted(maps.Keys(set))
}
