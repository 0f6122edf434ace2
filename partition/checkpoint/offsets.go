package checkpoint

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/kbroker/kbroker/internal/model"
	"github.com/kbroker/kbroker/internal/vfs"
)

// ErrDamaged marks a file whose content is not what its format says.
var ErrDamaged = errors.New("damaged checkpoint file")

// ReadOffsets reads a checkpoint of offsets. An empty file, which Kafka leaves in new directories, holds none; a missing
// one is an fs.ErrNotExist. Damage is an ErrDamaged that names file and line.
func ReadOffsets(fsys vfs.FS, path string) (map[model.TopicPartition]int64, error) {
	text, err := vfs.ReadFile(fsys, path)
	if err != nil {
		return nil, err
	}
	m, line, err := parseOffsets(text)
	if err != nil {
		return nil, fmt.Errorf("%w %s, line %d: %w", ErrDamaged, path, line, err)
	}
	return m, nil
}

// WriteOffsets replaces a checkpoint of offsets, durably, in the order of the partitions. A topic name that the format
// cannot hold (empty, or with white space; no Kafka topic has one) and a negative number are errors, and nothing is
// written.
func WriteOffsets(fsys vfs.FS, path string, offsets map[model.TopicPartition]int64) error {
	text, err := appendOffsets(nil, offsets)
	if err != nil {
		return fmt.Errorf("checkpoint file %s: %w", path, err)
	}
	return vfs.WriteFileAtomic(fsys, path, text)
}

func appendOffsets(dst []byte, offsets map[model.TopicPartition]int64) ([]byte, error) {
	dst = append(dst, "0\n"...)
	dst = strconv.AppendInt(dst, int64(len(offsets)), 10)
	dst = append(dst, '\n')
	for _, tp := range slices.SortedFunc(maps.Keys(offsets), model.TopicPartition.Compare) {
		offset := offsets[tp]
		if tp.Topic == "" || strings.ContainsFunc(tp.Topic, unicode.IsSpace) || tp.Partition < 0 || offset < 0 {
			return nil, fmt.Errorf("topic %q partition %d offset %d cannot be written", tp.Topic, tp.Partition, offset)
		}
		dst = append(dst, tp.Topic...)
		dst = append(dst, ' ')
		dst = strconv.AppendInt(dst, int64(tp.Partition), 10)
		dst = append(dst, ' ')
		dst = strconv.AppendInt(dst, offset, 10)
		dst = append(dst, '\n')
	}
	return dst, nil
}

// parseOffsets returns the line that an error is about.
func parseOffsets(text []byte) (m map[model.TopicPartition]int64, line int, err error) {
	m = map[model.TopicPartition]int64{}
	if len(text) == 0 {
		return m, 0, nil
	}
	version, rest, _ := bytes.Cut(text, []byte("\n"))
	if v := bytes.TrimSpace(version); string(v) != "0" {
		return nil, 1, fmt.Errorf("unknown version %q", v)
	}
	if len(rest) == 0 {
		return m, 0, nil
	}
	count, rest, _ := bytes.Cut(rest, []byte("\n"))
	n, err := strconv.Atoi(string(bytes.TrimSpace(count)))
	if err != nil || n < 0 {
		return nil, 2, fmt.Errorf("%q is not a number of entries", bytes.TrimSpace(count))
	}
	line = 2
	for len(rest) > 0 {
		var text []byte
		text, rest, _ = bytes.Cut(rest, []byte("\n"))
		line++
		tp, offset, ok := parseLine(text)
		if !ok {
			return nil, line, fmt.Errorf("%q is not a topic, a partition and an offset", text)
		}
		if _, twice := m[tp]; twice {
			return nil, line, fmt.Errorf("%s appears twice", tp)
		}
		m[tp] = offset
	}
	if len(m) != n {
		return nil, 2, fmt.Errorf("%d entries announced, %d follow", n, len(m))
	}
	return m, 0, nil
}

func parseLine(text []byte) (model.TopicPartition, int64, bool) {
	f := bytes.Fields(text)
	if len(f) != 3 {
		return model.TopicPartition{}, 0, false
	}
	partition, err := strconv.ParseInt(string(f[1]), 10, 32)
	if err != nil || partition < 0 {
		return model.TopicPartition{}, 0, false
	}
	offset, err := strconv.ParseInt(string(f[2]), 10, 64)
	return model.TopicPartition{Topic: string(f[0]), Partition: int32(partition)}, offset, err == nil && offset >= 0
}
