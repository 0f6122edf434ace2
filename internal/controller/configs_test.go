package controller

import (
	"testing"

	"github.com/kbroker/kbroker/internal/metadata"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	opSet      = kmsg.IncrementalAlterConfigOpSet
	opDelete   = kmsg.IncrementalAlterConfigOpDelete
	opAppend   = kmsg.IncrementalAlterConfigOpAppend
	opSubtract = kmsg.IncrementalAlterConfigOpSubtract

	ofTopic   = kmsg.ConfigResourceTypeTopic
	ofBroker  = kmsg.ConfigResourceTypeBroker
	ofLogger  = kmsg.ConfigResourceTypeBrokerLogger
	ofMetrics = kmsg.ConfigResourceTypeClientMetrics
	ofGroup   = kmsg.ConfigResourceTypeGroupConfig
)

type change struct {
	op    kmsg.IncrementalAlterConfigOp
	key   string
	value string // "null" for none
}

type resourceChange struct {
	kind    kmsg.ConfigResourceType
	name    string
	changes []change
}

func (w *world) alter(validate bool, rs ...resourceChange) []answer {
	w.t.Helper()
	r := kmsg.NewPtrIncrementalAlterConfigsRequest()
	r.Version, r.ValidateOnly = 1, validate
	for _, x := range rs {
		res := kmsg.NewIncrementalAlterConfigsRequestResource()
		res.ResourceType, res.ResourceName = x.kind, x.name
		for _, c := range x.changes {
			y := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
			y.Name, y.Op = c.key, c.op
			if c.value != "null" {
				y.Value = &c.value
			}
			res.Configs = append(res.Configs, y)
		}
		r.Resources = append(r.Resources, res)
	}
	got := ask[*kmsg.IncrementalAlterConfigsResponse](w, r)
	var out []answer
	for i, o := range got.Resources {
		require.Equal(w.t, rs[i].name, o.ResourceName)
		require.Equal(w.t, shownType(rs[i].kind), o.ResourceType)
		out = append(out, answer{o.ErrorCode, deref(o.ErrorMessage)})
	}
	return out
}

func one(kind kmsg.ConfigResourceType, name string, cs ...change) resourceChange {
	return resourceChange{kind, name, cs}
}

// Codes and texts as a running Apache Kafka 4.4.0 answers them.
func TestIncrementalAlterConfigs(t *testing.T) {
	for name, tc := range map[string]struct {
		ask  resourceChange
		want answer
		then map[string]string
	}{
		"set":             {one(ofTopic, "a", change{opSet, "retention.ms", "1000"}), answer{}, map[string]string{"flush.ms": "7", "retention.ms": "1000"}},
		"append":          {one(ofTopic, "a", change{opAppend, "cleanup.policy", "compact"}), answer{}, map[string]string{"flush.ms": "7", "cleanup.policy": "delete,compact"}},
		"delete":          {one(ofTopic, "a", change{opDelete, "flush.ms", "null"}), answer{}, nil},
		"delete not set":  {one(ofTopic, "a", change{opDelete, "retention.bytes", "null"}), answer{}, map[string]string{"flush.ms": "7"}},
		"delete unknown":  {one(ofTopic, "a", change{opDelete, "nope", "null"}), answer{}, map[string]string{"flush.ms": "7"}},
		"no changes":      {one(ofTopic, "a"), answer{}, map[string]string{"flush.ms": "7"}},
		"internal topic":  {one(ofTopic, "__consumer_offsets", change{opSet, "retention.ms", "1"}), answer{}, map[string]string{"retention.ms": "1"}},
		"broker unknown":  {one(ofBroker, "1", change{opSet, "some.plugin", "x"}), answer{}, map[string]string{"some.plugin": "x"}},
		"broker own":      {one(ofBroker, "1", change{opSet, "log.cleaner.threads", "1"}), answer{}, map[string]string{"log.cleaner.threads": "1"}},
		"all brokers":     {one(ofBroker, "", change{opSet, "log.cleaner.threads", "1"}), answer{}, map[string]string{"min.insync.replicas": "1", "log.cleaner.threads": "1"}},
		"broker append":   {one(ofBroker, "", change{opAppend, "log.cleanup.policy", "compact"}), answer{}, map[string]string{"min.insync.replicas": "1", "log.cleanup.policy": "delete,compact"}},
		"cluster min isr": {one(ofBroker, "", change{opSet, "min.insync.replicas", "2"}), answer{}, map[string]string{"min.insync.replicas": "2"}},
		"metrics":         {one(ofMetrics, "sub", change{opSet, "interval.ms", "1000"}), answer{}, map[string]string{"interval.ms": "1000"}},
		"group":           {one(ofGroup, "g", change{opSet, "consumer.session.timeout.ms", "50000"}), answer{}, map[string]string{"consumer.session.timeout.ms": "50000"}},

		"bad value":     {ask: one(ofTopic, "a", change{opSet, "retention.ms", "x"}), want: answer{40, "Invalid value x for configuration retention.ms: Not a number of type LONG"}},
		"no list":       {ask: one(ofTopic, "a", change{opAppend, "retention.ms", "1"}), want: answer{40, "Can't APPEND to key retention.ms because its type is not LIST."}},
		"null":          {ask: one(ofTopic, "a", change{opSet, "retention.ms", "null"}), want: answer{42, "Null value not supported for : retention.ms"}},
		"key twice":     {ask: one(ofTopic, "a", change{opSet, "retention.ms", "1"}, change{opSet, "retention.ms", "2"}), want: answer{42, "Error due to duplicate config keys"}},
		"unknown key":   {ask: one(ofTopic, "a", change{opSet, "nope", "1"}), want: answer{40, "Unknown topic config name: nope"}},
		"unknown topic": {ask: one(ofTopic, "nothing", change{opSet, "retention.ms", "1"}), want: answer{3, "The topic 'nothing' does not exist."}},
		"all topics":    {ask: one(ofTopic, "", change{opSet, "retention.ms", "1"}), want: answer{42, "Default topic resources are not allowed."}},
		"bad topic": {ask: one(ofTopic, "a b", change{opSet, "retention.ms", "1"}),
			want: answer{17, "Topic name is invalid: 'a b' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"}},
		"type 99":                 {ask: one(99, "a", change{opSet, "retention.ms", "1"}), want: answer{42, "Unknown resource type 99"}},
		"type 0":                  {ask: one(0, "a", change{opSet, "retention.ms", "1"}), want: answer{42, "Unknown resource type 0"}},
		"other broker":            {ask: one(ofBroker, "2", change{opSet, "log.cleaner.threads", "1"}), want: answer{42, "Unexpected broker id, expected 1, but received 2"}},
		"no broker id":            {ask: one(ofBroker, "x", change{opSet, "log.cleaner.threads", "1"}), want: answer{42, "Node id must be an integer, but it is: x"}},
		"read-only":               {ask: one(ofBroker, "1", change{opSet, "node.id", "1"}), want: answer{42, "Cannot update these configs dynamically: [node.id]"}},
		"broker bad":              {ask: one(ofBroker, "1", change{opSet, "log.cleaner.threads", "x"}), want: answer{42, "Invalid value x for configuration log.cleaner.threads: Not a number of type INT"}},
		"broker min isr":          {ask: one(ofBroker, "1", change{opSet, "min.insync.replicas", "1"}), want: answer{40, "Broker-level min.insync.replicas cannot be altered while ELR is enabled."}},
		"cluster min isr removed": {ask: one(ofBroker, "", change{opDelete, "min.insync.replicas", "null"}), want: answer{40, "Cluster-level min.insync.replicas cannot be removed while ELR is enabled."}},
		"logger":                  {ask: one(ofLogger, "1", change{opSet, "root", "INFO"}), want: answer{42, "Unknown resource type 8"}},
		"metrics bad":             {ask: one(ofMetrics, "sub", change{opSet, "interval.ms", "1"}), want: answer{42, "Invalid value 1 for interval.ms, interval must be between 100 and 3600000 (1 hour)"}},
		"metrics unknown":         {ask: one(ofMetrics, "sub", change{opSet, "nope", "1"}), want: answer{42, "Unknown client metrics configuration: nope"}},
		"metrics of all":          {ask: one(ofMetrics, "", change{opSet, "interval.ms", "1000"}), want: answer{42, "Subscription name can't be empty"}},
		"group bad":               {ask: one(ofGroup, "g", change{opSet, "consumer.session.timeout.ms", "5"}), want: answer{40, "consumer.session.timeout.ms must be in the range 45000 to 60000 inclusive."}},
		"group unknown":           {ask: one(ofGroup, "g", change{opSet, "nope", "5"}), want: answer{40, "Unknown group config name: nope"}},
		"group of all":            {ask: one(ofGroup, "", change{opSet, "consumer.session.timeout.ms", "50000"}), want: answer{42, "Default group resources are not allowed."}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1)
			w.v.who.Broker = 1
			w.create("a", []int32{1})
			w.create("__consumer_offsets", []int32{1})
			w.set("a", "flush.ms", "7")
			before := w.v.img
			require.Equal(t, []answer{tc.want}, w.alter(true, tc.ask), "validate only")
			require.Same(t, before, w.v.img, "validate only")
			require.Equal(t, []answer{tc.want}, w.alter(false, tc.ask))
			if tc.want.code != 0 {
				require.Same(t, before, w.v.img)
				return
			}
			require.Equal(t, tc.then, w.v.img.Config(metadata.ResourceType(tc.ask.kind), tc.ask.name))
		})
	}
}

func TestAlterConfigsResourcesAreIndependent(t *testing.T) {
	w := newWorld(t, 1)
	for _, n := range []string{"a", "b"} {
		w.create(n, []int32{1})
	}
	twice := answer{42, "Each resource must appear at most once."}
	require.Equal(t, []answer{twice, twice, {}}, w.alter(false, one(ofTopic, "a", change{opSet, "retention.ms", "1"}),
		one(ofTopic, "a", change{opSet, "retention.bytes", "2"}), one(ofTopic, "b", change{opSet, "retention.ms", "5"})))
	require.Nil(t, w.v.img.Config(metadata.ResourceTopic, "a"))
	require.Equal(t, []answer{{40, "Invalid value x for configuration retention.ms: Not a number of type LONG"}, {}},
		w.alter(false, one(ofTopic, "a", change{opSet, "retention.ms", "x"}), one(ofTopic, "b", change{opSet, "cleanup.policy", "compact,delete"})))
	require.Equal(t, []answer{{}}, w.alter(false, one(ofTopic, "b", change{opSubtract, "cleanup.policy", "delete"})))
	require.Equal(t, map[string]string{"retention.ms": "5", "cleanup.policy": "compact"}, w.v.img.Config(metadata.ResourceTopic, "b"))
	before := w.v.img
	require.Equal(t, []answer{{}}, w.alter(false, one(ofTopic, "b", change{opSet, "retention.ms", "5"})))
	require.Same(t, before, w.v.img, "setting what is set writes nothing")
}

func TestAlterConfigsReplacesEverything(t *testing.T) {
	w := newWorld(t, 1)
	w.create("a", []int32{1})
	run := func(kind kmsg.ConfigResourceType, name string, kv ...string) answer {
		r := kmsg.NewPtrAlterConfigsRequest()
		r.Version = 2
		res := kmsg.NewAlterConfigsRequestResource()
		res.ResourceType, res.ResourceName = kind, name
		for i := 0; i < len(kv); i += 2 {
			c := kmsg.NewAlterConfigsRequestResourceConfig()
			c.Name = kv[i]
			if kv[i+1] != "null" {
				c.Value = &kv[i+1]
			}
			res.Configs = append(res.Configs, c)
		}
		r.Resources = append(r.Resources, res)
		o := ask[*kmsg.AlterConfigsResponse](w, r).Resources[0]
		return answer{o.ErrorCode, deref(o.ErrorMessage)}
	}
	require.Equal(t, answer{}, run(ofTopic, "a", "retention.ms", "1000", "flush.ms", "1"))
	require.Equal(t, answer{}, run(ofTopic, "a", "retention.bytes", "1000"))
	require.Equal(t, map[string]string{"retention.bytes": "1000"}, w.v.img.Config(metadata.ResourceTopic, "a"))
	require.Equal(t, answer{42, "Null value not supported for : retention.ms"}, run(ofTopic, "a", "retention.ms", "null"))
	require.Equal(t, answer{42, "Error due to duplicate config keys"}, run(ofTopic, "a", "retention.ms", "1", "retention.ms", "2"))
	require.Equal(t, answer{40, "Unknown topic config name: nope"}, run(ofTopic, "a", "nope", "1"))
	require.Equal(t, answer{42, "Unknown resource type 8"}, run(ofLogger, "1", "root", "INFO"))
	require.Equal(t, answer{40, "Cluster-level min.insync.replicas cannot be removed while ELR is enabled."}, run(ofBroker, ""))
	require.Equal(t, answer{}, run(ofTopic, "a"))
	require.Nil(t, w.v.img.Config(metadata.ResourceTopic, "a"))

	r := kmsg.NewPtrAlterConfigsRequest()
	res := kmsg.NewAlterConfigsRequestResource()
	res.ResourceType, res.ResourceName = ofTopic, "a"
	r.Resources = append(r.Resources, res, res)
	for _, o := range ask[*kmsg.AlterConfigsResponse](w, r).Resources {
		require.Equal(t, int16(42), o.ErrorCode)
	}
}

type update struct {
	feature string
	level   int16
	kind    int8
}

func (w *world) update(version int16, us ...update) *kmsg.UpdateFeaturesResponse {
	r := kmsg.NewPtrUpdateFeaturesRequest()
	r.Version = version
	for _, u := range us {
		f := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
		f.Feature, f.MaxVersionLevel, f.UpgradeType = u.feature, u.level, u.kind
		r.FeatureUpdates = append(r.FeatureUpdates, f)
	}
	return ask[*kmsg.UpdateFeaturesResponse](w, r)
}

// Texts as a running Apache Kafka 4.4.0 answers them.
func TestUpdateFeatures(t *testing.T) {
	const prefix = "The update failed for all features since the following feature had an error: "
	elr, mv := metadata.FeatureELRVersion, metadata.FeatureMetadataVersion
	for name, tc := range map[string]struct {
		ask  []update
		want string
	}{
		"unknown":        {[]update{{"nope", 1, 1}}, "Invalid update version 1 for feature nope. Local controller 1 does not support this feature."},
		"same":           {[]update{{elr, 1, 1}}, ""},
		"too high":       {[]update{{elr, 5, 1}}, "Invalid update version 5 for feature " + elr + ". Local controller 1 only supports versions 0-1"},
		"negative":       {[]update{{elr, -1, 1}}, "Invalid update version -1 for feature " + elr + ". A feature version cannot be less than 0."},
		"down as up":     {[]update{{elr, 0, 1}}, "Invalid update version 0 for feature " + elr + ". Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe downgrade."},
		"bad type":       {[]update{{elr, 1, 7}}, "Invalid update version 1 for feature " + elr + ". The controller does not support the given upgrade type."},
		"type 0":         {[]update{{elr, 1, 0}}, "Invalid update version 1 for feature " + elr + ". The controller does not support the given upgrade type."},
		"down, safe":     {[]update{{elr, 0, 2}}, ""},
		"metadata up":    {[]update{{mv, 30, 1}}, "Invalid update version 30 for feature metadata.version. Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe downgrade."},
		"metadata safe":  {[]update{{mv, 30, 2}}, "Unsupported metadata.version downgrade from 33 to 30. Refusing to perform the requested downgrade because it might delete metadata information."},
		"metadata force": {[]update{{mv, 30, 3}}, "Unsupported metadata.version downgrade from 33 to 30. Unsafe metadata downgrade is not supported in this version."},
		"metadata low":   {[]update{{mv, 3, 3}}, "Invalid update version 3 for feature metadata.version. Local controller 1 only supports versions 7-33"},
		"none":           {nil, ""},
		"one of two":     {[]update{{elr, 0, 2}, {"nope", 1, 1}}, "Invalid update version 1 for feature nope. Local controller 1 does not support this feature."},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1)
			before := w.v.img
			got := w.update(2, tc.ask...)
			require.Nil(t, got.Results)
			if tc.want == "" {
				require.Zero(t, got.ErrorCode)
				require.Nil(t, got.ErrorMessage)
				return
			}
			require.Equal(t, int16(95), got.ErrorCode)
			require.Equal(t, prefix+tc.want, *got.ErrorMessage)
			require.Same(t, before, w.v.img, "all or nothing")
		})
	}
}

func TestUpdateFeaturesOlderVersionsAnswerEachFeature(t *testing.T) {
	w := newWorld(t, 1)
	got := w.update(1, update{metadata.FeatureELRVersion, 0, 2})
	require.Len(t, got.Results, 1)
	require.Equal(t, "NONE", *got.Results[0].ErrorMessage)
	require.Zero(t, w.v.img.Feature(metadata.FeatureELRVersion))
	require.Equal(t, int16(95), w.update(0, update{metadata.FeatureMetadataVersion, 30, 0}).ErrorCode)
}

func TestELRFeatureMovesMinISRToTheCluster(t *testing.T) {
	w := newWorld(t, 1)
	require.Equal(t, map[string]string{"min.insync.replicas": "1"}, w.v.img.Config(metadata.ResourceBroker, ""), "as in a new Kafka cluster")
	require.Zero(t, w.update(2, update{metadata.FeatureELRVersion, 0, 2}).ErrorCode)
	require.Equal(t, []answer{{}, {}}, w.alter(false, one(ofBroker, "1", change{opSet, "min.insync.replicas", "1"}),
		one(ofBroker, "", change{opDelete, "min.insync.replicas", "null"})))
	require.Zero(t, w.update(2, update{metadata.FeatureELRVersion, 1, 1}).ErrorCode)
	require.Equal(t, map[string]string{"min.insync.replicas": "1"}, w.v.img.Config(metadata.ResourceBroker, ""))
	require.Nil(t, w.v.img.Config(metadata.ResourceBroker, "1"))
}

// Without the ELR nobody would know who may lead a partition whose ISR is empty.
func TestELRFeatureStaysWhilePartitionsNeedIt(t *testing.T) {
	w := newWorld(t, 2)
	w.create("t", []int32{1})
	w.silence(1)
	require.Contains(t, *w.update(2, update{metadata.FeatureELRVersion, 0, 2}).ErrorMessage, "t-0 has no in-sync replica")
	w.restart(1, 2, true)
	require.Zero(t, w.update(2, update{metadata.FeatureELRVersion, 0, 2}).ErrorCode)
}

func TestFeatureOfAnOldBrokerHoldsTheClusterBack(t *testing.T) {
	w := newWorld(t, 1)
	require.Zero(t, w.update(2, update{metadata.FeatureELRVersion, 0, 2}).ErrorCode)
	r := registration(2, 1)
	r.Features = r.Features[:0]
	f := kmsg.NewBrokerRegistrationRequestFeature()
	f.Name, f.MinSupportedVersion, f.MaxSupportedVersion = metadata.FeatureMetadataVersion, 7, 33
	r.Features = append(r.Features, f)
	require.Zero(t, ask[*kmsg.BrokerRegistrationResponse](w, r).ErrorCode)
	require.Contains(t, *w.update(2, update{metadata.FeatureELRVersion, 1, 1}).ErrorMessage, "Broker 2 only supports versions 0-0")
}

// A lower min.insync.replicas lets the leader commit without the ELR, so the ELR must go with it; a higher one changes
// nothing by itself.
func TestLowerMinISREmptiesTheELR(t *testing.T) {
	for name, lower := range map[string]resourceChange{
		"of the topic":   one(ofTopic, "t", change{opSet, minISRKey, "1"}),
		"of the cluster": one(ofBroker, "", change{opSet, minISRKey, "1"}),
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 3)
			require.Equal(t, []answer{{}}, w.alter(false, one(ofBroker, "", change{opSet, minISRKey, "3"})))
			w.create("t", []int32{1, 2, 3})
			w.create("other", []int32{1, 2, 3})
			w.set("other", minISRKey, "3")
			w.silence(3)
			require.Equal(t, []int32{3}, w.state("t").elr)
			require.Equal(t, []answer{{}}, w.alter(false, one(ofTopic, "t", change{opSet, minISRKey, "3"})))
			require.Equal(t, []int32{3}, w.state("t").elr, "still too few in sync")
			if lower.kind == ofBroker {
				require.Equal(t, []answer{{}}, w.alter(false, one(ofTopic, "t", change{opDelete, minISRKey, "null"})))
			}
			require.Equal(t, []answer{{}}, w.alter(false, lower))
			require.Empty(t, w.state("t").elr)
			require.Equal(t, []int32{3}, w.state("other").elr)
		})
	}
}

func TestAllowingUncleanElectionsElectsAtOnce(t *testing.T) {
	w := newWorld(t, 2)
	w.create("t", []int32{1, 2})
	w.silence(2)
	w.silence(1)
	w.restart(2, 2, true)
	require.Equal(t, int32(-1), w.state("t").leader)
	require.Equal(t, []answer{{}}, w.alter(false, one(ofTopic, "t", change{opSet, uncleanKey, "true"})))
	require.Equal(t, state{leader: 2, isr: []int32{2}, leaderEpoch: 2, isRecovering: true}, w.state("t"))
}
