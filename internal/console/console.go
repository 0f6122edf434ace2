// Package console is the broker's HTTP side for operators and their machines: health for a supervisor, metrics for
// Prometheus, profiles for an engineer. It serves no data of topics and changes nothing.
//
//	/healthz      200 while the process serves; what a liveness probe asks
//	/readyz       200 once the broker is registered and its listeners are open, 503 with the reason before that and after
//	/metrics      Prometheus text format
//	/debug/pprof  Go profiles, only when switched on
package console

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"
)

// Options says what a Console serves.
type Options struct {
	// Listener is where it serves; it is closed by Close.
	Listener net.Listener
	// Gatherer holds the metrics.
	Gatherer prometheus.Gatherer
	// Ready returns nil when the broker serves clients, else the reason why it does not. Safe for concurrent use.
	Ready func() error
	// Profiles switches /debug/pprof on.
	Profiles bool
	Logger   *zap.Logger
}

// Console serves HTTP from New to Close.
type Console struct {
	server http.Server
	done   chan struct{}
}

// Bounds of one request: a console has few and small ones, and must not hold resources for a peer that does not finish.
const (
	readTimeout    = 5 * time.Second
	maxHeaderBytes = 8 << 10
)

// New starts to serve.
func New(o Options) *Console {
	c := &Console{done: make(chan struct{})}
	c.server = http.Server{Handler: handler(o), ReadHeaderTimeout: readTimeout, ReadTimeout: readTimeout, MaxHeaderBytes: maxHeaderBytes,
		ErrorLog: zap.NewStdLog(o.Logger)}
	go func() {
		defer close(c.done)
		if err := c.server.Serve(o.Listener); !errors.Is(err, http.ErrServerClosed) {
			o.Logger.Error("console stopped", zap.Error(err))
		}
	}()
	return c
}

// Close stops serving; requests under way have until ctx ends.
func (c *Console) Close(ctx context.Context) error {
	err := c.server.Shutdown(ctx)
	if err != nil {
		err = errors.Join(err, c.server.Close())
	}
	<-c.done
	return err
}

func handler(o Options) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if err := o.Ready(); err != nil {
			answer(w, http.StatusServiceUnavailable, err.Error())
			return
		}
		answer(w, http.StatusOK, "ready")
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(o.Gatherer, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError, MaxRequestsInFlight: 4}))
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, "kbroker: /healthz /readyz /metrics")
	})
	if o.Profiles {
		mux.HandleFunc("/debug/pprof/", pprof.Index)
		mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
		mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	}
	return mux
}

func answer(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(code)
	_, _ = io.WriteString(w, fmt.Sprintln(text)) // a peer that went away needs no answer
}
