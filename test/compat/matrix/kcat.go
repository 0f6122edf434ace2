package main

import (
	"context"
	"fmt"
	"os/exec"
	"strings"

	"github.com/kbroker/kbroker/test/compat/kafka"
)

// runKcat runs kcat, the command line of librdkafka, which is installed as a system package when it is missing.
func runKcat(ctx context.Context, j *job) ([]result, error) {
	if _, err := exec.LookPath("kcat"); err != nil {
		if err := installPackage(ctx, "kcat", j); err != nil {
			return nil, err
		}
	}
	k := &kcat{job: j}
	return runChecks(ctx, j, k.checks()), nil
}

// installPackage installs a Debian package.
func installPackage(ctx context.Context, name string, j *job) error {
	if err := runWith(kafka.Command(ctx, "apt-get", "update", "-qq"), j.log); err != nil {
		return err
	}
	return runWith(kafka.Command(ctx, "apt-get", "install", "-y", "-qq", "--no-install-recommends", name), j.log)
}

// kcat runs the program with its input and reads its output.
type kcat struct{ job *job }

func (k *kcat) checks() []check {
	list := []check{
		{"metadata of the cluster", k.metadata},
		{"metadata as JSON", k.metadataJSON},
		{"keys and headers", k.keysAndHeaders},
		{"null keys and values", k.nulls},
		{"from the end backwards", k.fromEnd},
		{"from a timestamp", k.fromTimestamp},
		{"query offsets by time", k.queryOffsets},
		{"partitions by key", k.partitionsByKey},
		{"consumer group", k.group},
		{"idempotent producer", k.idempotent},
		{"large messages", k.large},
		{"message too large", k.tooLarge},
		{"unknown topic", k.unknownTopic},
		{"read_committed", k.readCommitted},
		{"transactional producer", k.transactional},
		{"old broker version", k.oldVersion},
	}
	for _, codec := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		list = append(list, check{"codec " + codec, func(ctx context.Context) error { return k.codec(ctx, codec) }})
	}
	for _, acks := range []string{"0", "1", "all"} {
		list = append(list, check{"acks " + acks, func(ctx context.Context) error {
			return k.roundTrip(ctx, "acks-"+acks, "-X", "acks="+acks)
		}})
	}
	return list
}

// run executes kcat, without its chatter, with one mode's arguments and the given standard input.
func (k *kcat) run(ctx context.Context, in string, args ...string) (string, error) {
	return k.runLoud(ctx, in, append([]string{"-q"}, args...)...)
}

// runLoud is run with what kcat says about errors.
func (k *kcat) runLoud(ctx context.Context, in string, args ...string) (string, error) {
	cmd := kafka.Command(ctx, "kcat", append([]string{"-b", k.job.cluster.Bootstrap(), "-X", "topic.metadata.refresh.interval.ms=200"}, args...)...)
	cmd.Dir = k.job.dir
	cmd.Stdin = strings.NewReader(in)
	return output(cmd, k.job.log)
}

// consume reads a topic to its end.
func (k *kcat) consume(ctx context.Context, topic string, args ...string) (string, error) {
	return k.run(ctx, "", append([]string{"-C", "-e", "-t", topic, "-o", "beginning"}, args...)...)
}

func want(what, got, want string) error {
	if got != want {
		return fmt.Errorf("%s: got %s, want %s", what, clip(got), clip(want))
	}
	return nil
}

func clip(s string) string {
	if len(s) > 300 {
		return fmt.Sprintf("%q... (%d bytes)", s[:300], len(s))
	}
	return fmt.Sprintf("%q", s)
}

// numbered are lines from 1 to n, each some tens of bytes.
func numbered(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "message number %d, with a tail that compresses well\n", i+1)
	}
	return b.String()
}

func (k *kcat) roundTrip(ctx context.Context, topic string, args ...string) error {
	in := numbered(500)
	if _, err := k.run(ctx, in, append([]string{"-P", "-t", topic, "-p", "0"}, args...)...); err != nil {
		return err
	}
	out, err := k.consume(ctx, topic, "-c", "500", "-p", "0")
	if err != nil {
		return err
	}
	return want("consumed", out, in)
}

func (k *kcat) codec(ctx context.Context, codec string) error {
	return k.roundTrip(ctx, "codec-"+codec, "-z", codec)
}

func (k *kcat) metadata(ctx context.Context) error {
	if _, err := k.run(ctx, "x\n", "-P", "-t", "listed"); err != nil {
		return err
	}
	out, err := k.run(ctx, "", "-L")
	if err != nil {
		return err
	}
	for _, part := range []string{"1 brokers", "broker 1 at " + k.job.cluster.Bootstrap() + " (controller)", `topic "listed" with 1 partitions`, "partition 0, leader 1, replicas: 1, isrs: 1"} {
		if !strings.Contains(out, part) {
			return fmt.Errorf("no %q in:\n%s", part, out)
		}
	}
	return nil
}

func (k *kcat) metadataJSON(ctx context.Context) error {
	if _, err := k.run(ctx, "x\n", "-P", "-t", "json"); err != nil {
		return err
	}
	out, err := k.run(ctx, "", "-L", "-J", "-t", "json")
	if err != nil {
		return err
	}
	if !strings.Contains(out, `"topic":"json","partitions":[{"partition":0,"leader":1,"replicas":[{"id":1}],"isrs":[{"id":1}]}]`) {
		return fmt.Errorf("metadata: %s", out)
	}
	return nil
}

func (k *kcat) keysAndHeaders(ctx context.Context) error {
	if _, err := k.run(ctx, "k1:v1\nk2:v2\n", "-P", "-t", "keys", "-K:", "-H", "h1=x", "-H", "h2=y"); err != nil {
		return err
	}
	out, err := k.consume(ctx, "keys", "-f", `%o %k=%s %h\n`)
	if err != nil {
		return err
	}
	return want("records", out, "0 k1=v1 h1=x,h2=y\n1 k2=v2 h1=x,h2=y\n")
}

func (k *kcat) nulls(ctx context.Context) error {
	if _, err := k.run(ctx, "k:\n:v\n", "-P", "-t", "nulls", "-K:", "-Z"); err != nil {
		return err
	}
	out, err := k.consume(ctx, "nulls", "-f", `%K %k|%S %s\n`)
	if err != nil {
		return err
	}
	return want("lengths", out, "1 k|-1 \n-1 |1 v\n")
}

func (k *kcat) fromEnd(ctx context.Context) error {
	if _, err := k.run(ctx, numbered(50), "-P", "-t", "tail"); err != nil {
		return err
	}
	out, err := k.run(ctx, "", "-C", "-e", "-t", "tail", "-p", "0", "-o", "-3", "-f", `%o\n`)
	if err != nil {
		return err
	}
	return want("offsets", out, "47\n48\n49\n")
}

func (k *kcat) fromTimestamp(ctx context.Context) error {
	if _, err := k.run(ctx, numbered(5), "-P", "-t", "times"); err != nil {
		return err
	}
	out, err := k.run(ctx, "", "-C", "-e", "-t", "times", "-p", "0", "-o", "s@1000000000000", "-f", `%o\n`)
	if err != nil {
		return err
	}
	return want("offsets", out, "0\n1\n2\n3\n4\n")
}

func (k *kcat) queryOffsets(ctx context.Context) error {
	if _, err := k.run(ctx, numbered(7), "-P", "-t", "query"); err != nil {
		return err
	}
	for _, q := range [][2]string{{"query:0:-1", "query [0] offset 7\n"}, {"query:0:-2", "query [0] offset 0\n"}, {"query:0:1000", "query [0] offset 0\n"}, {"query:0:9000000000000", "query [0] offset -1\n"}} {
		out, err := k.run(ctx, "", "-Q", "-t", q[0])
		if err != nil {
			return err
		}
		if err := want(q[0], out, q[1]); err != nil {
			return err
		}
	}
	return nil
}

func (k *kcat) partitionsByKey(ctx context.Context) error {
	if err := createTopic(ctx, k.job, "spread", 5, nil); err != nil {
		return err
	}
	var in strings.Builder
	for i := range 200 {
		fmt.Fprintf(&in, "key-%d:v\n", i)
	}
	if _, err := k.run(ctx, in.String(), "-P", "-t", "spread", "-K:"); err != nil {
		return err
	}
	out, err := k.consume(ctx, "spread", "-f", `%p %k\n`)
	if err != nil {
		return err
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	used := map[string]bool{}
	for _, l := range lines {
		used[strings.Fields(l)[0]] = true
	}
	if len(lines) != 200 || len(used) != 5 {
		return fmt.Errorf("%d records on %d partitions", len(lines), len(used))
	}
	return nil
}

func (k *kcat) group(ctx context.Context) error {
	if _, err := k.run(ctx, numbered(100), "-P", "-t", "grouped"); err != nil {
		return err
	}
	first, err := k.run(ctx, "", "-G", "readers", "-c", "60", "-X", "auto.offset.reset=earliest", "-f", `%o\n`, "grouped")
	if err != nil {
		return err
	}
	if n := strings.Count(first, "\n"); n != 60 {
		return fmt.Errorf("the first reader got %d records", n)
	}
	second, err := k.run(ctx, "", "-G", "readers", "-e", "-X", "auto.offset.reset=earliest", "-f", `%o\n`, "grouped")
	if err != nil {
		return err
	}
	if !strings.HasSuffix(second, "99\n") || strings.HasPrefix(second, "0\n") {
		return fmt.Errorf("the second reader does not go on where the first left: %s", clip(second))
	}
	return nil
}

func (k *kcat) idempotent(ctx context.Context) error {
	return k.roundTrip(ctx, "idempotent", "-X", "enable.idempotence=true")
}

func (k *kcat) large(ctx context.Context) error {
	in := strings.Repeat("x", 900_000) + "\n" + strings.Repeat("y", 900_000) + "\n"
	if _, err := k.run(ctx, in, "-P", "-t", "large"); err != nil {
		return err
	}
	out, err := k.consume(ctx, "large")
	if err != nil {
		return err
	}
	return want("consumed", out, in)
}

func (k *kcat) tooLarge(ctx context.Context) error {
	out, err := k.runLoud(ctx, strings.Repeat("x", 3_000_000)+"\n", "-P", "-t", "huge", "-X", "message.max.bytes=10000000")
	if err == nil || !strings.Contains(out, "Message size too large") {
		return fmt.Errorf("3 MB: %v: %s", err, out)
	}
	return nil
}

func (k *kcat) unknownTopic(ctx context.Context) error {
	out, err := k.runLoud(ctx, "", "-C", "-e", "-t", "no-such-topic", "-X", "allow.auto.create.topics=false")
	if err == nil || !strings.Contains(out, "Unknown topic or partition") {
		return fmt.Errorf("%v: %s", err, out)
	}
	return nil
}

func (k *kcat) readCommitted(ctx context.Context) error {
	if _, err := k.run(ctx, numbered(10), "-P", "-t", "committed"); err != nil {
		return err
	}
	out, err := k.consume(ctx, "committed", "-X", "isolation.level=read_committed")
	if err != nil {
		return err
	}
	return want("consumed", out, numbered(10))
}

func (k *kcat) transactional(ctx context.Context) error {
	return k.roundTrip(ctx, "transactional", "-X", "transactional.id=kcat")
}

// oldVersion has librdkafka ask nothing and use the versions of Kafka 0.11.
func (k *kcat) oldVersion(ctx context.Context) error {
	return k.roundTrip(ctx, "old", "-X", "api.version.request=true", "-X", "broker.version.fallback=0.11.0.0")
}
