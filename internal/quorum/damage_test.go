package quorum

import (
	"fmt"
	"os"
	"testing"

	"github.com/kbroker/kbroker/internal/metadata"
	"github.com/kbroker/kbroker/internal/vfs"
	"github.com/kbroker/kbroker/internal/vfs/memfs"
	"github.com/stretchr/testify/require"
)

func batch(i int) []metadata.Record {
	return []metadata.Record{conf(fmt.Sprintf("key-%d", i), fmt.Sprintf("value-%d", i))}
}

// written returns a disk with ten batches in one segment, and with a snapshot in front of the last ones if wanted.
func written(t *testing.T, snapshots bool) *memfs.FS {
	t.Helper()
	fsys := memfs.New()
	o := single(fsys)
	if snapshots {
		o.SnapshotBytes = 300
	}
	n := start(t, o).caught()
	count := 10
	if snapshots {
		count = 30 // enough for the first segments to go
	}
	for i := range count {
		n.propose(batch(i)...)
		settle(n.Quorum)
	}
	n.stop()
	return fsys
}

func change(t *testing.T, fsys vfs.FS, name string, fn func(b []byte) []byte) {
	t.Helper()
	b, err := vfs.ReadFile(fsys, name)
	require.NoError(t, err)
	b = fn(b)
	f, err := fsys.Open(name, os.O_RDWR|os.O_TRUNC, 0)
	require.NoError(t, err)
	_, err = f.WriteAt(b, 0)
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

func flip(at int) func(b []byte) []byte {
	return func(b []byte) []byte {
		if at < 0 {
			at += len(b)
		}
		b[at] ^= 0x40
		return b
	}
}

func TestTornTailIsCut(t *testing.T) {
	for name, tear := range map[string]func(b []byte) []byte{
		"last byte missing":    func(b []byte) []byte { return b[:len(b)-1] },
		"last bytes zero":      func(b []byte) []byte { clear(b[len(b)-7:]); return b },
		"a bit flipped":        flip(-3),
		"zeros behind":         func(b []byte) []byte { return append(b, make([]byte, 4096)...) },
		"half a header behind": func(b []byte) []byte { return append(b, 0x4b, 0x42, 0x52, 0x4c, 0, 0) },
		"an impossible length": func(b []byte) []byte {
			return append(b, 0x4b, 0x42, 0x52, 0x4c, 0xff, 0xff, 0xff, 0xff, 1, 2, 3, 4, 0, 0, 0, 0, 0, 0, 0, 9, 9)
		},
		"an older frame repeated": func(b []byte) []byte { return append(append(b, 1), b[len(b)-100:]...) },
	} {
		t.Run(name, func(t *testing.T) {
			fsys := written(t, false)
			change(t, fsys, files(t, fsys, segmentSuffix)[0], tear)
			n := start(t, single(fsys)).caught()
			require.GreaterOrEqual(t, len(confs(n.Image())), 9)
			n.propose(batch(10)...)
			n.stop()
			n = start(t, single(fsys)).caught()
			require.Contains(t, confs(n.Image()), "key-10")
			n.stop()
		})
	}
}

// Q2: what was synced and is damaged is never taken for a torn write.
func TestDamageIsRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		snapshots bool
		suffix    string
		damage    func(b []byte) []byte
		want      string
	}{
		"bit in the middle":      {false, segmentSuffix, flip(300), "a later frame stands at"},
		"bit in the head":        {false, segmentSuffix, flip(25), "head: no whole frame: checksum"},
		"empty segment":          {false, segmentSuffix, func([]byte) []byte { return nil }, "head: no whole frame: 0 bytes left"},
		"bit in a snapshot":      {true, snapshotSuffix, flip(80), "snapshot at"},
		"snapshot cut short":     {true, snapshotSuffix, func(b []byte) []byte { return b[:len(b)-5] }, "snapshot at"},
		"end of snapshot gone":   {true, snapshotSuffix, func(b []byte) []byte { return b[:len(b)-frameHeaderSize-2] }, "0 bytes left"},
		"bytes behind snapshot":  {true, snapshotSuffix, func(b []byte) []byte { return append(b, 0) }, "bytes left"},
		"bit in older segment":   {true, segmentSuffix, flip(-3), "not the last segment"},
		"snapshot of nothing":    {true, snapshotSuffix, func([]byte) []byte { return nil }, "0 bytes left"},
		"another file's content": {true, snapshotSuffix, func(b []byte) []byte { return []byte("version=1\n") }, "10 bytes left"},
	} {
		t.Run(name, func(t *testing.T) {
			fsys := written(t, tc.snapshots)
			name := files(t, fsys, tc.suffix)[0]
			change(t, fsys, name, tc.damage)
			_, err := Open(single(fsys))
			require.ErrorIs(t, err, ErrCorrupt)
			require.ErrorContains(t, err, tc.want)
			require.ErrorContains(t, err, name, "the message names the file")
			require.Empty(t, fsys.OpenFiles())
		})
	}
}

func TestMissingFilesAreRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		remove func(fsys vfs.FS) string
		want   string
	}{
		"snapshot": {func(fsys vfs.FS) string { return files(t, fsys, snapshotSuffix)[0] }, "log begins with entry"},
		"segment":  {func(fsys vfs.FS) string { s := files(t, fsys, segmentSuffix); return s[len(s)-1] }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			fsys := written(t, true)
			require.NoError(t, fsys.Remove(tc.remove(fsys)))
			q, err := Open(single(fsys))
			if tc.want == "" {
				// The last segment may be missing without a trace; the one before it must then be whole.
				require.NoError(t, err)
				run(t, q).stop()
				return
			}
			require.ErrorIs(t, err, ErrCorrupt)
			require.ErrorContains(t, err, tc.want)
		})
	}
	t.Run("all segments", func(t *testing.T) {
		fsys := written(t, true)
		for _, f := range files(t, fsys, segmentSuffix) {
			require.NoError(t, fsys.Remove(f))
		}
		_, err := Open(single(fsys))
		require.ErrorIs(t, err, ErrCorrupt)
		require.ErrorContains(t, err, "no log")
	})
	t.Run("foreign name", func(t *testing.T) {
		fsys := written(t, true)
		require.NoError(t, fsys.Rename(files(t, fsys, segmentSuffix)[0], dir+"/7"+segmentSuffix))
		_, err := Open(single(fsys))
		require.ErrorContains(t, err, "not a name")
	})
}

func TestAnotherNodesLogIsRefused(t *testing.T) {
	fsys := written(t, false)
	o := single(fsys)
	o.NodeID, o.Voters = 5, []int32{5}
	_, err := Open(o)
	require.ErrorContains(t, err, "belongs to node 0, not to node 5")
}

// Q6: a disk that fails ends the node, and its proposals with an error.
func TestFailingDiskEndsRun(t *testing.T) {
	fsys := &plugFS{FS: memfs.New(), left: -1}
	n := start(t, single(fsys)).caught()
	n.propose(batch(0)...)
	wait := make(chan struct{})
	n.try(func() { fsys.left = 1; close(wait) }) // the write works, the sync does not
	<-wait
	_, err := n.Propose(t.Context(), batch(1))
	require.ErrorIs(t, err, ErrClosed)
	require.ErrorIs(t, <-n.done, errPulled)
}

func TestFullDiskDuringSnapshotIsSurvived(t *testing.T) {
	disk := memfs.New()
	o := single(disk)
	o.SnapshotBytes = 500
	fsys := &failingSnapshots{FS: disk}
	o.FS = fsys
	n := start(t, o).caught()
	for i := range 20 {
		n.propose(batch(i)...)
		settle(n.Quorum)
	}
	require.Empty(t, files(t, disk, snapshotSuffix))
	fsys.working.Store(true)
	for i := range 20 {
		n.propose(batch(20 + i)...)
		settle(n.Quorum)
	}
	require.Len(t, files(t, disk, snapshotSuffix), 1)
	n.stop()
	n = start(t, single(disk)).caught()
	require.Len(t, confs(n.Image()), 40)
	n.stop()
}

func TestFutureVersionsAreRefused(t *testing.T) {
	h := (&head{}).encode()
	h[1] = 9
	_, err := decodeHead(h)
	require.ErrorIs(t, err, ErrVersion)

	var b []byte
	s := &snapshot{position: position{3, 1}, conf: confState(0), image: metadata.Empty()}
	require.NoError(t, encodeSnapshot(s, func(f []byte) error { b = append(b, f...); return nil }))
	_, payload, rest, err := cutFrame(b, 0)
	require.NoError(t, err)
	payload = append([]byte(nil), payload...)
	payload[1] = 9
	_, err = decodeSnapshot(append(appendFrame(nil, 0, 0, payload), rest...))
	require.ErrorIs(t, err, ErrVersion)
}

func FuzzDecodeSnapshot(f *testing.F) {
	var b []byte
	img, _, err := metadata.Empty().Apply(batch(1))
	require.NoError(f, err)
	s := &snapshot{position: position{3, 1}, conf: confState(0, 1), image: img}
	require.NoError(f, encodeSnapshot(s, func(frame []byte) error { b = append(b, frame...); return nil }))
	f.Add(b)
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := decodeSnapshot(b)
		if err == nil {
			require.NotNil(t, s.image)
		}
	})
}

// The payloads are fuzzed behind the checksum, which no fuzzer gets past.
func FuzzDecodePayloads(f *testing.F) {
	f.Add((&head{nodeID: 1, salt: 7}).encode())
	f.Add((&appended{hard: hardState(3, 1, 9), reset: &position{4, 2}, entries: entries(5, 3, "x", "")}).encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		if h, err := decodeHead(b); err == nil {
			again, err := decodeHead(h.encode())
			require.NoError(t, err)
			require.Equal(t, h, again)
		}
		if a, err := decodeAppended(b); err == nil {
			again, err := decodeAppended(a.encode())
			require.NoError(t, err)
			require.Equal(t, a.encode(), again.encode())
		}
	})
}
