package server_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap/zaptest"

	"github.com/kbroker/kbroker/config"
	"github.com/kbroker/kbroker/internal/broker"
	"github.com/kbroker/kbroker/internal/metadata"
	"github.com/kbroker/kbroker/internal/model"
	"github.com/kbroker/kbroker/internal/server"
	"github.com/kbroker/kbroker/internal/server/api"
	"github.com/kbroker/kbroker/internal/vfs"
	"github.com/kbroker/kbroker/partition"
	"github.com/kbroker/kbroker/partition/segment"
)

// oneNode is the smallest data plane that real clients can use: real partitions, no replication, no groups.
type oneNode struct {
	api.Groups
	broker.DataPlane
	t     testing.TB
	dir   string
	cfg   *config.Config
	files *segment.Cache
	ids   atomic.Int64

	mu struct {
		sync.Mutex
		image *metadata.Image
		parts map[model.TopicPartition]*partition.Partition
		// moved is closed and replaced when a high watermark moves.
		moved chan struct{}
	}
}

// startNode serves a node on a loopback port that the kernel chooses and returns its address.
func startNode(t testing.TB) (*oneNode, string) {
	t.Helper()
	cfg, report, err := config.Load(config.Options{})
	require.NoError(t, err, "%v", report)
	n := &oneNode{t: t, dir: t.TempDir(), cfg: cfg, files: segment.NewCache(100)}
	n.mu.parts = map[model.TopicPartition]*partition.Partition{}
	n.mu.moved = make(chan struct{})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	img, _, err := metadata.Empty().Apply([]metadata.Record{
		&metadata.ClusterRecord{ClusterID: "test"},
		&metadata.RegisterBrokerRecord{ID: 1, Epoch: 1, Incarnation: model.UUID{1}, Listeners: []metadata.Listener{
			{Name: "PLAINTEXT", Host: "127.0.0.1", Port: uint16(l.Addr().(*net.TCPAddr).Port)},
		}},
	})
	require.NoError(t, err)
	n.mu.image = img
	service := api.NewService(api.Backends{
		NodeID: 1, Data: n, Cluster: n, Controller: n, Groups: n, ProducerIDs: n, Authorizer: api.AllowAll{},
	}, rand.New(rand.NewPCG(1, 2)))
	s, err := server.New(server.Options{
		Listeners: []server.Listener{{Name: "PLAINTEXT", Socket: l}}, Service: service, Config: n.Config, Logger: zaptest.NewLogger(t),
	})
	require.NoError(t, err)
	s.Start()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		require.NoError(t, s.Shutdown(ctx))
		for _, p := range n.mu.parts {
			require.NoError(t, p.Close())
		}
	})
	return n, l.Addr().String()
}

func (n *oneNode) Config() *config.Config                                  { return n.cfg }
func (n *oneNode) Leader() (id, epoch int32)                               { return 1, 1 }
func (n *oneNode) NextProducerID(context.Context) (int64, error)           { return n.ids.Add(1), nil }
func (n *oneNode) LogDirs(func(model.TopicPartition) bool) []broker.LogDir { return nil }

func (n *oneNode) Image() *metadata.Image {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.mu.image
}

// Forward creates topics; nothing else is asked of a controller here.
func (n *oneNode) Forward(ctx context.Context, _ api.Caller, req kmsg.Request) (kmsg.Response, error) {
	create, ok := req.(*kmsg.CreateTopicsRequest)
	if !ok {
		return nil, fmt.Errorf("%T: %w", req, kerr.NotController)
	}
	resp := req.ResponseKind().(*kmsg.CreateTopicsResponse)
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, t := range create.Topics {
		id := model.NewUUID()
		rs := []metadata.Record{&metadata.TopicRecord{Name: t.Topic, ID: id}}
		for i := range t.NumPartitions {
			rs = append(rs, &metadata.PartitionRecord{TopicID: id, Index: i, State: metadata.Partition{
				Replicas: []int32{1}, ISR: []int32{1}, Leader: 1, Directories: []model.UUID{{}}, Incarnations: []int64{1},
			}})
			tp := model.TopicPartition{Topic: t.Topic, Partition: i}
			dir := filepath.Join(n.dir, tp.String())
			if err := os.Mkdir(dir, 0o700); err != nil {
				return nil, err
			}
			p, err := partition.Open(ctx, partition.Options{
				FS: vfs.OS{}, Dir: dir, TP: tp, TopicID: id, Config: n.topicConfig(), Files: n.files, ProducerIDExpiration: time.Hour,
			})
			if err == nil {
				err = p.BecomeLeader(0)
			}
			if err != nil {
				return nil, err
			}
			n.mu.parts[tp] = p
		}
		img, _, err := n.mu.image.Apply(rs)
		if err != nil {
			return nil, err
		}
		n.mu.image = img
		rt := kmsg.NewCreateTopicsResponseTopic()
		rt.Topic, rt.TopicID = t.Topic, id
		resp.Topics = append(resp.Topics, rt)
	}
	return resp, nil
}

func (n *oneNode) topicConfig() *config.Topic {
	c, err := n.cfg.Topic(nil)
	require.NoError(n.t, err)
	return c
}

func (n *oneNode) find(ref broker.TopicRef, i int32) (*partition.Partition, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	name := ref.Name
	if t := n.mu.image.TopicByID(ref.ID); t != nil {
		name = t.Name
	}
	if p := n.mu.parts[model.TopicPartition{Topic: name, Partition: i}]; p != nil {
		return p, nil
	}
	return nil, kerr.UnknownTopicOrPartition
}

func (n *oneNode) Produce(_ context.Context, r broker.ProduceRequest, done func([]broker.ProduceResult)) {
	out := make([]broker.ProduceResult, len(r.Partitions))
	for i, rp := range r.Partitions {
		out[i] = broker.ProduceResult{BaseOffset: -1, LogAppendTime: -1, LeaderID: -1, LeaderEpoch: -1}
		p, err := n.find(rp.Topic, rp.Partition)
		if err == nil {
			var res partition.AppendResult
			res, err = p.AppendAsLeader(rp.Records, 0, partition.AppendOptions{Origin: partition.Client, ProduceVersion: r.Version})
			out[i].BaseOffset = res.FirstOffset
			p.SetHighWatermark(p.LogEndOffset())
		}
		out[i].Err = err
	}
	n.mu.Lock()
	close(n.mu.moved)
	n.mu.moved = make(chan struct{})
	n.mu.Unlock()
	done(out)
}

func (n *oneNode) read(r *broker.FetchRequest) (out []broker.FetchedPartition, bytes int) {
	for _, fp := range r.Partitions {
		res := broker.FetchedPartition{Err: fp.Err, DivergingEpoch: -1, DivergingEndOffset: -1, PreferredReadReplica: -1, LeaderID: -1, LeaderEpoch: -1}
		p, err := n.find(fp.Topic, fp.Partition)
		if err == nil {
			res.Read, err = p.Read(partition.ReadRequest{Offset: fp.Offset, MaxBytes: int(fp.MaxBytes), MinOneBatch: true, UpTo: partition.HighWatermark})
		}
		if res.Err == nil {
			res.Err = err
		}
		bytes += res.Read.Len()
		out = append(out, res)
	}
	return out, bytes
}

// Fetch waits in a goroutine of its own when there is nothing to read.
func (n *oneNode) Fetch(ctx context.Context, r broker.FetchRequest, done func([]broker.FetchedPartition)) {
	n.mu.Lock()
	moved := n.mu.moved
	n.mu.Unlock()
	out, bytes := n.read(&r)
	if bytes > 0 || r.MaxWait <= 0 {
		done(out)
		return
	}
	go func() {
		select {
		case <-moved:
		case <-ctx.Done():
		case <-time.After(r.MaxWait):
		}
		out, _ := n.read(&r)
		done(out)
	}()
}

func (n *oneNode) ListOffsets(_ context.Context, r broker.ListOffsetsRequest) []broker.ListedOffset {
	out := make([]broker.ListedOffset, len(r.Partitions))
	for i, lp := range r.Partitions {
		p, err := n.find(broker.TopicRef{Name: lp.Topic}, lp.Partition)
		if out[i].Err = err; err != nil {
			continue
		}
		out[i] = broker.ListedOffset{Offset: p.LogStartOffset(), Timestamp: -1}
		if lp.Timestamp == -1 {
			out[i].Offset = p.HighWatermark()
		}
	}
	return out
}

func (n *oneNode) EpochEnds(_ context.Context, ps []broker.EpochEndPartition) []broker.EpochEnd {
	return make([]broker.EpochEnd, len(ps))
}

// A real client creates topics on demand, produces idempotently with every codec, and reads back what it wrote, with
// small answers and with ones that are sent from the file.
func TestRealClientProducesAndConsumes(t *testing.T) {
	_, addr := startNode(t)
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	codecs := []kgo.CompressionCodec{
		kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression(),
	}
	value := make([]byte, 3000)
	for i := range value {
		value[i] = byte(rand.Uint32())
	}
	const each = 200
	for i, codec := range codecs {
		topic := fmt.Sprintf("topic-%d", i)
		producer, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.AllowAutoTopicCreation(), kgo.DefaultProduceTopic(topic), kgo.ProducerBatchCompression(codec))
		require.NoError(t, err)
		var records []*kgo.Record
		for k := range each {
			records = append(records, &kgo.Record{Key: fmt.Append(nil, k), Value: value[:1+k*len(value)/each]})
		}
		require.NoError(t, producer.ProduceSync(ctx, records...).FirstErr())
		producer.Close()

		consumer, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
		require.NoError(t, err)
		for k := 0; k < each; {
			fetches := consumer.PollFetches(ctx)
			require.NoError(t, fetches.Err())
			fetches.EachRecord(func(r *kgo.Record) {
				require.Equal(t, fmt.Sprint(k), string(r.Key))
				require.Equal(t, value[:1+k*len(value)/each], r.Value)
				require.Equal(t, int64(k), r.Offset)
				k++
			})
		}
		consumer.Close()
	}
}

// A consumer that waits at the end gets what is produced meanwhile, through its session.
func TestRealClientLongPolls(t *testing.T) {
	_, addr := startNode(t)
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	client, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.AllowAutoTopicCreation(), kgo.DefaultProduceTopic("t"),
		kgo.ConsumeTopics("t"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(30*time.Second))
	require.NoError(t, err)
	defer client.Close()
	for i := range 20 {
		want := fmt.Sprint(i)
		require.NoError(t, client.ProduceSync(ctx, kgo.StringRecord(want)).FirstErr())
		fetches := client.PollFetches(ctx)
		require.NoError(t, fetches.Err())
		require.Len(t, fetches.Records(), 1)
		require.Equal(t, want, string(fetches.Records()[0].Value))
	}
}

func TestRealClientReadsAdminAnswers(t *testing.T) {
	_, addr := startNode(t)
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	client, err := kgo.NewClient(kgo.SeedBrokers(addr))
	require.NoError(t, err)
	defer client.Close()
	adm := kadm.NewClient(client)
	_, err = adm.CreateTopic(ctx, 3, 1, nil, "made")
	require.NoError(t, err)
	topics, err := adm.ListTopics(ctx)
	require.NoError(t, err)
	require.Len(t, topics["made"].Partitions, 3)
	cluster, err := adm.BrokerMetadata(ctx)
	require.NoError(t, err)
	require.Equal(t, "test", cluster.Cluster)
	require.Equal(t, int32(1), cluster.Controller)
	configs, err := adm.DescribeTopicConfigs(ctx, "made")
	require.NoError(t, err)
	require.Greater(t, len(configs[0].Configs), 20)
	versions, err := adm.ApiVersions(ctx)
	require.NoError(t, err)
	require.Len(t, versions, 1)
	offsets, err := adm.ListEndOffsets(ctx, "made")
	require.NoError(t, err)
	require.Len(t, offsets["made"], 3)
}
