package groupcoord

import (
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/internal/coordrt/coordtest"
	"github.com/kbroker/kbroker/internal/model"
)

func newElectedLog(partitions int32) *coordtest.Log {
	log := coordtest.New()
	for i := range partitions {
		log.Lead(model.TopicPartition{Topic: model.GroupMetadataTopic, Partition: i}, 1)
	}
	return log
}

// probe is a request to be sent to a group in every state, or only in some. With after set, what became of the group is
// told as well.
type probe struct {
	name  string
	req   func(s *scene) kmsg.Request
	only  string
	after bool
}

func protocols(names ...string) func(*kmsg.JoinGroupRequest) {
	return func(r *kmsg.JoinGroupRequest) {
		r.Protocols = nil
		for _, n := range names {
			r.Protocols = append(r.Protocols, kmsg.JoinGroupRequestProtocol{Name: n, Metadata: subscription("t", "u")})
		}
	}
}

func withType(name string) func(*kmsg.JoinGroupRequest) {
	return func(r *kmsg.JoinGroupRequest) { r.ProtocolType = name }
}

func session(ms int32) func(*kmsg.JoinGroupRequest) {
	return func(r *kmsg.JoinGroupRequest) { r.SessionTimeoutMillis = ms }
}

func emptyGroup(r *kmsg.JoinGroupRequest) { r.Group = "" }

// who are the speakers that a request is tried with.
var who = []struct {
	name   string
	member func(s *scene) string
}{
	{"leader", func(s *scene) string { return s.m1 }},
	{"follower", func(s *scene) string { return s.m2 }},
	{"stranger", func(*scene) string { return "stranger" }},
	{"nobody", func(*scene) string { return "" }},
}

var generations = []struct {
	name string
	of   func(s *scene) int32
}{
	{"now", func(s *scene) int32 { return s.gen }},
	{"old", func(s *scene) int32 { return s.gen - 1 }},
	{"none", func(*scene) int32 { return -1 }},
	{"next", func(s *scene) int32 { return max(s.gen, 0) + 1 }},
}

var probes = allProbes()

func allProbes() []probe {
	ps := append(joinProbes(), memberProbes()...)
	ps = append(ps, offsetProbes()...)
	ps = append(ps, txnProbes()...)
	return append(ps, adminProbes()...)
}

func joinProbes() []probe {
	var ps []probe
	add := func(name string, version int16, member func(*scene) string, change ...func(*kmsg.JoinGroupRequest)) {
		ps = append(ps, probe{name: "join " + name, after: true, req: func(s *scene) kmsg.Request {
			return s.joinReq(version, member(s), change...)
		}})
	}
	nobody := who[3].member
	for _, v := range []int16{0, 3, 4, 5, 9} {
		add("new v"+string(rune('0'+v)), v, nobody)
	}
	for _, w := range who[:3] {
		add("again "+w.name, 9, w.member)
		add("again v2 "+w.name, 2, w.member)
		add("changed "+w.name, 9, w.member, protocols("range"))
		add("other protocol "+w.name, 9, w.member, protocols("unknown"))
		add("other type "+w.name, 9, w.member, withType("another"))
		add("instance i1 "+w.name, 9, w.member, instance("i1"))
	}
	add("no protocols", 9, nobody, protocols())
	add("no type", 9, nobody, withType(""))
	add("other type", 9, nobody, withType("another"))
	add("unknown protocol", 9, nobody, protocols("unknown"))
	add("common protocol", 9, nobody, protocols("unknown", "rr"))
	add("static new", 9, nobody, instance("i9"))
	add("static known v5", 5, nobody, instance("i1"))
	add("static known v9", 9, nobody, instance("i1"))
	add("static known changed", 9, nobody, instance("i1"), protocols("range"))
	add("static known other protocol first", 9, nobody, instance("i1"), protocols("rr", "range"))
	add("session too short", 9, nobody, session(5999))
	add("session too long", 9, nobody, session(1800001))
	ps = append(ps, probe{name: "join no group", only: "none", req: func(s *scene) kmsg.Request { return s.joinReq(9, "x", emptyGroup) }})
	return ps
}

func memberProbes() []probe {
	var ps []probe
	for _, w := range who {
		for _, g := range generations {
			ps = append(ps,
				probe{name: "heartbeat " + w.name + " " + g.name, req: func(s *scene) kmsg.Request { return s.heartbeatReq(w.member(s), g.of(s)) }},
				probe{name: "sync " + w.name + " " + g.name, req: func(s *scene) kmsg.Request { return s.syncReq(w.member(s), g.of(s), s.m1) }},
			)
		}
		ps = append(ps,
			probe{name: "leave " + w.name, after: true, req: func(s *scene) kmsg.Request { return s.leaveReq(w.member(s)) }},
			probe{name: "leave v1 " + w.name, req: func(s *scene) kmsg.Request {
				r := s.leaveReq()
				r.Version, r.MemberID = 1, w.member(s)
				return r
			}},
			probe{name: "heartbeat instance i1 " + w.name, req: func(s *scene) kmsg.Request {
				r := s.heartbeatReq(w.member(s), s.gen)
				r.InstanceID = kmsg.StringPtr("i1")
				return r
			}},
			probe{name: "leave instance i1 " + w.name, after: true, req: func(s *scene) kmsg.Request {
				r := s.leaveReq(w.member(s))
				r.Members[0].InstanceID = kmsg.StringPtr("i1")
				return r
			}},
			probe{name: "sync instance i1 " + w.name, req: func(s *scene) kmsg.Request {
				r := s.syncReq(w.member(s), s.gen)
				r.InstanceID = kmsg.StringPtr("i1")
				return r
			}},
			probe{name: "sync other type " + w.name, req: func(s *scene) kmsg.Request {
				r := s.syncReq(w.member(s), s.gen)
				r.ProtocolType = kmsg.StringPtr("another")
				return r
			}},
			probe{name: "sync no protocol " + w.name, req: func(s *scene) kmsg.Request {
				r := s.syncReq(w.member(s), s.gen)
				r.Protocol = nil
				return r
			}},
			probe{name: "sync v4 " + w.name, req: func(s *scene) kmsg.Request {
				r := s.syncReq(w.member(s), s.gen)
				r.Version = 4
				return r
			}},
			probe{name: "sync other protocol " + w.name, req: func(s *scene) kmsg.Request {
				r := s.syncReq(w.member(s), s.gen)
				r.Protocol = kmsg.StringPtr("another")
				return r
			}},
		)
	}
	ps = append(ps,
		probe{name: "sync v0 leader", req: func(s *scene) kmsg.Request {
			r := s.syncReq(s.m1, s.gen, s.m1, s.m2)
			r.Version = 0
			return r
		}},
		probe{name: "heartbeat v0 leader", req: func(s *scene) kmsg.Request {
			r := s.heartbeatReq(s.m1, s.gen)
			r.Version = 0
			return r
		}},
		probe{name: "leave all", after: true, req: func(s *scene) kmsg.Request { return s.leaveReq(s.m1, "stranger", s.m2, s.m3) }},
		probe{name: "leave none", after: true, req: func(s *scene) kmsg.Request { return s.leaveReq() }},
	)
	for _, r := range []kmsg.Request{kmsg.NewPtrHeartbeatRequest(), kmsg.NewPtrSyncGroupRequest(), kmsg.NewPtrLeaveGroupRequest()} {
		r.SetVersion(3)
		ps = append(ps, probe{name: "no group " + kmsg.NameForKey(r.Key()), only: "none", req: func(*scene) kmsg.Request { return r }})
	}
	return ps
}

func offsetProbes() []probe {
	var ps []probe
	for _, w := range who {
		for _, g := range generations {
			ps = append(ps, probe{name: "commit " + w.name + " " + g.name, req: func(s *scene) kmsg.Request { return s.commitReq(8, w.member(s), g.of(s)) }})
		}
		ps = append(ps, probe{name: "commit instance i1 " + w.name, req: func(s *scene) kmsg.Request {
			r := s.commitReq(8, w.member(s), s.gen)
			r.InstanceID = kmsg.StringPtr("i1")
			return r
		}})
	}
	for _, v := range []int16{2, 5, 9, 10} {
		ps = append(ps, probe{name: "commit leader v" + string(rune('0'+v%10)), req: func(s *scene) kmsg.Request { return s.commitReq(v, s.m1, s.gen) }},
			probe{name: "commit stranger v" + string(rune('0'+v%10)), req: func(s *scene) kmsg.Request { return s.commitReq(v, "stranger", 5) }})
	}
	ps = append(ps, probe{name: "commit mixed", req: func(s *scene) kmsg.Request {
		r := s.commitReq(8, s.m1, s.gen)
		r.Topics[0].Partitions[1].Metadata = kmsg.StringPtr(strings.Repeat("x", 11))
		r.Topics[0].Partitions = append(r.Topics[0].Partitions, kmsg.OffsetCommitRequestTopicPartition{Partition: 7, Offset: 1})
		r.Topics = append(r.Topics, kmsg.OffsetCommitRequestTopic{Topic: "nosuch", Partitions: []kmsg.OffsetCommitRequestTopicPartition{{Partition: 0}}})
		return r
	}}, probe{name: "commit unknown topic", req: func(s *scene) kmsg.Request {
		r := s.commitReq(8, s.m1, 99)
		r.Topics[0].Topic = "nosuch"
		return r
	}}, probe{name: "commit unknown id", req: func(s *scene) kmsg.Request {
		r := s.commitReq(10, s.m1, s.gen)
		r.Topics[0].TopicID = model.UUID{9, 9}
		return r
	}}, probe{name: "commit nothing", req: func(s *scene) kmsg.Request {
		r := s.commitReq(8, s.m1, 99)
		r.Topics = nil
		return r
	}})
	for _, v := range []int16{1, 2, 5, 6, 7, 8, 9, 10} {
		name := "fetch v" + string(rune('0'+v%10))
		ps = append(ps, probe{name: name, req: func(s *scene) kmsg.Request { return s.fetchReq(v, false) }})
		if v >= 2 {
			ps = append(ps, probe{name: name + " all", req: func(s *scene) kmsg.Request { return s.fetchReq(v, true) }})
		}
		if v >= 7 {
			ps = append(ps, probe{name: name + " stable", req: func(s *scene) kmsg.Request {
				r := s.fetchReq(v, false)
				r.RequireStable = true
				return r
			}})
		}
	}
	ps = append(ps, probe{name: "fetch unknown id", req: func(s *scene) kmsg.Request {
		r := s.fetchReq(10, false)
		r.Groups[0].Topics = append(r.Groups[0].Topics, kmsg.OffsetFetchRequestGroupTopic{TopicID: model.UUID{9, 9}, Partitions: []int32{0}})
		return r
	}}, probe{name: "fetch unknown topic", req: func(s *scene) kmsg.Request {
		r := s.fetchReq(9, false)
		r.Groups[0].Topics[0].Topic = "nosuch"
		return r
	}}, probe{name: "fetch as stranger", req: func(s *scene) kmsg.Request {
		r := s.fetchReq(9, false)
		r.Groups[0].MemberID, r.Groups[0].MemberEpoch = kmsg.StringPtr("stranger"), 3
		return r
	}})
	for _, topic := range []string{"t", "u", "nosuch"} {
		ps = append(ps, probe{name: "delete offsets " + topic, req: func(s *scene) kmsg.Request {
			r := kmsg.NewPtrOffsetDeleteRequest()
			r.Group = s.group
			r.Topics = []kmsg.OffsetDeleteRequestTopic{{Topic: topic, Partitions: []kmsg.OffsetDeleteRequestTopicPartition{{Partition: 0}, {Partition: 1}, {Partition: 7}}}}
			return r
		}})
	}
	ps = append(ps, probe{name: "no group OffsetDelete", only: "none", req: func(*scene) kmsg.Request { return kmsg.NewPtrOffsetDeleteRequest() }})
	return ps
}

func adminProbes() []probe {
	var ps []probe
	for _, v := range []int16{0, 3, 5, 6} {
		ps = append(ps, probe{name: "describe v" + string(rune('0'+v)), req: func(s *scene) kmsg.Request { return s.describeReq(v) }})
	}
	for _, v := range []int16{0, 3, 4, 5} {
		ps = append(ps, probe{name: "list v" + string(rune('0'+v)), req: func(*scene) kmsg.Request {
			r := kmsg.NewPtrListGroupsRequest()
			r.Version = v
			return r
		}})
	}
	for name, f := range map[string][2][]string{
		"stable": {{"Stable"}, nil}, "odd case": {{" sTABLE", "empty "}, nil}, "unknown state": {{"nosuch"}, nil},
		"preparing": {{"PreparingRebalance", "CompletingRebalance"}, nil}, "dead": {{"Dead"}, nil},
		"classic": {nil, []string{"CLASSIC"}}, "consumer": {nil, []string{"consumer"}}, "unknown type": {nil, []string{"nosuch"}},
		"both": {{"Stable"}, []string{"consumer", "classic"}},
	} {
		ps = append(ps, probe{name: "list " + name, req: func(*scene) kmsg.Request {
			r := kmsg.NewPtrListGroupsRequest()
			r.Version, r.StatesFilter, r.TypesFilter = 5, f[0], f[1]
			return r
		}})
	}
	for _, v := range []int16{0, 2, 3} {
		ps = append(ps, probe{name: "delete group v" + string(rune('0'+v)), after: true, req: func(s *scene) kmsg.Request {
			r := kmsg.NewPtrDeleteGroupsRequest()
			r.Version, r.Groups = v, []string{s.group, s.group}
			return r
		}})
	}
	return ps
}

// txn is an open transaction of a new producer.
type txn struct {
	id       string
	producer int64
	epoch    int16
}

func (s *scene) begin(name string) txn {
	r := kmsg.NewPtrInitProducerIDRequest()
	r.Version, r.TransactionalID, r.TransactionTimeoutMillis = 4, kmsg.StringPtr(s.group+name), 60000
	resp := s.do("p", r).(*kmsg.InitProducerIDResponse)
	for resp.ErrorCode != 0 { // ids come in blocks, the next one may have to be fetched
		time.Sleep(100 * time.Millisecond)
		resp = s.do("p", r).(*kmsg.InitProducerIDResponse)
	}
	return txn{*r.TransactionalID, resp.ProducerID, resp.ProducerEpoch}
}

func (s *scene) txnCommitReq(version int16, t txn, member string, gen int32) *kmsg.TxnOffsetCommitRequest {
	r := kmsg.NewPtrTxnOffsetCommitRequest()
	r.Version, r.TransactionalID, r.Group, r.ProducerID, r.ProducerEpoch = version, t.id, s.group, t.producer, t.epoch
	r.MemberID, r.Generation = member, gen
	r.Topics = []kmsg.TxnOffsetCommitRequestTopic{{Topic: "t", TopicID: s.peer.topicID("t"), Partitions: []kmsg.TxnOffsetCommitRequestTopicPartition{
		{Partition: 0, Offset: 100, LeaderEpoch: 5, Metadata: kmsg.StringPtr("txn")}}}}
	return r
}

func (s *scene) end(t txn, commit bool) {
	r := kmsg.NewPtrEndTxnRequest()
	r.Version, r.TransactionalID, r.ProducerID, r.ProducerEpoch, r.Commit = 4, t.id, t.producer, t.epoch, commit
	s.do("p", r)
	time.Sleep(time.Second) // the markers are written after the answer
}

func (s *scene) stableFetch() *kmsg.OffsetFetchRequest {
	r := s.fetchReq(9, false)
	r.RequireStable = true
	return r
}

func txnProbes() []probe {
	var ps []probe
	for _, w := range who {
		for _, g := range generations {
			ps = append(ps, probe{name: "txn commit " + w.name + " " + g.name, req: func(s *scene) kmsg.Request {
				return s.txnCommitReq(5, s.begin("x"), w.member(s), g.of(s))
			}})
		}
	}
	add := func(name, only string, req func(s *scene) kmsg.Request) {
		ps = append(ps, probe{name: "txn " + name, only: only, req: req})
	}
	some := "none,simple,committed,empty,deleted"
	add("v6 stranger", "none,stable", func(s *scene) kmsg.Request { return s.txnCommitReq(6, s.begin("x"), "stranger", 5) })
	add("v6", some, func(s *scene) kmsg.Request { return s.txnCommitReq(6, s.begin("x"), "", -1) })
	add("v6 unknown id", some, func(s *scene) kmsg.Request {
		r := s.txnCommitReq(6, s.begin("x"), "", -1)
		r.Topics[0].TopicID = model.UUID{9, 9}
		return r
	})
	add("metadata too long", some, func(s *scene) kmsg.Request {
		r := s.txnCommitReq(5, s.begin("x"), "", -1)
		r.Topics[0].Partitions[0].Metadata = kmsg.StringPtr(strings.Repeat("x", 11))
		return r
	})
	add("instance i1", "static,stable", func(s *scene) kmsg.Request {
		r := s.txnCommitReq(5, s.begin("x"), s.m1, s.gen)
		r.InstanceID = kmsg.StringPtr("i1")
		return r
	})
	// What becomes of pending offsets. fn leaves a group behind that is then asked for its offsets, or described.
	after := func(name string, fn func(s *scene)) {
		add(name+", fetch", some, func(s *scene) kmsg.Request { fn(s); return s.fetchReq(9, false) })
		add(name+", stable fetch", some, func(s *scene) kmsg.Request { fn(s); return s.stableFetch() })
		add(name+", fetch all", some, func(s *scene) kmsg.Request { fn(s); return s.fetchReq(9, true) })
		add(name+", describe", some, func(s *scene) kmsg.Request { fn(s); return s.describeReq(5) })
	}
	pending := func(s *scene) txn {
		t := s.begin("x")
		s.do("p", s.txnCommitReq(5, t, "", -1))
		return t
	}
	after("pending", func(s *scene) { pending(s) })
	after("committed", func(s *scene) { s.end(pending(s), true) })
	after("aborted", func(s *scene) { s.end(pending(s), false) })
	after("two pending", func(s *scene) {
		t := pending(s)
		s.do("p", s.txnCommitReq(5, s.begin("y"), "", -1))
		s.end(t, true)
	})
	after("overtaken by a commit", func(s *scene) {
		t := pending(s)
		s.do("c1", s.commitReq(9, "", -1))
		s.end(t, true)
	})
	after("offset deleted", func(s *scene) {
		t := pending(s)
		r := kmsg.NewPtrOffsetDeleteRequest()
		r.Group = s.group
		r.Topics = []kmsg.OffsetDeleteRequestTopic{{Topic: "t", Partitions: []kmsg.OffsetDeleteRequestTopicPartition{{Partition: 0}}}}
		s.do("c1", r)
		s.end(t, true)
	})
	after("group deleted", func(s *scene) {
		t := pending(s)
		r := kmsg.NewPtrDeleteGroupsRequest()
		r.Version, r.Groups = 2, []string{s.group}
		s.do("c1", r)
		s.end(t, true)
	})
	return ps
}
