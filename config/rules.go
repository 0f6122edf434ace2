package config

import (
	"fmt"
	"slices"
	"strings"
)

// checkRules reports where values that are each allowed do not fit together. The texts are Kafka's.
func (l *loader) checkRules(c *Config) {
	if l.listenersRead {
		l.checkListeners(c)
	}
	l.checkRoles(c)
	l.checkLogs(c)
	l.checkSockets(c)
	l.checkReplication(c)
	l.checkGroups(c)
	l.checkSecurity(c)
}

// num returns the number of an integer key, which checkValues has accepted; 0 for null.
func (c *Config) num(name string) int64 {
	v, _ := c.value(name) // checked with all values
	return v.num
}

// rule reports the text unless it holds, under the first of the keys that somebody set. It says nothing when the value of
// one of the keys was refused already.
func (l *loader) rule(holds bool, text string, keys ...string) {
	if holds || slices.ContainsFunc(keys, func(k string) bool { return l.bad[k] }) {
		return
	}
	key := keys[0]
	for _, k := range keys {
		if l.where[k] != "" {
			key = k
			break
		}
	}
	l.problem(key, text, "")
	l.problems[len(l.problems)-1].required = true
}

func (l *loader) checkRoles(c *Config) {
	n := &c.Node
	const voters = "controller.quorum.voters"
	var ids []string
	mine := false
	for i, v := range n.Voters {
		ids = append(ids, fmt.Sprint(v.ID))
		mine = mine || v.ID == n.ID
		l.rule(!slices.ContainsFunc(n.Voters[:i], func(w Voter) bool { return v.ID == w.ID }),
			fmt.Sprintf("voter id %d stands twice", v.ID), voters)
	}
	set := "controller.quorum.voters=Set(" + strings.Join(ids, ", ") + ")"
	switch {
	case len(n.Voters) == 0:
		l.rule(n.Standalone || len(n.BootstrapServers) > 0, "If using process.roles, either controller.quorum.bootstrap.servers"+
			" must contain the set of bootstrap controllers or controller.quorum.voters must contain a parseable set of controllers.",
			voters, "process.roles")
	case n.Controller:
		l.rule(mine, fmt.Sprintf("If process.roles contains the 'controller' role, the node id %d must be included in the set of voters %s",
			n.ID, set), voters)
	default:
		l.rule(!mine, fmt.Sprintf("If process.roles contains just the 'broker' role, the node id %d must not be included in the set of voters %s",
			n.ID, set), voters)
	}
}

func (l *loader) checkLogs(c *Config) {
	positive := func(topicKey string, low int64, text string, keys ...string) {
		n := c.topicDefaultNum(topicKey)
		l.rule(n >= low || topicKey == "retention.ms" && n < 0, text, keys...)
	}
	positive("segment.ms", 1, "log.roll.ms must be greater than or equal to 1", "log.roll.ms", "log.roll.hours")
	positive("segment.jitter.ms", 0, "log.roll.jitter.ms must be greater than or equal to 0", "log.roll.jitter.ms")
	positive("retention.ms", 1, "log.retention.ms must be unlimited (-1) or, greater than or equal to 1",
		"log.retention.ms", "log.retention.minutes", "log.retention.hours")
	threads := c.num("log.cleaner.threads")
	l.rule(threads > 0, "log.cleaner.threads must be at least 1", "log.cleaner.threads")
	l.rule(threads < 1 || c.num("log.cleaner.dedupe.buffer.size")/threads > 1<<20,
		"log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread.", "log.cleaner.dedupe.buffer.size", "log.cleaner.threads")
	l.rule(c.num("log.cleaner.min.compaction.lag.ms") <= c.num("log.cleaner.max.compaction.lag.ms"),
		"log.cleaner.min.compaction.lag.ms must be less than or equal to log.cleaner.max.compaction.lag.ms",
		"log.cleaner.min.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms")
	cordoned := c.list("cordoned.log.dirs")
	all := slices.Contains(cordoned, "*")
	l.rule(!all || len(cordoned) == 1, "When cordoned.log.dirs is set to *, it must not contain other values", "cordoned.log.dirs")
	for _, d := range cordoned {
		l.rule(all || slices.Contains(c.Node.LogDirs, d),
			"All entries in cordoned.log.dirs must be present in log.dirs or log.dir. Missing entries : "+d, "cordoned.log.dirs")
	}
	codec := c.num("offsets.topic.compression.codec")
	l.rule(codec >= 0 && codec <= 4, fmt.Sprintf("Unknown compression type id: %d", codec), "offsets.topic.compression.codec")
}

// topicDefaultNum returns the number that topics have for a key by default.
func (c *Config) topicDefaultNum(topicKey string) int64 {
	k := topicKeys.byName[topicKey]
	v, _ := parseType(k, c.topicDefault(k).Value) // its broker keys were checked with all values
	return v.num
}

func (l *loader) checkSockets(c *Config) {
	queued := c.Sockets.QueuedRequestBytes
	l.rule(queued <= 0 || queued >= int64(c.Sockets.RequestMaxBytes),
		"queued.max.request.bytes must be larger or equal to socket.request.max.bytes", "queued.max.request.bytes")
	l.rule(c.Sockets.MaxPerIP > 0 || len(c.Sockets.MaxPerIPOverrides) > 0,
		"max.connections.per.ip can be set to zero only if max.connections.per.ip.overrides property is set.", "max.connections.per.ip")
}

func (l *loader) checkReplication(c *Config) {
	wait := c.Replication.FetchWaitMax
	l.rule(wait <= c.Replication.SocketTimeout,
		"replica.socket.timeout.ms should always be at least replica.fetch.wait.max.ms to prevent unnecessary socket timeouts",
		"replica.socket.timeout.ms", "replica.fetch.wait.max.ms")
	l.rule(wait <= c.Replication.LagTimeMax,
		"replica.fetch.wait.max.ms should always be less than or equal to replica.lag.time.max.ms to prevent frequent changes in ISR",
		"replica.lag.time.max.ms", "replica.fetch.wait.max.ms")
	if c.Controller.HeartbeatInterval > c.Controller.SessionTimeout/2 {
		l.warnf("broker.heartbeat.interval.ms (%d) is more than half of broker.session.timeout.ms (%d): a single late heartbeat"+
			" costs the broker its leases", c.num("broker.heartbeat.interval.ms"), c.num("broker.session.timeout.ms"))
	}
}

// groupBounds are the keys that have a minimum and a maximum key beside them, below group.NAME.
var groupBounds = []struct{ kind, name string }{
	{"consumer", "heartbeat.interval.ms"}, {"consumer", "session.timeout.ms"}, {"consumer", "assignment.interval.ms"},
	{"share", "heartbeat.interval.ms"}, {"share", "session.timeout.ms"}, {"share", "assignment.interval.ms"},
	{"share", "record.lock.duration.ms"}, {"share", "delivery.count.limit"}, {"share", "partition.max.record.locks"},
	{"streams", "heartbeat.interval.ms"}, {"streams", "session.timeout.ms"}, {"streams", "assignment.interval.ms"},
}

// boundKeys returns the names of the broker keys that bound a group key.
func boundKeys(kind, name string) (low, high string) {
	return "group." + kind + ".min." + name, "group." + kind + ".max." + name
}

func (l *loader) checkGroups(c *Config) {
	for _, b := range groupBounds {
		key := "group." + b.kind + "." + b.name
		low, high := boundKeys(b.kind, b.name)
		l.rule(c.num(high) >= c.num(low), high+" must be greater than or equal to "+low, high, low)
		l.rule(c.num(key) >= c.num(low), key+" must be greater than or equal to "+low, key, low)
		l.rule(c.num(key) <= c.num(high), key+" must be less than or equal to "+high, key, high)
	}
	for _, kind := range []string{"consumer", "share", "streams"} {
		beat, session := "group."+kind+".heartbeat.interval.ms", "group."+kind+".session.timeout.ms"
		l.rule(c.num(beat) < c.num(session), beat+" must be less than "+session, beat, session)
	}
	l.rule(c.num("group.streams.num.standby.replicas") <= c.num("group.streams.max.standby.replicas"),
		"group.streams.num.standby.replicas must be less than or equal to group.streams.max.standby.replicas",
		"group.streams.num.standby.replicas", "group.streams.max.standby.replicas")
	l.rule(slices.Contains(c.Groups.Protocols, "classic"), "Disabling the 'classic' protocol is not supported.",
		"group.coordinator.rebalance.protocols")
	for _, a := range c.list("group.consumer.assignors") {
		l.rule(slices.Contains([]string{"uniform", "range", uniformClass, rangeClass}, a),
			fmt.Sprintf("Invalid value %s for configuration group.consumer.assignors: Class cannot be found", a), "group.consumer.assignors")
	}
}

// The built-in assignors by Kafka's class names, which some files use.
const (
	uniformClass = "org.apache.kafka.coordinator.group.assignor.UniformAssignor"
	rangeClass   = "org.apache.kafka.coordinator.group.assignor.RangeAssignor"
)

// checkSecurity refuses what would leave a broker open that its owner believes to be guarded.
func (l *loader) checkSecurity(c *Config) {
	name := strings.TrimSpace(orEmpty(c.Value("authorizer.class.name")))
	l.rule(name == "" || brokerKeys.byName["authorizer.class.name"].Acts,
		"this version enforces no authorization, so it does not start with an authorizer configured", "authorizer.class.name")
}

func orEmpty(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
