package broker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/kbroker/kbroker/config"
	"github.com/kbroker/kbroker/internal/metadata"
	"github.com/kbroker/kbroker/internal/model"
)

// Registration is what a broker tells the controller about itself.
type Registration struct {
	ClusterID   string
	Incarnation model.UUID // of this life of the process
	Listeners   []config.Listener
	Rack        string
	Features    []metadata.FeatureRange
}

// unfenceRetry spaces the heartbeats of a broker that is not yet up to date; it is short because it decides how fast a
// node starts.
const unfenceRetry = 2 * time.Millisecond

// registrationRetry spaces attempts to reach a controller that does not answer yet.
const registrationRetry = 100 * time.Millisecond

// Register announces the broker and returns once it is registered and unfenced, that is once the controller may make it a
// leader. The broker must have been Started. It gives up when ctx ends.
func (b *Broker) Register(ctx context.Context, reg Registration) error {
	for {
		epoch, err := b.register(ctx, reg)
		if err == nil {
			b.epoch.Store(epoch)
			break
		}
		if !retriable(err) {
			return err
		}
		b.log.Debug("registration will be tried again", zap.Error(err))
		if !sleep(ctx, registrationRetry) {
			return fmt.Errorf("not registered in time: %w", err)
		}
	}
	for {
		resp, err := b.heartbeat(ctx, false)
		if err == nil && !resp.IsFenced {
			return nil
		}
		if !sleep(ctx, unfenceRetry) {
			return fmt.Errorf("registered, but still fenced: %w", errors.Join(err, ctx.Err()))
		}
	}
}

func (b *Broker) register(ctx context.Context, reg Registration) (epoch int64, err error) {
	req := kmsg.NewPtrBrokerRegistrationRequest()
	req.BrokerID, req.ClusterID, req.IncarnationID = b.o.NodeID, reg.ClusterID, reg.Incarnation
	req.PreviousBrokerEpoch = b.previousEpoch()
	if reg.Rack != "" {
		req.Rack = &reg.Rack
	}
	for _, l := range reg.Listeners {
		rl := kmsg.NewBrokerRegistrationRequestListener()
		rl.Name, rl.Host, rl.Port, rl.SecurityProtocol = l.Name, l.Host, uint16(l.Port), protocolID(l.SecurityProtocol)
		req.Listeners = append(req.Listeners, rl)
	}
	for _, f := range reg.Features {
		rf := kmsg.NewBrokerRegistrationRequestFeature()
		rf.Name, rf.MinSupportedVersion, rf.MaxSupportedVersion = f.Name, f.Min, f.Max
		req.Features = append(req.Features, rf)
	}
	for _, d := range b.o.Dirs {
		if d.Err() == nil {
			req.LogDirs = append(req.LogDirs, d.ID())
		}
	}
	resp, err := b.o.Controller.Forward(ctx, req)
	if err != nil {
		return 0, err
	}
	r, ok := resp.(*kmsg.BrokerRegistrationResponse)
	if !ok {
		return 0, fmt.Errorf("the controller answered %T to BrokerRegistration", resp)
	}
	if err := kerr.ErrorForCode(r.ErrorCode); err != nil {
		return 0, fmt.Errorf("the controller refuses broker %d: %w", b.o.NodeID, err)
	}
	return r.BrokerEpoch, nil
}

// protocolID is Kafka's number of a security protocol.
func protocolID(name string) int16 {
	switch name {
	case config.SSL:
		return 1
	case config.SASLPlaintext:
		return 2
	case config.SASLSSL:
		return 3
	default:
		return 0
	}
}

// previousEpoch is the epoch of the last clean life of this broker, -1 when there was none: the controller may then not
// trust what this broker is said to hold.
func (b *Broker) previousEpoch() int64 {
	epoch := int64(-1)
	for i, d := range b.o.Dirs {
		c := d.CleanShutdown()
		if !c.Clean || i > 0 && c.BrokerEpoch != epoch {
			return -1
		}
		epoch = c.BrokerEpoch
	}
	return epoch
}

func (b *Broker) heartbeat(ctx context.Context, shutdown bool) (*kmsg.BrokerHeartbeatResponse, error) {
	req := kmsg.NewPtrBrokerHeartbeatRequest()
	req.BrokerID, req.BrokerEpoch = b.o.NodeID, b.epoch.Load()
	req.CurrentMetadataOffset = b.Image().Offset()
	req.WantShutdown = shutdown
	resp, err := b.o.Controller.Forward(ctx, req)
	if err != nil {
		return nil, err
	}
	r, ok := resp.(*kmsg.BrokerHeartbeatResponse)
	if !ok {
		return nil, fmt.Errorf("the controller answered %T to BrokerHeartbeat", resp)
	}
	return r, kerr.ErrorForCode(r.ErrorCode)
}

// HeartbeatLoop keeps the registration alive until ctx ends. A controller that does not know this broker any more makes it
// register again.
func (b *Broker) HeartbeatLoop(ctx context.Context, reg Registration) {
	for sleep(ctx, b.Config().Controller.HeartbeatInterval) {
		_, err := b.heartbeat(ctx, false)
		switch {
		case err == nil || ctx.Err() != nil:
		case errors.Is(err, kerr.StaleBrokerEpoch) || errors.Is(err, kerr.BrokerIDNotRegistered):
			b.log.Warn("the controller does not know this broker's registration: registering again", zap.Error(err))
			if err := b.Register(ctx, reg); err != nil && ctx.Err() == nil {
				b.log.Error("registration failed", zap.Error(err))
			}
		default:
			b.log.Debug("heartbeat failed", zap.Error(err))
		}
	}
}

// HandOver asks the controller to move leaderships away and waits until it agrees to the stop or ctx ends.
func (b *Broker) HandOver(ctx context.Context) error {
	for {
		resp, err := b.heartbeat(ctx, true)
		if err == nil && resp.ShouldShutdown {
			return nil
		}
		if !sleep(ctx, registrationRetry) {
			return fmt.Errorf("the controller did not agree to the stop in time: %w", errors.Join(err, ctx.Err()))
		}
	}
}

// Epoch returns the broker epoch of the current registration, -1 before the first one.
func (b *Broker) Epoch() int64 { return b.epoch.Load() }

func retriable(err error) bool {
	var ke *kerr.Error
	return !errors.As(err, &ke) || ke.Retriable
}

// sleep waits and reports whether ctx is still alive.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
