package netio

import (
	"bytes"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
)

// tcpPair returns two ends of a loopback connection.
func tcpPair(t testing.TB) (a, b net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	var g errgroup.Group
	g.Go(func() (err error) { b, err = l.Accept(); return err })
	a, err = net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	require.NoError(t, g.Wait())
	t.Cleanup(func() { a.Close(); b.Close() })
	return a, b
}

func pipePair(t testing.TB) (a, b net.Conn) {
	a, b = net.Pipe()
	t.Cleanup(func() { a.Close(); b.Close() })
	return a, b
}

func randomFile(t testing.TB, n int) (*os.File, []byte) {
	t.Helper()
	content := make([]byte, n)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range content {
		content[i] = byte(r.Uint32())
	}
	name := filepath.Join(t.TempDir(), "f")
	require.NoError(t, os.WriteFile(name, content, 0o600))
	f, err := os.Open(name)
	require.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	return f, content
}

func TestHeadsAndPiecesArriveInOrder(t *testing.T) {
	f, content := randomFile(t, 9<<20)
	for name, pair := range map[string]func(testing.TB) (net.Conn, net.Conn){"tcp": tcpPair, "pipe": pipePair} {
		t.Run(name, func(t *testing.T) {
			a, b := pair(t)
			s := NewSender(a)
			require.Equal(t, name == "tcp" && runtime.GOOS == "linux", s.Direct())
			pieces := []struct{ off, n int64 }{{0, 1}, {100, 0}, {5, 300 << 10}, {1 << 20, 8 << 20}, {int64(len(content)) - 1, 1}}
			var want []byte
			for i, p := range pieces {
				want = append(append(want, byte(i), 'h'), content[p.off:p.off+p.n]...)
			}
			want = append(want, "tail"...)
			var g errgroup.Group
			g.Go(func() error {
				for i, p := range pieces {
					if err := s.Write([]byte{byte(i), 'h'}, true); err != nil {
						return err
					}
					if err := s.SendFile(f, p.off, p.n); err != nil {
						return err
					}
				}
				if err := s.Write([]byte("tail"), false); err != nil {
					return err
				}
				return a.Close()
			})
			got, err := io.ReadAll(b)
			require.NoError(t, err)
			require.NoError(t, g.Wait())
			require.True(t, bytes.Equal(want, got), "%d bytes, want %d", len(got), len(want))
			pos, err := f.Seek(0, io.SeekCurrent)
			require.NoError(t, err)
			require.Zero(t, pos, "the file's own position moved")
		})
	}
}

func TestFileThatEndsEarlyIsAnError(t *testing.T) {
	f, _ := randomFile(t, 1000)
	for name, pair := range map[string]func(testing.TB) (net.Conn, net.Conn){"tcp": tcpPair, "pipe": pipePair} {
		t.Run(name, func(t *testing.T) {
			a, b := pair(t)
			var g errgroup.Group
			g.Go(func() error { _, err := io.Copy(io.Discard, b); return err })
			require.ErrorIs(t, NewSender(a).SendFile(f, 900, 200), io.ErrUnexpectedEOF)
			a.Close()
			require.NoError(t, g.Wait())
		})
	}
}

// A peer that does not read must not hold a sender for ever: the deadline of the connection applies to every path.
func TestWriteDeadlineEndsEveryPath(t *testing.T) {
	f, _ := randomFile(t, 16<<20)
	for name, send := range map[string]func(*Sender) error{
		"more": func(s *Sender) error { return s.Write(make([]byte, 16<<20), true) },
		"file": func(s *Sender) error { return s.SendFile(f, 0, 16<<20) },
		"copy": func(s *Sender) error { return s.Copy(f, 0, 16<<20) },
	} {
		t.Run(name, func(t *testing.T) {
			a, _ := tcpPair(t)
			require.NoError(t, SetBuffers(a, 4096, 4096))
			require.NoError(t, a.SetWriteDeadline(time.Now().Add(20*time.Millisecond)))
			require.ErrorIs(t, send(NewSender(a)), os.ErrDeadlineExceeded)
		})
	}
}

func TestClosedConnectionIsAnError(t *testing.T) {
	f, _ := randomFile(t, 100)
	a, _ := tcpPair(t)
	s := NewSender(a)
	a.Close()
	require.ErrorIs(t, s.Write([]byte("x"), true), net.ErrClosed)
	require.ErrorIs(t, s.Write([]byte("x"), false), net.ErrClosed)
	require.ErrorIs(t, s.SendFile(f, 0, 100), net.ErrClosed)
}

func TestBuffersOfOtherConnectionsAreLeftAlone(t *testing.T) {
	a, _ := pipePair(t)
	require.NoError(t, SetBuffers(a, 1000, 1000))
	a, _ = tcpPair(t)
	require.NoError(t, SetBuffers(a, -1, -1))
	a.Close()
	require.Error(t, SetBuffers(a, 1000, -1))
}

func BenchmarkSendFile(b *testing.B) {
	const size = 8 << 20
	f, _ := randomFile(b, size)
	x, y := tcpPair(b)
	var g errgroup.Group
	g.Go(func() error {
		buf := make([]byte, 1<<20)
		for {
			if _, err := y.Read(buf); err != nil {
				return err
			}
		}
	})
	s := NewSender(x)
	b.SetBytes(size)
	for b.Loop() {
		require.NoError(b, s.SendFile(f, 0, size))
	}
	x.Close()
	_ = g.Wait()
}
