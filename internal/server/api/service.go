package api

import (
	"context"
	"math/rand/v2"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Service answers requests. It is safe for concurrent use and has no goroutine of its own.
type Service struct {
	Backends
	table    *Table
	sessions *sessionCache
}

// NewService returns a service on these backends. Random numbers name the fetch sessions; the generator belongs to the
// service from then on.
func NewService(b Backends, random *rand.Rand) *Service {
	return &Service{
		Backends: b,
		table:    NewTable(),
		sessions: newSessionCache(int(b.Cluster.Config().Sockets.FetchSessions), random),
	}
}

// Table returns what is served.
func (s *Service) Table() *Table { return s.table }

// Serve answers one request by calling reply exactly once, before it returns or later and on any goroutine. The API must
// serve the request's version. ctx ends when nobody waits for the answer any more.
func (s *Service) Serve(ctx context.Context, a *API, r *Request, reply func(Reply)) {
	a.serve(s, ctx, r, reply)
}

// RefuseVersion returns the answer to a version that an API does not serve. Only ApiVersions has one: it is how clients
// find out what else they can send. Everybody else's connection is closed.
func (s *Service) RefuseVersion(key int16) (Reply, bool) {
	if key != int16(kmsg.ApiVersions) {
		return Reply{}, false
	}
	return Reply{Message: s.unsupportedApiVersions()}, true
}
