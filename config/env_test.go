package config

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestVariablesAreNamedAsInTheImage(t *testing.T) {
	for variable, key := range map[string]string{
		"KAFKA_NODE_ID":                 "node.id",
		"KAFKA_A__B":                    "a_b",
		"KAFKA_A___B":                   "a-b",
		"KAFKA_A____B":                  "a____b",
		"KAFKA__A":                      "_a",
		"KAFKA_A_":                      "a_",
		"KAFKA_LISTENER_NAME_MY__NET_X": "listener.name.my_net.x",
		"KAFKA_":                        "",
	} {
		require.Equal(t, key, keyOfVariable(variable), variable)
	}
}

// What Testcontainers gives its container.
func TestEnvironmentOfTestcontainers(t *testing.T) {
	c, report := load(t, Options{Env: []string{
		"PATH=/bin", "CLUSTER_ID=4L6g3nShT-eMCtK--X86sw", "KAFKA_LISTENERS=PLAINTEXT://:9092,BROKER://:9093,CONTROLLER://:9094",
		"KAFKA_LISTENER_SECURITY_PROTOCOL_MAP=BROKER:PLAINTEXT,PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
		"KAFKA_INTER_BROKER_LISTENER_NAME=BROKER", "KAFKA_PROCESS_ROLES=broker,controller",
		"KAFKA_CONTROLLER_LISTENER_NAMES=CONTROLLER", "KAFKA_NODE_ID=1", "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR=1",
		"KAFKA_OFFSETS_TOPIC_NUM_PARTITIONS=1", "KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR=1",
		"KAFKA_TRANSACTION_STATE_LOG_MIN_ISR=1", "KAFKA_LOG_FLUSH_INTERVAL_MESSAGES=9223372036854775807",
		"KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS=0", "KAFKA_HEAP_OPTS=-Xmx1g", "KAFKA_OPTS=", "KAFKA_LOG4J_ROOT_LOGLEVEL=WARN",
		"KAFKA_LOG4J_LOGGERS=kafka=INFO", "KAFKA_VERSION=4.1.0",
		"KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://localhost:32781,BROKER://a1b2c3:9093",
	}})
	require.Empty(t, report.Unknown)
	require.Empty(t, report.WithoutEffect)
	require.True(t, c.Node.Standalone)
	require.Equal(t, "PLAINTEXT://:9092 BROKER://:9093 CONTROLLER://:9094", joinListeners(c.Node.Listeners))
	require.Equal(t, "PLAINTEXT://localhost:32781 BROKER://a1b2c3:9093", joinListeners(c.Node.Advertised))
	require.Equal(t, "BROKER", c.Node.InterBroker)
	require.Equal(t, "4L6g3nShT-eMCtK--X86sw", c.Node.ClusterID)
	require.Equal(t, "warn", c.Logging.Level)
	require.Zero(t, c.Groups.InitialRebalanceDelay)
	topic, err := c.Topic(nil)
	require.NoError(t, err)
	require.EqualValues(t, 1<<63-1, topic.FlushMessages)
}

func TestListenersFollowAdvertisedInTheEnvironment(t *testing.T) {
	c, _ := load(t, Options{Env: []string{"KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://broker.example:29092"}})
	require.Equal(t, "PLAINTEXT://0.0.0.0:29092 CONTROLLER://localhost:0", joinListeners(c.Node.Listeners))
	require.Equal(t, "PLAINTEXT://broker.example:29092", joinListeners(c.Node.Advertised))
	_, _, err := Load(Options{Env: []string{"KAFKA_ADVERTISED_LISTENERS=nonsense"}})
	require.ErrorContains(t, err, "advertised.listeners=nonsense (KAFKA_ADVERTISED_LISTENERS): Unable to parse nonsense")
}

func TestAnyConfigurationOpensAllAddresses(t *testing.T) {
	c, _ := load(t, Options{Env: []string{"KAFKA_NUM_PARTITIONS=3"}})
	require.Equal(t, "PLAINTEXT://:9092 CONTROLLER://localhost:0", joinListeners(c.Node.Listeners))
	require.Equal(t, ownHostName(), c.Node.Advertised[0].Host)
	c, _ = load(t, Options{Env: []string{"HOME=/root", "KAFKA_HEAP_OPTS=x"}, Overrides: []string{"num.partitions=3"}})
	require.Equal(t, "PLAINTEXT://localhost:9092 CONTROLLER://localhost:0", joinListeners(c.Node.Listeners))
}
