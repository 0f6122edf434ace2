package telemetry

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
)

func TestJSONLinesParse(t *testing.T) {
	var out bytes.Buffer
	l, err := NewLogger(&out, "info", FormatJSON)
	require.NoError(t, err)
	l.Info("topic created", zap.String("topic", "a"), zap.Duration("took", time.Second))
	l.Debug("not shown")

	var line map[string]any
	require.NoError(t, json.Unmarshal(out.Bytes(), &line))
	require.Equal(t, "topic created", line["msg"])
	require.Equal(t, "a", line["topic"])
	require.Equal(t, "1s", line["took"])
	require.Equal(t, 1, strings.Count(out.String(), "\n"))
}

func TestHumanLinesAreNotJSON(t *testing.T) {
	var out bytes.Buffer
	l, err := NewLogger(&out, "warn", FormatHuman)
	require.NoError(t, err)
	l.Warn("disk is full", zap.String("dir", "d"))
	require.Contains(t, out.String(), "WARN  disk is full  {\"dir\": \"d\"}")
}

func TestUnknownLevelNamesTheChoices(t *testing.T) {
	_, err := NewLogger(&bytes.Buffer{}, "loud", FormatJSON)
	require.EqualError(t, err, `log level "loud" is unknown: use debug, info, warn or error`)
}

func TestLimitDropsRepeatedLinesOnly(t *testing.T) {
	var out bytes.Buffer
	l, err := NewLogger(&out, "info", FormatJSON)
	require.NoError(t, err)
	limited := Limit(l, time.Hour, 2)
	for range 10 {
		limited.Warn("bad frame")
	}
	limited.Warn("another fault")
	require.Equal(t, 2, strings.Count(out.String(), "bad frame"))
	require.Equal(t, 1, strings.Count(out.String(), "another fault"))
}
