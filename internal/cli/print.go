package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// writeJSON writes one value, indented for people who read it.
func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("output: %w", err)
	}
	return nil
}

// table writes rows in aligned columns under a head.
type table struct {
	w   *tabwriter.Writer
	err error
}

func newTable(w io.Writer, head ...string) *table {
	t := &table{w: tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)}
	if len(head) > 0 {
		t.line(head)
	}
	return t
}

func (t *table) row(cells ...any) {
	texts := make([]string, len(cells))
	for i, c := range cells {
		switch c := c.(type) {
		case string:
			texts[i] = orDash(c)
		case []int32:
			texts[i] = orDash(joinInts(c))
		default:
			texts[i] = fmt.Sprint(c)
		}
	}
	t.line(texts)
}

func (t *table) line(cells []string) {
	if t.err == nil {
		_, t.err = fmt.Fprintln(t.w, strings.Join(cells, "\t"))
	}
}

func (t *table) flush() error {
	if t.err == nil {
		t.err = t.w.Flush()
	}
	if t.err != nil {
		return fmt.Errorf("output: %w", t.err)
	}
	return nil
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func joinInts(list []int32) string {
	texts := make([]string, len(list))
	for i, n := range list {
		texts[i] = strconv.Itoa(int(n))
	}
	return strings.Join(texts, ",")
}

// say writes a line of text.
func say(w io.Writer, format string, a ...any) error {
	if _, err := fmt.Fprintf(w, format+"\n", a...); err != nil {
		return fmt.Errorf("output: %w", err)
	}
	return nil
}

// timeForm is RFC 3339 with the milliseconds that records carry.
const timeForm = "2006-01-02T15:04:05.000Z07:00"

func formatTime(t time.Time) string { return t.UTC().Format(timeForm) }

// plural writes a number with its noun.
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}

// parsePairs reads key=value texts of a repeatable flag.
func parsePairs(flag string, pairs []string) ([][2]string, error) {
	out := make([][2]string, 0, len(pairs))
	for _, p := range pairs {
		key, val, ok := strings.Cut(p, "=")
		if key = strings.TrimSpace(key); !ok || key == "" {
			return nil, usagef("--%s %q is not of the form key=value", flag, p)
		}
		out = append(out, [2]string{key, val})
	}
	return out, nil
}
