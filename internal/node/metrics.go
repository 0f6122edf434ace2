package node

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/kbroker/kbroker/internal/groupcoord"
)

var (
	descGroups  = prometheus.NewDesc("kbroker_groups", "Consumer groups that this broker coordinates, by state.", []string{"state"}, nil)
	descOffsets = prometheus.NewDesc("kbroker_group_offsets", "Committed offsets that this broker keeps; pending ones belong to open transactions.",
		[]string{"kind"}, nil)
	descGroupEvents = prometheus.NewDesc("kbroker_group_events_total", "What happened to groups and offsets since the start, by kind.", []string{"kind"}, nil)
)

// groupMetrics shows the group coordinator's own numbers to Prometheus.
type groupMetrics struct{ groups *groupcoord.Coordinator }

// Describe implements prometheus.Collector.
func (groupMetrics) Describe(ch chan<- *prometheus.Desc) {
	ch <- descGroups
	ch <- descOffsets
	ch <- descGroupEvents
}

// Collect implements prometheus.Collector.
func (g groupMetrics) Collect(ch chan<- prometheus.Metric) {
	s := g.groups.Stats()
	gauge := func(d *prometheus.Desc, v int64, label string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(v), label)
	}
	for state, n := range s.Groups {
		gauge(descGroups, n, state.String())
	}
	gauge(descOffsets, s.Offsets, "committed")
	gauge(descOffsets, s.PendingOffsets, "pending")
	for kind, n := range map[string]int64{"commit": s.Commits, "expiration": s.Expirations, "deletion": s.Deletions, "rebalance": s.Rebalances} {
		ch <- prometheus.MustNewConstMetric(descGroupEvents, prometheus.CounterValue, float64(n), kind)
	}
}
