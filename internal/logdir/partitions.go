package logdir

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/kbroker/kbroker/internal/model"
	"github.com/kbroker/kbroker/internal/vfs"
	"github.com/kbroker/kbroker/partition/checkpoint"
)

// State is what a partition folder's name says about it.
type State int

// The states of a partition folder.
const (
	Live   State = iota // a replica in use
	Future              // a copy being made from another directory
	Doomed              // on its way out
	Stray               // not known to the cluster when it was found
)

var suffixes = map[State]string{Future: "-future", Doomed: "-delete", Stray: "-stray"}

// Found is a partition folder in a directory.
type Found struct {
	model.TopicPartition
	// TopicID is zero when the folder holds no partition.metadata, as one does whose creation was cut short.
	TopicID model.UUID
	Path    string
	State   State
}

// maxName is the longest name that common file systems take, in bytes.
const maxName = 255

var markedName = regexp.MustCompile(`^(.+)-(\d+)\.([0-9a-f]{32})(-future|-delete|-stray)$`)

// parseName reads the name of a partition folder. Names of deleted partitions may have lost the end of their topic.
func parseName(name string) (model.TopicPartition, State, bool) {
	state := Live
	if m := markedName.FindStringSubmatch(name); m != nil {
		for s, suffix := range suffixes {
			if suffix == m[4] {
				state = s
			}
		}
		name = m[1] + "-" + m[2]
	}
	i := strings.LastIndexByte(name, '-')
	if i <= 0 || i == len(name)-1 {
		return model.TopicPartition{}, state, false
	}
	n, err := strconv.ParseInt(name[i+1:], 10, 32)
	if err != nil || n < 0 || strconv.FormatInt(n, 10) != name[i+1:] {
		return model.TopicPartition{}, state, false
	}
	return model.TopicPartition{Topic: name[:i], Partition: int32(n)}, state, true
}

// markedNameOf is the name of a partition folder in a state other than Live: unique, and short enough for any system.
func markedNameOf(tp model.TopicPartition, s State) string {
	id := model.NewUUID()
	tail := fmt.Sprintf("-%d.%x%s", tp.Partition, id[:], suffixes[s])
	return tp.Topic[:min(len(tp.Topic), maxName-len(tail))] + tail
}

// Scan lists the partition folders of the directory. Folders whose name is not a partition's are returned as strange:
// they are left alone, and worth a warning.
func (d *Dir) Scan() (found []Found, strange []string, err error) {
	entries, err := d.fs.ReadDir(d.path)
	if err != nil {
		return nil, nil, fmt.Errorf("log directory %s cannot be listed: %w", d.path, err)
	}
	for _, e := range entries {
		if !e.IsDir() || strings.HasPrefix(e.Name(), ".") || strings.HasPrefix(e.Name(), model.ClusterMetadataTopic) {
			continue
		}
		tp, state, ok := parseName(e.Name())
		if !ok {
			strange = append(strange, e.Name())
			continue
		}
		f := Found{TopicPartition: tp, State: state, Path: filepath.Join(d.path, e.Name())}
		f.TopicID, err = checkpoint.ReadTopicID(d.fs, f.Path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, nil, err
		}
		found = append(found, f)
	}
	return found, strange, nil
}

// Create makes the folder of a new partition and returns its path. It is durable on return (D4): a crash before leaves
// nothing, or a folder without partition.metadata that Create takes over.
func (d *Dir) Create(tp model.TopicPartition, topicID model.UUID) (string, error) {
	path := filepath.Join(d.path, tp.String())
	err := d.fs.MkdirAll(path, 0o755)
	if err == nil {
		err = checkpoint.WriteTopicID(d.fs, path, topicID)
	}
	if err == nil {
		err = d.fs.SyncDir(d.path)
	}
	if err != nil {
		return "", fmt.Errorf("folder of %s cannot be created in %s: %w", tp, d.path, err)
	}
	return path, nil
}

// Mark renames a partition's folder to its name in the given state and returns the new path. Open files stay usable.
func (d *Dir) Mark(tp model.TopicPartition, path string, s State) (string, error) {
	target := filepath.Join(d.path, markedNameOf(tp, s))
	err := d.fs.Rename(path, target)
	if err == nil {
		err = d.fs.SyncDir(d.path)
	}
	if err != nil {
		return "", fmt.Errorf("folder of %s cannot be renamed in %s: %w", tp, d.path, err)
	}
	return target, nil
}

// Remove deletes a folder that Mark or Scan returned.
func (d *Dir) Remove(path string) error { return d.fs.RemoveAll(path) }

// FS returns the file system that the directory lies on.
func (d *Dir) FS() vfs.FS { return d.fs }
