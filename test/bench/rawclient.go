package main

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net"

	"github.com/twmb/franz-go/pkg/kmsg"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// rawConn speaks the protocol with the least work of its own, so that the broker is what is measured.
type rawConn struct {
	net.Conn
	r    *bufio.Reader
	corr int32
}

func dialRaw(addr string) (*rawConn, error) {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	return &rawConn{Conn: c, r: bufio.NewReaderSize(c, 256<<10)}, nil
}

// frame encodes a request with its header.
func (c *rawConn) frame(req kmsg.Request) []byte {
	c.corr++
	return kmsg.NewRequestFormatter(kmsg.FormatterClientID("bench")).AppendRequest(nil, req, c.corr)
}

// roundTrip sends a request and decodes its answer.
func (c *rawConn) roundTrip(req kmsg.Request) (kmsg.Response, error) {
	if _, err := c.Write(c.frame(req)); err != nil {
		return nil, err
	}
	b, err := c.answer()
	if err != nil {
		return nil, err
	}
	resp := req.ResponseKind()
	resp.SetVersion(req.GetVersion())
	b = b[4:]
	if req.IsFlexible() && req.Key() != 18 {
		b = b[1:]
	}
	return resp, resp.ReadFrom(b)
}

func (c *rawConn) answer() ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(c.r, size[:]); err != nil {
		return nil, err
	}
	b := make([]byte, binary.BigEndian.Uint32(size[:]))
	_, err := io.ReadFull(c.r, b)
	return b, err
}

// skipAnswer reads an answer's size and throws the rest away.
func (c *rawConn) skipAnswer() (int, error) {
	var size [4]byte
	if _, err := io.ReadFull(c.r, size[:]); err != nil {
		return 0, err
	}
	n := int(binary.BigEndian.Uint32(size[:]))
	_, err := c.r.Discard(n)
	return n, err
}

// batch builds a valid uncompressed record batch of about size bytes with records of valueSize bytes.
func batch(size, valueSize int) []byte {
	b := make([]byte, 61, size+valueSize+32)
	value := make([]byte, valueSize)
	for i := range value {
		value[i] = byte('a' + i%23)
	}
	n := 0
	for len(b) < size {
		rec := []byte{0}                                  // attributes
		rec = binary.AppendVarint(rec, 0)                 // timestamp delta
		rec = binary.AppendVarint(rec, int64(n))          // offset delta
		rec = binary.AppendVarint(rec, -1)                // no key
		rec = binary.AppendVarint(rec, int64(len(value))) // value
		rec = append(rec, value...)
		rec = binary.AppendVarint(rec, 0) // no headers
		b = binary.AppendVarint(b, int64(len(rec)))
		b = append(b, rec...)
		n++
	}
	const now = 1_700_000_000_000
	binary.BigEndian.PutUint32(b[8:], uint32(len(b)-12))
	b[16] = 2
	binary.BigEndian.PutUint32(b[23:], uint32(n-1))
	binary.BigEndian.PutUint64(b[27:], now)
	binary.BigEndian.PutUint64(b[35:], now)
	binary.BigEndian.PutUint64(b[43:], ^uint64(0))
	binary.BigEndian.PutUint16(b[51:], 0xffff)
	binary.BigEndian.PutUint32(b[53:], 0xffffffff)
	binary.BigEndian.PutUint32(b[57:], uint32(n))
	binary.BigEndian.PutUint32(b[17:], crc32.Checksum(b[21:], castagnoli))
	return b
}

func produceRequest(topic string, partition int32, records []byte) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.Version, req.Acks, req.TimeoutMillis = 9, -1, 30_000
	t := kmsg.NewProduceRequestTopic()
	t.Topic = topic
	p := kmsg.NewProduceRequestTopicPartition()
	p.Partition, p.Records = partition, records
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return req
}

// produceRaw sends count batches with at most window of them unanswered and returns the record bytes sent.
func produceRaw(addr, topic string, records []byte, count, window int) (int64, error) {
	c, err := dialRaw(addr)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	resp, err := c.roundTrip(produceRequest(topic, 0, records))
	if err != nil {
		return 0, err
	}
	if code := resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode; code != 0 {
		return 0, fmt.Errorf("produce refused with error code %d", code)
	}
	frame := c.frame(produceRequest(topic, 0, records))
	slots := make(chan struct{}, window)
	failed := make(chan error, 1)
	go func() {
		for range count {
			if _, err := c.skipAnswer(); err != nil {
				failed <- err
				return
			}
			<-slots
		}
		failed <- nil
	}()
	for range count {
		select {
		case slots <- struct{}{}:
		case err := <-failed:
			return 0, err
		}
		if _, err := c.Write(frame); err != nil {
			return 0, err
		}
	}
	return int64(count) * int64(len(records)), <-failed
}

// fetchRaw reads a partition from the start until it has seen at least total bytes, starting over at its end.
func fetchRaw(addr, topic string, maxBytes int32, total int64) (int64, error) {
	c, err := dialRaw(addr)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	req := kmsg.NewPtrFetchRequest()
	req.Version, req.ReplicaID, req.MaxWaitMillis, req.MinBytes, req.MaxBytes = fetchVersion, -1, 100, 1, maxBytes
	req.SessionEpoch = -1
	t := kmsg.NewFetchRequestTopic()
	t.Topic = topic
	p := kmsg.NewFetchRequestTopicPartition()
	p.PartitionMaxBytes, p.CurrentLeaderEpoch = maxBytes, -1
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	var sum int64
	for sum < total {
		if _, err := c.Write(c.frame(req)); err != nil {
			return sum, err
		}
		f, err := c.skipFetch()
		if err != nil {
			return sum, err
		}
		at := &req.Topics[0].Partitions[0].FetchOffset
		if f.bytes == 0 && *at == 0 {
			return sum, errors.New("there is nothing to fetch")
		}
		sum += int64(f.bytes)
		if *at = max(*at, f.next); *at >= f.highWatermark {
			*at = 0
		}
	}
	return sum, nil
}

// fetchVersion is the one whose answers skipFetch reads: the last with plain lengths.
const fetchVersion = 11

// fetched is what skipFetch keeps of an answer.
type fetched struct {
	bytes int // of records, an unfinished batch at the end included
	// next is the offset behind the last whole batch, 0 when there is none.
	next, highWatermark int64
}

// skipFetch reads an answer for one partition and looks only at its head and at those of the batches. The last batch may
// be cut short, even in its header.
func (c *rawConn) skipFetch() (f fetched, err error) {
	var size [4]byte
	if _, err := io.ReadFull(c.r, size[:]); err != nil {
		return f, err
	}
	left := int(binary.BigEndian.Uint32(size[:]))
	take := func(n int) []byte {
		b := make([]byte, n)
		if n > left && err == nil {
			err = fmt.Errorf("a fetch answer ends where %d bytes more should be: %w", n-left, io.ErrUnexpectedEOF)
		}
		if err == nil {
			left -= n
			_, err = io.ReadFull(c.r, b)
		}
		return b
	}
	take(4 + 4) // correlation id, throttle time
	code := int16(binary.BigEndian.Uint16(take(2)))
	take(4 + 4)                                 // session, number of topics
	take(int(binary.BigEndian.Uint16(take(2)))) // topic
	take(4 + 4)                                 // number of partitions, partition
	code |= int16(binary.BigEndian.Uint16(take(2)))
	f.highWatermark = int64(binary.BigEndian.Uint64(take(8)))
	take(8 + 8) // last stable offset, log start offset
	aborted := int32(binary.BigEndian.Uint32(take(4)))
	take(16*int(max(0, aborted)) + 4) // aborted transactions, preferred replica
	records := int(binary.BigEndian.Uint32(take(4)))
	switch {
	case err != nil:
		return f, err
	case code != 0:
		return f, fmt.Errorf("fetch refused with error code %d", code)
	case records != left:
		return f, fmt.Errorf("a fetch answer holds %d bytes of records and has %d left for them", records, left)
	}
	f.bytes = records
	f.next, err = c.skipBatches(records)
	return f, err
}

const (
	batchHeader   = 61
	batchOverhead = 12
)

// skipBatches reads n bytes of batches and returns the offset behind the last whole one.
func (c *rawConn) skipBatches(n int) (next int64, err error) {
	for n > 0 {
		if n < batchHeader {
			_, err := c.r.Discard(n)
			return next, err
		}
		var h [batchHeader]byte
		if _, err := io.ReadFull(c.r, h[:]); err != nil {
			return next, err
		}
		n -= len(h)
		body := int(binary.BigEndian.Uint32(h[8:])) + batchOverhead - batchHeader
		if _, err := c.r.Discard(min(n, body)); err != nil {
			return next, err
		}
		if n -= body; n >= 0 {
			next = int64(binary.BigEndian.Uint64(h[:])) + int64(binary.BigEndian.Uint32(h[23:])) + 1
		}
	}
	return next, nil
}
