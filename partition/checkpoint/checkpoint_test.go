package checkpoint

import (
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kbroker/kbroker/internal/model"
	"github.com/kbroker/kbroker/internal/vfs"
	"github.com/kbroker/kbroker/internal/vfs/faultfs"
	"github.com/kbroker/kbroker/internal/vfs/memfs"
)

type offsets = map[model.TopicPartition]int64

func tp(topic string, p int32) model.TopicPartition {
	return model.TopicPartition{Topic: topic, Partition: p}
}

func newDir(t *testing.T) *memfs.FS {
	t.Helper()
	f := memfs.New()
	require.NoError(t, f.MkdirAll("d/t-0", 0o755))
	require.NoError(t, f.SyncDir("/"))
	require.NoError(t, f.SyncDir("d"))
	return f
}

func put(t *testing.T, f vfs.FS, name, text string) {
	t.Helper()
	require.NoError(t, vfs.WriteFileAtomic(f, name, []byte(text)))
}

func TestOffsetsAreKafkasText(t *testing.T) {
	f := newDir(t)
	in := offsets{
		tp("orders", 1): 4, tp("orders", 0): 17, tp("orders", 10): 0, tp("a.b_c-9", 2147483647): 9223372036854775807,
		tp("-1", 0): 1, tp("0", 0): 2, tp("été", 0): 3, tp(strings.Repeat("x", 249), 0): 5,
	}
	require.NoError(t, WriteOffsets(f, "d/file", in))
	text, err := vfs.ReadFile(f, "d/file")
	require.NoError(t, err)
	require.Equal(t, "0\n8\n-1 0 1\n0 0 2\na.b_c-9 2147483647 9223372036854775807\norders 0 17\norders 1 4\norders 10 0\n"+
		strings.Repeat("x", 249)+" 0 5\nété 0 3\n", string(text))
	out, err := ReadOffsets(f, "d/file")
	require.NoError(t, err)
	require.Equal(t, in, out)

	require.NoError(t, WriteOffsets(f, "d/file", nil))
	text, _ = vfs.ReadFile(f, "d/file")
	require.Equal(t, "0\n0\n", string(text))
}

func TestReadIsAsLenientAsKafka(t *testing.T) {
	f := newDir(t)
	for text, want := range map[string]offsets{
		"":                         {},
		"0\n":                      {},
		"0":                        {},
		"0\n0\n":                   {},
		"0\n1\nt 0 5":              {tp("t", 0): 5},
		"0\r\n1\r\nt\t0  5\r\n":    {tp("t", 0): 5},
		"0\n2\nt 0 5\nt 1 0006\n":  {tp("t", 0): 5, tp("t", 1): 6},
		" 0 \n 1 \n  t   0   5  ":  {tp("t", 0): 5},
		"0\n1\n2 3 4\n":            {tp("2", 3): 4},
		"0\n1\na,b;c{}/\\\" 3 4\n": {tp("a,b;c{}/\\\"", 3): 4},
	} {
		put(t, f, "d/file", text)
		got, err := ReadOffsets(f, "d/file")
		require.NoError(t, err, "%q", text)
		require.Equal(t, want, got, "%q", text)
	}
}

func TestDamageNamesFileAndLine(t *testing.T) {
	f := newDir(t)
	for text, want := range map[string]string{
		"1\n0\n":                  `line 1: unknown version "1"`,
		"\n0\n":                   `line 1: unknown version ""`,
		"0\nx\n":                  `line 2: "x" is not a number of entries`,
		"0\n-1\n":                 `line 2: "-1" is not a number of entries`,
		"0\n2\nt 0 5\n":           `line 2: 2 entries announced, 1 follow`,
		"0\n0\nt 0 5\n":           `line 2: 0 entries announced, 1 follow`,
		"0\n2\nt 0 5\nt 1\n":      `line 4: "t 1" is not a topic, a partition and an offset`,
		"0\n1\nt 0 5 6\n":         `line 3: "t 0 5 6" is not a topic, a partition and an offset`,
		"0\n1\nt -1 5\n":          `line 3: "t -1 5" is not a topic, a partition and an offset`,
		"0\n1\nt 0 -5\n":          `line 3: "t 0 -5" is not a topic, a partition and an offset`,
		"0\n1\nt 0 5x\n":          `line 3: "t 0 5x" is not a topic, a partition and an offset`,
		"0\n1\nt 2147483648 5\n":  `line 3: "t 2147483648 5" is not a topic, a partition and an offset`,
		"0\n2\nt 0 5\nt 0 6\n":    `line 4: t-0 appears twice`,
		"0\n1\nt 0 5\n\n":         `line 4: "" is not a topic, a partition and an offset`,
		"0\n1\n\x00\x00\x00\x00 ": `line 3: "\x00\x00\x00\x00 " is not a topic, a partition and an offset`,
	} {
		put(t, f, "d/file", text)
		_, err := ReadOffsets(f, "d/file")
		require.EqualError(t, err, "damaged checkpoint file d/file, "+want, "%q", text)
		require.ErrorIs(t, err, ErrDamaged)
	}
	_, err := ReadOffsets(f, "d/none")
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.NotErrorIs(t, err, ErrDamaged)
}

func TestWhatTheFormatCannotHoldIsRefused(t *testing.T) {
	f := newDir(t)
	require.NoError(t, WriteOffsets(f, "d/file", offsets{tp("t", 0): 1}))
	for _, bad := range []offsets{
		{tp("", 0): 1}, {tp("a b", 0): 1}, {tp("a\nb", 0): 1}, {tp("a\u00a0b", 0): 1}, {tp("t", -1): 1}, {tp("t", 0): -1},
	} {
		require.ErrorContains(t, WriteOffsets(f, "d/file", bad), "checkpoint file d/file: topic ", "%v", bad)
	}
	got, err := ReadOffsets(f, "d/file")
	require.NoError(t, err)
	require.Equal(t, offsets{tp("t", 0): 1}, got, "the file is untouched")
}

func TestTopicIDIsKafkasText(t *testing.T) {
	f := newDir(t)
	id, err := model.ParseUUID("vYr2U1rLQIeIwcVJ4Q1oDA")
	require.NoError(t, err)
	require.NoError(t, WriteTopicID(f, "d/t-0", id))
	text, err := vfs.ReadFile(f, "d/t-0/partition.metadata")
	require.NoError(t, err)
	require.Equal(t, "version: 0\ntopic_id: vYr2U1rLQIeIwcVJ4Q1oDA", string(text))
	for _, text := range []string{string(text), string(text) + "\n", "version:0\r\ntopic_id:\tvYr2U1rLQIeIwcVJ4Q1oDA\r\n"} {
		put(t, f, "d/t-0/partition.metadata", text)
		got, err := ReadTopicID(f, "d/t-0")
		require.NoError(t, err, "%q", text)
		require.Equal(t, id, got)
	}
	require.ErrorContains(t, WriteTopicID(f, "d/t-0", model.UUID{}), "d/t-0/partition.metadata: the zero id")
	_, err = ReadTopicID(f, "d")
	require.ErrorIs(t, err, fs.ErrNotExist)
}

func TestADamagedTopicIDIsNamed(t *testing.T) {
	f := newDir(t)
	const id = "vYr2U1rLQIeIwcVJ4Q1oDA"
	for text, want := range map[string]string{
		"":                                        `line 1: "" is not the field version`,
		"version: 1\ntopic_id: " + id:             `line 1: unknown version "1"`,
		"topic_id: " + id + "\nversion: 0":        `line 1: "topic_id: ` + id + `" is not the field version`,
		"version: 0":                              `line 2: "" is not the field topic_id`,
		"version: 0\ntopic_id: short":             `line 2: "short" is not a uuid: want 22 characters of URL-safe base64`,
		"version: 0\ntopic_id: " + zeros:          `line 2: "` + zeros + `" is the zero id, which names no topic`,
		"version: 0\ntopic_id: " + id + "\nmore":  `line 3: "more" after the last field`,
		"version: 0\ntopic: " + id + "\n":         `line 2: "topic: ` + id + `" is not the field topic_id`,
		"version: 0\ntopic_id " + id + "\n":       `line 2: "topic_id ` + id + `" is not the field topic_id`,
		"version: 0\n\ntopic_id: " + id + "\n":    `line 2: "" is not the field topic_id`,
		"version: zero\ntopic_id: " + id + "\n\n": `line 1: unknown version "zero"`,
	} {
		put(t, f, "d/partition.metadata", text)
		_, err := ReadTopicID(f, "d")
		require.EqualError(t, err, "damaged checkpoint file d/partition.metadata, "+want, "%q", text)
		require.ErrorIs(t, err, ErrDamaged)
	}
}

const zeros = "AAAAAAAAAAAAAAAAAAAAAA"

// Whatever operation a crash interrupts, the file holds the old or the new offsets; the new ones once Write returned.
func TestACrashLeavesOldOrNew(t *testing.T) {
	base := newDir(t)
	f := faultfs.New(base, 1)
	before, after := offsets{tp("t", 0): 1}, offsets{tp("t", 0): 2, tp("t", 1): 3}
	require.NoError(t, WriteOffsets(base, "d/file", before))
	check := func(allowed ...offsets) {
		for seed := range uint64(20) {
			got, err := ReadOffsets(base.CrashClone(seed, 50), "d/file")
			require.NoError(t, err)
			require.Contains(t, allowed, got)
		}
	}
	moments := 0
	f.SetHook(func(faultfs.Call) error { moments++; check(before, after); return nil })
	require.NoError(t, WriteOffsets(f, "d/file", after))
	require.Equal(t, 5, moments)
	check(after)
}

func TestAFailedWriteKeepsTheOldFile(t *testing.T) {
	for _, op := range []faultfs.Op{faultfs.OpCreate, faultfs.OpWrite, faultfs.OpSync, faultfs.OpClose, faultfs.OpRename} {
		base := newDir(t)
		f := faultfs.New(base, 1)
		require.NoError(t, WriteOffsets(f, "d/file", offsets{tp("t", 0): 1}))
		rule := f.Add(faultfs.Rule{Ops: op, Err: syscall.ENOSPC, Partial: 2, Count: 1})
		require.ErrorIs(t, WriteOffsets(f, "d/file", offsets{tp("t", 0): 2}), syscall.ENOSPC, op.String())
		require.Equal(t, 1, rule.Fired())
		got, err := ReadOffsets(f, "d/file")
		require.NoError(t, err)
		require.Equal(t, offsets{tp("t", 0): 1}, got, op.String())
		require.NoError(t, WriteOffsets(f, "d/file", offsets{tp("t", 0): 2}), "what was left behind is no obstacle")
		require.Empty(t, base.OpenFiles())
	}
}

func FuzzOffsets(f *testing.F) {
	f.Add([]byte("0\n2\nt 0 5\nt 1 6\n"))
	f.Add([]byte("0\r\n1\r\na.b-c 7 8"))
	f.Fuzz(func(t *testing.T, text []byte) {
		m, line, err := parseOffsets(text)
		if err != nil {
			require.Positive(t, line)
			return
		}
		again, err := appendOffsets(nil, m)
		require.NoError(t, err)
		back, _, err := parseOffsets(again)
		require.NoError(t, err)
		require.Equal(t, m, back)
	})
}

func FuzzTopicID(f *testing.F) {
	f.Add("version: 0\ntopic_id: vYr2U1rLQIeIwcVJ4Q1oDA")
	f.Fuzz(func(t *testing.T, text string) {
		id, line, err := parseTopicID(text)
		if err != nil {
			require.Positive(t, line)
			return
		}
		back, _, err := parseTopicID(string(formatTopicID(id)))
		require.NoError(t, err)
		require.Equal(t, id, back)
	})
}

func BenchmarkWrite100kPartitions(b *testing.B) {
	m := offsets{}
	for i := range int32(100_000) {
		m[tp(fmt.Sprint("topic-", i/10), i%10)] = int64(i)
	}
	var dst []byte
	for b.Loop() {
		var err error
		if dst, err = appendOffsets(dst[:0], m); err != nil {
			b.Fatal(err)
		}
	}
}
