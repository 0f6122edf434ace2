package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// resetFlags says which offsets go where.
type resetFlags struct {
	topics              []string
	allTopics, execute  bool
	earliest, latest    bool
	offset, shift       int64
	datetime            string
	offsetSet, shiftSet bool
	at                  time.Time
	partitions          map[string][]int32 // nil list: all of the topic
}

func (o Options) groupReset() *cobra.Command {
	var f resetFlags
	c := &cobra.Command{
		Use: "reset GROUP", Short: "Move the committed offsets of a group", Args: args(1, 1, "the name of a group"),
		Long: "Move the committed offsets of a group that has no members. Without --execute it only shows what would change.",
		Example: "  kbroker group reset billing --topic orders --to-earliest\n" +
			"  kbroker group reset billing --topic orders:0,1 --to-datetime 2026-01-31T12:00:00Z --execute",
	}
	r := o.remote(c)
	c.Flags().StringArrayVar(&f.topics, "topic", nil, "topic, or topic:partition,..., repeatable")
	c.Flags().BoolVar(&f.allTopics, "all-topics", false, "everything that the group has committed")
	c.Flags().BoolVar(&f.execute, "execute", false, "make the change")
	c.Flags().BoolVar(&f.earliest, "to-earliest", false, "to the oldest record")
	c.Flags().BoolVar(&f.latest, "to-latest", false, "to the end")
	c.Flags().Int64Var(&f.offset, "to-offset", 0, "to this offset, or the nearest that exists")
	c.Flags().Int64Var(&f.shift, "shift-by", 0, "by this many records, negative is back")
	c.Flags().StringVar(&f.datetime, "to-datetime", "", "to the first record at or after this time, RFC 3339 or 2006-01-02T15:04:05 in local time")
	c.RunE = func(c *cobra.Command, a []string) error {
		f.offsetSet, f.shiftSet = c.Flags().Changed("to-offset"), c.Flags().Changed("shift-by")
		if err := f.check(c); err != nil {
			return err
		}
		return r.admin(c.Context(), func(ctx context.Context, adm *kadm.Client, _ *kgo.Client) error {
			return r.resetGroup(ctx, adm, a[0], &f)
		})
	}
	return c
}

// maxShift keeps the sum of an offset and a shift far from overflow.
const maxShift = 1 << 60

func (f *resetFlags) check(c *cobra.Command) error {
	targets := 0
	for _, set := range []bool{f.earliest, f.latest, f.offsetSet, f.shiftSet, f.datetime != ""} {
		if set {
			targets++
		}
	}
	switch {
	case targets != 1:
		return usageOf(c, errors.New("want one of --to-earliest, --to-latest, --to-offset, --to-datetime, --shift-by"))
	case f.allTopics == (len(f.topics) > 0):
		return usageOf(c, errors.New("want --topic or --all-topics"))
	case f.shift > maxShift || f.shift < -maxShift:
		return usagef("--shift-by %d is too far", f.shift)
	case f.offsetSet && f.offset < 0:
		return usagef("--to-offset %d: want 0 or more", f.offset)
	}
	if f.datetime != "" {
		var err error
		if f.at, err = parseTime(f.datetime); err != nil {
			return err
		}
	}
	f.partitions = map[string][]int32{}
	for _, t := range f.topics {
		name, list, some := strings.Cut(t, ":")
		if !some {
			f.partitions[name] = nil
			continue
		}
		for _, p := range strings.Split(list, ",") {
			n, err := strconv.ParseInt(strings.TrimSpace(p), 10, 32)
			if err != nil || n < 0 {
				return usagef("--topic %q: %q is no partition", t, p)
			}
			f.partitions[name] = append(f.partitions[name], int32(n))
		}
	}
	return nil
}

func parseTime(s string) (time.Time, error) {
	if t, err := time.Parse(time.RFC3339Nano, s); err == nil {
		return t, nil
	}
	for _, form := range []string{"2006-01-02T15:04:05.999999999", "2006-01-02T15:04", "2006-01-02"} {
		if t, err := time.ParseInLocation(form, s, time.Local); err == nil {
			return t, nil
		}
	}
	return time.Time{}, usagef("--to-datetime %q: want a time such as 2026-01-31T12:00:00Z", s)
}

type movedOffset struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	From      int64  `json:"from"` // -1: nothing committed
	To        int64  `json:"to"`
}

func (r *remote) resetGroup(ctx context.Context, adm *kadm.Client, name string, f *resetFlags) error {
	d, err := groupState(ctx, adm, name)
	switch {
	case errors.Is(err, errNoGroup) && !f.allTopics && !f.shiftSet: // a group can be given offsets before its first member comes
	case err != nil:
		return groupError(name, err)
	case f.execute && len(d.Members) > 0:
		return fmt.Errorf("group %s is in use by %s (%s): stop them first, or they would overwrite the new offsets", name,
			plural(len(d.Members), "member"), d.State)
	}
	moves, err := planReset(ctx, adm, name, f)
	if err != nil {
		return err
	}
	if f.execute {
		offsets := kadm.Offsets{}
		for _, m := range moves {
			offsets.AddOffset(m.Topic, m.Partition, m.To, -1)
		}
		done, err := adm.CommitOffsets(ctx, name, offsets)
		if err == nil {
			err = done.Error()
		}
		if err != nil {
			return fmt.Errorf("group %s: %w", name, err)
		}
	}
	return r.showMoves(moves, f.execute)
}

// planReset works out where every partition's offset goes, within what the partition holds.
func planReset(ctx context.Context, adm *kadm.Client, name string, f *resetFlags) ([]movedOffset, error) {
	committed, err := fetchCommitted(ctx, adm, name)
	if err != nil {
		return nil, fmt.Errorf("group %s: %w", name, err)
	}
	scope := f.partitions
	if f.allTopics {
		scope = map[string][]int32{}
		for _, o := range committed.Sorted() {
			scope[o.Topic] = append(scope[o.Topic], o.Partition)
		}
		if len(scope) == 0 {
			return nil, fmt.Errorf("group %s has committed nothing", name)
		}
	}
	topics, err := mustExist(ctx, adm, sortedKeys(scope)...)
	if err != nil {
		return nil, err
	}
	starts, err := adm.ListStartOffsets(ctx, sortedKeys(scope)...)
	if err != nil {
		return nil, err
	}
	ends, err := adm.ListEndOffsets(ctx, sortedKeys(scope)...)
	if err != nil {
		return nil, err
	}
	after := kadm.ListedOffsets{}
	if f.datetime != "" {
		if after, err = adm.ListOffsetsAfterMilli(ctx, f.at.UnixMilli(), sortedKeys(scope)...); err != nil {
			return nil, err
		}
	}
	var moves []movedOffset
	for _, t := range topics {
		partitions := scope[t.Topic]
		if partitions == nil {
			partitions = t.Partitions.Numbers()
		}
		slices.Sort(partitions)
		for _, p := range slices.Compact(partitions) {
			m, err := f.move(t.Topic, p, committed, starts, ends, after)
			if err != nil {
				return nil, fmt.Errorf("topic %s partition %d: %w", t.Topic, p, err)
			}
			moves = append(moves, m)
		}
	}
	return moves, nil
}

func (f *resetFlags) move(topic string, p int32, committed kadm.OffsetResponses, starts, ends, after kadm.ListedOffsets) (movedOffset, error) {
	start, ok := starts.Lookup(topic, p)
	if !ok {
		return movedOffset{}, errors.New("does not exist")
	}
	end, _ := ends.Lookup(topic, p)
	if err := errors.Join(start.Err, end.Err); err != nil {
		return movedOffset{}, err
	}
	m := movedOffset{Topic: topic, Partition: p, From: -1}
	if o, ok := committed.Lookup(topic, p); ok && o.Err == nil {
		m.From = o.At
	}
	switch {
	case f.earliest:
		m.To = start.Offset
	case f.latest:
		m.To = end.Offset
	case f.offsetSet:
		m.To = f.offset
	case f.shiftSet && m.From < 0:
		return movedOffset{}, errors.New("the group has committed nothing that could be shifted")
	case f.shiftSet:
		m.To = m.From + f.shift
	default:
		o, _ := after.Lookup(topic, p)
		if o.Err != nil {
			return movedOffset{}, o.Err
		}
		if m.To = o.Offset; m.To < 0 {
			m.To = end.Offset // every record is older
		}
	}
	m.To = min(max(m.To, start.Offset), end.Offset)
	return m, nil
}

func (r *remote) showMoves(moves []movedOffset, done bool) error {
	if r.json {
		return writeJSON(r.Out, map[string]any{"executed": done, "offsets": moves})
	}
	tab := newTable(r.Out, "TOPIC", "PARTITION", "FROM", "TO")
	for _, m := range moves {
		tab.row(m.Topic, m.Partition, noneIfNegative(m.From), m.To)
	}
	if err := tab.flush(); err != nil {
		return err
	}
	if !done {
		return say(r.Err, "nothing was changed; --execute makes the change")
	}
	return nil
}
