package api

import (
	"bytes"
	"context"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/internal/broker"
	"github.com/kbroker/kbroker/protocol"
)

// kafka44 holds the ranges that a broker of Apache Kafka 4.4 advertises on a client listener.
var kafka44 = map[int16][2]int16{
	0: {0, 13}, 1: {4, 18}, 2: {1, 11}, 3: {0, 13}, 8: {2, 10}, 9: {1, 10}, 10: {0, 6}, 11: {0, 9}, 12: {0, 4}, 13: {0, 5},
	14: {0, 5}, 15: {0, 6}, 16: {0, 5}, 17: {0, 1}, 18: {0, 5}, 19: {2, 7}, 20: {1, 6}, 21: {0, 2}, 22: {0, 5}, 23: {2, 4},
	27: {1, 2}, 29: {1, 3}, 32: {1, 4}, 33: {0, 2}, 35: {1, 5}, 36: {0, 2}, 37: {0, 3}, 42: {0, 3}, 44: {0, 1}, 47: {0, 0},
	48: {0, 1}, 55: {0, 2}, 57: {0, 2}, 60: {0, 2}, 61: {0, 0}, 74: {0, 1}, 75: {0, 0},
}

// lower holds the keys that are served below Apache Kafka's floor for old clients.
var lower = map[int16]int16{8: 1, 19: 0, 20: 0, 29: 0, 32: 0, 35: 0}

func TestRangesAreThoseOfKafkaAndLowerWhereOldClientsNeedIt(t *testing.T) {
	table := NewTable()
	for _, a := range table.APIs() {
		want, ok := kafka44[a.Key]
		require.True(t, ok, "%s", a.Name())
		if low, ok := lower[a.Key]; ok {
			want[0] = low
		}
		require.Equal(t, want, [2]int16{a.Lowest(), a.Max}, "%s", a.Name())
		require.LessOrEqual(t, a.Max, kmsg.RequestForKey(a.Key).MaxVersion(), "%s: kmsg cannot decode it", a.Name())
		require.Equal(t, a.Key == 0, a.Overlaps, "%s", a.Name())
	}
	require.Len(t, table.APIs(), len(kafka44))
}

func TestTableFinds(t *testing.T) {
	table := NewTable()
	for _, key := range []int16{-1, 4, 52, 1000, 32767, -32768} {
		require.Nil(t, table.Find(key))
	}
	p := table.Find(0)
	require.Equal(t, "Produce", p.Name())
	for v, want := range map[int16]bool{-1: false, 0: true, 2: true, 3: true, 13: true, 14: false} {
		require.Equal(t, want, p.Serves(v))
	}
	for key, want := range map[int16]int16{0: 9, 3: 9, 17: -1, 18: 3, 75: 0, 52: 0, 4: 4, 1000: -1, -1: -1} {
		require.Equal(t, want, table.FlexibleFrom(key), "key %d", key)
	}
}

// librdkafka switches features on by the presence of exact low versions; see rdkafka_feature.c.
func TestVersionsThatLibrdkafkaLooksFor(t *testing.T) {
	table := NewTable()
	for key, versions := range map[int16][]int16{
		0: {0, 3, 7}, 1: {4, 10}, 2: {1}, 8: {1, 2}, 9: {1}, 10: {0}, 11: {0}, 12: {0}, 13: {0}, 14: {0}, 17: {0, 1}, 22: {0}, 36: {0},
	} {
		for _, v := range versions {
			require.True(t, table.Find(key).Serves(v), "key %d version %d", key, v)
		}
	}
}

func TestDocumentIsUpToDate(t *testing.T) {
	const path = "../../../docs/apis.md"
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	var want bytes.Buffer
	require.NoError(t, WriteDocument(&want))
	require.Equal(t, want.String(), string(got), "run go generate ./internal/server/api")
	require.Contains(t, want.String(), "| 0 | Produce | 3-13 (0-2) |")
	require.NotContains(t, want.String(), "\t")
}

func TestUnsupportedVersionOfApiVersionsOnly(t *testing.T) {
	w := newWorld(t)
	rep, ok := w.RefuseVersion(18)
	require.True(t, ok)
	require.Equal(t, []byte{0, 35, 0, 0, 0, 1, 0, 18, 0, 0, 0, 5}, rep.Message.AppendTo(nil))
	_, ok = w.RefuseVersion(3)
	require.False(t, ok)
}

func TestSoftwareIsRemembered(t *testing.T) {
	w := newWorld(t)
	p := &Peer{}
	require.Equal(t, Software{}, p.Software())
	req := kmsg.NewPtrApiVersionsRequest()
	req.Version, req.ClientSoftwareName, req.ClientSoftwareVersion = 3, "kgo", "1.2"
	w.Serve(context.Background(), w.Table().Find(18), &Request{Peer: p, Version: 3, Body: req}, func(Reply) {})
	require.Equal(t, Software{"kgo", "1.2"}, p.Software())
}

func TestIsTopicName(t *testing.T) {
	for name, want := range map[string]bool{
		"a": true, "A.b_c-9": true, strings.Repeat("x", 249): true, "...": true,
		"": false, ".": false, "..": false, "a b": false, "ä": false, "a/b": false, strings.Repeat("x", 250): false,
	} {
		require.Equal(t, want, isTopicName(name), name)
	}
}

func TestMetricsCollect(t *testing.T) {
	w := newWorld(t)
	r := prometheus.NewRegistry()
	require.NoError(t, r.Register(w.Service))
	families, err := r.Gather()
	require.NoError(t, err)
	require.Len(t, families, 3)
}

// typical returns a request with one element in every list, so that handlers have something to do.
func typical(r *rand.Rand, key, version int16) kmsg.Request {
	req := kmsg.RequestForKey(key)
	req.SetVersion(version)
	fillRandom(r, req)
	return req
}

// Every API answers every version it serves exactly once and in a form that decodes (A1).
func TestEveryVersionIsAnswered(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	w := newWorld(t)
	for _, a := range w.Table().APIs() {
		for v := a.Lowest(); v <= a.Max; v++ {
			for range 5 {
				serveBytes(t, w, a, v, typical(r, a.Key, v).AppendTo(nil))
			}
		}
	}
}

// serveBytes runs a request body through guard, decoder and handler, as internal/server does.
func serveBytes(t testing.TB, w *world, a *API, version int16, body []byte) {
	if protocol.Guard(a.Key, version, body) != nil {
		return
	}
	req := kmsg.RequestForKey(a.Key)
	req.SetVersion(version)
	if req.ReadFrom(body) != nil {
		return
	}
	w.log.Reset()
	replies := 0
	r := &Request{Peer: &Peer{Listener: "PLAINTEXT", Host: "h", Principal: Anonymous}, Version: version, Body: req}
	w.Serve(context.Background(), a, r, func(rep Reply) {
		replies++
		w.show(t, rep)
	})
	require.Equal(t, 1, replies, "%s v%d", a.Name(), version)
}

// No body makes a handler panic, and each gets one answer that decodes (A1, A2).
func FuzzHandlers(f *testing.F) {
	r := rand.New(rand.NewPCG(5, 6))
	table := NewTable()
	for _, a := range table.APIs() {
		for _, v := range []int16{a.Lowest(), a.Max} {
			f.Add(a.Key, v, typical(r, a.Key, v).AppendTo(nil))
		}
	}
	f.Fuzz(func(t *testing.T, key, version int16, body []byte) {
		a := table.Find(key)
		if a == nil || !a.Serves(version) {
			return
		}
		w := newWorld(t)
		w.imageLine(t, []string{"broker", "1"})
		w.imageLine(t, []string{"topic", "a", "leader=1,1"})
		serveBytes(t, w, w.Table().Find(key), version, body)
	})
}

var _ broker.DataPlane = fakeData{}
