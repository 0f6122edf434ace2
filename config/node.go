package config

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// buildNode fills c.Node from the keys that need more than a conversion.
func (l *loader) buildNode(c *Config) {
	n := &c.Node
	roles := c.list("process.roles")
	n.Broker, n.Controller = slices.Contains(roles, "broker"), slices.Contains(roles, "controller")
	n.ControllerListeners = upper(c.list("controller.listener.names"))
	n.ClusterID = l.env[clusterIDVariable]
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
	alone := n.Broker && n.Controller && len(n.Voters) == 0 && len(n.BootstrapServers) == 0
	before := len(l.problems)
	l.buildListeners(c, alone)
	l.listenersRead = len(l.problems) == before
	n.Standalone = alone || n.Controller && n.quorumIsSelf()
	l.buildPerIP(c)
}

// quorumIsSelf tells whether all that is said about the quorum means this node: it is the only voter, or every bootstrap
// server is one of its own controller listeners, as in the server.properties that Kafka ships.
func (n *Node) quorumIsSelf() bool {
	if len(n.Voters) > 0 {
		return len(n.Voters) == 1 && n.Voters[0].ID == n.ID
	}
	for _, server := range n.BootstrapServers {
		host, port, _ := splitHostPort(server) // checked with all values
		own := func(x Listener) bool {
			return n.isController(x) && x.Port == port && (x.Host == host || meansAll(x.Host) && meansLocal(host))
		}
		if !slices.ContainsFunc(slices.Concat(n.Listeners, n.AdvertisedControllers), own) {
			return false
		}
	}
	return len(n.BootstrapServers) > 0
}

func meansAll(host string) bool { return host == "" || host == "0.0.0.0" || host == "::" }

func meansLocal(host string) bool {
	return host == "localhost" || host == "127.0.0.1" || host == "::1" || meansAll(host) || host == ownHostName()
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

// buildPerIP reads max.connections.per.ip.overrides: host:count, ...
func (l *loader) buildPerIP(c *Config) {
	const key = "max.connections.per.ip.overrides"
	c.Sockets.MaxPerIPOverrides = map[string]int32{}
	for _, e := range splitList(strings.TrimSpace(orEmpty(c.Value(key)))) {
		at := strings.LastIndexByte(e, ':')
		if at < 1 {
			l.problem(key, "entry '"+e+"' is not of the form host:count", "")
			continue
		}
		host := strings.TrimSpace(e[:at])
		if inner, ok := strings.CutPrefix(host, "["); ok {
			host = strings.TrimSuffix(inner, "]")
		}
		if _, err := netip.ParseAddr(host); err != nil && strings.ContainsAny(host, "[]: ") {
			l.problem(key, key+" contains invalid addresses : "+host, "")
			continue
		}
		v, err := parseInt(&Key{Name: key, Type: kmsg.ConfigTypeInt}, strings.TrimSpace(e[at+1:]), 32, "INT")
		if err != nil || v.num < 0 {
			l.problem(key, "entry '"+e+"' has no count of 0 or more", "")
			continue
		}
		c.Sockets.MaxPerIPOverrides[host] = int32(v.num)
	}
}
