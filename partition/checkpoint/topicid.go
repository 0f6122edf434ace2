package checkpoint

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/kbroker/kbroker/internal/model"
	"github.com/kbroker/kbroker/internal/vfs"
)

// TopicIDFile is the name of the file that binds a partition's folder to its topic's id.
const TopicIDFile = "partition.metadata"

// ReadTopicID reads the topic id of a partition's folder. A missing file is an fs.ErrNotExist (the making of the folder
// was cut short), damage an ErrDamaged that names file and line.
func ReadTopicID(fsys vfs.FS, dir string) (model.UUID, error) {
	path := filepath.Join(dir, TopicIDFile)
	text, err := vfs.ReadFile(fsys, path)
	if err != nil {
		return model.UUID{}, err
	}
	id, line, err := parseTopicID(string(text))
	if err != nil {
		return model.UUID{}, fmt.Errorf("%w %s, line %d: %w", ErrDamaged, path, line, err)
	}
	return id, nil
}

// WriteTopicID binds a partition's folder to a topic id, durably. The zero id is an error.
func WriteTopicID(fsys vfs.FS, dir string, id model.UUID) error {
	path := filepath.Join(dir, TopicIDFile)
	if id.IsZero() {
		return fmt.Errorf("%s: the zero id names no topic", path)
	}
	return vfs.WriteFileAtomic(fsys, path, formatTopicID(id))
}

func formatTopicID(id model.UUID) []byte { return []byte("version: 0\ntopic_id: " + id.String()) }

// parseTopicID returns the line that an error is about.
func parseTopicID(text string) (id model.UUID, line int, err error) {
	first, rest, _ := strings.Cut(text, "\n")
	second, rest, _ := strings.Cut(rest, "\n")
	version, err := field(first, "version")
	if err != nil {
		return model.UUID{}, 1, err
	}
	if version != "0" {
		return model.UUID{}, 1, fmt.Errorf("unknown version %q", version)
	}
	value, err := field(second, "topic_id")
	if err != nil {
		return model.UUID{}, 2, err
	}
	if id, err = model.ParseUUID(value); err != nil {
		return model.UUID{}, 2, err
	}
	if id.IsZero() {
		return model.UUID{}, 2, fmt.Errorf("%q is the zero id, which names no topic", value)
	}
	if strings.TrimSpace(rest) != "" {
		return model.UUID{}, 3, fmt.Errorf("%q after the last field", rest)
	}
	return id, 0, nil
}

func field(line, name string) (string, error) {
	key, value, ok := strings.Cut(line, ":")
	if !ok || strings.TrimSpace(key) != name {
		return "", fmt.Errorf("%q is not the field %s", strings.TrimSpace(line), name)
	}
	return strings.TrimSpace(value), nil
}
