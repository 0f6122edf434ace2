package model

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestUUIDText(t *testing.T) {
	for range 1000 {
		u := NewUUID()
		s := u.String()
		require.Len(t, s, 22)
		require.False(t, strings.HasPrefix(s, "-"), s)
		back, err := ParseUUID(s)
		require.NoError(t, err)
		require.Equal(t, u, back)
		require.Equal(t, byte(4), u[6]>>4)
		require.Equal(t, byte(2), u[8]>>6)
	}
	require.True(t, UUID{}.IsZero())
	require.Equal(t, "AAAAAAAAAAAAAAAAAAAAAA", UUID{}.String())
	for _, bad := range []string{"", "short", "AAAAAAAAAAAAAAAAAAAAAA==", "AAAAAAAAAAAAAAAAAAAA+/", strings.Repeat("A", 30)} {
		_, err := ParseUUID(bad)
		require.ErrorContains(t, err, "is not a uuid", bad)
	}
}

func TestTopicPartitionOrder(t *testing.T) {
	sorted := []TopicPartition{{"a", 0}, {"a", 9}, {"a", 10}, {"b", 0}}
	for i, x := range sorted {
		for j, y := range sorted {
			require.Equal(t, sign(i-j), x.Compare(y))
		}
	}
	require.Equal(t, "a-10", sorted[2].String())
}

func sign(n int) int {
	switch {
	case n < 0:
		return -1
	case n > 0:
		return 1
	}
	return 0
}

func TestInternalTopics(t *testing.T) {
	require.True(t, IsInternalTopic("__consumer_offsets"))
	require.True(t, IsInternalTopic("__transaction_state"))
	require.False(t, IsInternalTopic("__consumer_offsets2"))
}
