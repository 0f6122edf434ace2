package console

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
)

func serve(t *testing.T, o Options) (get func(path string) (int, string)) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	o.Listener, o.Logger = l, zap.NewNop()
	if o.Gatherer == nil {
		o.Gatherer = prometheus.NewRegistry()
	}
	if o.Ready == nil {
		o.Ready = func() error { return nil }
	}
	c := New(o)
	t.Cleanup(func() { require.NoError(t, c.Close(context.Background())) })
	return func(path string) (int, string) {
		resp, err := http.Get("http://" + l.Addr().String() + path)
		require.NoError(t, err)
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return resp.StatusCode, string(body)
	}
}

func TestReadyFollowsTheBroker(t *testing.T) {
	var reason atomic.Pointer[error]
	starting := errors.New("starting: 3 of 10 partitions recovered")
	reason.Store(&starting)
	get := serve(t, Options{Ready: func() error { return *reason.Load() }})

	code, body := get("/readyz")
	require.Equal(t, http.StatusServiceUnavailable, code)
	require.Equal(t, "starting: 3 of 10 partitions recovered\n", body)
	code, _ = get("/healthz")
	require.Equal(t, http.StatusOK, code, "a broker that starts is alive")

	var none error
	reason.Store(&none)
	code, body = get("/readyz")
	require.Equal(t, http.StatusOK, code)
	require.Equal(t, "ready\n", body)
}

func TestMetricsAreServed(t *testing.T) {
	r := prometheus.NewRegistry()
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: "kbroker_test_total", Help: "A counter."})
	r.MustRegister(c)
	c.Add(3)
	get := serve(t, Options{Gatherer: r})
	code, body := get("/metrics")
	require.Equal(t, http.StatusOK, code)
	require.Contains(t, body, "kbroker_test_total 3")
}

func TestProfilesOnlyWhenSwitchedOn(t *testing.T) {
	code, _ := serve(t, Options{})("/debug/pprof/cmdline")
	require.Equal(t, http.StatusNotFound, code)
	code, _ = serve(t, Options{Profiles: true})("/debug/pprof/cmdline")
	require.Equal(t, http.StatusOK, code)
}

func TestUnknownPathIsNotFound(t *testing.T) {
	code, _ := serve(t, Options{})("/topics")
	require.Equal(t, http.StatusNotFound, code)
}

func TestCloseEndsServing(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	c := New(Options{Listener: l, Gatherer: prometheus.NewRegistry(), Ready: func() error { return nil }, Logger: zap.NewNop()})
	require.NoError(t, c.Close(context.Background()))
	_, err = net.Dial("tcp", l.Addr().String())
	require.Error(t, err)
}
