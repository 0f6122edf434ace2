package cli

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

func TestGroupGoesOnWhereItWas(t *testing.T) {
	s := shellFor(t, fake(t, kfake.SeedTopics(1, "t")))
	s.fill("t", "a", "b", "c", "d")
	require.Equal(t, "a\nb\n", s.ok("consume", "t", "--group", "g", "--from-beginning", "--count", "2"))
	require.Equal(t, "c\n", s.ok("consume", "t", "--group", "g", "--count", "1"))

	require.Contains(t, s.ok("group", "list"), "g ")
	var list []listedGroup
	s.json(&list, "group", "list")
	require.Len(t, list, 1)
	require.Equal(t, "Empty", list[0].State)
	s.json(&list, "group", "list", "--state", "Stable")
	require.Empty(t, list)
	require.Contains(t, s.run("group", "list", "--state", "Stable").err, "no groups")

	var details []groupDetail
	s.json(&details, "group", "describe", "g")
	require.Equal(t, []groupOffset{{Topic: "t", Committed: 3, End: 4, Lag: 1}}, details[0].Partitions)
	require.EqualValues(t, 1, details[0].Lag)
	text := s.ok("group", "describe", "g")
	require.Contains(t, text, "g: Empty")
	require.Contains(t, text, "0 members")
	require.Contains(t, text, "TOPIC  PARTITION  COMMITTED  END  LAG  MEMBER\nt      0          3          4    1    -\n")

	r := s.run("group", "describe", "none")
	require.Equal(t, ExitFailed, r.code)
	require.Contains(t, r.err, "group none does not exist; kbroker group list shows what there is")
}

func TestGroupWithMembers(t *testing.T) {
	for name, balancer := range map[string]kgo.Opt{"classic": kgo.SessionTimeout(30 * time.Second), "consumer": kgo.ServerSideBalancer()} {
		t.Run(name, func(t *testing.T) {
			s := shellFor(t, fake(t, kfake.SeedTopics(2, "t")))
			s.fill("t", "a")
			joined := make(chan struct{})
			assigned := 0
			cl, err := kgo.NewClient(kgo.SeedBrokers(s.bootstrap), kgo.ConsumerGroup("busy"), kgo.ConsumeTopics("t"), kgo.ClientID("app"),
				balancer, kgo.Balancers(kgo.RangeBalancer()), kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, m map[string][]int32) {
					if assigned += len(m["t"]); assigned == 2 {
						close(joined)
					}
				}))
			require.NoError(t, err)
			defer cl.Close()
			go cl.PollFetches(waitLimit(t))
			<-joined
			var details []groupDetail
			s.json(&details, "group", "describe", "busy")
			require.Equal(t, "Stable", details[0].State)
			require.Len(t, details[0].Members, 1)
			require.Equal(t, "app", details[0].Members[0].Client)
			if name == "classic" { // the fake cluster leaves out the names of topics in the other protocol
				require.Equal(t, []int32{0, 1}, details[0].Members[0].Assigned["t"])
				require.Len(t, details[0].Partitions, 2)
				require.True(t, strings.HasPrefix(details[0].Partitions[0].Member, "app@"))
			}
			require.Contains(t, s.ok("group", "describe", "busy"), ", 1 member, coordinator 0")

			r := s.run("group", "reset", "busy", "--topic", "t", "--to-earliest", "--execute")
			require.Equal(t, ExitFailed, r.code)
			require.Contains(t, r.err, "group busy is in use by 1 member (Stable): stop them first")
			require.Zero(t, s.run("group", "reset", "busy", "--topic", "t", "--to-earliest").code, "a plan disturbs nobody")
		})
	}
}

func TestResetsOfAGroup(t *testing.T) {
	s := shellFor(t, fake(t, kfake.SeedTopics(1, "t", "u")))
	s.fill("t", "a", "b", "c", "d", "e")
	s.fill("u", "x")
	s.ok("consume", "t", "--group", "g", "--from-beginning", "--count", "3")

	committed := func() int64 {
		var details []groupDetail
		s.json(&details, "group", "describe", "g")
		for _, p := range details[0].Partitions {
			if p.Topic == "t" {
				return p.Committed
			}
		}
		return -1
	}
	r := s.run("group", "reset", "g", "--topic", "t", "--to-earliest")
	require.Zero(t, r.code, r.err)
	require.Equal(t, "TOPIC  PARTITION  FROM  TO\nt      0          3     0\n", r.out)
	require.Contains(t, r.err, "nothing was changed; --execute makes the change")
	require.EqualValues(t, 3, committed())

	future, past := time.Now().Add(time.Hour).Format(time.RFC3339), time.Now().Add(-time.Hour).Format(time.RFC3339)
	for _, step := range []struct {
		flags string
		want  int64
	}{
		{"--topic t --to-earliest", 0},
		{"--topic t --to-latest", 5},
		{"--topic t:0 --to-offset 2", 2},
		{"--all-topics --shift-by 2", 4},
		{"--all-topics --shift-by -1", 3},
		{"--topic t --shift-by 100", 5},
		{"--topic t --shift-by -100", 0},
		{"--topic t --to-offset 77", 5},
		{"--topic t --to-datetime " + past, 0},
		{"--topic t --to-datetime " + future, 5},
		{"--topic t --to-datetime 2020-01-01T00:00", 0},
	} {
		s.ok(append([]string{"group", "reset", "g", "--execute"}, strings.Fields(step.flags)...)...)
		require.Equal(t, step.want, committed(), step.flags)
	}

	var moved struct {
		Executed bool
		Offsets  []movedOffset
	}
	s.json(&moved, "group", "reset", "g", "--topic", "u", "--to-latest")
	require.False(t, moved.Executed)
	require.Equal(t, []movedOffset{{Topic: "u", From: -1, To: 1}}, moved.Offsets)

	s.ok("group", "reset", "fresh", "--topic", "t", "--to-earliest", "--execute") // before its first member
	for flags, want := range map[string]string{
		"g --topic u --shift-by 1":          "has committed nothing that could be shifted",
		"g --topic t:7 --to-earliest":       "topic t partition 7: does not exist",
		"g --topic missing --to-earliest":   "topic missing does not exist (UNKNOWN_TOPIC_OR_PARTITION)",
		"nobody --all-topics --to-earliest": "group nobody does not exist",
		"nobody --topic t --shift-by 1":     "group nobody does not exist",
	} {
		r := s.run(append([]string{"group", "reset"}, strings.Fields(flags)...)...)
		require.Equal(t, ExitFailed, r.code, flags)
		require.Contains(t, r.err, want, flags)
	}
}

func TestTimesOfAReset(t *testing.T) {
	for _, text := range []string{"2026-01-31T12:00:00Z", "2026-01-31T12:00:00.5+02:00", "2026-01-31T12:00:00", "2026-01-31T12:00", "2026-01-31"} {
		at, err := parseTime(text)
		require.NoError(t, err, text)
		require.Equal(t, 2026, at.Year())
	}
}
