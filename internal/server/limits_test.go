package server

import (
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kbroker/kbroker/config"
)

func TestHostLimitsAndTheirOverrides(t *testing.T) {
	cfg := &config.Sockets{MaxPerIP: 5, MaxPerIPOverrides: map[string]int32{"10.0.0.1": 1, "db.example": 7}}
	names := map[string]string{"10.0.0.9": "db.example", "10.0.0.8": "gone.example"}
	for host, want := range map[string]int{"10.0.0.1": 1, "10.0.0.9": 7, "10.0.0.8": 5, "10.0.0.2": 5} {
		require.Equal(t, want, hostLimit(cfg, names, host), host)
	}
}

func TestHostOfDropsPortZoneAndIPv4Mapping(t *testing.T) {
	for want, a := range map[string]net.Addr{
		"10.1.2.3":    &net.TCPAddr{IP: net.IPv4(10, 1, 2, 3), Port: 9},
		"10.1.2.4":    &net.TCPAddr{IP: net.ParseIP("::ffff:10.1.2.4"), Port: 9},
		"2001:db8::1": &net.TCPAddr{IP: net.ParseIP("2001:db8::1"), Port: 9},
		"fe80::1":     &net.TCPAddr{IP: net.ParseIP("fe80::1"), Zone: "eth0", Port: 9},
		"pipe":        &net.UnixAddr{Name: "pipe"},
	} {
		require.Equal(t, want, hostOf(a))
	}
}

func TestLimiterCountsInAndOut(t *testing.T) {
	l := newLimiter()
	admit := func(host string, protected bool) (verdict, bool) {
		v, over, _ := l.admit(host, 2, 3, protected)
		return v, over
	}
	for _, step := range []struct {
		host      string
		protected bool
		want      verdict
		over      bool
	}{
		{"a", false, admitted, false},
		{"a", false, admitted, false},
		{"a", false, tooMany, false},
		{"b", false, admitted, false},
		{"c", false, full, false},
		{"c", true, admitted, true},
		{"a", true, tooMany, false},
	} {
		v, over := admit(step.host, step.protected)
		require.Equal(t, step.want, v, "%+v", step)
		require.Equal(t, step.over, over, "%+v", step)
	}
	_, _, freed := l.admit("d", 2, 3, false)
	l.release("c")
	<-freed
	_, _, freed = l.admit("d", 2, 3, false)
	l.release("a")
	<-freed
	v, _, _ := l.admit("a", 2, 3, false)
	require.Equal(t, admitted, v)
}

func TestPacerKeepsTheRate(t *testing.T) {
	var p pacer
	now := time.Unix(1000, 0)
	const rate = 10
	for range rate + 1 { // one second's worth at once
		require.Zero(t, p.wait(now, rate))
	}
	for i := 1; i <= 5; i++ {
		require.Equal(t, time.Duration(i)*100*time.Millisecond, p.wait(now, rate))
	}
	now = now.Add(1500 * time.Millisecond) // pays 15 of the 16 that were let through
	for range rate {
		require.Zero(t, p.wait(now, rate))
	}
	require.Equal(t, 100*time.Millisecond, p.wait(now, rate))
	require.Zero(t, p.wait(now.Add(time.Hour), rate))
	require.LessOrEqual(t, p.wait(now.Add(time.Hour), 0), time.Second, "a rate of 0 is taken as 1")
}

func TestTooManyConnectionsOfAnAddressAreClosed(t *testing.T) {
	f := start(t, func(c *config.Config) { c.Sockets.MaxPerIP = 1 })
	a := f.pipes.dial(t, "10.0.0.1")
	requireServed(t, a)
	requireClosed(t, f.pipes.dial(t, "10.0.0.1"))
	requireServed(t, f.pipes.dial(t, "10.0.0.2"))
	a.Close()
	require.Eventually(t, func() bool { return f.metric(t, "kbroker_connections") == 1 }, 10*time.Second, time.Millisecond)
	requireServed(t, f.pipes.dial(t, "10.0.0.1"))
	require.Equal(t, 1.0, f.metric(t, "kbroker_connections_refused_total"))
	require.Equal(t, 1, f.logs.FilterMessageSnippet("max.connections.per.ip").Len())
}

func requireServed(t testing.TB, c net.Conn) {
	t.Helper()
	send(t, c, 77, metadataRequest())
	corr, _ := readAnswer(t, c)
	require.Equal(t, int32(77), corr)
}

// When the broker is full, a connection waits until another one goes; those between brokers push one out instead.
func TestMaxConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		brokers := newPipes()
		f := start(t, func(c *config.Config) { c.Sockets.MaxConnections = 2 }, Listener{Name: "BROKER", Protected: true, Socket: brokers})
		a := f.pipes.dial(t, "10.0.0.1")
		time.Sleep(time.Second)
		b := f.pipes.dial(t, "10.0.0.2")
		requireServed(t, b)
		waiting := f.pipes.dial(t, "10.0.0.3")
		served := make(chan struct{})
		go func() {
			requireServed(t, waiting)
			close(served)
		}()
		synctest.Wait()
		select {
		case <-served:
			t.Fatal("served although the broker is full")
		default:
		}
		peer := brokers.dial(t, "10.0.0.9")
		requireClosed(t, a) // was used longest ago
		requireServed(t, peer)
		synctest.Wait()
		b.Close()
		<-served
	})
}

func TestMaxCreationRateDelaysConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, func(c *config.Config) { c.Sockets.MaxCreationRate = 2 })
		begun := time.Now()
		for range 7 {
			requireServed(t, f.pipes.dial(t, "10.0.0.1"))
		}
		require.Equal(t, 2*time.Second, time.Since(begun)) // three at once, then one every half second
	})
}

func TestIdleConnectionsAreClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, func(c *config.Config) { c.Sockets.MaxIdle = time.Minute })
		idle, busy := f.pipes.dial(t, "10.0.0.1"), f.pipes.dial(t, "10.0.0.2")
		requireServed(t, idle)
		for range 10 {
			time.Sleep(10 * time.Second)
			requireServed(t, busy)
		}
		requireClosed(t, idle)
		requireServed(t, busy)
		require.Equal(t, 1.0, f.metric(t, "kbroker_connections_refused_total"))
	})
}

// Waiting for a handler is not idle; a peer that reads nothing, or stops in the middle of a frame, is.
func TestWhatIsIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, func(c *config.Config) { c.Sockets.MaxIdle = time.Minute })
		var h held
		f.service.serve = h.serve
		waits, slow, half := f.pipes.dial(t, "10.0.0.1"), f.pipes.dial(t, "10.0.0.2"), f.pipes.dial(t, "10.0.0.3")
		send(t, waits, 1, produceRequest(nil))
		send(t, slow, 1, metadataRequest()) // its answer is not read
		_, err := half.Write([]byte{0, 0, 0, 100, 0, 3, 0})
		require.NoError(t, err)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		require.Equal(t, 1.0, f.metric(t, "kbroker_connections"))
		requireClosed(t, half)
		go h.release(0)
		corr, _ := readAnswer(t, waits)
		require.Equal(t, int32(1), corr)
	})
}

func TestNegativeMaxIdleKeepsConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, func(c *config.Config) { c.Sockets.MaxIdle = -1 })
		c := f.pipes.dial(t, "10.0.0.1")
		time.Sleep(100 * time.Hour)
		requireServed(t, c)
	})
}

// failingListener fails a few times before it accepts, as when the process has too many open files.
type failingListener struct {
	*pipes
	failures int
}

func (f *failingListener) Accept() (net.Conn, error) {
	if f.failures > 0 {
		f.failures--
		return nil, &net.OpError{Op: "accept", Err: &net.DNSError{Err: "too many open files"}}
	}
	return f.pipes.Accept()
}

func TestAcceptGoesOnAfterErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &failingListener{pipes: newPipes(), failures: 12}
		begun := time.Now()
		start(t, nil, Listener{Name: "B", Socket: l})
		requireServed(t, l.dial(t, "10.0.0.1"))
		require.Greater(t, time.Since(begun), time.Second, "no busy loop")
	})
}

func TestOptionsAreChecked(t *testing.T) {
	_, err := New(Options{Listeners: []Listener{{Name: "A"}}})
	require.ErrorContains(t, err, "listener 0 (A) has no socket")
	require.ErrorContains(t, err, "required")
	_, err = New(Options{})
	require.ErrorContains(t, err, "no listeners")
}

func TestOnlyAChosenBufferSizeIsSet(t *testing.T) {
	sockets := config.Default().Sockets
	require.Equal(t, int32(-1), chosenBuffer(sockets.ReceiveBuffer))
	require.Equal(t, int32(-1), chosenBuffer(sockets.SendBuffer))
	require.Equal(t, int32(-1), chosenBuffer(-1))
	require.Equal(t, int32(65536), chosenBuffer(65536))
}
