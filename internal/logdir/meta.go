package logdir

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/magiconair/properties"

	"github.com/kbroker/kbroker/internal/model"
	"github.com/kbroker/kbroker/internal/vfs"
)

const (
	metaFile    = "meta.properties"
	metaVersion = 1
	cleanFile   = ".kafka_cleanshutdown"
)

// Meta is the content of meta.properties: whose directory it is.
type Meta struct {
	// Version is 1; 0 in directories written by brokers before KRaft, whose node id stands under broker.id.
	Version     int
	ClusterID   string
	NodeID      int32
	DirectoryID model.UUID // zero in version 0 and in files of Kafka before 3.7
}

func (m Meta) encode() []byte {
	return fmt.Appendf(nil, "cluster.id=%s\ndirectory.id=%s\nnode.id=%d\nversion=%d\n", m.ClusterID, m.DirectoryID, m.NodeID, m.Version)
}

func readMeta(fsys vfs.FS, dir string) (m Meta, found bool, err error) {
	name := filepath.Join(dir, metaFile)
	b, err := vfs.ReadFile(fsys, name)
	if errors.Is(err, fs.ErrNotExist) {
		return Meta{}, false, nil
	}
	if err == nil {
		m, err = parseMeta(string(b))
	}
	if err != nil {
		return Meta{}, false, fmt.Errorf("%s cannot be read: %w", name, err)
	}
	return m, true, nil
}

func parseMeta(text string) (Meta, error) {
	p, err := (&properties.Loader{Encoding: properties.UTF8, DisableExpansion: true}).LoadBytes([]byte(text))
	if err != nil {
		return Meta{}, err
	}
	m := Meta{ClusterID: p.GetString("cluster.id", "")}
	if m.Version, err = strconv.Atoi(p.GetString("version", "")); err != nil {
		return Meta{}, fmt.Errorf("version %q is not a number", p.GetString("version", ""))
	}
	nodeKey := "node.id"
	switch m.Version {
	case 0:
		nodeKey = "broker.id"
	case metaVersion:
	default:
		return Meta{}, fmt.Errorf("version %d is not known, only 0 and %d are", m.Version, metaVersion)
	}
	node, err := strconv.ParseInt(p.GetString(nodeKey, ""), 10, 32)
	if err != nil || node < 0 {
		return Meta{}, fmt.Errorf("%s %q is not a node id", nodeKey, p.GetString(nodeKey, ""))
	}
	m.NodeID = int32(node)
	if id := p.GetString("directory.id", ""); id != "" {
		if m.DirectoryID, err = model.ParseUUID(id); err != nil {
			return Meta{}, fmt.Errorf("directory.id: %w", err)
		}
	}
	return m, nil
}

func (m Meta) check(dir, clusterID string, nodeID int32) error {
	var wrong []string
	if m.ClusterID != "" && m.ClusterID != clusterID {
		wrong = append(wrong, fmt.Sprintf("cluster %s, not to cluster %s", m.ClusterID, clusterID))
	}
	if m.NodeID != nodeID {
		wrong = append(wrong, fmt.Sprintf("node %d, not to node %d", m.NodeID, nodeID))
	}
	if len(wrong) == 0 {
		return nil
	}
	return fmt.Errorf("log directory %s belongs to %s (see its %s): correct node.id or log.dirs; nothing in it was touched",
		dir, strings.Join(wrong, " and to "), metaFile)
}

// CleanShutdown tells how the last process left a directory.
type CleanShutdown struct {
	// Clean is set when it closed every partition first.
	Clean bool
	// BrokerEpoch is the epoch of that process, -1 when it did not say.
	BrokerEpoch int64
}

type cleanJSON struct {
	Version     int   `json:"version"`
	BrokerEpoch int64 `json:"brokerEpoch"`
}

// takeCleanShutdown reads and removes the file (D3). One that cannot be understood does not count as clean: the price is
// a scan of the logs.
func takeCleanShutdown(fsys vfs.FS, dir string) (CleanShutdown, error) {
	name := filepath.Join(dir, cleanFile)
	c := CleanShutdown{BrokerEpoch: -1}
	b, err := vfs.ReadFile(fsys, name)
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err != nil {
		return c, fmt.Errorf("%s cannot be read: %w", name, err)
	}
	var j cleanJSON
	if json.Unmarshal(b, &j) == nil {
		c = CleanShutdown{Clean: true, BrokerEpoch: j.BrokerEpoch}
	}
	if err := fsys.Remove(name); err != nil {
		return c, fmt.Errorf("%s cannot be removed: %w", name, err)
	}
	return c, fsys.SyncDir(dir)
}

func writeCleanShutdown(fsys vfs.FS, dir string, brokerEpoch int64) error {
	b, err := json.Marshal(cleanJSON{BrokerEpoch: brokerEpoch})
	if err != nil {
		return err
	}
	return vfs.WriteFileAtomic(fsys, filepath.Join(dir, cleanFile), b)
}
