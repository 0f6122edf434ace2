package isr

import "testing"

// BenchmarkAppend is what a leader pays per append and its followers' fetches.
func BenchmarkAppend(b *testing.B) {
	for name, replicas := range map[string][]Replica{"one replica": {{1, 1}}, "three replicas": {{1, 1}, {2, 1}, {3, 1}}} {
		b.Run(name, func(b *testing.B) {
			run := newRunner()
			l := New(&run.o, 1, Assignment{LeaderEpoch: 1, Replicas: replicas, ISR: []int32{1, 2, 3}[:len(replicas)]}, 0, run.now)
			end, hw := int64(0), int64(0)
			b.ReportAllocs()
			for b.Loop() {
				end++
				for _, r := range replicas[1:] {
					_, _ = l.Fetched(Fetch{Replica: r.ID, Incarnation: 1, BrokerEpoch: int64(r.ID) * 10, Offset: end}, end, hw, run.now)
				}
				hw = l.Advance(end, hw, run.now)
			}
		})
	}
}
