package server

import (
	"context"
	"encoding/binary"
	"io"
	"math"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/kbroker/kbroker/config"
	"github.com/kbroker/kbroker/internal/server/api"
)

// fakeService answers as a test tells it to.
type fakeService struct {
	table *api.Table
	serve func(ctx context.Context, a *api.API, r *api.Request, reply func(api.Reply))
}

func (f *fakeService) Table() *api.Table { return f.table }

func (f *fakeService) Serve(ctx context.Context, a *api.API, r *api.Request, reply func(api.Reply)) {
	f.serve(ctx, a, r, reply)
}

func (f *fakeService) RefuseVersion(key int16) (api.Reply, bool) {
	if key != 18 {
		return api.Reply{}, false
	}
	resp := kmsg.NewPtrApiVersionsResponse()
	resp.ErrorCode = 35
	return api.Reply{Message: resp}, true
}

// echo answers every request with an empty response of its kind.
func echo(_ context.Context, _ *api.API, r *api.Request, reply func(api.Reply)) {
	resp := r.Body.ResponseKind()
	resp.SetVersion(r.Version)
	reply(api.Reply{Message: resp})
}

// pipes is a listener whose connections are pipes, so that tests can run in virtual time.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), closed: make(chan struct{})} }

type pipeConn struct {
	net.Conn
	remote net.Addr
}

func (p pipeConn) RemoteAddr() net.Addr { return p.remote }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.once.Do(func() { close(p.closed) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

// dial connects from an address; the server's end is accepted when it returns.
func (p *pipes) dial(t testing.TB, from string) net.Conn {
	t.Helper()
	a, b := net.Pipe()
	addr := &net.TCPAddr{IP: net.ParseIP(from), Port: 40000}
	select {
	case p.conns <- pipeConn{b, addr}:
	case <-p.closed:
		b.Close()
	}
	t.Cleanup(func() { a.Close() })
	return a
}

type fixture struct {
	*Server
	service *fakeService
	config  *config.Config
	pipes   *pipes
	logs    *observer.ObservedLogs
	metrics *prometheus.Registry
}

// start runs a server on pipes (and more listeners, if given) with a service that echoes, and stops it after the test.
func start(t testing.TB, change func(*config.Config), more ...Listener) *fixture {
	t.Helper()
	cfg, report, err := config.Load(config.Options{})
	require.NoError(t, err, "%v", report)
	c := *cfg
	if change != nil {
		change(&c)
	}
	core, logs := observer.New(zapcore.DebugLevel)
	f := &fixture{service: &fakeService{table: api.NewTable(), serve: echo}, config: &c, pipes: newPipes(), logs: logs, metrics: prometheus.NewRegistry()}
	f.Server, err = New(Options{
		Listeners: append([]Listener{{Name: "PLAINTEXT", Socket: f.pipes}}, more...), Service: f.service,
		Config: func() *config.Config { return f.config }, Logger: zap.New(core), Registerer: f.metrics,
	})
	require.NoError(t, err)
	f.Start()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		require.NoError(t, f.Shutdown(ctx))
		n, bytes := f.inFlight(t)
		require.Zero(t, n, "requests left in flight")
		require.Zero(t, bytes)
	})
	return f
}

func (f *fixture) inFlight(t testing.TB) (requests, bytes float64) {
	return f.metric(t, "kbroker_requests_in_flight"), f.metric(t, "kbroker_requests_in_flight_bytes")
}

// metric sums a metric over its labels.
func (f *fixture) metric(t testing.TB, name string) float64 {
	t.Helper()
	families, err := f.metrics.Gather()
	require.NoError(t, err)
	for _, fam := range families {
		if fam.GetName() != name {
			continue
		}
		sum := 0.0
		for _, m := range fam.GetMetric() {
			sum += m.GetGauge().GetValue() + m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
		return sum
	}
	require.Fail(t, "no metric "+name)
	return 0
}

// encode returns a request as it goes over the wire.
func encode(corr int32, req kmsg.Request) []byte {
	return kmsg.NewRequestFormatter(kmsg.FormatterClientID("test")).AppendRequest(nil, req, corr)
}

// send writes requests with correlation ids from first on.
func send(t testing.TB, c net.Conn, first int32, reqs ...kmsg.Request) {
	t.Helper()
	var b []byte
	for i, r := range reqs {
		b = append(b, encode(first+int32(i), r)...)
	}
	_, err := c.Write(b)
	require.NoError(t, err)
}

// readAnswer returns the correlation id of the next answer and what follows it.
func readAnswer(t testing.TB, c io.Reader) (corr int32, rest []byte) {
	t.Helper()
	var size [4]byte
	_, err := io.ReadFull(c, size[:])
	require.NoError(t, err)
	n := binary.BigEndian.Uint32(size[:])
	require.Less(t, n, uint32(math.MaxInt32))
	b := make([]byte, n)
	_, err = io.ReadFull(c, b)
	require.NoError(t, err)
	return int32(binary.BigEndian.Uint32(b)), b[4:]
}

// requireClosed waits until the server has closed the connection.
func requireClosed(t testing.TB, c net.Conn) {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(20 * time.Second)) // fails on a pipe that is closed already
	n, err := c.Read(make([]byte, 1))
	require.Zero(t, n)
	require.ErrorIs(t, err, io.EOF)
}

func metadataRequest() kmsg.Request {
	r := kmsg.NewPtrMetadataRequest()
	r.Version = 9
	return r
}

func produceRequest(records []byte) *kmsg.ProduceRequest {
	r := kmsg.NewPtrProduceRequest()
	r.Version, r.Acks = 9, -1
	r.Topics = []kmsg.ProduceRequestTopic{{Topic: "t", Partitions: []kmsg.ProduceRequestTopicPartition{{Records: records}}}}
	return r
}
