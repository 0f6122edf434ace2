package server

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/kbroker/kbroker/config"
	"github.com/kbroker/kbroker/internal/server/api"
)

// Service answers requests; *api.Service is the one.
type Service interface {
	// Table returns what is served.
	Table() *api.Table
	// Serve answers a request by calling reply exactly once, on any goroutine.
	Serve(ctx context.Context, a *api.API, r *api.Request, reply func(api.Reply))
	// RefuseVersion returns the answer to a version that is not served; false means that the connection is to be closed.
	RefuseVersion(key int16) (api.Reply, bool)
}

// Listener is an open socket to accept connections from.
type Listener struct {
	// Name is the listener's name in the configuration.
	Name string
	// Protected connections are let in although max.connections is reached, at the expense of others: those between
	// brokers.
	Protected bool
	// Socket belongs to the server, which closes it.
	Socket net.Listener
}

// Options is what a server is made of. All fields but Registerer are required.
type Options struct {
	Listeners []Listener
	Service   Service
	// Config is read again for every connection, so that limits can change while the server runs.
	Config func() *config.Config
	Logger *zap.Logger
	// Registerer takes the server's metrics; nil for none.
	Registerer prometheus.Registerer
}

func (o *Options) validate() error {
	var errs []error
	if len(o.Listeners) == 0 {
		errs = append(errs, errors.New("no listeners"))
	}
	names := map[string]bool{}
	for i, l := range o.Listeners {
		if l.Socket == nil {
			errs = append(errs, fmt.Errorf("listener %d (%s) has no socket", i, l.Name))
		}
		names[l.Name] = true
	}
	if o.Service == nil || o.Config == nil || o.Logger == nil {
		errs = append(errs, errors.New("service, config and logger are required"))
	}
	return errors.Join(errs...)
}
