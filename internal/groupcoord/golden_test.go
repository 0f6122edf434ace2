package groupcoord

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/internal/model"
	"github.com/kbroker/kbroker/protocol/record"
)

// A log that Apache Kafka 4.4.0 wrote, and what it answered at the end. Both are made by running the test with KAFKA_FRESH
// set to the address of a new broker with offsets.topic.num.partitions=1, log.flush.interval.messages=1 and topics t, u and
// v of two partitions, and KAFKA_DIR to its log directory.
const (
	goldenLog     = "testdata/kafka-4.4.0-consumer-offsets.log"
	goldenAnswers = "testdata/kafka-4.4.0-consumer-offsets.txt"
)

var goldenGroups = []string{"simple", "retained", "stable", "empty", "txn", "deleted", "offset-deleted", "newer", "nosuch"}

// play makes a history with every kind of record.
func play(p peer) {
	scene := func(group string) *scene { return &scene{peer: p, group: group, gen: -1, protocolType: "consumer"} }

	scene("simple").do("c1", scene("simple").commitReq(9, "", -1))
	s := scene("retained")
	r := s.commitReq(4, "", -1)
	r.RetentionTimeMillis = 3600_000
	s.do("c1", r)

	s = scene("stable")
	s.async("c1", s.joinReq(9, "", instance("i1")))
	s.m2 = s.join("c2")
	s.settle()
	s.gen = 1
	for _, m := range s.do("c1", s.describeReq(5)).(*kmsg.DescribeGroupsResponse).Groups[0].Members {
		if m.InstanceID != nil {
			s.m1 = m.MemberID
		}
	}
	s.async("c2", s.syncReq(s.m2, 1))
	s.do("c1", s.syncReq(s.m1, 1, s.m1, s.m2))
	s.do("c1", s.commitReq(10, s.m2, 1))
	s.do("c1", s.joinReq(9, "", instance("i1"))) // restarted, under another id

	s = scene("empty")
	s.stable()
	s.do("c1", s.commitReq(9, s.m1, s.gen))
	s.do("c1", s.leaveReq(s.m1, s.m2))

	s = scene("txn")
	t := s.begin("x")
	s.do("p", s.txnCommitReq(5, t, "", -1))
	s.end(t, true)
	t = s.begin("y")
	req := s.txnCommitReq(5, t, "", -1)
	req.Topics[0].Partitions[0].Offset = 101
	s.do("p", req)
	s.end(t, false)
	req = s.txnCommitReq(5, s.begin("z"), "", -1)
	req.Topics[0].Partitions[0].Partition = 1
	s.do("p", req)

	s = scene("deleted")
	s.do("c1", s.commitReq(9, "", -1))
	del := kmsg.NewPtrDeleteGroupsRequest()
	del.Version, del.Groups = 2, []string{s.group}
	s.do("c1", del)
	s = scene("offset-deleted")
	s.do("c1", s.commitReq(9, "", -1))
	od := kmsg.NewPtrOffsetDeleteRequest()
	od.Group = s.group
	od.Topics = []kmsg.OffsetDeleteRequestTopic{{Topic: "t", Partitions: []kmsg.OffsetDeleteRequestTopicPartition{{Partition: 1}}}}
	s.do("c1", od)

	newerGroups(scene("newer"))
}

// newerGroups writes records of the kinds of groups that this package does not know.
func newerGroups(s *scene) {
	hb := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	hb.Version, hb.Group, hb.MemberID, hb.RebalanceTimeoutMillis = 1, s.group, "AAAAAAAAAAAAAAAAAAAAAA", 60000
	hb.SubscribedTopicNames, hb.Topics = []string{"t", "u"}, []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	epoch := s.do("c1", hb).(*kmsg.ConsumerGroupHeartbeatResponse).MemberEpoch
	s.do("c1", s.commitReq(9, hb.MemberID, epoch))
	sh := kmsg.NewPtrShareGroupHeartbeatRequest()
	sh.Version, sh.GroupID, sh.MemberID, sh.SubscribedTopicNames = 1, "shared", "BAAAAAAAAAAAAAAAAAAAAA", []string{"t"}
	s.do("c1", sh)
}

// ask returns the answers that the log must give.
func ask(p peer) string {
	var b strings.Builder
	for _, group := range goldenGroups {
		s := &scene{peer: p, group: group, gen: -1}
		b.WriteString(group + " offsets " + s.show(s.do("c1", s.fetchReq(9, false))) + "\n")
		b.WriteString(group + " stable  " + s.show(s.do("c1", s.stableFetch())) + "\n")
		if group != "newer" { // which is of another kind for Kafka, and simple here
			b.WriteString(group + " group   " + s.show(s.do("c1", s.describeReq(6))) + "\n")
		}
	}
	return b.String()
}

func makeGolden(t *testing.T, addr string) {
	p := newKafkaPeer(t, addr)
	play(p)
	require.NoError(t, os.WriteFile(goldenAnswers, []byte(ask(p)), 0o644))
	raw, err := os.ReadFile(filepath.Join(os.Getenv("KAFKA_DIR"), "__consumer_offsets-0", "00000000000000000000.log"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(goldenLog, raw, 0o644))
}

func TestKafkasLogIsUnderstood(t *testing.T) {
	if addr := os.Getenv("KAFKA_FRESH"); addr != "" {
		makeGolden(t, addr)
	}
	raw, err := os.ReadFile(goldenLog)
	require.NoError(t, err)
	want, err := os.ReadFile(goldenAnswers)
	require.NoError(t, err)
	synctest.Test(t, func(t *testing.T) {
		// The members' sessions must not be over: virtual time begins in the year 2000, so they are not.
		l := &lab{t: t, ctx: t.Context(), log: newElectedLog(1)}
		require.NoError(t, l.log.Put(offsetsTP, raw))
		p := &localPeer{l: l}
		l.opts = Options{Log: l.log, Groups: testGroups(), Offsets: testOffsets(), Topics: p.topics, Partitions: func() int32 { return 1 }}
		l.start()
		l.co.Elected(0, 1)
		synctest.Wait()
		require.Equal(t, string(want), ask(p))
		require.Greater(t, l.co.Stats().UnknownRecords, int64(5), "consumer and share groups")
		require.EqualValues(t, 1, l.co.Stats().PendingOffsets)
		l.stop()
	})
}

// What Kafka wrote and what this package writes for the same are the same bytes.
func TestRecordsAreKafkasByteForByte(t *testing.T) {
	raw, err := os.ReadFile(goldenLog)
	require.NoError(t, err)
	kinds := map[string]int{}
	d := record.NewDecoder(1 << 20)
	defer d.Release()
	for b, err := range record.Split(raw) {
		require.NoError(t, err)
		if b.IsControl() {
			continue
		}
		for r, err := range b.Records(d) {
			require.NoError(t, err)
			switch kind := r.Key[1]; {
			case kind == byte(typeOffset):
				k, err := decodeOffsetKey(r.Key)
				require.NoError(t, err)
				if r.Value == nil {
					require.Equal(t, r.Key, k.tombstone().Key)
					kinds["offset tombstone"]++
					continue
				}
				c, err := decodeCommit(r.Value, r.Offset)
				require.NoError(t, err)
				again := c.record(k)
				require.Equal(t, r.Key, again.Key)
				require.Equal(t, r.Value, again.Value)
				kinds["offset v"+string('0'+rune(r.Value[1]))]++
			case kind == byte(typeGroupMetadata):
				id, err := decodeGroupKey(r.Key)
				require.NoError(t, err)
				if r.Value == nil {
					require.Equal(t, r.Key, groupTombstone(id).Key)
					kinds["group tombstone"]++
					continue
				}
				g, err := decodeGroup(id, r.Value)
				require.NoError(t, err)
				again := g.record((*member).assigned)
				require.Equal(t, r.Key, again.Key)
				require.Equal(t, r.Value, again.Value)
				kinds["group v"+string('0'+rune(r.Value[1]))]++
			default:
				kinds["other"]++
			}
		}
	}
	for _, kind := range []string{"offset v1", "offset v4", "offset tombstone", "group v3", "group tombstone", "other"} {
		require.Positive(t, kinds[kind], "the log has no %s", kind)
	}
}

func newKafkaPeer(t *testing.T, addr string) *kafkaPeer {
	p := &kafkaPeer{addr: addr, ids: map[string]model.UUID{}}
	md := kmsg.NewPtrMetadataRequest()
	md.Version = 12
	for _, name := range []string{"t", "u", "v"} {
		md.Topics = append(md.Topics, kmsg.MetadataRequestTopic{Topic: kmsg.StringPtr(name)})
	}
	resp, err := p.request("c", md)
	require.NoError(t, err)
	for _, topic := range resp.(*kmsg.MetadataResponse).Topics {
		p.ids[*topic.Topic] = topic.TopicID
	}
	for kind := range int8(2) {
		fc := kmsg.NewPtrFindCoordinatorRequest()
		fc.Version, fc.CoordinatorType, fc.CoordinatorKeys = 4, kind, []string{"any"}
		for known := false; !known; time.Sleep(time.Second) { // the internal topic is being made
			resp, err := p.request("c", fc)
			require.NoError(t, err)
			known = resp.(*kmsg.FindCoordinatorResponse).Coordinators[0].ErrorCode == 0
		}
	}
	return p
}
