package epoch

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func of(entries ...Entry) *Cache { return &Cache{entries: entries} }

func TestAssign(t *testing.T) {
	for name, c := range map[string]struct {
		epoch   int32
		start   int64
		changed bool
		want    []Entry
	}{
		"same epoch later":        {3, 30, false, []Entry{{0, 0}, {2, 10}, {3, 25}}},
		"same again":              {3, 25, false, []Entry{{0, 0}, {2, 10}, {3, 25}}},
		"same epoch earlier":      {3, 20, true, []Entry{{0, 0}, {2, 10}, {3, 20}}},
		"new epoch":               {5, 40, true, []Entry{{0, 0}, {2, 10}, {3, 25}, {5, 40}}},
		"new epoch, same offset":  {5, 25, true, []Entry{{0, 0}, {2, 10}, {5, 25}}},
		"new epoch, lower offset": {5, 10, true, []Entry{{0, 0}, {5, 10}}},
		"older epoch later":       {2, 40, true, []Entry{{0, 0}, {2, 40}}},
		"older epoch, unknown":    {1, 40, true, []Entry{{0, 0}, {1, 40}}},
		"everything contradicted": {0, 0, true, []Entry{{0, 0}}},
		"no epoch":                {-1, 40, false, []Entry{{0, 0}, {2, 10}, {3, 25}}},
		"no offset":               {9, -1, false, []Entry{{0, 0}, {2, 10}, {3, 25}}},
	} {
		t.Run(name, func(t *testing.T) {
			got := of(Entry{0, 0}, Entry{2, 10}, Entry{3, 25})
			require.Equal(t, c.changed, got.Assign(c.epoch, c.start))
			require.Equal(t, c.want, got.Entries())
		})
	}
	var empty Cache
	_, ok := empty.Latest()
	require.False(t, ok)
	require.True(t, empty.Assign(4, 7))
	last, ok := empty.Latest()
	require.True(t, ok)
	require.Equal(t, Entry{4, 7}, last)
	empty.Clear()
	require.Empty(t, empty.Entries())
}

func TestEndOf(t *testing.T) {
	c := of(Entry{1, 5}, Entry{2, 10}, Entry{4, 25})
	for _, q := range []struct {
		epoch, found int32
		end          int64
	}{
		{-1, -1, -1}, {0, 0, 5}, {1, 1, 10}, {2, 2, 25}, {3, 2, 25}, {4, 4, 31}, {5, -1, -1},
	} {
		found, end := c.EndOf(q.epoch, 31)
		require.Equal(t, []any{q.found, q.end}, []any{found, end}, "epoch %d", q.epoch)
	}
	found, end := of().EndOf(0, 31)
	require.Equal(t, []any{int32(-1), int64(-1)}, []any{found, end})
}

func TestAt(t *testing.T) {
	c := of(Entry{1, 5}, Entry{2, 10})
	for offset, want := range map[int64]int32{0: -1, 4: -1, 5: 1, 9: 1, 10: 2, 99: 2} {
		require.Equal(t, want, c.At(offset), "offset %d", offset)
	}
	require.Equal(t, int32(-1), of().At(0))
}

func TestTruncateFromEnd(t *testing.T) {
	for end, want := range map[int64][]Entry{
		31: {{0, 0}, {2, 10}, {3, 25}}, 26: {{0, 0}, {2, 10}, {3, 25}}, 25: {{0, 0}, {2, 10}}, 11: {{0, 0}, {2, 10}},
		10: {{0, 0}}, 1: {{0, 0}}, 0: {},
	} {
		c := of(Entry{0, 0}, Entry{2, 10}, Entry{3, 25})
		require.Equal(t, len(want) < 3, c.TruncateFromEnd(end), "end %d", end)
		require.Equal(t, want, c.Entries(), "end %d", end)
	}
	require.False(t, of().TruncateFromEnd(0))
}

func TestTruncateFromStart(t *testing.T) {
	for start, want := range map[int64][]Entry{
		0: {{0, 0}, {2, 10}, {3, 25}}, 5: {{0, 5}, {2, 10}, {3, 25}}, 10: {{2, 10}, {3, 25}}, 11: {{2, 11}, {3, 25}},
		25: {{3, 25}}, 40: {{3, 40}},
	} {
		c := of(Entry{0, 0}, Entry{2, 10}, Entry{3, 25})
		require.Equal(t, start != 0, c.TruncateFromStart(start), "start %d", start)
		require.Equal(t, want, c.Entries(), "start %d", start)
	}
	c := of(Entry{1, 5})
	require.False(t, c.TruncateFromStart(3), "a log start before the first entry changes nothing")
	require.False(t, of().TruncateFromStart(3))
}

// E1, and E2 against a dumb model: the epoch of every record, written down one by one.
func TestAgreesWithADumbModel(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 0))
		var c Cache
		epochs, start, epoch := []int32{}, int64(0), int32(0) // epochs[i] is that of offset start+i
		end := func() int64 { return start + int64(len(epochs)) }
		for range 60 {
			switch r.IntN(6) {
			case 0:
				epoch += int32(r.IntN(3))
			case 1:
				to := start + r.Int64N(int64(len(epochs))+1)
				epochs = epochs[:to-start]
				c.TruncateFromEnd(to)
			case 2:
				to := start + r.Int64N(int64(len(epochs))+1)
				epochs, start = epochs[to-start:], to
				c.TruncateFromStart(to)
			default:
				c.Assign(epoch, end())
				for range 1 + r.IntN(3) {
					epochs = append(epochs, epoch)
				}
			}
			for i, want := range epochs {
				require.Equal(t, want, c.At(start+int64(i)), "seed %d", seed)
			}
			es := c.Entries()
			for i := 1; i < len(es); i++ {
				require.Less(t, es[i-1].Epoch, es[i].Epoch)
				require.Less(t, es[i-1].Start, es[i].Start)
			}
			checkEnds(t, &c, epochs, start, end())
			again, err := Parse(c.AppendText(nil))
			require.NoError(t, err)
			require.True(t, slices.Equal(es, again.Entries()))
		}
	}
}

// checkEnds compares EndOf for each epoch that has records.
func checkEnds(t *testing.T, c *Cache, epochs []int32, start, end int64) {
	t.Helper()
	for i, e := range epochs {
		if i+1 < len(epochs) && epochs[i+1] == e {
			continue
		}
		found, at := c.EndOf(e, end)
		require.Equal(t, e, found)
		if i+1 < len(epochs) || at != end {
			// An entry without records may remain behind the last record; it begins at the end of the log.
			require.Equal(t, start+int64(i)+1, at)
		}
	}
}

func TestTextIsKafkas(t *testing.T) {
	c := of(Entry{0, 0}, Entry{2, 10}, Entry{2147483647, 9223372036854775807})
	const want = "0\n3\n0 0\n2 10\n2147483647 9223372036854775807\n"
	require.Equal(t, want, string(c.AppendText(nil)))
	require.Equal(t, "0\n0\n", string(of().AppendText(nil)))
	for _, text := range []string{want, strings.TrimSuffix(want, "\n"), strings.ReplaceAll(want, "\n", "\r\n")} {
		got, err := Parse([]byte(text))
		require.NoError(t, err, "%q", text)
		require.Equal(t, c.Entries(), got.Entries())
	}
	for _, empty := range []string{"", "0\n", "0\n0\n"} {
		got, err := Parse([]byte(empty))
		require.NoError(t, err, "%q", empty)
		require.Empty(t, got.Entries())
	}
}

func TestDamageIsNamed(t *testing.T) {
	for text, want := range map[string]string{
		"1\n0\n":              `line 1: unknown version "1"`,
		"x":                   `line 1: unknown version "x"`,
		"\n":                  `line 1: unknown version ""`,
		"0\n2\n0 0\n":         `line 2: "2" entries, but 1 lines follow`,
		"0\n-1\n":             `line 2: "-1" entries, but 0 lines follow`,
		"0\nmany\n0 0\n":      `line 2: "many" entries, but 1 lines follow`,
		"0\n1\n0\n":           `line 3: "0" is not an epoch and its start offset`,
		"0\n1\n0 0 0\n":       `line 3: "0 0 0" is not an epoch and its start offset`,
		"0\n1\n-1 0\n":        `line 3: "-1 0" is not an epoch and its start offset`,
		"0\n1\n0 -1\n":        `line 3: "0 -1" is not an epoch and its start offset`,
		"0\n1\n2147483648 0":  `line 3: "2147483648 0" is not an epoch and its start offset`,
		"0\n2\n0 0\n0 5\n":    `line 4: epoch 0 at 5 after epoch 0 at 0`,
		"0\n2\n0 5\n1 5\n":    `line 4: epoch 1 at 5 after epoch 0 at 5`,
		"0\n2\n0 0\n1 5\n\n":  `line 2: "2" entries, but 3 lines follow`,
		"0\n99999999999999\n": `line 2: "99999999999999" entries, but 0 lines follow`,
	} {
		_, err := Parse([]byte(text))
		require.EqualError(t, err, want, "%q", text)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("0\n2\n0 0\n2 10\n"))
	f.Add([]byte("0\r\n1\r\n7\t9"))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := Parse(text)
		if err != nil {
			return
		}
		again, err := Parse(c.AppendText(nil))
		require.NoError(t, err)
		require.True(t, slices.Equal(c.Entries(), again.Entries()))
	})
}
