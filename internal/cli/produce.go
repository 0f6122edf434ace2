package cli

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/term"
)

// maxLine bounds one line of input; the cluster's own limit is mostly 1 MiB.
const maxLine = 64 << 20

// produceFlags is what the user says about the records.
type produceFlags struct {
	separator, null, acks, compression string
	headers                            []string
	partition                          int32
}

func (o Options) produceCommand() *cobra.Command {
	var f produceFlags
	c := &cobra.Command{
		Use: "produce TOPIC", Short: "Write every line of standard input as a record", Args: args(1, 1, "the name of a topic"),
		Example: "  echo 'hello' | kbroker produce greetings\n  kbroker produce users --key-separator : < users.txt",
	}
	r := o.remote(c)
	c.Flags().StringVar(&f.separator, "key-separator", "", "text between key and value; without it records have no key")
	c.Flags().StringVar(&f.null, "null", "", "a key or value that equals this text is null, which deletes a key of a compacted topic")
	c.Flags().StringArrayVar(&f.headers, "header", nil, "header key=value of every record, repeatable")
	c.Flags().Int32Var(&f.partition, "partition", -1, "partition to write to; -1 chooses by key")
	c.Flags().StringVar(&f.acks, "acks", "all", "replicas that must have a record: all, 1 or 0")
	c.Flags().StringVar(&f.compression, "compression", "none", "none, gzip, snappy, lz4 or zstd")
	c.RunE = func(c *cobra.Command, a []string) error {
		opts, err := f.options()
		if err != nil {
			return err
		}
		record, err := f.maker(a[0])
		if err != nil {
			return err
		}
		notes := &connectionNotes{w: r.Err}
		cl, err := r.connect(c.Context(), append(opts, kgo.RecordDeliveryTimeout(r.timeout), kgo.AllowAutoTopicCreation(),
			kgo.WithHooks(notes))...)
		if err != nil {
			return err
		}
		notes.begin()
		defer cl.Close()
		return r.produce(c.Context(), cl, a[0], record)
	}
	return c
}

// options turns the flags into options of the client.
func (f *produceFlags) options() ([]kgo.Opt, error) {
	var opts []kgo.Opt
	switch f.acks {
	case "all", "-1":
		opts = append(opts, kgo.RequiredAcks(kgo.AllISRAcks()))
	case "1":
		opts = append(opts, kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite())
	case "0":
		opts = append(opts, kgo.RequiredAcks(kgo.NoAck()), kgo.DisableIdempotentWrite())
	default:
		return nil, usagef("--acks %q: want all, 1 or 0", f.acks)
	}
	codecs := map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}
	codec, ok := codecs[f.compression]
	if !ok {
		return nil, usagef("--compression %q: want none, gzip, snappy, lz4 or zstd", f.compression)
	}
	opts = append(opts, kgo.ProducerBatchCompression(codec))
	if f.partition >= 0 {
		opts = append(opts, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	}
	return opts, nil
}

// maker returns a function that makes the record of a line.
func (f *produceFlags) maker(topic string) (func(line []byte) (*kgo.Record, error), error) {
	pairs, err := parsePairs("header", f.headers)
	if err != nil {
		return nil, err
	}
	var headers []kgo.RecordHeader
	for _, p := range pairs {
		headers = append(headers, kgo.RecordHeader{Key: p[0], Value: []byte(p[1])})
	}
	orNull := func(b []byte) []byte {
		if f.null != "" && string(b) == f.null {
			return nil
		}
		return b
	}
	return func(line []byte) (*kgo.Record, error) {
		rec := &kgo.Record{Topic: topic, Headers: headers, Partition: max(f.partition, 0)}
		val := line
		if f.separator != "" {
			key, rest, found := bytes.Cut(line, []byte(f.separator))
			if !found {
				return nil, fmt.Errorf("no key separator %q", f.separator)
			}
			rec.Key, val = orNull(key), rest
		}
		rec.Value = orNull(val)
		return rec, nil
	}, nil
}

// written counts what became of the records.
type written struct {
	mu struct {
		sync.Mutex
		count, bytes int64
		err          error
	}
	failed context.CancelFunc
}

func (w *written) done(rec *kgo.Record, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil {
		w.mu.count++
		w.mu.bytes += int64(len(rec.Key) + len(rec.Value))
		return
	}
	if w.mu.err == nil {
		w.mu.err = err
	}
	w.failed() // the rest would fail the same way
}

func (w *written) result() (count, bytes int64, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mu.count, w.mu.bytes, w.mu.err
}

// produce writes the lines of r.In until they end, the first record fails or ctx ends, and then waits for what is on
// its way.
func (r *remote) produce(ctx context.Context, cl *kgo.Client, topic string, record func([]byte) (*kgo.Record, error)) error {
	if f, ok := r.In.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		if err := say(r.Err, "one record per line; Ctrl-D ends"); err != nil {
			return err
		}
	}
	reading, cancel := context.WithCancel(ctx)
	defer cancel()
	w := &written{failed: cancel}
	lineErr := eachLine(reading, r.In, func(line []byte) error {
		rec, err := record(line)
		if err == nil {
			cl.Produce(ctx, rec, w.done)
		}
		return err
	})
	flush, stop := context.WithTimeout(context.WithoutCancel(ctx), r.timeout)
	defer stop()
	if err := cl.Flush(flush); err != nil {
		lineErr = errors.Join(lineErr, fmt.Errorf("records on their way: %w", err))
	}
	count, bytes, err := w.result()
	return errors.Join(r.showWritten(topic, count, bytes), lineErr, produceError(topic, err))
}

func (r *remote) showWritten(topic string, count, bytes int64) error {
	if r.json {
		return writeJSON(r.Out, map[string]any{"topic": topic, "records": count, "bytes": bytes})
	}
	return say(r.Err, "wrote %s to %s", plural(int(count), "record"), topic)
}

func produceError(topic string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, kerr.UnknownTopicOrPartition):
		return fmt.Errorf("topic %s does not exist and the cluster makes none by itself (%w); kbroker topic create %s", topic,
			&codeOnly{kerr.UnknownTopicOrPartition}, topic)
	case errors.Is(err, kgo.ErrRecordTimeout):
		return fmt.Errorf("topic %s: %w; --timeout gives more time", topic, err)
	}
	return explain(fmt.Errorf("topic %s: %w", topic, err))
}

// eachLine calls fn with every line of in until it ends, fn fails or ctx ends, which is no error. The error names the line.
// A reader that blocks for ever, as a terminal does, keeps its goroutine until the process ends, which is what follows.
func eachLine(ctx context.Context, in io.Reader, fn func([]byte) error) error {
	lines, end := make(chan []byte, 64), make(chan error, 1)
	go func() {
		s := bufio.NewScanner(in)
		s.Buffer(make([]byte, 0, 64<<10), maxLine)
		for s.Scan() {
			select {
			case lines <- bytes.Clone(s.Bytes()):
			case <-ctx.Done():
				return
			}
		}
		close(lines)
		end <- s.Err()
	}()
	for number := 1; ; number++ {
		select {
		case <-ctx.Done():
			return nil
		case line, ok := <-lines:
			if !ok {
				return endOfInput(<-end)
			}
			if err := fn(line); err != nil {
				return fmt.Errorf("line %d: %w", number, err)
			}
		}
	}
}

func endOfInput(err error) error {
	switch {
	case errors.Is(err, bufio.ErrTooLong):
		return fmt.Errorf("a line is longer than %d MiB", maxLine>>20)
	case err != nil:
		return fmt.Errorf("input: %w", err)
	}
	return nil
}
