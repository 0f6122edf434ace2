package crash

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// An idempotent producer writes numbers while its broker is killed again and again. Every acknowledged number is there once,
// in order, and offsets have no gaps.
func TestKilledBrokerLosesNothingAcknowledged(t *testing.T) {
	const rounds = 6
	p := newProcess(t, "log.segment.bytes=1048576")
	p.start()
	c, err := kgo.NewClient(kgo.SeedBrokers(p.addr), kgo.DefaultProduceTopic("t"), kgo.AllowAutoTopicCreation(), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.RetryTimeout(time.Minute), kgo.MaxBufferedRecords(2000), kgo.RequestRetries(1000), kgo.RecordRetries(1000), kgo.RetryBackoffFn(func(int) time.Duration { return 20 * time.Millisecond }))
	require.NoError(t, err)
	defer c.Close()

	var acked atomic.Int64
	stop, sent := make(chan struct{}), make(chan int, 1)
	go func() {
		pad := make([]byte, 200)
		for n := 0; ; n++ {
			select {
			case <-stop:
				sent <- n
				return
			default:
			}
			c.Produce(context.Background(), &kgo.Record{Key: []byte(strconv.Itoa(n)), Value: pad}, func(_ *kgo.Record, err error) {
				if err == nil {
					acked.Add(1)
				}
			})
		}
	}()
	rng := rand.New(rand.NewPCG(7, 7))
	for range rounds {
		target := acked.Load() + 2000 + rng.Int64N(5000)
		require.Eventually(t, func() bool { return acked.Load() >= target }, 30*time.Second, time.Millisecond, "the producer does not get on:\n%s", &p.log)
		p.kill()
		p.start()
	}
	close(stop)
	total := <-sent
	require.NoError(t, c.Flush(context.Background()))
	require.Equal(t, int64(total), acked.Load())
	requireSequence(t, p.addr, "t", total)
	require.Zero(t, p.terminate(), "%s", &p.log)
	p.start()
	requireSequence(t, p.addr, "t", total)
}

// requireSequence reads the topic's partition and expects key n at offset n, for all n below total.
func requireSequence(t *testing.T, addr, topic string, total int) {
	t.Helper()
	c, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}))
	require.NoError(t, err)
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for n := 0; n < total; {
		fs := c.PollFetches(ctx)
		require.NoError(t, fs.Err())
		fs.EachRecord(func(r *kgo.Record) {
			if string(r.Key) != strconv.Itoa(n) || r.Offset != int64(n) {
				require.FailNow(t, "out of sequence", "expected %d, got key %s at offset %d", n, r.Key, r.Offset)
			}
			n++
		})
	}
	end, err := kadm.NewClient(c).ListEndOffsets(ctx, topic)
	require.NoError(t, err)
	o, _ := end.Lookup(topic, 0)
	require.Equal(t, int64(total), o.Offset)
}

// A group goes on where it was after its coordinator was killed: nothing committed is read again, nothing is skipped.
func TestKilledCoordinatorKeepsCommittedOffsets(t *testing.T) {
	p := newProcess(t, "offsets.topic.num.partitions=2")
	p.start()
	produceNumbers(t, p.addr, 300)
	seen := map[string]int{}
	for round := range 3 {
		c, err := kgo.NewClient(kgo.SeedBrokers(p.addr), kgo.ConsumerGroup("g"), kgo.ConsumeTopics("t"), kgo.DisableAutoCommit(),
			kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
		require.NoError(t, err)
		for n := 0; n < 100; {
			fs := c.PollRecords(context.Background(), 100-n)
			require.NoError(t, fs.Err())
			fs.EachRecord(func(r *kgo.Record) { seen[string(r.Key)]++; n++ })
		}
		require.NoError(t, c.CommitUncommittedOffsets(context.Background()), "round %d", round)
		p.kill()
		p.start()
		c.Close()
	}
	require.Len(t, seen, 300)
	for k, n := range seen {
		require.Equal(t, 1, n, "record %s", k)
	}
}

func produceNumbers(t *testing.T, addr string, n int) {
	t.Helper()
	c, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.DefaultProduceTopic("t"), kgo.AllowAutoTopicCreation())
	require.NoError(t, err)
	defer c.Close()
	var rs []*kgo.Record
	for i := range n {
		rs = append(rs, &kgo.Record{Key: []byte(strconv.Itoa(i)), Value: []byte("v")})
	}
	require.NoError(t, c.ProduceSync(context.Background(), rs...).FirstErr())
}

// SIGTERM in the middle of a load: everything that was acknowledged is there, the exit code is 0, the next start is clean.
func TestTerminationUnderLoad(t *testing.T) {
	p := newProcess(t)
	p.start()
	c, err := kgo.NewClient(kgo.SeedBrokers(p.addr), kgo.DefaultProduceTopic("t"), kgo.AllowAutoTopicCreation(), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.RecordRetries(0), kgo.DisableIdempotentWrite())
	require.NoError(t, err)
	defer c.Close()
	var (
		mu    sync.Mutex
		acked = map[int64]bool{}
	)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			c.Produce(ctx, &kgo.Record{Value: []byte("v")}, func(r *kgo.Record, err error) {
				if err == nil {
					mu.Lock()
					acked[r.Offset] = true
					mu.Unlock()
				}
			})
		}
	}()
	count := func() int { mu.Lock(); defer mu.Unlock(); return len(acked) }
	require.Eventually(t, func() bool { return count() > 5000 }, 30*time.Second, time.Millisecond)
	code := p.terminate()
	cancel()
	<-done
	require.Zero(t, code, "%s", &p.log)
	_, err = os.Stat(filepath.Join(p.dir, ".kafka_cleanshutdown"))
	require.NoError(t, err)
	p.start()
	admin, err := kgo.NewClient(kgo.SeedBrokers(p.addr))
	require.NoError(t, err)
	defer admin.Close()
	end, err := kadm.NewClient(admin).ListEndOffsets(context.Background(), "t")
	require.NoError(t, err)
	o, _ := end.Lookup("t", 0)
	mu.Lock()
	defer mu.Unlock()
	for offset := range acked {
		require.Less(t, offset, o.Offset)
	}
}

// What a person sees who makes a mistake: one line that says what to do, and exit code 2 for a wrong configuration.
func TestMistakesAreExplained(t *testing.T) {
	p := newProcess(t)
	p.start()
	file := filepath.Join(t.TempDir(), "server.properties")
	require.NoError(t, os.WriteFile(file, []byte("num.partitions=many\nlog.retention.hours=-5\nlisteners=oops\n"), 0o644))
	for _, c := range []struct {
		name string
		args []string
		code int
		want []string
	}{
		{"wrong flag", []string{"--colour"}, 2, []string{"unknown flag: --colour"}},
		{"wrong command", []string{"topics"}, 2, []string{`unknown command "topics"`}},
		{"all problems at once", []string{"--config", file}, 2, []string{"num.partitions=many", "listeners=oops", "allowed"}},
		{"missing file", []string{"--config", "/does/not/exist"}, 2, []string{"/does/not/exist"}},
		{"directory in use", []string{"--override", "log.dirs=" + p.dir, "--override", "listeners=PLAINTEXT://127.0.0.1:0"}, 1, []string{"in use by another process", p.dir}},
		{"port in use", []string{"--override", "log.dirs=" + t.TempDir(), "--override", "listeners=PLAINTEXT://" + p.addr}, 1, []string{"port is in use", "listeners"}},
		{"no broker there", []string{"topic", "list", "--bootstrap", "127.0.0.1:1"}, 1, []string{"no broker answers at 127.0.0.1:1", "start one"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			out, err := exec.Command(kbroker(t), append(c.args, ifBroker(c.args)...)...).CombinedOutput()
			var exit *exec.ExitError
			require.ErrorAs(t, err, &exit, "%s", out)
			require.Equal(t, c.code, exit.ExitCode(), "%s", out)
			for _, w := range c.want {
				require.Contains(t, string(out), w)
			}
			require.NotContains(t, string(out), "goroutine ")
		})
	}
}

// ifBroker keeps brokers that should not start off the default console port.
func ifBroker(args []string) []string {
	if len(args) > 0 && args[0][0] == '-' && args[0] != "--colour" {
		return []string{"--override", "http.listener="}
	}
	return nil
}

// A full disk refuses writes and nothing else; with room again writes go on without a restart.
func TestFullDisk(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("a small file system can only be mounted by root")
	}
	dir := t.TempDir()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", dir).CombinedOutput(); err != nil {
		t.Skipf("a small file system cannot be mounted here: %s", out)
	}
	p := newProcess(t)
	p.args = append(p.args, "--override", "log.dirs="+dir)
	t.Cleanup(func() {
		p.kill()
		if out, err := exec.Command("umount", dir).CombinedOutput(); err != nil {
			t.Errorf("umount %s: %s", dir, out)
		}
	})
	p.start()
	c, err := kgo.NewClient(kgo.SeedBrokers(p.addr), kgo.DefaultProduceTopic("t"), kgo.AllowAutoTopicCreation(), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.RecordRetries(2), kgo.DisableIdempotentWrite(), kgo.RecordDeliveryTimeout(2*time.Second))
	require.NoError(t, err)
	defer c.Close()
	ballast := filepath.Join(dir, "ballast")
	require.NoError(t, os.WriteFile(ballast, make([]byte, 12<<20), 0o644))
	var acked int64
	for {
		err := c.ProduceSync(context.Background(), &kgo.Record{Value: make([]byte, 900_000)}).FirstErr()
		if err != nil {
			break
		}
		acked++
		require.Less(t, acked, int64(40), "the disk has room for fewer")
	}
	require.Positive(t, acked)
	require.NoError(t, os.Remove(ballast))
	r, err := c.ProduceSync(context.Background(), &kgo.Record{Value: []byte("room again")}).First()
	require.NoError(t, err, "%s", &p.log)
	require.Equal(t, acked, r.Offset, fmt.Sprintf("what was refused left nothing behind:\n%s", &p.log))
	require.Zero(t, p.terminate())
}
