package server

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/config"
)

// makeFrame returns a frame with its length in front.
func makeFrame(key int16, body []byte) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(body)+10))
	b = binary.BigEndian.AppendUint16(b, uint16(key))
	b = append(b, make([]byte, 8)...)
	return append(b, body...)
}

func TestFramesAreCutWhateverTheReadsLookLike(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var stream []byte
	var want [][]byte
	for i := range 200 {
		size := r.IntN(3 * windowBytes)
		if i%99 == 0 {
			size = trustedBytes*3 + i // grows in steps
		}
		body := make([]byte, size+8)
		for k := 0; k < size; k += 8 {
			binary.LittleEndian.PutUint64(body[k:], r.Uint64())
		}
		body = body[:size]
		f := makeFrame(int16(i%2), body)
		want = append(want, f[4:])
		stream = append(stream, f...)
	}
	for name, src := range map[string]io.Reader{
		"whole":   bytes.NewReader(stream),
		"halves":  iotest.HalfReader(bytes.NewReader(stream)),
		"dataErr": iotest.DataErrReader(bytes.NewReader(stream)),
	} {
		t.Run(name, func(t *testing.T) {
			pool := newBufferPool()
			fr := newFrameReader(src, pool)
			for i, w := range want {
				h, err := fr.head(100 << 20)
				require.NoError(t, err)
				require.Equal(t, len(w), h.size)
				f, err := fr.body(h)
				require.NoError(t, err)
				require.True(t, bytes.Equal(w, f.bytes), "frame %d", i)
				require.Equal(t, h.key == 0, f.pool != nil)
				f.release()
			}
			_, err := fr.head(100 << 20)
			require.ErrorIs(t, err, io.EOF)
		})
	}
}

func TestFramesOfTheWrongSizeAreRefused(t *testing.T) {
	size := func(n int32, key int16) []byte {
		return binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint32(nil, uint32(n)), uint16(key))
	}
	for name, c := range map[string]struct {
		in   []byte
		want string
	}{
		"negative":        {size(-1, 0), "a frame of -1 bytes"},
		"too large":       {size(1001, 0), "want 10 to 1000 (socket.request.max.bytes)"},
		"smaller than 10": {size(9, 0), "a frame of 9 bytes"},
		"ends in length":  {[]byte{0, 0}, "unexpected EOF"},
		"ends in head":    {size(100, 0)[:5], "unexpected EOF"},
	} {
		_, err := newFrameReader(bytes.NewReader(c.in), newBufferPool()).head(1000)
		require.ErrorContains(t, err, c.want, name)
	}
	_, err := newFrameReader(bytes.NewReader(size(plainFrameBytes+1, 3)), newBufferPool()).head(100 << 20)
	require.ErrorContains(t, err, "for Metadata: want at most")
	_, err = newFrameReader(bytes.NewReader(size(plainFrameBytes+1, 0)), newBufferPool()).head(100 << 20)
	require.NoError(t, err)
}

// zeros delivers so many bytes.
type zeros struct{ left int }

func (z *zeros) Read(p []byte) (int, error) {
	if z.left == 0 {
		return 0, io.EOF
	}
	n := min(len(p), z.left)
	z.left -= n
	return n, nil
}

// A peer that announces a huge frame and sends little must not make the broker allocate it (S3).
func TestMemoryFollowsTheBytesThatCameIn(t *testing.T) {
	head := binary.BigEndian.AppendUint32(nil, 100<<20)
	head = append(head, 0, 0)
	for _, sent := range []int{10, trustedBytes + 1} {
		const runs = 5
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range runs {
			fr := newFrameReader(io.MultiReader(bytes.NewReader(head), &zeros{sent}), newBufferPool())
			h, err := fr.head(100 << 20)
			require.NoError(t, err)
			_, err = fr.body(h)
			require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		}
		runtime.ReadMemStats(&after)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(runs*2*frameGrowth*(trustedBytes+sent)), "%d bytes sent", sent)
	}
}

func TestPoolClassesAndBounds(t *testing.T) {
	p := newBufferPool()
	for _, n := range []int{1, smallestBuffer, smallestBuffer + 1, pooledFrom - 1, pooledFrom, pooledFrom + 1, 1 << 20, 1<<20 + 1, largestBuffer} {
		b := p.get(n)
		require.Len(t, b, n)
		if c := cap(b); n > 1 {
			require.True(t, c >= n && c < 2*n || c == smallestBuffer, "%d: %d", n, c)
		}
	}
	b := p.get(1 << 20)
	b[0] = 42
	p.put(b)
	require.Equal(t, 1<<20, p.retained())
	again := p.get(1<<19 + 1)
	require.Equal(t, byte(42), again[0], "the same memory")
	require.Zero(t, p.retained())

	for range 2 * retainedBytes / (1 << 20) {
		p.put(make([]byte, 1<<20))
	}
	require.Equal(t, retainedBytes, p.retained())
	p.put(make([]byte, 1000)) // not one of ours
	huge := p.get(largestBuffer + 1)
	require.Len(t, huge, largestBuffer+1)
	p.put(huge)
	require.Equal(t, retainedBytes, p.retained())
	require.Nil(t, p.take(largestBuffer+1))
}

// What is not Kafka is recognised, closed, and logged once with the peer's address.
func TestOtherProtocolsAreNamedInOneLogLine(t *testing.T) {
	for name, first := range map[string]string{
		"HTTP": "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
		"TLS":  "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
	} {
		t.Run(name, func(t *testing.T) {
			f := start(t, nil)
			for range 20 {
				c := f.pipes.dial(t, "10.9.8.7")
				_, _ = c.Write([]byte(first))
				requireClosed(t, c)
			}
			require.Eventually(t, func() bool { return f.metric(t, "kbroker_connections") == 0 }, 10*time.Second, time.Millisecond)
			lines := f.logs.FilterMessageSnippet("does not speak Kafka's protocol")
			require.Equal(t, badPeerBurst, lines.Len(), "limited")
			require.Equal(t, "10.9.8.7:40000", lines.All()[0].ContextMap()["peer"])
			require.Contains(t, lines.All()[0].ContextMap()["error"], name)
			require.Equal(t, 20.0, f.metric(t, "kbroker_connections_refused_total"))
		})
	}
}

func TestRequestsThatCannotBeServedCloseTheConnection(t *testing.T) {
	unknownKey := makeFrame(1000, nil)
	notServed := encode(1, kmsg.NewPtrVoteRequest())
	badVersion := encode(1, metadataRequest())
	badVersion[7] = 99
	truncated := encode(1, produceRequest([]byte("abc")))
	truncated = truncated[:len(truncated)-4]
	binary.BigEndian.PutUint32(truncated, uint32(len(truncated)-4))
	badHeader := encode(1, metadataRequest())
	badHeader[12], badHeader[13] = 0x7f, 0xff // length of the client id
	for name, c := range map[string]struct {
		in   []byte
		want string
	}{
		"unknown key":  {unknownKey, "API key 1000"},
		"not served":   {notServed, "(Vote) is not served"},
		"version":      {badVersion, "Metadata version 99 is not served, only 0 to 13 are"},
		"truncated":    {truncated, "Produce version 9"},
		"bad header":   {badHeader, "header"},
		"size":         {[]byte{0xff, 0xff, 0xff, 0xff}, "a frame of -1 bytes"},
		"control size": {makeFrame(3, make([]byte, plainFrameBytes)), "want at most"},
	} {
		t.Run(name, func(t *testing.T) {
			f := start(t, nil)
			conn := f.pipes.dial(t, "10.0.0.1")
			_, _ = conn.Write(c.in)
			requireClosed(t, conn)
			require.Eventually(t, func() bool { return f.logs.FilterMessageSnippet("cannot be served").Len() == 1 }, 10*time.Second, time.Millisecond)
			line := f.logs.FilterMessageSnippet("cannot be served").All()[0].ContextMap()
			require.Contains(t, line["error"], c.want)
			require.Equal(t, "10.0.0.1:40000", line["peer"])
		})
	}
}

func TestRequestMaxBytesActs(t *testing.T) {
	f := start(t, func(c *config.Config) { c.Sockets.RequestMaxBytes = 5000 })
	c := f.pipes.dial(t, "10.0.0.1")
	send(t, c, 1, produceRequest(make([]byte, 4000)))
	_, _ = readAnswer(t, c)
	_, _ = c.Write(encode(2, produceRequest(make([]byte, 6000))))
	requireClosed(t, c)
}

// No bytes make the reader or the dispatch panic, hang or take memory out of proportion.
func FuzzConnection(f *testing.F) {
	f.Add(encode(1, metadataRequest()))
	f.Add(encode(1, produceRequest([]byte("abc"))))
	f.Add(append(encode(1, kmsg.NewPtrApiVersionsRequest()), encode(2, kmsg.NewPtrFetchRequest())...))
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	f.Add([]byte{0, 0, 0, 12, 0, 18, 0, 99, 0, 0, 0, 1, 0, 0, 0, 0})
	fx := start(f, nil)
	f.Fuzz(func(t *testing.T, in []byte) {
		c := fx.pipes.dial(t, "10.0.0.1")
		defer c.Close()
		go func() {
			_, _ = c.Write(in)
			_ = c.SetReadDeadline(time.Now()) // ends the read below when the server waits for more
		}()
		_, err := io.Copy(io.Discard, c)
		var timeout net.Error
		if err != nil && !errors.As(err, &timeout) && !errors.Is(err, io.ErrClosedPipe) {
			t.Fatal(err)
		}
	})
}
