package metadata

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/kbroker/kbroker/internal/model"
	"github.com/stretchr/testify/require"
)

func id(n byte) model.UUID { return model.UUID{0: n, 15: n} }

func ptr[T any](v T) *T { return &v }

// part returns a healthy partition led by its first replica.
func part(topic model.UUID, index int32, replicas ...int32) *PartitionRecord {
	return &PartitionRecord{TopicID: topic, Index: index, State: Partition{
		Replicas: replicas, ISR: slices.Clone(replicas), Leader: replicas[0],
		Directories: make([]model.UUID, len(replicas)), Incarnations: slices.Repeat([]int64{1}, len(replicas)),
	}}
}

func register(n int32, epoch int64) *RegisterBrokerRecord {
	return &RegisterBrokerRecord{
		ID: n, Epoch: epoch, Incarnation: id(byte(n)), Rack: "r", Fenced: true,
		Listeners: []Listener{{Name: "PLAINTEXT", Host: "h", Port: 9092}},
		Features:  []FeatureRange{{"metadata.version", 7, 33}}, LogDirs: []model.UUID{id(100 + byte(n))},
	}
}

func apply(t *testing.T, img *Image, records ...Record) (*Image, *Delta) {
	t.Helper()
	next, d, err := img.Apply(records)
	require.NoError(t, err)
	require.Same(t, img, d.Old)
	require.Same(t, next, d.New)
	return next, d
}

// dump returns the image as text, for comparing values.
func dump(img *Image) string {
	var b strings.Builder
	for r := range img.Records() {
		fmt.Fprintf(&b, "%T %x\n", r, AppendBatch(nil, []Record{r}))
	}
	return b.String()
}

func small(t *testing.T) *Image {
	img, _ := apply(t, Empty(),
		&ClusterRecord{ClusterID: "c"},
		&FeatureRecord{Name: FeatureMetadataVersion, Level: 33},
		register(1, 1), register(2, 2), register(3, 3),
		&TopicRecord{Name: "a", ID: id(1)}, part(id(1), 0, 1, 2, 3), part(id(1), 1, 2, 3, 1),
		&TopicRecord{Name: "b", ID: id(2)}, part(id(2), 0, 3),
		&ConfigRecord{Resource: ConfigResource{ResourceTopic, "a"}, Key: "k", Value: ptr("v")},
		&ConfigRecord{Resource: ConfigResource{ResourceBroker, ""}, Key: "k", Value: ptr("v")},
		&ProducerIDsRecord{BrokerID: 1, BrokerEpoch: 1, Next: 1000},
	)
	return img
}

func TestLookups(t *testing.T) {
	img := small(t)
	require.Equal(t, "c", img.ClusterID())
	require.Equal(t, 2, img.TopicCount())
	require.Equal(t, 3, img.PartitionCount())
	require.Equal(t, "a", img.TopicByID(id(1)).Name)
	require.Nil(t, img.Topic("c"))
	require.Nil(t, img.TopicByID(id(3)))
	require.Equal(t, int32(3), img.Partition(model.TopicPartition{Topic: "b"}).Leader)
	require.Nil(t, img.Partition(model.TopicPartition{Topic: "b", Partition: 1}))
	require.Nil(t, img.Partition(model.TopicPartition{Topic: "b", Partition: -1}))
	require.Nil(t, img.Partition(model.TopicPartition{Topic: "x"}))
	require.Equal(t, map[string]string{"k": "v"}, img.Config(ResourceTopic, "a"))
	require.Nil(t, img.Config(ResourceTopic, "b"))
	require.Equal(t, int16(33), img.Feature(FeatureMetadataVersion))
	require.Zero(t, img.Feature("nothing"))
	require.Equal(t, int64(1000), img.NextProducerID())
	require.Equal(t, int64(2), img.NextIncarnation())
	require.Equal(t, int64(4), img.NextBrokerEpoch())
	require.Equal(t, 3, img.BrokerCount())
	require.Nil(t, img.Broker(4))
	l, ok := img.Broker(2).Listener("PLAINTEXT")
	require.True(t, ok)
	require.Equal(t, uint16(9092), l.Port)
	_, ok = img.Broker(2).Listener("SSL")
	require.False(t, ok)
	var names []string
	for topic := range img.TopicsFrom("aa") {
		names = append(names, topic.Name)
	}
	require.Equal(t, []string{"b"}, names)
	p := img.Topic("a").Partition(1)
	require.Equal(t, int64(1), p.Incarnation(3))
	require.Zero(t, p.Incarnation(9))
	require.True(t, p.HasReplica(1))
	require.True(t, p.Directory(1).IsZero())
	require.True(t, p.Directory(9).IsZero())
}

// M4: what raises which epoch.
func TestPartitionChangeEpochs(t *testing.T) {
	img := small(t)
	for _, tc := range []struct {
		name          string
		change        PartitionChangeRecord
		leader, epoch int32
	}{
		{"ISR only", PartitionChangeRecord{Leader: NoLeaderChange, ISR: []int32{1, 2}}, 1, 0},
		{"new leader", PartitionChangeRecord{Leader: 2}, 2, 1},
		{"same leader named again", PartitionChangeRecord{Leader: 1}, 1, 1},
		{"no leader", PartitionChangeRecord{Leader: model.NoLeader}, -1, 1},
		{"recovering", PartitionChangeRecord{Leader: NoLeaderChange, Recovering: ptr(true)}, 1, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.change.TopicID = id(1)
			next, d := apply(t, img, &tc.change)
			p := next.Topic("a").Partition(0)
			require.Equal(t, tc.leader, p.Leader)
			require.Equal(t, tc.epoch, p.LeaderEpoch)
			require.Equal(t, int32(1), p.PartitionEpoch)
			require.Equal(t, []TopicDelta{{Old: img.Topic("a"), New: next.Topic("a"), Partitions: []int32{0}}}, d.Topics)
			require.Same(t, img.Topic("a").Partition(1), next.Topic("a").Partition(1), "the other partition is shared")
			require.Same(t, img.Topic("b"), next.Topic("b"))
			require.Equal(t, int32(0), img.Topic("a").Partition(0).PartitionEpoch, "M1")
		})
	}
}

func TestChangeListsKeepOrEmpty(t *testing.T) {
	img := small(t)
	img, _ = apply(t, img, &PartitionChangeRecord{
		TopicID: id(1), Leader: NoLeaderChange,
		Replicas: []int32{4, 1, 2, 3}, Directories: make([]model.UUID, 4), Incarnations: []int64{7, 1, 1, 1},
		Adding: []int32{4}, Removing: []int32{3}, ELR: []int32{2}, LastKnownELR: []int32{3}, ISR: []int32{1},
	})
	require.Equal(t, int64(8), img.NextIncarnation())
	p := img.Topic("a").Partition(0)
	require.Equal(t, []int32{2}, p.ELR)
	img, _ = apply(t, img, &PartitionChangeRecord{TopicID: id(1), Leader: NoLeaderChange, ELR: []int32{}})
	p = img.Topic("a").Partition(0)
	require.Empty(t, p.ELR)
	require.Equal(t, []int32{3}, p.LastKnownELR)
	require.Equal(t, []int32{4}, p.Adding)
	require.Equal(t, []int32{3}, p.Removing)
	require.Equal(t, int64(7), p.Incarnation(4))
}

// M6: each record that does not fit is refused whole.
func TestMismatches(t *testing.T) {
	img := small(t)
	before := dump(img)
	noDirs := part(id(2), 1, 1)
	noDirs.State.Directories = nil
	badISR := part(id(2), 1, 1)
	badISR.State.ISR = []int32{2}
	badLeader := part(id(2), 1, 1, 2)
	badLeader.State.Leader = 3
	badIncarnation := part(id(2), 1, 1)
	badIncarnation.State.Incarnations[0] = 0
	change := func(c PartitionChangeRecord) Record { return &c }
	for name, r := range map[string]Record{
		"second cluster id":      &ClusterRecord{ClusterID: "d"},
		"empty cluster id":       &ClusterRecord{},
		"feature without name":   &FeatureRecord{Level: 1},
		"negative level":         &FeatureRecord{Name: "x", Level: -1},
		"old broker epoch":       register(1, 3),
		"negative broker":        register(-1, 9),
		"change of nobody":       &BrokerChangeRecord{ID: 9, Epoch: 1},
		"change of older life":   &BrokerChangeRecord{ID: 1, Epoch: 0},
		"unregister nobody":      &UnregisterBrokerRecord{ID: 9},
		"unregister older life":  &UnregisterBrokerRecord{ID: 2, Epoch: 1},
		"name taken":             &TopicRecord{Name: "a", ID: id(9)},
		"id taken":               &TopicRecord{Name: "z", ID: id(1)},
		"no name":                &TopicRecord{ID: id(9)},
		"no id":                  &TopicRecord{Name: "z"},
		"remove nothing":         &RemoveTopicRecord{ID: id(9)},
		"partition of nothing":   part(id(9), 0, 1),
		"hole in numbers":        part(id(1), 3, 1),
		"partition twice":        part(id(1), 0, 1),
		"duplicate replica":      part(id(2), 1, 1, 1),
		"negative replica":       part(id(2), 1, -1),
		"no directories":         noDirs,
		"ISR outside":            badISR,
		"leader outside":         badLeader,
		"incarnation zero":       badIncarnation,
		"change of no topic":     change(PartitionChangeRecord{TopicID: id(9), Leader: NoLeaderChange}),
		"change of no partition": change(PartitionChangeRecord{TopicID: id(1), Index: 9, Leader: NoLeaderChange}),
		"replicas alone":         change(PartitionChangeRecord{TopicID: id(1), Leader: NoLeaderChange, Replicas: []int32{1}}),
		"no replicas":            change(PartitionChangeRecord{TopicID: id(1), Leader: NoLeaderChange, Replicas: []int32{}}),
		"leader leaves ISR":      change(PartitionChangeRecord{TopicID: id(1), Leader: NoLeaderChange, ISR: []int32{2}}),
		"ids handed out twice":   &ProducerIDsRecord{Next: 1000},
		"nil record":             nil,
	} {
		t.Run(name, func(t *testing.T) {
			next, d, err := img.Apply([]Record{&TopicRecord{Name: "fits", ID: id(77)}, r})
			require.ErrorIs(t, err, ErrMismatch)
			require.Nil(t, next)
			require.Nil(t, d)
			require.Equal(t, before, dump(img))
		})
	}
}

func TestDeltaOfEverything(t *testing.T) {
	img := small(t)
	next, d := apply(t, img,
		&RemoveTopicRecord{ID: id(1)},
		&TopicRecord{Name: "a", ID: id(5)}, part(id(5), 0, 1),
		&TopicRecord{Name: "gone", ID: id(6)}, part(id(6), 0, 1), &RemoveTopicRecord{ID: id(6)},
		&PartitionChangeRecord{TopicID: id(2), Leader: 3}, &PartitionChangeRecord{TopicID: id(2), Leader: 3},
		&BrokerChangeRecord{ID: 2, Epoch: 2, Fenced: ptr(false)},
		&UnregisterBrokerRecord{ID: 3, Epoch: 3},
		&FeatureRecord{Name: FeatureMetadataVersion, Level: 0},
		&ConfigRecord{Resource: ConfigResource{ResourceBroker, ""}, Key: "k"},
		&ProducerIDsRecord{Next: 2000},
	)
	require.Equal(t, []TopicDelta{
		{Old: img.Topic("a")},
		{New: next.Topic("a"), Partitions: []int32{0}},
		{Old: img.Topic("b"), New: next.Topic("b"), Partitions: []int32{0}},
	}, d.Topics)
	require.Equal(t, []ConfigResource{{ResourceTopic, "a"}, {ResourceBroker, ""}}, d.Configs)
	require.Equal(t, []int32{2, 3}, d.Brokers)
	require.Equal(t, []string{FeatureMetadataVersion}, d.Features)
	require.True(t, d.ProducerIDs)
	require.False(t, d.IsEmpty())
	require.Equal(t, id(1), d.Topics[0].Topic().ID)
	require.Equal(t, id(5), d.Topics[1].Topic().ID)

	require.Nil(t, next.Config(ResourceTopic, "a"), "a topic's configuration goes with it")
	require.Nil(t, next.Config(ResourceBroker, ""))
	require.Nil(t, next.Broker(3))
	require.False(t, next.Broker(2).Fenced)
	require.True(t, img.Broker(2).Fenced, "M1")
	require.Zero(t, next.Feature(FeatureMetadataVersion))
	require.Equal(t, 2, next.PartitionCount())
	require.Equal(t, int64(4), next.NextBrokerEpoch(), "M5: broker 3 is gone, its epoch stays used")
}

func TestConfigEmptiedAndSetAgainInOneBatch(t *testing.T) {
	res := ConfigResource{ResourceTopic, "a"}
	img := small(t)
	next, d := apply(t, img,
		&ConfigRecord{Resource: res, Key: "k"},
		&ConfigRecord{Resource: res, Key: "x", Value: ptr("1")},
		&ConfigRecord{Resource: res, Key: "y", Value: ptr("2")},
	)
	require.Equal(t, map[string]string{"x": "1", "y": "2"}, next.Config(res.Type, res.Name))
	require.Equal(t, map[string]string{"k": "v"}, img.Config(res.Type, res.Name), "M1")
	require.Equal(t, []ConfigResource{res}, d.Configs)
}

// M7
func TestRecordsRestoreTheImage(t *testing.T) {
	img := small(t)
	img, _ = apply(t, img, &RemoveTopicRecord{ID: id(2)}, &UnregisterBrokerRecord{ID: 3, Epoch: 3},
		&PartitionChangeRecord{TopicID: id(1), Index: 1, Leader: NoLeaderChange, ISR: []int32{2}, ELR: []int32{1}, LastKnownELR: []int32{3}})
	records := slices.Collect(img.Records())
	decoded, err := DecodeBatch(AppendBatch(nil, records))
	require.NoError(t, err)
	again, d := apply(t, Empty(), decoded...)
	require.Equal(t, dump(img), dump(again))
	require.Equal(t, img.NextBrokerEpoch(), again.NextBrokerEpoch())
	require.Equal(t, img.NextIncarnation(), again.NextIncarnation())
	require.Equal(t, img.PartitionCount(), again.PartitionCount())
	whole := Diff(Empty(), again)
	whole.Old, d.Old = nil, nil
	require.Equal(t, whole, d)
	require.True(t, Diff(again, again).IsEmpty())
}

func TestPositionTravelsWithTheImage(t *testing.T) {
	require.Equal(t, model.NoOffset, Empty().Offset())
	require.Equal(t, model.NoEpoch, Empty().Epoch())
	b := NewBuilder(Empty())
	b.SetPosition(7, 3)
	img, d := b.Build()
	require.Equal(t, int64(7), img.Offset())
	require.Equal(t, int32(3), img.Epoch())
	require.True(t, d.IsEmpty())
}

func TestFeatureTableIsSane(t *testing.T) {
	last := ""
	for _, f := range SupportedFeatures() {
		require.Greater(t, f.Name, last, "sorted")
		require.LessOrEqual(t, f.Min, f.Max)
		require.LessOrEqual(t, f.Initial, f.Max, f.Name)
		got, ok := SupportedFeature(f.Name)
		require.True(t, ok)
		require.Equal(t, f, got)
		last = f.Name
	}
	_, ok := SupportedFeature("share.version")
	require.False(t, ok)
}

func TestResourceTypes(t *testing.T) {
	for typ, name := range map[ResourceType]string{
		ResourceUnknown: "UNKNOWN", ResourceTopic: "TOPIC", ResourceBroker: "BROKER", ResourceBrokerLogger: "BROKER_LOGGER",
		ResourceClientMetrics: "CLIENT_METRICS", ResourceGroup: "GROUP", 99: "RESOURCE_TYPE_99",
	} {
		require.Equal(t, name, typ.String())
	}
}
