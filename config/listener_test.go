package config

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestListenerForms(t *testing.T) {
	for text, want := range map[string]Listener{
		"PLAINTEXT://localhost:9092":    {Name: "PLAINTEXT", Host: "localhost", Port: 9092},
		"plaintext://:0":                {Name: "PLAINTEXT"},
		"A_B-1://10.0.0.1:65535":        {Name: "A_B-1", Host: "10.0.0.1", Port: 65535},
		"X://[::1]:9092":                {Name: "X", Host: "::1", Port: 9092},
		"X://[fe80::1%eth0]:9092":       {Name: "X", Host: "fe80::1%eth0", Port: 9092},
		"X://::1:9092":                  {Name: "X", Host: "::1", Port: 9092},
		"X://my_host.example.org:29092": {Name: "X", Host: "my_host.example.org", Port: 29092},
	} {
		l, err := parseListener(text)
		require.NoError(t, err, text)
		require.Equal(t, want, l, text)
	}
	for _, text := range []string{
		"", "PLAINTEXT", "PLAINTEXT:localhost:9092", "://h:1", "X://", "X://h", "X://h:", "X://h:x", "X://h:-1", "X://h:65536",
		"X://h:+1", "X://[::1:9092", "X://[h]:1", "X://a:b:1", "X://a b:1", "X Y://h:1", "X://h/p:1", "X://h@g:1",
	} {
		_, err := parseListener(text)
		require.Error(t, err, text)
	}
	require.Equal(t, "X://[::1]:9092", Listener{Name: "X", Host: "::1", Port: 9092}.String())
	require.Equal(t, "[::1]:9092", Listener{Host: "::1", Port: 9092}.Address())
}

func TestPortsThatCollide(t *testing.T) {
	for list, want := range map[string]bool{
		"PLAINTEXT://h:1,SSL://h:2":                            false,
		"PLAINTEXT://h:1,SSL://h:1":                            true,
		"PLAINTEXT://h:0,SSL://h:0":                            false,
		"PLAINTEXT://127.0.0.1:1,SSL://[::1]:1":                false,
		"PLAINTEXT://127.0.0.1:1,SSL://127.0.0.2:1":            true,
		"PLAINTEXT://127.0.0.1:1,SSL://[::1]:1,SASL_SSL://h:1": true,
	} {
		var ls []Listener
		for _, e := range splitList(list) {
			x, err := parseListener(e)
			require.NoError(t, err)
			ls = append(ls, x)
		}
		require.Equal(t, want, portsCollide(ls), list)
	}
	_, _, err := Load(Options{Overrides: []string{"listeners=A://h:1,B://h:1", "listener.security.protocol.map=A:PLAINTEXT,B:PLAINTEXT"}})
	require.ErrorContains(t, err, "Each listener must have a different port")
}

func TestControllersOfSecureListenersNeedAProtocol(t *testing.T) {
	_, _, err := Load(Options{Overrides: []string{
		"listeners=SSL://h:1,CONTROLLER://h:2", "controller.listener.names=CONTROLLER", "security.inter.broker.protocol=SSL",
	}})
	require.ErrorContains(t, err, "No security protocol defined for listener CONTROLLER")
	_, _, err = Load(Options{Overrides: []string{"advertised.listeners=PLAINTEXT://h:1,EXTRA://h:2",
		"listener.security.protocol.map=PLAINTEXT:PLAINTEXT,EXTRA:PLAINTEXT"}})
	require.ErrorContains(t, err, "must be equal to or a subset of the ones defined in listeners. Found PLAINTEXT,EXTRA")
}
