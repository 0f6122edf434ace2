package config

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestNodeThatNobodyConfigured(t *testing.T) {
	c, report, err := Load(Options{})
	require.NoError(t, err)
	require.Empty(t, report.Unknown)
	require.Empty(t, report.Warnings)
	require.Equal(t, Node{
		ID: 1, Broker: true, Controller: true, InterBroker: "PLAINTEXT", ControllerListeners: []string{"CONTROLLER"},
		Listeners: []Listener{
			{Name: "PLAINTEXT", Host: "localhost", Port: 9092, SecurityProtocol: Plaintext},
			{Name: "CONTROLLER", Host: "localhost", Port: 0, SecurityProtocol: Plaintext},
		},
		Advertised: []Listener{{Name: "PLAINTEXT", Host: "localhost", Port: 9092, SecurityProtocol: Plaintext}},
		Standalone: true, LogDirs: []string{"./kbroker-data"}, MetadataLogDir: "./kbroker-data", ControlledShutdown: true,
	}, c.Node)
	topic, err := c.Topic(nil)
	require.NoError(t, err)
	require.Equal(t, 7*24*time.Hour, topic.Retention)
	require.True(t, topic.CleanupDelete)
}
