package config

import (
	"fmt"
	"strings"

	"github.com/magiconair/properties"
)

// Options names the sources of a configuration, weakest first. The zero value gives a working combined node.
type Options struct {
	// File is the path of a Java properties file; empty means none.
	File string
	// Env holds NAME=value pairs as os.Environ returns them; only KAFKA_ variables and CLUSTER_ID count.
	Env []string
	// Overrides holds key=value pairs from the command line.
	Overrides []string
}

// Report is what Load noticed without refusing the configuration.
type Report struct {
	// Unknown are keys that nobody knows, sorted by name. They change nothing.
	Unknown []Origin
	// WithoutEffect are keys that Kafka knows and kbroker does not use, set to another value than their default, sorted
	// by name.
	WithoutEffect []Origin
	// Warnings are sentences for the operator.
	Warnings []string
}

// Origin says where a key was given: a file's path, an environment variable's name or --override.
type Origin struct {
	Key, Where string
}

// Problem is one thing that is wrong with a configuration.
type Problem struct {
	Key, Value string // Value is empty for sensitive keys and where several keys are at odds
	Where      string // file, environment variable or --override; empty for a default
	Reason     string // what is wrong, in Kafka's words where it has some
	Allowed    string // what is allowed, when the reason does not say it

	// required marks a broken rule between keys, which Kafka's answers introduce with "requirement failed".
	required bool
}

// String is one line for the operator.
func (p Problem) String() string {
	var b strings.Builder
	b.WriteString(p.Key)
	if p.Value != "" {
		fmt.Fprintf(&b, "=%s", p.Value)
	}
	if p.Where != "" {
		fmt.Fprintf(&b, " (%s)", p.Where)
	}
	fmt.Fprintf(&b, ": %s", p.Reason)
	if p.Allowed != "" && !strings.Contains(p.Reason, p.Allowed) {
		fmt.Fprintf(&b, " (allowed: %s)", p.Allowed)
	}
	return b.String()
}

// Problems is the error of a configuration that was understood but is wrong. It holds at least one problem.
type Problems []Problem

// Error lists every problem on a line of its own.
func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// loader gathers what the sources say.
type loader struct {
	layers layers
	where  map[string]string // origin of each static key
	env    map[string]string // what is no key
	// variables is the whole environment, for references.
	variables map[string]string
	// bad are keys whose values were refused.
	bad      map[string]bool
	report   Report
	problems Problems
	// listenersRead is set when nothing was wrong with the listeners by themselves.
	listenersRead bool
	// outside is set when a file or the environment configures the broker at all.
	outside bool
}

// Load reads the sources and checks every value and every rule between values. The error is Problems when the
// configuration is wrong, and names the file when it cannot be read. The report is never nil.
func Load(o Options) (*Config, *Report, error) {
	l := &loader{where: map[string]string{}}
	l.layers.static = map[string]string{}
	if err := l.readFile(o.File); err != nil {
		return nil, &l.report, err
	}
	l.readEnv(o.Env)
	l.readOverrides(o.Overrides)
	l.resolveReferences()
	l.findUnknown()
	c := l.build()
	if len(l.problems) > 0 {
		return nil, &l.report, l.problems
	}
	return c, &l.report, nil
}

// Default returns the configuration of a node that nobody configured.
func Default() *Config {
	c, _, err := Load(Options{})
	if err != nil {
		panic(fmt.Errorf("built-in configuration: %w", err)) // a test loads it
	}
	return c
}

func (l *loader) set(key, val, where string) {
	l.layers.static[key] = val
	l.where[key] = where
}

func (l *loader) problem(key, reason, allowed string) {
	p := Problem{Key: key, Reason: reason, Allowed: allowed, Where: l.where[key]}
	if k := lookupBrokerKey(key); k != nil && !k.Sensitive() && p.Where != "" {
		text, _ := l.layers.effective(key)
		p.Value = orEmpty(text)
	}
	l.problems = append(l.problems, p)
}

func (l *loader) warnf(format string, args ...any) {
	l.report.Warnings = append(l.report.Warnings, fmt.Sprintf(format, args...))
}

// maxFileBytes bounds a properties file; real ones have a few kilobytes.
const maxFileBytes = 4 << 20

func (l *loader) readFile(path string) error {
	if path == "" {
		return nil
	}
	text, err := readSmallFile(path)
	if err != nil {
		return fmt.Errorf("configuration file: %w", err)
	}
	props, err := parseProperties(text)
	if err != nil {
		return fmt.Errorf("configuration file %s: %w", path, err)
	}
	for key, val := range props {
		l.set(key, val, path)
	}
	l.outside = true
	return nil
}

// parseProperties reads the syntax of java.util.Properties. The last of several lines for one key wins, ${...} is left
// alone.
func parseProperties(text []byte) (map[string]string, error) {
	loader := properties.Loader{Encoding: properties.UTF8, DisableExpansion: true}
	p, err := loader.LoadBytes(text)
	if err != nil {
		return nil, err
	}
	return p.Map(), nil
}

func (l *loader) readOverrides(overrides []string) {
	for _, o := range overrides {
		key, val, ok := strings.Cut(o, "=")
		if key = strings.TrimSpace(key); !ok || key == "" {
			l.problems = append(l.problems, Problem{Key: o, Where: "--override", Reason: "not of the form key=value"})
			continue
		}
		l.set(key, val, "--override")
	}
}

// findUnknown reports the keys that change nothing.
func (l *loader) findUnknown() {
	for _, name := range sortedKeys(l.layers.static) {
		if strings.HasPrefix(name, providersKey) {
			continue
		}
		origin := Origin{Key: name, Where: l.where[name]}
		k := lookupBrokerKey(name)
		switch {
		case k == nil:
			l.report.Unknown = append(l.report.Unknown, origin)
		case !k.Acts && strings.TrimSpace(l.layers.static[name]) != orEmpty(k.Default):
			l.report.WithoutEffect = append(l.report.WithoutEffect, origin)
		}
	}
}

// lookupBrokerKey finds a key by its name, or by its name behind listener.name.NAME. and, for SASL, a mechanism.
func lookupBrokerKey(name string) *Key {
	if k := brokerKeys.byName[name]; k != nil {
		return k
	}
	rest, ok := strings.CutPrefix(name, listenerPrefix)
	if !ok {
		return nil
	}
	_, base, _ := strings.Cut(rest, ".")
	if k := brokerKeys.byName[base]; k != nil {
		return k
	}
	_, base, _ = strings.Cut(base, ".")
	if k := brokerKeys.byName[base]; k != nil && strings.HasPrefix(base, "sasl.") {
		return k
	}
	return nil
}

const listenerPrefix = "listener.name."
