// Package prototype is a yardstick: the least code that moves Kafka record batches between a socket and a file. It checks
// CRCs and stamps offsets as any broker must, and does nothing else: no validation, no indexes on disk, no recovery, no
// configuration, one topic. What it costs is what the machine charges for the work itself, so the ratio of a broker's
// figures to the prototype's of the same run tells what the broker adds.
package prototype

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"os"
	"sort"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Topic is the only topic there is, with as many partitions as Server is told.
const Topic = "bench"

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// log is one partition: a file and where its batches lie.
type log struct {
	mu      sync.Mutex
	file    *os.File
	size    int64
	end     int64 // next offset
	batches []place
	moved   chan struct{}
}

type place struct{ offset, pos int64 }

// Server serves one topic from dir on one listener.
type Server struct {
	l       net.Listener
	topicID [16]byte
	logs    []*log
	frames  sync.Pool
}

// New makes the files. Serve runs it.
func New(l net.Listener, dir string, partitions int) (*Server, error) {
	s := &Server{l: l, topicID: [16]byte{1}}
	for i := range partitions {
		f, err := os.Create(fmt.Sprintf("%s/%d.log", dir, i))
		if err != nil {
			return nil, err
		}
		s.logs = append(s.logs, &log{file: f, moved: make(chan struct{})})
	}
	return s, nil
}

// Serve accepts connections until the listener is closed.
func (s *Server) Serve() error {
	for {
		c, err := s.l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		go s.connection(c.(*net.TCPConn))
	}
}

func (s *Server) connection(c *net.TCPConn) {
	defer c.Close()
	r := bufio.NewReaderSize(c, 16<<10)
	for {
		var size [4]byte
		if _, err := io.ReadFull(r, size[:]); err != nil {
			return
		}
		n := int(binary.BigEndian.Uint32(size[:]))
		frame, _ := s.frames.Get().([]byte)
		if cap(frame) < n {
			frame = make([]byte, n)
		}
		frame = frame[:n]
		if _, err := io.ReadFull(r, frame); err != nil {
			return
		}
		if err := s.handle(c, frame); err != nil {
			return
		}
		s.frames.Put(frame) //nolint:staticcheck // one slice header a request is within a yardstick's budget
	}
}

// body skips the request header: key, version, correlation id, client id and, in flexible versions, tags.
func body(frame []byte, flexible bool) []byte {
	b := frame[8:]
	n := int(int16(binary.BigEndian.Uint16(b)))
	b = b[2:]
	if n > 0 {
		b = b[n:]
	}
	if flexible {
		b = b[1:]
	}
	return b
}

func (s *Server) handle(c *net.TCPConn, frame []byte) error {
	key, version := int16(binary.BigEndian.Uint16(frame)), int16(binary.BigEndian.Uint16(frame[2:]))
	req := kmsg.RequestForKey(key)
	if req == nil {
		return fmt.Errorf("api %d", key)
	}
	req.SetVersion(version)
	if err := req.ReadFrom(body(frame, req.IsFlexible())); err != nil {
		return err
	}
	out := make([]byte, 8, 512)
	copy(out[4:], frame[4:8])
	if req.IsFlexible() && key != 18 {
		out = append(out, 0)
	}
	var resp kmsg.Response
	switch r := req.(type) {
	case *kmsg.ApiVersionsRequest:
		resp = apiVersions()
	case *kmsg.MetadataRequest:
		resp = s.metadata()
	case *kmsg.ListOffsetsRequest:
		resp = s.listOffsets(r)
	case *kmsg.ProduceRequest:
		resp = s.produce(r)
	case *kmsg.FetchRequest:
		return s.fetch(c, out, r)
	default:
		return fmt.Errorf("api %d", key)
	}
	resp.SetVersion(version)
	out = resp.AppendTo(out)
	binary.BigEndian.PutUint32(out, uint32(len(out)-4))
	_, err := c.Write(out)
	return err
}

func apiVersions() kmsg.Response {
	resp := kmsg.NewPtrApiVersionsResponse()
	for _, k := range [][3]int16{{0, 3, 9}, {1, 4, 12}, {2, 1, 6}, {3, 0, 9}, {18, 0, 3}} {
		a := kmsg.NewApiVersionsResponseApiKey()
		a.ApiKey, a.MinVersion, a.MaxVersion = k[0], k[1], k[2]
		resp.ApiKeys = append(resp.ApiKeys, a)
	}
	return resp
}

func (s *Server) metadata() kmsg.Response {
	resp := kmsg.NewPtrMetadataResponse()
	b := kmsg.NewMetadataResponseBroker()
	addr := s.l.Addr().(*net.TCPAddr)
	b.NodeID, b.Host, b.Port = 1, addr.IP.String(), int32(addr.Port)
	resp.Brokers = append(resp.Brokers, b)
	t := kmsg.NewMetadataResponseTopic()
	t.Topic, t.TopicID = kmsg.StringPtr(Topic), s.topicID
	for i := range s.logs {
		p := kmsg.NewMetadataResponseTopicPartition()
		p.Partition, p.Leader, p.Replicas, p.ISR = int32(i), 1, []int32{1}, []int32{1}
		t.Partitions = append(t.Partitions, p)
	}
	resp.Topics = append(resp.Topics, t)
	return resp
}

func (s *Server) listOffsets(r *kmsg.ListOffsetsRequest) kmsg.Response {
	resp := kmsg.NewPtrListOffsetsResponse()
	for _, rt := range r.Topics {
		t := kmsg.NewListOffsetsResponseTopic()
		t.Topic = rt.Topic
		for _, rp := range rt.Partitions {
			p := kmsg.NewListOffsetsResponseTopicPartition()
			p.Partition, p.Offset = rp.Partition, 0
			if rp.Timestamp == -1 {
				l := s.logs[rp.Partition]
				l.mu.Lock()
				p.Offset = l.end
				l.mu.Unlock()
			}
			t.Partitions = append(t.Partitions, p)
		}
		resp.Topics = append(resp.Topics, t)
	}
	return resp
}

func (s *Server) produce(r *kmsg.ProduceRequest) kmsg.Response {
	resp := kmsg.NewPtrProduceResponse()
	for _, rt := range r.Topics {
		t := kmsg.NewProduceResponseTopic()
		t.Topic = rt.Topic
		for _, rp := range rt.Partitions {
			p := kmsg.NewProduceResponseTopicPartition()
			p.Partition = rp.Partition
			p.BaseOffset, p.ErrorCode = s.logs[rp.Partition].append(rp.Records)
			t.Partitions = append(t.Partitions, p)
		}
		resp.Topics = append(resp.Topics, t)
	}
	return resp
}

const corruptMessage = 2

func (l *log) append(batch []byte) (base int64, code int16) {
	if len(batch) < 61 || crc32.Checksum(batch[21:], castagnoli) != binary.BigEndian.Uint32(batch[17:]) {
		return -1, corruptMessage
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	base = l.end
	binary.BigEndian.PutUint64(batch, uint64(base))
	binary.BigEndian.PutUint32(batch[12:], 0)
	if _, err := l.file.WriteAt(batch, l.size); err != nil {
		return -1, -1
	}
	l.batches = append(l.batches, place{base, l.size})
	l.size += int64(len(batch))
	l.end += int64(binary.BigEndian.Uint32(batch[23:])) + 1
	close(l.moved)
	l.moved = make(chan struct{})
	return base, 0
}

// at returns where to read from for an offset, how much there is, and what to wait on when there is nothing.
func (l *log) at(offset int64) (pos, avail, end int64, moved chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if offset >= l.end {
		return l.size, 0, l.end, l.moved
	}
	i := sort.Search(len(l.batches), func(i int) bool { return l.batches[i].offset > offset }) - 1
	pos = l.batches[max(0, i)].pos
	return pos, l.size - pos, l.end, l.moved
}
