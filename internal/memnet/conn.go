package memnet

import (
	"io"
	"net"
	"os"
	"syscall"
	"time"
)

// stream is one direction of a connection. Everything in it is guarded by Network.mu.
type stream struct {
	path path
	// segments are in order. Those that are held or whose time has not come have not arrived.
	segments []segment
	size     int // bytes in segments
	limit    int
	held     bool // the path is cut
	gone     bool // nobody will read any more
	// wake is closed when something changes, nil when nobody waits.
	wake chan struct{}
}

type segment struct {
	data []byte
	at   time.Time
	held bool
	end  bool // end of stream
}

func newStream(p path, limit int) *stream { return &stream{path: p, limit: limit} }

func (s *stream) wakeAll() {
	if s.wake != nil {
		close(s.wake)
		s.wake = nil
	}
}

func (s *stream) waitChan() chan struct{} {
	if s.wake == nil {
		s.wake = make(chan struct{})
	}
	return s.wake
}

// put queues a segment; it arrives after delay, and not before what was sent earlier.
func (s *stream) put(g segment, delay time.Duration) {
	g.at, g.held = time.Now().Add(delay), s.held
	s.segments = append(s.segments, g)
	s.size += len(g.data)
	s.wakeAll()
}

// setHeld cuts or heals the path: what is under way stops, or starts again.
func (s *stream) setHeld(held bool, delay time.Duration) {
	if s.held == held {
		return
	}
	s.held = held
	now := time.Now()
	for i := range s.segments {
		g := &s.segments[i]
		switch {
		case held && g.at.After(now):
			g.held = true
		case !held && g.held:
			g.held, g.at = false, now.Add(delay)
		}
	}
}

// take reads what has arrived. When nothing has, ok is false and wait is how long the next takes to arrive, -1 when that
// cannot be said.
func (s *stream) take(b []byte) (n int, end, ok bool, wait time.Duration) {
	if len(s.segments) == 0 || s.segments[0].held {
		return 0, false, false, -1
	}
	g := &s.segments[0]
	if wait = time.Until(g.at); wait > 0 {
		return 0, false, false, wait
	}
	if g.end {
		return 0, true, true, 0
	}
	n = copy(b, g.data)
	g.data = g.data[n:]
	s.size -= n
	if len(g.data) == 0 {
		s.segments[0] = segment{}
		s.segments = s.segments[1:]
	}
	s.wakeAll()
	return n, false, true, 0
}

// conn is one end of a connection.
type conn struct {
	n             *Network
	local, remote addr
	in, out       *stream
	peer          *conn

	// The rest is guarded by Network.mu.
	closed                      bool
	ended                       bool // an end of stream was sent
	err                         error
	readDeadline, writeDeadline time.Time
}

func (c *conn) host() string { return c.out.path.from }

// LocalAddr implements net.Conn.
func (c *conn) LocalAddr() net.Addr { return c.local }

// RemoteAddr implements net.Conn.
func (c *conn) RemoteAddr() net.Addr { return c.remote }

func (c *conn) fail(op string, err error) error {
	return &net.OpError{Op: op, Net: "tcp", Source: c.local, Addr: c.remote, Err: err}
}

// broken returns why the end cannot be used.
func (c *conn) broken(deadline time.Time) error {
	switch {
	case c.closed:
		return net.ErrClosed
	case c.err != nil:
		return c.err
	case !deadline.IsZero() && !time.Now().Before(deadline):
		return os.ErrDeadlineExceeded
	}
	return nil
}

// Read implements net.Conn.
func (c *conn) Read(b []byte) (int, error) {
	c.n.mu.Lock()
	defer c.n.mu.Unlock()
	for {
		if err := c.broken(c.readDeadline); err != nil {
			return 0, c.fail("read", err)
		}
		if len(b) == 0 {
			return 0, nil
		}
		n, end, ok, wait := c.in.take(b)
		switch {
		case ok && end:
			return 0, io.EOF
		case ok:
			return n, nil
		}
		c.waitLocked(c.in, wait, c.readDeadline)
	}
}

// Write implements net.Conn.
func (c *conn) Write(b []byte) (int, error) {
	c.n.mu.Lock()
	defer c.n.mu.Unlock()
	done := 0
	for {
		if err := c.broken(c.writeDeadline); err != nil {
			return done, c.fail("write", err)
		}
		if c.ended {
			return done, c.fail("write", syscall.EPIPE)
		}
		if c.out.gone && c.answeredLocked() {
			return done, c.fail("write", c.err)
		}
		if done == len(b) {
			return done, nil
		}
		if room := c.out.limit - c.out.size; room > 0 {
			part := b[done:min(len(b), done+room)]
			c.out.put(segment{data: append([]byte(nil), part...)}, c.n.delayLocked(c.out.path))
			done += len(part)
			continue
		}
		c.waitLocked(c.out, -1, c.writeDeadline)
	}
}

// answeredLocked tells whether the absent peer's host can say that it is absent, and if so breaks this end.
func (c *conn) answeredLocked() bool {
	if c.n.cutLocked(c.in.path) || c.n.cutLocked(c.out.path) {
		return false
	}
	c.err = syscall.EPIPE
	if c.peer.err != nil {
		c.err = c.peer.err
	}
	c.in.wakeAll()
	return true
}

// waitLocked gives up the lock until the stream changes, wait is over (unless it is negative) or the deadline passes.
func (c *conn) waitLocked(s *stream, wait time.Duration, deadline time.Time) {
	changed := s.waitChan()
	if !deadline.IsZero() {
		if left := max(0, time.Until(deadline)); wait < 0 || left < wait {
			wait = left
		}
	}
	c.n.mu.Unlock()
	defer c.n.mu.Lock()
	if wait < 0 {
		<-changed
		return
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-changed:
	case <-t.C:
	}
}

// Close implements net.Conn. The peer reads what was sent and then the end of the stream.
func (c *conn) Close() error {
	c.n.mu.Lock()
	defer c.n.mu.Unlock()
	if c.closed {
		return c.fail("close", net.ErrClosed)
	}
	c.endLocked()
	c.leaveLocked()
	return nil
}

// CloseWrite sends the end of the stream; reading goes on.
func (c *conn) CloseWrite() error {
	c.n.mu.Lock()
	defer c.n.mu.Unlock()
	if err := c.broken(time.Time{}); err != nil {
		return c.fail("close", err)
	}
	c.endLocked()
	return nil
}

func (c *conn) endLocked() {
	if !c.ended && c.err == nil {
		c.ended = true
		c.out.put(segment{end: true}, c.n.delayLocked(c.out.path))
	}
}

// leaveLocked closes this end: nobody reads what comes, and whoever waits here is let go.
func (c *conn) leaveLocked() {
	c.closed = true
	c.in.gone = true
	delete(c.n.mu.conns, c)
	c.in.wakeAll()
	c.out.wakeAll()
}

// vanishLocked is leaveLocked by a crash: the peer is told nothing, and later writes of it are reset.
func (c *conn) vanishLocked() {
	c.err = syscall.ECONNRESET
	c.leaveLocked()
}

// resetLocked breaks this end; data that arrived is lost, as with TCP.
func (c *conn) resetLocked(err error) {
	c.err = err
	c.in.wakeAll()
	c.out.wakeAll()
}

// discard closes an end that nobody holds, because it was never accepted, and breaks the other one.
func (c *conn) discard() {
	c.n.mu.Lock()
	defer c.n.mu.Unlock()
	c.leaveLocked()
	c.peer.resetLocked(syscall.ECONNRESET)
}

// SetDeadline implements net.Conn.
func (c *conn) SetDeadline(t time.Time) error { return c.setDeadlines(&t, &t) }

// SetReadDeadline implements net.Conn.
func (c *conn) SetReadDeadline(t time.Time) error { return c.setDeadlines(&t, nil) }

// SetWriteDeadline implements net.Conn.
func (c *conn) SetWriteDeadline(t time.Time) error { return c.setDeadlines(nil, &t) }

func (c *conn) setDeadlines(read, write *time.Time) error {
	c.n.mu.Lock()
	defer c.n.mu.Unlock()
	if c.closed {
		return c.fail("set", net.ErrClosed)
	}
	if read != nil {
		c.readDeadline = *read
		c.in.wakeAll()
	}
	if write != nil {
		c.writeDeadline = *write
		c.out.wakeAll()
	}
	return nil
}
