package controller

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/kbroker/kbroker/config"
	"github.com/kbroker/kbroker/internal/metadata"
	"github.com/kbroker/kbroker/internal/model"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"
)

const testCluster = "5L6g3nShT-eMCtK--X86sw"

// world is a cluster in a test: an image that requests are decided on and whose records are applied at once.
type world struct {
	t   testing.TB
	v   *view
	rng *rand.Rand
}

// newWorld returns a bootstrapped cluster with the given number of living brokers, 1..n. Nobody is local.
func newWorld(t testing.TB, brokers int) *world {
	w := &world{t: t, rng: rand.New(rand.NewPCG(1, 2))}
	w.v = &view{
		img: metadata.Empty(), cfg: config.Default(), now: time.Unix(1_700_000_000, 0), rng: w.rng, log: zap.NewNop(),
		who: Caller{Broker: -1}, self: self{nodeID: 1, clusterID: testCluster}, sessions: newSessions(9*time.Second, -1),
	}
	w.apply(&metadata.ClusterRecord{ClusterID: testCluster})
	for _, f := range metadata.SupportedFeatures() {
		if f.Initial > 0 {
			w.apply(&metadata.FeatureRecord{Name: f.Name, Level: f.Initial})
		}
	}
	w.apply(w.v.strictISRRecords()...)
	for i := range brokers {
		w.join(int32(i + 1))
	}
	return w
}

func (w *world) apply(records ...metadata.Record) {
	w.t.Helper()
	if len(records) == 0 {
		return
	}
	// Through the codec, as in the log.
	decoded, err := metadata.DecodeBatch(metadata.AppendBatch(nil, records))
	require.NoError(w.t, err)
	b := metadata.NewBuilder(w.v.img)
	for _, r := range decoded {
		require.NoError(w.t, b.Apply(r))
	}
	b.SetPosition(w.v.img.Offset()+1, 1)
	w.v.img, _ = b.Build()
	checkInvariants(w.t, w.v)
}

// ask decides about a request and applies what comes out.
func ask[R kmsg.Response](w *world, req kmsg.Request) R {
	w.t.Helper()
	d, err := w.v.decide(req)
	require.NoError(w.t, err)
	w.apply(d.records...)
	if d.committed != nil && len(d.records) > 0 {
		d.committed(w.v.img.Offset())
	}
	return d.response.(R)
}

func registration(id int32, life byte) *kmsg.BrokerRegistrationRequest {
	r := kmsg.NewPtrBrokerRegistrationRequest()
	r.Version = 4
	r.BrokerID, r.ClusterID, r.IncarnationID = id, testCluster, [16]byte{byte(id), life}
	l := kmsg.NewBrokerRegistrationRequestListener()
	l.Name, l.Host, l.Port = "PLAINTEXT", fmt.Sprintf("host%d", id), 9092
	r.Listeners = append(r.Listeners, l)
	for _, f := range metadata.SupportedFeatures() {
		x := kmsg.NewBrokerRegistrationRequestFeature()
		x.Name, x.MinSupportedVersion, x.MaxSupportedVersion = f.Name, f.Min, f.Max
		r.Features = append(r.Features, x)
	}
	r.LogDirs = [][16]byte{{byte(id), 0xd0}}
	r.PreviousBrokerEpoch = -1
	return r
}

func (w *world) broker(id int32) *metadata.Broker {
	w.t.Helper()
	b := w.v.img.Broker(id)
	require.NotNil(w.t, b, "broker %d", id)
	return b
}

// heartbeat sends the heartbeat of a broker that has applied everything.
func (w *world) heartbeat(id int32, change ...func(r *kmsg.BrokerHeartbeatRequest)) *kmsg.BrokerHeartbeatResponse {
	w.t.Helper()
	r := kmsg.NewPtrBrokerHeartbeatRequest()
	r.Version = 1
	r.BrokerID, r.BrokerEpoch, r.CurrentMetadataOffset = id, w.broker(id).Epoch, w.v.img.Offset()
	for _, c := range change {
		c(r)
	}
	return ask[*kmsg.BrokerHeartbeatResponse](w, r)
}

// join registers a broker and unfences it.
func (w *world) join(id int32) {
	w.t.Helper()
	require.Zero(w.t, ask[*kmsg.BrokerRegistrationResponse](w, registration(id, 1)).ErrorCode)
	require.False(w.t, w.heartbeat(id).IsFenced)
}

// silence lets a broker's session end.
func (w *world) silence(id int32) {
	w.t.Helper()
	records, err := w.v.fence(w.broker(id), "test")
	require.NoError(w.t, err)
	w.apply(records...)
}

// restart brings a broker back in a new process, after a clean shutdown or not.
func (w *world) restart(id int32, life byte, clean bool) {
	w.t.Helper()
	r := registration(id, life)
	if clean {
		r.PreviousBrokerEpoch = w.broker(id).Epoch
	}
	w.v.now = w.v.now.Add(time.Minute) // the session of the old process is over
	require.Zero(w.t, ask[*kmsg.BrokerRegistrationResponse](w, r).ErrorCode)
	require.False(w.t, w.heartbeat(id).IsFenced)
}

// create makes a topic with the given assignment.
func (w *world) create(name string, assignment ...[]int32) *metadata.Topic {
	w.t.Helper()
	r := ask[*kmsg.CreateTopicsResponse](w, createRequest(assigned(name, assignment...)))
	require.Equal(w.t, answer{}, answer{r.Topics[0].ErrorCode, deref(r.Topics[0].ErrorMessage)})
	return w.v.img.Topic(name)
}

func (w *world) set(topic, key, value string) {
	w.t.Helper()
	w.apply(&metadata.ConfigRecord{Resource: metadata.ConfigResource{Type: metadata.ResourceTopic, Name: topic}, Key: key, Value: &value})
}

func (w *world) part(topic string, index int32) *metadata.Partition {
	w.t.Helper()
	p := w.v.img.Partition(model.TopicPartition{Topic: topic, Partition: index})
	require.NotNil(w.t, p)
	return p
}

// state is the part of a partition that elections are about, for comparison.
type state struct {
	leader       int32
	isr, elr     []int32
	last         []int32
	leaderEpoch  int32
	isRecovering bool
}

func (w *world) state(topic string) state {
	p := w.part(topic, 0)
	return state{p.Leader, empty(p.ISR), empty(p.ELR), empty(p.LastKnownELR), p.LeaderEpoch, p.Recovering}
}

func empty(s []int32) []int32 {
	if len(s) == 0 {
		return nil
	}
	return s
}

// answer is the code and text of one answer.
type answer struct {
	code int16
	text string
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func createRequest(topics ...kmsg.CreateTopicsRequestTopic) *kmsg.CreateTopicsRequest {
	r := kmsg.NewPtrCreateTopicsRequest()
	r.Version = 7
	r.Topics = topics
	return r
}

func topicRequest(name string, partitions int32, factor int16, configs ...string) kmsg.CreateTopicsRequestTopic {
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = name, partitions, factor
	for i := 0; i < len(configs); i += 2 {
		c := kmsg.NewCreateTopicsRequestTopicConfig()
		c.Name = configs[i]
		if configs[i+1] != "null" {
			c.Value = &configs[i+1]
		}
		t.Configs = append(t.Configs, c)
	}
	return t
}

func assigned(name string, assignment ...[]int32) kmsg.CreateTopicsRequestTopic {
	t := topicRequest(name, -1, -1)
	for i, replicas := range assignment {
		a := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
		a.Partition, a.Replicas = int32(i), replicas
		t.ReplicaAssignment = append(t.ReplicaAssignment, a)
	}
	return t
}

// checkInvariants holds after every batch.
func checkInvariants(t testing.TB, v *view) {
	t.Helper()
	for topic := range v.img.AllTopics() {
		require.NotEmpty(t, topic.Partitions, "topic %s has no partitions", topic.Name)
		for i, p := range topic.Partitions {
			at := fmt.Sprintf("%s-%d: %+v", topic.Name, i, *p)
			require.NotEmpty(t, p.Replicas, at)
			if p.Leader != model.NoLeader {
				require.Contains(t, p.ISR, p.Leader, at)
				require.True(t, v.fit(p, p.Leader), "the leader lives: %s", at)
				for _, r := range p.ISR {
					require.True(t, v.fit(p, r), "C2: %d is in an ISR: %s", r, at)
				}
			}
			for _, r := range p.ELR {
				require.NotContains(t, p.ISR, r, at)
				require.Contains(t, p.Replicas, r, at)
			}
			require.False(t, p.Leader != model.NoLeader && len(p.ISR) >= min(v.minISR(topic.Name), len(p.Replicas)) && len(p.ELR) > 0, at)
			require.True(t, slices.Max(p.Incarnations) < v.img.NextIncarnation(), at)
		}
	}
}

// withBroker returns a configuration in which one broker key is set.
func withBroker(t testing.TB, key, value string) *config.Config {
	t.Helper()
	c, _, err := config.Load(config.Options{Overrides: []string{key + "=" + value}})
	require.NoError(t, err)
	return c
}
