package partition

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/kbroker/kbroker/config"
	"github.com/kbroker/kbroker/partition/segment"
	"github.com/kbroker/kbroker/protocol/record"
)

// Readers run while one writer appends, truncates, flushes and retains. What they read are whole records at their offsets;
// nothing takes the partition offline. Run with the race detector.
func TestReadersAndOneBusyWriter(t *testing.T) {
	b := newBench(t, func(c *config.Topic) {
		c.SegmentBytes, c.IndexIntervalBytes, c.FileDeleteDelay = 600, 100, 0
		c.RetentionBytes, c.Retention = 3000, -1
	})
	b.part.o.Files = segment.NewCache(2)
	stop := make(chan struct{})
	var readers sync.WaitGroup
	for g := range 3 {
		readers.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				readSome(t, b.part, Bound(g), int64(i%40))
			}
		})
	}
	now := time.Now()
	for i := range 400 {
		res, err := b.part.AppendAsLeader(batchOf(t, record.Options{}, fmt.Sprintf("value of round %d", i)), int32(i/50), AppendOptions{ProduceVersion: 9})
		require.NoError(t, err)
		b.part.SetHighWatermark(res.LastOffset)
		switch i % 20 {
		case 5:
			require.NoError(t, b.part.Flush())
		case 10:
			_, err := b.part.Retain(now)
			require.NoError(t, err)
			b.part.RemoveDeleted(now.Add(time.Hour))
		case 15:
			require.NoError(t, b.part.Truncate(max(b.part.LogStartOffset(), b.part.LogEndOffset()-4)))
		}
	}
	require.NoError(t, b.part.TruncateFullyAndStartAt(1000))
	close(stop)
	readers.Wait()
	require.NoError(t, b.part.Err())
}

func readSome(t *testing.T, p *Partition, upTo Bound, ahead int64) {
	from := p.LogStartOffset() + ahead
	res, err := p.Read(ReadRequest{Offset: from, MaxBytes: 500, MinOneBatch: true, UpTo: upTo, WithAborted: true})
	if err != nil {
		if !errors.Is(err, kerr.OffsetOutOfRange) {
			t.Errorf("read: %v", err)
		}
		return
	}
	defer res.Release()
	data, err := res.Records.ReadAll()
	if err != nil {
		return // the end was cut after the range had been handed out
	}
	for len(data) > record.HeaderSize {
		v, err := record.ParseBatch(data)
		if err != nil || v.VerifyCRC() != nil {
			return // the last one is cut, or was written anew after a truncation
		}
		if v.LastOffset() < from {
			t.Errorf("asked for %d, got a batch that ends at %d", from, v.LastOffset())
		}
		if !strings.Contains(string(v.Payload()), "value of round") {
			t.Errorf("a strange batch at %d", v.BaseOffset())
		}
		data = data[len(v):]
	}
	if _, _, err := p.OffsetForTime(1_700_000_000_000, 1<<40); err != nil {
		t.Errorf("offset for time: %v", err)
	}
	if _, err := p.MaxTimestamp(); err != nil {
		t.Errorf("max timestamp: %v", err)
	}
	p.EpochEnd(3)
	p.Size()
}
