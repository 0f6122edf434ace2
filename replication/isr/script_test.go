package isr

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/twmb/franz-go/pkg/kerr"
)

// TestScripts runs the conversations in testdata with their complete expected trace. Broker 1 leads; brokers 1 to 5 are
// alive with broker epoch 10 times their id. Lag is 30 s. Commands, one per line; key=value pairs default as shown:
//
//	lead | meta   epoch=1 part=1 replicas=1,2,3 isr=1,2,3 [min=1 end=0 hw=0, lead only]; 2/7 in replicas is incarnation 7
//	broker ID     epoch=10*ID (alive|fenced|stopping)
//	fetch ID OFF  epoch=10*ID inc=1 start=0 [noepoch]
//	append N      min N      at SECONDS     tick     state
//	answer ID     ok epoch=1 part=N isr=...  |  NAME_OF_AN_ERROR
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		var r *runner
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd == "new" {
				r = newRunner()
			}
			var out strings.Builder
			for line := range strings.Lines(d.Input) {
				if line = strings.TrimSpace(line); line != "" {
					fmt.Fprintf(&out, "%s -> %s\n", line, r.step(t, line))
				}
			}
			return out.String()
		})
	})
}

type cluster map[int32]Broker

func (c cluster) Broker(id int32) Broker { return c[id] }

type runner struct {
	o       Options
	l       *Leader
	brokers cluster
	start   time.Time
	now     time.Time
	end, hw int64
}

func newRunner() *runner {
	r := &runner{brokers: cluster{}, start: time.Unix(1000, 0)}
	r.now = r.start
	for id := range int32(5) {
		r.brokers[id+1] = Broker{Epoch: int64(id+1) * 10, Alive: true}
	}
	r.o = Options{Self: 1, SelfEpoch: func() int64 { return r.brokers[1].Epoch }, Cluster: r.brokers, Lag: 30 * time.Second, Base: r.start}
	return r
}

type args []string

func (a args) str(key, def string) string {
	for _, w := range a {
		if v, ok := strings.CutPrefix(w, key+"="); ok {
			return v
		}
	}
	return def
}

func (a args) num(t *testing.T, key string, def int64) int64 {
	return number(t, a.str(key, strconv.FormatInt(def, 10)))
}

func number(t *testing.T, s string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func ids(t *testing.T, s string) (out []int32) {
	for _, w := range strings.Split(s, ",") {
		out = append(out, int32(number(t, w)))
	}
	return out
}

func (a args) assignment(t *testing.T) Assignment {
	as := Assignment{LeaderEpoch: int32(a.num(t, "epoch", 1)), PartitionEpoch: int32(a.num(t, "part", 1)), ISR: ids(t, a.str("isr", "1,2,3"))}
	for _, w := range strings.Split(a.str("replicas", "1,2,3"), ",") {
		id, inc, ok := strings.Cut(w, "/")
		if !ok {
			inc = "1"
		}
		as.Replicas = append(as.Replicas, Replica{int32(number(t, id)), number(t, inc)})
	}
	return as
}

func (r *runner) step(t *testing.T, line string) string {
	words := strings.Fields(line)
	a := args(words[1:])
	switch words[0] {
	case "lead":
		r.end, r.hw = a.num(t, "end", 0), a.num(t, "hw", 0)
		r.l = New(&r.o, int32(a.num(t, "min", 1)), a.assignment(t), r.end, r.now)
		return r.advance()
	case "meta":
		if !r.l.Update(a.assignment(t), r.end, r.now) {
			return "outdated"
		}
		return r.advance()
	case "broker":
		id := int32(number(t, a[0]))
		r.brokers[id] = Broker{Epoch: a.num(t, "epoch", int64(id)*10), Alive: !slices.Contains(a, "fenced"), ShuttingDown: slices.Contains(a, "stopping")}
		return "noted"
	case "fetch":
		return r.fetch(t, a)
	case "append":
		r.end += number(t, a[0])
		return fmt.Sprintf("end %d, %s", r.end, r.advance())
	case "min":
		r.l.SetMinInSync(int32(number(t, a[0])))
		return r.advance()
	case "at":
		r.now = r.start.Add(time.Duration(number(t, a[0])) * time.Second)
		return r.advance()
	case "tick":
		return proposal(r.l.Tick(r.end, r.now)) + r.advance()
	case "answer":
		return r.answer(t, a)
	case "state":
		return r.state()
	}
	t.Fatalf("unknown command %q", line)
	return ""
}

func (r *runner) fetch(t *testing.T, a args) string {
	id := int32(number(t, a[0]))
	p, err := r.l.Fetched(Fetch{
		Replica: id, Incarnation: a.num(t, "inc", 1), BrokerEpoch: a.num(t, "epoch", int64(id)*10), Offset: number(t, a[1]),
		LogStart: a.num(t, "start", 0), KnowsEpoch: !slices.Contains(a, "noepoch"),
	}, r.end, r.hw, r.now)
	if err != nil {
		return "ERR " + err.Error()
	}
	return proposal(p) + r.advance()
}

func (r *runner) answer(t *testing.T, a args) string {
	ans := Answer{LeaderEpoch: int32(a.num(t, "epoch", 1)), PartitionEpoch: int32(a.num(t, "part", 0))}
	if a[1] == "ok" {
		ans.ISR = ids(t, a.str("isr", ""))
	} else {
		ans.Err = fmt.Errorf("lost: %s", a[1])
		for _, e := range []error{
			kerr.OperationNotAttempted, kerr.IneligibleReplica, kerr.UnknownTopicOrPartition, kerr.UnknownTopicID, kerr.FencedLeaderEpoch,
			kerr.InvalidUpdateVersion, kerr.InvalidRequest, kerr.NewLeaderElected, kerr.NotController, kerr.UnknownServerError,
		} {
			if strings.HasPrefix(e.Error(), a[1]+":") {
				ans.Err = fmt.Errorf("answered: %w", e)
			}
		}
	}
	resend, changed := r.l.Answer(uint64(number(t, a[0])), ans)
	out := ""
	if changed {
		out = "changed, "
	}
	if resend != nil {
		out += "again: " + proposal(resend)
	}
	return out + r.advance()
}

func proposal(p *Proposal) string {
	if p == nil {
		return ""
	}
	var ms []string
	for _, m := range p.ISR {
		ms = append(ms, fmt.Sprintf("%d@%d", m.Broker, m.Epoch))
	}
	return fmt.Sprintf("propose %d [%s] in epoch %d/%d, ", p.ID, strings.Join(ms, " "), p.LeaderEpoch, p.PartitionEpoch)
}

func (r *runner) advance() string {
	r.hw = r.l.Advance(r.end, r.hw, r.now)
	b := r.l.Bound(r.end, r.now)
	return fmt.Sprintf("hw %d (%s of %d)", r.hw, b.Why, b.Replica)
}

func (r *runner) state() string {
	var b strings.Builder
	le, pe := r.l.Epochs()
	fmt.Fprintf(&b, "epoch %d/%d from %d isr %v below min %v/%v low %d", le, pe, r.l.EpochStart(), r.l.ISR(), r.l.BelowMin(), r.l.BelowMinAfter(), r.l.LowWatermark(r.end))
	if p := r.l.Pending(); p != nil {
		fmt.Fprintf(&b, " pending %d", p.ID)
	}
	for f := range r.l.Followers(r.now) {
		fmt.Fprintf(&b, "\n  %d in sync %v log %d-%d behind %v", f.ID, f.InSync, f.LogStart, f.LogEnd, f.Behind)
	}
	return b.String()
}
