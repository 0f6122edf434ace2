package groupcoord

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/internal/coordrt"
	"github.com/kbroker/kbroker/internal/model"
)

// answersFile holds what Apache Kafka 4.4.0 answered to every request of this file in every state of a group. It is written
// by running the test with KAFKA set to the address of such a broker, with group.max.size=3 and offset.metadata.max.bytes=10,
// and topics t, u and v of two partitions.
const answersFile = "testdata/kafka-4.4.0-answers.txt"

// peer answers requests: Kafka over TCP, or a Coordinator.
type peer interface {
	request(clientID string, req kmsg.Request) (kmsg.Response, error)
	topicID(name string) model.UUID
	// run makes group names of this run unique.
	run() string
}

// scene is one group that was brought into a state, for one request.
type scene struct {
	peer  peer
	group string
	// m1 leads; m2 and m3 follow, where they exist. gen is the generation.
	m1, m2, m3 string
	gen        int32
	// protocolType is what the members say.
	protocolType string
}

func (s *scene) do(clientID string, req kmsg.Request) kmsg.Response {
	resp, err := s.peer.request(clientID, req)
	if err != nil {
		panic(fmt.Errorf("%s: %w", s.group, err)) // the scene cannot be set up
	}
	return resp
}

// async sends a request whose answer nobody waits for.
func (s *scene) async(clientID string, req kmsg.Request) {
	go func() { _, _ = s.peer.request(clientID, req) }()
	time.Sleep(100 * time.Millisecond)
}

func (s *scene) joinReq(version int16, member string, change ...func(*kmsg.JoinGroupRequest)) *kmsg.JoinGroupRequest {
	r := kmsg.NewPtrJoinGroupRequest()
	r.Version, r.Group, r.MemberID = version, s.group, member
	r.SessionTimeoutMillis, r.RebalanceTimeoutMillis, r.ProtocolType = 30000, 60000, s.protocolType
	r.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: subscription("t")}, {Name: "rr", Metadata: subscription("t")}}
	for _, c := range change {
		c(r)
	}
	return r
}

func (s *scene) syncReq(member string, gen int32, assignments ...string) *kmsg.SyncGroupRequest {
	r := kmsg.NewPtrSyncGroupRequest()
	r.Version, r.Group, r.MemberID, r.Generation = 5, s.group, member, gen
	r.ProtocolType, r.Protocol = kmsg.StringPtr(s.protocolType), kmsg.StringPtr("range")
	for _, m := range assignments {
		r.GroupAssignment = append(r.GroupAssignment, kmsg.SyncGroupRequestGroupAssignment{MemberID: m, MemberAssignment: []byte("for " + s.name(m))})
	}
	return r
}

func (s *scene) heartbeatReq(member string, gen int32) *kmsg.HeartbeatRequest {
	r := kmsg.NewPtrHeartbeatRequest()
	r.Version, r.Group, r.MemberID, r.Generation = 4, s.group, member, gen
	return r
}

func (s *scene) leaveReq(members ...string) *kmsg.LeaveGroupRequest {
	r := kmsg.NewPtrLeaveGroupRequest()
	r.Version, r.Group = 5, s.group
	for _, m := range members {
		r.Members = append(r.Members, kmsg.LeaveGroupRequestMember{MemberID: m})
	}
	return r
}

func (s *scene) commitReq(version int16, member string, gen int32) *kmsg.OffsetCommitRequest {
	r := kmsg.NewPtrOffsetCommitRequest()
	r.Version, r.Group, r.MemberID, r.Generation, r.RetentionTimeMillis = version, s.group, member, gen, -1
	r.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: "t", TopicID: s.peer.topicID("t"), Partitions: []kmsg.OffsetCommitRequestTopicPartition{
		{Partition: 0, Offset: 42, LeaderEpoch: 3, Metadata: kmsg.StringPtr("meta")}, {Partition: 1, Offset: 43, LeaderEpoch: -1}}}}
	return r
}

func (s *scene) fetchReq(version int16, all bool) *kmsg.OffsetFetchRequest {
	r := kmsg.NewPtrOffsetFetchRequest()
	r.Version, r.Group = version, s.group
	if version >= 8 {
		g := kmsg.NewOffsetFetchRequestGroup()
		g.Group = s.group
		if !all {
			g.Topics = []kmsg.OffsetFetchRequestGroupTopic{{Topic: "t", TopicID: s.peer.topicID("t"), Partitions: []int32{0, 1, 7}}}
		}
		r.Groups = []kmsg.OffsetFetchRequestGroup{g}
	} else if !all {
		r.Topics = []kmsg.OffsetFetchRequestTopic{{Topic: "t", Partitions: []int32{0, 1, 7}}}
	}
	return r
}

func instance(name string) func(*kmsg.JoinGroupRequest) {
	return func(r *kmsg.JoinGroupRequest) { r.InstanceID = &name }
}

// join takes a member through the first, refused join and parks its second one; its id is returned.
func (s *scene) join(clientID string) string {
	id := s.do(clientID, s.joinReq(9, "")).(*kmsg.JoinGroupResponse).MemberID
	s.async(clientID, s.joinReq(9, id))
	return id
}

// settle waits until the joins that are parked are answered: the first delay of 3 s, and another one for who came then.
func (s *scene) settle() { time.Sleep(7 * time.Second) }

func (s *scene) stable() {
	s.completing()
	s.do("c1", s.syncReq(s.m1, s.gen, s.m1, s.m2))
	s.do("c2", s.syncReq(s.m2, s.gen))
}

func (s *scene) completing() {
	s.m1, s.m2 = s.join("c1"), s.join("c2")
	s.gen = 1
	s.settle()
}

// scenes bring a group into a state.
var scenes = []struct {
	name string
	set  func(s *scene)
}{
	{"none", func(s *scene) {}},
	{"simple", func(s *scene) { s.do("c1", s.commitReq(9, "", -1)) }},
	{"pending", func(s *scene) { s.m1 = s.do("c1", s.joinReq(9, "")).(*kmsg.JoinGroupResponse).MemberID }},
	{"initial", func(s *scene) { s.m1 = s.join("c1") }},
	{"preparing", func(s *scene) {
		s.stable()
		s.async("c1", s.joinReq(9, s.m1))
	}},
	{"completing", func(s *scene) { s.completing() }},
	{"syncing", func(s *scene) {
		s.completing()
		s.async("c2", s.syncReq(s.m2, s.gen))
	}},
	{"stable", func(s *scene) { s.stable() }},
	{"committed", func(s *scene) {
		s.stable()
		s.do("c1", s.commitReq(9, s.m1, s.gen))
	}},
	{"other type", func(s *scene) {
		s.protocolType = "other"
		s.stable()
	}},
	{"static", func(s *scene) {
		s.async("c1", s.joinReq(9, "", instance("i1")))
		s.settle()
		s.gen = 1
		s.m1 = s.do("c1", s.describeReq(5)).(*kmsg.DescribeGroupsResponse).Groups[0].Members[0].MemberID
		s.do("c1", s.syncReq(s.m1, s.gen, s.m1))
	}},
	{"empty", func(s *scene) {
		s.stable()
		s.do("c1", s.commitReq(9, s.m1, s.gen))
		s.do("c1", s.leaveReq(s.m1, s.m2))
		s.gen = 2
	}},
	{"full", func(s *scene) {
		s.m1, s.m2, s.m3 = s.join("c1"), s.join("c2"), s.join("c3")
		s.gen = 1
		s.settle()
		s.do("c1", s.syncReq(s.m1, s.gen, s.m1, s.m2, s.m3))
	}},
	{"deleted", func(s *scene) {
		s.do("c1", s.commitReq(9, "", -1))
		r := kmsg.NewPtrDeleteGroupsRequest()
		r.Version, r.Groups = 2, []string{s.group}
		s.do("c1", r)
	}},
}

func (s *scene) describeReq(version int16) *kmsg.DescribeGroupsRequest {
	r := kmsg.NewPtrDescribeGroupsRequest()
	r.Version, r.Groups = version, []string{s.group}
	return r
}

// name replaces a member id by one that can be compared.
func (s *scene) name(id string) string {
	switch {
	case id == "":
		return ""
	case id == s.m1:
		return "M1"
	case id == s.m2:
		return "M2"
	case id == s.m3:
		return "M3"
	case strings.HasPrefix(id, "c9-"), strings.HasPrefix(id, "i1-"), strings.HasPrefix(id, "i9-"):
		return id[:2] + "-new"
	}
	return id
}

// show prints an answer so that it can be compared: without times, and with member ids and topic ids replaced.
func (s *scene) show(resp kmsg.Response) string {
	switch r := resp.(type) {
	case *kmsg.JoinGroupResponse:
		slices.SortFunc(r.Members, func(a, b kmsg.JoinGroupResponseMember) int {
			return strings.Compare(s.name(a.MemberID), s.name(b.MemberID))
		})
	case *kmsg.DescribeGroupsResponse:
		for _, g := range r.Groups {
			slices.SortFunc(g.Members, func(a, b kmsg.DescribeGroupsResponseGroupMember) int {
				return strings.Compare(s.name(a.MemberID), s.name(b.MemberID))
			})
		}
	case *kmsg.ListGroupsResponse:
		r.Groups = slices.DeleteFunc(r.Groups, func(g kmsg.ListGroupsResponseGroup) bool { return g.Group != s.group })
		if len(r.Groups) == 0 {
			r.Groups = nil // and not a list from which others were removed
		}
	}
	raw, err := json.Marshal(resp)
	if err != nil {
		return err.Error()
	}
	var tree any
	if err := json.Unmarshal(raw, &tree); err != nil {
		return err.Error()
	}
	var b strings.Builder
	s.print(&b, tree)
	return b.String()
}

func (s *scene) print(b *strings.Builder, v any) {
	switch v := v.(type) {
	case map[string]any:
		b.WriteString("{")
		for _, k := range sortedKeys(v) {
			if k == "ThrottleMillis" || k == "UnknownTags" || k == "Version" || k == "AuthorizedOperations" {
				continue
			}
			b.WriteString(k + ":")
			if id, ok := v[k].([]any); ok && k == "TopicID" {
				b.WriteString(s.topic(id) + " ")
				continue
			}
			s.print(b, v[k])
			b.WriteString(" ")
		}
		b.WriteString("}")
	case []any:
		b.WriteString("[")
		for _, e := range v {
			s.print(b, e)
		}
		b.WriteString("]")
	case string:
		fmt.Fprintf(b, "%q", strings.ReplaceAll(s.name(v), s.group, "GROUP"))
	default:
		fmt.Fprint(b, v)
	}
}

func (s *scene) topic(id []any) string {
	var u model.UUID
	for i, b := range id {
		u[i] = byte(b.(float64))
	}
	for _, name := range []string{"t", "u", "v"} {
		if u == s.peer.topicID(name) {
			return "id(" + name + ")"
		}
	}
	if u == noTopic {
		return "none"
	}
	return "id(?)"
}

// probeTimeout is how long an answer is waited for; a request without one is parked.
const probeTimeout = 1500 * time.Millisecond

func (s *scene) probe(req kmsg.Request) string {
	ch := make(chan string, 1)
	go func() {
		resp, err := s.peer.request("c9", req)
		if err != nil {
			ch <- "error: " + err.Error()
			return
		}
		ch <- s.show(resp)
	}()
	select {
	case a := <-ch:
		return a
	case <-time.After(probeTimeout):
		return "(parked)"
	}
}

func eachRow(fn func(state, request string, run func(s *scene) string)) {
	for _, sc := range scenes {
		for _, pr := range probes {
			if pr.only != "" && !slices.Contains(strings.Split(pr.only, ","), sc.name) {
				continue
			}
			fn(sc.name, pr.name, func(s *scene) string {
				sc.set(s)
				out := s.probe(pr.req(s))
				if !pr.after {
					return out
				}
				time.Sleep(200 * time.Millisecond)
				return out + " THEN " + s.show(s.do("c1", s.describeReq(6)))
			})
		}
	}
}

func groupName(state, request string) string {
	return strings.NewReplacer(" ", "-", "/", "-").Replace("g/" + state + "/" + request)
}

// TestAnswersAreKafkas sends every request to a group in every state and compares the answers with those of Apache Kafka.
func TestAnswersAreKafkas(t *testing.T) {
	if addr := os.Getenv("KAFKA"); addr != "" {
		recordAnswers(t, addr)
		return
	}
	raw, err := os.ReadFile(answersFile)
	require.NoError(t, err)
	want := map[string]string{}
	for line := range strings.Lines(string(raw)) {
		if key, answer, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " => "); ok {
			want[key] = answer
		}
	}
	require.Greater(t, len(want), 500)
	synctest.Test(t, func(t *testing.T) {
		l := &lab{t: t, log: nil, ctx: t.Context()}
		p := newLocalPeer(l)
		got := collect(p, 100000)
		p.stop()
		for key, answer := range got {
			if answer != want[key] {
				t.Errorf("%s\n kafka: %s\n  here: %s", key, want[key], answer)
			}
		}
		require.Len(t, got, len(want), "rows without Kafka's answer: record them")
	})
}

// collect runs all rows, at most parallel at a time.
func collect(p peer, parallel int) map[string]string {
	var mu sync.Mutex
	out := map[string]string{}
	var wg sync.WaitGroup
	slots := make(chan struct{}, parallel)
	eachRow(func(state, request string, run func(*scene) string) {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			answer := run(&scene{peer: p, group: groupName(state, request) + p.run(), gen: -1, protocolType: "consumer"})
			mu.Lock()
			defer mu.Unlock()
			out[state+" | "+request] = answer
		})
	})
	wg.Wait()
	return out
}

func recordAnswers(t *testing.T, addr string) {
	p := newKafkaPeer(t, addr)
	p.runID = fmt.Sprint(time.Now().UnixMilli())
	got := collect(p, 150)
	var b strings.Builder
	b.WriteString("# Answers of Apache Kafka 4.4.0, see states_test.go. Written by: KAFKA=host:port go test -run TestAnswersAreKafkas\n")
	for _, k := range sortedKeys(got) {
		b.WriteString(k + " => " + got[k] + "\n")
	}
	require.NoError(t, os.WriteFile(answersFile, []byte(b.String()), 0o644))
}

// kafkaPeer is a real broker; every request has its own connection, because some are parked.
type kafkaPeer struct {
	addr  string
	runID string
	ids   map[string]model.UUID
}

func (k *kafkaPeer) run() string { return k.runID }

func (k *kafkaPeer) topicID(name string) model.UUID { return k.ids[name] }

func (k *kafkaPeer) request(clientID string, req kmsg.Request) (kmsg.Response, error) {
	conn, err := net.Dial("tcp", k.addr)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	frame := kmsg.NewRequestFormatter(kmsg.FormatterClientID(clientID)).AppendRequest(nil, req, 7)
	if _, err := conn.Write(frame); err != nil {
		return nil, err
	}
	var size [4]byte
	if _, err := io.ReadFull(conn, size[:]); err != nil {
		return nil, err
	}
	body := make([]byte, binary.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(conn, body); err != nil {
		return nil, err
	}
	body = body[4:]
	if req.IsFlexible() {
		body = body[1:]
	}
	resp := req.ResponseKind()
	resp.SetVersion(req.GetVersion())
	return resp, resp.ReadFrom(body)
}

// localPeer is a coordinator of four partitions.
type localPeer struct {
	l         *lab
	topics    fakeTopics
	producers atomic.Int64
}

func newLocalPeer(l *lab) *localPeer {
	p := &localPeer{l: l}
	l.log = newElectedLog(4)
	l.opts = Options{Log: l.log, Groups: testGroups(), Offsets: testOffsets(), Topics: p.topics, Partitions: func() int32 { return 4 }}
	l.start()
	for i := range int32(4) {
		l.co.Elected(i, 1)
	}
	synctest.Wait()
	return p
}

func (p *localPeer) stop() { p.l.stop() }

func (p *localPeer) run() string { return "" }

func (p *localPeer) topicID(name string) model.UUID { return p.topics.ID(name) }

func (p *localPeer) request(clientID string, req kmsg.Request) (kmsg.Response, error) {
	ctx, cancel := context.WithTimeout(p.l.ctx, 20*time.Second)
	defer cancel()
	switch r := req.(type) {
	case *kmsg.InitProducerIDRequest:
		resp := kmsg.NewPtrInitProducerIDResponse()
		resp.ProducerID = p.producers.Add(1)
		return resp, nil
	case *kmsg.EndTxnRequest:
		for i := range int32(4) { // the transaction coordinator knows which
			m := coordrt.Marker{ProducerID: r.ProducerID, ProducerEpoch: r.ProducerEpoch, Commit: r.Commit}
			if err := p.l.co.CompleteTransaction(ctx, i, m); err != nil {
				return nil, err
			}
		}
		return kmsg.NewPtrEndTxnResponse(), nil
	}
	seen := kmsg.RequestForKey(req.Key()) // as the coordinator sees it, over the wire
	seen.SetVersion(req.GetVersion())
	if err := seen.ReadFrom(req.AppendTo(nil)); err != nil {
		return nil, err
	}
	resp := dispatch(ctx, p.l.co, Client{ID: clientID, Host: "127.0.0.1"}, seen)
	return overTheWire(p.l.t, resp), nil
}
