package groupcoord

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/internal/coordrt"
	"github.com/kbroker/kbroker/internal/metadata"
	"github.com/kbroker/kbroker/internal/model"
)

// Values from a Java virtual machine.
func TestJavaHash(t *testing.T) {
	for text, want := range map[string]int32{
		"": 0, "a": 97, "my-group": -1906497762, "console-consumer-12345": 158455506, "grüße": 98768023, "グループ": 383750870,
		"😀 surrogates": 554189688, "polygenelubricants": math.MinInt32,
	} {
		require.Equal(t, want, javaHash(text), "%q", text)
	}
	require.EqualValues(t, 0, partitionFor("polygenelubricants", 50), "the one value without a positive counterpart")
	require.EqualValues(t, 1906497762%50, partitionFor("my-group", 50))
	order := []string{"rr", "a", "b", "sticky", "range", "roundrobin", "cooperative-sticky"} // of a java.util.HashMap
	require.True(t, slices.IsSortedFunc(order, func(a, b string) int { return bucket(a) - bucket(b) }))
	require.Equal(t, 3, utf16Len("a😀"))
	require.Equal(t, 5, utf16Len("grüße"))
}

func TestSubscriptions(t *testing.T) {
	topics, ok := parseSubscription(subscription("t", "longer.name"))
	require.True(t, ok)
	require.Equal(t, []string{"t", "longer.name"}, topics)
	v3 := kmsg.NewConsumerMemberMetadata()
	v3.Version, v3.Topics, v3.UserData = 3, []string{"x"}, []byte("data")
	v3.OwnedPartitions = []kmsg.ConsumerMemberMetadataOwnedPartition{{Topic: "x", Partitions: []int32{1}}}
	topics, ok = parseSubscription(v3.AppendTo(nil))
	require.True(t, ok, "newer versions begin with the oldest one")
	require.Equal(t, []string{"x"}, topics)
	whole := subscription("t", "u")
	for n := range len(whole) {
		_, ok := parseSubscription(whole[:n])
		require.False(t, ok, "%d bytes", n)
	}
	_, ok = parseSubscription([]byte{0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0})
	require.False(t, ok, "negative version")
	_, ok = parseSubscription([]byte{0, 0, 0x7f, 0xff, 0xff, 0xff, 0, 0})
	require.False(t, ok, "more topics than bytes")
}

func voters(lists ...string) *group {
	g := newGroup("g", 0)
	for i, list := range lists {
		m := &member{id: string(rune('a' + i))}
		for name := range strings.SplitSeq(list, ",") {
			m.protocols = append(m.protocols, protocol{name: name})
		}
		g.insert(m)
	}
	return g
}

func TestVote(t *testing.T) {
	require.Equal(t, "range", voters("range,rr").vote())
	require.Equal(t, "rr", voters("range,rr", "rr,range", "rr,range").vote(), "most votes")
	require.Equal(t, "rr", voters("sticky,range,rr", "rr", "range,rr").vote(), "only what all offer")
	require.Equal(t, "range", voters("range,roundrobin", "roundrobin,range").vote(), "a tie")
	require.Equal(t, "range", voters("roundrobin,range", "range,roundrobin").vote(), "whoever came first")
	g := voters("a,b", "b,c")
	g.state, g.protocolType = Stable, "consumer"
	require.True(t, g.accepts("consumer", []protocol{{name: "b"}}))
	require.False(t, g.accepts("consumer", []protocol{{name: "a"}, {name: "c"}}))
	require.False(t, g.accepts("other", []protocol{{name: "b"}}))
}

func TestMemberIDsAreUniqueAndLikeKafkas(t *testing.T) {
	a, b := randomMemberID("client"), randomMemberID("client")
	require.NotEqual(t, a, b)
	require.Regexp(t, `^client-[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`, a)
}

// codes returns every error code that stands in an answer.
func codes(resp kmsg.Response) []int16 {
	var out []int16
	add := func(cs ...int16) { out = append(out, cs...) }
	switch r := resp.(type) {
	case *kmsg.JoinGroupResponse:
		add(r.ErrorCode)
	case *kmsg.SyncGroupResponse:
		add(r.ErrorCode)
	case *kmsg.HeartbeatResponse:
		add(r.ErrorCode)
	case *kmsg.LeaveGroupResponse:
		add(r.ErrorCode)
	case *kmsg.OffsetCommitResponse:
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				add(p.ErrorCode)
			}
		}
	case *kmsg.TxnOffsetCommitResponse:
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				add(p.ErrorCode)
			}
		}
	case *kmsg.OffsetFetchResponse:
		add(r.ErrorCode)
		for _, g := range r.Groups {
			add(g.ErrorCode)
		}
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				add(p.ErrorCode)
			}
		}
	case *kmsg.OffsetDeleteResponse:
		add(r.ErrorCode)
	case *kmsg.DescribeGroupsResponse:
		for _, g := range r.Groups {
			add(g.ErrorCode)
		}
	case *kmsg.ListGroupsResponse:
		add(r.ErrorCode)
	case *kmsg.DeleteGroupsResponse:
		for _, g := range r.Groups {
			add(g.ErrorCode)
		}
	}
	return out
}

// everyRequest is one good request of each kind.
func everyRequest() map[string]kmsg.Request {
	s := &scene{peer: &localPeer{}, group: "g", gen: 1, protocolType: "consumer"}
	del, list, od := kmsg.NewPtrDeleteGroupsRequest(), kmsg.NewPtrListGroupsRequest(), kmsg.NewPtrOffsetDeleteRequest()
	del.Groups, list.Version, od.Group = []string{"g", "g", "h"}, 5, "g"
	oldTxn := s.txnCommitReq(1, txn{}, "", -1)
	return map[string]kmsg.Request{
		"join": s.joinReq(9, ""), "sync": s.syncReq("m", 1), "heartbeat": s.heartbeatReq("m", 1), "leave": s.leaveReq("m"),
		"commit": s.commitReq(8, "", -1), "txn commit": s.txnCommitReq(5, txn{}, "", -1), "old txn commit": oldTxn,
		"fetch": s.fetchReq(9, false), "fetch v1": s.fetchReq(1, false), "fetch v7": s.fetchReq(7, true), "delete offsets": od,
		"describe": s.describeReq(5), "list": list, "delete": del,
	}
}

// What every request is told while the coordinator cannot serve it.
func TestWithoutCoordinator(t *testing.T) {
	check := func(t *testing.T, l *lab, want *kerr.Error, but map[string]*kerr.Error) {
		for name, req := range everyRequest() {
			expect := want
			if e, ok := but[name]; ok {
				expect = e
			}
			all := codes(overTheWire(t, l.request(Client{}, req)))
			require.NotEmpty(t, all, name)
			for _, c := range all {
				if expect == nil {
					require.Zero(t, c, name)
				} else if c != 0 || len(all) == 1 {
					require.Equal(t, expect.Code, c, name)
				}
			}
			if expect != nil {
				require.Contains(t, all, expect.Code, name)
			}
		}
	}
	t.Run("not here", func(t *testing.T) {
		inLab(t, func(l *lab) {
			l.co.Resigned(0, 99)
			synctest.Wait()
			check(l.t, l, kerr.NotCoordinator, map[string]*kerr.Error{"list": nil})
			require.ErrorIs(l.t, l.co.CompleteTransaction(l.ctx, 0, coordrt.Marker{}), kerr.NotCoordinator)
		})
	})
	t.Run("loading", func(t *testing.T) {
		inLab(t, func(l *lab) {
			l.log.HideTail(true)
			l.log.Manual(true)
			l.request(Client{}, everyRequest()["join"])
			synctest.Wait() // answered before the group is written
			l.elect()
			check(l.t, l, kerr.CoordinatorLoadInProgress, map[string]*kerr.Error{
				"heartbeat":      nil, // the load gives the member a new session
				"old txn commit": kerr.CoordinatorNotAvailable,
			})
			l.log.CommitAll()
			synctest.Wait()
			require.Equal(l.t, 1, l.co.Stats().Runtime.Active)
		})
	})
	t.Run("log refuses", func(t *testing.T) {
		inLab(t, func(l *lab) {
			l.log.FailAppends(kerr.KafkaStorageError)
			for _, name := range []string{"commit", "txn commit"} {
				require.Contains(l.t, codes(l.request(Client{}, everyRequest()[name])), kerr.NotCoordinator.Code, name)
			}
			l.log.FailAppends(kerr.MessageTooLarge)
			require.Contains(l.t, codes(l.request(Client{}, everyRequest()["commit"])), kerr.UnknownServerError.Code)
		})
	})
	t.Run("client gone", func(t *testing.T) {
		inLab(t, func(l *lab) {
			l.log.Manual(true)
			for name, req := range everyRequest() {
				ctx, cancel := context.WithTimeout(l.ctx, time.Second)
				dispatch(ctx, l.co, Client{}, req)
				cancel()
				_ = name
			}
			ctx, cancel := context.WithTimeout(l.ctx, time.Second)
			defer cancel()
			require.ErrorIs(l.t, l.co.CompleteTransaction(ctx, 0, coordrt.Marker{}), context.DeadlineExceeded)
		})
	})
}

type refuser struct{ asked []bool }

func (r *refuser) Verify(_ context.Context, tp model.TopicPartition, id string, p coordrt.Producer, add bool) error {
	r.asked = append(r.asked, add)
	if id == "bad" {
		return kerr.InvalidTxnState
	}
	return nil
}

func TestTransactionsAreVerified(t *testing.T) {
	v := &refuser{}
	inLab(t, func(l *lab) {
		s := &scene{peer: &localPeer{}, group: "g"}
		require.Equal(l.t, []int16{kerr.InvalidTxnState.Code}, codes(l.request(Client{}, s.txnCommitReq(5, txn{id: "bad"}, "", -1))))
		require.Empty(l.t, l.log.Batches(offsetsTP))
		require.Equal(l.t, []int16{0}, codes(l.request(Client{}, s.txnCommitReq(4, txn{id: "good"}, "", -1))))
		require.Equal(l.t, []bool{true, false}, v.asked, "old clients have added the group themselves")

		fenced := s.txnCommitReq(5, txn{id: "good", producer: 7, epoch: 3}, "", -1)
		require.Equal(l.t, []int16{0}, codes(l.request(Client{}, fenced)))
		fenced.ProducerEpoch = 2
		require.Equal(l.t, []int16{kerr.InvalidProducerEpoch.Code}, codes(l.request(Client{}, fenced)))
		fenced.Group = ""
		require.Equal(l.t, []int16{kerr.InvalidGroupID.Code}, codes(l.request(Client{}, fenced)))
	}, func(o *Options) { o.Verifier = v })
}

func TestOldestOffsetCommitHasItsOwnTime(t *testing.T) {
	inLab(t, func(l *lab) {
		s := &scene{peer: &localPeer{}, group: "g"}
		r := s.commitReq(1, "", -1)
		r.Topics[0].Partitions[0].Timestamp, r.Topics[0].Partitions[1].Timestamp = 12345, -1
		require.Equal(l.t, []int16{0, 0}, codes(l.request(Client{}, r)))
		_, err := coordrt.Peek(l.ctx, l.co.rt, 0, func(s *Shard, now time.Time) int {
			require.EqualValues(l.t, 12345, s.groups["g"].offsets["t"][0].commitMs)
			require.Equal(l.t, now.UnixMilli(), s.groups["g"].offsets["t"][1].commitMs)
			return 0
		})
		require.NoError(l.t, err)
	})
}

// An offset of a topic that was deleted and made again under its name is none for who asks by id.
func TestOffsetOfAnEarlierTopic(t *testing.T) {
	inLab(t, func(l *lab) {
		s := &scene{peer: &localPeer{}, group: "g"}
		l.request(Client{}, s.commitReq(8, "", -1))
		offset := func() int64 {
			r := kmsg.OffsetFetchRequestGroup{Group: "g", Topics: []kmsg.OffsetFetchRequestGroupTopic{{Topic: "t", TopicID: model.UUID{1}, Partitions: []int32{0}}}}
			got, err := coordrt.Peek(l.ctx, l.co.rt, 0, func(s *Shard, _ time.Time) int64 { return s.OffsetFetch(&r, false).Topics[0].Partitions[0].Offset })
			require.NoError(l.t, err)
			return got
		}
		require.EqualValues(l.t, -1, offset())
		r := s.commitReq(4, "", -1)
		r.RetentionTimeMillis = 1000 // written in the version that has no topic id
		l.request(Client{}, r)
		require.EqualValues(l.t, 42, offset())
	})
}

// A round of expiry is bounded, and the next one comes at once.
func TestExpiryInRounds(t *testing.T) {
	inLab(t, func(l *lab) {
		s := &scene{peer: &localPeer{}}
		for range 6 {
			r := s.commitReq(4, "", -1)
			r.Group, r.RetentionTimeMillis = "g"+string(rune('0'+l.co.Stats().Commits/2)), 1000
			l.request(Client{}, r)
		}
		require.EqualValues(l.t, 12, l.co.Stats().Offsets)
		time.Sleep(10*time.Minute + time.Second)
		synctest.Wait()
		require.Zero(l.t, l.co.Stats().Offsets)
		require.Zero(l.t, l.co.Stats().Groups[Empty])
		for _, b := range l.log.Batches(offsetsTP) {
			require.LessOrEqual(l.t, len(b), 400)
		}
		l.elect()
		require.Zero(l.t, l.co.Stats().Groups[Empty])
	}, func(*Options) {}, func(o *Options) { o.Log.(interface{ LimitBatches(int) }).LimitBatches(400) })
}

func TestImageTopics(t *testing.T) {
	id := model.NewUUID()
	img, _, err := (&metadata.Image{}).Apply(nil)
	if err != nil {
		img = &metadata.Image{}
	}
	topics := ImageTopics(func() *metadata.Image { return img })
	require.Empty(t, topics.Name(id))
	require.Equal(t, model.UUID{}, topics.ID("t"))
	require.False(t, topics.Has("t", 0))
}

func TestOptionsAreChecked(t *testing.T) {
	_, err := New(Options{})
	require.ErrorContains(t, err, "log, topics and number of partitions")
	require.ErrorContains(t, err, "group.max.size")
}

// Only a log that somebody else wrote can show the deletion of a group without that of its offsets.
func TestOffsetsOutliveTheirGroup(t *testing.T) {
	var stats ShardStats
	s := NewShard(ShardOptions{Groups: testGroups(), Offsets: testOffsets(), NewMemberID: numbered(), Logger: nopLogger, Stats: &stats}, &coordrt.Timers{})
	k := offsetKey{"g", "t", 0}
	require.NoError(t, s.Replay(coordrt.Position{}, (&commit{offset: 7, expireMs: noExpiry}).record(k)))
	require.NoError(t, s.Replay(coordrt.Position{Offset: 1}, groupTombstone("g")))
	require.Equal(t, "Empty", s.DescribeGroup("g", 6).State)
	require.EqualValues(t, 7, s.groups["g"].offsets["t"][0].offset)
	s.consistent(t)
	r := s.expire(time.UnixMilli(testOffsets().Retention.Milliseconds() + 1))
	require.Equal(t, []coordrt.Record{k.tombstone(), groupTombstone("g")}, r.Records)
	require.NoError(t, s.Replay(coordrt.Position{Offset: 2}, r.Records[0]))
	require.NoError(t, s.Replay(coordrt.Position{Offset: 3}, r.Records[1]))
	require.Empty(t, s.groups)
	require.NoError(t, s.Replay(coordrt.Position{Offset: 4}, groupTombstone("g")), "of a group that is not there")
	require.NoError(t, s.Replay(coordrt.Position{Offset: 5}, k.tombstone()))
	s.consistent(t)
}

// Every version of the values that Kafka has ever written.
func TestOlderVersionsAreRead(t *testing.T) {
	for version, want := range map[int16]commit{
		0: {offset: 5, leaderEpoch: -1, metadata: "m", commitMs: 1000, expireMs: noExpiry},
		1: {offset: 5, leaderEpoch: -1, metadata: "m", commitMs: 1000, expireMs: 2000},
		2: {offset: 5, leaderEpoch: -1, metadata: "m", commitMs: 1000, expireMs: noExpiry},
		3: {offset: 5, leaderEpoch: 9, metadata: "m", commitMs: 1000, expireMs: noExpiry},
		4: {offset: 5, leaderEpoch: 9, metadata: "m", commitMs: 1000, expireMs: noExpiry, topicID: model.UUID{1}},
	} {
		v := kmsg.OffsetCommitValue{Version: version, Offset: 5, LeaderEpoch: 9, Metadata: "m", CommitTimestamp: 1000, ExpireTimestamp: 2000, TopicID: model.UUID{1}}
		got, err := decodeCommit(v.AppendTo(nil), 0)
		require.NoError(t, err)
		require.Equal(t, want, got, "offset value version %d", version)
	}
	for version := range int16(5) {
		v := kmsg.GroupMetadataValue{Version: version, ProtocolType: "consumer", Generation: 4, Protocol: kmsg.StringPtr("range"), Leader: kmsg.StringPtr("b"),
			CurrentStateTimestamp: 77, Members: []kmsg.GroupMetadataValueMember{
				{MemberID: "a", ClientID: "c", ClientHost: "/h", RebalanceTimeoutMillis: 2, SessionTimeoutMillis: 3, Subscription: subscription("t"), Assignment: []byte{1}},
				{MemberID: "b", InstanceID: kmsg.StringPtr("i"), RebalanceTimeoutMillis: -1, SessionTimeoutMillis: 3, Subscription: []byte{}}}}
		g, err := decodeGroup("g", v.AppendTo(nil))
		require.NoError(t, err)
		require.Equal(t, []any{Stable, int32(4), "b", "range", 2}, []any{g.state, g.generation, g.leader, *g.protocol, len(g.members)}, "group value version %d", version)
		since, rebalance, static := int64(77), int32(2), map[string]string{"i": "b"}
		if version < 2 {
			since = -1
		}
		if version < 1 {
			rebalance = 3 // the session's
		}
		if version < 3 {
			static = nil
		}
		require.Equal(t, []any{since, rebalance, int32(3), static}, []any{g.sinceMs, g.members[0].rebalanceMs, g.members[1].rebalanceMs, g.static})
	}
	for _, bad := range [][]byte{nil, {0}, {0, 5}, {0xff, 0xff}, {0, 4, 0, 0}} {
		_, err := decodeCommit(bad, 0)
		require.ErrorIs(t, err, errRecord)
		_, err = decodeGroup("g", bad)
		require.ErrorIs(t, err, errRecord)
	}
	_, err := decodeOffsetKey([]byte{0, 1, 0, 9, 'x'})
	require.ErrorIs(t, err, errRecord)
	_, err = decodeGroupKey([]byte{0, 2, 0, 9, 'x'})
	require.ErrorIs(t, err, errRecord)
}
