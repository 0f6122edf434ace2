package api

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/internal/broker"
	"github.com/kbroker/kbroker/partition"
)

// quietData answers without taking notes.
type quietData struct{ fakeData }

func (quietData) Produce(_ context.Context, r broker.ProduceRequest, done func([]broker.ProduceResult)) {
	done(make([]broker.ProduceResult, len(r.Partitions)))
}

func (quietData) Fetch(_ context.Context, r broker.FetchRequest, done func([]broker.FetchedPartition)) {
	out := make([]broker.FetchedPartition, len(r.Partitions))
	for i := range out {
		out[i] = broker.FetchedPartition{DivergingEpoch: -1, PreferredReadReplica: -1, Read: partition.ReadResult{HighWatermark: 10}}
	}
	done(out)
}

func benchService(b *testing.B) *Service {
	w := newWorld(b)
	return NewService(Backends{
		NodeID: 1, Data: quietData{fakeData{w}}, Cluster: w.cluster(), Controller: fakeController{w}, Groups: fakeGroups{w},
		ProducerIDs: fakeIDs{w}, Authorizer: AllowAll{},
	}, rand.New(rand.NewPCG(1, 2)))
}

// What the handlers of the hot paths cost per request, without decoding, encoding and the backend.
func BenchmarkProduceHandler(b *testing.B) {
	s := benchService(b)
	q := kmsg.NewPtrProduceRequest()
	q.Version, q.Acks = 12, -1
	q.Topics = []kmsg.ProduceRequestTopic{{Topic: "t", Partitions: make([]kmsg.ProduceRequestTopicPartition, 1)}}
	r := &Request{Peer: &Peer{Listener: "PLAINTEXT"}, Version: 12, Body: q}
	a := s.Table().Find(0)
	b.ReportAllocs()
	for b.Loop() {
		s.Serve(b.Context(), a, r, func(Reply) {})
	}
}

func BenchmarkFetchHandler(b *testing.B) {
	for name, n := range map[string]int{"1 partition": 1, "1000 partitions": 1000} {
		b.Run(name, func(b *testing.B) {
			s := benchService(b)
			q := kmsg.NewPtrFetchRequest()
			q.Version, q.SessionEpoch = 12, 0
			q.Topics = []kmsg.FetchRequestTopic{{Topic: "t", Partitions: make([]kmsg.FetchRequestTopicPartition, n)}}
			for i := range q.Topics[0].Partitions {
				q.Topics[0].Partitions[i].Partition = int32(i)
			}
			r := &Request{Peer: &Peer{Listener: "PLAINTEXT"}, Version: 12, Body: q}
			a := s.Table().Find(1)
			b.ReportAllocs()
			for b.Loop() {
				s.Serve(b.Context(), a, r, func(rep Reply) {
					q.SessionID = rep.Fetch.Response.SessionID
				})
				q.Topics = nil // from now on the session knows
				q.SessionEpoch = nextEpoch(q.SessionEpoch)
			}
		})
	}
}
