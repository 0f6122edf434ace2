package server

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sync/errgroup"

	"github.com/kbroker/kbroker/config"
	"github.com/kbroker/kbroker/internal/netio"
	"github.com/kbroker/kbroker/internal/server/api"
	"github.com/kbroker/kbroker/internal/vfs"
)

func benchDial(b *testing.B, l net.Listener) net.Conn {
	c, err := net.Dial("tcp", l.Addr().String())
	require.NoError(b, err)
	b.Cleanup(func() { c.Close() })
	return c
}

func loopback(b testing.TB) net.Listener {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b, err)
	return l
}

// cpu returns the processor seconds of this process, client and server together.
func cpu() float64 {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return float64(u.Utime.Sec+u.Stime.Sec) + float64(u.Utime.Usec+u.Stime.Usec)/1e6
}

// roundTrips sends a request over and over on many connections, some at a time on each, and waits for the answers.
func roundTrips(b *testing.B, l net.Listener, conns, inFlight int, request []byte) {
	var left atomic.Int64
	left.Store(int64(b.N))
	var all []net.Conn
	for range conns {
		all = append(all, benchDial(b, l))
	}
	before := cpu()
	b.ResetTimer()
	var g errgroup.Group
	for _, c := range all {
		window := make(chan struct{}, inFlight)
		g.Go(func() error {
			defer close(window)
			for left.Add(-1) >= 0 {
				window <- struct{}{}
				if _, err := c.Write(request); err != nil {
					return err
				}
			}
			return nil
		})
		g.Go(func() error {
			buf := make([]byte, 64<<10)
			for range window {
				if _, err := io.ReadFull(c, buf[:4]); err != nil {
					return err
				}
				if _, err := io.ReadFull(c, buf[:binary.BigEndian.Uint32(buf)]); err != nil {
					return err
				}
			}
			return nil
		})
	}
	require.NoError(b, g.Wait())
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "req/s")
	b.ReportMetric((cpu()-before)*1e6/float64(b.N), "cpu-us/req")
}

// Small requests, answered at once and answered from another goroutine, beside the bare exchange of the same bytes.
func BenchmarkSmallRequests(b *testing.B) {
	request := encode(1, produceRequest(make([]byte, 16<<10)))
	tiny := encode(1, metadataRequest())
	produced := func(reply func(api.Reply)) {
		resp := kmsg.NewPtrProduceResponse()
		resp.Version = 9
		resp.Topics = []kmsg.ProduceResponseTopic{{Topic: "t", Partitions: make([]kmsg.ProduceResponseTopicPartition, 1)}}
		reply(api.Reply{Message: resp})
	}
	for _, bench := range []struct {
		name    string
		request []byte
		serve   func(context.Context, *api.API, *api.Request, func(api.Reply))
	}{
		{"tiny", tiny, echo},
		{"16K/sync", request, func(_ context.Context, _ *api.API, _ *api.Request, reply func(api.Reply)) { produced(reply) }},
		{"16K/async", request, func(_ context.Context, _ *api.API, _ *api.Request, reply func(api.Reply)) { go produced(reply) }},
	} {
		b.Run(bench.name, func(b *testing.B) {
			l := loopback(b)
			f := start(b, nil, Listener{Name: "TCP", Socket: l})
			f.service.serve = bench.serve
			roundTrips(b, l, 8, 5, bench.request)
		})
	}
	b.Run("16K/yardstick", func(b *testing.B) {
		l := loopback(b)
		var g sync.WaitGroup
		g.Go(func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				g.Go(func() {
					in, out := make([]byte, len(request)), []byte{0, 0, 0, 40, 39: 0, 43: 0}
					for {
						if _, err := io.ReadFull(c, in); err != nil {
							return
						}
						if _, err := c.Write(out); err != nil {
							return
						}
					}
				})
			}
		})
		roundTrips(b, l, 8, 5, request)
		l.Close()
	})
}

const fetchBytes = 1 << 20

func benchFile(b *testing.B) vfs.File {
	name := filepath.Join(b.TempDir(), "log")
	require.NoError(b, os.WriteFile(name, testContent(64<<20), 0o600))
	f, err := vfs.OS{}.Open(name, os.O_RDONLY, 0)
	require.NoError(b, err)
	b.Cleanup(func() { f.Close() })
	return f
}

// fetchLoop asks and reads, one request at a time.
func fetchLoop(b *testing.B, c net.Conn, request []byte) {
	buf := make([]byte, 2<<20)
	before := cpu()
	b.SetBytes(fetchBytes)
	for b.Loop() {
		_, err := c.Write(request)
		require.NoError(b, err)
		_, err = io.ReadFull(c, buf[:4])
		require.NoError(b, err)
		_, err = io.ReadFull(c, buf[:binary.BigEndian.Uint32(buf)])
		require.NoError(b, err)
	}
	b.ReportMetric((cpu()-before)*1e9/float64(b.N)/fetchBytes, "cpu-s/GB")
}

// Fetch answers of 1 MiB from the page cache, beside a bare sendfile loop with the same pattern of requests.
func BenchmarkFetch(b *testing.B) {
	request := encode(1, fetchRequest(12))
	for name, change := range map[string]func(*config.Config){
		"kafka-buffers":  nil,
		"system-buffers": func(c *config.Config) { c.Sockets.SendBuffer, c.Sockets.ReceiveBuffer = -1, -1 },
	} {
		b.Run(name, func(b *testing.B) {
			l := loopback(b)
			f := start(b, change, Listener{Name: "TCP", Socket: l})
			file := benchFile(b)
			var released atomic.Int64
			var at atomic.Int64
			f.service.serve = func(_ context.Context, _ *api.API, _ *api.Request, reply func(api.Reply)) {
				resp := kmsg.NewPtrFetchResponse()
				resp.Version = 12
				resp.Topics = []kmsg.FetchResponseTopic{{Topic: "t", Partitions: make([]kmsg.FetchResponseTopicPartition, 1)}}
				resp.Topics[0].Partitions[0].Default()
				pos := (at.Add(1) % 64) * fetchBytes
				reply(api.Reply{Fetch: api.NewFetchAnswer(resp, []api.Records{&piece{file, pos, fetchBytes, &released}})})
			}
			fetchLoop(b, benchDial(b, l), request)
		})
	}
	b.Run("yardstick", func(b *testing.B) {
		l := loopback(b)
		file := benchFile(b)
		var g sync.WaitGroup
		g.Go(func() {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s := netio.NewSender(c)
			in := make([]byte, len(request))
			for i := int64(1); ; i++ {
				if _, err := io.ReadFull(c, in); err != nil {
					return
				}
				if s.Write(binary.BigEndian.AppendUint32(nil, fetchBytes), true) != nil ||
					s.SendFile(file.OSFile(), (i%64)*fetchBytes, fetchBytes) != nil {
					return
				}
			}
		})
		fetchLoop(b, benchDial(b, l), request)
		l.Close()
	})
}

// Every connection costs memory even when it is idle.
func BenchmarkConnect(b *testing.B) {
	f := start(b, nil)
	b.ReportAllocs()
	for b.Loop() {
		c := f.pipes.dial(b, "10.0.0.1")
		send(b, c, 1, metadataRequest())
		readAnswer(b, c)
		c.Close()
	}
}
