package server

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/config"
	"github.com/kbroker/kbroker/internal/server/api"
	"github.com/kbroker/kbroker/internal/vfs"
)

// memFile is a file without an *os.File behind it.
type memFile struct {
	vfs.File
	content []byte
}

func (m memFile) ReadAt(p []byte, off int64) (int, error) {
	return bytes.NewReader(m.content).ReadAt(p, off)
}
func (m memFile) OSFile() *os.File { return nil }
func (m memFile) Name() string     { return "mem" }

// piece is a range of a file that counts how often it is released.
type piece struct {
	file     vfs.File
	pos      int64
	n        int
	released *atomic.Int64
}

func (p *piece) Len() int                { return p.n }
func (p *piece) File() (vfs.File, int64) { return p.file, p.pos }
func (p *piece) Release()                { p.released.Add(1) }

// fetchResult describes what a test's Fetch is answered with: ranges of a file, one a partition, -1 for none.
type fetchResult struct {
	file     vfs.File
	ranges   [][2]int
	released atomic.Int64
}

// answer returns the reply, and the same as a kmsg message with the records in it.
func (f *fetchResult) answer(version int16, content []byte) (api.Reply, *kmsg.FetchResponse) {
	make := func(records bool) *kmsg.FetchResponse {
		resp := kmsg.NewPtrFetchResponse()
		resp.Version, resp.SessionID = version, 42
		t := kmsg.NewFetchResponseTopic()
		t.Topic, t.TopicID = "topic", [16]byte{1, 2, 3}
		for i, r := range f.ranges {
			p := kmsg.NewFetchResponseTopicPartition()
			p.Partition, p.HighWatermark = int32(i), int64(1000+i)
			if records {
				p.RecordBatches = content[r[0] : r[0]+r[1] : r[0]+r[1]]
			}
			t.Partitions = append(t.Partitions, p)
		}
		resp.Topics = append(resp.Topics, t)
		return resp
	}
	var pieces []api.Records
	for _, r := range f.ranges {
		if r[1] == 0 {
			pieces = append(pieces, nil)
			continue
		}
		pieces = append(pieces, &piece{f.file, int64(r[0]), r[1], &f.released})
	}
	return api.Reply{Fetch: api.NewFetchAnswer(make(false), pieces)}, make(true)
}

func (f *fetchResult) pieces() int64 {
	n := 0
	for _, r := range f.ranges {
		if r[1] > 0 {
			n++
		}
	}
	return int64(n)
}

func testContent(n int) []byte {
	content := make([]byte, n)
	r := rand.New(rand.NewPCG(3, 4))
	for i := 0; i+8 <= n; i += 8 {
		binary.LittleEndian.PutUint64(content[i:], r.Uint64())
	}
	return content
}

func fetchRequest(version int16) *kmsg.FetchRequest {
	r := kmsg.NewPtrFetchRequest()
	r.Version = version
	return r
}

func TestFetchAnswersArriveAsIfEncodedWhole(t *testing.T) {
	content := testContent(3 << 20)
	name := filepath.Join(t.TempDir(), "log")
	require.NoError(t, os.WriteFile(name, content, 0o600))
	osFile, err := vfs.OS{}.Open(name, os.O_RDONLY, 0)
	require.NoError(t, err)
	defer osFile.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	f := start(t, nil, Listener{Name: "TCP", Socket: l})
	dialTCP := func() net.Conn {
		c, err := net.Dial("tcp", l.Addr().String())
		require.NoError(t, err)
		t.Cleanup(func() { c.Close() })
		return c
	}
	for name, ranges := range map[string][][2]int{
		"nothing":  {{0, 0}, {0, 0}},
		"small":    {{5, 100}, {0, 0}, {7000, 1}, {100, 3000}},
		"limit":    {{0, copiedBytes}},
		"large":    {{0, 1 << 20}, {0, 0}, {1 << 20, 2 << 20}},
		"tail":     {{0, 0}, {0, 3 << 20}},
		"many":     {{0, 9000}, {1, 9000}, {2, 9000}, {3, 1}},
		"last one": {{3<<20 - 1, 1}},
	} {
		for _, version := range []int16{4, 11, 12, 18} {
			for _, file := range []vfs.File{osFile, memFile{content: content}} {
				for _, c := range []net.Conn{dialTCP(), f.pipes.dial(t, "10.0.0.1")} {
					res := &fetchResult{file: file, ranges: ranges}
					reply, whole := res.answer(version, content)
					f.service.serve = func(_ context.Context, _ *api.API, _ *api.Request, r func(api.Reply)) { r(reply) }
					send(t, c, 9, fetchRequest(version))
					corr, got := readAnswer(t, c)
					require.Equal(t, int32(9), corr)
					want := whole.AppendTo(nil)
					if whole.IsFlexible() {
						want = append([]byte{0}, want...)
					}
					require.True(t, bytes.Equal(want, got), "%s v%d %T %T", name, version, file, c)
					require.Eventually(t, func() bool { return res.released.Load() == res.pieces() }, 10*time.Second, time.Millisecond)
				}
			}
		}
	}
}

// Coalesced answers before a Fetch leave with its head, and those behind it follow.
func TestFetchBetweenOtherAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		content := testContent(1 << 20)
		f := start(t, nil)
		res := &fetchResult{file: memFile{content: content}, ranges: [][2]int{{0, 1 << 20}, {0, 0}}}
		reply, whole := res.answer(11, content)
		var h held
		f.service.serve = func(ctx context.Context, a *api.API, r *api.Request, rep func(api.Reply)) {
			if a.Key == 1 {
				rep(reply)
				return
			}
			h.serve(ctx, a, r, rep)
		}
		c := f.pipes.dial(t, "10.0.0.1")
		p := produceRequest(nil)
		send(t, c, 1, p, p, fetchRequest(11))
		synctest.Wait()
		h.release(1)
		go func() {
			h.release(0)
			_, _ = c.Write(encode(4, metadataRequest()))
		}()
		for want := int32(1); want <= 4; want++ {
			corr, rest := readAnswer(t, c)
			require.Equal(t, want, corr)
			if corr == 3 {
				require.True(t, bytes.Equal(whole.AppendTo(nil), rest))
			}
		}
		require.Equal(t, int64(1), res.released.Load())
	})
}

// However a connection ends, every piece of a log file is given back once (S5).
func TestRecordsAreReleasedWhenTheConnectionEnds(t *testing.T) {
	content := testContent(1 << 20)
	for name, end := range map[string]func(t *testing.T, f *fixture, c net.Conn, answer func()){
		"before the answer": func(_ *testing.T, _ *fixture, c net.Conn, answer func()) {
			c.Close()
			synctest.Wait()
			answer()
		},
		"before it is read": func(_ *testing.T, _ *fixture, c net.Conn, answer func()) {
			answer()
			synctest.Wait()
			c.Close()
		},
		"in the middle": func(t *testing.T, _ *fixture, c net.Conn, answer func()) {
			answer()
			_, err := io.ReadFull(c, make([]byte, 500_000))
			require.NoError(t, err)
			c.Close()
		},
		"hard stop": func(t *testing.T, f *fixture, _ net.Conn, answer func()) {
			answer()
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			require.Error(t, f.Shutdown(ctx))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := start(t, nil)
				res := &fetchResult{file: memFile{content: content}, ranges: [][2]int{{0, 500_000}, {0, 0}, {1, 500_000}}}
				reply, _ := res.answer(11, content)
				var give func(api.Reply)
				f.service.serve = func(_ context.Context, _ *api.API, _ *api.Request, r func(api.Reply)) { give = r }
				c := f.pipes.dial(t, "10.0.0.1")
				send(t, c, 1, fetchRequest(11))
				synctest.Wait()
				end(t, f, c, func() { give(reply) })
				synctest.Wait()
				require.Equal(t, int64(2), res.released.Load())
			})
		})
	}
}

// A file that cannot be read ends the connection: the answer's length was sent already.
func TestFileErrorsCloseTheConnection(t *testing.T) {
	for _, n := range []int{100, 100_000} {
		f := start(t, nil)
		res := &fetchResult{file: memFile{content: make([]byte, n/2)}, ranges: [][2]int{{0, n}}}
		reply, _ := res.answer(11, make([]byte, n))
		f.service.serve = func(_ context.Context, _ *api.API, _ *api.Request, r func(api.Reply)) { r(reply) }
		c := f.pipes.dial(t, "10.0.0.1")
		send(t, c, 1, fetchRequest(11))
		_, err := io.Copy(io.Discard, c)
		require.NoError(t, err)
		require.Eventually(t, func() bool { return res.released.Load() == 1 }, 10*time.Second, time.Millisecond)
	}
}

// A peer that goes away ends its long poll.
func TestFetchStopsWaitingWhenThePeerGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, nil)
		stopped := make(chan struct{})
		f.service.serve = func(ctx context.Context, a *api.API, r *api.Request, reply func(api.Reply)) {
			context.AfterFunc(ctx, func() {
				echo(ctx, a, r, reply)
				close(stopped)
			})
		}
		c := f.pipes.dial(t, "10.0.0.1")
		send(t, c, 1, metadataRequest())
		synctest.Wait()
		c.Close()
		<-stopped
	})
}

// A peer that does not read is closed as idle while the writer is stuck, and everybody lets go.
func TestSlowReaderDoesNotHoldTheBroker(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	f := start(t, func(c *config.Config) { c.Sockets.MaxIdle = 50 * time.Millisecond }, Listener{Name: "TCP", Socket: l})
	content := make([]byte, 32<<20)
	res := &fetchResult{file: memFile{content: content}, ranges: [][2]int{{0, len(content)}}}
	reply, _ := res.answer(11, content)
	f.service.serve = func(_ context.Context, _ *api.API, _ *api.Request, r func(api.Reply)) { r(reply) }
	c, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	defer c.Close()
	send(t, c, 1, fetchRequest(11))
	require.Eventually(t, func() bool { return res.released.Load() == 1 }, 10*time.Second, time.Millisecond)
	_, err = io.Copy(io.Discard, c)
	if err != nil {
		var netErr net.Error
		require.True(t, errors.As(err, &netErr), "%v", err)
	}
}
