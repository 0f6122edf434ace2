package config

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func load(t *testing.T, o Options) (*Config, *Report) {
	t.Helper()
	c, report, err := Load(o)
	require.NoError(t, err)
	return c, report
}

func fileWith(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "server.properties")
	require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
	return name
}

func TestKafkasOwnFilesLoadUnchanged(t *testing.T) {
	for _, tc := range []struct {
		file, listeners, advertised, controllers string
		standalone                               bool
	}{
		{
			"server.properties", "PLAINTEXT://:9092 CONTROLLER://:9093", "PLAINTEXT://localhost:9092",
			"CONTROLLER://localhost:9093", true,
		},
		{"broker.properties", "PLAINTEXT://localhost:9092", "PLAINTEXT://localhost:9092", "", false},
		{"controller.properties", "CONTROLLER://:9093", "", "CONTROLLER://localhost:9093", true},
	} {
		t.Run(tc.file, func(t *testing.T) {
			c, report := load(t, Options{File: "testdata/" + tc.file})
			require.Empty(t, report.Unknown)
			require.Empty(t, report.Warnings)
			require.Equal(t, tc.listeners, joinListeners(c.Node.Listeners))
			require.Equal(t, tc.advertised, joinListeners(c.Node.Advertised))
			require.Equal(t, tc.controllers, joinListeners(c.Node.AdvertisedControllers))
			require.Equal(t, tc.standalone, c.Node.Standalone)
		})
	}
}

func joinListeners(ls []Listener) string {
	all := make([]string, len(ls))
	for i, x := range ls {
		all[i] = x.String()
	}
	return strings.Join(all, " ")
}

func TestWhoIsAQuorumOfItsOwn(t *testing.T) {
	const node = "process.roles=broker,controller\nnode.id=1\ncontroller.listener.names=CONTROLLER\nlisteners=PLAINTEXT://:9092,CONTROLLER://:9093\n"
	for text, want := range map[string]bool{
		"":                                  true,
		"controller.quorum.voters=":         true,
		"controller.quorum.voters=1@h:9093": true,
		"controller.quorum.voters=1@h:9093,2@i:9093":                                 false,
		"controller.quorum.bootstrap.servers=localhost:9093":                         true,
		"controller.quorum.bootstrap.servers=127.0.0.1:9093,[::1]:9093":              true,
		"controller.quorum.bootstrap.servers=localhost:9094":                         false,
		"controller.quorum.bootstrap.servers=localhost:9093,other.example:9093":      false,
		"controller.quorum.bootstrap.servers=localhost:9092":                         false,
		"controller.quorum.voters=1@h:9093\ncontroller.quorum.bootstrap.servers=x:1": true,
	} {
		c, _ := load(t, Options{File: fileWith(t, node+text)})
		require.Equal(t, want, c.Node.Standalone, text)
	}
}

func TestLaterSourcesWin(t *testing.T) {
	file := fileWith(t, "num.partitions=2\ndefault.replication.factor=2\nlog.retention.hours=1\n")
	c, _ := load(t, Options{
		File: file, Env: []string{"KAFKA_DEFAULT_REPLICATION_FACTOR=3", "KAFKA_LOG_RETENTION_HOURS=2"},
		Overrides: []string{"log.retention.hours=3"},
	})
	require.EqualValues(t, 2, c.Topics.Partitions)
	require.EqualValues(t, 3, c.Topics.ReplicationFactor)
	topic, err := c.Topic(nil)
	require.NoError(t, err)
	require.Equal(t, 3*time.Hour, topic.Retention)
}

func TestPropertiesSyntaxIsJavas(t *testing.T) {
	props, err := parseProperties([]byte(strings.Join([]string{
		"# comment", "! comment", "", "a=1", "b:2", "c 3", "  d  =  4  ", `e=one,\`, `   two`, `f\=g=5`, `h=tab\tend`,
		`i=\u00e9`, "j=", "k", "a=last", `path=C:\\data`, "m=${a}", "n=\u00e9",
	}, "\n")))
	require.NoError(t, err)
	require.Equal(t, map[string]string{
		"a": "last", "b": "2", "c": "3", "d": "4  ", "e": "one,two", "f=g": "5", "h": "tab\tend", "i": "\u00e9", "j": "", "k": "",
		"path": `C:\data`, "m": "${a}", "n": "\u00e9",
	}, props)
}

func TestEveryProblemIsReportedAtOnce(t *testing.T) {
	_, _, err := Load(Options{
		File:      fileWith(t, "num.partitions=x\nlog.segment.bytes=5\nssl.keystore.password=secret\nlisteners=\nreplica.lag.time.max.ms=1\n"),
		Env:       []string{"KAFKA_LOG_CLEANUP_POLICY=shrink"},
		Overrides: []string{"node.id=-3", "nonsense", "=5"},
	})
	var problems Problems
	require.ErrorAs(t, err, &problems)
	require.Len(t, problems, 8)
	text := err.Error()
	for _, want := range []string{
		"num.partitions=x (", "Not a number of type INT (allowed: at least 1)",
		"log.segment.bytes=5 (", "Value must be at least 1048576",
		"log.cleanup.policy=shrink (KAFKA_LOG_CLEANUP_POLICY): ", "String must be one of: compact, delete",
		"node.id=-3 (--override): ", "nonsense (--override): not of the form key=value", "listeners (",
		"replica.fetch.wait.max.ms should always be less than or equal to replica.lag.time.max.ms",
	} {
		require.Contains(t, text, want)
	}
	require.NotContains(t, text, "secret")
}

func TestUnknownKeysAreNamed(t *testing.T) {
	_, report := load(t, Options{
		File: fileWith(t, "zookeeper.connect=localhost:2181\nnum.partitons=3\nnum.io.threads=16\nmetric.reporters=com.example.Reporter\nnum.network.threads=3\n"),
		Env:  []string{"KAFKA_FOO_BAR=1"}, Overrides: []string{"listener.name.plaintext.ssl.keystore.location=/x", "listener.name.plaintext.typo=1"},
	})
	var unknown, idle []string
	for _, o := range report.Unknown {
		unknown = append(unknown, o.Key)
	}
	for _, o := range report.WithoutEffect {
		idle = append(idle, o.Key)
	}
	require.Equal(t, []string{"foo.bar", "listener.name.plaintext.typo", "num.partitons", "zookeeper.connect"}, unknown)
	require.Equal(t, "KAFKA_FOO_BAR", report.Unknown[0].Where)
	require.Equal(t, []string{"listener.name.plaintext.ssl.keystore.location", "metric.reporters", "num.io.threads"}, idle,
		"only those that are set to another value than their default")
}

func TestFilesThatCannotBeRead(t *testing.T) {
	_, report, err := Load(Options{File: "testdata/none.properties"})
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, "testdata/none.properties")
	require.NotNil(t, report)
	_, _, err = Load(Options{File: t.TempDir()})
	require.Error(t, err)
	_, _, err = Load(Options{File: fileWith(t, "a=\\u12")})
	require.ErrorContains(t, err, "server.properties")
	big := filepath.Join(t.TempDir(), "big")
	require.NoError(t, os.WriteFile(big, nil, 0o600))
	require.NoError(t, os.Truncate(big, maxFileBytes+1))
	_, _, err = Load(Options{File: big})
	require.ErrorContains(t, err, "more than")
	var problems Problems
	require.False(t, errors.As(err, &problems))
}

func TestDurations(t *testing.T) {
	c, _ := load(t, Options{Overrides: []string{
		"log.flush.scheduler.interval.ms=9223372036854775807", "connections.max.idle.ms=-1", "offsets.retention.minutes=5",
		"leader.imbalance.check.interval.seconds=7", "log.cleaner.backoff.ms=9223372036854775",
	}})
	require.Equal(t, time.Duration(1<<63-1), c.Log.FlushCheckInterval)
	require.Equal(t, time.Duration(-1), c.Sockets.MaxIdle)
	require.Equal(t, 5*time.Minute, c.Offsets.Retention)
	require.Equal(t, 7*time.Second, c.Replication.RebalanceInterval)
	require.Equal(t, time.Duration(1<<63-1), c.Cleaner.Backoff)
	require.Zero(t, c.Replication.AlterDirThreads, "null leaves the zero value")
}

func TestDefaultLoads(t *testing.T) {
	require.EqualValues(t, 1, Default().Node.ID)
	require.Equal(t, "localhost:9644", Default().HTTP.Listener)
	require.Equal(t, "info", Default().Logging.Level)
}

func TestReferencesToFilesAndEnvironment(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "secrets.properties"), []byte("password=hush\n"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "rack"), []byte("r7"), 0o600))
	const class = "org.apache.kafka.common.config.provider."
	text := "config.providers=f,d,env\nconfig.providers.f.class=" + class + "FileConfigProvider\nconfig.providers.d.class=" +
		class + "DirectoryConfigProvider\nconfig.providers.env.class=" + class + "EnvVarConfigProvider\n" +
		"ssl.keystore.password=${f:" + dir + "/secrets.properties:password}\nbroker.rack=${d:" + dir + ":rack}\n" +
		"listeners=PLAINTEXT://${env:HOST}:9092\nlog.dirs=${other:x}\n"
	c, report := load(t, Options{File: fileWith(t, text), Env: []string{"HOST=example.org"}})
	require.Empty(t, report.Unknown)
	require.Equal(t, "hush", *c.Value("ssl.keystore.password"))
	require.Equal(t, "r7", c.Node.Rack)
	require.Equal(t, "example.org", c.Node.Listeners[0].Host)
	require.Equal(t, []string{"${other:x}"}, c.Node.LogDirs, "a reference to an unknown provider stays")

	_, _, err := Load(Options{File: fileWith(t, text+"num.partitions=${env:NONE}\nnode.id=${d:"+dir+":../x}\nnum.io.threads=${f:"+dir+"/secrets.properties:none}\n")})
	require.ErrorContains(t, err, "environment variable NONE is not set")
	require.ErrorContains(t, err, "is not the name of a file")
	require.ErrorContains(t, err, "has no key none")
	_, _, err = Load(Options{Overrides: []string{"config.providers=vault", "config.providers.vault.class=com.example.Vault"}})
	require.ErrorContains(t, err, "no such provider")
}

func TestAdvertisedNamesThatDoNotResolve(t *testing.T) {
	c, _ := load(t, Options{Overrides: []string{
		"listeners=A://:1,B://:2,C://:3", "advertised.listeners=A://good.example:1,B://bad.example:2,C://10.0.0.1:3",
		"listener.security.protocol.map=A:PLAINTEXT,B:PLAINTEXT,C:PLAINTEXT,CONTROLLER:PLAINTEXT", "inter.broker.listener.name=A",
	}})
	var asked []string
	warnings := c.UnreachableAdvertised(context.Background(), func(_ context.Context, host string) ([]string, error) {
		asked = append(asked, host)
		if host == "bad.example" {
			return nil, errors.New("no such host")
		}
		return []string{"10.0.0.2"}, nil
	})
	require.Equal(t, []string{"good.example", "bad.example"}, asked, "addresses need no lookup")
	require.Len(t, warnings, 1)
	require.Contains(t, warnings[0], "bad.example")
}

func TestValuesForOneListener(t *testing.T) {
	c, _ := load(t, Options{Overrides: []string{
		"max.connections=10", "listener.name.plaintext.max.connections=3",
	}})
	require.Equal(t, "3", *c.ListenerValue("PLAINTEXT", "max.connections"))
	require.Equal(t, "10", *c.ListenerValue("OTHER", "max.connections"))
	require.Nil(t, c.ListenerValue("OTHER", "ssl.keystore.location"))
	_, _, err := Load(Options{Overrides: []string{"listener.name.plaintext.max.connections=x"}})
	require.ErrorContains(t, err, "Invalid value x for configuration listener.name.plaintext.max.connections")
}

func TestLimitsOfSingleAddresses(t *testing.T) {
	c, _ := load(t, Options{Overrides: []string{"max.connections.per.ip.overrides=127.0.0.1:5, [::1]:6,fe80::1:7,host.example:0"}})
	require.Equal(t, map[string]int32{"127.0.0.1": 5, "::1": 6, "fe80::1": 7, "host.example": 0}, c.Sockets.MaxPerIPOverrides)
}

func TestHeartbeatsThatComeTooLate(t *testing.T) {
	_, report := load(t, Options{Overrides: []string{"broker.heartbeat.interval.ms=5000"}})
	require.Len(t, report.Warnings, 1)
	require.Contains(t, report.Warnings[0], "broker.session.timeout.ms")
	_, report = load(t, Options{Overrides: []string{"advertised.listeners=PLAINTEXT://[::]:9092"}})
	require.Len(t, report.Warnings, 1)
}
