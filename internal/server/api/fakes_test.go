package api

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/internal/broker"
	"github.com/kbroker/kbroker/internal/groupcoord"
	"github.com/kbroker/kbroker/internal/metadata"
	"github.com/kbroker/kbroker/internal/model"
	"github.com/kbroker/kbroker/partition"
	"github.com/kbroker/kbroker/partition/producer"
	"github.com/kbroker/kbroker/protocol/record"
)

func (w *world) note(format string, args ...any) {
	w.noting.Lock()
	defer w.noting.Unlock()
	fmt.Fprintf(&w.log, "-> "+format, args...)
}

// fakeData answers with numbers made from the request; topics named error.X fail with X.
type fakeData struct{ w *world }

// topicOf returns the name behind a reference.
func (f fakeData) topicOf(ref broker.TopicRef) string {
	if t := f.w.image.TopicByID(ref.ID); t != nil {
		return t.Name
	}
	return ref.Name
}

// hint is where a client is sent when the leader is elsewhere.
func hint(err error) (id, epoch int32) {
	if err == nil || !strings.Contains(err.Error(), "NOT_LEADER") && !strings.Contains(err.Error(), "FENCED_LEADER") {
		return model.NoLeader, model.NoEpoch
	}
	return 2, 33
}

func (f fakeData) Produce(_ context.Context, r broker.ProduceRequest, done func([]broker.ProduceResult)) {
	f.w.note("%s", dump(r))
	var out []broker.ProduceResult
	for i, p := range r.Partitions {
		res := broker.ProduceResult{BaseOffset: int64(100 + i), LogAppendTime: -1, LogStartOffset: 3, LeaderID: -1, LeaderEpoch: -1}
		if err := errorOf(f.topicOf(p.Topic)); err != nil {
			res = broker.ProduceResult{Err: err, BaseOffset: -1, LogAppendTime: -1, LogStartOffset: -1}
			res.LeaderID, res.LeaderEpoch = hint(err)
			if strings.Contains(err.Error(), "INVALID_RECORD") {
				res.RecordErrors = []record.RecordError{{Index: 4, Message: "no key"}}
			}
		}
		out = append(out, res)
	}
	done(out)
}

func (f fakeData) Fetch(_ context.Context, r broker.FetchRequest, done func([]broker.FetchedPartition)) {
	f.w.note("%s", dump(r))
	var out []broker.FetchedPartition
	for i, p := range r.Partitions {
		res := broker.FetchedPartition{DivergingEpoch: -1, DivergingEndOffset: -1, PreferredReadReplica: -1, LeaderID: -1, LeaderEpoch: -1}
		res.Read.HighWatermark, res.Read.LastStableOffset, res.Read.LogStartOffset = int64(100+i), int64(90+i), int64(i)
		name := f.topicOf(p.Topic)
		switch err := errorOf(name); {
		case p.Err != nil:
			res.Err = p.Err
		case err != nil:
			res.Err = err
			res.LeaderID, res.LeaderEpoch = hint(err)
		case name == "diverging":
			res.DivergingEpoch, res.DivergingEndOffset = 5, 77
		case name == "elsewhere":
			res.PreferredReadReplica = 2
		case name == "aborted" && r.ReadCommitted:
			res.Read.Aborted = []partition.AbortedTxn{{ProducerID: 9, FirstOffset: 50}}
		}
		if res.Err != nil {
			res.Read.HighWatermark, res.Read.LastStableOffset, res.Read.LogStartOffset = -1, -1, -1
		}
		out = append(out, res)
	}
	done(out)
}

func (f fakeData) ListOffsets(_ context.Context, r broker.ListOffsetsRequest) []broker.ListedOffset {
	f.w.note("%s", dump(r))
	var out []broker.ListedOffset
	for i, p := range r.Partitions {
		if err := errorOf(p.Topic); err != nil {
			out = append(out, broker.ListedOffset{Err: err, Offset: -1, Timestamp: -1, LeaderEpoch: -1})
			continue
		}
		out = append(out, broker.ListedOffset{Offset: int64(100 + i), Timestamp: p.Timestamp * 2, LeaderEpoch: 6})
	}
	return out
}

func (f fakeData) EpochEnds(_ context.Context, ps []broker.EpochEndPartition) []broker.EpochEnd {
	var out []broker.EpochEnd
	for i, p := range ps {
		f.w.note("%s", dump(p))
		out = append(out, broker.EpochEnd{Err: errorOf(p.Topic), LeaderEpoch: p.LeaderEpoch, EndOffset: int64(100 + i)})
	}
	return out
}

func (f fakeData) DeleteRecords(_ context.Context, timeout time.Duration, ps []broker.DeleteRecordsPartition) []broker.DeletedRecords {
	var out []broker.DeletedRecords
	for _, p := range ps {
		f.w.note("within %s %s", timeout, dump(p))
		d := broker.DeletedRecords{Err: errorOf(p.Topic), LowWatermark: p.Offset}
		if d.Err != nil {
			d.LowWatermark = -1
		}
		out = append(out, d)
	}
	return out
}

func (f fakeData) LogDirs(filter func(model.TopicPartition) bool) []broker.LogDir {
	all := []broker.LogDirReplica{
		{TopicPartition: model.TopicPartition{Topic: "b", Partition: 0}, Size: 7},
		{TopicPartition: model.TopicPartition{Topic: "a", Partition: 1}, Size: 1000, OffsetLag: 5, Future: true},
		{TopicPartition: model.TopicPartition{Topic: "a", Partition: 0}, Size: 2000},
	}
	var chosen []broker.LogDirReplica
	for _, r := range all {
		if filter == nil || filter(r.TopicPartition) {
			chosen = append(chosen, r)
		}
	}
	return []broker.LogDir{
		{Path: "/data/1", Replicas: chosen, TotalBytes: 1 << 40, UsableBytes: 1 << 39},
		{Path: "/data/2", Err: errorNamed("KAFKA_STORAGE_ERROR"), TotalBytes: -1, UsableBytes: -1},
	}
}

func (f fakeData) WriteMarkers(_ context.Context, r broker.MarkerRequest) []error {
	f.w.note("%s", dump(r))
	var out []error
	for _, tp := range r.Partitions {
		out = append(out, errorOf(tp.Topic))
	}
	return out
}

func (f fakeData) DescribeProducers(tp model.TopicPartition) ([]partition.ProducerState, error) {
	if err := errorOf(tp.Topic); err != nil {
		return nil, err
	}
	return []producer.Info{{ProducerID: 5, Epoch: 2, CoordinatorEpoch: 4, LastSequence: 9, LastOffset: 70, LastTimestamp: 1234, TxnFirstOffset: 60}}, nil
}

type fakeIDs struct{ w *world }

func (f fakeIDs) NextProducerID(context.Context) (int64, error) {
	if f.w.down != nil {
		return 0, f.w.down
	}
	return 4000, nil
}

// fakeController prints what it is asked. CreateTopics really creates; topics named error.X fail with X.
type fakeController struct{ w *world }

func (f fakeController) Forward(_ context.Context, who Caller, req kmsg.Request) (kmsg.Response, error) {
	f.w.note("as %s %s %s %s: %s", who.Principal, who.Host, who.Listener, who.ClientID, dump(req))
	if f.w.down != nil {
		return nil, f.w.down
	}
	resp := req.ResponseKind()
	if text, ok := f.w.canned[kmsg.NameForKey(req.Key())]; ok {
		fromJSON(panicking{}, text, resp)
		return resp, nil
	}
	if create, ok := req.(*kmsg.CreateTopicsRequest); ok {
		f.create(create, resp.(*kmsg.CreateTopicsResponse))
	}
	return resp, nil
}

func (f fakeController) create(req *kmsg.CreateTopicsRequest, resp *kmsg.CreateTopicsResponse) {
	for _, q := range req.Topics {
		t := kmsg.NewCreateTopicsResponseTopic()
		t.Topic, t.TopicID, t.NumPartitions, t.ReplicationFactor = q.Topic, topicID(q.Topic), q.NumPartitions, q.ReplicationFactor
		if err := errorOf(q.Topic); err != nil {
			t.ErrorCode = kerr.InvalidPartitions.Code
		} else if !req.ValidateOnly {
			rs := []metadata.Record{&metadata.TopicRecord{Name: q.Topic, ID: topicID(q.Topic)}}
			for i := range max(1, q.NumPartitions) {
				rs = append(rs, &metadata.PartitionRecord{TopicID: topicID(q.Topic), Index: i, State: metadata.Partition{
					Replicas: []int32{1}, ISR: []int32{1}, Leader: 1, Directories: []model.UUID{{}}, Incarnations: []int64{1},
				}})
			}
			next, _, err := f.w.image.Apply(rs)
			if t.ErrorCode = kerr.TopicAlreadyExists.Code; err == nil {
				t.ErrorCode, f.w.image = 0, next
			}
		}
		resp.Topics = append(resp.Topics, t)
	}
}

// fakeGroups prints what it is asked and answers with what the script has canned.
type fakeGroups struct{ w *world }

func (f fakeGroups) PartitionFor(group string) int32 { return int32(len(group) % 3) }

func (f fakeGroups) ask(c groupcoord.Client, req kmsg.Request) kmsg.Response {
	f.w.note("%s at %s: %s", c.ID, c.Host, dump(req))
	resp := req.ResponseKind()
	if text, ok := f.w.canned[kmsg.NameForKey(req.Key())]; ok {
		fromJSON(panicking{}, text, resp)
	}
	return resp
}

func (f fakeGroups) Join(_ context.Context, c groupcoord.Client, q *kmsg.JoinGroupRequest) *kmsg.JoinGroupResponse {
	return f.ask(c, q).(*kmsg.JoinGroupResponse)
}

func (f fakeGroups) Sync(_ context.Context, c groupcoord.Client, q *kmsg.SyncGroupRequest) *kmsg.SyncGroupResponse {
	return f.ask(c, q).(*kmsg.SyncGroupResponse)
}

func (f fakeGroups) Heartbeat(_ context.Context, c groupcoord.Client, q *kmsg.HeartbeatRequest) *kmsg.HeartbeatResponse {
	return f.ask(c, q).(*kmsg.HeartbeatResponse)
}

func (f fakeGroups) Leave(_ context.Context, c groupcoord.Client, q *kmsg.LeaveGroupRequest) *kmsg.LeaveGroupResponse {
	return f.ask(c, q).(*kmsg.LeaveGroupResponse)
}

func (f fakeGroups) OffsetCommit(_ context.Context, c groupcoord.Client, q *kmsg.OffsetCommitRequest) *kmsg.OffsetCommitResponse {
	return f.ask(c, q).(*kmsg.OffsetCommitResponse)
}

func (f fakeGroups) OffsetFetch(_ context.Context, c groupcoord.Client, q *kmsg.OffsetFetchRequest) *kmsg.OffsetFetchResponse {
	return f.ask(c, q).(*kmsg.OffsetFetchResponse)
}

func (f fakeGroups) OffsetDelete(_ context.Context, c groupcoord.Client, q *kmsg.OffsetDeleteRequest) *kmsg.OffsetDeleteResponse {
	return f.ask(c, q).(*kmsg.OffsetDeleteResponse)
}

func (f fakeGroups) DescribeGroups(_ context.Context, c groupcoord.Client, q *kmsg.DescribeGroupsRequest) *kmsg.DescribeGroupsResponse {
	return f.ask(c, q).(*kmsg.DescribeGroupsResponse)
}

func (f fakeGroups) ListGroups(_ context.Context, c groupcoord.Client, q *kmsg.ListGroupsRequest) *kmsg.ListGroupsResponse {
	return f.ask(c, q).(*kmsg.ListGroupsResponse)
}

func (f fakeGroups) DeleteGroups(_ context.Context, c groupcoord.Client, q *kmsg.DeleteGroupsRequest) *kmsg.DeleteGroupsResponse {
	return f.ask(c, q).(*kmsg.DeleteGroupsResponse)
}

// panicking stands in for a test where there is none at hand.
type panicking struct{ testing.TB }

func (panicking) Helper()                   {}
func (panicking) Errorf(f string, a ...any) { panic(fmt.Sprintf(f, a...)) }
func (panicking) FailNow()                  { panic("failed") }
