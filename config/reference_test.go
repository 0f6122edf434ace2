package config

import (
	"bytes"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var rewrite = flag.Bool("rewrite", false, "write generated files anew")

const referenceFile = "../docs/configuration.md"

func TestReferencePageIsUpToDate(t *testing.T) {
	var page bytes.Buffer
	require.NoError(t, WriteReference(&page))
	if *rewrite {
		require.NoError(t, os.MkdirAll("../docs", 0o755))
		require.NoError(t, os.WriteFile(referenceFile, page.Bytes(), 0o644))
	}
	written, err := os.ReadFile(referenceFile)
	require.NoError(t, err)
	require.Equal(t, string(written), page.String(), "run: go test ./config -run Reference -rewrite")
	for _, resource := range []string{"broker", "topic", "group", "client-metrics"} {
		for _, k := range Keys(resourceWords[resource]) {
			require.Contains(t, page.String(), "| `"+k.Name+"` |")
		}
	}
}

func TestHelpListsWhatActs(t *testing.T) {
	var short, long bytes.Buffer
	require.NoError(t, WriteHelp(&short, false))
	require.NoError(t, WriteHelp(&long, true))
	require.Greater(t, strings.Count(long.String(), "\n"), strings.Count(short.String(), "\n"))
	for _, name := range []string{"listeners", "log.dirs", "http.listener", "log.retention.ms"} {
		require.Contains(t, short.String(), "  "+name+" ")
	}
	require.NotContains(t, long.String(), "zookeeper")
	require.NotContains(t, long.String(), "ssl.keymanager.algorithm", "a key without effect is no help")
}
