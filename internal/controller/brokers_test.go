package controller

import (
	"math"
	"testing"
	"time"

	"github.com/kbroker/kbroker/internal/metadata"
	"github.com/kbroker/kbroker/internal/model"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func wantShutdown(r *kmsg.BrokerHeartbeatRequest) { r.WantShutdown = true }
func wantFence(r *kmsg.BrokerHeartbeatRequest)    { r.WantFence = true }

func TestRegistrationRefusals(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(r *kmsg.BrokerRegistrationRequest)
		want   *kerr.Error
	}{
		"another cluster":      {func(r *kmsg.BrokerRegistrationRequest) { r.ClusterID = "x" }, kerr.InconsistentClusterID},
		"negative id":          {func(r *kmsg.BrokerRegistrationRequest) { r.BrokerID = -1 }, kerr.InvalidRegistration},
		"no incarnation":       {func(r *kmsg.BrokerRegistrationRequest) { r.IncarnationID = [16]byte{} }, kerr.InvalidRegistration},
		"no listener":          {func(r *kmsg.BrokerRegistrationRequest) { r.Listeners = nil }, kerr.InvalidRegistration},
		"from ZooKeeper":       {func(r *kmsg.BrokerRegistrationRequest) { r.IsMigratingZkBroker = true }, kerr.InvalidRegistration},
		"no directory":         {func(r *kmsg.BrokerRegistrationRequest) { r.LogDirs = nil }, kerr.InvalidRegistration},
		"directory twice":      {func(r *kmsg.BrokerRegistrationRequest) { r.LogDirs = append(r.LogDirs, r.LogDirs[0]) }, kerr.InvalidRegistration},
		"directory of another": {func(r *kmsg.BrokerRegistrationRequest) { r.LogDirs[0] = [16]byte{2, 0xd0} }, kerr.InvalidRegistration},
		"reserved directory":   {func(r *kmsg.BrokerRegistrationRequest) { r.LogDirs[0] = [16]byte{} }, kerr.InvalidRegistration},
		"features unknown":     {func(r *kmsg.BrokerRegistrationRequest) { r.Features = nil }, kerr.UnsupportedVersion},
		"metadata too old": {func(r *kmsg.BrokerRegistrationRequest) {
			for i := range r.Features {
				if r.Features[i].Name == metadata.FeatureMetadataVersion {
					r.Features[i].MaxSupportedVersion = 32
				}
			}
		}, kerr.UnsupportedVersion},
		"id in use": {func(r *kmsg.BrokerRegistrationRequest) { r.BrokerID = 1; r.LogDirs = [][16]byte{{1, 0xd0}} }, kerr.DuplicateBrokerRegistration},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 2)
			before := w.v.img
			r := registration(3, 9)
			tc.change(r)
			got := ask[*kmsg.BrokerRegistrationResponse](w, r)
			require.Equal(t, tc.want.Code, got.ErrorCode)
			require.Equal(t, int64(-1), got.BrokerEpoch)
			require.Same(t, before, w.v.img)
		})
	}
}

func TestRegistrationIsIdempotentWithinALife(t *testing.T) {
	w := newWorld(t, 1)
	epoch := w.broker(1).Epoch
	before := w.v.img
	got := ask[*kmsg.BrokerRegistrationResponse](w, registration(1, 1))
	require.Equal(t, epoch, got.BrokerEpoch)
	require.Same(t, before, w.v.img)

	changed := registration(1, 1)
	changed.LogDirs = append(changed.LogDirs, [16]byte{1, 0xd1})
	got = ask[*kmsg.BrokerRegistrationResponse](w, changed)
	require.Greater(t, got.BrokerEpoch, epoch)
	require.False(t, w.broker(1).Fenced, "the process lived on")
}

// The broker in this process may take its id over at once: its former process is the controller's former process.
func TestLocalBrokerNeedNotWaitForItsOldSession(t *testing.T) {
	w := newWorld(t, 1)
	require.Equal(t, kerr.DuplicateBrokerRegistration.Code, ask[*kmsg.BrokerRegistrationResponse](w, registration(1, 2)).ErrorCode)
	w.v.sessions.local = 1
	require.Zero(t, ask[*kmsg.BrokerRegistrationResponse](w, registration(1, 2)).ErrorCode)
}

func TestHeartbeatChecksTheEpoch(t *testing.T) {
	w := newWorld(t, 1)
	r := kmsg.NewPtrBrokerHeartbeatRequest()
	r.BrokerID, r.BrokerEpoch = 1, 99
	require.Equal(t, kerr.StaleBrokerEpoch.Code, ask[*kmsg.BrokerHeartbeatResponse](w, r).ErrorCode)
	r.BrokerID = 9
	require.Equal(t, kerr.BrokerIDNotRegistered.Code, ask[*kmsg.BrokerHeartbeatResponse](w, r).ErrorCode)
}

// A broker is unfenced once it has seen its own registration, not before.
func TestUnfencingWaitsForCatchingUp(t *testing.T) {
	w := newWorld(t, 1)
	require.Zero(t, ask[*kmsg.BrokerRegistrationResponse](w, registration(2, 1)).ErrorCode)
	registered := w.v.img.Offset()
	behind := w.heartbeat(2, func(r *kmsg.BrokerHeartbeatRequest) { r.CurrentMetadataOffset = registered - 1 })
	require.Equal(t, []bool{false, true}, []bool{behind.IsCaughtUp, behind.IsFenced})
	require.True(t, w.broker(2).Fenced)
	wanted := w.heartbeat(2, wantFence)
	require.Equal(t, []bool{true, true}, []bool{wanted.IsCaughtUp, wanted.IsFenced})
	there := w.heartbeat(2)
	require.Equal(t, []bool{true, false}, []bool{there.IsCaughtUp, there.IsFenced})
	require.False(t, w.broker(2).Fenced)
	require.True(t, w.heartbeat(2, wantFence).IsFenced)
	require.True(t, w.broker(2).Fenced)
}

// What a running Kafka 4.4.0 writes for a topic of one replica, restarted cleanly and killed.
func TestSingleReplicaThroughRestarts(t *testing.T) {
	w := newWorld(t, 1)
	w.create("t", []int32{1})
	require.Equal(t, state{leader: 1, isr: []int32{1}}, w.state("t"))

	first := w.heartbeat(1, wantShutdown)
	require.False(t, first.ShouldShutdown, "it leads something")
	require.True(t, w.broker(1).InControlledShutdown)
	require.Equal(t, state{leader: -1, elr: []int32{1}, last: []int32{1}, leaderEpoch: 1}, w.state("t"))
	second := w.heartbeat(1, wantShutdown)
	require.True(t, second.ShouldShutdown)
	require.True(t, w.broker(1).Fenced)
	require.Equal(t, state{leader: -1, elr: []int32{1}, last: []int32{1}, leaderEpoch: 1}, w.state("t"))
	w.restart(1, 2, true)
	require.Equal(t, state{leader: 1, isr: []int32{1}, leaderEpoch: 2}, w.state("t"))
	require.False(t, w.broker(1).InControlledShutdown)

	w.restart(1, 3, false) // killed: what was not flushed may be gone
	require.Equal(t, state{leader: 1, isr: []int32{1}, leaderEpoch: 4, isRecovering: true}, w.state("t"))
}

func TestControlledShutdownMovesLeadersFirst(t *testing.T) {
	w := newWorld(t, 3)
	w.create("t", []int32{1, 2, 3})
	w.create("u", []int32{2, 1, 3})
	r := w.heartbeat(1, wantShutdown)
	require.Equal(t, []bool{false, false}, []bool{r.ShouldShutdown, r.IsFenced})
	require.Equal(t, state{leader: 2, isr: []int32{2, 3}, leaderEpoch: 1}, w.state("t"))
	require.Equal(t, state{leader: 2, isr: []int32{2, 3}}, w.state("u"))

	require.False(t, w.heartbeat(1, wantShutdown).ShouldShutdown, "the others do not know yet")
	w.heartbeat(2)
	require.False(t, w.heartbeat(1, wantShutdown).ShouldShutdown, "one other does not know yet")
	w.heartbeat(3)
	r = w.heartbeat(1, wantShutdown)
	require.Equal(t, []bool{true, true}, []bool{r.ShouldShutdown, r.IsFenced})
	require.True(t, w.heartbeat(1, wantShutdown).ShouldShutdown, "asking again is no harm")
}

func TestBrokerWithoutLeadersMayStopAtOnce(t *testing.T) {
	w := newWorld(t, 2)
	w.create("t", []int32{1, 2})
	require.True(t, w.heartbeat(2, wantShutdown).ShouldShutdown)
	require.Equal(t, state{leader: 1, isr: []int32{1}}, w.state("t"))
}

func TestOfflineDirectoryTakesItsReplicasOut(t *testing.T) {
	w := newWorld(t, 2)
	r := registration(2, 1)
	r.LogDirs = [][16]byte{{2, 0xd0}, {2, 0xd1}}
	require.Zero(t, ask[*kmsg.BrokerRegistrationResponse](w, r).ErrorCode)
	w.heartbeat(2)
	w.create("t", []int32{2, 1})
	w.create("u", []int32{2, 1})
	w.create("free", []int32{2, 1})
	for topic, dir := range map[string]byte{"t": 0xd0, "u": 0xd1} {
		tp := w.v.img.Topic(topic)
		dirs := tp.Partitions[0].Directories
		require.True(t, dirs[0].IsZero(), "with two directories the broker chooses")
		w.apply(&metadata.PartitionChangeRecord{TopicID: tp.ID, Leader: metadata.NoLeaderChange, Directories: append(dirs[:0:0], [16]byte{2, dir}, dirs[1])})
	}
	w.heartbeat(2, func(r *kmsg.BrokerHeartbeatRequest) { r.OfflineLogDirs = [][16]byte{{2, 0xd1}, {7, 7}} })
	require.Equal(t, int32(2), w.state("t").leader)
	require.Equal(t, int32(2), w.state("free").leader)
	require.Equal(t, state{leader: 1, isr: []int32{1}, leaderEpoch: 1}, w.state("u"))
	before := w.v.img
	w.heartbeat(2, func(r *kmsg.BrokerHeartbeatRequest) { r.OfflineLogDirs = [][16]byte{{2, 0xd1}} })
	require.Same(t, before, w.v.img, "told once is enough")
}

func TestElections(t *testing.T) {
	for name, tc := range map[string]struct {
		minISR  string
		unclean bool
		story   func(w *world)
		want    state
	}{
		"first living replica in order of the assignment": {
			story: func(w *world) { w.silence(1) },
			want:  state{leader: 2, isr: []int32{2, 3}, leaderEpoch: 1},
		},
		"a returning replica does not take the lead": {
			story: func(w *world) { w.silence(1); w.restart(1, 2, true) },
			want:  state{leader: 2, isr: []int32{2, 3}, leaderEpoch: 1},
		},
		"last one of the ISR goes: it stays electable": {
			story: func(w *world) { w.silence(3); w.silence(2); w.silence(1) },
			want:  state{leader: -1, elr: []int32{1}, last: []int32{1}, leaderEpoch: 1},
		},
		"the last one returns cleanly": {
			story: func(w *world) { w.silence(3); w.silence(2); w.silence(1); w.restart(1, 2, true) },
			want:  state{leader: 1, isr: []int32{1}, leaderEpoch: 2},
		},
		"others than the last one return: nobody leads": {
			story: func(w *world) { w.silence(3); w.silence(2); w.silence(1); w.restart(2, 2, true); w.restart(3, 2, true) },
			want:  state{leader: -1, elr: []int32{1}, last: []int32{1}, leaderEpoch: 1},
		},
		"the last one returns from a crash: the last resort": {
			story: func(w *world) { w.silence(3); w.silence(2); w.silence(1); w.restart(1, 2, false) },
			want:  state{leader: 1, isr: []int32{1}, leaderEpoch: 2, isRecovering: true},
		},
		"unclean election when allowed": {
			unclean: true,
			story:   func(w *world) { w.silence(3); w.silence(2); w.silence(1); w.restart(3, 2, true) },
			want:    state{leader: 3, isr: []int32{3}, leaderEpoch: 2, isRecovering: true},
		},
		"unclean election is not used while a clean one is possible": {
			unclean: true,
			story:   func(w *world) { w.silence(1) },
			want:    state{leader: 2, isr: []int32{2, 3}, leaderEpoch: 1},
		},
		"below min ISR the leavers are eligible": {
			minISR: "3",
			story:  func(w *world) { w.silence(3) },
			want:   state{leader: 1, isr: []int32{1, 2}, elr: []int32{3}},
		},
		"one of the ELR leads when the ISR is empty": {
			minISR: "3",
			story: func(w *world) {
				w.silence(3)
				w.silence(2)
				w.silence(1)
				w.restart(3, 2, true)
			},
			want: state{leader: 3, isr: []int32{3}, elr: []int32{1, 2}, leaderEpoch: 2},
		},
		"a crash takes a replica out of the ELR": {
			minISR: "3",
			story:  func(w *world) { w.silence(3); w.restart(3, 2, false) },
			want:   state{leader: 1, isr: []int32{1, 2}},
		},
		"min ISR above the number of replicas means all of them": {
			minISR: "9",
			story:  func(w *world) {},
			want:   state{leader: 1, isr: []int32{1, 2, 3}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 3)
			w.create("t", []int32{1, 2, 3})
			if tc.minISR != "" {
				w.set("t", "min.insync.replicas", tc.minISR)
			}
			if tc.unclean {
				w.set("t", "unclean.leader.election.enable", "true")
			}
			tc.story(w)
			require.Equal(t, tc.want, w.state("t"))
		})
	}
}

// Without ELR the last member stays in the ISR, and only it may lead again.
func TestElectionsWithoutELR(t *testing.T) {
	w := newWorld(t, 2)
	w.apply(&metadata.FeatureRecord{Name: metadata.FeatureELRVersion})
	w.create("t", []int32{1, 2})
	w.silence(2)
	w.silence(1)
	require.Equal(t, state{leader: -1, isr: []int32{1}, leaderEpoch: 1}, w.state("t"))
	w.restart(2, 2, true)
	require.Equal(t, int32(-1), w.state("t").leader)
	w.restart(1, 2, false)
	require.Equal(t, state{leader: 1, isr: []int32{1}, leaderEpoch: 2}, w.state("t"))
}

func TestReassignmentCompletesWhenItsReplicasAreInSync(t *testing.T) {
	w := newWorld(t, 4)
	tp := w.create("t", []int32{1, 2})
	dirs := tp.Partitions[0].Directories
	w.apply(&metadata.PartitionChangeRecord{
		TopicID: tp.ID, Leader: metadata.NoLeaderChange, Replicas: []int32{3, 4, 1, 2}, Adding: []int32{3, 4}, Removing: []int32{1, 2},
		Directories: []model.UUID{{}, {}, dirs[0], dirs[1]}, Incarnations: []int64{5, 5, 1, 1},
	})
	w.alterISR(1, "t", 1, 3)
	require.Equal(t, []int32{3, 4, 1, 2}, w.part("t", 0).Replicas, "4 is missing")
	got := w.alterISR(1, "t", 1, 3, 4)
	require.Equal(t, kerr.NewLeaderElected.Code, got.ErrorCode, "the leader is no replica any more")
	p := w.part("t", 0)
	require.Equal(t, []int32{3, 4}, p.Replicas)
	require.Equal(t, []int64{5, 5}, p.Incarnations)
	require.Equal(t, state{leader: 3, isr: []int32{3, 4}, leaderEpoch: 1}, w.state("t"))
	require.Empty(t, p.Adding)
	require.Empty(t, p.Removing)
}

func TestAllocateProducerIDs(t *testing.T) {
	w := newWorld(t, 1)
	r := kmsg.NewPtrAllocateProducerIDsRequest()
	r.BrokerID, r.BrokerEpoch = 1, w.broker(1).Epoch
	for i := range int64(3) {
		got := ask[*kmsg.AllocateProducerIDsResponse](w, r)
		require.Zero(t, got.ErrorCode)
		require.Equal(t, []int64{i * 1000, 1000}, []int64{got.ProducerIDStart, int64(got.ProducerIDLen)})
	}
	r.BrokerEpoch++
	require.Equal(t, kerr.StaleBrokerEpoch.Code, ask[*kmsg.AllocateProducerIDsResponse](w, r).ErrorCode)
	r.BrokerID = 5
	require.Equal(t, kerr.BrokerIDNotRegistered.Code, ask[*kmsg.AllocateProducerIDsResponse](w, r).ErrorCode)
	w.apply(&metadata.ProducerIDsRecord{Next: math.MaxInt64 - 10})
	r.BrokerID, r.BrokerEpoch = 1, w.broker(1).Epoch
	require.Equal(t, kerr.UnknownServerError.Code, ask[*kmsg.AllocateProducerIDsResponse](w, r).ErrorCode)
}

// C5
func TestSessions(t *testing.T) {
	w := newWorld(t, 3)
	s := w.v.sessions
	start := w.v.now
	require.Empty(t, s.expired(w.v.img, start.Add(8*time.Second)))
	w.v.now = start.Add(5 * time.Second)
	w.heartbeat(2)
	at, ok := s.next(w.v.img, w.v.now)
	require.True(t, ok)
	require.Equal(t, start.Add(9*time.Second), at)
	require.Equal(t, []int32{1, 3}, s.expired(w.v.img, at))
	s.local = 3
	require.Equal(t, []int32{1}, s.expired(w.v.img, at), "the broker of this process is never silent")
	w.silence(1)
	require.Empty(t, s.expired(w.v.img, at), "fenced once is enough")
	require.True(t, s.valid(2, w.broker(2).Epoch, at))
	require.False(t, s.valid(2, w.broker(2).Epoch-1, at))

	// The process stood still for an hour: nobody is to blame for the silence.
	late := at.Add(time.Hour)
	s.catchUp(at, late)
	require.Empty(t, s.expired(w.v.img, late))
	require.Equal(t, []int32{2}, s.expired(w.v.img, late.Add(9*time.Second)))
	s.catchUp(late, late.Add(time.Second))
	require.Equal(t, []int32{2}, s.expired(w.v.img, late.Add(9*time.Second)), "an ordinary delay changes nothing")

	s.reset(w.v.img, late)
	require.Empty(t, s.expired(w.v.img, late.Add(8*time.Second)))
	w.apply(&metadata.UnregisterBrokerRecord{ID: 2, Epoch: w.broker(2).Epoch})
	s.forget(w.v.img)
	require.Len(t, s.byID, 2)
	require.False(t, s.watched(w.broker(3)))
	_, ok = s.next(w.v.img, late)
	require.False(t, ok, "one is fenced, the other one local")
}
