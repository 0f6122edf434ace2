package logdir

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"sync/atomic"

	"github.com/kbroker/kbroker/internal/model"
	"github.com/kbroker/kbroker/internal/vfs"
	"github.com/kbroker/kbroker/partition/checkpoint"
)

const lockFile = ".lock"

// Dir is one open log directory. Methods may be called concurrently; calls about the same partition, or for the same
// checkpoint, must not.
type Dir struct {
	fs   vfs.FS
	path string
	lock io.Closer

	meta  Meta
	known bool // meta came from the disk
	clean CleanShutdown

	offline atomic.Pointer[error]
}

// Open creates the directory when it is missing, takes its lock and reads who it belongs to. The clean-shutdown file is
// consumed (D3). A directory in use by another process is an error that says so.
func Open(fsys vfs.FS, path string) (*Dir, error) {
	if err := vfs.MkdirAllDurable(fsys, path, 0o755); err != nil {
		return nil, fmt.Errorf("log directory %s cannot be created: %w", path, err)
	}
	lock, err := fsys.Lock(filepath.Join(path, lockFile))
	if errors.Is(err, vfs.ErrLocked) {
		return nil, fmt.Errorf("log directory %s is in use by another process: stop it, or give this one another directory with log.dirs", path)
	}
	if err != nil {
		return nil, fmt.Errorf("log directory %s cannot be locked: %w", path, err)
	}
	d := &Dir{fs: fsys, path: path, lock: lock}
	if err := d.load(); err != nil {
		_ = lock.Close() // the load error is the one to report
		return nil, err
	}
	return d, nil
}

func (d *Dir) load() error {
	var err error
	if d.meta, d.known, err = readMeta(d.fs, d.path); err != nil {
		return err
	}
	d.clean, err = takeCleanShutdown(d.fs, d.path)
	return err
}

// Path returns the directory as configured.
func (d *Dir) Path() string { return d.path }

// ID returns the directory's own identity; zero until Claim.
func (d *Dir) ID() model.UUID { return d.meta.DirectoryID }

// Meta returns what meta.properties held when the directory was opened, or what Claim wrote. ok is false for a directory
// that was never claimed.
func (d *Dir) Meta() (m Meta, ok bool) { return d.meta, d.known }

// CleanShutdown tells how the last process left the directory.
func (d *Dir) CleanShutdown() CleanShutdown { return d.clean }

// Claim makes the directory this node's: a new one is marked as such, durably; one of another cluster or node is refused
// (D2) with an error that says what to do.
func (d *Dir) Claim(clusterID string, nodeID int32) error {
	if d.known {
		if err := d.meta.check(d.path, clusterID, nodeID); err != nil {
			return err
		}
		if !d.meta.DirectoryID.IsZero() && d.meta.Version == metaVersion {
			return nil
		}
	}
	m := Meta{Version: metaVersion, ClusterID: clusterID, NodeID: nodeID, DirectoryID: d.meta.DirectoryID}
	if m.DirectoryID.IsZero() {
		m.DirectoryID = model.NewUUID()
	}
	if err := vfs.WriteFileAtomic(d.fs, filepath.Join(d.path, metaFile), m.encode()); err != nil {
		return fmt.Errorf("log directory %s cannot be marked as this node's: %w", d.path, err)
	}
	d.meta, d.known = m, true
	return nil
}

// Fail takes the directory offline; the first cause stays. It reports whether the directory was online.
func (d *Dir) Fail(cause error) bool { return d.offline.CompareAndSwap(nil, &cause) }

// Err returns why the directory is offline, nil while it is online.
func (d *Dir) Err() error {
	if p := d.offline.Load(); p != nil {
		return *p
	}
	return nil
}

// Usage returns the size of the volume and what is left on it, in bytes.
func (d *Dir) Usage() (total, free int64, err error) { return d.fs.Usage(d.path) }

// Close gives the directory back. clean says that every partition in it was closed cleanly; then the next start need not
// scan the logs.
func (d *Dir) Close(clean bool, brokerEpoch int64) error {
	var err error
	if clean && d.Err() == nil {
		err = writeCleanShutdown(d.fs, d.path, brokerEpoch)
	}
	return errors.Join(err, d.lock.Close())
}

// Kind names one of the checkpoint files.
type Kind string

// The checkpoint files of a directory.
const (
	RecoveryPoints Kind = "recovery-point-offset-checkpoint"
	LogStarts      Kind = "log-start-offset-checkpoint"
	HighWatermarks Kind = "replication-offset-checkpoint"
	Cleaned        Kind = "cleaner-offset-checkpoint"
)

// ReadCheckpoint returns the offsets of one checkpoint file; none when the file is missing. A damaged file is an error
// that names file and line.
func (d *Dir) ReadCheckpoint(k Kind) (map[model.TopicPartition]int64, error) {
	m, err := checkpoint.ReadOffsets(d.fs, filepath.Join(d.path, string(k)))
	if errors.Is(err, fs.ErrNotExist) {
		return map[model.TopicPartition]int64{}, nil
	}
	return m, err
}

// WriteCheckpoint replaces one checkpoint file, durably.
func (d *Dir) WriteCheckpoint(k Kind, offsets map[model.TopicPartition]int64) error {
	return checkpoint.WriteOffsets(d.fs, filepath.Join(d.path, string(k)), offsets)
}
