package api

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/internal/vfs"
)

// memFile is a file of fixed content.
type memFile struct {
	vfs.File
	content []byte
}

func (m memFile) ReadAt(p []byte, off int64) (int, error) {
	return bytes.NewReader(m.content).ReadAt(p, off)
}
func (m memFile) OSFile() *os.File { return nil }

// memPiece is a piece of it.
type memPiece struct {
	file     memFile
	pos      int64
	n        int
	released *int
}

func (p memPiece) Len() int                { return p.n }
func (p memPiece) File() (vfs.File, int64) { return p.file, p.pos }
func (p memPiece) Release()                { *p.released++ }

// randomFetch makes a response with records in it, and the same as an answer without.
func randomFetch(r *rand.Rand, version int16, content []byte, released *int) (whole *kmsg.FetchResponse, a *FetchAnswer, pieces int) {
	whole = kmsg.NewPtrFetchResponse()
	whole.Version, whole.ThrottleMillis, whole.ErrorCode, whole.SessionID = version, r.Int32(), int16(r.IntN(200)), r.Int32()
	bare := *whole
	var records []Records
	for range r.IntN(4) {
		t := kmsg.NewFetchResponseTopic()
		t.Topic = string(bytes.Repeat([]byte("t"), r.IntN(300)))
		for i := range t.TopicID {
			t.TopicID[i] = byte(r.Uint32())
		}
		bt := t
		for range r.IntN(4) {
			p := kmsg.NewFetchResponseTopicPartition()
			p.Partition, p.ErrorCode, p.PreferredReadReplica = r.Int32(), int16(r.IntN(130)), r.Int32()
			p.HighWatermark, p.LastStableOffset, p.LogStartOffset = r.Int64(), r.Int64(), r.Int64()
			if r.IntN(2) == 0 {
				p.AbortedTransactions = make([]kmsg.FetchResponseTopicPartitionAbortedTransaction, r.IntN(3))
				for i := range p.AbortedTransactions {
					p.AbortedTransactions[i].ProducerID, p.AbortedTransactions[i].FirstOffset = r.Int64(), r.Int64()
				}
			}
			if r.IntN(3) == 0 {
				p.DivergingEpoch.Epoch, p.DivergingEpoch.EndOffset = r.Int32(), r.Int64()
			}
			if r.IntN(3) == 0 {
				p.CurrentLeader.LeaderID, p.CurrentLeader.LeaderEpoch = r.Int32(), r.Int32()
			}
			bt.Partitions = append(bt.Partitions, p)
			p.RecordBatches = []byte{}
			if r.IntN(3) > 0 {
				pos := r.IntN(len(content))
				n := r.IntN(len(content) - pos)
				p.RecordBatches = content[pos : pos+n : pos+n]
				records = append(records, memPiece{memFile{content: content}, int64(pos), n, released})
				pieces++
			} else {
				records = append(records, nil)
			}
			t.Partitions = append(t.Partitions, p)
		}
		whole.Topics, bare.Topics = append(whole.Topics, t), append(bare.Topics, bt)
	}
	for range r.IntN(3) {
		b := kmsg.NewFetchResponseBroker()
		b.NodeID, b.Host, b.Port = r.Int32(), fmt.Sprint("host", r.IntN(1000)), r.Int32()
		if r.IntN(2) == 0 {
			rack := "rack"
			b.Rack = &rack
		}
		whole.Brokers, bare.Brokers = append(whole.Brokers, b), append(bare.Brokers, b)
	}
	return whole, NewFetchAnswer(&bare, records), pieces
}

// The encoder here agrees with kmsg's on every version (A5).
func TestFetchAnswersEqualThoseOfKmsg(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	content := make([]byte, 40_000)
	for i := range content {
		content[i] = byte(r.Uint32())
	}
	api := fetchAPI()
	for version := api.Min; version <= api.Max; version++ {
		for range 300 {
			released := 0
			whole, a, pieces := randomFetch(r, version, content, &released)
			prefix := []byte("prefix")
			head, cuts := a.AppendTo(prefix)
			require.Equal(t, "prefix", string(head[:6]), "appends")
			var got []byte
			at, records := len(prefix), 0
			for _, c := range cuts {
				require.Positive(t, c.Records.Len())
				records += c.Records.Len()
				f, pos := c.Records.File()
				got = append(got, head[at:c.At]...)
				got = append(got, f.(memFile).content[pos:int(pos)+c.Records.Len()]...)
				at = c.At
			}
			got = append(got, head[at:]...)
			require.True(t, bytes.Equal(whole.AppendTo(nil), got), "v%d", version)
			require.Equal(t, a.RecordBytes(), records)
			a.Release()
			a.Release()
			require.Equal(t, pieces, released, "each once")
		}
	}
}

func BenchmarkFetchAnswer(b *testing.B) {
	resp := kmsg.NewPtrFetchResponse()
	resp.Version = 12
	t := kmsg.NewFetchResponseTopic()
	t.Topic = "topic"
	var records []Records
	n := 0
	for i := range 10 {
		p := kmsg.NewFetchResponseTopicPartition()
		p.Partition = int32(i)
		t.Partitions = append(t.Partitions, p)
		records = append(records, memPiece{n: 1000, released: &n})
	}
	resp.Topics = append(resp.Topics, t)
	a := NewFetchAnswer(resp, records)
	buf := make([]byte, 0, 4096)
	b.ReportAllocs()
	for b.Loop() {
		a.AppendTo(buf)
	}
}
