package api

import (
	"context"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Anonymous is the principal of a connection that has not authenticated.
const Anonymous = "User:ANONYMOUS"

// Peer is what the handlers know of a connection. All fields but the software are fixed when it is accepted.
type Peer struct {
	// Listener is the name of the listener it came in by.
	Listener string
	// Host is the address of the client without port.
	Host string
	// Principal has Kafka's form type:name.
	Principal string

	software atomic.Pointer[Software]
}

// Software is the program behind a connection as it names itself (KIP-511).
type Software struct{ Name, Version string }

// Software returns what the peer said of itself, empty before it has.
func (p *Peer) Software() Software {
	if s := p.software.Load(); s != nil {
		return *s
	}
	return Software{}
}

// Request is one decoded request.
type Request struct {
	Peer *Peer
	// ClientID is nil when the client gave none.
	ClientID *string
	// Version is one that the API serves.
	Version int16
	// Body is of the API's kind. The records of a Produce request point into the frame and are dead once the request is
	// answered; everything else may be kept.
	Body kmsg.Request
}

// Caller returns the requester as backends know it.
func (r *Request) Caller() Caller {
	c := Caller{Principal: r.Peer.Principal, Host: r.Peer.Host, Listener: r.Peer.Listener}
	if r.ClientID != nil {
		c.ClientID = *r.ClientID
	}
	return c
}

// Reply is the answer to one request. The zero Reply sends nothing.
type Reply struct {
	// Message is sent in its own version.
	Message kmsg.Response
	// Fetch is sent instead of a Message. Whoever takes the Reply must call Release on it.
	Fetch *FetchAnswer
	// Close ends the connection once everything before this reply was sent.
	Close bool
}

// serveFunc answers a request by calling reply exactly once, before it returns or later.
type serveFunc func(s *Service, ctx context.Context, r *Request, reply func(Reply))

// API is the registration of one key.
type API struct {
	// Key is Kafka's number of the API.
	Key int16
	// Min and Max are the versions served.
	Min, Max int16
	// Refused is the number of versions below Min that are advertised although they are answered with
	// UNSUPPORTED_VERSION: some clients look at the lower end of a range to guess what else a broker can do.
	Refused int16
	// Overlaps says that the next request of a connection may be looked at before this one is answered.
	Overlaps bool
	// Since lists what versions added, by KIP, for the generated document.
	Since []string
	// Deviations lists what differs from Apache Kafka or is left out, for the generated document.
	Deviations []string

	serve serveFunc
}

// Name is Kafka's name of the API.
func (a *API) Name() string { return kmsg.NameForKey(a.Key) }

// Lowest is the lowest version told to clients.
func (a *API) Lowest() int16 { return a.Min - a.Refused }

// Serves reports whether a version gets an answer, if only a refusal in its own format.
func (a *API) Serves(version int16) bool { return a.Lowest() <= version && version <= a.Max }

// answer makes a serveFunc of a handler that returns its answer. The message is sent in the request's version.
func answer[Q kmsg.Request, R kmsg.Response](handle func(s *Service, ctx context.Context, r *Request, q Q) R) serveFunc {
	return func(s *Service, ctx context.Context, r *Request, reply func(Reply)) {
		resp := handle(s, ctx, r, r.Body.(Q))
		resp.SetVersion(r.Version)
		reply(Reply{Message: resp})
	}
}
