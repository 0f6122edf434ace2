package config

import "strings"

// envPrefix marks the environment variables that hold broker keys.
const envPrefix = "KAFKA_"

// clusterIDVariable is what the image formats empty directories with.
const clusterIDVariable = "CLUSTER_ID"

// notKeys are variables of Kafka's start scripts and of its container image that begin with the prefix but are no keys.
var notKeys = map[string]bool{
	"KAFKA_VERSION": true, "KAFKA_HOME": true, "KAFKA_OPTS": true, "KAFKA_HEAP_OPTS": true,
	"KAFKA_JVM_PERFORMANCE_OPTS": true, "KAFKA_GC_LOG_OPTS": true, "KAFKA_JMX_OPTS": true, "KAFKA_JMX_HOSTNAME": true,
	"KAFKA_JMX_PORT": true, "KAFKA_LOG4J_OPTS": true, "KAFKA_LOG4J_CMD_OPTS": true, "KAFKA_LOG4J_LOGGERS": true,
	"KAFKA_LOG4J_ROOT_LOGLEVEL": true, "KAFKA_TOOLS_LOG4J_LOGLEVEL": true, "KAFKA_DEBUG": true,
	"KAFKA_DEBUG_SUSPEND_FLAG": true, "KAFKA_MODE": true,
}

// log4jLevels translates the image's KAFKA_LOG4J_ROOT_LOGLEVEL.
var log4jLevels = map[string]string{
	"ALL": "debug", "TRACE": "debug", "DEBUG": "debug", "INFO": "info", "WARN": "warn", "ERROR": "error", "FATAL": "error",
	"OFF": "error",
}

func (l *loader) readEnv(env []string) {
	l.env, l.variables = map[string]string{}, map[string]string{}
	for _, pair := range env {
		name, val, _ := strings.Cut(pair, "=")
		l.variables[name] = val
		switch {
		case name == clusterIDVariable:
			l.env[name] = strings.TrimSpace(val)
		case name == "KAFKA_LOG4J_ROOT_LOGLEVEL":
			if level, ok := log4jLevels[strings.ToUpper(strings.TrimSpace(val))]; ok {
				l.set("logging.level", level, name)
			}
		case strings.HasPrefix(name, envPrefix) && !notKeys[name] && len(name) > len(envPrefix):
			l.set(keyOfVariable(name), val, name)
			l.outside = true
		}
	}
	_, listeners := l.layers.static["listeners"]
	if adv := l.where["advertised.listeners"]; strings.HasPrefix(adv, envPrefix) && !listeners {
		l.listenersFromAdvertised(adv)
	}
}

// keyOfVariable undoes the mapping of the apache/kafka image: one underscore between other characters stands for a dot,
// two for an underscore, three for a dash; longer runs stay.
func keyOfVariable(name string) string {
	s := strings.ToLower(strings.TrimPrefix(name, envPrefix))
	var b strings.Builder
	for i := 0; i < len(s); {
		n := 0
		for i+n < len(s) && s[i+n] == '_' {
			n++
		}
		inside := i > 0 && i+n < len(s)
		switch {
		case n == 0:
			b.WriteByte(s[i])
			n = 1
		case n == 1 && inside:
			b.WriteByte('.')
		case n == 2 && inside:
			b.WriteByte('_')
		case n == 3 && inside:
			b.WriteByte('-')
		default:
			b.WriteString(s[i : i+n])
		}
		i += n
	}
	return b.String()
}

// listenersFromAdvertised opens all addresses at the advertised ports when only those are given, as the image does.
func (l *loader) listenersFromAdvertised(where string) {
	var open []string
	for _, e := range splitList(l.layers.static["advertised.listeners"]) {
		a, err := parseListener(e)
		if err != nil {
			return // reported when advertised.listeners itself is read
		}
		a.Host = "0.0.0.0"
		open = append(open, a.String())
	}
	l.set("listeners", strings.Join(open, ","), where)
}
