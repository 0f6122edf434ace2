package coordrt_test

import (
	"context"
	"testing"
	"time"

	"github.com/kbroker/kbroker/internal/coordrt"
	"github.com/kbroker/kbroker/internal/coordrt/coordtest"
)

// BenchmarkWrite is one operation with one record, from call to answer, on a log that commits at once.
func BenchmarkWrite(b *testing.B) {
	log := coordtest.New()
	rt, err := coordrt.New(coordrt.Options[*dict]{Topic: topic, Log: log, NewShard: newDict})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() { _ = rt.Run(ctx) }()
	log.Lead(tp(0), 1)
	rt.Elected(0, 1)
	r := []coordrt.Record{rec("key", "value")}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			_, err := coordrt.Write(ctx, rt, 0, func(d *dict, _ time.Time) (coordrt.Result, int, error) {
				d.offsets = d.offsets[:0]
				return coordrt.Result{Records: r}, 0, nil
			})
			if err != nil {
				b.Error(err)
			}
		}
	})
}
