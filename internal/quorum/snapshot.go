package quorum

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/kbroker/kbroker/internal/metadata"
	"github.com/kbroker/kbroker/internal/vfs"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

const (
	snapshotSuffix = ".snapshot"
	// snapshotPartRecords bounds a part of a snapshot: some 64 KiB, so that writing one needs little memory.
	snapshotPartRecords = 1000
)

// snapshot is an image at a position of the log, with the membership that was in force there.
type snapshot struct {
	position
	conf  *pb.ConfState
	image *metadata.Image
}

func snapshotPath(dir string, p position) string {
	return filepath.Join(dir, fmt.Sprintf("%020d-%010d%s", p.index, p.term, snapshotSuffix))
}

// encodeSnapshot calls emit with the bytes of s in order, a frame at a time.
func encodeSnapshot(s *snapshot, emit func(frame []byte) error) error {
	conf, err := proto.Marshal(s.conf)
	if err != nil {
		return fmt.Errorf("encode membership: %w", err)
	}
	payload := []byte{byte(frameSnapshotHead), formatVersion}
	payload = binary.AppendUvarint(payload, s.index)
	payload = binary.AppendUvarint(payload, s.term)
	payload = binary.AppendUvarint(payload, uint64(len(conf)))
	payload = append(payload, conf...)
	seq := uint64(0)
	var frame []byte
	flush := func() error {
		frame = appendFrame(frame[:0], 0, seq, payload)
		seq++
		return emit(frame)
	}
	if err := flush(); err != nil {
		return err
	}
	var part []metadata.Record
	flushPart := func() error {
		payload = metadata.AppendBatch(append(payload[:0], byte(frameSnapshotPart)), part)
		part = part[:0]
		return flush()
	}
	var total uint64
	for r := range s.image.Records() {
		total++
		if part = append(part, r); len(part) == snapshotPartRecords {
			if err := flushPart(); err != nil {
				return err
			}
		}
	}
	if len(part) > 0 {
		if err := flushPart(); err != nil {
			return err
		}
	}
	payload = binary.AppendUvarint(append(payload[:0], byte(frameSnapshotEnd)), total)
	return flush()
}

// decodeSnapshot reads what encodeSnapshot emitted, from a file or from a peer. Every byte is checked.
func decodeSnapshot(b []byte) (*snapshot, error) {
	size := len(b)
	s := &snapshot{conf: &pb.ConfState{}}
	builder := metadata.NewBuilder(metadata.Empty())
	var records uint64
	for want := uint64(0); ; want++ {
		at := size - len(b)
		seq, payload, rest, err := cutFrame(b, 0)
		if err == nil && seq != want {
			err = fmt.Errorf("part %d where %d belongs", seq, want)
		}
		if err != nil {
			return nil, fmt.Errorf("snapshot at %d: %w: %w", at, err, ErrCorrupt)
		}
		b = rest
		r := reader{b: payload}
		switch kind := frameKind(r.u8()); {
		case want == 0 && kind == frameSnapshotHead:
			err = s.decodeHead(&r)
		case want > 0 && kind == frameSnapshotPart:
			var n int
			n, err = applyPart(builder, r.b)
			records += uint64(n)
		case want > 0 && kind == frameSnapshotEnd:
			total := r.uvarint()
			if err = r.end(); err == nil && (total != records || len(b) > 0) {
				err = fmt.Errorf("%d of %d records and %d bytes left: %w", records, total, len(b), ErrCorrupt)
			}
			if err == nil {
				builder.SetPosition(int64(s.index), int32(s.term))
				s.image, _ = builder.Build()
				return s, nil
			}
		default:
			err = fmt.Errorf("frame of kind %d: %w", kind, ErrCorrupt)
		}
		if err != nil {
			return nil, fmt.Errorf("snapshot at %d: %w", at, err)
		}
	}
}

func (s *snapshot) decodeHead(r *reader) error {
	if v := r.u8(); v != formatVersion {
		return fmt.Errorf("version %d: %w", v, ErrVersion)
	}
	s.index, s.term = r.uvarint(), r.uvarint()
	conf := r.bytes()
	if err := r.end(); err != nil {
		return err
	}
	if err := proto.Unmarshal(conf, s.conf); err != nil {
		return fmt.Errorf("membership: %w: %w", err, ErrCorrupt)
	}
	return nil
}

func applyPart(b *metadata.Builder, batch []byte) (int, error) {
	records, err := metadata.DecodeBatch(batch)
	if err != nil {
		return 0, err
	}
	for _, r := range records {
		if err := b.Apply(r); err != nil {
			return 0, err
		}
	}
	return len(records), nil
}

// writeSnapshot stores s durably under its own name and returns its size. It may run beside the loop: image and
// membership are immutable.
func writeSnapshot(fsys vfs.FS, dir string, s *snapshot) (bytes int64, err error) {
	name := snapshotPath(dir, s.position)
	tmp := name + ".tmp"
	f, err := fsys.Open(tmp, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
	if err != nil {
		return 0, err
	}
	err = encodeSnapshot(s, func(frame []byte) error {
		n, err := f.WriteAt(frame, bytes)
		bytes += int64(n)
		return err
	})
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = fsys.Rename(tmp, name)
	}
	if err == nil {
		err = fsys.SyncDir(dir)
	}
	if err != nil {
		_ = fsys.Remove(tmp) // it may not be there; the next open removes what stays
		return 0, fmt.Errorf("write snapshot of the metadata: %w", err)
	}
	return bytes, nil
}

// installSnapshot stores bytes that came from the leader and were decoded as s.
func installSnapshot(fsys vfs.FS, dir string, p position, data []byte) error {
	if err := vfs.WriteFileAtomic(fsys, snapshotPath(dir, p), data); err != nil {
		return fmt.Errorf("install snapshot of the metadata: %w", err)
	}
	return nil
}

// listSnapshots returns the positions of the snapshots in a folder, oldest first.
func listSnapshots(fsys vfs.FS, dir string) ([]position, error) {
	files, err := fsys.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var ps []position
	for _, f := range files {
		name := filepath.Join(dir, f.Name())
		if !strings.HasSuffix(name, snapshotSuffix) {
			continue
		}
		var p position
		if _, err := fmt.Sscanf(f.Name(), "%020d-%010d", &p.index, &p.term); err != nil || snapshotPath(dir, p) != name {
			return nil, fmt.Errorf("%s: not a name of a snapshot: %w", name, ErrCorrupt)
		}
		ps = append(ps, p)
	}
	return ps, nil
}

// loadSnapshot reads the newest snapshot; nil when there is none. A newest one that cannot be read is an error even
// when an older one is there, because the log in between may be gone.
func loadSnapshot(fsys vfs.FS, dir string) (*snapshot, error) {
	ps, err := listSnapshots(fsys, dir)
	if err != nil || len(ps) == 0 {
		return nil, err
	}
	p := ps[len(ps)-1]
	name := snapshotPath(dir, p)
	b, err := vfs.ReadFile(fsys, name)
	if err != nil {
		return nil, err
	}
	s, err := decodeSnapshot(b)
	if err == nil && s.position != p {
		err = fmt.Errorf("holds position %d-%d: %w", s.index, s.term, ErrCorrupt)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return s, nil
}

// removeSnapshotsBefore deletes all snapshots older than p, which is durable.
func removeSnapshotsBefore(fsys vfs.FS, dir string, p position) error {
	ps, err := listSnapshots(fsys, dir)
	if err != nil {
		return err
	}
	for _, old := range ps {
		if old.index >= p.index {
			continue
		}
		if err := fsys.Remove(snapshotPath(dir, old)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove old snapshot of the metadata: %w", err)
		}
	}
	return nil
}
