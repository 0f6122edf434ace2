package broker

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// stats are the counters of the hot paths; the rest is computed when somebody looks.
type stats struct {
	bytesIn, bytesOut             atomic.Int64
	parkedProduces, parkedFetches atomic.Int64
}

func (s *stats) produced(n int) { s.bytesIn.Add(int64(n)) }
func (s *stats) fetched(n int)  { s.bytesOut.Add(int64(n)) }

// The metrics of this package; docs/metrics.md is made from the descriptions.
var (
	descBytesIn    = prometheus.NewDesc("kbroker_produced_bytes_total", "Record bytes received by Produce, before validation.", nil, nil)
	descBytesOut   = prometheus.NewDesc("kbroker_fetched_bytes_total", "Record bytes read for Fetch answers.", nil, nil)
	descPartitions = prometheus.NewDesc("kbroker_partitions", "Replicas hosted by this broker, by what they are doing.", []string{"state"}, nil)
	descLogSize    = prometheus.NewDesc("kbroker_log_size_bytes", "Bytes of the logs of a topic on this broker.", []string{"topic"}, nil)
	descParked     = prometheus.NewDesc("kbroker_purgatory_requests", "Requests that wait for data or for replication, by kind.", []string{"kind"}, nil)
	descFilesOpen  = prometheus.NewDesc("kbroker_open_log_files", "Segment files held open, and the limit of the cache.", []string{"what"}, nil)
	descDirOffline = prometheus.NewDesc("kbroker_log_dir_offline", "1 when the log directory failed.", []string{"dir"}, nil)
)

// Describe implements prometheus.Collector.
func (b *Broker) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descBytesIn, descBytesOut, descPartitions, descLogSize, descParked, descFilesOpen, descDirOffline} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (b *Broker) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	ch <- prometheus.MustNewConstMetric(descBytesIn, prometheus.CounterValue, float64(b.stats.bytesIn.Load()))
	ch <- prometheus.MustNewConstMetric(descBytesOut, prometheus.CounterValue, float64(b.stats.bytesOut.Load()))
	states, sizes := map[string]int{"leader": 0, "follower": 0, "offline": 0}, map[string]int64{}
	b.replicas(func(r *replica) bool {
		states[r.state()]++
		if r.log != nil {
			sizes[r.tp.Topic] += r.log.Size()
		}
		return true
	})
	for s, n := range states {
		gauge(descPartitions, float64(n), s)
	}
	for t, n := range sizes {
		gauge(descLogSize, float64(n), t)
	}
	gauge(descParked, float64(b.stats.parkedProduces.Load()), "produce")
	gauge(descParked, float64(b.stats.parkedFetches.Load()), "fetch")
	open, limit := b.o.Files.Usage()
	gauge(descFilesOpen, float64(open), "open")
	gauge(descFilesOpen, float64(limit), "limit")
	for _, d := range b.o.Dirs {
		gauge(descDirOffline, bool01(d.Err() != nil), d.Path())
	}
}

func bool01(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// state says in one word what this broker does with the replica.
func (r *replica) state() string {
	if r.log == nil || r.log.Err() != nil {
		return "offline"
	}
	r.role.RLock()
	defer r.role.RUnlock()
	if r.role.leading {
		return "leader"
	}
	return "follower"
}
