package config

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// readElsewhere are acting broker keys that fill fields without a key tag.
var readElsewhere = []string{
	"process.roles", "broker.id", "listeners", "advertised.listeners", "listener.security.protocol.map", "inter.broker.listener.name",
	"security.inter.broker.protocol", "controller.listener.names", "controller.quorum.voters", "controller.quorum.bootstrap.servers",
	"log.dir", "log.dirs", "metadata.log.dir", "max.connections.per.ip.overrides", "config.providers",
}

// taggedFields returns the type of every field by its key.
func taggedFields(t reflect.Type) map[string]reflect.Type {
	fields := map[string]reflect.Type{}
	for i := range t.NumField() {
		f := t.Field(i)
		if key, ok := f.Tag.Lookup("key"); ok {
			fields[key] = f.Type
		} else if f.Type.Kind() == reflect.Struct {
			for key, ft := range taggedFields(f.Type) {
				fields[key] = ft
			}
		}
	}
	return fields
}

func TestEveryFieldFitsItsKey(t *testing.T) {
	kinds := map[kmsg.ConfigType][]reflect.Kind{
		kmsg.ConfigTypeBoolean: {reflect.Bool}, kmsg.ConfigTypeString: {reflect.String}, kmsg.ConfigTypeClass: {reflect.String},
		kmsg.ConfigTypeShort: {reflect.Int16}, kmsg.ConfigTypeInt: {reflect.Int32, reflect.Int}, kmsg.ConfigTypeLong: {reflect.Int64},
		kmsg.ConfigTypeDouble: {reflect.Float64}, kmsg.ConfigTypeList: {reflect.Slice},
	}
	for resource, typ := range map[kmsg.ConfigResourceType]reflect.Type{
		ResourceBroker: reflect.TypeFor[Config](), ResourceTopic: reflect.TypeFor[Topic](),
	} {
		for key, ft := range taggedFields(typ) {
			k := LookupKey(resource, key)
			require.NotNil(t, k, key)
			require.True(t, k.Acts, "%s fills a field, so it acts", key)
			if ft == reflect.TypeFor[time.Duration]() {
				require.NotZero(t, unitOf(key), key)
				continue
			}
			require.Contains(t, kinds[k.Type], ft.Kind(), key)
			require.Zero(t, unitOf(key), "%s is a duration", key)
		}
	}
}

func TestWhatActsIsRead(t *testing.T) {
	read := map[string]bool{}
	for key := range taggedFields(reflect.TypeFor[Config]()) {
		read[key] = true
	}
	for _, key := range readElsewhere {
		read[key] = true
	}
	topic := taggedFields(reflect.TypeFor[Topic]())
	for _, key := range []string{"cleanup.policy", "message.timestamp.type", "internal.segment.bytes"} {
		topic[key] = nil
	}
	for _, k := range Keys(ResourceTopic) {
		_, has := topic[k.Name]
		require.Equal(t, has, k.Acts, k.Name)
		for _, s := range k.Synonyms {
			require.NotNil(t, LookupKey(ResourceBroker, s), s)
			read[s] = read[s] || k.Acts
		}
	}
	for _, k := range Keys(ResourceBroker) {
		require.Equal(t, read[k.Name], k.Acts, k.Name)
	}
}

func TestKeysAreDescribed(t *testing.T) {
	for _, r := range []kmsg.ConfigResourceType{ResourceBroker, ResourceTopic, ResourceGroup, ResourceClientMetrics} {
		last := ""
		for _, k := range Keys(r) {
			require.Less(t, last, k.Name, "sorted")
			last = k.Name
			require.True(t, strings.HasSuffix(k.Doc, "."), "%s: %q", k.Name, k.Doc)
			require.Contains(t, []string{"high", "medium", "low"}, k.Importance, k.Name)
			if k.Default != nil {
				_, err := parseValue(k, k.Default)
				require.NoError(t, err, k.Name)
			}
			require.Same(t, k, LookupKey(r, k.Name))
		}
	}
	require.Empty(t, Keys(kmsg.ConfigResourceTypeBrokerLogger))
	require.Nil(t, LookupKey(ResourceTopic, "retention"))
	require.True(t, LookupKey(ResourceBroker, "sasl.jaas.config").Sensitive())
	require.Equal(t, "per-broker", LookupKey(ResourceBroker, "listeners").Dynamic.String())
	require.Equal(t, "cluster-wide", LookupKey(ResourceBroker, "log.retention.ms").Dynamic.String())
	require.Equal(t, "read-only", LookupKey(ResourceBroker, "node.id").Dynamic.String())
}

func TestAllowedIsSaidInWords(t *testing.T) {
	for key, want := range map[string]string{
		"num.partitions": "at least 1", "compression.gzip.level": "-1 or 1 to 9", "compression.lz4.level": "1 to 17",
		"log.cleanup.policy": "any of compact, delete", "compression.type": "one of uncompressed, zstd, lz4, snappy, gzip, producer",
		"listeners": "not empty", "controller.quorum.voters": "id@host:port, ...", "log.flush.interval.ms": "",
		"controller.quorum.bootstrap.servers": "host:port, ...", "config.providers": "", "authorizer.class.name": "",
		"remote.log.metadata.manager.class.name": "not empty",
	} {
		require.Equal(t, want, LookupKey(ResourceBroker, key).Allowed(), key)
	}
	require.Contains(t, LookupKey(ResourceTopic, "leader.replication.throttled.replicas").Allowed(), "'*'")
	require.Contains(t, LookupKey(ResourceGroup, "share.auto.offset.reset").Allowed(), "by_duration")
}

func TestTablesWithFaults(t *testing.T) {
	const head = "name\n"
	good := "a\tINT\t1\thigh\t-\t0..\t-\tacts\tDoc."
	_, err := parseTable(head + good + "\n")
	require.NoError(t, err)
	for _, tc := range []struct{ row, want string }{
		{"a\tINT", "line 2: 2 columns, want 9"},
		{good + "\n" + good, "line 3: a stands twice"},
		{strings.Replace(good, "INT", "FOO", 1), `unknown type "FOO"`},
		{strings.Replace(good, "\t-\t0", "\tsome\t0", 1), `unknown dynamic level "some"`},
		{strings.Replace(good, "0..", "zero", 1), `unknown validator "zero"`},
		{strings.Replace(good, "0..", "x..1", 1), "lower end"},
		{strings.Replace(good, "0..", "1..x", 1), "upper end"},
		{strings.Replace(good, "acts", "act", 1), `unknown flag "act"`},
	} {
		_, err := parseTable(head + tc.row + "\n")
		require.ErrorContains(t, err, tc.want)
	}
}

func TestNumbersAreWrittenAsJavaWritesThem(t *testing.T) {
	for text, want := range map[string]string{
		"0": "0.0", "1": "1.0", "-0.5": "-0.5", "0.001": "0.001", "0.0009": "9.0E-4", "9999999": "9999999.0", "10000000": "1.0E7",
		"123456789.5": "1.234567895E8", "1e22": "1.0E22", "Infinity": "Infinity", "-Infinity": "-Infinity", "1e999": "Infinity",
		"0x1p3": "8.0", "2.5f": "2.5",
	} {
		k := LookupKey(ResourceBroker, "log.cleaner.io.max.bytes.per.second")
		v, err := parseValue(k, &text)
		require.NoError(t, err, text)
		require.Equal(t, want, *v.canonical(k.Type), text)
	}
}
