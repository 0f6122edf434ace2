package config

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

var resourcesByWord = map[string]kmsg.ConfigResourceType{
	"topic": ResourceTopic, "broker": ResourceBroker, "group": ResourceGroup, "client-metrics": ResourceClientMetrics,
}

// recordedBlocks reads a file of blocks separated by empty lines, without its head.
func recordedBlocks(t *testing.T, file string) []string {
	t.Helper()
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	return strings.Split(strings.TrimSuffix(string(b), "\n"), "\n\n")[1:]
}

func TestValuesAreReadAsKafkaReadsThem(t *testing.T) {
	b, err := os.ReadFile("testdata/values.tsv")
	require.NoError(t, err)
	for _, line := range strings.Split(strings.TrimSuffix(string(b), "\n"), "\n") {
		if strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.Split(line, "\t")
		if len(f) == 6 {
			own, _, reasoned := strings.Cut(strings.TrimPrefix(f[5], "kbroker: "), ", because ")
			require.True(t, reasoned, line)
			f[3], f[4], _ = strings.Cut(own, ", ")
		}
		require.GreaterOrEqual(t, len(f), 5, line)
		k := LookupKey(resourcesByWord[f[0]], f[1])
		require.NotNil(t, k, line)
		in := &f[2]
		if f[2] == "<null>" {
			in = nil
		}
		v, err := parseValue(k, in)
		switch {
		case f[3] == "error":
			require.EqualError(t, err, f[4], line)
			require.ErrorIs(t, err, kerr.InvalidConfig)
		case k.Sensitive():
			require.NoError(t, err)
			require.Nil(t, k.shown(in), "a secret is never shown")
		default:
			require.NoError(t, err, line)
			require.Equal(t, f[4], text(v.canonical(k.Type)), line)
		}
	}
}

// ownAnswer splits a block at its line "kbroker: ANSWER, because REASON".
func ownAnswer(t *testing.T, answer string) (kafka, own string) {
	kafka, own, found := strings.Cut(answer, "\nkbroker: ")
	if !found {
		return kafka, ""
	}
	own, reason, found := strings.Cut(own, ", because ")
	require.True(t, found && reason != "", "a difference needs a reason: %s", answer)
	return kafka, own
}

const usualNode = `process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
controller.quorum.voters=1@localhost:9093
`

func TestRulesBetweenKeysAreKafkas(t *testing.T) {
	for _, block := range recordedBlocks(t, "testdata/rules.txt") {
		body, answer, found := strings.Cut(block, "\n=> ")
		require.True(t, found, block)
		answer, own := ownAnswer(t, answer)
		props, alone := strings.CutPrefix(body, "!\n")
		if !alone {
			props = usualNode + body
		}
		var unset []string
		file := t.TempDir() + "/server.properties"
		for _, line := range strings.Split(props, "\n") {
			if key, ok := strings.CutSuffix(line, "=<unset>"); ok {
				unset = append(unset, key)
			}
		}
		var kept []string
		for _, line := range strings.Split(props, "\n") {
			if key, _, _ := strings.Cut(line, "="); !contains(unset, key) {
				kept = append(kept, line)
			}
		}
		require.NoError(t, os.WriteFile(file, []byte(strings.Join(kept, "\n")), 0o600))
		_, _, err := Load(Options{File: file})
		want, fails := strings.CutPrefix(answer, "error: ")
		if own != "" {
			want, fails = strings.CutPrefix(own, "error: ")
			_, kafkaFails := strings.CutPrefix(answer, "error: ")
			if fails == kafkaFails {
				require.NotContains(t, kafkaSays(answer), want, "no difference any more: %s", block)
			}
		}
		if !fails {
			require.NoError(t, err, block)
			continue
		}
		require.Error(t, err, block)
		require.Contains(t, strings.ReplaceAll(err.Error(), "\n", " "), kafkaSays(want), block)
	}
}

func contains(list []string, s string) bool {
	for _, e := range list {
		if e == s {
			return true
		}
	}
	return false
}

// kafkaSays takes the message out of what the exception wraps around it.
func kafkaSays(s string) string {
	s, _, _ = strings.Cut(s, "  [")
	s = strings.TrimPrefix(s, "requirement failed: ")
	if strings.HasPrefix(s, "Error creating broker listeners from") {
		_, s, _ = strings.Cut(s, "]': ")
	}
	return s
}

// store plays the part of the cluster metadata for one broker.
type store struct {
	t       *testing.T
	base    *Config
	now     *Config
	configs map[string]map[string]string // resource and name -> overrides
}

func newStore(t *testing.T) *store {
	c, _, err := Load(Options{Overrides: append(strings.Split(strings.TrimSpace(usualNode), "\n"),
		"log.retention.hours=100", "log.roll.jitter.hours=1", "log.flush.scheduler.interval.ms=5000", "unknown.key=foo")})
	require.NoError(t, err)
	s := &store{t: t, base: c, configs: map[string]map[string]string{}}
	s.configs["broker\t"] = map[string]string{"min.insync.replicas": "1"}
	s.refresh()
	return s
}

func (s *store) refresh() {
	var problems []Problem
	s.now, problems = s.base.WithDynamic(s.configs["broker\t"], s.configs["broker\t1"])
	require.Empty(s.t, problems)
}

func (s *store) validate(resource, name string, next map[string]string) error {
	switch resource {
	case "topic":
		return s.now.ValidateTopic(next)
	case "broker":
		return s.now.ValidateBroker(next, name != "")
	case "group":
		return s.now.ValidateGroup(next)
	}
	return ValidateClientMetrics(next)
}

func (s *store) alter(resource, name string, current map[string]string, ops []Op) error {
	next, err := s.now.Alter(resourcesByWord[resource], current, ops)
	if err == nil {
		err = s.validate(resource, name, next)
	}
	if err != nil {
		return err
	}
	s.configs[resource+"\t"+name] = next
	s.refresh()
	return nil
}

func orNullText(s string) *string {
	if s == "<null>" {
		return nil
	}
	return &s
}

// run answers one request in the words of testdata/alter.txt.
func (s *store) run(request string) string {
	f := strings.Split(request, "\t")
	var ops []Op
	switch f[0] {
	case "inc":
		for i := 3; i+2 < len(f); i += 3 {
			op, err := strconv.Atoi(f[i+1])
			require.NoError(s.t, err)
			ops = append(ops, Op{Name: f[i], Op: kmsg.IncrementalAlterConfigOp(op), Value: orNullText(f[i+2])})
		}
		return answerOf(s.alter(f[1], f[2], s.configs[f[1]+"\t"+f[2]], ops))
	case "alter":
		for i := 3; i+1 < len(f); i += 2 {
			ops = append(ops, Op{Name: f[i], Value: orNullText(f[i+1])})
		}
		return answerOf(s.alter(f[1], f[2], nil, ops))
	case "create":
		return s.create(f[1], f[2:])
	}
	return s.describe(f[1], f[2], f[3:])
}

func (s *store) create(name string, configs []string) string {
	overrides := map[string]string{}
	for i := 0; i+1 < len(configs); i += 2 {
		if configs[i+1] == "<null>" {
			return answerOf(NullTopicConfig(configs[i]))
		}
		overrides[configs[i]] = configs[i+1]
	}
	if err := s.now.ValidateTopic(overrides); err != nil {
		return answerOf(err)
	}
	s.configs["topic\t"+name] = overrides
	lines := []string{answerOf(nil)}
	for _, e := range s.now.DescribeNewTopic(overrides) {
		if e.Source != kmsg.ConfigSourceDefaultConfig {
			lines = append(lines, "    "+e.Name+" "+text(e.Value)+" "+strconv.Itoa(int(e.Source))+" "+strconv.FormatBool(e.ReadOnly))
		}
	}
	return strings.Join(lines, "\n")
}

func (s *store) describe(resource, name string, keys []string) string {
	overrides := s.configs[resource+"\t"+name]
	entries := s.now.DescribeClientMetrics(overrides)
	switch resource {
	case "topic":
		entries = s.now.DescribeTopic(overrides)
	case "group":
		entries = s.now.DescribeGroup(overrides)
	}
	var lines []string
	for _, e := range entries {
		if len(keys) > 0 && !contains(keys, e.Name) {
			continue
		}
		line := e.Name + "\t" + e.Type.String() + "\t" + text(e.Value) + "\t" + e.Source.String() + "\tro=" +
			strconv.FormatBool(e.ReadOnly) + " sens=" + strconv.FormatBool(e.Sensitive) + "\t"
		for _, syn := range e.Synonyms {
			line += syn.Source.String() + ":" + syn.Name + "=" + text(syn.Value) + "; "
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

func answerOf(err error) string {
	var ke *kerr.Error
	switch {
	case err == nil:
		return "-> <nil> | <null>"
	case errors.As(err, &ke):
		return "-> " + ke.Message + " | " + err.Error()
	}
	return "-> " + err.Error()
}

func TestAlterationsAreAnsweredAsKafkaAnswersThem(t *testing.T) {
	s := newStore(t)
	for _, block := range recordedBlocks(t, "testdata/alter.txt") {
		request, answer, found := strings.Cut(block, "\n")
		require.True(t, found, block)
		answer, own := ownAnswer(t, answer)
		if own != "" {
			require.NotEqual(t, answer, own, "no difference any more: %s", block)
			answer = own
		}
		require.Equal(t, answer, s.run(request), request)
	}
}
