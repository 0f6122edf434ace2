package api

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/config"
	"github.com/kbroker/kbroker/internal/metadata"
	"github.com/kbroker/kbroker/internal/model"
)

// world is a Service on fakes, as a script sets it up. What the fakes are asked goes to the transcript.
type world struct {
	*Service
	image  *metadata.Image
	config *config.Config
	leader int32
	denied map[string]bool
	noting sync.Mutex // guards log: some handlers ask from several goroutines
	log    strings.Builder
	// canned are the answers of controller and groups in JSON, by API name; without one they answer with an empty message.
	canned map[string]string
	// fetchSessions are the ids of the fetch sessions in the order in which they were made; scripts use their numbers from 1.
	fetchSessions []int32
	// down is why controller and producer ids do not answer; nil when they do.
	down error
}

func newWorld(t testing.TB, overrides ...string) *world {
	t.Helper()
	cfg, report, err := config.Load(config.Options{Overrides: overrides})
	require.NoError(t, err, "%v", report)
	w := &world{image: metadata.Empty(), config: cfg, leader: 1, denied: map[string]bool{}, canned: map[string]string{}}
	w.Service = NewService(Backends{
		NodeID: 1, Data: fakeData{w}, Cluster: w.cluster(), Controller: fakeController{w}, Groups: fakeGroups{w},
		ProducerIDs: fakeIDs{w}, Authorizer: AllowAll{},
	}, rand.New(rand.NewPCG(1, 2)))
	return w
}

type fakeCluster struct{ w *world }

func (w *world) cluster() Cluster              { return fakeCluster{w} }
func (f fakeCluster) Image() *metadata.Image   { return f.w.image }
func (f fakeCluster) Config() *config.Config   { return f.w.config }
func (f fakeCluster) Leader() (id, term int32) { return f.w.leader, 7 }

// apply changes the image.
func (w *world) apply(t testing.TB, rs ...metadata.Record) {
	t.Helper()
	next, _, err := w.image.Apply(rs)
	require.NoError(t, err)
	w.image = next
}

// topicID is the id that scripts give to a topic.
func topicID(name string) model.UUID {
	var id model.UUID
	copy(id[:], name)
	id[15] = 1
	return id
}

func ints(s string) []int32 {
	var out []int32
	for _, f := range strings.FieldsFunc(s, func(r rune) bool { return r == ',' }) {
		n, _ := strconv.Atoi(f)
		out = append(out, int32(n))
	}
	return out
}

// deny makes the authorizer refuse an operation on a resource.
type denyList struct{ w *world }

func (d denyList) Enabled() bool { return true }

func (d denyList) Allowed(who Caller, op kmsg.ACLOperation, on Resource) bool {
	return !d.w.denied[fmt.Sprintf("%s %s %s", op, on.Type, on.Name)]
}

func (d denyList) AllowedSomewhere(_ Caller, op kmsg.ACLOperation, on kmsg.ACLResourceType) bool {
	return !d.w.denied[fmt.Sprintf("%s %s *", op, on)]
}

// run executes one command of a script.
func (w *world) run(t *testing.T, d *datadriven.TestData) string {
	t.Helper()
	switch d.Cmd {
	case "image":
		for line := range strings.Lines(d.Input) {
			w.imageLine(t, strings.Fields(line))
		}
		return ""
	case "config":
		cfg, report, err := config.Load(config.Options{Overrides: strings.Fields(d.Input)})
		require.NoError(t, err, "%v", report)
		w.config = cfg
		return ""
	case "deny":
		w.Authorizer, w.denied = denyList{w}, map[string]bool{}
		for line := range strings.Lines(d.Input) {
			w.denied[strings.TrimSpace(line)] = true
		}
		return ""
	case "controller":
		var down string
		w.down = nil
		if d.HasArg("down") {
			d.ScanArgs(t, "down", &down)
			w.down = errorNamed(down)
		}
		w.leader = 1
		if d.HasArg("leader") {
			var id int
			d.ScanArgs(t, "leader", &id)
			w.leader = int32(id)
		}
		return ""
	case "canned":
		w.canned[d.CmdArgs[0].Key] = d.Input
		return ""
	}
	name, version := d.Cmd, d.CmdArgs[0].Key
	v, err := strconv.Atoi(strings.TrimPrefix(version, "v"))
	require.NoError(t, err)
	return w.request(t, name, int16(v), d.Input)
}

// imageLine changes the image:
//
//	broker 1 [fenced] [rack=r] [listener=NAME] [dirs=n]
//	topic name [leader=1,2] [replicas=1,2] [isr=1] [elr=..]   (one partition per leader)
//	delete name
//	topic-config|broker-config|group-config|metrics-config name key=value
//	feature name level
//	cluster id
func (w *world) imageLine(t *testing.T, f []string) {
	opts := map[string]string{}
	for _, a := range f[1:] {
		k, v, _ := strings.Cut(a, "=")
		opts[k] = v
	}
	switch f[0] {
	case "broker":
		w.brokerLine(t, f[1], opts)
	case "topic":
		w.topicLine(t, f[1], opts)
	case "delete":
		w.apply(t, &metadata.RemoveTopicRecord{ID: topicID(f[1])})
	case "feature":
		n, err := strconv.Atoi(f[2])
		require.NoError(t, err)
		w.apply(t, &metadata.FeatureRecord{Name: f[1], Level: int16(n)})
	case "cluster":
		w.apply(t, &metadata.ClusterRecord{ClusterID: f[1]})
	default:
		kinds := map[string]metadata.ResourceType{
			"topic-config": metadata.ResourceTopic, "broker-config": metadata.ResourceBroker,
			"group-config": metadata.ResourceGroup, "metrics-config": metadata.ResourceClientMetrics,
		}
		kind, ok := kinds[f[0]]
		require.True(t, ok, "%v", f)
		k, v, _ := strings.Cut(f[len(f)-1], "=")
		name := ""
		if len(f) == 3 {
			name = f[1]
		}
		w.apply(t, &metadata.ConfigRecord{Resource: metadata.ConfigResource{Type: kind, Name: name}, Key: k, Value: &v})
	}
}

func (w *world) brokerLine(t *testing.T, id string, opts map[string]string) {
	n, err := strconv.Atoi(id)
	require.NoError(t, err)
	listener := opts["listener"]
	if listener == "" {
		listener = "PLAINTEXT"
	}
	_, fenced := opts["fenced"]
	r := &metadata.RegisterBrokerRecord{
		ID: int32(n), Epoch: w.image.NextBrokerEpoch(), Rack: opts["rack"], Fenced: fenced, Incarnation: model.UUID{byte(n), 1},
		Listeners: []metadata.Listener{{Name: listener, Host: "host" + id, Port: uint16(9000 + n)}},
	}
	if opts["dirs"] != "" {
		r.LogDirs = []model.UUID{{byte(n), 9}}
	}
	w.apply(t, r)
}

func (w *world) topicLine(t *testing.T, name string, opts map[string]string) {
	id := topicID(name)
	rs := []metadata.Record{&metadata.TopicRecord{Name: name, ID: id}}
	leaders := ints(opts["leader"])
	if len(leaders) == 0 {
		leaders = []int32{1}
	}
	for i, leader := range leaders {
		p := metadata.Partition{Replicas: ints(opts["replicas"]), ISR: ints(opts["isr"]), ELR: ints(opts["elr"]), Leader: leader, LeaderEpoch: int32(10 + i)}
		if len(p.Replicas) == 0 {
			p.Replicas = []int32{max(leader, 1)}
		}
		if len(p.ISR) == 0 {
			p.ISR = p.Replicas
		}
		for k, r := range p.Replicas {
			dir := model.UUID{}
			if opts["dirs"] != "" {
				dir = model.UUID{byte(r), 9 + byte(k)}
			}
			p.Directories = append(p.Directories, dir)
			p.Incarnations = append(p.Incarnations, 1)
		}
		rs = append(rs, &metadata.PartitionRecord{TopicID: id, Index: int32(i), State: p})
	}
	w.apply(t, rs...)
}

func requestNamed(t testing.TB, name string) kmsg.Request {
	for key := range int16(kmsg.MaxKey + 1) {
		if kmsg.NameForKey(key) == name {
			return kmsg.RequestForKey(key)
		}
	}
	require.Fail(t, "no API "+name)
	return nil
}

func errorNamed(name string) error {
	for code := range int16(150) {
		if e := kerr.TypedErrorForCode(code); e != nil && e.Message == name {
			return fmt.Errorf("as the script says: %w", e)
		}
	}
	panic("no error " + name)
}

// errorOf gives topics, groups and the like whose name is error.SOMETHING that error.
func errorOf(name string) error {
	if e, ok := strings.CutPrefix(name, "error."); ok {
		return errorNamed(e)
	}
	return nil
}

// request sends a request through the codec of its version to its handler, and the answer through that of the answer. It
// returns what the backends were asked and what the client gets.
func (w *world) request(t testing.TB, name string, version int16, body string) string {
	t.Helper()
	w.log.Reset()
	req := requestNamed(t, name)
	req.SetVersion(version)
	fromJSON(t, body, req)
	if f, ok := req.(*kmsg.FetchRequest); ok && f.SessionID > 0 && int(f.SessionID) <= len(w.fetchSessions) {
		f.SessionID = w.fetchSessions[f.SessionID-1]
	}
	wire := req.AppendTo(nil)
	decoded := kmsg.RequestForKey(req.Key())
	decoded.SetVersion(version)
	require.NoError(t, decoded.ReadFrom(wire))
	a := w.Table().Find(req.Key())
	require.NotNil(t, a, name)
	require.True(t, a.Serves(version), "%s v%d", name, version)

	replies := 0
	var answered Reply
	id := "client"
	r := &Request{Peer: &Peer{Listener: "PLAINTEXT", Host: "10.0.0.1", Principal: Anonymous}, ClientID: &id, Version: version, Body: decoded}
	w.Serve(context.Background(), a, r, func(rep Reply) { replies++; answered = rep })
	require.Equal(t, 1, replies, "A1")
	return w.log.String() + w.show(t, answered)
}

// show prints a reply as a client decodes it.
func (w *world) show(t testing.TB, rep Reply) string {
	var wire []byte
	var kind kmsg.Response
	switch {
	case rep.Close:
		return "connection closed\n"
	case rep.Fetch != nil:
		defer rep.Fetch.Release()
		wire = weave(t, rep.Fetch)
		kind = rep.Fetch.Response
	case rep.Message != nil:
		wire, kind = rep.Message.AppendTo(nil), rep.Message
	default:
		return "no answer\n"
	}
	resp := kmsg.ResponseForKey(kind.Key())
	resp.SetVersion(kind.GetVersion())
	require.NoError(t, resp.ReadFrom(wire))
	require.Equal(t, wire, resp.AppendTo(nil), "the answer is canonical")
	if f, ok := resp.(*kmsg.FetchResponse); ok && f.SessionID != 0 {
		f.SessionID = w.sessionNumber(f.SessionID)
	}
	return dump(resp)
}

// sessionNumber returns the number of a session, a new one if it is new.
func (w *world) sessionNumber(id int32) int32 {
	if i := slices.Index(w.fetchSessions, id); i >= 0 {
		return int32(i + 1)
	}
	w.fetchSessions = append(w.fetchSessions, id)
	return int32(len(w.fetchSessions))
}

// weave returns the bytes of a Fetch answer with the records in their places.
func weave(t testing.TB, a *FetchAnswer) []byte {
	head, cuts := a.AppendTo(nil)
	var out []byte
	at := 0
	for _, c := range cuts {
		out = append(out, head[at:c.At]...)
		at = c.At
		f, pos := c.Records.File()
		b := make([]byte, c.Records.Len())
		_, err := f.ReadAt(b, pos)
		require.NoError(t, err)
		out = append(out, b...)
	}
	return append(out, head[at:]...)
}

// fromJSON fills a message. Strings of the form id:NAME stand for the id of that topic.
func fromJSON(t testing.TB, text string, into any) {
	t.Helper()
	if strings.TrimSpace(text) == "" {
		return
	}
	var tree any
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	require.NoError(t, dec.Decode(&tree), text)
	b, err := json.Marshal(withIDs(tree))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(b, into), text)
}

func withIDs(v any) any {
	switch v := v.(type) {
	case string:
		if name, ok := strings.CutPrefix(v, "id:"); ok {
			id := topicID(name)
			var nums []any
			for _, b := range id {
				nums = append(nums, int(b))
			}
			return nums
		}
	case []any:
		for i := range v {
			v[i] = withIDs(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = withIDs(v[k])
		}
	}
	return v
}

// dump prints a message, a line for every structure, without what has its default value.
func dump(v any) string {
	var b strings.Builder
	rv := reflect.ValueOf(v)
	fmt.Fprintf(&b, "%s", strings.TrimPrefix(reflect.TypeOf(v).String(), "*"))
	if m, ok := v.(interface{ GetVersion() int16 }); ok {
		fmt.Fprintf(&b, " v%d", m.GetVersion())
	}
	dumpStruct(&b, reflect.Indirect(rv), 1)
	return b.String()
}

func dumpStruct(b *strings.Builder, v reflect.Value, depth int) {
	def := reflect.New(v.Type())
	if d, ok := def.Interface().(interface{ Default() }); ok {
		d.Default()
	}
	var nested []func()
	for i := range v.NumField() {
		f, fd := v.Field(i), def.Elem().Field(i)
		name := v.Type().Field(i).Name
		if name == "UnknownTags" || name == "Version" || !v.Type().Field(i).IsExported() || reflect.DeepEqual(f.Interface(), fd.Interface()) {
			continue
		}
		if err, ok := f.Interface().(error); ok {
			fmt.Fprintf(b, " %s=%q", name, err)
			continue
		}
		switch {
		case name == "ErrorCode" || name == "ConfigErrorCode":
			fmt.Fprintf(b, " %s=%s", name, kerr.TypedErrorForCode(int16(f.Int())).Message)
		case f.Kind() == reflect.Slice && f.Type().Elem().Kind() == reflect.Struct:
			nested = append(nested, func() {
				if f.Len() == 0 {
					fmt.Fprintf(b, "%s%s: none\n", strings.Repeat("  ", depth), name)
				}
				for k := range f.Len() {
					fmt.Fprintf(b, "%s%s", strings.Repeat("  ", depth), name)
					dumpStruct(b, f.Index(k), depth+1)
				}
			})
		case f.Kind() == reflect.Pointer && f.Type().Elem().Kind() == reflect.Struct:
			nested = append(nested, func() {
				fmt.Fprintf(b, "%s%s", strings.Repeat("  ", depth), name)
				dumpStruct(b, f.Elem(), depth+1)
			})
		case f.Kind() == reflect.Struct:
			nested = append(nested, func() {
				fmt.Fprintf(b, "%s%s", strings.Repeat("  ", depth), name)
				dumpStruct(b, f, depth+1)
			})
		default:
			fmt.Fprintf(b, " %s=%s", name, dumpValue(f))
		}
	}
	b.WriteByte('\n')
	for _, n := range nested {
		n()
	}
}

func dumpValue(v reflect.Value) string {
	switch x := v.Interface().(type) {
	case [16]byte:
		return dumpID(x)
	case model.UUID:
		return dumpID(x)
	case []byte:
		return fmt.Sprintf("%q", x)
	case []string:
		return fmt.Sprintf("%q", x)
	case fmt.Stringer:
		return x.String()
	}
	if v.Kind() == reflect.Pointer {
		return dumpValue(v.Elem())
	}
	if v.Kind() == reflect.String {
		return fmt.Sprintf("%q", v.String())
	}
	return fmt.Sprintf("%v", v.Interface())
}

func dumpID(id [16]byte) string {
	if id[15] != 1 {
		return model.UUID(id).String()
	}
	return "id:" + strings.TrimRight(string(id[:15]), "\x00")
}

func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/scripts", func(t *testing.T, path string) {
		w := newWorld(t)
		datadriven.RunTest(t, path, w.run)
	})
}

// fillRandom gives every field of a message a value: names that exist or not, small numbers, one or two elements a list.
func fillRandom(r *rand.Rand, v any) { fillValue(r, reflect.ValueOf(v).Elem()) }

func fillValue(r *rand.Rand, v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if name := v.Type().Field(i).Name; name != "Version" && name != "UnknownTags" && v.Field(i).CanSet() {
				fillValue(r, v.Field(i))
			}
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes(make([]byte, r.IntN(100)))
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), r.IntN(3), 3))
		for i := range v.Len() {
			fillValue(r, v.Index(i))
		}
	case reflect.Pointer:
		if r.IntN(3) > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			fillValue(r, v.Elem())
		}
	case reflect.String:
		v.SetString([]string{"", "a", "b", "a b", "__consumer_offsets", "1"}[r.IntN(6)])
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(int64(r.IntN(9)) - 3)
	case reflect.Bool:
		v.SetBool(r.IntN(2) == 0)
	case reflect.Array:
		if v.Type() == reflect.TypeFor[[16]byte]() {
			v.Set(reflect.ValueOf([16]byte(topicID([]string{"a", "b"}[r.IntN(2)]))))
		}
	default: // messages hold nothing else that matters
	}
}
