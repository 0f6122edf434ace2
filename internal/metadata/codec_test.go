package metadata

import (
	"encoding/hex"
	"flag"
	"fmt"
	"math"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/kbroker/kbroker/internal/model"
	"github.com/stretchr/testify/require"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew; then read the diff")

// everyRecord holds each kind of record with all fields set, and in the shapes that are coded differently.
func everyRecord() []Record {
	healthy := part(id(1), 0, 1, 2, 3)
	healthy.State.PartitionEpoch, healthy.State.LeaderEpoch = 300, 7
	ill := &PartitionRecord{TopicID: id(1), Index: 1, State: Partition{
		Replicas: []int32{4, 1, 2}, ISR: []int32{1}, Adding: []int32{4}, Removing: []int32{2}, ELR: []int32{2}, LastKnownELR: []int32{4},
		Directories: []model.UUID{{}, id(9), id(8)}, Incarnations: []int64{12, 1, 1 << 40}, Leader: 1, LeaderEpoch: 5, PartitionEpoch: 6, Recovering: true,
	}}
	return []Record{
		&ClusterRecord{ClusterID: "5L6g3nShT-eMCtK--X86sw"},
		&CountersRecord{LastIncarnation: 1 << 40, LastBrokerEpoch: 77},
		&FeatureRecord{Name: "metadata.version", Level: 33},
		register(1, 5),
		&RegisterBrokerRecord{ID: math.MaxInt32, Epoch: math.MaxInt64, Listeners: []Listener{{"A", "", math.MaxUint16, 3}}, InControlledShutdown: true},
		&BrokerChangeRecord{ID: 1, Epoch: 5},
		&BrokerChangeRecord{ID: 1, Epoch: 5, Fenced: ptr(false), InControlledShutdown: ptr(true), LogDirs: []model.UUID{}},
		&BrokerChangeRecord{ID: 1, Epoch: 5, LogDirs: []model.UUID{id(3), id(4)}},
		&UnregisterBrokerRecord{ID: 1, Epoch: 5},
		&TopicRecord{Name: "orders", ID: id(1)},
		healthy,
		ill,
		&PartitionChangeRecord{TopicID: id(1), Index: 2, Leader: NoLeaderChange},
		&PartitionChangeRecord{TopicID: id(1), Index: 2, Leader: -1, ISR: []int32{}, ELR: []int32{1}, LastKnownELR: []int32{1}, Recovering: ptr(false)},
		&PartitionChangeRecord{TopicID: id(1), Index: 2, Leader: 4, Replicas: []int32{4, 5}, ISR: []int32{4}, Adding: []int32{}, Removing: []int32{},
			ELR: []int32{}, LastKnownELR: []int32{}, Directories: []model.UUID{id(1), {}}, Incarnations: []int64{3, 4}, Recovering: ptr(true)},
		&RemoveTopicRecord{ID: id(1)},
		&ConfigRecord{Resource: ConfigResource{ResourceTopic, "orders"}, Key: "retention.ms", Value: ptr("1000")},
		&ConfigRecord{Resource: ConfigResource{ResourceGroup, "g"}, Key: "k", Value: ptr("")},
		&ConfigRecord{Resource: ConfigResource{ResourceBroker, ""}, Key: "k"},
		&ProducerIDsRecord{BrokerID: 1, BrokerEpoch: 5, Next: 1000},
	}
}

// The bytes on disk must not change unless a version does.
func TestGoldenRecords(t *testing.T) {
	var b strings.Builder
	for _, r := range everyRecord() {
		fmt.Fprintf(&b, "%s\n%s\n", reflect.TypeOf(r).Elem().Name(), hex.Dump(AppendBatch(nil, []Record{r})))
	}
	const name = "testdata/records.hex"
	if *rewrite {
		require.NoError(t, os.WriteFile(name, []byte(b.String()), 0o644))
	}
	want, err := os.ReadFile(name)
	require.NoError(t, err)
	require.Equal(t, string(want), b.String())
}

func TestRecordsSurviveTheCodec(t *testing.T) {
	all := everyRecord()
	got, err := DecodeBatch(AppendBatch([]byte("kept")[:0], all))
	require.NoError(t, err)
	require.Equal(t, all, got)
	kinds := map[recordKind]bool{}
	for _, r := range all {
		kinds[r.kind()] = true
	}
	for k := range recordKind(255) {
		require.Equal(t, newRecord(k) != nil, kinds[k], "kind %d is in everyRecord", k)
		if r := newRecord(k); r != nil {
			require.Equal(t, k, r.kind())
		}
	}
	got, err = DecodeBatch(AppendBatch(nil, nil))
	require.NoError(t, err)
	require.Empty(t, got)
	require.Equal(t, []byte("kept\x00\x00"), AppendBatch([]byte("kept"), nil), "appends")
}

// M8
func TestUnknownIsAnError(t *testing.T) {
	for name, tc := range map[string]struct {
		bytes []byte
		want  string
	}{
		"batch version":  {[]byte{9, 0}, "metadata batch of version 9"},
		"record type":    {[]byte{0, 1, 200, 0, 0}, "record type 200"},
		"record version": {[]byte{0, 1, byte(kindRemoveTopic), 1, 0}, "record type 10 has version 1, this binary reads up to 0"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := DecodeBatch(tc.bytes)
			require.ErrorIs(t, err, ErrUnknownRecord)
			require.ErrorContains(t, err, tc.want)
		})
	}
}

func TestMalformedIsAnError(t *testing.T) {
	good := AppendBatch(nil, everyRecord())
	for cut := range len(good) {
		_, err := DecodeBatch(good[:cut])
		require.Error(t, err, "cut at %d", cut)
	}
	for name, b := range map[string][]byte{
		"empty":              {},
		"bytes behind":       append(good[:len(good):len(good)], 0),
		"too many records":   {0, 200, 1, 1, 0, 0},
		"endless varint":     {0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff},
		"body too long":      {0, 1, byte(kindFeature), 0, 4, 1, 'a', 2, 9},
		"body too short":     {0, 1, byte(kindFeature), 0, 2, 1, 'a'},
		"string too long":    {0, 1, byte(kindCluster), 0, 2, 100, 'a'},
		"boolean 2":          {0, 1, byte(kindBrokerChange), 0, 5, 2, 2, 2, 0, 0},
		"level out of range": {0, 1, byte(kindFeature), 0, 5, 1, 'a', 0x80, 0x80, 0x20},
		"flags unknown":      append([]byte{0, 1, byte(kindPartition), 0, 18}, append(make([]byte, 17), 0x80)...),
		"many list elements": append([]byte{0, 1, byte(kindPartition), 0, 20}, append(make([]byte, 18), 0xff, 0x7f)...),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := DecodeBatch(b)
			require.ErrorIs(t, err, ErrMalformed)
		})
	}
}

// Whatever decodes is applied or refused without a panic, and is written back to the same meaning.
func FuzzDecodeBatch(f *testing.F) {
	f.Add(AppendBatch(nil, everyRecord()))
	for _, r := range everyRecord() {
		f.Add(AppendBatch(nil, []Record{r}))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		records, err := DecodeBatch(b)
		if err != nil {
			return
		}
		again, err := DecodeBatch(AppendBatch(nil, records))
		require.NoError(t, err)
		require.Equal(t, records, again)
		img, d, err := Empty().Apply(records)
		if err == nil {
			require.Same(t, img, d.New)
			restored, _, err := Empty().Apply(collect(img))
			require.NoError(t, err)
			require.Equal(t, dump(img), dump(restored), "M7")
		}
	})
}
