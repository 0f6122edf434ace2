package node

import (
	"bytes"
	"context"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"github.com/kbroker/kbroker/config"
	"github.com/kbroker/kbroker/internal/memnet"
	"github.com/kbroker/kbroker/internal/vfs"
	"github.com/kbroker/kbroker/internal/vfs/memfs"
)

const address = "10.0.0.1:9092"

// world is one node with its disk and its network, all in memory, and what a test does to them.
type world struct {
	*testing.T
	net      *memnet.Network
	fs       vfs.FS
	mem      *memfs.FS
	settings []string
	node     *Node
	banner   bytes.Buffer
}

func newWorld(t *testing.T, settings ...string) *world {
	t.Helper()
	mem := memfs.New()
	return &world{T: t, net: memnet.New(), fs: mem, mem: mem, settings: settings}
}

func (w *world) options() Options {
	w.Helper()
	cfg, _, err := config.Load(config.Options{Overrides: append([]string{
		"listeners=PLAINTEXT://" + address, "log.dirs=/data", "http.listener=", "offsets.topic.num.partitions=3",
		"group.initial.rebalance.delay.ms=0",
	}, w.settings...)})
	require.NoError(w, err)
	return Options{Config: cfg, FS: w.fs, Logger: zap.NewNop(), Banner: &w.banner, Version: "test",
		Listen: func(network, a string) (net.Listener, error) { return w.net.Host("10.0.0.1").Listen(network, a) }}
}

func (w *world) start() {
	w.Helper()
	n, err := Start(context.Background(), w.options())
	require.NoError(w, err)
	w.node = n
}

func (w *world) stop() {
	w.Helper()
	require.NoError(w, w.node.Stop())
	require.Empty(w, w.mem.OpenFiles(), "files left open")
}

// restart is a stop and a start on the same disk.
func (w *world) restart() {
	w.Helper()
	w.stop()
	w.start()
}

// client returns a client that is closed at the end of the test.
func (w *world) client(opts ...kgo.Opt) *kgo.Client {
	w.Helper()
	c, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(address), kgo.Dialer(w.net.Host("client").Dial)}, opts...)...)
	require.NoError(w, err)
	return c
}

func (w *world) create(topic string, partitions int32, configs map[string]*string) {
	w.Helper()
	c := w.client()
	defer c.Close()
	resp, err := kadm.NewClient(c).CreateTopics(w.Context(), partitions, -1, configs, topic)
	require.NoError(w, err)
	require.NoError(w, resp.Error())
}

func (w *world) produce(topic string, values ...string) {
	w.Helper()
	c := w.client(kgo.AllowAutoTopicCreation(), kgo.DefaultProduceTopic(topic), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	defer c.Close()
	for _, v := range values {
		require.NoError(w, c.ProduceSync(w.Context(), &kgo.Record{Value: []byte(v), Key: []byte("k")}).FirstErr())
	}
}

// consume reads n records of partition 0 from an offset on.
func (w *world) consume(topic string, from int64, n int) (values []string) {
	w.Helper()
	c := w.client(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().At(from)}}))
	defer c.Close()
	ctx, cancel := context.WithTimeout(w.Context(), 30*time.Second)
	defer cancel()
	for len(values) < n {
		fs := c.PollFetches(ctx)
		require.NoError(w, fs.Err())
		fs.EachRecord(func(r *kgo.Record) { values = append(values, string(r.Value)) })
	}
	return values
}
