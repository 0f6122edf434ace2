package config

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// The security protocols of listeners, in Kafka's words.
const (
	Plaintext     = "PLAINTEXT"
	SSL           = "SSL"
	SASLPlaintext = "SASL_PLAINTEXT"
	SASLSSL       = "SASL_SSL"
)

// Listener is one address to open, or one address to tell to others.
type Listener struct {
	// Name is upper case, as in listener.security.protocol.map.
	Name string
	// Host is a name or an address without brackets; empty means all addresses when opened.
	Host string
	// Port is 0 when the system is to choose one.
	Port int32
	// SecurityProtocol is one of Plaintext, SSL, SASLPlaintext, SASLSSL.
	SecurityProtocol string
}

// Address returns host:port, with brackets around IPv6 addresses, as net.Listen and net.Dial take it.
func (l Listener) Address() string { return net.JoinHostPort(l.Host, strconv.Itoa(int(l.Port))) }

// String returns Kafka's form NAME://host:port.
func (l Listener) String() string { return l.Name + "://" + l.Address() }

// parseListener reads NAME://host:port. The host may be empty, an IPv6 address stands in brackets.
func parseListener(s string) (Listener, error) {
	name, addr, ok := strings.Cut(s, "://")
	if !ok || name == "" || strings.ContainsAny(name, " \t,:/") {
		return Listener{}, fmt.Errorf("%q does not have the form NAME://host:port", s)
	}
	host, port, err := splitHostPort(addr)
	if err != nil {
		return Listener{}, fmt.Errorf("%q: %w", s, err)
	}
	return Listener{Name: strings.ToUpper(name), Host: host, Port: port}, nil
}

// splitHostPort is stricter than net.SplitHostPort about ports, and takes a bare IPv6 address before the last colon as
// Kafka does.
func splitHostPort(s string) (string, int32, error) {
	colon := strings.LastIndexByte(s, ':')
	if colon < 0 {
		return "", 0, fmt.Errorf("no port in %q", s)
	}
	host, portText := s[:colon], s[colon+1:]
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil {
		return "", 0, fmt.Errorf("port %q is not a number from 0 to 65535", portText)
	}
	if inner, ok := strings.CutPrefix(host, "["); ok {
		if host, ok = strings.CutSuffix(inner, "]"); !ok {
			return "", 0, fmt.Errorf("unbalanced bracket in %q", s)
		}
		if _, err := netip.ParseAddr(host); err != nil {
			return "", 0, fmt.Errorf("%q is not an IPv6 address", host)
		}
		return host, int32(port), nil
	}
	if strings.Contains(host, ":") {
		if _, err := netip.ParseAddr(host); err != nil {
			return "", 0, fmt.Errorf("%q is neither a host name nor an IPv6 address", host)
		}
	}
	if strings.ContainsAny(host, " \t/[]@,") {
		return "", 0, fmt.Errorf("%q is not a host name", host)
	}
	return host, int32(port), nil
}

// parseVoters reads id@host:port entries.
func parseVoters(name string, list []string) ([]Voter, error) {
	var voters []Voter
	for _, e := range list {
		idText, addr, ok := strings.Cut(e, "@")
		if !ok {
			return nil, invalidf("Invalid configuration value for %s. Each entry should be in the form `{id}@{host}:{port}`.", name)
		}
		id, err := strconv.ParseInt(idText, 10, 32)
		if err != nil {
			return nil, invalidf("Failed to parse voter ID as an integer from %s", idText)
		}
		host, port, err := splitHostPort(addr)
		if err != nil {
			return nil, invalidf("Failed to parse host name from entry %s for the configuration %s."+
				" Each entry should be in the form `{id}@{host}:{port}`.", e, name)
		}
		voters = append(voters, Voter{ID: int32(id), Host: host, Port: port})
	}
	return voters, nil
}
