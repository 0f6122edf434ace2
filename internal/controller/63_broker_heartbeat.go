package controller

import (
	"math"

	"github.com/kbroker/kbroker/internal/metadata"
	"github.com/kbroker/kbroker/internal/model"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"
)

// The states of a broker, and what leads from one to the next:
//
//	        caught up, wants no fence              wants to shut down, leads something
//	FENCED ---------------------------> UNFENCED ------------------------------> LEAVING
//	   ^  <---------------------------     |                                        |
//	   |    wants a fence, or silence      | leads nothing                          | leads nothing, and all others
//	   |                                   v                                        v know who leads now
//	   +---- new registration -------- may stop <-----------------------------------+
//
// FENCED also goes to "may stop" at once when asked for. "May stop" is fenced in the image.

// brokerHeartbeat answers BrokerHeartbeat (key 63).
func (v *view) brokerHeartbeat(req *kmsg.BrokerHeartbeatRequest) decision {
	resp := req.ResponseKind().(*kmsg.BrokerHeartbeatResponse)
	b, err := v.checkBroker(req.BrokerID, req.BrokerEpoch)
	if err != nil {
		resp.ErrorCode, _ = answerOf(err)
		return decision{response: resp}
	}
	s := v.sessions.of(b.ID, b.Epoch, v.now)
	s.heard, s.offset = v.now, req.CurrentMetadataOffset
	d := decision{response: resp}
	resp.IsCaughtUp = req.CurrentMetadataOffset >= s.registered.Load()
	resp.IsFenced = b.Fenced
	switch {
	case req.WantShutdown:
		err = v.shutdownStep(b, s, resp, &d)
	case b.Fenced && !req.WantFence && resp.IsCaughtUp:
		resp.IsFenced = false
		v.log.Info("a broker is unfenced", zap.Int32("broker", b.ID), zap.Int64("epoch", b.Epoch))
		d.records, err = v.brokerReturns(b.ID, brokerChange(b, false, false))
	case !b.Fenced && req.WantFence:
		resp.IsFenced = true
		d.records, err = v.fence(b, "it asked for it")
	}
	if err == nil && len(d.records) == 0 && len(req.OfflineLogDirs) > 0 {
		d.records, err = v.offlineDirs(b, req.OfflineLogDirs)
	}
	if err != nil {
		resp.ErrorCode, _ = answerOf(err)
		return decision{response: resp}
	}
	return d
}

func brokerChange(b *metadata.Broker, fenced, leaving bool) *metadata.BrokerChangeRecord {
	r := &metadata.BrokerChangeRecord{ID: b.ID, Epoch: b.Epoch}
	if b.Fenced != fenced {
		r.Fenced = &fenced
	}
	if leaving && !b.InControlledShutdown {
		r.InControlledShutdown = &leaving
	}
	return r
}

// fence takes a broker out of everything.
func (v *view) fence(b *metadata.Broker, why string) ([]metadata.Record, error) {
	v.log.Info("a broker is fenced", zap.Int32("broker", b.ID), zap.Int64("epoch", b.Epoch), zap.String("because", why))
	return v.brokerLeaves(b.ID, brokerChange(b, true, false), false)
}

// shutdownStep takes a broker that wants to stop one step further.
func (v *view) shutdownStep(b *metadata.Broker, s *session, resp *kmsg.BrokerHeartbeatResponse, d *decision) (err error) {
	switch {
	case b.Fenced:
		resp.ShouldShutdown = true
	case v.leads(b.ID) && !b.InControlledShutdown:
		v.log.Info("a broker wants to shut down: moving its leaders", zap.Int32("broker", b.ID))
		s.leavingAt.Store(math.MaxInt64)
		d.committed = s.leavingAt.Store
		d.records, err = v.brokerLeaves(b.ID, brokerChange(b, false, true), false)
	case b.InControlledShutdown && (v.leads(b.ID) || v.sessions.lowestOffset(v.img, b.ID, v.now) < s.leavingAt.Load()):
		// Somebody may still send to it.
	default:
		resp.ShouldShutdown, resp.IsFenced = true, true
		d.records, err = v.fence(b, "it shuts down")
	}
	return err
}

// offlineDirs notes log directories that have failed. They stay out until the broker registers again.
func (v *view) offlineDirs(b *metadata.Broker, offline [][16]byte) ([]metadata.Record, error) {
	var failed []model.UUID
	for _, d := range offline {
		failed = append(failed, d)
	}
	left := liveDirs(b.LogDirs, failed)
	if len(left) == len(b.LogDirs) {
		return nil, nil
	}
	v.log.Warn("log directories of a broker failed", zap.Int32("broker", b.ID), zap.Int("failed", len(b.LogDirs)-len(left)),
		zap.Int("left", len(left)))
	return v.dirsFail(b.ID, &metadata.BrokerChangeRecord{ID: b.ID, Epoch: b.Epoch, LogDirs: left}, failed)
}
