package memnet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sort"
	"strconv"
	"sync"
	"syscall"
	"time"
)

const (
	defaultBuffer = 256 << 10
	backlog       = 128
	firstPort     = 32768
	localhost     = "localhost"
)

// Network is the wire between hosts. It is safe for concurrent use.
type Network struct {
	mu struct {
		sync.Mutex
		listeners map[string]*listener
		conns     map[*conn]struct{}
		paths     map[path]*pathState
		isolated  map[string]bool
		delay     time.Duration
		buffer    int
		lastPort  int
		// dials is closed and replaced when something changes that a waiting dialler looks at.
		dials chan struct{}
	}
}

// path is one direction between two hosts.
type path struct{ from, to string }

type pathState struct {
	cut      bool
	delayed  bool
	ownDelay time.Duration
}

// New returns a network without delays whose connections buffer 256 KiB in each direction.
func New() *Network {
	n := &Network{}
	n.mu.listeners = map[string]*listener{}
	n.mu.conns = map[*conn]struct{}{}
	n.mu.paths = map[path]*pathState{}
	n.mu.isolated = map[string]bool{}
	n.mu.buffer = defaultBuffer
	n.mu.lastPort = firstPort
	n.mu.dials = make(chan struct{})
	return n
}

// Host is a machine on the network. Any name will do; hosts need not be declared.
type Host struct {
	n    *Network
	name string
}

// Host returns the view of one host, whose Listen and Dial have the signatures of net.Listen and of
// net.Dialer.DialContext.
func (n *Network) Host(name string) *Host { return &Host{n, name} }

// Name returns the host's name.
func (h *Host) Name() string { return h.name }

// Listen listens on a host:port; port 0 picks a free one. An empty or unspecified host and localhost mean this host; other
// names are further names of it.
func (h *Host) Listen(_, address string) (net.Listener, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, &net.OpError{Op: "listen", Net: "tcp", Err: err}
	}
	h.n.mu.Lock()
	defer h.n.mu.Unlock()
	if port == "0" {
		port = h.n.nextPortLocked()
	}
	a := addr(net.JoinHostPort(h.resolve(host), port))
	if h.n.mu.listeners[string(a)] != nil {
		return nil, &net.OpError{Op: "listen", Net: "tcp", Addr: a, Err: syscall.EADDRINUSE}
	}
	l := &listener{n: h.n, host: h.name, addr: a, queue: make(chan *conn, backlog), done: make(chan struct{})}
	h.n.mu.listeners[string(a)] = l
	h.n.wakeDialsLocked()
	return l, nil
}

func (h *Host) resolve(host string) string {
	switch host {
	case "", "0.0.0.0", "::", localhost, "127.0.0.1", "::1":
		return h.name
	}
	return host
}

func (n *Network) nextPortLocked() string {
	n.mu.lastPort++
	return strconv.Itoa(n.mu.lastPort)
}

func (n *Network) wakeDialsLocked() {
	close(n.mu.dials)
	n.mu.dials = make(chan struct{})
}

// Dial connects to a listener. Without one the connection is refused; over a cut path Dial waits until ctx ends. It takes
// as long as a message there and back.
func (h *Host) Dial(ctx context.Context, _, address string) (net.Conn, error) {
	c, err := h.dial(ctx, address)
	if err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			err = os.ErrDeadlineExceeded // as package net does, so that Timeout() is true
		}
		return nil, &net.OpError{Op: "dial", Net: "tcp", Addr: addr(address), Err: err}
	}
	return c, nil
}

func (h *Host) dial(ctx context.Context, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	target := net.JoinHostPort(h.resolve(host), port)
	there, err := h.travel(ctx, target)
	if err != nil {
		return nil, err
	}
	h.n.mu.Lock()
	l := h.n.mu.listeners[target]
	if l == nil {
		h.n.mu.Unlock()
		return nil, syscall.ECONNREFUSED
	}
	local := addr(net.JoinHostPort(h.name, h.n.nextPortLocked()))
	client, server := h.n.connectLocked(h.name, there, local, l.addr)
	h.n.mu.Unlock()
	select {
	case l.queue <- server:
	case <-l.done:
		err = syscall.ECONNREFUSED
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		client.discard()
		server.discard()
		return nil, err
	}
	l.refuseIfClosed()
	return client, nil
}

// travel waits until both directions to the host of target are open, and for a message there and back.
func (h *Host) travel(ctx context.Context, target string) (host string, err error) {
	for {
		h.n.mu.Lock()
		host = h.n.hostOfLocked(target)
		open := !h.n.cutLocked(path{h.name, host}) && !h.n.cutLocked(path{host, h.name})
		delay := h.n.delayLocked(path{h.name, host}) + h.n.delayLocked(path{host, h.name})
		changed := h.n.mu.dials
		h.n.mu.Unlock()
		if open {
			return host, sleep(ctx, delay)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return host, ctx.Err()
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// hostOfLocked returns the machine behind an address, which may be listening under another name.
func (n *Network) hostOfLocked(address string) string {
	if l := n.mu.listeners[address]; l != nil {
		return l.host
	}
	host, _, _ := net.SplitHostPort(address)
	return host
}

func (n *Network) pathLocked(p path) *pathState {
	s := n.mu.paths[p]
	if s == nil {
		s = &pathState{}
		n.mu.paths[p] = s
	}
	return s
}

func (n *Network) cutLocked(p path) bool {
	if p.from == p.to {
		return false
	}
	s := n.mu.paths[p]
	return s != nil && s.cut || n.mu.isolated[p.from] || n.mu.isolated[p.to]
}

func (n *Network) delayLocked(p path) time.Duration {
	if s := n.mu.paths[p]; s != nil && s.delayed {
		return s.ownDelay
	}
	return n.mu.delay
}

// SetBuffer sets how many bytes each direction of later connections holds.
func (n *Network) SetBuffer(bytes int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.mu.buffer = bytes
}

// SetDelay sets how long what is sent from now on takes from one host to another. Order is kept.
func (n *Network) SetDelay(from, to string, d time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	s := n.pathLocked(path{from, to})
	s.delayed, s.ownDelay = true, d
}

// SetDefaultDelay sets the delay of all paths without their own.
func (n *Network) SetDefaultDelay(d time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.mu.delay = d
}

// Cut stops everything sent from one host to another, in that direction only.
func (n *Network) Cut(from, to string) {
	n.setPaths(func() { n.pathLocked(path{from, to}).cut = true })
}

// Heal opens that direction again.
func (n *Network) Heal(from, to string) {
	n.setPaths(func() { n.pathLocked(path{from, to}).cut = false })
}

// Isolate cuts a host off from all others, in both directions.
func (n *Network) Isolate(host string) { n.setPaths(func() { n.mu.isolated[host] = true }) }

// Rejoin ends Isolate; cuts of single paths stay.
func (n *Network) Rejoin(host string) { n.setPaths(func() { delete(n.mu.isolated, host) }) }

// HealAll opens every path.
func (n *Network) HealAll() {
	n.setPaths(func() {
		for _, s := range n.mu.paths {
			s.cut = false
		}
		clear(n.mu.isolated)
	})
}

// setPaths changes which paths are open and tells everybody whom it concerns.
func (n *Network) setPaths(change func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	change()
	for c := range n.mu.conns {
		for _, s := range []*stream{c.in, c.out} {
			s.setHeld(n.cutLocked(s.path), n.delayLocked(s.path))
			s.wakeAll()
		}
		if c.out.gone && c.out.size > 0 {
			c.answeredLocked()
		}
	}
	n.wakeDialsLocked()
}

// Reset breaks every connection between two hosts: both ends get ECONNRESET.
func (n *Network) Reset(a, b string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for c := range n.mu.conns {
		if c.in.path == (path{a, b}) || c.in.path == (path{b, a}) {
			c.resetLocked(syscall.ECONNRESET)
		}
	}
}

// Crash takes a host away without a word: its listeners and its ends of all connections are gone, and whoever used them
// gets net.ErrClosed. The other ends notice only when they write. The host may listen again at once.
func (n *Network) Crash(host string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, l := range n.mu.listeners {
		if l.host == host {
			l.closeLocked()
		}
	}
	for c := range n.mu.conns {
		if c.host() == host {
			c.vanishLocked()
		}
	}
}

// Open lists the ends of connections that nobody has closed, sorted: a test's way to find leaks.
func (n *Network) Open() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	var out []string
	for c := range n.mu.conns {
		out = append(out, fmt.Sprintf("%s -> %s", c.local, c.remote))
	}
	sort.Strings(out)
	return out
}

// addr is a host:port.
type addr string

func (a addr) Network() string { return "tcp" }
func (a addr) String() string  { return string(a) }

type listener struct {
	n      *Network
	host   string
	addr   addr
	queue  chan *conn
	done   chan struct{}
	closed bool // guarded by Network.mu
}

func (l *listener) Addr() net.Addr { return l.addr }

func (l *listener) Accept() (net.Conn, error) {
	select {
	case <-l.done:
	case c := <-l.queue:
		return c, nil
	}
	return nil, &net.OpError{Op: "accept", Net: "tcp", Addr: l.addr, Err: net.ErrClosed}
}

func (l *listener) Close() error {
	l.n.mu.Lock()
	was := l.closed
	l.closeLocked()
	l.n.mu.Unlock()
	if was {
		return &net.OpError{Op: "close", Net: "tcp", Addr: l.addr, Err: net.ErrClosed}
	}
	l.refuseIfClosed()
	return nil
}

func (l *listener) closeLocked() {
	if !l.closed {
		l.closed = true
		close(l.done)
		delete(l.n.mu.listeners, string(l.addr))
	}
}

// refuseIfClosed resets the connections that nobody will accept any more. Both a closing listener and a dialler that has
// just queued its connection call it, so that none is forgotten between them.
func (l *listener) refuseIfClosed() {
	select {
	case <-l.done:
	default:
		return
	}
	for {
		select {
		case c := <-l.queue:
			c.discard()
		default:
			return
		}
	}
}

// connectLocked makes both ends of a connection.
func (n *Network) connectLocked(from, to string, local, remote addr) (client, server *conn) {
	up, down := newStream(path{from, to}, n.mu.buffer), newStream(path{to, from}, n.mu.buffer)
	client = &conn{n: n, local: local, remote: remote, in: down, out: up}
	server = &conn{n: n, local: remote, remote: local, in: up, out: down}
	client.peer, server.peer = server, client
	up.held, down.held = n.cutLocked(up.path), n.cutLocked(down.path)
	n.mu.conns[client], n.mu.conns[server] = struct{}{}, struct{}{}
	return client, server
}
