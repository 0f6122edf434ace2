package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/kbroker/kbroker/config"
	"github.com/kbroker/kbroker/internal/netio"
	"github.com/kbroker/kbroker/internal/telemetry"
)

// errIdle ends a connection that nothing moved on for connections.max.idle.ms.
var errIdle = errors.New("idle for too long")

// errPushedOut ends a connection in favour of one between brokers.
var errPushedOut = errors.New("closed to make room for a connection between brokers")

const (
	// acceptRetry and acceptRetryMax space attempts to accept after an error such as too many open files.
	acceptRetry    = 5 * time.Millisecond
	acceptRetryMax = time.Second
	// resolveTimeout bounds the look-up of the host names in max.connections.per.ip.overrides.
	resolveTimeout = 2 * time.Second
	// sweepPause is the longest pause between two looks for idle connections, so that a changed limit is noticed.
	sweepPause = 30 * time.Second
	// badPeerPeriod and badPeerBurst bound the log lines about peers that misbehave.
	badPeerPeriod = 10 * time.Second
	badPeerBurst  = 5
)

// Server accepts connections and serves the requests on them.
type Server struct {
	o       Options
	log     *zap.Logger
	badPeer *zap.Logger // limited
	pool    *bufferPool
	budget  *budget
	limits  *limiter
	pace    pacer
	metrics *metrics
	started time.Time
	// names maps addresses to the host names of max.connections.per.ip.overrides.
	names map[string]string

	group    sync.WaitGroup
	stopping context.Context
	stop     context.CancelFunc

	mu struct {
		sync.Mutex
		conns   map[*conn]struct{}
		stopped bool
	}
}

// New returns a server on sockets that are open already. It does not serve before Start.
func New(o Options) (*Server, error) {
	if err := o.validate(); err != nil {
		return nil, fmt.Errorf("server: %w", err)
	}
	s := &Server{
		o: o, log: o.Logger, badPeer: telemetry.Limit(o.Logger, badPeerPeriod, badPeerBurst), pool: newBufferPool(),
		budget: newBudget(o.Config().Sockets.QueuedRequestBytes), limits: newLimiter(), started: time.Now(),
	}
	s.stopping, s.stop = context.WithCancel(context.Background())
	s.mu.conns = map[*conn]struct{}{}
	s.metrics = newMetrics(s, o.Service.Table())
	if o.Registerer != nil {
		if err := s.metrics.register(s, o.Registerer); err != nil {
			return nil, fmt.Errorf("server: %w", err)
		}
	}
	return s, nil
}

func (s *Server) cfg() *config.Config { return s.o.Config() }

// Start begins to accept connections. It returns at once; Shutdown ends what it began.
func (s *Server) Start() {
	s.names = resolveNames(s.stopping, s.cfg().Sockets.MaxPerIPOverrides, s.log)
	for i := range s.o.Listeners {
		l := &s.o.Listeners[i]
		s.group.Go(func() { s.acceptLoop(l) })
	}
	s.group.Go(s.sweepLoop)
}

// Shutdown stops accepting, lets every connection answer what it has received, closes them and waits for all goroutines.
// When ctx ends first, the connections are closed at once and its error is returned.
func (s *Server) Shutdown(ctx context.Context) error {
	s.stop()
	var errs []error
	for i := range s.o.Listeners {
		if err := s.o.Listeners[i].Socket.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
	}
	for _, c := range s.stopAll() {
		c.stop()
	}
	stopWaiting := context.AfterFunc(ctx, func() {
		for _, c := range s.stopAll() {
			c.close(errDraining)
		}
	})
	s.group.Wait()
	if !stopWaiting() {
		errs = append(errs, fmt.Errorf("connections were closed with requests in flight: %w", ctx.Err()))
	}
	return errors.Join(errs...)
}

// stopAll makes the server refuse further connections and returns those there are.
func (s *Server) stopAll() []*conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.stopped = true
	var all []*conn
	for c := range s.mu.conns {
		all = append(all, c)
	}
	return all
}

func (s *Server) acceptLoop(l *Listener) {
	delay := acceptRetry
	for {
		socket, err := l.Socket.Accept()
		if err == nil {
			delay = acceptRetry
			s.admit(l, socket)
			continue
		}
		if s.stopping.Err() != nil || errors.Is(err, net.ErrClosed) {
			return
		}
		s.badPeer.Error("cannot accept connections", zap.String("listener", l.Name), zap.Duration("retry after", delay), zap.Error(err))
		if !sleep(s.stopping, delay) {
			return
		}
		delay = min(2*delay, acceptRetryMax)
	}
}

// admit serves a new connection if the limits allow it, when they allow it. While it waits, the listener does not accept:
// further clients wait in the system's queue.
func (s *Server) admit(l *Listener, socket net.Conn) {
	host := hostOf(socket.RemoteAddr())
	if !sleep(s.stopping, s.pace.wait(time.Now(), s.cfg().Sockets.MaxCreationRate)) {
		_ = socket.Close() // the server is stopping
		return
	}
	for {
		sockets := &s.cfg().Sockets
		v, over, freed := s.limits.admit(host, hostLimit(sockets, s.names, host), int(sockets.MaxConnections), l.Protected)
		switch v {
		case admitted:
			if over {
				s.pushOut(l)
			}
			s.serve(l, socket, host)
			return
		case tooMany:
			s.metrics.refused.WithLabelValues("too many").Inc()
			s.badPeer.Warn("connection refused: its address has as many as it may have (max.connections.per.ip)", zap.String("peer", host))
			_ = socket.Close() // refused
			return
		case full:
			select {
			case <-freed:
			case <-s.stopping.Done():
				_ = socket.Close() // the server is stopping
				return
			}
		}
	}
}

// serve starts the goroutines of an admitted connection.
func (s *Server) serve(l *Listener, socket net.Conn, host string) {
	sockets := &s.cfg().Sockets
	if err := netio.SetBuffers(socket, chosenBuffer(sockets.SendBuffer), chosenBuffer(sockets.ReceiveBuffer)); err != nil {
		s.log.Debug("socket buffers cannot be set", zap.String("peer", host), zap.Error(err))
	}
	c := s.newConn(l, socket, host)
	s.metrics.opened.WithLabelValues(l.Name).Inc()
	s.metrics.connections.WithLabelValues(l.Name).Inc()
	s.mu.Lock()
	stopped := s.mu.stopped
	s.mu.conns[c] = struct{}{}
	s.mu.Unlock()
	if stopped {
		c.stop()
	}
	s.group.Go(c.run)
}

// kafkaBuffer is Kafka's default for the buffers of sockets, in bytes.
const kafkaBuffer = 102400

// chosenBuffer returns -1, the system's choice, for a size that is only Kafka's default. A size that is set ends the
// system's own adjustment, and this one costs a third of the throughput of large batches even within one machine.
func chosenBuffer(size int32) int32 {
	if size == kafkaBuffer {
		return -1
	}
	return size
}

// forget takes an ended connection off the books.
func (s *Server) forget(c *conn) {
	s.mu.Lock()
	delete(s.mu.conns, c)
	s.mu.Unlock()
	s.limits.release(c.peer.Host)
	s.metrics.connections.WithLabelValues(c.listener.Name).Dec()
}

// pushOut closes the connection of another listener that was used longest ago.
func (s *Server) pushOut(l *Listener) {
	var oldest *conn
	s.mu.Lock()
	for c := range s.mu.conns {
		if c.listener != l && !c.listener.Protected && (oldest == nil || c.used.Load() < oldest.used.Load()) {
			oldest = c
		}
	}
	s.mu.Unlock()
	if oldest != nil {
		s.metrics.refused.WithLabelValues("pushed out").Inc()
		oldest.close(errPushedOut)
	}
}

// sweepLoop closes idle connections.
func (s *Server) sweepLoop() {
	for {
		idle := s.cfg().Sockets.MaxIdle
		pause := sweepPause
		if idle > 0 {
			pause = min(pause, max(idle/4, time.Millisecond))
		}
		if !sleep(s.stopping, pause) {
			return
		}
		if idle > 0 {
			s.sweep(idle)
		}
	}
}

func (s *Server) sweep(idle time.Duration) {
	limit := int64(time.Since(s.started) - idle)
	var old []*conn
	s.mu.Lock()
	for c := range s.mu.conns {
		if c.used.Load() < limit {
			old = append(old, c)
		}
	}
	s.mu.Unlock()
	for _, c := range old {
		if c.q.isIdle() {
			s.metrics.refused.WithLabelValues("idle").Inc()
			c.close(errIdle)
		}
	}
}

// resolveNames finds the addresses of the host names among the overrides, once.
func resolveNames(ctx context.Context, overrides map[string]int32, log *zap.Logger) map[string]string {
	ctx, cancel := context.WithTimeout(ctx, resolveTimeout)
	defer cancel()
	names := map[string]string{}
	for name := range overrides {
		if _, err := netip.ParseAddr(name); err == nil {
			continue
		}
		addrs, err := net.DefaultResolver.LookupHost(ctx, name)
		if err != nil {
			log.Warn("a host of max.connections.per.ip.overrides is unknown: its limit does not apply", zap.String("host", name), zap.Error(err))
		}
		for _, a := range addrs {
			names[a] = name
		}
	}
	return names
}

// sleep waits and reports whether ctx is still alive.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
