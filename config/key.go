package config

import (
	_ "embed" // the key tables
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// The resources that have keys, by Kafka's codes.
const (
	ResourceTopic         = kmsg.ConfigResourceTypeTopic
	ResourceBroker        = kmsg.ConfigResourceTypeBroker
	ResourceClientMetrics = kmsg.ConfigResourceTypeClientMetrics
	ResourceGroup         = kmsg.ConfigResourceTypeGroupConfig
)

// Dynamic says at which level a key can be changed while the broker runs.
type Dynamic int8

// The levels of change.
const (
	ReadOnly    Dynamic = iota // only by a restart
	PerBroker                  // for one broker, not for all at once
	ClusterWide                // for one broker or for all
)

// String returns Kafka's word for the level.
func (d Dynamic) String() string {
	switch d {
	case PerBroker:
		return "per-broker"
	case ClusterWide:
		return "cluster-wide"
	default:
		return "read-only"
	}
}

// Key describes one configuration key of one resource. It is shared and must not be changed.
type Key struct {
	Name string
	Type kmsg.ConfigType
	// Default is Kafka's text of the default; nil is null.
	Default    *string
	Doc        string
	Importance string // high, medium, low
	Dynamic    Dynamic
	// Synonyms are the broker keys that give a topic or group key its default, strongest first.
	Synonyms []string
	// Acts tells whether the value changes what kbroker does. The others are accepted, checked and listed.
	Acts bool
	// Hidden keys are accepted but not listed by DescribeConfigs unless they are set, as Kafka does with internal ones.
	Hidden bool
	// Own marks keys that Kafka does not have.
	Own bool

	valid validator
}

// Sensitive tells whether the value must never leave the broker.
func (k *Key) Sensitive() bool { return k.Type == kmsg.ConfigTypePassword }

// Allowed says in words what values the key takes; empty when every value of the type is allowed.
func (k *Key) Allowed() string { return k.valid.allowed() }

// table holds the keys of one resource, sorted by name.
type table struct {
	keys   []*Key
	byName map[string]*Key
}

//go:embed keys/topic.tsv
var topicTSV string

//go:embed keys/broker.tsv
var brokerTSV string

//go:embed keys/group.tsv
var groupTSV string

//go:embed keys/client-metrics.tsv
var clientMetricsTSV string

// The tables are parsed once at start-up from embedded text that a test has read; they never change afterwards.
var (
	topicKeys         = mustParseTable("topic.tsv", topicTSV)
	brokerKeys        = mustParseTable("broker.tsv", brokerTSV)
	groupKeys         = mustParseTable("group.tsv", groupTSV)
	clientMetricsKeys = mustParseTable("client-metrics.tsv", clientMetricsTSV)
)

func tableOf(r kmsg.ConfigResourceType) *table {
	switch r {
	case ResourceTopic:
		return topicKeys
	case ResourceBroker:
		return brokerKeys
	case ResourceGroup:
		return groupKeys
	case ResourceClientMetrics:
		return clientMetricsKeys
	default:
		return &table{}
	}
}

// Keys returns the keys of a resource sorted by name, hidden ones included; none for a resource without keys.
// The caller must not change what it gets.
func Keys(r kmsg.ConfigResourceType) []*Key { return tableOf(r).keys }

// LookupKey returns the key of that exact name, or nil.
func LookupKey(r kmsg.ConfigResourceType, name string) *Key { return tableOf(r).byName[name] }

func mustParseTable(file, text string) *table {
	t, err := parseTable(text)
	if err != nil {
		panic(fmt.Errorf("built-in key table %s: %w", file, err))
	}
	return t
}

const tableColumns = 9

func parseTable(text string) (*table, error) {
	t := &table{byName: map[string]*Key{}}
	for i, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		if i == 0 { // the header
			continue
		}
		k, err := parseKey(strings.Split(line, "\t"))
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
		if t.byName[k.Name] != nil {
			return nil, fmt.Errorf("line %d: %s stands twice", i+1, k.Name)
		}
		t.byName[k.Name] = k
	}
	for _, name := range slices.Sorted(maps.Keys(t.byName)) {
		t.keys = append(t.keys, t.byName[name])
	}
	return t, nil
}

func parseKey(f []string) (*Key, error) {
	if len(f) != tableColumns {
		return nil, fmt.Errorf("%d columns, want %d", len(f), tableColumns)
	}
	k := &Key{Name: f[0], Importance: f[3], Doc: f[8]}
	var ok bool
	if k.Type, ok = typesByName[f[1]]; !ok {
		return nil, fmt.Errorf("%s: unknown type %q", k.Name, f[1])
	}
	switch d := f[2]; d {
	case "null":
	case "''":
		k.Default = new(string)
	default:
		k.Default = &d
	}
	switch f[4] {
	case "-":
	case "broker":
		k.Dynamic = PerBroker
	case "cluster":
		k.Dynamic = ClusterWide
	default:
		return nil, fmt.Errorf("%s: unknown dynamic level %q", k.Name, f[4])
	}
	var err error
	if k.valid, err = parseValidator(f[5]); err != nil {
		return nil, fmt.Errorf("%s: %w", k.Name, err)
	}
	if f[6] != "-" {
		k.Synonyms = strings.Fields(f[6])
	}
	return k, k.setFlags(f[7])
}

func (k *Key) setFlags(flags string) error {
	if flags == "-" {
		return nil
	}
	for _, f := range strings.Split(flags, ",") {
		switch f {
		case "acts":
			k.Acts = true
		case "hidden":
			k.Hidden = true
		case "own":
			k.Own = true
		default:
			return fmt.Errorf("%s: unknown flag %q", k.Name, f)
		}
	}
	return nil
}

var typesByName = map[string]kmsg.ConfigType{
	"BOOLEAN": kmsg.ConfigTypeBoolean, "STRING": kmsg.ConfigTypeString, "INT": kmsg.ConfigTypeInt,
	"SHORT": kmsg.ConfigTypeShort, "LONG": kmsg.ConfigTypeLong, "DOUBLE": kmsg.ConfigTypeDouble,
	"LIST": kmsg.ConfigTypeList, "CLASS": kmsg.ConfigTypeClass, "PASSWORD": kmsg.ConfigTypePassword,
}
