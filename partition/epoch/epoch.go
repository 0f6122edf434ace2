package epoch

import (
	"bytes"
	"fmt"
	"slices"
	"sort"
	"strconv"

	"github.com/kbroker/kbroker/internal/model"
)

// Entry says that a leader epoch begins at an offset.
type Entry struct {
	Epoch int32
	Start int64
}

// Cache is a partition's entries. The zero value is empty and ready; it is not safe for concurrent use.
type Cache struct{ entries []Entry }

// Assign notes that the batch at start is of the given epoch and reports whether that changed anything. Entries that
// contradict it (a higher epoch, or one that begins at or after start) are dropped: what is in the log now is right.
// Negative values, which old batches without an epoch carry, are ignored.
func (c *Cache) Assign(epoch int32, start int64) bool {
	if epoch < 0 || start < 0 {
		return false
	}
	if last, ok := c.Latest(); ok && last.Epoch == epoch && last.Start <= start {
		return false
	}
	keep := len(c.entries)
	for keep > 0 && (c.entries[keep-1].Epoch >= epoch || c.entries[keep-1].Start >= start) {
		keep--
	}
	c.entries = append(c.entries[:keep], Entry{epoch, start})
	return true
}

// Latest returns the newest entry.
func (c *Cache) Latest() (Entry, bool) {
	if len(c.entries) == 0 {
		return Entry{}, false
	}
	return c.entries[len(c.entries)-1], true
}

// Entries returns all entries, oldest first. The caller must not change them; they are valid until the next change.
func (c *Cache) Entries() []Entry { return c.entries }

// EndOf returns the largest known epoch that is at most the asked one and the offset where it ends: the start of the next
// one, or logEnd for the latest. An epoch older than all known ones ends where the first begins. Both results are -1 for
// an epoch newer than all known ones, and when nothing is known.
func (c *Cache) EndOf(epoch int32, logEnd int64) (found int32, end int64) {
	i := sort.Search(len(c.entries), func(i int) bool { return c.entries[i].Epoch > epoch })
	switch {
	case epoch < 0:
	case i == len(c.entries):
		if i > 0 && c.entries[i-1].Epoch == epoch {
			return epoch, logEnd
		}
	case i == 0:
		return epoch, c.entries[0].Start
	default:
		return c.entries[i-1].Epoch, c.entries[i].Start
	}
	return model.NoEpoch, model.NoOffset
}

// At returns the epoch of the record at an offset, -1 when it lies before the first entry.
func (c *Cache) At(offset int64) int32 {
	i := sort.Search(len(c.entries), func(i int) bool { return c.entries[i].Start > offset })
	if i == 0 {
		return model.NoEpoch
	}
	return c.entries[i-1].Epoch
}

// TruncateFromEnd drops the entries that begin at or after the new log end and reports whether there were any.
func (c *Cache) TruncateFromEnd(end int64) bool {
	keep := sort.Search(len(c.entries), func(i int) bool { return c.entries[i].Start >= end })
	changed := keep < len(c.entries)
	c.entries = c.entries[:keep]
	return changed
}

// TruncateFromStart drops the entries that end at or before the new log start, lets the one that holds it begin there and
// reports whether anything changed. The last entry dropped is the one that holds it, so a log that is emptied keeps its
// latest epoch.
func (c *Cache) TruncateFromStart(start int64) bool {
	i := sort.Search(len(c.entries), func(i int) bool { return c.entries[i].Start > start })
	if i == 0 || i == 1 && c.entries[0].Start == start {
		return false
	}
	c.entries = slices.Delete(c.entries, 0, i-1)
	c.entries[0].Start = start
	return true
}

// Clear forgets everything.
func (c *Cache) Clear() { c.entries = nil }

// AppendText appends the content of a leader-epoch-checkpoint file.
func (c *Cache) AppendText(dst []byte) []byte {
	dst = append(dst, "0\n"...)
	dst = strconv.AppendInt(dst, int64(len(c.entries)), 10)
	dst = append(dst, '\n')
	for _, e := range c.entries {
		dst = strconv.AppendInt(dst, int64(e.Epoch), 10)
		dst = append(dst, ' ')
		dst = strconv.AppendInt(dst, e.Start, 10)
		dst = append(dst, '\n')
	}
	return dst
}

// Parse reads the content of a leader-epoch-checkpoint file. An empty text, which Kafka leaves in new folders, is an empty
// cache. Errors name the line; the caller names the file.
func Parse(text []byte) (Cache, error) {
	var c Cache
	lines := bytes.Split(bytes.TrimSuffix(text, []byte("\n")), []byte("\n"))
	if len(text) == 0 {
		return c, nil
	}
	if v := string(bytes.TrimSpace(lines[0])); v != "0" {
		return c, fmt.Errorf("line 1: unknown version %q", v)
	}
	if len(lines) == 1 {
		return c, nil
	}
	n, err := strconv.Atoi(string(bytes.TrimSpace(lines[1])))
	if err != nil || n != len(lines)-2 {
		return c, fmt.Errorf("line 2: %q entries, but %d lines follow", bytes.TrimSpace(lines[1]), len(lines)-2)
	}
	for i, line := range lines[2:] {
		e, ok := parseLine(line)
		if !ok {
			return Cache{}, fmt.Errorf("line %d: %q is not an epoch and its start offset", i+3, line)
		}
		if last, any := c.Latest(); any && (e.Epoch <= last.Epoch || e.Start <= last.Start) {
			return Cache{}, fmt.Errorf("line %d: epoch %d at %d after epoch %d at %d", i+3, e.Epoch, e.Start, last.Epoch, last.Start)
		}
		c.entries = append(c.entries, e)
	}
	return c, nil
}

func parseLine(line []byte) (Entry, bool) {
	f := bytes.Fields(line)
	if len(f) != 2 {
		return Entry{}, false
	}
	epoch, err := strconv.ParseInt(string(f[0]), 10, 32)
	if err != nil || epoch < 0 {
		return Entry{}, false
	}
	start, err := strconv.ParseInt(string(f[1]), 10, 64)
	return Entry{int32(epoch), start}, err == nil && start >= 0
}
