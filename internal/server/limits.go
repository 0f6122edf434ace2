package server

import (
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/kbroker/kbroker/config"
)

// verdict is what the limits say of a new connection.
type verdict int

const (
	admitted verdict = iota
	// tooMany means that its address has as many connections as it may have: it is closed.
	tooMany
	// full means that the broker has as many as it may have: it waits.
	full
)

// limiter counts connections against max.connections and max.connections.per.ip.
type limiter struct {
	mu struct {
		sync.Mutex
		total  int
		byHost map[string]int
		// freed is closed and replaced when a connection goes.
		freed chan struct{}
	}
}

func newLimiter() *limiter {
	l := &limiter{}
	l.mu.byHost = map[string]int{}
	l.mu.freed = make(chan struct{})
	return l
}

// hostLimit returns how many connections an address may have.
func hostLimit(cfg *config.Sockets, names map[string]string, host string) int {
	if n, ok := cfg.MaxPerIPOverrides[host]; ok {
		return int(n)
	}
	if name, ok := names[host]; ok {
		if n, ok := cfg.MaxPerIPOverrides[name]; ok {
			return int(n)
		}
	}
	return int(cfg.MaxPerIP)
}

// admit counts a connection in, or says why not; then freed tells when to ask again. Protected ones are never told to
// wait: over says that another connection has to go for it.
func (l *limiter) admit(host string, perHost, total int, protected bool) (v verdict, over bool, freed <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.byHost[host] >= perHost {
		return tooMany, false, nil
	}
	over = l.mu.total >= total
	if over && !protected {
		return full, false, l.mu.freed
	}
	l.mu.total++
	l.mu.byHost[host]++
	return admitted, over, nil
}

// release counts a connection out.
func (l *limiter) release(host string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.total--
	if l.mu.byHost[host]--; l.mu.byHost[host] <= 0 {
		delete(l.mu.byHost, host)
	}
	close(l.mu.freed)
	l.mu.freed = make(chan struct{})
}

// pacer spreads events so that there are at most so many a second on average, one second's worth at once. It is used by
// several goroutines.
type pacer struct {
	mu struct {
		sync.Mutex
		// next is when the event after the ones let through would be due at the exact rate.
		next time.Time
	}
}

// wait returns how long an event at now has to wait to keep to a rate per second, and counts it.
func (p *pacer) wait(now time.Time, perSecond int32) time.Duration {
	const burst = time.Second
	if perSecond <= 0 {
		perSecond = 1
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.next.Before(now) {
		p.mu.next = now
	}
	delay := p.mu.next.Sub(now) - burst
	p.mu.next = p.mu.next.Add(time.Second / time.Duration(perSecond))
	return max(0, delay)
}

// hostOf returns the address of a peer without port, in the form that configurations use: IPv4 addresses plain even when
// the socket is an IPv6 one.
func hostOf(a net.Addr) string {
	host, _, err := net.SplitHostPort(a.String())
	if err != nil {
		return a.String()
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.Unmap().WithZone("").String()
	}
	return host
}
