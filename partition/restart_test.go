package partition

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAnEmptyPartitionTakesRecordsAfterARestart(t *testing.T) {
	b := newBench(t)
	b.restart()
	b.restart()
	b.produce("a")
	b.restart()
	require.Equal(t, []string{"0=a"}, b.values(0, LogEnd))
}
