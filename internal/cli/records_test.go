package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

func TestLinesBecomeRecordsAndRecordsLines(t *testing.T) {
	s := shellFor(t, fake(t, kfake.SeedTopics(1, "greetings")))
	r := s.runIn(t.Context(), "hello\nworld\n\nlast", "produce", "greetings")
	require.Zero(t, r.code, r.err)
	require.Empty(t, r.out)
	require.Equal(t, "wrote 4 records to greetings\n", r.err)
	require.Equal(t, "hello\nworld\n\nlast\n", s.ok("consume", "greetings", "--from-beginning", "--count", "4"))
	require.Equal(t, "world\n", s.ok("consume", "greetings", "--offset", "1", "--count", "1"))
	require.Equal(t, "last\n", s.ok("consume", "greetings", "--offset", "-1", "--count", "1"))
	require.Equal(t, "\nlast\n", s.ok("consume", "greetings", "--partition", "0", "--offset", "2", "--idle", "300ms"))
	require.Empty(t, s.ok("consume", "greetings", "--idle", "100ms"), "without a start only new records")
}

func TestKeysNullsAndHeaders(t *testing.T) {
	s := shellFor(t, fake(t, kfake.SeedTopics(2, "users")))
	r := s.runIn(t.Context(), "a:1\nb:NULL\nNULL:3:4", "produce", "users", "--key-separator", ":", "--null", "NULL",
		"--header", "from=test", "--header", "empty=", "--partition", "1", "--compression", "zstd", "--json")
	require.Zero(t, r.code, r.err)
	require.JSONEq(t, `{"topic":"users","records":3,"bytes":6}`, r.out)

	var got []jsonRecord
	lines := strings.Split(strings.TrimSpace(s.ok("consume", "users", "--from-beginning", "--count", "3", "--format", "json")), "\n")
	for _, line := range lines {
		var rec jsonRecord
		require.NoError(t, json.Unmarshal([]byte(line), &rec))
		got = append(got, rec)
	}
	require.Len(t, got, 3)
	require.Equal(t, "a", *got[0].Key)
	require.Equal(t, "1", *got[0].Value)
	require.EqualValues(t, 1, got[0].Partition)
	require.Nil(t, got[1].Value)
	require.Nil(t, got[2].Key)
	require.Equal(t, "3:4", *got[2].Value)
	require.Equal(t, "from", got[0].Headers[0].Key)
	require.Equal(t, "test", *got[0].Headers[0].Value)
	_, err := time.Parse(time.RFC3339, got[0].Timestamp)
	require.NoError(t, err)

	text := s.ok("consume", "users", "--from-beginning", "--count", "2", "--format", "text")
	require.Regexp(t, `^users-1@0 \S+Z key="a" value="1" from="test" empty=""\nusers-1@1 \S+Z key="b" value=null from`, text)
}

func TestAcksAndCodecs(t *testing.T) {
	s := shellFor(t, fake(t, kfake.SeedTopics(1, "t")))
	for _, flags := range []string{
		"--acks all", "--acks -1", "--acks 1", "--acks 0", "--compression gzip", "--compression snappy", "--compression lz4",
		"--compression none",
	} {
		r := s.runIn(t.Context(), "x", append([]string{"produce", "t"}, strings.Fields(flags)...)...)
		require.Zero(t, r.code, "%s: %s", flags, r.err)
	}
	require.Equal(t, strings.Repeat("x\n", 8), s.ok("consume", "t", "--from-beginning", "--count", "8"))
}

func TestLinesThatCannotBeWritten(t *testing.T) {
	s := shellFor(t, fake(t, kfake.SeedTopics(1, "t")))
	r := s.runIn(t.Context(), "a:1\nb:2\nnonsense\nc:3", "produce", "t", "--key-separator", ":")
	require.Equal(t, ExitFailed, r.code)
	require.Contains(t, r.err, "wrote 2 records to t\n")
	require.Contains(t, r.err, `line 3: no key separator ":"`)

	r = s.runIn(t.Context(), "x", "produce", "missing", "--timeout", "5s")
	require.Equal(t, ExitFailed, r.code)
	require.Contains(t, r.err, "topic missing does not exist")
	require.Contains(t, r.err, "kbroker topic create missing")
}

func TestInputThatFails(t *testing.T) {
	all := func([]byte) error { return nil }
	require.ErrorContains(t, eachLine(t.Context(), iotest.ErrReader(errors.New("disk on fire")), all), "input: disk on fire")
	long := io.MultiReader(strings.NewReader("x\n"), bytes.NewReader(make([]byte, maxLine+1)))
	require.ErrorContains(t, eachLine(t.Context(), long, all), "longer than 64 MiB")

	ctx, cancel := context.WithCancel(t.Context())
	in, feed := io.Pipe()
	t.Cleanup(func() { _ = feed.Close() })
	go func() { _, _ = feed.Write([]byte("a\n")) }()
	require.NoError(t, eachLine(ctx, in, func([]byte) error { cancel(); return nil }), "an ended command does not wait for input")
}

func TestReadingWhatIsNotThere(t *testing.T) {
	s := shellFor(t, fake(t, kfake.SeedTopics(2, "t")))
	r := s.run("consume", "missing")
	require.Equal(t, ExitFailed, r.code)
	require.Contains(t, r.err, "topic missing does not exist (UNKNOWN_TOPIC_OR_PARTITION)")
	r = s.run("consume", "t", "--partition", "2")
	require.Equal(t, ExitFailed, r.code)
	require.Contains(t, r.err, "topic t has no partition 2, only 0 to 1")
	r = s.run("consume", "t", "--partition", "0", "--offset", "99")
	require.Equal(t, ExitFailed, r.code)
	require.Contains(t, r.err, "topic t partition 0: OFFSET_OUT_OF_RANGE")
}

func TestConsumeEndsWithItsContext(t *testing.T) {
	s := shellFor(t, fake(t, kfake.SeedTopics(1, "t")))
	s.fill("t", "a")
	ctx, cancel := context.WithCancel(t.Context())
	seen := &trigger{text: "a\n", hit: cancel}
	r := &remote{Options: Options{Out: seen, Err: io.Discard}, bootstrap: s.bootstrap, timeout: defaultTimeout}
	f := &consumeFlags{fromBeginning: true, format: "value", isolation: "read_committed"}
	opts, err := f.options()
	require.NoError(t, err)
	require.NoError(t, r.consume(ctx, f, opts, []string{"t"}))
}

// trigger calls hit when text has been written.
type trigger struct {
	bytes.Buffer
	text string
	hit  func()
}

func (t *trigger) Write(p []byte) (int, error) {
	n, err := t.Buffer.Write(p)
	if strings.Contains(t.String(), t.text) {
		t.hit()
	}
	return n, err
}

func TestRecordsThatAreNoText(t *testing.T) {
	rec := &kgo.Record{
		Topic: "t", Partition: 3, Offset: 7, Timestamp: time.UnixMilli(1), Key: []byte{0xff}, Value: []byte("a\"\n<"),
		Headers: []kgo.RecordHeader{{Key: "h", Value: []byte{0xfe}}, {Key: "n"}},
	}
	write := func(format string) string {
		var b bytes.Buffer
		w := bufio.NewWriter(&b)
		require.NoError(t, writeRecord(w, format, rec))
		require.NoError(t, w.Flush())
		return b.String()
	}
	require.Equal(t, `t-3@7 1970-01-01T00:00:00.001Z key="\xff" value="a\"\n<" h="\xfe" n=null`+"\n", write("text"))
	require.Equal(t, `{"topic":"t","partition":3,"offset":7,"timestamp":"1970-01-01T00:00:00.001Z","key":null,"keyBase64":"/w==",`+
		`"value":"a\"\n<","headers":[{"key":"h","value":null,"valueBase64":"/g=="},{"key":"n","value":null}]}`+"\n", write("json"))
	require.Equal(t, "a\"\n<\n", write("value"))
}

func TestOutputThatFails(t *testing.T) {
	s := shellFor(t, fake(t, kfake.SeedTopics(1, "t")))
	s.fill("t", "a")
	r := &remote{Options: Options{Out: failingWriter{}, Err: io.Discard}, bootstrap: s.bootstrap, timeout: defaultTimeout}
	f := &consumeFlags{fromBeginning: true, format: "value", isolation: "read_uncommitted", count: 1}
	opts, err := f.options()
	require.NoError(t, err)
	require.ErrorContains(t, r.consume(waitLimit(t), f, opts, []string{"t"}), "output: full")
	require.ErrorContains(t, r.showTopics([]kadm.TopicDetail{{Topic: "t"}}), "output: full")
	require.ErrorContains(t, writeJSON(failingWriter{}, 1), "output: full")
	tab := newTable(failingWriter{}, "A")
	tab.row("x")
	require.ErrorContains(t, tab.flush(), "output: full")
}

type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, errors.New("full") }
