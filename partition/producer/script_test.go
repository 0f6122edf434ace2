package producer

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// TestScripts runs the conversations in testdata with their complete expected trace. Commands, one per line; key=value
// pairs default as shown:
//
//	p  pid=1 epoch=0 seq=0 n=1 ts=0 [txn] [coordinator|replication] [required] [guard=0]   check, then append a batch
//	m  pid=1 epoch=0 coord=0 tv=0 ts=0 (commit|abort) [replication]                         check, then append a marker
//	v  pid=1 epoch=0 seq=0 now=0 [bump]                                                     start a verification
//	hw offset    expire now after    late now limit    state    reload [now=0 after=1000]   reset
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/scripts", func(t *testing.T, path string) {
		var r runner
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd == "new" {
				r = runner{end: intArg(d, "at", 0)}
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

func intArg(d *datadriven.TestData, key string, def int64) int64 {
	for _, a := range d.CmdArgs {
		if a.Key == key {
			n, _ := strconv.ParseInt(a.Vals[0], 10, 64)
			return n
		}
	}
	return def
}

type runner struct {
	s       State
	end, hw int64
}

type args struct {
	t     *testing.T
	words []string
}

func (a args) num(key string, def int64) int64 {
	for _, w := range a.words {
		if v, ok := strings.CutPrefix(w, key+"="); ok {
			return a.parse(v)
		}
	}
	return def
}

func (a args) parse(v string) int64 {
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil {
		a.t.Fatal(err)
	}
	return n
}

func (a args) has(word string) bool {
	for _, w := range a.words {
		if w == word {
			return true
		}
	}
	return false
}

func (r *runner) step(t *testing.T, line string) string {
	words := strings.Fields(line)
	a := args{t, words[1:]}
	switch words[0] {
	case "p":
		return r.produce(a)
	case "m":
		return r.marker(a)
	case "v":
		g, needed, err := r.s.StartVerification(a.num("pid", 1), int16(a.num("epoch", 0)), int32(a.num("seq", 0)), a.has("bump"), a.num("now", 0))
		if err != nil {
			return failure(err)
		}
		if !needed {
			return "open already"
		}
		return fmt.Sprint("guard ", g)
	case "hw":
		r.hw = a.parse(words[1])
		return fmt.Sprint("lso ", r.s.LastStable(r.hw))
	case "expire":
		return fmt.Sprintf("%d expired, %d left", r.s.Expire(a.parse(words[1]), a.parse(words[2])), r.s.Len())
	case "late":
		return fmt.Sprint(r.s.Late(a.parse(words[1]), a.parse(words[2])))
	case "reload":
		if err := r.s.Load(r.s.AppendSnapshot(nil), a.num("now", 0), a.num("after", 1000)); err != nil {
			return failure(err)
		}
		return r.state()
	case "reset":
		r.s.Reset()
		return r.state()
	case "state":
		return r.state()
	}
	t.Fatalf("unknown command %q", line)
	return ""
}

func failure(err error) string { return "ERR " + err.Error() }

func (r *runner) produce(a args) string {
	n := a.num("n", 1)
	b := Batch{
		ProducerID: a.num("pid", 1), ProducerEpoch: int16(a.num("epoch", 0)), BaseSequence: int32(a.num("seq", 0)),
		BaseOffset: r.end, LastOffset: r.end + n - 1, MaxTimestamp: a.num("ts", 0), Transactional: a.has("txn"),
	}
	o := Client
	switch {
	case a.has("coordinator"):
		o, b.BaseSequence = Coordinator, -1
	case a.has("replication"):
		o = Replication
	}
	d, dup, err := r.s.Check(&b, o, Verification{Required: a.has("required"), Guard: Guard(a.num("guard", 0))})
	if err != nil {
		return failure(err)
	}
	if dup {
		return fmt.Sprintf("duplicate of %d-%d at time %d", d.BaseOffset, d.LastOffset, d.Timestamp)
	}
	r.s.Append(&b)
	r.end += n
	return fmt.Sprintf("appended %d-%d", b.BaseOffset, b.LastOffset)
}

func (r *runner) marker(a args) string {
	m := Marker{
		ProducerID: a.num("pid", 1), ProducerEpoch: int16(a.num("epoch", 0)), CoordinatorEpoch: int32(a.num("coord", 0)),
		Commit: a.has("commit"), TransactionVersion: int16(a.num("tv", 0)), Offset: r.end, Timestamp: a.num("ts", 0),
	}
	if !a.has("replication") {
		if err := r.s.CheckMarker(&m); err != nil {
			return failure(err)
		}
	}
	c, ended := r.s.AppendMarker(&m)
	r.end++
	if !ended {
		return fmt.Sprintf("appended %d, nothing was open", m.Offset)
	}
	return fmt.Sprintf("appended %d, ends %d-%d aborted=%v lso=%d", m.Offset, c.FirstOffset, c.LastOffset, c.Aborted, c.LastStableOffset)
}

func (r *runner) state() string {
	var out strings.Builder
	for p := range r.s.All() {
		fmt.Fprintf(&out, "\n  producer %d epoch %d coordinator %d last seq %d offset %d (-%d) time %d txn %d", p.ProducerID, p.Epoch,
			p.CoordinatorEpoch, p.LastSequence, p.LastOffset, p.LastDelta, p.LastTimestamp, p.TxnFirstOffset)
	}
	if first, ok := r.s.FirstUnstable(); ok {
		fmt.Fprintf(&out, "\n  unstable from %d", first)
	}
	if first, ok := r.s.FirstOpen(); ok {
		fmt.Fprintf(&out, ", open from %d", first)
	}
	if r.s.Empty() {
		out.WriteString("empty")
	}
	return out.String()
}
