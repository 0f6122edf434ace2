package node

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/kbroker/kbroker/protocol/record"
)

// What users of Kafka-compatible brokers were bitten by, each as a test of its own.

// inWorld runs fn with a started node and an admin client, in virtual time.
func inWorld(t *testing.T, fn func(w *world, admin *kadm.Client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.start()
		c := w.client()
		fn(w, kadm.NewClient(c))
		c.Close()
		w.stop()
	})
}

// inRealTime is inWorld without virtual time: for what uses zstd, whose pooled codecs hold channels that must not leave the
// bubble in which they were made.
func inRealTime(t *testing.T, fn func(w *world)) {
	t.Helper()
	w := newWorld(t)
	w.start()
	fn(w)
	w.stop()
}

func ptr(s string) *string { return &s }

func TestEveryCodecComesBack(t *testing.T) {
	inRealTime(t, func(w *world) {
		for _, codec := range []kgo.CompressionCodec{kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression()} {
			c := w.client(kgo.AllowAutoTopicCreation(), kgo.ProducerBatchCompression(codec))
			value := strings.Repeat("compressible ", 500)
			require.NoError(w, c.ProduceSync(w.Context(), &kgo.Record{Topic: "t", Value: []byte(value)}).FirstErr())
			c.Close()
		}
		for _, v := range w.consume("t", 0, 5) {
			require.Equal(w, strings.Repeat("compressible ", 500), v)
		}
	})
}

func TestMaxMessageBytesCountsTheCompressedBatch(t *testing.T) {
	inRealTime(t, func(w *world) {
		w.create("small", 1, map[string]*string{"max.message.bytes": ptr("5000")})
		send := func(codec kgo.CompressionCodec) error {
			c := w.client(kgo.ProducerBatchCompression(codec), kgo.DefaultProduceTopic("small"))
			defer c.Close()
			return c.ProduceSync(w.Context(), &kgo.Record{Value: []byte(strings.Repeat("x", 20_000))}).FirstErr()
		}
		require.ErrorIs(w, send(kgo.NoCompression()), kerr.MessageTooLarge)
		require.NoError(w, send(kgo.ZstdCompression()))
	})
}

func TestKeylessRecordOnACompactedTopic(t *testing.T) {
	inWorld(t, func(w *world, _ *kadm.Client) {
		w.create("compacted", 1, map[string]*string{"cleanup.policy": ptr("compact")})
		c := w.client(kgo.DefaultProduceTopic("compacted"))
		defer c.Close()
		require.ErrorIs(w, c.ProduceSync(w.Context(), &kgo.Record{Value: []byte("v")}).FirstErr(), kerr.InvalidRecord)
		require.NoError(w, c.ProduceSync(w.Context(), &kgo.Record{Key: []byte("k")}).FirstErr(), "a tombstone is fine")
	})
}

func TestConfigsAreCheckedAndReported(t *testing.T) {
	inWorld(t, func(w *world, admin *kadm.Client) {
		for name, value := range map[string]string{"prefix": "x", "retention.ms": "soon", "cleanup.policy": "shred", "segment.bytes": "1"} {
			resp, err := admin.CreateTopics(w.Context(), 1, 1, map[string]*string{name: &value}, "bad")
			require.NoError(w, err)
			require.ErrorIs(w, resp["bad"].Err, kerr.InvalidConfig, name)
		}
		w.create("t", 1, map[string]*string{"cleanup.policy": ptr("compact")})
		configs, err := admin.DescribeTopicConfigs(w.Context(), "t")
		require.NoError(w, err)
		set := map[string]string{}
		for _, c := range configs[0].Configs {
			if c.Source == kmsg.ConfigSourceDynamicTopicConfig {
				set[c.Key] = *c.Value
			}
		}
		require.Equal(w, map[string]string{"cleanup.policy": "compact"}, set, "only what was set is a topic's own")
		require.Greater(w, len(configs[0].Configs), 30)
	})
}

func TestAutoCreation(t *testing.T) {
	inWorld(t, func(w *world, _ *kadm.Client) {
		c := w.client()
		defer c.Close()
		ask := func(topic string, create bool) error {
			req := kmsg.NewPtrMetadataRequest()
			req.AllowAutoTopicCreation = create
			rt := kmsg.NewMetadataRequestTopic()
			rt.Topic = &topic
			req.Topics = append(req.Topics, rt)
			resp, err := req.RequestWith(w.Context(), c)
			require.NoError(w, err)
			return kerr.ErrorForCode(resp.Topics[0].ErrorCode)
		}
		require.ErrorIs(w, ask("new", false), kerr.UnknownTopicOrPartition)
		require.ErrorIs(w, ask("bad/name", true), kerr.InvalidTopicException)
		if err := ask("new", true); err != nil {
			require.ErrorIs(w, err, kerr.LeaderNotAvailable)
		}
		require.NoError(w, ask("new", false))
	})
}

func TestOffsetsHaveNoGaps(t *testing.T) {
	inWorld(t, func(w *world, admin *kadm.Client) {
		w.create("t", 1, nil)
		for round := range 3 {
			c := w.client(kgo.DefaultProduceTopic("t"))
			for i := range 50 {
				r, err := c.ProduceSync(w.Context(), &kgo.Record{Value: []byte("v")}).First()
				require.NoError(w, err)
				require.Equal(w, int64(50*round+i), r.Offset)
			}
			c.Close()
			w.restart() // a new leader epoch each time
		}
		end, err := admin.ListEndOffsets(w.Context(), "t")
		require.NoError(w, err)
		o, _ := end.Lookup("t", 0)
		require.Equal(w, int64(150), o.Offset)
	})
}

func TestFetchWaitsForMinBytes(t *testing.T) {
	inWorld(t, func(w *world, _ *kadm.Client) {
		w.create("t", 1, nil)
		c := w.client(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"t": {0: kgo.NewOffset().At(0)}}),
			kgo.FetchMinBytes(10_000), kgo.FetchMaxWait(5*time.Second))
		defer c.Close()
		got := make(chan int, 1)
		begin := time.Now()
		go func() { got <- c.PollFetches(w.Context()).NumRecords() }()
		w.produce("t", "little")
		require.Equal(w, 1, <-got)
		require.GreaterOrEqual(w, time.Since(begin), 4*time.Second, "what little there is comes when the time is over")
		go func() { got <- c.PollFetches(w.Context()).NumRecords() }()
		begin = time.Now()
		w.produce("t", noise(20_000))
		require.Equal(w, 1, <-got)
		require.Less(w, time.Since(begin), time.Second)
	})
}

// noise is text that does not compress well.
func noise(n int) string {
	rng := rand.New(rand.NewPCG(1, 1))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(' ' + rng.IntN(90))
	}
	return string(b)
}

func TestDeleteRecords(t *testing.T) {
	inWorld(t, func(w *world, admin *kadm.Client) {
		w.create("t", 1, nil)
		w.produce("t", "a", "b", "c")
		del := func(at int64) (int64, error) {
			var o kadm.Offsets
			o.Add(kadm.Offset{Topic: "t", Partition: 0, At: at})
			resp, err := admin.DeleteRecords(w.Context(), o)
			require.NoError(w, err)
			r, _ := resp.Lookup("t", 0)
			return r.LowWatermark, r.Err
		}
		low, err := del(2)
		require.NoError(w, err)
		require.Equal(w, int64(2), low)
		require.Equal(w, []string{"c"}, w.consume("t", 2, 1))
		_, err = del(9)
		require.ErrorIs(w, err, kerr.OffsetOutOfRange)
		low, err = del(-1)
		require.NoError(w, err)
		require.Equal(w, int64(3), low, "-1 is the high watermark")
		w.restart()
		starts, err := admin.ListStartOffsets(w.Context(), "t")
		require.NoError(w, err)
		o, _ := starts.Lookup("t", 0)
		require.Equal(w, int64(3), o.Offset)
	})
}

// A reader of committed data never sees an open or an aborted transaction, however long it stays open.
func TestReadCommitted(t *testing.T) {
	inWorld(t, func(w *world, _ *kadm.Client) {
		w.create("t", 1, nil)
		w.produce("t", "plain")
		c := w.client(kgo.MaxVersions(kversion.V2_8_0())) // topics by name, transactions without a coordinator's leave
		defer c.Close()
		write := func(pid int64, value string) {
			b := record.NewBuilder(record.Options{Idempotent: true, ProducerID: pid, Transactional: true})
			b.Add(time.Now().UnixMilli(), nil, []byte(value))
			batch, err := b.Finish()
			require.NoError(w, err)
			req := kmsg.NewPtrProduceRequest()
			req.Acks, req.TransactionID = -1, ptr(fmt.Sprint("txn-", pid))
			rt := kmsg.NewProduceRequestTopic()
			rt.Topic = "t"
			rp := kmsg.NewProduceRequestTopicPartition()
			rp.Records = batch
			rt.Partitions = append(rt.Partitions, rp)
			req.Topics = append(req.Topics, rt)
			resp, err := req.RequestWith(w.Context(), c)
			require.NoError(w, err)
			require.NoError(w, kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode))
		}
		end := func(pid int64, commit bool) {
			req := kmsg.NewPtrWriteTxnMarkersRequest()
			m := kmsg.NewWriteTxnMarkersRequestMarker()
			m.ProducerID, m.Committed = pid, commit
			mt := kmsg.NewWriteTxnMarkersRequestMarkerTopic()
			mt.Topic, mt.Partitions = "t", []int32{0}
			m.Topics = append(m.Topics, mt)
			req.Markers = append(req.Markers, m)
			resp, err := req.RequestWith(w.Context(), c)
			require.NoError(w, err)
			require.NoError(w, kerr.ErrorForCode(resp.Markers[0].Topics[0].Partitions[0].ErrorCode))
		}
		reader := w.client(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"t": {0: kgo.NewOffset().At(0)}}), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
		defer reader.Close()
		poll := func(d time.Duration) (got []string) {
			ctx, cancel := context.WithTimeout(w.Context(), d)
			defer cancel()
			for ctx.Err() == nil {
				reader.PollFetches(ctx).EachRecord(func(r *kgo.Record) { got = append(got, string(r.Value)) })
			}
			return got
		}
		write(1, "aborted")
		write(2, "committed")
		end(2, true)
		require.Equal(w, []string{"plain"}, poll(time.Minute), "1 is open")
		end(1, false)
		require.Equal(w, []string{"committed"}, poll(time.Minute))
		w.restart()
		require.Equal(w, []string{"plain", "aborted", "committed"}, w.consume("t", 0, 3), "a reader of all sees all")
	})
}

func TestTheOffsetsTopicCanBeReadToItsEnd(t *testing.T) {
	inWorld(t, func(w *world, admin *kadm.Client) {
		w.create("t", 1, nil)
		var o kadm.Offsets
		o.Add(kadm.Offset{Topic: "t", Partition: 0, At: 7, LeaderEpoch: -1})
		for range 5 {
			_, err := admin.CommitOffsets(w.Context(), "g", o)
			require.NoError(w, err)
		}
		ends, err := admin.ListEndOffsets(w.Context(), "__consumer_offsets")
		require.NoError(w, err)
		var total int64
		ends.Each(func(o kadm.ListedOffset) { total += o.Offset })
		require.Equal(w, int64(5), total)
		c := w.client(kgo.ConsumeTopics("__consumer_offsets"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
		defer c.Close()
		for n := int64(0); n < total; {
			c.PollFetches(w.Context()).EachRecord(func(r *kgo.Record) {
				var key kmsg.OffsetCommitKey
				require.NoError(w, key.ReadFrom(r.Key))
				var value kmsg.OffsetCommitValue
				require.NoError(w, value.ReadFrom(r.Value))
				require.Equal(w, []any{"g", "t", int64(7)}, []any{key.Group, key.Topic, value.Offset})
				n++
			})
		}
	})
}

func TestTwoMembersShareThreePartitions(t *testing.T) {
	inWorld(t, func(w *world, _ *kadm.Client) {
		w.create("t", 3, nil)
		var members []*kgo.Client
		for range 2 {
			c := w.client(kgo.ConsumerGroup("g"), kgo.ConsumeTopics("t"), kgo.Balancers(kgo.CooperativeStickyBalancer()))
			members = append(members, c)
			go func() {
				for {
					if fs := c.PollFetches(context.Background()); fs.IsClientClosed() {
						return
					}
				}
			}()
		}
		admin := kadm.NewClient(members[0])
		var shares []int
		for range 100 {
			time.Sleep(time.Second)
			groups, err := admin.DescribeGroups(w.Context(), "g")
			require.NoError(w, err)
			shares = shares[:0]
			for _, m := range groups["g"].Members {
				if a, ok := m.Assigned.AsConsumer(); ok {
					for _, t := range a.Topics {
						shares = append(shares, len(t.Partitions))
					}
				}
			}
			slices.Sort(shares)
			if slices.Equal(shares, []int{1, 2}) {
				break
			}
		}
		require.Equal(w, []int{1, 2}, shares)
		for _, c := range members {
			c.Close()
		}
		synctest.Wait()
	})
}
