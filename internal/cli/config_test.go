package cli

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
)

func TestConfigsAreShownAndChanged(t *testing.T) {
	s := shellFor(t, fake(t, kfake.SeedTopics(1, "t")))
	r := s.run("config", "describe", "topic", "t")
	require.Zero(t, r.code, r.err)
	require.Contains(t, r.err, "nothing is set; --all shows the defaults")
	require.Contains(t, s.ok("config", "describe", "topic", "t", "--all"), "retention.ms")

	require.Equal(t, "altered topic t\n", s.ok("config", "alter", "topic", "t", "--set", "retention.ms=1000", "--set", "cleanup.policy=compact"))
	require.Equal(t, "KEY             VALUE    SOURCE\ncleanup.policy  compact  dynamic topic\nretention.ms    1000     dynamic topic\n",
		s.ok("config", "describe", "topic", "t"))
	require.Contains(t, s.ok("config", "describe", "topic", "t", "retention.ms"), "retention.ms  1000")

	var entries []configEntry
	s.json(&entries, "config", "describe", "topic", "t")
	require.Len(t, entries, 2)
	require.Equal(t, "cleanup.policy", entries[0].Name)
	require.Equal(t, "compact", *entries[0].Value)
	require.Equal(t, "DYNAMIC_TOPIC_CONFIG", entries[0].Source)

	s.ok("config", "alter", "topic", "t", "--delete", "retention.ms")
	s.json(&entries, "config", "describe", "topic", "t")
	require.Len(t, entries, 1)
	var altered map[string]string
	s.json(&altered, "config", "alter", "topic", "t", "--append", "cleanup.policy=delete")
	require.Equal(t, "topic t", altered["altered"])

	s.ok("config", "alter", "broker", "0", "--set", "log.retention.ms=5000")
	require.Contains(t, s.ok("config", "describe", "broker", "0"), "log.retention.ms")
	s.ok("config", "alter", "broker", "default", "--set", "log.retention.bytes=5000")
	require.Contains(t, s.ok("config", "describe", "broker", "default", "--all"), "log.retention.bytes")
}

func TestConfigsThatAreRefused(t *testing.T) {
	s := shellFor(t, fake(t, kfake.SeedTopics(1, "t")))
	for _, args := range [][]string{
		{"config", "describe", "topic", "missing"}, {"config", "alter", "topic", "missing", "--set", "retention.ms=1"},
		{"config", "describe", "broker", "77"}, {"config", "alter", "broker", "77", "--set", "log.retention.ms=1"},
	} {
		r := s.run(args...)
		require.Equal(t, ExitFailed, r.code, args)
		require.Contains(t, r.err, args[3], args)
	}
	require.Contains(t, s.run("config", "describe", "broker", "77").err, "the cluster has no broker 77")
}

func TestSecretsAreHidden(t *testing.T) {
	value := "x"
	out := &trigger{hit: func() {}}
	r := &remote{Options: Options{Out: out}}
	require.NoError(t, r.showConfigs([]configEntry{
		{Name: "a.password", Sensitive: true, Source: "STATIC_BROKER_CONFIG"}, {Name: "b", Source: "DEFAULT_CONFIG"},
		{Name: "c", Value: &value, Source: "DEFAULT_CONFIG", Doc: "What c does."},
	}))
	require.Contains(t, out.String(), "a.password  (hidden)  static broker")
	require.Contains(t, out.String(), "b           null")
	require.Contains(t, out.String(), "What c does.")
}
