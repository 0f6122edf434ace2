package groupcoord

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/kbroker/kbroker/config"
	"github.com/kbroker/kbroker/internal/coordrt/coordtest"
	"github.com/kbroker/kbroker/internal/model"
)

// fakeTopics has topics t, u and v with two partitions each, ids that begin with the name.
type fakeTopics struct{ gone map[string]bool }

func (f fakeTopics) there(name string) bool {
	return (name == "t" || name == "u" || name == "v") && !f.gone[name]
}

func (f fakeTopics) Name(id model.UUID) string {
	if name := string(id[:1]); f.there(name) && id == f.ID(name) {
		return name
	}
	return ""
}

func (f fakeTopics) ID(name string) model.UUID {
	if !f.there(name) {
		return model.UUID{}
	}
	return model.UUID{name[0], 15: 1}
}

func (f fakeTopics) Has(name string, partition int32) bool {
	return f.there(name) && partition >= 0 && partition < 2
}

func testGroups() config.Groups {
	return config.Groups{MinSessionTimeout: 6 * time.Second, MaxSessionTimeout: 30 * time.Minute, InitialRebalanceDelay: 3 * time.Second,
		MaxSize: 3, Threads: 2}
}

func testOffsets() config.Offsets {
	return config.Offsets{MetadataMaxBytes: 10, CommitTimeout: 5 * time.Second, LoadBuffer: 4096, Retention: 7 * 24 * time.Hour,
		CheckInterval: 10 * time.Minute}
}

// numbered makes member ids that can be foretold: a-1, a-2, b-1.
func numbered() func(string) string {
	var mu sync.Mutex
	n := map[string]int{}
	return func(prefix string) string {
		mu.Lock()
		defer mu.Unlock()
		n[prefix]++
		return fmt.Sprintf("%s-%d", prefix, n[prefix])
	}
}

// lab is a coordinator on a log in memory with one partition, in virtual time.
type lab struct {
	t      *testing.T
	log    *coordtest.Log
	co     *Coordinator
	topics fakeTopics
	opts   Options
	epoch  int32
	ctx    context.Context
	stop   func()
}

var nopLogger = zap.NewNop()

var offsetsTP = model.TopicPartition{Topic: model.GroupMetadataTopic}

// inLab runs fn with a coordinator that leads its partition.
func inLab(t *testing.T, fn func(l *lab), change ...func(*Options)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := &lab{t: t, log: coordtest.New(), topics: fakeTopics{map[string]bool{}}, ctx: t.Context()}
		l.opts = Options{Log: l.log, Groups: testGroups(), Offsets: testOffsets(), Topics: l.topics,
			Partitions: func() int32 { return 1 }, NewMemberID: numbered()}
		for _, c := range change {
			c(&l.opts)
		}
		l.start()
		l.elect()
		fn(l)
		l.stop()
	})
}

func (l *lab) start() {
	co, err := New(l.opts)
	require.NoError(l.t, err)
	l.co = co
	ctx, cancel := context.WithCancel(l.ctx)
	done := make(chan error, 1)
	go func() { done <- co.Run(ctx) }()
	l.stop = func() {
		cancel()
		require.NoError(l.t, <-done)
	}
}

// elect gives the partition to the coordinator in the epoch after the next, so that it is loaded anew.
func (l *lab) elect() {
	l.epoch += 2
	l.log.Lead(offsetsTP, l.epoch)
	l.co.Elected(0, l.epoch)
	synctest.Wait()
}

// request sends a request to the coordinator as a handler would.
func (l *lab) request(c Client, req kmsg.Request) kmsg.Response { return dispatch(l.ctx, l.co, c, req) }

func dispatch(ctx context.Context, co *Coordinator, c Client, req kmsg.Request) kmsg.Response {
	switch r := req.(type) {
	case *kmsg.JoinGroupRequest:
		return co.Join(ctx, c, r)
	case *kmsg.SyncGroupRequest:
		return co.Sync(ctx, c, r)
	case *kmsg.HeartbeatRequest:
		return co.Heartbeat(ctx, c, r)
	case *kmsg.LeaveGroupRequest:
		return co.Leave(ctx, c, r)
	case *kmsg.OffsetCommitRequest:
		return co.OffsetCommit(ctx, c, r)
	case *kmsg.TxnOffsetCommitRequest:
		return co.TxnOffsetCommit(ctx, c, r)
	case *kmsg.OffsetFetchRequest:
		return co.OffsetFetch(ctx, c, r)
	case *kmsg.OffsetDeleteRequest:
		return co.OffsetDelete(ctx, c, r)
	case *kmsg.DescribeGroupsRequest:
		return co.DescribeGroups(ctx, c, r)
	case *kmsg.ListGroupsRequest:
		return co.ListGroups(ctx, c, r)
	case *kmsg.DeleteGroupsRequest:
		return co.DeleteGroups(ctx, c, r)
	}
	panic(fmt.Sprintf("no such request: %T", req))
}

// overTheWire is what a client of that version sees of a response.
func overTheWire(t *testing.T, resp kmsg.Response) kmsg.Response {
	t.Helper()
	seen := kmsg.ResponseForKey(resp.Key())
	seen.SetVersion(resp.GetVersion())
	require.NoError(t, seen.ReadFrom(resp.AppendTo(nil)))
	return seen
}

// subscription is a consumer's metadata for topics.
func subscription(topics ...string) []byte {
	m := kmsg.NewConsumerMemberMetadata()
	m.Topics = topics
	return m.AppendTo(nil)
}
