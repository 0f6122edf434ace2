package prototype

import (
	"encoding/binary"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// fetch answers the first partition of the request that has data, up to version 12, waiting for at most the request's
// time. The header is encoded by hand, the records go out by sendfile.
func (s *Server) fetch(c *net.TCPConn, out []byte, r *kmsg.FetchRequest) error {
	deadline := time.After(time.Duration(r.MaxWaitMillis) * time.Millisecond)
	for {
		var (
			wait  chan struct{}
			asked int32
			top   int64
		)
		for _, t := range r.Topics {
			for i := range t.Partitions {
				p := &t.Partitions[i]
				pos, avail, end, moved := s.logs[p.Partition].at(p.FetchOffset)
				if avail > 0 {
					n := min(avail, int64(p.PartitionMaxBytes), int64(r.MaxBytes))
					return s.send(c, out, r.Version, p.Partition, end, pos, n)
				}
				wait, asked, top = moved, p.Partition, end
			}
		}
		select {
		case <-wait:
		case <-deadline:
			return s.send(c, out, r.Version, asked, top, 0, 0)
		}
	}
}

func (s *Server) send(c *net.TCPConn, out []byte, version int16, partition int32, end, pos, n int64) error {
	resp := kmsg.NewPtrFetchResponse()
	resp.Version = version
	t := kmsg.NewFetchResponseTopic()
	t.Topic = Topic
	p := kmsg.NewFetchResponseTopicPartition()
	p.Partition, p.HighWatermark, p.LastStableOffset = partition, end, end
	p.RecordBatches = []byte{}
	t.Partitions = append(t.Partitions, p)
	resp.Topics = append(resp.Topics, t)
	out = resp.AppendTo(out)
	if n == 0 {
		binary.BigEndian.PutUint32(out, uint32(len(out)-4))
		_, err := c.Write(out)
		return err
	}
	// The empty records are the last field but for tags: replace their length by the real one and send the tags after.
	tail := []byte(nil)
	if version >= 12 {
		tail = []byte{0, 0, 0} // tags of partition, topic and response
		out = out[:len(out)-4]
		out = binary.AppendUvarint(out, uint64(n)+1)
	} else {
		out = out[:len(out)-4]
		out = binary.BigEndian.AppendUint32(out, uint32(n))
	}
	binary.BigEndian.PutUint32(out, uint32(int64(len(out)-4)+n+int64(len(tail))))
	if err := write(c, out, true); err != nil {
		return err
	}
	if err := sendfile(c, s.logs[partition].file, pos, n, len(tail) > 0); err != nil {
		return err
	}
	if len(tail) > 0 {
		return write(c, tail, false)
	}
	return nil
}
