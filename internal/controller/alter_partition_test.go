package controller

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// alterRequest is what a leader that knows everything asks for.
func (w *world) alterRequest(leader int32, topic string, isr ...int32) *kmsg.AlterPartitionRequest {
	w.t.Helper()
	r := kmsg.NewPtrAlterPartitionRequest()
	r.Version = 3
	r.BrokerID, r.BrokerEpoch = leader, w.broker(leader).Epoch
	rt := kmsg.NewAlterPartitionRequestTopic()
	rt.TopicID = w.v.img.Topic(topic).ID
	p := w.part(topic, 0)
	rp := kmsg.NewAlterPartitionRequestTopicPartition()
	rp.LeaderEpoch, rp.PartitionEpoch = p.LeaderEpoch, p.PartitionEpoch
	for _, b := range isr {
		e := kmsg.NewAlterPartitionRequestTopicPartitionNewEpochISR()
		e.BrokerID, e.BrokerEpoch = b, -1
		if x := w.v.img.Broker(b); x != nil {
			e.BrokerEpoch = x.Epoch
		}
		rp.NewEpochISR = append(rp.NewEpochISR, e)
	}
	rt.Partitions = append(rt.Partitions, rp)
	r.Topics = append(r.Topics, rt)
	return r
}

func (w *world) alterISR(leader int32, topic string, isr ...int32) kmsg.AlterPartitionResponseTopicPartition {
	w.t.Helper()
	r := ask[*kmsg.AlterPartitionResponse](w, w.alterRequest(leader, topic, isr...))
	require.Zero(w.t, r.ErrorCode)
	return r.Topics[0].Partitions[0]
}

func TestAlterPartitionShrinksAndExpands(t *testing.T) {
	w := newWorld(t, 3)
	w.create("t", []int32{1, 2, 3})
	got := w.alterISR(1, "t", 1, 2)
	require.Zero(t, got.ErrorCode)
	require.Equal(t, []int32{1, 2}, got.ISR)
	require.Equal(t, []int32{1, 0, 1}, []int32{got.LeaderID, got.LeaderEpoch, got.PartitionEpoch})
	require.Equal(t, state{leader: 1, isr: []int32{1, 2}}, w.state("t"), "the leader epoch stays")
	got = w.alterISR(1, "t", 1, 2, 3)
	require.Equal(t, int32(2), got.PartitionEpoch)
	before := w.v.img
	got = w.alterISR(1, "t", 1, 2, 3)
	require.Equal(t, []any{int16(0), int32(2)}, []any{got.ErrorCode, got.PartitionEpoch}, "asking for what is there is answered")
	require.Same(t, before, w.v.img)
}

func TestAlterPartitionKeepsTheELR(t *testing.T) {
	w := newWorld(t, 3)
	w.create("t", []int32{1, 2, 3})
	w.set("t", "min.insync.replicas", "2")
	w.alterISR(1, "t", 1, 2)
	require.Equal(t, state{leader: 1, isr: []int32{1, 2}}, w.state("t"))
	w.alterISR(1, "t", 1)
	require.Equal(t, state{leader: 1, isr: []int32{1}, elr: []int32{2}}, w.state("t"))
	w.alterISR(1, "t", 1, 3)
	require.Equal(t, state{leader: 1, isr: []int32{1, 3}}, w.state("t"))
}

func TestAlterPartitionRefusals(t *testing.T) {
	type change = func(w *world, r *kmsg.AlterPartitionRequest, p *kmsg.AlterPartitionRequestTopicPartition)
	for name, tc := range map[string]struct {
		change change
		want   *kerr.Error
	}{
		"unknown topic": {func(_ *world, r *kmsg.AlterPartitionRequest, _ *kmsg.AlterPartitionRequestTopicPartition) {
			r.Topics[0].TopicID = [16]byte{9}
		}, kerr.UnknownTopicID},
		"unknown partition": {func(_ *world, _ *kmsg.AlterPartitionRequest, p *kmsg.AlterPartitionRequestTopicPartition) {
			p.Partition = 5
		}, kerr.UnknownTopicOrPartition},
		"leader knows a later leader epoch": {func(_ *world, _ *kmsg.AlterPartitionRequest, p *kmsg.AlterPartitionRequestTopicPartition) {
			p.LeaderEpoch++
		}, kerr.NotController},
		"leader knows a later partition epoch": {func(_ *world, _ *kmsg.AlterPartitionRequest, p *kmsg.AlterPartitionRequestTopicPartition) {
			p.PartitionEpoch++
		}, kerr.NotController},
		"older leader": {func(_ *world, _ *kmsg.AlterPartitionRequest, p *kmsg.AlterPartitionRequestTopicPartition) {
			p.LeaderEpoch--
		}, kerr.FencedLeaderEpoch},
		"older state": {func(_ *world, _ *kmsg.AlterPartitionRequest, p *kmsg.AlterPartitionRequestTopicPartition) {
			p.PartitionEpoch--
		}, kerr.InvalidUpdateVersion},
		"not the leader": {func(w *world, r *kmsg.AlterPartitionRequest, _ *kmsg.AlterPartitionRequestTopicPartition) {
			r.BrokerID, r.BrokerEpoch = 1, w.broker(1).Epoch
		}, kerr.InvalidRequest},
		"without the leader": {func(_ *world, _ *kmsg.AlterPartitionRequest, p *kmsg.AlterPartitionRequestTopicPartition) {
			p.NewEpochISR = p.NewEpochISR[1:]
		}, kerr.InvalidRequest},
		"nobody": {func(_ *world, _ *kmsg.AlterPartitionRequest, p *kmsg.AlterPartitionRequestTopicPartition) {
			p.NewEpochISR = nil
		}, kerr.InvalidRequest},
		"no replica": {func(w *world, _ *kmsg.AlterPartitionRequest, p *kmsg.AlterPartitionRequestTopicPartition) {
			p.NewEpochISR[1].BrokerID, p.NewEpochISR[1].BrokerEpoch = 4, w.broker(4).Epoch
		}, kerr.InvalidRequest},
		"member twice": {func(_ *world, _ *kmsg.AlterPartitionRequest, p *kmsg.AlterPartitionRequestTopicPartition) {
			p.NewEpochISR = append(p.NewEpochISR, p.NewEpochISR[0])
		}, kerr.InvalidRequest},
		"recovering again": {func(_ *world, _ *kmsg.AlterPartitionRequest, p *kmsg.AlterPartitionRequestTopicPartition) {
			p.LeaderRecoveryState, p.NewEpochISR = 1, p.NewEpochISR[:1]
		}, kerr.InvalidRequest},
		"unknown recovery state": {func(_ *world, _ *kmsg.AlterPartitionRequest, p *kmsg.AlterPartitionRequestTopicPartition) {
			p.LeaderRecoveryState = 2
		}, kerr.InvalidRequest},
		"member of an earlier life": {func(_ *world, _ *kmsg.AlterPartitionRequest, p *kmsg.AlterPartitionRequestTopicPartition) {
			p.NewEpochISR[1].BrokerEpoch--
		}, kerr.IneligibleReplica},
		"fenced member": {func(w *world, _ *kmsg.AlterPartitionRequest, p *kmsg.AlterPartitionRequestTopicPartition) {
			w.silence(3)
			p.PartitionEpoch = w.part("t", 0).PartitionEpoch
		}, kerr.IneligibleReplica},
		"member that shuts down": {func(w *world, _ *kmsg.AlterPartitionRequest, p *kmsg.AlterPartitionRequestTopicPartition) {
			w.create("u", []int32{3, 1})
			w.heartbeat(3, wantShutdown)
			p.PartitionEpoch = w.part("t", 0).PartitionEpoch
		}, kerr.IneligibleReplica},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 4)
			w.create("t", []int32{1, 2, 3})
			w.silence(1) // so that epochs are above zero and 2 leads
			w.restart(1, 2, true)
			w.alterISR(2, "t", 2)
			r := w.alterRequest(2, "t", 2, 3)
			tc.change(w, r, &r.Topics[0].Partitions[0])
			before := w.v.img
			got := ask[*kmsg.AlterPartitionResponse](w, r)
			require.Zero(t, got.ErrorCode)
			require.Equal(t, tc.want.Code, got.Topics[0].Partitions[0].ErrorCode)
			require.Same(t, before, w.v.img)
		})
	}
}

func TestAlterPartitionChecksTheBroker(t *testing.T) {
	w := newWorld(t, 1)
	w.create("t", []int32{1})
	r := w.alterRequest(1, "t", 1)
	r.BrokerEpoch++
	require.Equal(t, kerr.StaleBrokerEpoch.Code, ask[*kmsg.AlterPartitionResponse](w, r).ErrorCode)
}

func TestAlterPartitionTwiceInARequest(t *testing.T) {
	w := newWorld(t, 2)
	w.create("t", []int32{1, 2})
	r := w.alterRequest(1, "t", 1)
	r.Topics = append(r.Topics, r.Topics[0])
	got := ask[*kmsg.AlterPartitionResponse](w, r)
	require.Zero(t, got.Topics[0].Partitions[0].ErrorCode)
	require.Equal(t, kerr.InvalidRequest.Code, got.Topics[1].Partitions[0].ErrorCode)
}

// Version 2 names members without broker epochs.
func TestAlterPartitionVersion2(t *testing.T) {
	w := newWorld(t, 2)
	w.create("t", []int32{1, 2})
	r := w.alterRequest(1, "t")
	r.Version = 2
	r.Topics[0].Partitions[0].NewISR = []int32{1}
	require.Zero(t, ask[*kmsg.AlterPartitionResponse](w, r).Topics[0].Partitions[0].ErrorCode)
	require.Equal(t, []int32{1}, w.part("t", 0).ISR)
}

// A leader that was elected uncleanly says when it is done.
func TestAlterPartitionEndsRecovery(t *testing.T) {
	w := newWorld(t, 2)
	w.create("t", []int32{1, 2})
	w.set("t", "unclean.leader.election.enable", "true")
	w.silence(2)
	w.silence(1)
	w.restart(2, 2, true)
	require.True(t, w.state("t").isRecovering)
	r := w.alterRequest(2, "t", 2)
	r.Topics[0].Partitions[0].LeaderRecoveryState = 1
	got := ask[*kmsg.AlterPartitionResponse](w, r).Topics[0].Partitions[0]
	require.Equal(t, int8(1), got.LeaderRecoveryState, "still recovering")
	got = w.alterISR(2, "t", 2)
	require.Equal(t, int8(0), got.LeaderRecoveryState)
	require.False(t, w.state("t").isRecovering)
}
