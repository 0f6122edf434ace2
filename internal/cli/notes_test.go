package cli

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
)

func TestConnectionsThatComeAndGo(t *testing.T) {
	var out bytes.Buffer
	n := &connectionNotes{w: &out}
	a, b := kgo.BrokerMetadata{Host: "a", Port: 1}, kgo.BrokerMetadata{Host: "::1", Port: 2}
	refused := errors.New("refused")
	n.OnBrokerConnect(a, 0, nil, refused) // before begin
	n.begin()
	n.OnBrokerConnect(a, 0, nil, nil)
	n.OnBrokerConnect(a, 0, nil, refused)
	n.OnBrokerConnect(a, 0, nil, refused)
	n.OnBrokerConnect(b, 0, nil, refused)
	n.OnBrokerConnect(b, 0, nil, context.Canceled)
	n.OnBrokerConnect(a, 0, nil, nil)
	n.OnBrokerConnect(a, 0, nil, nil)
	require.Equal(t, []string{
		"kbroker: a:1 does not answer (refused); trying again", "kbroker: [::1]:2 does not answer (refused); trying again",
		"kbroker: a:1 answers again",
	}, strings.Split(strings.TrimSpace(out.String()), "\n"))
}
