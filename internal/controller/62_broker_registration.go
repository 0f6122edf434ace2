package controller

import (
	"fmt"
	"slices"

	"github.com/kbroker/kbroker/internal/metadata"
	"github.com/kbroker/kbroker/internal/model"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"
)

// registerBroker answers BrokerRegistration (key 62), the first request of a broker's process. The broker is fenced until
// its heartbeats say that it has caught up.
func (v *view) registerBroker(req *kmsg.BrokerRegistrationRequest) decision {
	resp := req.ResponseKind().(*kmsg.BrokerRegistrationResponse)
	resp.BrokerEpoch = -1
	old := v.img.Broker(req.BrokerID)
	next := registrationOf(req)
	if err := v.checkRegistration(req, old, next); err != nil {
		resp.ErrorCode, _ = answerOf(err)
		v.log.Warn("refused the registration of a broker", zap.Int32("broker", req.BrokerID), zap.Error(err))
		return decision{response: resp}
	}
	if old != nil && old.Incarnation == next.Incarnation {
		if sameRegistration(old, next) {
			resp.BrokerEpoch = old.Epoch // the answer to the first attempt was lost
			return decision{response: resp}
		}
		next.Fenced, next.InControlledShutdown = old.Fenced, old.InControlledShutdown
	}
	next.Epoch = v.img.NextBrokerEpoch()
	records, err := v.registrationRecords(req, old, next)
	if err != nil {
		resp.ErrorCode, _ = answerOf(err)
		return decision{response: resp}
	}
	resp.BrokerEpoch = next.Epoch
	s := v.sessions.open(next.ID, next.Epoch, v.now)
	return decision{response: resp, records: records, committed: s.registered.Store}
}

func registrationOf(req *kmsg.BrokerRegistrationRequest) *metadata.RegisterBrokerRecord {
	r := &metadata.RegisterBrokerRecord{ID: req.BrokerID, Incarnation: req.IncarnationID, Fenced: true}
	if req.Rack != nil {
		r.Rack = *req.Rack
	}
	for _, l := range req.Listeners {
		r.Listeners = append(r.Listeners, metadata.Listener{Name: l.Name, Host: l.Host, Port: l.Port, SecurityProtocol: l.SecurityProtocol})
	}
	for _, f := range req.Features {
		r.Features = append(r.Features, metadata.FeatureRange{Name: f.Name, Min: f.MinSupportedVersion, Max: f.MaxSupportedVersion})
	}
	for _, d := range req.LogDirs {
		r.LogDirs = append(r.LogDirs, d)
	}
	slices.SortFunc(r.LogDirs, func(a, b model.UUID) int { return slices.Compare(a[:], b[:]) })
	return r
}

func sameRegistration(b *metadata.Broker, r *metadata.RegisterBrokerRecord) bool {
	return b.Rack == r.Rack && slices.Equal(b.Listeners, r.Listeners) && slices.Equal(b.Features, r.Features) &&
		slices.Equal(b.LogDirs, r.LogDirs)
}

func (v *view) checkRegistration(req *kmsg.BrokerRegistrationRequest, old *metadata.Broker, next *metadata.RegisterBrokerRecord) error {
	if req.ClusterID != v.self.clusterID {
		return refuse(kerr.InconsistentClusterID, "Expected cluster ID %s, but got cluster ID %s", v.self.clusterID, req.ClusterID)
	}
	if req.BrokerID < 0 || next.Incarnation.IsZero() || len(next.Listeners) == 0 || req.IsMigratingZkBroker {
		return refuse(kerr.InvalidRegistration, "id %d, incarnation %s, %d listeners, from ZooKeeper: %t",
			req.BrokerID, next.Incarnation, len(next.Listeners), req.IsMigratingZkBroker)
	}
	// A process that runs with us cannot run twice, so whoever held its id before is gone.
	if old != nil && old.Incarnation != next.Incarnation && old.ID != v.sessions.local &&
		v.sessions.valid(old.ID, old.Epoch, v.now) {
		return refuse(kerr.DuplicateBrokerRegistration, "Another broker is registered with that broker id.")
	}
	if err := v.checkDirs(req, next); err != nil {
		return err
	}
	return v.checkFeatures(next)
}

// checkDirs makes sure that a directory id names one directory: ids are how a swapped disk is told from a lost one.
func (v *view) checkDirs(req *kmsg.BrokerRegistrationRequest, next *metadata.RegisterBrokerRecord) error {
	if req.Version >= 2 && len(next.LogDirs) == 0 {
		return refuse(kerr.InvalidRegistration, "No directories specified in request")
	}
	for i, d := range next.LogDirs {
		if d.IsZero() || i > 0 && next.LogDirs[i-1] == d {
			return refuse(kerr.InvalidRegistration, "Reserved or duplicate directory ID in request: %s", d)
		}
	}
	for b := range v.img.Brokers() {
		if b.ID == next.ID {
			continue
		}
		for _, d := range b.LogDirs {
			if slices.Contains(next.LogDirs, d) {
				return refuse(kerr.InvalidRegistration, "Broker %d is already registered with directory %s", b.ID, d)
			}
		}
	}
	return nil
}

// checkFeatures refuses brokers that cannot run at the levels that the cluster runs at.
func (v *view) checkFeatures(next *metadata.RegisterBrokerRecord) error {
	b := &metadata.Broker{Features: next.Features}
	for name, level := range v.img.Features() {
		if lo, hi := brokerRange(b, name); level < lo || level > hi {
			return refuse(kerr.UnsupportedVersion, "Unable to register because the broker does not support finalized version %d of %s. "+
				"The broker wants a version between %d and %d, inclusive.", level, name, lo, hi)
		}
	}
	return nil
}

// registrationRecords returns the registration and, when a new process takes an id over, what that does to the replicas
// of the old one. The new process tells the epoch under which the old one shut down cleanly; without it, what the old
// one had not flushed may be gone.
func (v *view) registrationRecords(req *kmsg.BrokerRegistrationRequest, old *metadata.Broker, next *metadata.RegisterBrokerRecord) ([]metadata.Record, error) {
	if old == nil || old.Incarnation == next.Incarnation {
		return []metadata.Record{next}, nil
	}
	clean := req.PreviousBrokerEpoch == old.Epoch
	records, err := v.brokerLeaves(next.ID, next, v.elrEnabled() && !clean)
	if err != nil {
		return nil, fmt.Errorf("registration of broker %d: %w", next.ID, err)
	}
	v.log.Info("a broker came back in a new process", zap.Int32("broker", next.ID), zap.Bool("clean shutdown", clean))
	return records, nil
}
