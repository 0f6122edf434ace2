package api

import (
	"encoding/binary"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/internal/vfs"
)

// Records is a piece of a log file; *segment.Slice is the one.
type Records interface {
	// Len returns the number of bytes.
	Len() int
	// File returns the file, which stays open until Release, and where in it the piece begins.
	File() (f vfs.File, pos int64)
	// Release gives the piece back. It must be called once.
	Release()
}

// FetchAnswer is a Fetch response whose records are still in their files. It owns them: Release must be called once,
// after they were sent or when they never will be.
type FetchAnswer struct {
	// Response holds everything but the records.
	Response *kmsg.FetchResponse
	// records are those of the partitions of Response in order; nil for none.
	records []Records
}

// NewFetchAnswer returns an answer with the records of the response's partitions in order, nil for none.
func NewFetchAnswer(r *kmsg.FetchResponse, records []Records) *FetchAnswer {
	return &FetchAnswer{Response: r, records: records}
}

// Cut is a place in an encoded Fetch answer where records belong.
type Cut struct {
	// At is the position in the encoded bytes that the records come before.
	At      int
	Records Records
}

// RecordBytes returns the number of bytes of all records.
func (a *FetchAnswer) RecordBytes() int {
	n := 0
	for _, r := range a.records {
		if r != nil {
			n += r.Len()
		}
	}
	return n
}

// Release gives the records back.
func (a *FetchAnswer) Release() {
	for i, r := range a.records {
		if r != nil {
			r.Release()
			a.records[i] = nil
		}
	}
}

// AppendTo appends what kmsg's FetchResponse.AppendTo would, without the records, and says where they belong (A5).
func (a *FetchAnswer) AppendTo(dst []byte) ([]byte, []Cut) {
	e := fetchEncoder{dst: dst, version: a.Response.Version, flexible: a.Response.IsFlexible(), records: a.records}
	e.response(a.Response)
	return e.dst, e.cuts
}

type fetchEncoder struct {
	dst      []byte
	version  int16
	flexible bool
	records  []Records // of the partitions that are still to come
	cuts     []Cut
}

func (e *fetchEncoder) response(r *kmsg.FetchResponse) {
	e.int32(r.ThrottleMillis)
	if e.version >= 7 {
		e.int16(r.ErrorCode)
		e.int32(r.SessionID)
	}
	e.arrayLen(len(r.Topics))
	for i := range r.Topics {
		t := &r.Topics[i]
		if e.version >= 13 {
			e.dst = append(e.dst, t.TopicID[:]...)
		} else {
			e.string(t.Topic)
		}
		e.arrayLen(len(t.Partitions))
		for j := range t.Partitions {
			e.partition(&t.Partitions[j])
		}
		e.noTags()
	}
	e.brokers(r.Brokers)
}

func (e *fetchEncoder) partition(p *kmsg.FetchResponseTopicPartition) {
	e.int32(p.Partition)
	e.int16(p.ErrorCode)
	e.int64(p.HighWatermark)
	e.int64(p.LastStableOffset)
	if e.version >= 5 {
		e.int64(p.LogStartOffset)
	}
	e.aborted(p.AbortedTransactions)
	if e.version >= 11 {
		e.int32(p.PreferredReadReplica)
	}
	e.cut()
	e.partitionTags(p)
}

func (e *fetchEncoder) aborted(txns []kmsg.FetchResponseTopicPartitionAbortedTransaction) {
	if txns == nil {
		e.nullArray()
		return
	}
	e.arrayLen(len(txns))
	for i := range txns {
		e.int64(txns[i].ProducerID)
		e.int64(txns[i].FirstOffset)
		e.noTags()
	}
}

// cut writes the length of the next partition's records and marks their place. No records are written as empty, not as
// null, as Kafka does.
func (e *fetchEncoder) cut() {
	s := e.records[0]
	e.records = e.records[1:]
	n := 0
	if s != nil {
		n = s.Len()
	}
	if e.flexible {
		e.uvarint(n + 1)
	} else {
		e.int32(int32(n))
	}
	if n > 0 {
		e.cuts = append(e.cuts, Cut{At: len(e.dst), Records: s})
	}
}

func (e *fetchEncoder) partitionTags(p *kmsg.FetchResponseTopicPartition) {
	if !e.flexible {
		return
	}
	diverging := p.DivergingEpoch.Epoch != -1 || p.DivergingEpoch.EndOffset != -1
	leader := p.CurrentLeader.LeaderID != -1 || p.CurrentLeader.LeaderEpoch != -1
	n := 0
	for _, set := range []bool{diverging, leader} {
		if set {
			n++
		}
	}
	e.uvarint(n)
	if diverging {
		e.uvarint(0)         // tag
		e.uvarint(4 + 8 + 1) // size
		e.int32(p.DivergingEpoch.Epoch)
		e.int64(p.DivergingEpoch.EndOffset)
		e.noTags()
	}
	if leader {
		e.uvarint(1)
		e.uvarint(4 + 4 + 1)
		e.int32(p.CurrentLeader.LeaderID)
		e.int32(p.CurrentLeader.LeaderEpoch)
		e.noTags()
	}
}

// brokers writes the endpoints of new leaders, a tagged field of the response.
func (e *fetchEncoder) brokers(bs []kmsg.FetchResponseBroker) {
	if !e.flexible {
		return
	}
	if len(bs) == 0 {
		e.noTags()
		return
	}
	outer := e.dst
	e.dst = nil
	e.arrayLen(len(bs))
	for i := range bs {
		e.int32(bs[i].NodeID)
		e.string(bs[i].Host)
		e.int32(bs[i].Port)
		e.nullableString(bs[i].Rack)
		e.noTags()
	}
	list := e.dst
	e.dst = outer
	e.uvarint(1)
	e.uvarint(0)
	e.uvarint(len(list))
	e.dst = append(e.dst, list...)
}

func (e *fetchEncoder) int16(v int16) { e.dst = binary.BigEndian.AppendUint16(e.dst, uint16(v)) }
func (e *fetchEncoder) int32(v int32) { e.dst = binary.BigEndian.AppendUint32(e.dst, uint32(v)) }
func (e *fetchEncoder) int64(v int64) { e.dst = binary.BigEndian.AppendUint64(e.dst, uint64(v)) }
func (e *fetchEncoder) uvarint(v int) { e.dst = binary.AppendUvarint(e.dst, uint64(v)) }

func (e *fetchEncoder) arrayLen(n int) {
	if e.flexible {
		e.uvarint(n + 1)
	} else {
		e.int32(int32(n))
	}
}

func (e *fetchEncoder) nullArray() {
	if e.flexible {
		e.uvarint(0)
	} else {
		e.int32(-1)
	}
}

func (e *fetchEncoder) string(s string) {
	if e.flexible {
		e.uvarint(len(s) + 1)
	} else {
		e.int16(int16(len(s)))
	}
	e.dst = append(e.dst, s...)
}

func (e *fetchEncoder) nullableString(s *string) {
	switch {
	case s != nil:
		e.string(*s)
	case e.flexible:
		e.uvarint(0)
	default:
		e.int16(-1)
	}
}

// noTags ends a structure without tagged fields.
func (e *fetchEncoder) noTags() {
	if e.flexible {
		e.dst = append(e.dst, 0)
	}
}
