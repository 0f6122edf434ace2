package config

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
)

// buildListeners reads the sockets to open, gives the controller of a node alone one of its own when it has none, and
// works out what is advertised.
func (l *loader) buildListeners(c *Config, alone bool) {
	n := &c.Node
	protocols := l.protocolMap(c)
	n.Listeners = l.readListeners(c, "listeners", protocols)
	if alone && l.where["controller.listener.names"] == "" && !slices.ContainsFunc(n.Listeners, n.isController) {
		n.Listeners = append(n.Listeners, Listener{Name: defaultController, Host: "localhost", SecurityProtocol: Plaintext})
	}
	n.InterBroker = l.interBroker(c, protocols)
	if c.Value("advertised.listeners") == nil {
		for _, x := range n.Listeners {
			if !n.isController(x) {
				n.Advertised = append(n.Advertised, x)
			}
		}
	}
	for _, x := range l.readListeners(c, "advertised.listeners", protocols) {
		if n.isController(x) {
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

func (n *Node) isController(x Listener) bool { return slices.Contains(n.ControllerListeners, x.Name) }

// ownHostName is what a listener without a host advertises.
func ownHostName() string {
	if h, err := os.Hostname(); err == nil && h != "" {
		return h
	}
	return "localhost"
}

func (l *loader) readListeners(c *Config, key string, protocols map[string]string) []Listener {
	list := c.list(key)
	all := make([]Listener, 0, len(list))
	for _, e := range list {
		x, err := parseListener(e)
		if err != nil {
			l.problem(key, "Unable to parse "+e+" to a broker endpoint: "+err.Error(), "NAME://host:port, ...")
			continue
		}
		proto, ok := protocols[x.Name]
		if !ok {
			l.problem(key, "No security protocol defined for listener "+x.Name, "names of listener.security.protocol.map")
			continue
		}
		x.SecurityProtocol = proto
		if slices.ContainsFunc(all, func(y Listener) bool { return y.Name == x.Name }) {
			l.problem(key, "Each listener must have a different name, listeners: ["+strings.Join(list, ", ")+"]", "")
			continue
		}
		all = append(all, x)
	}
	if key == "listeners" && portsCollide(all) {
		l.problem(key, "Each listener must have a different port unless exactly one listener has an IPv4 address and the other"+
			" IPv6 address, listeners: ["+strings.Join(list, ", ")+"]", "")
	}
	return all
}

// portsCollide finds two listeners of one port. A pair of an IPv4 and an IPv6 address may share it.
func portsCollide(ls []Listener) bool {
	family := func(x Listener) int {
		a, err := netip.ParseAddr(x.Host)
		switch {
		case err != nil:
			return 0
		case a.Is4():
			return 4
		}
		return 6
	}
	for i, a := range ls {
		for _, b := range ls[:i] {
			if a.Port == b.Port && a.Port != 0 && family(a)+family(b) != 10 {
				return true
			}
		}
	}
	return false
}

// protocolMap reads listener.security.protocol.map. When nobody sets it, the names of controller listeners mean
// PLAINTEXT as long as no other listener is encrypted or authenticated.
func (l *loader) protocolMap(c *Config) map[string]string {
	const key = "listener.security.protocol.map"
	m := map[string]string{}
	for _, e := range splitList(strings.TrimSpace(orEmpty(c.Value(key)))) {
		colon := strings.LastIndexByte(e, ':')
		if colon < 1 {
			l.problem(key, "entry '"+e+"' is not of the form NAME:PROTOCOL", "")
			continue
		}
		name, proto := strings.ToUpper(strings.TrimSpace(e[:colon])), strings.ToUpper(strings.TrimSpace(e[colon+1:]))
		if !slices.Contains(securityProtocols, proto) {
			l.problem(key, "Invalid security protocol `"+proto+"` defined in "+key, strings.Join(securityProtocols, ", "))
			continue
		}
		m[name] = proto
	}
	if l.where[key] != "" {
		return m
	}
	for _, e := range c.list("listeners") {
		if x, err := parseListener(e); err == nil && !c.Node.isController(x) && m[x.Name] != Plaintext {
			return m
		}
	}
	for _, name := range c.Node.ControllerListeners {
		if _, ok := m[name]; !ok {
			m[name] = Plaintext
		}
	}
	return m
}

var securityProtocols = []string{Plaintext, SSL, SASLPlaintext, SASLSSL}

func (l *loader) interBroker(c *Config, protocols map[string]string) string {
	const key = "inter.broker.listener.name"
	given := c.Value(key)
	if given == nil {
		return strings.TrimSpace(orEmpty(c.Value("security.inter.broker.protocol")))
	}
	name := strings.ToUpper(strings.TrimSpace(*given))
	if l.where["security.inter.broker.protocol"] != "" {
		l.problem(key, "Only one of inter.broker.listener.name and security.inter.broker.protocol should be set.", "")
	}
	if _, ok := protocols[name]; !ok {
		l.problem(key, "Listener with name "+name+" defined in inter.broker.listener.name not found in listener.security.protocol.map.", "")
	}
	return name
}

func listenerNames(ls []Listener) string {
	names := make([]string, len(ls))
	for i, x := range ls {
		names[i] = x.Name
	}
	return strings.Join(names, ",")
}

func (l *loader) checkListeners(c *Config) {
	n := &c.Node
	const names = "controller.listener.names"
	l.checkControllerNames(n)
	for _, x := range slices.Concat(n.Advertised, n.AdvertisedControllers) {
		l.rule(x.Host != "0.0.0.0", "advertised.listeners cannot use the nonroutable meta-address 0.0.0.0. Use a routable IP address.",
			"advertised.listeners", "listeners")
		if x.Host == "::" {
			l.warnf("advertised.listeners: %s cannot be reached from another machine; advertise a name or an address of this one", x)
		}
	}
	if n.Broker {
		l.rule(len(n.Advertised) > 0, "There must be at least one broker advertised listener. Perhaps all listeners appear in "+names+"?",
			"advertised.listeners", "listeners")
		has := func(x Listener) bool { return x.Name == n.InterBroker }
		l.rule(len(n.Advertised) == 0 || slices.ContainsFunc(n.Advertised, has),
			"inter.broker.listener.name must be a listener name defined in advertised.listeners. The valid options based on"+
				" currently configured listeners are "+listenerNames(n.Advertised),
			"inter.broker.listener.name", "advertised.listeners", "listeners")
		for _, x := range n.Advertised {
			open := func(y Listener) bool { return y.Name == x.Name }
			l.rule(slices.ContainsFunc(n.Listeners, open), "advertised.listeners listener names must be equal to or a subset of the"+
				" ones defined in listeners. Found "+listenerNames(n.Advertised)+". The valid options based on the current"+
				" configuration are "+listenerNames(n.Listeners), "advertised.listeners")
		}
	}
	for _, name := range upper(c.list("early.start.listeners")) {
		known := func(x Listener) bool { return x.Name == name }
		l.rule(slices.ContainsFunc(n.Listeners, known) || slices.Contains(n.ControllerListeners, name),
			"early.start.listeners contains listener "+name+", but this is not contained in listeners or controller.listener.names",
			"early.start.listeners")
	}
}

func (l *loader) checkControllerNames(n *Node) {
	const names = "controller.listener.names"
	opened := 0
	for _, name := range n.ControllerListeners {
		if slices.ContainsFunc(n.Listeners, func(x Listener) bool { return x.Name == name }) {
			opened++
		}
	}
	switch {
	case n.Controller && n.Broker:
		l.rule(opened > 0, names+" must contain at least one value appearing in the 'listeners' configuration when running the"+
			" KRaft controller role", names, "listeners")
	case n.Controller:
		l.rule(opened == len(n.Listeners), "The listeners config must only contain KRaft controller listeners from "+names+
			" when process.roles=controller", "listeners", names)
		l.rule(opened > 0, names+" must contain at least one value appearing in the 'listeners' configuration when running the"+
			" KRaft controller role", names, "listeners")
	default:
		l.rule(opened == 0, names+" must not contain a value appearing in the 'listeners' configuration when running KRaft with"+
			" just the broker role", names, "listeners")
	}
	l.rule(!n.Controller || opened == 0 || opened == len(n.ControllerListeners), names+" must only contain values appearing in the"+
		" 'listeners' configuration when running the KRaft controller role", names)
}

// UnreachableAdvertised looks up the host of every advertised listener and returns a warning for each that does not
// resolve: clients that get such an address cannot connect. It blocks on lookup, so it is not part of Load.
func (c *Config) UnreachableAdvertised(ctx context.Context, lookup func(ctx context.Context, host string) ([]string, error)) []string {
	var warnings []string
	for _, x := range c.Node.Advertised {
		if _, err := netip.ParseAddr(x.Host); err == nil {
			continue
		}
		if _, err := lookup(ctx, x.Host); err != nil {
			warnings = append(warnings, fmt.Sprintf("advertised listener %s: this machine cannot resolve %q (%v);"+
				" clients that cannot either will not connect: set advertised.listeners", x, x.Host, err))
		}
	}
	return warnings
}
