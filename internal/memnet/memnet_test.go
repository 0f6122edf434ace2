package memnet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// bubble runs a test in virtual time with a network, a client's and a server's end of a connection.
func bubble(t *testing.T, fn func(t *testing.T, n *Network, client, server net.Conn)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		n := New()
		client, server := connect(t, n)
		fn(t, n, client, server)
		_ = client.Close()
		_ = server.Close()
		require.Empty(t, n.Open())
	})
}

func connect(t *testing.T, n *Network) (client, server net.Conn) {
	t.Helper()
	l, err := n.Host("server").Listen("tcp", "server:0")
	require.NoError(t, err)
	defer l.Close()
	client, err = n.Host("client").Dial(t.Context(), "tcp", l.Addr().String())
	require.NoError(t, err)
	server, err = l.Accept()
	require.NoError(t, err)
	return client, server
}

func send(t *testing.T, c net.Conn, text string) {
	t.Helper()
	n, err := c.Write([]byte(text))
	require.NoError(t, err)
	require.Equal(t, len(text), n)
}

func receive(t *testing.T, c net.Conn, want string) {
	t.Helper()
	b := make([]byte, len(want))
	_, err := io.ReadFull(c, b)
	require.NoError(t, err)
	require.Equal(t, want, string(b))
}

// within tells how long fn takes in virtual time.
func within(fn func()) time.Duration {
	start := time.Now()
	fn()
	return time.Since(start)
}

// silent requires that nothing arrives for a while.
func silent(t *testing.T, c net.Conn) {
	t.Helper()
	require.NoError(t, c.SetReadDeadline(time.Now().Add(time.Hour)))
	n, err := c.Read(make([]byte, 1))
	require.Zero(t, n)
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	require.NoError(t, c.SetReadDeadline(time.Time{}))
}

func TestBytesArriveInOrder(t *testing.T) {
	bubble(t, func(t *testing.T, n *Network, client, server net.Conn) {
		send(t, client, "hello ")
		send(t, client, "world")
		receive(t, server, "hello world")
		send(t, server, "answer")
		receive(t, client, "answer")
		require.Equal(t, client.LocalAddr(), server.RemoteAddr())
		require.Equal(t, client.RemoteAddr(), server.LocalAddr())
		require.Equal(t, "tcp", client.LocalAddr().Network())
		require.True(t, strings.HasPrefix(client.LocalAddr().String(), "client:"))
		require.True(t, strings.HasPrefix(client.RemoteAddr().String(), "server:"))
		k, err := client.Read(nil)
		require.NoError(t, err)
		require.Zero(t, k)
		require.Len(t, n.Open(), 2)
	})
}

func TestAWriterWaitsForItsReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New()
		n.SetBuffer(10)
		client, server := connect(t, n)
		want := bytes.Repeat([]byte("0123456789abc"), 100)
		go func() {
			_, _ = client.Write(want)
			_ = client.Close()
		}()
		synctest.Wait()
		got, err := io.ReadAll(server)
		require.NoError(t, err)
		require.Equal(t, want, got)

		require.NoError(t, server.SetWriteDeadline(time.Now().Add(time.Second)))
		require.NoError(t, server.Close())
		require.Empty(t, n.Open())
	})
}

func TestAFullBufferAndADeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New()
		n.SetBuffer(10)
		client, server := connect(t, n)
		defer client.Close()
		defer server.Close()
		require.NoError(t, client.SetDeadline(time.Now().Add(time.Second)))
		k := 0
		var err error
		require.Equal(t, time.Second, within(func() { k, err = client.Write(make([]byte, 25)) }))
		require.Equal(t, 10, k)
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		var ne net.Error
		require.ErrorAs(t, err, &ne)
		require.True(t, ne.Timeout())
		require.NoError(t, client.SetDeadline(time.Time{}))
		receive(t, server, strings.Repeat("\x00", 10))
		send(t, client, "more")
		receive(t, server, "more")
	})
}

func TestDeadlines(t *testing.T) {
	bubble(t, func(t *testing.T, _ *Network, client, server net.Conn) {
		silent(t, server)
		require.NoError(t, server.SetReadDeadline(time.Now().Add(-time.Second)))
		send(t, client, "x")
		_, err := server.Read(make([]byte, 1))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded, "also when there is something to read")
		require.NoError(t, server.SetReadDeadline(time.Time{}))
		receive(t, server, "x")

		// A deadline that is set later ends a read that is under way.
		go func() {
			time.Sleep(time.Minute)
			_ = server.SetReadDeadline(time.Now().Add(time.Minute))
		}()
		require.Equal(t, 2*time.Minute, within(func() { _, err = server.Read(make([]byte, 1)) }))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	})
}

func TestClosing(t *testing.T) {
	bubble(t, func(t *testing.T, _ *Network, client, server net.Conn) {
		send(t, client, "last words")
		require.NoError(t, client.Close())
		require.ErrorIs(t, client.Close(), net.ErrClosed)
		require.ErrorIs(t, client.SetDeadline(time.Now()), net.ErrClosed)
		_, err := client.Write([]byte("x"))
		require.ErrorIs(t, err, net.ErrClosed)
		_, err = client.Read(make([]byte, 1))
		require.ErrorIs(t, err, net.ErrClosed)

		receive(t, server, "last words")
		for range 2 {
			_, err = server.Read(make([]byte, 1))
			require.ErrorIs(t, err, io.EOF)
		}
		_, err = server.Write([]byte("x"))
		require.ErrorIs(t, err, syscall.EPIPE)
	})
	t.Run("lets go who waits", func(t *testing.T) {
		bubble(t, func(t *testing.T, _ *Network, client, _ net.Conn) {
			go func() { time.Sleep(time.Second); _ = client.Close() }()
			_, err := client.Read(make([]byte, 1))
			require.ErrorIs(t, err, net.ErrClosed)
		})
		bubble(t, func(t *testing.T, _ *Network, client, _ net.Conn) {
			go func() { time.Sleep(time.Second); _ = client.Close() }()
			_, err := client.Write(make([]byte, 2*defaultBuffer))
			require.ErrorIs(t, err, net.ErrClosed)
		})
	})
	t.Run("lets go the writer at the other end", func(t *testing.T) {
		bubble(t, func(t *testing.T, _ *Network, client, server net.Conn) {
			go func() { time.Sleep(time.Second); _ = client.Close() }()
			_, err := server.Write(make([]byte, 2*defaultBuffer))
			require.ErrorIs(t, err, syscall.EPIPE)
		})
	})
	t.Run("one direction", func(t *testing.T) {
		bubble(t, func(t *testing.T, _ *Network, client, server net.Conn) {
			send(t, client, "request")
			require.NoError(t, client.(*conn).CloseWrite())
			require.NoError(t, client.(*conn).CloseWrite())
			_, err := client.Write([]byte("x"))
			require.ErrorIs(t, err, syscall.EPIPE)
			got, err := io.ReadAll(server)
			require.NoError(t, err)
			require.Equal(t, "request", string(got))
			send(t, server, "answer")
			receive(t, client, "answer")
			require.NoError(t, client.Close())
			require.ErrorIs(t, client.(*conn).CloseWrite(), net.ErrClosed)
		})
	})
}

func TestDelay(t *testing.T) {
	bubble(t, func(t *testing.T, n *Network, client, server net.Conn) {
		n.SetDefaultDelay(10 * time.Millisecond)
		n.SetDelay("client", "server", 50*time.Millisecond)
		require.Zero(t, within(func() { send(t, client, "slow") }))
		require.Equal(t, 50*time.Millisecond, within(func() { receive(t, server, "slow") }))
		send(t, server, "fast")
		require.Equal(t, 10*time.Millisecond, within(func() { receive(t, client, "fast") }))

		send(t, client, "first")
		n.SetDelay("client", "server", 0)
		send(t, client, "second")
		require.Equal(t, 50*time.Millisecond, within(func() { receive(t, server, "firstsecond") }), "nothing overtakes")

		n.SetDelay("client", "server", time.Second)
		require.NoError(t, client.Close())
		require.Equal(t, time.Second, within(func() {
			_, err := server.Read(make([]byte, 1))
			require.ErrorIs(t, err, io.EOF)
		}))
	})
	t.Run("and deadline", func(t *testing.T) {
		bubble(t, func(t *testing.T, n *Network, client, server net.Conn) {
			n.SetDefaultDelay(2 * time.Hour)
			send(t, client, "x")
			silent(t, server)
			receive(t, server, "x")
		})
	})
}

func TestACutIsOneDirection(t *testing.T) {
	bubble(t, func(t *testing.T, n *Network, client, server net.Conn) {
		send(t, client, "before")
		n.Cut("client", "server")
		receive(t, server, "before")
		send(t, client, "during")
		silent(t, server)
		send(t, server, "other way")
		receive(t, client, "other way")
		n.Heal("client", "server")
		receive(t, server, "during")

		go func() { time.Sleep(time.Minute); n.Heal("server", "client") }()
		n.Cut("server", "client")
		send(t, server, "late")
		require.Equal(t, time.Minute, within(func() { receive(t, client, "late") }), "healing wakes the reader")

		n.SetDefaultDelay(time.Second)
		send(t, client, "on the way")
		n.Cut("client", "server")
		silent(t, server)
		n.HealAll()
		require.Equal(t, time.Second, within(func() { receive(t, server, "on the way") }))

		n.Cut("client", "server")
		require.NoError(t, client.Close())
		silent(t, server)
		n.HealAll()
		_, err := server.Read(make([]byte, 1))
		require.ErrorIs(t, err, io.EOF)
	})
}

func TestIsolation(t *testing.T) {
	bubble(t, func(t *testing.T, n *Network, client, server net.Conn) {
		n.Isolate("server")
		send(t, client, "a")
		send(t, server, "b")
		silent(t, server)
		silent(t, client)
		n.Cut("server", "client")
		own, err := n.Host("server").Listen("tcp", ":9092")
		require.NoError(t, err)
		self, err := n.Host("server").Dial(t.Context(), "tcp", "localhost:9092")
		require.NoError(t, err, "a host reaches itself")
		require.NoError(t, self.Close())
		require.NoError(t, own.Close())
		n.Rejoin("server")
		receive(t, server, "a")
		silent(t, client)
		n.HealAll()
		receive(t, client, "b")
	})
}

func TestReset(t *testing.T) {
	bubble(t, func(t *testing.T, n *Network, client, server net.Conn) {
		send(t, client, "unread")
		n.Reset("other", "server")
		receive(t, server, "unread")
		go func() { time.Sleep(time.Second); n.Reset("server", "client") }()
		_, err := server.Read(make([]byte, 1))
		require.ErrorIs(t, err, syscall.ECONNRESET)
		_, err = client.Write([]byte("x"))
		require.ErrorIs(t, err, syscall.ECONNRESET)
		require.ErrorIs(t, client.(*conn).CloseWrite(), syscall.ECONNRESET)
	})
}

func TestACrashLeavesAHalfOpenConnection(t *testing.T) {
	bubble(t, func(t *testing.T, n *Network, client, server net.Conn) {
		l, err := n.Host("server").Listen("tcp", "server:9092")
		require.NoError(t, err)
		n.Crash("server")
		_, err = l.Accept()
		require.ErrorIs(t, err, net.ErrClosed)
		_, err = server.Read(make([]byte, 1))
		require.ErrorIs(t, err, net.ErrClosed)
		silent(t, client)
		_, err = client.Write([]byte("x"))
		require.ErrorIs(t, err, syscall.ECONNRESET)
		_, err = client.Read(make([]byte, 1))
		require.ErrorIs(t, err, syscall.ECONNRESET)
		l, err = n.Host("server").Listen("tcp", "server:9092")
		require.NoError(t, err, "the host is back")
		require.NoError(t, l.Close())
	})
	t.Run("and the path is cut", func(t *testing.T) {
		bubble(t, func(t *testing.T, n *Network, client, _ net.Conn) {
			n.Cut("server", "client")
			n.Crash("server")
			send(t, client, "into the void")
			silent(t, client)
			go func() { time.Sleep(time.Second); n.HealAll() }()
			_, err := client.Read(make([]byte, 1))
			require.ErrorIs(t, err, syscall.ECONNRESET, "the repetition is answered")
		})
	})
	t.Run("and only the way there is cut", func(t *testing.T) {
		bubble(t, func(t *testing.T, n *Network, client, _ net.Conn) {
			n.Cut("client", "server")
			n.Crash("server")
			send(t, client, "into the void")
			silent(t, client)
		})
	})
	t.Run("while its own writer waits", func(t *testing.T) {
		bubble(t, func(t *testing.T, n *Network, _, server net.Conn) {
			go func() { time.Sleep(time.Second); n.Crash("server") }()
			_, err := server.Write(make([]byte, 2*defaultBuffer))
			require.ErrorIs(t, err, net.ErrClosed)
		})
	})
	t.Run("while a writer waits", func(t *testing.T) {
		bubble(t, func(t *testing.T, n *Network, client, _ net.Conn) {
			n.Isolate("server")
			n.Crash("server")
			go func() { time.Sleep(time.Second); n.Rejoin("server") }()
			k, err := client.Write(make([]byte, 2*defaultBuffer))
			require.Equal(t, defaultBuffer, k)
			require.ErrorIs(t, err, syscall.ECONNRESET)
		})
	})
}

func TestListening(t *testing.T) {
	n := New()
	h := n.Host("a")
	require.Equal(t, "a", h.Name())
	l, err := h.Listen("tcp", "a:9092")
	require.NoError(t, err)
	require.Equal(t, "a:9092", l.Addr().String())
	_, err = h.Listen("tcp", ":9092")
	require.ErrorIs(t, err, syscall.EADDRINUSE)
	_, err = h.Listen("tcp", "nonsense")
	require.Error(t, err)
	other, err := n.Host("b").Listen("tcp", "0.0.0.0:9092")
	require.NoError(t, err, "another host has its own ports")
	require.Equal(t, "b:9092", other.Addr().String())
	first, err := h.Listen("tcp", "localhost:0")
	require.NoError(t, err)
	second, err := h.Listen("tcp", "localhost:0")
	require.NoError(t, err)
	require.NotEqual(t, first.Addr(), second.Addr())

	require.NoError(t, l.Close())
	require.ErrorIs(t, l.Close(), net.ErrClosed)
	_, err = l.Accept()
	require.ErrorIs(t, err, net.ErrClosed)
	l, err = h.Listen("tcp", "a:9092")
	require.NoError(t, err, "the address is free again")
	require.NoError(t, l.Close())
}

func TestDialling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New()
		client := n.Host("client")
		dial := func(timeout time.Duration) (net.Conn, error) {
			ctx, cancel := context.WithTimeout(t.Context(), timeout)
			defer cancel()
			return client.Dial(ctx, "tcp", "name:9092")
		}
		_, err := dial(time.Second)
		require.ErrorIs(t, err, syscall.ECONNREFUSED)
		var op *net.OpError
		require.ErrorAs(t, err, &op)
		require.Equal(t, "name:9092", op.Addr.String())
		_, err = client.Dial(t.Context(), "tcp", "nonsense")
		require.Error(t, err)

		// The listener's name need not be the host's: cuts go by host.
		l, err := n.Host("server").Listen("tcp", "name:9092")
		require.NoError(t, err)
		for _, cut := range [][2]string{{"client", "server"}, {"server", "client"}} {
			n.Cut(cut[0], cut[1])
			require.Equal(t, time.Minute, within(func() { _, err = dial(time.Minute) }))
			require.ErrorIs(t, err, os.ErrDeadlineExceeded)
			n.HealAll()
		}
		n.Isolate("server")
		go func() { time.Sleep(time.Second); n.Rejoin("server") }()
		var c net.Conn
		require.Equal(t, time.Second, within(func() { c, err = dial(time.Minute) }))
		require.NoError(t, err)
		require.NoError(t, c.Close())

		n.SetDelay("client", "server", time.Second)
		n.SetDelay("server", "client", 2*time.Second)
		require.Equal(t, 3*time.Second, within(func() { c, err = dial(time.Minute) }))
		require.NoError(t, err)
		require.NoError(t, c.Close())
		_, err = dial(time.Second)
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		n.SetDelay("client", "server", 0)
		n.SetDelay("server", "client", 0)

		cancelled, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = client.Dial(cancelled, "tcp", "name:9092")
		require.ErrorIs(t, err, context.Canceled)
		for range 2 {
			accepted, err := l.Accept()
			require.NoError(t, err)
			require.NoError(t, accepted.Close())
		}
		require.NoError(t, l.Close())
		require.Empty(t, n.Open())
	})
}

func TestTheBacklogIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New()
		l, err := n.Host("server").Listen("tcp", "server:9092")
		require.NoError(t, err)
		var waiting []net.Conn
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		for {
			c, err := n.Host("client").Dial(ctx, "tcp", "server:9092")
			if err != nil {
				require.ErrorIs(t, err, os.ErrDeadlineExceeded)
				break
			}
			waiting = append(waiting, c)
		}
		require.Len(t, waiting, backlog)
		refused := make(chan error)
		go func() {
			_, err := n.Host("client").Dial(t.Context(), "tcp", "server:9092")
			refused <- err
		}()
		synctest.Wait()
		require.NoError(t, l.Close())
		require.ErrorIs(t, <-refused, syscall.ECONNREFUSED)
		for _, c := range waiting {
			_, err := c.Read(make([]byte, 1))
			require.ErrorIs(t, err, syscall.ECONNRESET, "nobody will accept it any more")
			require.NoError(t, c.Close())
		}
		require.Empty(t, n.Open())
	})
}

// Many connections at once, with real scheduling and the race detector.
func TestConcurrentConversations(t *testing.T) {
	n := New()
	n.SetBuffer(100)
	l, err := n.Host("server").Listen("tcp", "server:9092")
	require.NoError(t, err)
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer c.Close()
				_, _ = io.Copy(c, c)
			})
		}
	})
	errs := make(chan error, 20)
	for i := range cap(errs) {
		go func() { errs <- echo(n, fmt.Sprint("client", i%3), byte(i)) }()
	}
	for range cap(errs) {
		require.NoError(t, <-errs)
	}
	require.NoError(t, l.Close())
	wg.Wait()
	require.Empty(t, n.Open())
}

func echo(n *Network, host string, fill byte) error {
	c, err := n.Host(host).Dial(context.Background(), "tcp", "server:9092")
	if err != nil {
		return err
	}
	defer c.Close()
	want := bytes.Repeat([]byte{fill}, 5000)
	go func() {
		_, _ = c.Write(want)
		_ = c.(*conn).CloseWrite()
	}()
	got, err := io.ReadAll(c)
	if err == nil && !bytes.Equal(want, got) {
		err = errors.New("the echo differs")
	}
	return err
}
