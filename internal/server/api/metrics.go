package api

import "github.com/prometheus/client_golang/prometheus"

// The metrics of this package; docs/metrics.md is made from the descriptions.
var (
	descSessions = prometheus.NewDesc("kbroker_fetch_sessions",
		"Fetch sessions in memory, and their limit (max.incremental.fetch.session.cache.slots).", []string{"what"}, nil)
	descSessionPartitions = prometheus.NewDesc("kbroker_fetch_session_partitions", "Partitions of all fetch sessions.", nil, nil)
	descSessionsEvicted   = prometheus.NewDesc("kbroker_fetch_sessions_evicted_total", "Fetch sessions that had to make room for another one.", nil, nil)
)

// Describe implements prometheus.Collector.
func (s *Service) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descSessions, descSessionPartitions, descSessionsEvicted} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (s *Service) Collect(ch chan<- prometheus.Metric) {
	st := s.sessions.stats()
	ch <- prometheus.MustNewConstMetric(descSessions, prometheus.GaugeValue, float64(st.sessions), "open")
	ch <- prometheus.MustNewConstMetric(descSessions, prometheus.GaugeValue, float64(s.sessions.slots), "limit")
	ch <- prometheus.MustNewConstMetric(descSessionPartitions, prometheus.GaugeValue, float64(st.partitions))
	ch <- prometheus.MustNewConstMetric(descSessionsEvicted, prometheus.CounterValue, float64(st.evicted))
}
