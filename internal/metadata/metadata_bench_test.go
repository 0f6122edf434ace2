package metadata

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/kbroker/kbroker/internal/model"
)

// many returns the records of that many partitions with three replicas on 30 brokers each.
func many(topics, partitionsEach int) []Record {
	var rs []Record
	for i := range topics {
		tid := model.UUID{1, byte(i >> 16), byte(i >> 8), byte(i), 1}
		rs = append(rs, &TopicRecord{Name: fmt.Sprintf("topic-%06d", i), ID: tid})
		for p := range partitionsEach {
			a, b, c := int32((i+p)%30), int32((i+p+1)%30), int32((i+p+2)%30)
			r := part(tid, int32(p), a, b, c)
			for d := range r.State.Directories {
				r.State.Directories[d] = id(byte(r.State.Replicas[d] + 1))
			}
			rs = append(rs, r)
		}
	}
	return rs
}

func BenchmarkLoad100kPartitions(b *testing.B) {
	for _, shape := range []struct{ topics, each int }{{100000, 1}, {1000, 100}, {10, 10000}} {
		b.Run(fmt.Sprintf("topics=%d", shape.topics), func(b *testing.B) {
			bytes := AppendBatch(nil, many(shape.topics, shape.each))
			var img *Image
			for b.Loop() {
				records, err := DecodeBatch(bytes)
				if err != nil {
					b.Fatal(err)
				}
				if img, _, err = Empty().Apply(records); err != nil {
					b.Fatal(err)
				}
			}
			b.StopTimer()
			b.ReportMetric(float64(len(bytes))/100000, "disk-B/partition")
			b.ReportMetric(heapOf(bytes)/100000, "heap-B/partition")
			runtime.KeepAlive(img)
		})
	}
}

// heapOf returns how much memory the image of a batch keeps alive.
func heapOf(bytes []byte) float64 {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	img := func() *Image {
		records, _ := DecodeBatch(bytes)
		img, _, _ := Empty().Apply(records)
		return img
	}()
	runtime.GC()
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(img)
	return float64(after.HeapAlloc) - float64(before.HeapAlloc)
}

// One leader change must cost the same beside 100,000 partitions as beside none.
func BenchmarkOneLeaderChange(b *testing.B) {
	for _, topics := range []int{1, 1000, 100000} {
		b.Run(fmt.Sprintf("topics=%d", topics), func(b *testing.B) {
			img, _, err := Empty().Apply(many(topics, 1))
			if err != nil {
				b.Fatal(err)
			}
			r := []Record{&PartitionChangeRecord{TopicID: img.Topic("topic-000000").ID, Leader: 0}}
			b.ReportAllocs()
			for b.Loop() {
				if img, _, err = img.Apply(r); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkLeaderChangeOf10kIn100k(b *testing.B) {
	img, _, err := Empty().Apply(many(100000, 1))
	if err != nil {
		b.Fatal(err)
	}
	var rs []Record
	for t := range img.AllTopics() {
		if p := t.Partitions[0]; len(rs) < 10000 && p.Leader%10 == 3 {
			rs = append(rs, &PartitionChangeRecord{TopicID: t.ID, Leader: p.Replicas[1], ISR: p.Replicas[1:]})
		}
	}
	bytes := AppendBatch(nil, rs)
	for b.Loop() {
		records, err := DecodeBatch(bytes)
		if err != nil {
			b.Fatal(err)
		}
		if _, _, err := img.Apply(records); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(len(bytes)), "batch-B")
	b.ReportMetric(float64(len(rs)), "partitions")
}
