package controller

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/kbroker/kbroker/config"
	"github.com/kbroker/kbroker/internal/metadata"
	"github.com/kbroker/kbroker/internal/quorum"
	"github.com/kbroker/kbroker/internal/vfs"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// BenchmarkFirstStart is an empty folder on a real disk to a broker that may serve.
func BenchmarkFirstStart(b *testing.B) {
	for b.Loop() {
		q, err := quorum.Open(quorum.Options{FS: vfs.OS{}, Dir: b.TempDir() + "/meta", NodeID: 1, Voters: []int32{1}})
		if err != nil {
			b.Fatal(err)
		}
		c, err := New(options(q, config.Default()))
		if err != nil {
			b.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 2)
		go func() { ended <- q.Run(ctx) }()
		go func() { ended <- c.Run(ctx) }()
		if _, err := c.Handle(ctx, Caller{Broker: 1}, registration(1, 1)); err != nil {
			b.Fatal(err)
		}
		h := kmsg.NewPtrBrokerHeartbeatRequest()
		h.BrokerID, h.BrokerEpoch, h.CurrentMetadataOffset = 1, q.Image().Broker(1).Epoch, q.Image().Offset()
		if _, err := c.Handle(ctx, Caller{Broker: 1}, h); err != nil {
			b.Fatal(err)
		}
		cancel()
		<-ended
		<-ended
	}
}

// large returns a cluster of 30 brokers and 100,000 partitions with three replicas.
func large(b *testing.B) *world {
	w := newWorld(b, 0)
	var records []metadata.Record
	for i := range int32(30) {
		r := registration(i, 1)
		records = append(records, registrationOf(r))
		records[i].(*metadata.RegisterBrokerRecord).Epoch = int64(i + 1)
		records[i].(*metadata.RegisterBrokerRecord).Fenced = false
	}
	img, _, err := w.v.img.Apply(records)
	if err != nil {
		b.Fatal(err)
	}
	w.v.img = img
	for i := range 100 {
		w.v.rng = rand.New(rand.NewPCG(1, uint64(i)))
		d := w.v.createTopics(createRequest(topicRequest(fmt.Sprint("t", i), 1000, 3)))
		if w.v.img, _, err = w.v.img.Apply(d.records); err != nil {
			b.Fatal(err)
		}
	}
	return w
}

// BenchmarkFenceOneOf30 is the decision that moves the leaders of one broker: a thirtieth of 100,000 partitions led, a
// tenth of them in the ISR.
func BenchmarkFenceOneOf30(b *testing.B) {
	w := large(b)
	var records []metadata.Record
	for b.Loop() {
		var err error
		if records, err = w.v.fence(w.v.img.Broker(3), "bench"); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(len(records)-1), "partitions")
}

func BenchmarkHeartbeatBeside100kPartitions(b *testing.B) {
	w := large(b)
	h := kmsg.NewPtrBrokerHeartbeatRequest()
	h.BrokerID, h.BrokerEpoch, h.CurrentMetadataOffset = 3, w.v.img.Broker(3).Epoch, 1<<40
	w.v.now = time.Now()
	for b.Loop() {
		w.v.brokerHeartbeat(h)
	}
}

func BenchmarkCreateTopicBeside100kPartitions(b *testing.B) {
	w := large(b)
	r := createRequest(topicRequest("new.topic", 12, 3))
	for b.Loop() {
		w.v.createTopics(r)
	}
}
