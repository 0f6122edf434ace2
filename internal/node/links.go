package node

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/config"
	"github.com/kbroker/kbroker/internal/controller"
	"github.com/kbroker/kbroker/internal/metadata"
	"github.com/kbroker/kbroker/internal/server/api"
)

// controllerLink carries requests to the active controller.
type controllerLink struct{ n *Node }

// Forward hands over a client's request.
func (l controllerLink) Forward(ctx context.Context, who api.Caller, req kmsg.Request) (kmsg.Response, error) {
	return l.n.controller.Handle(ctx, controller.Caller{Principal: who.Principal, Host: who.Host, Listener: who.Listener, ClientID: who.ClientID,
		Broker: l.n.o.Config.Node.ID}, req)
}

// brokerLink carries the broker's own requests to the active controller.
type brokerLink struct{ n *Node }

// Forward hands over a request of this broker.
func (l brokerLink) Forward(ctx context.Context, req kmsg.Request) (kmsg.Response, error) {
	return l.n.controller.Handle(ctx, controller.Caller{Principal: "User:ANONYMOUS", Listener: l.n.o.Config.Node.InterBroker,
		ClientID: fmt.Sprintf("broker-%d", l.n.o.Config.Node.ID), Broker: l.n.o.Config.Node.ID}, req)
}

// clusterView is what the request handlers see of the cluster.
type clusterView struct{ n *Node }

func (v clusterView) Image() *metadata.Image { return v.n.broker.Image() }

func (v clusterView) Leader() (id, epoch int32) { return v.n.quorum.Leader() }

func (v clusterView) Config() *config.Config { return v.n.cfg.Load() }
