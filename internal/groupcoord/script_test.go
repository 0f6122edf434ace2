package groupcoord

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/internal/coordrt"
	"github.com/kbroker/kbroker/protocol/record"
)

// script runs a story of testdata in virtual time. A request is named by its client; what is answered by the time that
// nothing moves any more is printed, and so is what earlier requests have been waiting for.
//
//	join a [member= instance= v= session= rebalance= type= protocols=range:t,rr:t+u reason=]
//	sync a member= gen= [instance= assign=a-1:x,b-1:y v=]
//	heartbeat a member= gen= [instance=]      leave a member=|members= [instance=]
//	commit a t-0=42 [member= gen= meta= retention=]   txn a producer= t-0=42   end producer= [abort]
//	fetch a t-0 t-1 [stable] | all            describe   list [states=]   delete a   delete-offsets a t-0
//	advance 3s    live a member= gen= for=1h    log    reload    append-error NAME|none    hold on|off    commit-log [next]    topic-deleted t    stats
type script struct {
	l       *lab
	mu      sync.Mutex
	order   int
	answers []scriptAnswer
	logged  int64
}

type scriptAnswer struct {
	order int
	text  string
}

func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/scripts", func(t *testing.T, path string) {
		inLab(t, func(l *lab) {
			s := &script{l: l}
			datadriven.RunTest(l.t, path, func(t *testing.T, d *datadriven.TestData) string { return s.run(d) })
		}, func(o *Options) { o.Groups.MaxSize, o.Offsets.Retention = 4, 7*time.Hour })
	})
}

// send runs a request in the background and notes its answer.
func (s *script) send(client string, req kmsg.Request, show func(kmsg.Response) string) {
	s.order++
	order := s.order
	go func() {
		resp := overTheWire(s.l.t, s.l.request(Client{ID: client, Host: "10.0.0.1"}, req))
		s.mu.Lock()
		defer s.mu.Unlock()
		s.answers = append(s.answers, scriptAnswer{order, client + ": " + show(resp)})
	}()
}

func (s *script) flush() string {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	slices.SortFunc(s.answers, func(a, b scriptAnswer) int { return a.order - b.order })
	var b strings.Builder
	for _, a := range s.answers {
		b.WriteString(a.text + "\n")
	}
	s.answers = nil
	return b.String()
}

type scriptArgs struct{ d *datadriven.TestData }

func (a scriptArgs) str(key, def string) string {
	for _, arg := range a.d.CmdArgs {
		if arg.Key == key && len(arg.Vals) > 0 {
			return strings.Join(arg.Vals, ",")
		}
	}
	return def
}

func (a scriptArgs) ptr(key string) *string {
	if v := a.str(key, ""); v != "" {
		return &v
	}
	return nil
}

func (a scriptArgs) int(key string, def int) int {
	n, err := strconv.Atoi(a.str(key, strconv.Itoa(def)))
	if err != nil {
		panic(err)
	}
	return n
}

func (a scriptArgs) has(key string) bool { return a.d.HasArg(key) }

func (a scriptArgs) millis(key, def string) int32 {
	d, err := time.ParseDuration(a.str(key, def))
	if err != nil {
		panic(err)
	}
	return int32(d.Milliseconds())
}

func (a scriptArgs) client() string { return a.d.CmdArgs[0].Key }

// partitions returns the arguments like t-0=42.
func (a scriptArgs) partitions() (out []struct {
	topic  string
	part   int32
	offset int64
},
) {
	for _, arg := range a.d.CmdArgs[1:] {
		topic, part, ok := strings.Cut(arg.Key, "-")
		n, err := strconv.Atoi(part)
		if !ok || err != nil {
			continue
		}
		offset := 0
		if len(arg.Vals) > 0 {
			offset, _ = strconv.Atoi(arg.Vals[0])
		}
		out = append(out, struct {
			topic  string
			part   int32
			offset int64
		}{topic, int32(n), int64(offset)})
	}
	return out
}

func code(c int16) string {
	if err := kerr.TypedErrorForCode(c); err != nil {
		return err.Message
	}
	return "ok"
}

func (s *script) run(d *datadriven.TestData) string {
	a := scriptArgs{d}
	commands := map[string]func(scriptArgs) string{
		"join": s.join, "sync": s.sync, "heartbeat": s.heartbeat, "leave": s.leave, "commit": s.commit, "txn": s.txn, "end": s.end,
		"fetch": s.fetch, "describe": s.describe, "list": s.list, "delete": s.deleteGroup, "delete-offsets": s.deleteOffsets,
		"advance": s.advance, "log": s.log, "reload": s.reload, "append-error": s.appendError, "hold": s.hold,
		"commit-log": s.commitLog, "live": s.live, "topic-deleted": s.topicDeleted, "stats": s.stats,
	}
	fn := commands[d.Cmd]
	if fn == nil {
		d.Fatalf(s.l.t, "no such command")
	}
	return fn(a) + s.flush()
}

func (s *script) join(a scriptArgs) string {
	r := kmsg.NewPtrJoinGroupRequest()
	r.Version, r.Group, r.MemberID, r.InstanceID = int16(a.int("v", 9)), "g", a.str("member", ""), a.ptr("instance")
	r.SessionTimeoutMillis, r.RebalanceTimeoutMillis = a.millis("session", "30s"), a.millis("rebalance", "60s")
	r.ProtocolType, r.Reason = a.str("type", "consumer"), a.ptr("reason")
	for p := range strings.SplitSeq(a.str("protocols", "range:t"), ",") {
		name, topics, _ := strings.Cut(p, ":")
		r.Protocols = append(r.Protocols, kmsg.JoinGroupRequestProtocol{Name: name, Metadata: subscription(strings.Split(topics, "+")...)})
	}
	s.send(a.client(), r, func(resp kmsg.Response) string {
		j := resp.(*kmsg.JoinGroupResponse)
		if j.ErrorCode != 0 {
			return fmt.Sprintf("join %s member=%s", code(j.ErrorCode), j.MemberID)
		}
		out := fmt.Sprintf("joined generation %d as %s, leader %s, protocol %s", j.Generation, j.MemberID, j.LeaderID, *j.Protocol)
		for _, m := range j.Members {
			out += " [" + m.MemberID
			if m.InstanceID != nil {
				out += "/" + *m.InstanceID
			}
			out += "]"
		}
		if j.SkipAssignment {
			out += " skip assignment"
		}
		return out
	})
	return ""
}

func (s *script) sync(a scriptArgs) string {
	r := kmsg.NewPtrSyncGroupRequest()
	r.Version, r.Group, r.MemberID, r.InstanceID, r.Generation = int16(a.int("v", 4)), "g", a.str("member", ""), a.ptr("instance"), int32(a.int("gen", 1))
	for p := range strings.SplitSeq(a.str("assign", ""), ",") {
		if m, part, ok := strings.Cut(p, ":"); ok {
			r.GroupAssignment = append(r.GroupAssignment, kmsg.SyncGroupRequestGroupAssignment{MemberID: m, MemberAssignment: []byte(part)})
		}
	}
	s.send(a.client(), r, func(resp kmsg.Response) string {
		sr := resp.(*kmsg.SyncGroupResponse)
		if sr.ErrorCode != 0 {
			return "sync " + code(sr.ErrorCode)
		}
		return fmt.Sprintf("assigned %q", sr.MemberAssignment)
	})
	return ""
}

func (s *script) heartbeat(a scriptArgs) string {
	r := kmsg.NewPtrHeartbeatRequest()
	r.Version, r.Group, r.MemberID, r.InstanceID, r.Generation = 4, "g", a.str("member", ""), a.ptr("instance"), int32(a.int("gen", 1))
	s.send(a.client(), r, func(resp kmsg.Response) string { return "heartbeat " + code(resp.(*kmsg.HeartbeatResponse).ErrorCode) })
	return ""
}

func (s *script) leave(a scriptArgs) string {
	r := kmsg.NewPtrLeaveGroupRequest()
	r.Version, r.Group = 5, "g"
	for m := range strings.SplitSeq(a.str("members", a.str("member", "")), ",") {
		r.Members = append(r.Members, kmsg.LeaveGroupRequestMember{MemberID: m, InstanceID: a.ptr("instance")})
	}
	s.send(a.client(), r, func(resp kmsg.Response) string {
		lr := resp.(*kmsg.LeaveGroupResponse)
		out := "leave " + code(lr.ErrorCode)
		for _, m := range lr.Members {
			out += " " + m.MemberID + ":" + code(m.ErrorCode)
		}
		return out
	})
	return ""
}

func (s *script) commit(a scriptArgs) string {
	r := kmsg.NewPtrOffsetCommitRequest()
	r.Version, r.Group, r.MemberID, r.Generation = 8, "g", a.str("member", ""), int32(a.int("gen", -1))
	if a.has("retention") {
		r.Version, r.RetentionTimeMillis = 4, int64(a.millis("retention", "0s"))
	}
	for _, p := range a.partitions() {
		r.Topics = append(r.Topics, kmsg.OffsetCommitRequestTopic{Topic: p.topic, Partitions: []kmsg.OffsetCommitRequestTopicPartition{
			{Partition: p.part, Offset: p.offset, LeaderEpoch: -1, Metadata: a.ptr("meta")}}})
	}
	s.send(a.client(), r, func(resp kmsg.Response) string {
		out := "commit"
		for _, t := range resp.(*kmsg.OffsetCommitResponse).Topics {
			for _, p := range t.Partitions {
				out += fmt.Sprintf(" %s-%d:%s", t.Topic, p.Partition, code(p.ErrorCode))
			}
		}
		return out
	})
	return ""
}

func (s *script) txn(a scriptArgs) string {
	r := kmsg.NewPtrTxnOffsetCommitRequest()
	r.Version, r.Group, r.MemberID, r.Generation, r.ProducerID = 5, "g", a.str("member", ""), int32(a.int("gen", -1)), int64(a.int("producer", 1))
	for _, p := range a.partitions() {
		r.Topics = append(r.Topics, kmsg.TxnOffsetCommitRequestTopic{Topic: p.topic, Partitions: []kmsg.TxnOffsetCommitRequestTopicPartition{
			{Partition: p.part, Offset: p.offset, LeaderEpoch: -1}}})
	}
	s.send(a.client(), r, func(resp kmsg.Response) string {
		out := "txn commit"
		for _, t := range resp.(*kmsg.TxnOffsetCommitResponse).Topics {
			for _, p := range t.Partitions {
				out += fmt.Sprintf(" %s-%d:%s", t.Topic, p.Partition, code(p.ErrorCode))
			}
		}
		return out
	})
	return ""
}

func (s *script) end(a scriptArgs) string {
	m := coordrt.Marker{ProducerID: int64(a.int("producer", 1)), Commit: !a.has("abort")}
	require.NoError(s.l.t, s.l.co.CompleteTransaction(s.l.ctx, 0, m))
	return ""
}

func (s *script) fetch(a scriptArgs) string {
	r := kmsg.NewPtrOffsetFetchRequest()
	r.Version, r.RequireStable = 9, a.has("stable")
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = "g"
	for _, p := range a.partitions() {
		g.Topics = append(g.Topics, kmsg.OffsetFetchRequestGroupTopic{Topic: p.topic, Partitions: []int32{p.part}})
	}
	r.Groups = append(r.Groups, g)
	s.send(a.client(), r, func(resp kmsg.Response) string {
		fr := resp.(*kmsg.OffsetFetchResponse).Groups[0]
		out := "offsets " + code(fr.ErrorCode)
		for _, t := range fr.Topics {
			for _, p := range t.Partitions {
				out += fmt.Sprintf(" %s-%d=%d", t.Topic, p.Partition, p.Offset)
				if p.ErrorCode != 0 {
					out += "(" + code(p.ErrorCode) + ")"
				}
				if *p.Metadata != "" {
					out += fmt.Sprintf("%q", *p.Metadata)
				}
			}
		}
		return out
	})
	return ""
}

func (s *script) describe(scriptArgs) string {
	r := kmsg.NewPtrDescribeGroupsRequest()
	r.Version, r.Groups = 5, []string{"g"}
	g := s.l.request(Client{}, r).(*kmsg.DescribeGroupsResponse).Groups[0]
	out := fmt.Sprintf("%s %s type=%q protocol=%q\n", code(g.ErrorCode), g.State, g.ProtocolType, g.Protocol)
	for _, m := range g.Members {
		out += fmt.Sprintf("  %s client=%s host=%s assignment=%q\n", m.MemberID, m.ClientID, m.ClientHost, m.MemberAssignment)
	}
	return out
}

func (s *script) list(a scriptArgs) string {
	r := kmsg.NewPtrListGroupsRequest()
	r.Version = 5
	if v := a.ptr("states"); v != nil {
		r.StatesFilter = strings.Split(*v, ",")
	}
	resp := s.l.request(Client{}, r).(*kmsg.ListGroupsResponse)
	out := code(resp.ErrorCode) + "\n"
	for _, g := range resp.Groups {
		out += fmt.Sprintf("  %s %s %s %q\n", g.Group, g.GroupType, g.GroupState, g.ProtocolType)
	}
	return out
}

func (s *script) deleteGroup(a scriptArgs) string {
	r := kmsg.NewPtrDeleteGroupsRequest()
	r.Version, r.Groups = 2, []string{"g"}
	s.send(a.client(), r, func(resp kmsg.Response) string {
		return "delete " + code(resp.(*kmsg.DeleteGroupsResponse).Groups[0].ErrorCode)
	})
	return ""
}

func (s *script) deleteOffsets(a scriptArgs) string {
	r := kmsg.NewPtrOffsetDeleteRequest()
	r.Group = "g"
	for _, p := range a.partitions() {
		r.Topics = append(r.Topics, kmsg.OffsetDeleteRequestTopic{Topic: p.topic, Partitions: []kmsg.OffsetDeleteRequestTopicPartition{{Partition: p.part}}})
	}
	s.send(a.client(), r, func(resp kmsg.Response) string {
		dr := resp.(*kmsg.OffsetDeleteResponse)
		out := "delete offsets " + code(dr.ErrorCode)
		for _, t := range dr.Topics {
			for _, p := range t.Partitions {
				out += fmt.Sprintf(" %s-%d:%s", t.Topic, p.Partition, code(p.ErrorCode))
			}
		}
		return out
	})
	return ""
}

func (s *script) advance(a scriptArgs) string {
	d, err := time.ParseDuration(a.client())
	require.NoError(s.l.t, err)
	time.Sleep(d)
	return ""
}

// live sends heartbeats for a while.
func (s *script) live(a scriptArgs) string {
	for d := time.Duration(a.millis("for", "1h")) * time.Millisecond; d > 0; d -= 20 * time.Minute {
		s.heartbeat(a)
		if got := s.flush(); got != a.client()+": heartbeat ok\n" {
			return got
		}
		time.Sleep(min(d, 20*time.Minute))
	}
	return ""
}

// log prints what was written since the last time.
func (s *script) log(scriptArgs) string {
	var out strings.Builder
	d := record.NewDecoder(1 << 20)
	defer d.Release()
	for _, b := range s.l.log.Batches(offsetsTP) {
		if b.BaseOffset() < s.logged {
			continue
		}
		s.logged = b.NextOffset()
		if commit, _, ok, err := record.ParseEndTxnMarker(b); ok {
			require.NoError(s.l.t, err)
			fmt.Fprintf(&out, "%d marker producer=%d commit=%v\n", b.BaseOffset(), b.ProducerID(), commit)
			continue
		}
		for r, err := range b.Records(d) {
			require.NoError(s.l.t, err)
			fmt.Fprintf(&out, "%d %s\n", r.Offset, describeRecord(s.l.t, b, &r))
		}
	}
	return out.String()
}

func describeRecord(t *testing.T, b record.Batch, r *record.Record) string {
	if r.Key[1] == byte(typeGroupMetadata) {
		id, err := decodeGroupKey(r.Key)
		require.NoError(t, err)
		if r.Value == nil {
			return "group " + id + " deleted"
		}
		g, err := decodeGroup(id, r.Value)
		require.NoError(t, err)
		out := fmt.Sprintf("group %s type=%q generation=%d leader=%q", id, g.protocolType, g.generation, g.leader)
		for _, m := range g.members {
			out += fmt.Sprintf(" %s=%q", m.id, m.assignment)
		}
		return out
	}
	k, err := decodeOffsetKey(r.Key)
	require.NoError(t, err)
	out := fmt.Sprintf("offset %s %s-%d", k.group, k.topic, k.partition)
	if b.IsTransactional() {
		out = fmt.Sprintf("producer=%d ", b.ProducerID()) + out
	}
	if r.Value == nil {
		return out + " deleted"
	}
	c, err := decodeCommit(r.Value, r.Offset)
	require.NoError(t, err)
	return out + fmt.Sprintf(" = %d", c.offset)
}

func (s *script) reload(scriptArgs) string {
	s.l.elect()
	return ""
}

func (s *script) appendError(a scriptArgs) string {
	errs := map[string]error{"none": nil, "NOT_ENOUGH_REPLICAS": kerr.NotEnoughReplicas, "NOT_LEADER": kerr.NotLeaderForPartition}
	err, ok := errs[a.client()]
	require.True(s.l.t, ok)
	s.l.log.FailAppends(err)
	return ""
}

func (s *script) hold(a scriptArgs) string {
	s.l.log.Manual(a.client() == "on")
	return ""
}

func (s *script) commitLog(a scriptArgs) string {
	if a.has("next") { // one record
		_, hw, _, _ := s.l.log.Bounds(offsetsTP)
		s.l.log.Commit(offsetsTP, hw+1)
		return ""
	}
	s.l.log.CommitAll()
	return ""
}

func (s *script) topicDeleted(a scriptArgs) string {
	name := a.client()
	id := s.l.topics.ID(name)
	s.l.topics.gone[name] = true
	s.l.co.TopicsDeleted([]DeletedTopic{{Name: name, ID: id}})
	return ""
}

func (s *script) stats(scriptArgs) string {
	st := s.l.co.Stats()
	var out strings.Builder
	for i := range states {
		if n := st.Groups[State(i)]; n != 0 {
			fmt.Fprintf(&out, "%s=%d ", State(i), n)
		}
	}
	fmt.Fprintf(&out, "offsets=%d pending=%d rebalances=%d commits=%d expirations=%d deletions=%d\n",
		st.Offsets, st.PendingOffsets, st.Rebalances, st.Commits, st.Expirations, st.Deletions)
	return out.String()
}
