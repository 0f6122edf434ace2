package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/protocol/record"
)

func TestParseCPU(t *testing.T) {
	const line = "42 (a (strange) name) S 1 42 42 0 -1 4194304 1 0 0 0 150 25 7 8 20 0 9 0 100 1000 10 0"
	d, err := parseCPU(line)
	require.NoError(t, err)
	require.Equal(t, 1750*time.Millisecond, d)
	for _, bad := range []string{"", "42 (x) S 1 2 3", strings.Replace(line, "150", "many", 1)} {
		_, err := parseCPU(bad)
		require.Error(t, err, bad)
	}
}

func TestParseRSS(t *testing.T) {
	n, err := parseRSS(strings.NewReader("Name:\tkbroker\nVmHWM:\t  9000 kB\nVmRSS:\t   1234 kB\nThreads:\t9\n"))
	require.NoError(t, err)
	require.Equal(t, int64(1234<<10), n)
	for _, bad := range []string{"", "VmHWM: 1 kB\n", "VmRSS:\n", "VmRSS: some kB\n"} {
		_, err := parseRSS(strings.NewReader(bad))
		require.Error(t, err, bad)
	}
}

func TestMedianAndPercentile(t *testing.T) {
	require.Zero(t, median(nil))
	require.Equal(t, 2.0, median([]float64{9, 1, 2}))
	var d []time.Duration
	for i := range 100 {
		d = append(d, time.Duration(99-i))
	}
	require.Equal(t, time.Duration(50), percentile(d, 0.5))
	require.Equal(t, time.Duration(99), percentile(d, 1))
}

func TestVerdicts(t *testing.T) {
	for _, c := range []struct {
		row                  row
		ratio, goal, verdict string
	}{
		{row{kbroker: 13, yardstick: 10, lower: true, target: 1.3}, "1.30", "<= 1.30x", "met"},
		{row{kbroker: 14, yardstick: 10, lower: true, target: 1.3}, "1.40", "<= 1.30x", "MISSED"},
		{row{kbroker: 8, yardstick: 10, target: 0.8}, "0.80", ">= 0.80x", "met"},
		{row{kbroker: 7, yardstick: 10, target: 0.8}, "0.70", ">= 0.80x", "MISSED"},
		{row{kbroker: 7, yardstick: 10}, "0.70", "", ""},
		{row{kbroker: 50, unit: "ms", lower: true, limit: 50}, "-", "<= 50 ms", "met"},
		{row{kbroker: 51, unit: "ms", lower: true, limit: 50}, "-", "<= 50 ms", "MISSED"},
	} {
		require.Equal(t, []string{c.ratio, c.goal, c.verdict}, []string{c.row.ratio(), c.row.goal(), c.row.verdict()}, "%+v", c.row)
	}
}

func TestTables(t *testing.T) {
	rs := rows{
		{id: "T1", what: "produce", kbroker: 1.5, yardstick: 2, unit: "CPU-s/GB", yardstickName: "prototype", lower: true, target: 1.3},
		{id: "T12", what: "RSS", kbroker: 20, unit: "MB", lower: true, limit: 30},
	}
	var md, text bytes.Buffer
	require.NoError(t, rs.print(&md, true, "bench -markdown"))
	require.Contains(t, md.String(), "| T1 | produce | 1.5 CPU-s/GB | 2 (prototype) | 0.75 | <= 1.30x | met |\n")
	require.Contains(t, md.String(), "| T12 | RSS | 20.0 MB | - | - | <= 30 MB | met |\n")
	require.NoError(t, rs.print(&text, false, "bench"))
	require.Contains(t, md.String(), "`bench -markdown`")
	require.Contains(t, md.String(), machine())
	require.Contains(t, text.String(), machine())
	for v, want := range map[float64]string{485300: "485300", 99.96: "100.0", 12.34: "12.3", 0.6267: "0.627", 0: "0"} {
		require.Equal(t, want, figure(v))
	}
	o := options{rounds: 2, match: "T1 ", markdown: true}
	require.Equal(t, `go run ./test/bench -rounds 2 -run "T1 " -markdown`, o.command())
}

// What the raw client sends must pass for what clients send.
func TestTheRawBatchIsValid(t *testing.T) {
	for _, size := range []int{1000, largeBatch} {
		b := batch(size, 1000)
		require.InDelta(t, size, len(b), 1200)
		parsed, err := record.ParseBatch(b)
		require.NoError(t, err)
		require.NoError(t, parsed.VerifyCRC())
		d := record.NewDecoder(0)
		n := int32(0)
		for r, err := range parsed.Records(d) {
			require.NoError(t, err)
			require.Len(t, r.Value, 1000)
			n++
		}
		d.Release()
		require.Equal(t, parsed.Count(), n)
	}
}

// answer is a Fetch answer with the records, framed.
func answer(code int16, records []byte) []byte {
	resp := kmsg.NewPtrFetchResponse()
	resp.Version = fetchVersion
	topic := kmsg.NewFetchResponseTopic()
	topic.Topic = "bench"
	p := kmsg.NewFetchResponseTopicPartition()
	p.ErrorCode, p.HighWatermark, p.RecordBatches = code, 1000, records
	p.AbortedTransactions = []kmsg.FetchResponseTopicPartitionAbortedTransaction{{ProducerID: 1, FirstOffset: 2}}
	topic.Partitions = append(topic.Partitions, p)
	resp.Topics = append(resp.Topics, topic)
	b := resp.AppendTo(make([]byte, 8))
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	return b
}

func skip(t *testing.T, b []byte) (fetched, error) {
	t.Helper()
	c := rawConn{r: bufio.NewReader(bytes.NewReader(b))}
	f, err := c.skipFetch()
	if err == nil {
		_, err := c.r.ReadByte()
		require.ErrorIs(t, err, io.EOF, "bytes of the answer are left")
	}
	return f, err
}

func TestSkipFetch(t *testing.T) {
	one := batch(2000, 1000)
	one[7] = 10 // base offset
	count := int64(binary.BigEndian.Uint32(one[57:]))
	two := append(append([]byte{}, one...), one...)
	two[len(one)+7] = 10 + byte(count)
	for cut := range len(two) + 1 { // the last batch may be cut anywhere
		f, err := skip(t, answer(0, two[:cut]))
		require.NoError(t, err)
		want := fetched{bytes: cut, highWatermark: 1000}
		if cut >= len(one) {
			want.next = 10 + count
		}
		if cut == len(two) {
			want.next += count
		}
		require.Equal(t, want, f, "cut at %d", cut)
	}
	_, err := skip(t, answer(3, nil))
	require.ErrorContains(t, err, "error code 3")
	short := answer(0, nil)
	for n := 4; n < len(short); n++ {
		b := append([]byte{}, short[:n]...)
		binary.BigEndian.PutUint32(b, uint32(n-4))
		_, err := skip(t, b)
		require.Error(t, err, "an answer of %d bytes", n)
	}
}

func TestServingMeansALeader(t *testing.T) {
	name := "bench"
	resp := kmsg.NewPtrMetadataResponse()
	require.ErrorIs(t, led(resp, name), errNotServing)
	topic := kmsg.NewMetadataResponseTopic()
	topic.Topic = &name
	p := kmsg.NewMetadataResponseTopicPartition()
	p.Leader = -1
	topic.Partitions = append(topic.Partitions, p)
	resp.Topics = append(resp.Topics, topic)
	require.ErrorIs(t, led(resp, name), errNotServing)
	resp.Topics[0].Partitions[0].Leader = 1
	require.NoError(t, led(resp, name))
	require.ErrorIs(t, led(resp, "another"), errNotServing)
	resp.Topics[0].Partitions[0].ErrorCode = 5
	require.ErrorIs(t, led(resp, name), errNotServing)
}

// A process that only listens does not serve.
func TestListeningIsNotServing(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr := l.Addr().String()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_ = c.Close() // no answer
		}
	}()
	require.ErrorIs(t, serves(addr, "", time.Now().Add(time.Minute)), errNotServing)
	require.NoError(t, l.Close())
	<-done
	require.ErrorIs(t, serves(addr, "", time.Now().Add(time.Minute)), errNotServing)
}

func TestYardsticks(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, touchMemory(dir, 3<<20))
	steps, err := writeAndSync(dir, make([]byte, 100), 3)
	require.NoError(t, err)
	require.Len(t, steps, 3)
	took, err := sendfileLoop(dir, 4<<20, 1<<20, 6<<20)
	require.NoError(t, err)
	require.Positive(t, took)
}
