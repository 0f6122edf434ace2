package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/kbroker/kbroker/config"
	"github.com/kbroker/kbroker/internal/server"
)

// openSockets opens the listeners for clients. A host name stands for all its addresses: localhost is reachable by IPv4 and
// IPv6, as far as the machine has both.
func (n *Node) openSockets() error {
	node := &n.o.Config.Node
	for _, l := range node.Listeners {
		if slices.Contains(node.ControllerListeners, l.Name) {
			continue // a node alone has no peers
		}
		if err := n.openListener(l); err != nil {
			return err
		}
	}
	return nil
}

func (n *Node) openListener(l config.Listener) error {
	addrs, err := addresses(l.Host)
	if err != nil {
		return fmt.Errorf("listener %s: host %s cannot be resolved: %w", l.Name, l.Host, err)
	}
	port, opened := l.Port, 0
	var last error
	for _, addr := range addrs {
		s, err := n.o.Listen("tcp", net.JoinHostPort(addr, strconv.Itoa(int(port))))
		if errors.Is(err, syscall.EADDRNOTAVAIL) || errors.Is(err, syscall.EAFNOSUPPORT) {
			last = err // a name may stand for an address that this machine does not have, as ::1 without IPv6
			continue
		}
		if err != nil {
			return explain(l, addr, port, err)
		}
		if tcp, ok := s.Addr().(*net.TCPAddr); ok && port == 0 {
			port = int32(tcp.Port)
		}
		n.sockets = append(n.sockets, server.Listener{Name: l.Name, Socket: s, Protected: l.Name == n.o.Config.Node.InterBroker && n.hasOther(l.Name)})
		opened++
	}
	if opened == 0 {
		return explain(l, l.Host, port, last)
	}
	return nil
}

// hasOther tells whether another listener than the named one serves clients: only then is the named one for brokers alone.
func (n *Node) hasOther(name string) bool {
	node := &n.o.Config.Node
	return slices.ContainsFunc(node.Listeners, func(l config.Listener) bool {
		return l.Name != name && !slices.Contains(node.ControllerListeners, l.Name)
	})
}

func explain(l config.Listener, addr string, port int32, err error) error {
	where := fmt.Sprintf("listener %s cannot be opened at %s", l.Name, net.JoinHostPort(addr, strconv.Itoa(int(port))))
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("%s: the port is in use by another process; stop it or choose another port with listeners", where)
	case errors.Is(err, syscall.EACCES):
		return fmt.Errorf("%s: ports below 1024 need privileges; choose another port with listeners", where)
	default:
		return fmt.Errorf("%s: %w", where, err)
	}
}

// resolveTimeout bounds the look-up of a listener's host name.
const resolveTimeout = 5 * time.Second

// addresses returns what to listen on for a host: all addresses of a name, IPv4 first, and the host itself otherwise.
func addresses(host string) ([]string, error) {
	if host == "" || net.ParseIP(host) != nil {
		return []string{host}, nil
	}
	if host == "localhost" {
		return []string{"127.0.0.1", "::1"}, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), resolveTimeout)
	defer cancel()
	addrs, err := net.DefaultResolver.LookupHost(ctx, host)
	slices.SortStableFunc(addrs, func(a, b string) int { return strings.Count(a, ":") - strings.Count(b, ":") })
	return slices.Compact(addrs), err
}

// advertised returns what clients are told, with the ports that were bound.
func (n *Node) advertised() []config.Listener {
	out := slices.Clone(n.o.Config.Node.Advertised)
	for i := range out {
		if out[i].Port != 0 {
			continue
		}
		for _, s := range n.sockets {
			if tcp, ok := s.Socket.Addr().(*net.TCPAddr); ok && s.Name == out[i].Name {
				out[i].Port = int32(tcp.Port)
			}
		}
	}
	return out
}
