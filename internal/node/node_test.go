package node

import (
	"context"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/kbroker/kbroker/internal/vfs/faultfs"
)

func TestProduceConsumeRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.start()
		w.create("t", 1, nil)
		w.produce("t", "a", "b", "c")
		require.Equal(t, []string{"a", "b", "c"}, w.consume("t", 0, 3))
		w.restart()
		require.Equal(t, []string{"b", "c"}, w.consume("t", 1, 2))
		w.produce("t", "d")
		require.Equal(t, []string{"c", "d"}, w.consume("t", 2, 2))
		w.stop()
	})
}

func TestBannerSaysHowToConnect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.start()
		for _, want := range []string{"kbroker test, node 1, cluster " + w.node.clusterID, "PLAINTEXT://" + address, "/data", "--bootstrap " + address} {
			require.Contains(t, w.banner.String(), want)
		}
		w.stop()
	})
}

// The power fails at any moment: what was acknowledged with flush.messages=1 is there afterwards, and the node starts by
// itself.
func TestPowerFailureKeepsWhatWasFlushed(t *testing.T) {
	for percent := 0; percent <= 100; percent += 50 {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.start()
			one := "1"
			w.create("t", 1, map[string]*string{"flush.messages": &one})
			w.produce("t", "a", "b")
			clone := w.mem.CrashClone(uint64(percent), percent)
			w.produce("t", "c")
			w.stop()
			w.fs, w.mem = clone, clone
			w.start()
			require.Equal(t, []string{"a", "b"}, w.consume("t", 0, 2))
			w.produce("t", "z")
			w.stop()
		})
	}
}

func TestGroupsSurviveARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.start()
		w.create("t", 1, nil)
		w.produce("t", "a", "b", "c", "d")
		read := func(n int) (got []string) {
			c := w.client(kgo.ConsumerGroup("g"), kgo.ConsumeTopics("t"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit())
			defer c.Close()
			for len(got) < n {
				fs := c.PollRecords(t.Context(), n-len(got))
				require.NoError(t, fs.Err())
				fs.EachRecord(func(r *kgo.Record) { got = append(got, string(r.Value)) })
				require.NoError(t, c.CommitUncommittedOffsets(t.Context()))
			}
			return got
		}
		require.Equal(t, []string{"a", "b"}, read(2))
		w.restart()
		require.Equal(t, []string{"c", "d"}, read(2))
		w.stop()
	})
}

func TestRetentionRunsByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.start()
		hour, small := "3600000", "2000"
		w.create("t", 1, map[string]*string{"retention.ms": &hour, "internal.segment.bytes": &small})
		for range 5 {
			w.produce("t", strings.Repeat("x", 900))
		}
		time.Sleep(2 * time.Hour) // virtual
		c := w.client()
		defer c.Close()
		starts, err := kadm.NewClient(c).ListStartOffsets(t.Context(), "t")
		require.NoError(t, err)
		o, _ := starts.Lookup("t", 0)
		require.Equal(t, int64(5), o.Offset)
		w.produce("t", "new")
		require.Equal(t, []string{"new"}, w.consume("t", 5, 1))
		w.stop()
	})
}

func TestDeletedTopicLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.start()
		w.create("t", 2, nil)
		w.produce("t", "old")
		c := w.client()
		defer c.Close()
		_, err := kadm.NewClient(c).DeleteTopic(t.Context(), "t")
		require.NoError(t, err)
		w.create("t", 1, nil) // at once, under the same name
		w.produce("t", "new")
		require.Equal(t, []string{"new"}, w.consume("t", 0, 1))
		time.Sleep(2 * time.Minute) // file.delete.delay.ms
		entries, err := w.mem.ReadDir("/data")
		require.NoError(t, err)
		for _, e := range entries {
			require.NotContains(t, e.Name(), "-delete")
		}
		w.stop()
	})
}

func TestLongPollEndsWithNewData(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.start()
		w.create("t", 1, nil)
		c := w.client(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"t": {0: kgo.NewOffset().At(0)}}), kgo.FetchMaxWait(20*time.Second))
		defer c.Close()
		got := make(chan time.Time, 1)
		go func() {
			c.PollFetches(t.Context())
			got <- time.Now()
		}()
		time.Sleep(7 * time.Second)
		begin := time.Now()
		w.produce("t", "x")
		require.Less(t, (<-got).Sub(begin), time.Second, "virtual time: the fetch is woken, not timed out")
		w.stop()
	})
}

// A damaged partition goes offline alone and says where.
func TestDamagedPartitionGoesOfflineAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.start()
		w.create("bad", 1, nil)
		w.create("good", 1, nil)
		w.produce("bad", "aaaaaaaaaaaa", "bbbbbbbbbbbb", "cccccccccccc")
		w.produce("good", "fine")
		clone := w.mem.CrashClone(1, 100)
		w.stop()
		f, err := clone.Open("/data/bad-0/00000000000000000000.log", os.O_RDWR, 0)
		require.NoError(t, err)
		_, err = f.WriteAt([]byte("?"), 75)
		require.NoError(t, err)
		require.NoError(t, f.Close())
		w.fs, w.mem = clone, clone
		w.start()
		require.Equal(t, []string{"fine"}, w.consume("good", 0, 1))
		w.produce("good", "more")
		c := w.client(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"bad": {0: kgo.NewOffset().At(0)}}), kgo.KeepRetryableFetchErrors())
		defer c.Close()
		require.ErrorIs(t, c.PollFetches(t.Context()).Err0(), kerr.KafkaStorageError)
		w.stop()
	})
}

func TestAWrongNodeIDIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.start()
		w.stop()
		w.settings = []string{"node.id=7"}
		_, err := Start(context.Background(), w.options())
		require.ErrorContains(t, err, "/data belongs to node 1, not to node 7")
		require.Empty(t, w.mem.OpenFiles())
	})
}

func TestADirectoryInUseIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.start()
		_, err := Start(context.Background(), w.options())
		require.ErrorContains(t, err, "log directory /data is in use by another process")
		w.produce("auto", "the first one still serves")
		w.stop()
	})
}

func TestSeveralNodesAreRefused(t *testing.T) {
	w := newWorld(t, "controller.quorum.voters=1@10.0.0.1:9093,2@10.0.0.2:9093", "controller.listener.names=CONTROLLER",
		"listeners=PLAINTEXT://"+address+",CONTROLLER://10.0.0.1:9093", "process.roles=broker,controller", "node.id=1")
	_, err := Start(context.Background(), w.options())
	require.ErrorContains(t, err, "controller.quorum.voters names node 2")
}

func TestProtectedListenersAreRefused(t *testing.T) {
	w := newWorld(t, "listeners=SECURE://"+address, "listener.security.protocol.map=SECURE:SSL", "inter.broker.listener.name=SECURE")
	_, err := Start(context.Background(), w.options())
	require.ErrorContains(t, err, "listener SECURE: SSL is not served by this version")
}

func TestPortInUseSaysSo(t *testing.T) {
	w := newWorld(t)
	o := w.options()
	o.Listen = func(string, string) (net.Listener, error) {
		return nil, &net.OpError{Op: "listen", Err: syscall.EADDRINUSE}
	}
	_, err := Start(context.Background(), o)
	require.ErrorContains(t, err, "listener PLAINTEXT cannot be opened at "+address+": the port is in use by another process")
	_, err = w.mem.Stat("/data/meta.properties")
	require.ErrorIs(t, err, fs.ErrNotExist, "nothing is written before the port is ours")
}

// At every file operation of a start the disk fails: the node says so and leaves nothing behind, and the next start works.
func TestStartFailsCleanlyAtEveryFileOperation(t *testing.T) {
	for stopAt := 0; ; stopAt++ {
		finished := false
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			ff := faultfs.New(w.mem, 1)
			w.fs = ff
			n, failed := 0, false
			ff.SetHook(func(faultfs.Call) error {
				if n++; n > stopAt {
					failed = true
					return fmt.Errorf("operation %d: %w", n, syscall.EIO)
				}
				return nil
			})
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			defer cancel()
			node, err := Start(ctx, w.options())
			ff.SetHook(nil)
			if err == nil {
				require.NoError(t, node.Stop())
				finished = !failed
			}
			require.Empty(t, w.mem.OpenFiles(), "operation %d", stopAt)
			w.start()
			w.produce("auto", "works")
			w.stop()
		})
		if finished {
			require.Greater(t, stopAt, 5)
			return
		}
	}
}

func TestKafkaFilesAreThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.start()
		w.create("t", 1, nil)
		w.produce("t", "a")
		w.stop()
		for _, name := range []string{"meta.properties", ".kafka_cleanshutdown", "recovery-point-offset-checkpoint", "replication-offset-checkpoint",
			"log-start-offset-checkpoint", "t-0/partition.metadata", "t-0/leader-epoch-checkpoint", "t-0/00000000000000000000.log",
			"t-0/00000000000000000000.index", "t-0/00000000000000000000.timeindex", "t-0/00000000000000000001.snapshot"} {
			_, err := w.mem.Stat(filepath.Join("/data", name))
			require.NoError(t, err)
		}
	})
}
