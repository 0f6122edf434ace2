package logdir

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kbroker/kbroker/internal/model"
	"github.com/kbroker/kbroker/internal/vfs"
	"github.com/kbroker/kbroker/internal/vfs/faultfs"
	"github.com/kbroker/kbroker/internal/vfs/memfs"
)

func write(t *testing.T, fsys vfs.FS, name, text string) {
	t.Helper()
	require.NoError(t, fsys.MkdirAll(filepath.Dir(name), 0o755))
	f, err := fsys.Open(name, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
	require.NoError(t, err)
	_, err = f.WriteAt([]byte(text), 0)
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

func open(t *testing.T, fsys vfs.FS) *Dir {
	t.Helper()
	d, err := Open(fsys, "/d")
	require.NoError(t, err)
	return d
}

func TestClaimMarksANewDirectoryOnce(t *testing.T) {
	fsys := memfs.New()
	d := open(t, fsys)
	_, known := d.Meta()
	require.False(t, known)
	require.NoError(t, d.Claim("cluster-a", 3))
	id := d.ID()
	require.False(t, id.IsZero())
	require.NoError(t, d.Close(false, -1))

	text, err := vfs.ReadFile(fsys, "/d/meta.properties")
	require.NoError(t, err)
	require.Equal(t, "cluster.id=cluster-a\ndirectory.id="+id.String()+"\nnode.id=3\nversion=1\n", string(text))

	d = open(t, fsys)
	require.NoError(t, d.Claim("cluster-a", 3))
	require.Equal(t, id, d.ID(), "the identity stays")
	require.NoError(t, d.Close(false, -1))
}

// D2: somebody else's directory is refused, with what is wrong, and nothing in it changes.
func TestForeignDirectoriesAreRefused(t *testing.T) {
	fsys := memfs.New()
	d := open(t, fsys)
	require.NoError(t, d.Claim("cluster-a", 3))
	before := fsys.String()
	require.ErrorContains(t, d.Claim("cluster-b", 3), "/d belongs to cluster cluster-a, not to cluster cluster-b")
	require.ErrorContains(t, d.Claim("cluster-a", 4), "node 3, not to node 4")
	err := d.Claim("cluster-b", 4)
	require.ErrorContains(t, err, "cluster cluster-a, not to cluster cluster-b and to node 3, not to node 4")
	require.Equal(t, before, fsys.String())
}

func TestKafkasOldDirectoriesAreTakenOver(t *testing.T) {
	fsys := memfs.New()
	write(t, fsys, "/d/meta.properties", "#Tue Dec 01\nversion=0\nbroker.id=5\ncluster.id=abc\n")
	d := open(t, fsys)
	m, known := d.Meta()
	require.True(t, known)
	require.Equal(t, Meta{Version: 0, ClusterID: "abc", NodeID: 5}, m)
	require.NoError(t, d.Claim("abc", 5))
	require.Equal(t, 1, d.meta.Version)
	require.False(t, d.ID().IsZero())
}

func TestDamagedMetaNamesTheFile(t *testing.T) {
	for text, why := range map[string]string{
		"":                                     `version "" is not a number`,
		"version=9\nnode.id=1":                 "version 9 is not known",
		"version=1\nnode.id=x":                 `node.id "x" is not a node id`,
		"version=1\nnode.id=-4":                `node.id "-4" is not a node id`,
		"version=1\nnode.id=1\ndirectory.id=!": "directory.id",
	} {
		fsys := memfs.New()
		write(t, fsys, "/d/meta.properties", text)
		_, err := Open(fsys, "/d")
		require.ErrorContains(t, err, "/d/meta.properties cannot be read", text)
		require.ErrorContains(t, err, why)
		lock, err := fsys.Lock("/d/.lock")
		require.NoError(t, err, "the lock was given back")
		require.NoError(t, lock.Close())
	}
}

// D1
func TestOneProcessAtATime(t *testing.T) {
	fsys := memfs.New()
	d := open(t, fsys)
	_, err := Open(fsys, "/d")
	require.ErrorContains(t, err, "log directory /d is in use by another process")
	require.NoError(t, d.Close(false, -1))
	open(t, fsys)
}

// D3: the file vouches once, for what was closed cleanly, whatever happens next.
func TestCleanShutdownIsConsumed(t *testing.T) {
	fsys := memfs.New()
	d := open(t, fsys)
	require.Equal(t, CleanShutdown{BrokerEpoch: -1}, d.CleanShutdown())
	require.NoError(t, d.Claim("c", 1))
	require.NoError(t, d.Close(true, 17))
	text, err := vfs.ReadFile(fsys, "/d/.kafka_cleanshutdown")
	require.NoError(t, err)
	require.Equal(t, `{"version":0,"brokerEpoch":17}`, string(text))

	d = open(t, fsys)
	require.Equal(t, CleanShutdown{Clean: true, BrokerEpoch: 17}, d.CleanShutdown())
	crashed := fsys.CrashClone(1, 0)
	d2, err := Open(crashed, "/d")
	require.NoError(t, err)
	require.False(t, d2.CleanShutdown().Clean, "a crash after the start is not clean")

	require.True(t, d.Fail(os.ErrInvalid))
	require.NoError(t, d.Close(true, 18))
	require.False(t, open(t, fsys).CleanShutdown().Clean, "an offline directory is not clean")
}

func TestGarbageInCleanShutdownIsNotClean(t *testing.T) {
	fsys := memfs.New()
	write(t, fsys, "/d/.kafka_cleanshutdown", "yes")
	require.False(t, open(t, fsys).CleanShutdown().Clean)
}

func TestScanTellsFoldersApart(t *testing.T) {
	fsys := memfs.New()
	d := open(t, fsys)
	id := model.NewUUID()
	_, err := d.Create(model.TopicPartition{Topic: "a-b", Partition: 7}, id)
	require.NoError(t, err)
	_, err = d.Create(model.TopicPartition{Topic: "gone", Partition: 0}, id)
	require.NoError(t, err)
	_, err = d.Mark(model.TopicPartition{Topic: "gone", Partition: 0}, "/d/gone-0", Doomed)
	require.NoError(t, err)
	require.NoError(t, fsys.MkdirAll("/d/half-0", 0o755)) // its creation was cut short
	require.NoError(t, fsys.MkdirAll("/d/__cluster_metadata-0", 0o755))
	for _, strange := range []string{"notes", "x-", "-3", "y-01", "z--1", "w-99999999999"} {
		require.NoError(t, fsys.MkdirAll("/d/"+strange, 0o755))
	}
	write(t, fsys, "/d/file-1", "not a folder")

	found, odd, err := d.Scan()
	require.NoError(t, err)
	got := map[string]State{}
	for _, f := range found {
		got[f.String()] = f.State
		if f.Topic == "a-b" {
			require.Equal(t, id, f.TopicID)
		}
		if f.Topic == "half" {
			require.True(t, f.TopicID.IsZero())
		}
	}
	require.Equal(t, map[string]State{"a-b-7": Live, "gone-0": Doomed, "half-0": Live, "z--1": Live}, got)
	require.Equal(t, []string{"-3", "notes", "w-99999999999", "x-", "y-01"}, odd)
}

func TestMarkedNamesFitAnyFileSystem(t *testing.T) {
	fsys := memfs.New()
	d := open(t, fsys)
	tp := model.TopicPartition{Topic: strings.Repeat("t", 249), Partition: 99999}
	path, err := d.Create(tp, model.NewUUID())
	require.NoError(t, err)
	marked, err := d.Mark(tp, path, Doomed)
	require.NoError(t, err)
	name := filepath.Base(marked)
	require.LessOrEqual(t, len(name), 255)
	parsed, state, ok := parseName(name)
	require.True(t, ok)
	require.Equal(t, Doomed, state)
	require.Equal(t, tp.Partition, parsed.Partition)
	require.NoError(t, d.Remove(marked))
}

// D4: a crash at any file operation of a creation leaves no folder, or one that is recognised and can be created again.
func TestCreateSurvivesACrashAtEveryFileOperation(t *testing.T) {
	tp, id := model.TopicPartition{Topic: "t", Partition: 0}, model.NewUUID()
	for stopAt := 0; ; stopAt++ {
		mem := memfs.New()
		ff := faultfs.New(mem, 1)
		d := open(t, ff)
		n := 0
		var clones []*memfs.FS
		ff.SetHook(func(faultfs.Call) error {
			if n++; n > stopAt {
				if clones == nil {
					clones = []*memfs.FS{mem.CrashClone(1, 0), mem.CrashClone(2, 50), mem.CrashClone(3, 100)}
				}
				return os.ErrPermission
			}
			return nil
		})
		_, err := d.Create(tp, id)
		if clones == nil {
			require.NoError(t, err)
			require.Greater(t, stopAt, 3)
			after, err := Open(mem.CrashClone(1, 0), "/d")
			require.NoError(t, err)
			found, _, err := after.Scan()
			require.NoError(t, err)
			require.Equal(t, []Found{{tp, id, "/d/t-0", Live}}, found, "durable once Create returns")
			return
		}
		for _, c := range clones {
			after, err := Open(c, "/d")
			require.NoError(t, err)
			found, _, err := after.Scan()
			require.NoError(t, err)
			for _, f := range found {
				require.True(t, f.TopicID.IsZero() || f.TopicID == id)
			}
			_, err = after.Create(tp, id)
			require.NoError(t, err)
		}
	}
}

func TestCheckpointsRoundTrip(t *testing.T) {
	d := open(t, memfs.New())
	none, err := d.ReadCheckpoint(HighWatermarks)
	require.NoError(t, err)
	require.Empty(t, none)
	want := map[model.TopicPartition]int64{{Topic: "a", Partition: 0}: 5, {Topic: "b.c_d", Partition: 3}: 1 << 40}
	for _, k := range []Kind{RecoveryPoints, LogStarts, HighWatermarks, Cleaned} {
		require.NoError(t, d.WriteCheckpoint(k, want))
		got, err := d.ReadCheckpoint(k)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
}

func FuzzParseName(f *testing.F) {
	f.Add("t-0")
	f.Add("t-0.0123456789abcdef0123456789abcdef-delete")
	f.Fuzz(func(t *testing.T, name string) {
		tp, state, ok := parseName(name)
		if ok && state == Live && tp.String() != name {
			t.Fatalf("%q was read as %s", name, tp)
		}
	})
}
