package server

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/kbroker/kbroker/internal/server/api"
)

// metrics are the collectors of the server. docs/metrics.md is made from the descriptions.
type metrics struct {
	received, transmitted prometheus.Counter
	connections           *prometheus.GaugeVec
	opened                *prometheus.CounterVec
	refused               *prometheus.CounterVec
	inFlight              prometheus.Gauge
	inFlightBytes         prometheus.Gauge
	requests              *prometheus.HistogramVec

	// byKey holds the histogram of each API, so that a request costs no look-up by name.
	byKey []prometheus.Observer
}

// latencies spans what a request takes from a small one that is answered from memory to a rebalance.
func latencies() []float64 {
	return []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300}
}

func newMetrics(s *Server, table *api.Table) *metrics {
	m := &metrics{
		received:    prometheus.NewCounter(prometheus.CounterOpts{Name: "kbroker_network_received_bytes_total", Help: "Bytes read from clients and peers."}),
		transmitted: prometheus.NewCounter(prometheus.CounterOpts{Name: "kbroker_network_sent_bytes_total", Help: "Bytes written to clients and peers."}),
		connections: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "kbroker_connections", Help: "Open connections."}, []string{"listener"}),
		opened:      prometheus.NewCounterVec(prometheus.CounterOpts{Name: "kbroker_connections_opened_total", Help: "Connections accepted since the start."}, []string{"listener"}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kbroker_connections_refused_total", Help: "Connections closed by the broker because of their peer.",
		}, []string{"reason"}),
		inFlight:      prometheus.NewGauge(prometheus.GaugeOpts{Name: "kbroker_requests_in_flight", Help: "Requests whose answer is not sent yet; at most 256 a connection."}),
		inFlightBytes: prometheus.NewGauge(prometheus.GaugeOpts{Name: "kbroker_requests_in_flight_bytes", Help: "Bytes of the requests whose answer is not sent yet; at most 32 MiB or one request a connection."}),
		requests: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "kbroker_request_seconds", Help: "Time from the last byte of a request to the last byte of its answer.", Buckets: latencies(),
		}, []string{"api"}),
	}
	for _, a := range table.APIs() {
		for len(m.byKey) <= int(a.Key) {
			m.byKey = append(m.byKey, nil)
		}
		m.byKey[a.Key] = m.requests.WithLabelValues(a.Name())
	}
	for i := range s.o.Listeners {
		m.connections.WithLabelValues(s.o.Listeners[i].Name)
	}
	for _, reason := range []string{"not kafka", "bad request", "too many", "idle", "pushed out"} {
		m.refused.WithLabelValues(reason)
	}
	return m
}

func (m *metrics) register(s *Server, r prometheus.Registerer) error {
	for _, c := range []prometheus.Collector{
		m.received, m.transmitted, m.connections, m.opened, m.refused, m.inFlight, m.inFlightBytes, m.requests,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "kbroker_frame_pool_bytes", Help: "Bytes of unused frame buffers that are kept; at most 64 MiB."},
			func() float64 { return float64(s.pool.retained()) }),
	} {
		if err := r.Register(c); err != nil {
			return err
		}
	}
	return nil
}

func (m *metrics) begun(p *pending) {
	m.inFlight.Inc()
	m.inFlightBytes.Add(float64(p.size))
}

func (m *metrics) ended(p *pending) {
	m.inFlight.Dec()
	m.inFlightBytes.Sub(float64(p.size))
}

func (m *metrics) sent(p *pending, now time.Time) {
	if p.api != nil {
		m.byKey[p.api.Key].Observe(now.Sub(p.received).Seconds())
	}
}
