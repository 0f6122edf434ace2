package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// consumeFlags is what the user wants to read.
type consumeFlags struct {
	group, offset, format, isolation string
	fromBeginning                    bool
	partitions                       []int32
	count                            int
	idle                             time.Duration
}

func (o Options) consumeCommand() *cobra.Command {
	var f consumeFlags
	c := &cobra.Command{
		Use: "consume TOPIC...", Short: "Print records as they come", Args: args(1, -1, "the names of topics"),
		Example: "  kbroker consume orders --from-beginning --count 10\n  kbroker consume orders --group billing --format json\n" +
			"  kbroker consume orders --partition 0 --offset 42 --idle 2s",
	}
	r := o.remote(c)
	c.Flags().StringVar(&f.group, "group", "", "consumer group; goes on where the group is and commits what was printed")
	c.Flags().BoolVar(&f.fromBeginning, "from-beginning", false, "begin with the oldest record; a group only where it has committed nothing")
	c.Flags().StringVar(&f.offset, "offset", "", "where to begin: earliest, latest, a number, or -N for N before the end")
	c.Flags().Int32SliceVar(&f.partitions, "partition", nil, "read only these partitions")
	c.Flags().IntVar(&f.count, "count", 0, "end after this many records")
	c.Flags().DurationVar(&f.idle, "idle", 0, "end when no record has come for this long")
	c.Flags().StringVar(&f.format, "format", "value", "value, text (with position, time, key and headers) or json")
	c.Flags().StringVar(&f.isolation, "isolation", "read_uncommitted", "read_committed leaves out open and aborted transactions")
	c.RunE = func(c *cobra.Command, topics []string) error {
		if r.json {
			f.format = "json"
		}
		opts, err := f.options()
		if err != nil {
			return err
		}
		return r.consume(c.Context(), &f, opts, topics)
	}
	return c
}

// options checks the flags and turns those that need no look at the cluster into options of the client.
func (f *consumeFlags) options() ([]kgo.Opt, error) {
	var opts []kgo.Opt
	switch f.format {
	case "value", "text", "json":
	default:
		return nil, usagef("--format %q: want value, text or json", f.format)
	}
	switch f.isolation {
	case "read_committed":
		opts = append(opts, kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	case "read_uncommitted":
	default:
		return nil, usagef("--isolation %q: want read_committed or read_uncommitted", f.isolation)
	}
	switch {
	case f.count < 0:
		return nil, usagef("--count %d: want 1 or more", f.count)
	case f.group != "" && (f.offset != "" || len(f.partitions) > 0):
		return nil, usagef("--group goes on where the group is, so it takes no --offset and no --partition; kbroker group reset moves a group")
	case f.fromBeginning && f.offset != "":
		return nil, usagef("--from-beginning and --offset contradict each other")
	}
	start, err := f.start()
	if err != nil {
		return nil, err
	}
	opts = append(opts, kgo.ConsumeStartOffset(start))
	if f.group != "" {
		opts = append(opts, kgo.ConsumerGroup(f.group), kgo.AutoCommitMarks(), kgo.ConsumeResetOffset(start))
	} else {
		opts = append(opts, kgo.ConsumeResetOffset(kgo.NoResetOffset()))
	}
	return opts, nil
}

func (f *consumeFlags) start() (kgo.Offset, error) {
	switch {
	case f.fromBeginning || f.offset == "earliest":
		return kgo.NewOffset().AtStart(), nil
	case f.offset == "" || f.offset == "latest":
		return kgo.NewOffset().AtEnd(), nil
	}
	n, err := strconv.ParseInt(f.offset, 10, 64)
	if err != nil {
		return kgo.Offset{}, usagef("--offset %q: want earliest, latest, a number, or -N", f.offset)
	}
	if n < 0 || strings.HasPrefix(f.offset, "-") {
		return kgo.NewOffset().AtEnd().Relative(n), nil
	}
	return kgo.NewOffset().At(n), nil
}

// consume checks that the topics exist, which the client would wait for, and prints their records.
func (r *remote) consume(ctx context.Context, f *consumeFlags, opts []kgo.Opt, topics []string) error {
	start, err := f.start()
	if err != nil {
		return err
	}
	err = r.admin(ctx, func(ctx context.Context, adm *kadm.Client, _ *kgo.Client) error {
		found, err := mustExist(ctx, adm, topics...)
		if err != nil || len(f.partitions) == 0 {
			return err
		}
		return havePartitions(found, f.partitions)
	})
	if err != nil {
		return err
	}
	if len(f.partitions) > 0 {
		byTopic := map[string]map[int32]kgo.Offset{}
		for _, t := range topics {
			byTopic[t] = map[int32]kgo.Offset{}
			for _, p := range f.partitions {
				byTopic[t][p] = start
			}
		}
		opts = append(opts, kgo.ConsumePartitions(byTopic))
	} else {
		opts = append(opts, kgo.ConsumeTopics(topics...))
	}
	notes := &connectionNotes{w: r.Err}
	cl, err := r.connect(ctx, append(opts, kgo.WithHooks(notes))...)
	if err != nil {
		return err
	}
	notes.begin()
	defer cl.CloseAllowingRebalance()
	return errors.Join(explain(r.poll(ctx, cl, f)), commitPrinted(ctx, cl, f, r.timeout))
}

func havePartitions(topics []kadm.TopicDetail, partitions []int32) error {
	for _, t := range topics {
		for _, p := range partitions {
			if _, ok := t.Partitions[p]; !ok {
				return fmt.Errorf("topic %s has no partition %d, only 0 to %d", t.Topic, p, len(t.Partitions)-1)
			}
		}
	}
	return nil
}

// commitPrinted commits what was printed, also after the user has ended the command.
func commitPrinted(ctx context.Context, cl *kgo.Client, f *consumeFlags, limit time.Duration) error {
	if f.group == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	if err := cl.CommitMarkedOffsets(ctx); err != nil {
		return fmt.Errorf("commit of group %s: %w", f.group, err)
	}
	return nil
}

// pollBatch bounds how many records are taken from the client at once.
const pollBatch = 1000

// poll prints records until the count is reached, none comes for too long or ctx ends.
func (r *remote) poll(ctx context.Context, cl *kgo.Client, f *consumeFlags) error {
	out := bufio.NewWriter(r.Out)
	for printed := 0; f.count == 0 || printed < f.count; {
		most := pollBatch
		if f.count > 0 {
			most = min(most, f.count-printed)
		}
		wait, cancel := ctx, context.CancelFunc(func() {})
		if f.idle > 0 {
			wait, cancel = context.WithTimeout(ctx, f.idle)
		}
		fetches := cl.PollRecords(wait, most)
		idle := wait.Err() != nil
		cancel()
		for it := fetches.RecordIter(); !it.Done(); printed++ {
			rec := it.Next()
			if err := writeRecord(out, f.format, rec); err != nil {
				return err
			}
			cl.MarkCommitRecords(rec)
		}
		if err := out.Flush(); err != nil {
			return fmt.Errorf("output: %w", err)
		}
		if err := fetchError(fetches); err != nil {
			return err
		}
		over := ctx.Err() != nil || idle && fetches.NumRecords() == 0
		if over {
			return nil
		}
	}
	return nil
}

// fetchError returns the first error of a poll that is not just the end of the wait.
func fetchError(fetches kgo.Fetches) error {
	for _, e := range fetches.Errors() {
		switch {
		case errors.Is(e.Err, context.Canceled), errors.Is(e.Err, context.DeadlineExceeded), errors.Is(e.Err, kgo.ErrClientClosed):
		case e.Topic == "":
			return e.Err
		default:
			return fmt.Errorf("topic %s partition %d: %w", e.Topic, e.Partition, e.Err)
		}
	}
	return nil
}
