package server

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/kbroker/kbroker/internal/netio"
	"github.com/kbroker/kbroker/internal/server/api"
)

// drainTimeout bounds how long a connection whose peer has stopped sending is kept for the answers that it still gets.
const drainTimeout = 10 * time.Second

// errDraining ends the reader of a connection when the server stops.
var errDraining = errors.New("the server is stopping")

// conn is one connection. The reader owns it: it starts the writer, and cleans up when it ends.
type conn struct {
	s        *Server
	listener *Listener
	socket   net.Conn
	peer     *api.Peer
	frames   *frameReader
	out      *netio.Sender
	q        *queue

	// waiting is done when nobody waits for answers any more: the peer has stopped sending or the server is stopping.
	// alive is done when the connection is closed.
	waiting, alive   context.Context
	endWait, endLife context.CancelFunc
	draining         atomic.Bool

	// used is when bytes last moved in either direction, as time since the server's start.
	used atomic.Int64
	// closeOnce guards the end; cause is what ended it.
	closeOnce sync.Once
	cause     error
}

func (s *Server) newConn(l *Listener, socket net.Conn, host string) *conn {
	c := &conn{
		s: s, listener: l, socket: socket, q: newQueue(), out: netio.NewSender(socket),
		peer: &api.Peer{Listener: l.Name, Host: host, Principal: api.Anonymous},
	}
	c.frames = newFrameReader(activeReader{c}, s.pool)
	c.alive, c.endLife = context.WithCancel(context.Background())
	c.waiting, c.endWait = context.WithCancel(c.alive)
	c.touch()
	return c
}

// activeReader notes that bytes came in.
type activeReader struct{ c *conn }

func (a activeReader) Read(p []byte) (int, error) {
	n, err := a.c.socket.Read(p)
	if n > 0 {
		a.c.touch()
		a.c.s.metrics.received.Add(float64(n))
	}
	return n, err
}

func (c *conn) touch() { c.used.Store(int64(time.Since(c.s.started))) }

// run serves the connection until it ends, and cleans up.
func (c *conn) run() {
	written := make(chan struct{})
	c.s.group.Go(func() { defer close(written); c.writeLoop() })
	err := c.readLoop()
	c.endWait()
	if errors.Is(err, io.EOF) || errors.Is(err, errDraining) {
		c.drain()
	}
	c.close(err)
	<-written
	c.report(c.cause)
	c.s.forget(c)
}

// close ends the connection now. What is still in the queue is released; requests in the hands of backends are released
// when they are answered.
func (c *conn) close(cause error) {
	c.closeOnce.Do(func() {
		c.cause = cause
		c.endLife()
		_ = c.socket.Close() // nothing more can be done about it
		for _, p := range c.q.close() {
			p.discard()
			c.s.metrics.ended(p)
		}
		wake(c.q.changed)
		wake(c.q.ready)
	})
}

// discard releases what an unsent answer holds.
func (p *pending) discard() {
	if p.answered && p.reply.Fetch != nil {
		p.reply.Fetch.Release()
		p.reply = api.Reply{}
	}
}

// stop makes the connection end once everything that came in is answered.
func (c *conn) stop() {
	c.draining.Store(true)
	c.endWait()
	_ = c.socket.SetReadDeadline(time.Unix(1, 0)) // wakes the reader; a closed socket needs no waking
}

// drain waits until all requests are answered and sent, the connection is closed, or drainTimeout is over.
func (c *conn) drain() {
	t := time.NewTimer(drainTimeout)
	defer t.Stop()
	for !c.q.isEmpty() {
		select {
		case <-c.q.changed:
		case <-c.alive.Done():
			return
		case <-t.C:
			return
		}
	}
}

// report logs why a connection ended, unless that is everyday life.
func (c *conn) report(err error) {
	fields := []zap.Field{zap.String("peer", c.socket.RemoteAddr().String()), zap.String("listener", c.listener.Name), zap.Error(err)}
	switch {
	case errors.Is(err, errNotKafka):
		c.s.metrics.refused.WithLabelValues("not kafka").Inc()
		c.s.badPeer.Warn("a peer does not speak Kafka's protocol to this listener", fields...)
	case errors.Is(err, errRefused):
		c.s.metrics.refused.WithLabelValues("bad request").Inc()
		if sw := c.peer.Software(); sw.Name != "" {
			fields = append(fields, zap.String("client", sw.Name+" "+sw.Version))
		}
		c.s.badPeer.Warn("a peer sent a request that cannot be served", fields...)
	case isEveryday(err):
		c.s.log.Debug("connection ended", fields...)
	default:
		c.s.badPeer.Info("connection ended", fields...)
	}
}

// isEveryday reports whether an error is how connections usually end.
func isEveryday(err error) bool {
	return err == nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, errDraining) ||
		errors.Is(err, errIdle) || errors.Is(err, net.ErrClosed) || errors.Is(err, io.ErrClosedPipe) ||
		errors.Is(err, os.ErrDeadlineExceeded) || isReset(err)
}
