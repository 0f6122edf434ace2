package seglog

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/kbroker/kbroker/internal/vfs"
	"github.com/kbroker/kbroker/partition/segment"
)

// planFile holds the plan of a change of several files while it is carried out.
const planFile = "segments.plan"

const planVersion = 1

// plan is a change of the folder that happens as a whole (L5): it is written down, then carried out in steps that may be
// repeated, then struck out. What a crash interrupts is completed by the next Open.
type plan struct {
	Version int `json:"version"`
	// Remove lists the base offsets of the segments that leave.
	Remove []int64 `json:"remove,omitempty"`
	// Install lists the segments that come, ascending.
	Install []install `json:"install,omitempty"`
	// Create is the base offset of an empty segment to begin with, when there is one.
	Create *int64 `json:"create,omitempty"`
}

// install is a segment whose files lie ready, as .cleaned or .swap files.
type install struct {
	Base  int64    `json:"base"`
	Files []string `json:"files"` // their endings
}

func parsePlan(text []byte) (*plan, error) {
	p := &plan{}
	if err := json.Unmarshal(text, p); err != nil {
		return nil, err
	}
	if p.Version != planVersion {
		return nil, fmt.Errorf("version %d, only %d is known", p.Version, planVersion)
	}
	bad := func(base int64) bool { return base < 0 }
	if slices.ContainsFunc(p.Remove, bad) || p.Create != nil && *p.Create < 0 {
		return nil, errors.New("a negative base offset")
	}
	for i, in := range p.Install {
		switch {
		case in.Base < 0 || i > 0 && in.Base <= p.Install[i-1].Base:
			return nil, fmt.Errorf("segment %d is out of order", in.Base)
		case !slices.Contains(in.Files, segment.LogSuffix):
			return nil, fmt.Errorf("segment %d comes without a log", in.Base)
		}
		for _, suffix := range in.Files {
			if !slices.Contains(segment.Suffixes(), suffix) {
				return nil, fmt.Errorf("segment %d comes with a file %q", in.Base, suffix)
			}
		}
	}
	return p, nil
}

// carryOut makes a change happen. It calls begun when the plan is durable and nothing has been touched yet, and placed when
// every file has its new name. An error before the plan was written leaves everything as it was; one behind it, which
// started reports, leaves it to the next Open.
func (l *Log) carryOut(p *plan, begun, placed func()) (doomed []string, started bool, err error) {
	p.Version = planVersion
	text, err := json.Marshal(p)
	if err != nil {
		return nil, false, err
	}
	path := filepath.Join(l.o.Dir, planFile)
	if err := vfs.WriteFileAtomic(l.o.FS, path, text); err != nil {
		// The rename may have happened without its durability being known. Only a plan that is gone for sure was not begun.
		if rerr := l.remove(path); rerr != nil {
			return nil, true, errors.Join(err, rerr)
		}
		return nil, false, errors.Join(err, l.o.FS.SyncDir(l.o.Dir))
	}
	begun()
	doomed, err = l.replay(p, placed)
	return doomed, true, err
}

// replay carries out a written plan and strikes it out, durably. Each step looks at what is there, so it does not matter how
// far an earlier attempt came.
func (l *Log) replay(p *plan, placed func()) (doomed []string, err error) {
	f, err := l.list()
	if err != nil {
		return nil, err
	}
	// The highest first, and all of them before anything is removed: so Kafka, too, finds its way if it is started on what
	// a crash leaves here.
	for _, in := range slices.Backward(p.Install) {
		for _, suffix := range in.Files {
			name := segment.FileName(in.Base, suffix)
			f.rename(name+segment.CleanedSuffix, name+segment.SwapSuffix)
		}
	}
	for _, base := range p.Remove {
		doomed = append(doomed, f.doom(base, p)...)
	}
	for _, in := range p.Install {
		for _, suffix := range in.Files {
			name := segment.FileName(in.Base, suffix)
			f.rename(name+segment.SwapSuffix, name)
		}
	}
	if f.err == nil && p.Create != nil {
		_, f.err = segment.Create(l.o.FS, l.o.Cache, l.o.Dir, *p.Create)
	}
	if f.err == nil {
		placed()
		f.err = l.o.FS.SyncDir(l.o.Dir)
	}
	if f.err == nil {
		f.err = l.remove(filepath.Join(l.o.Dir, planFile))
	}
	if f.err == nil { // nothing new is written before the plan is gone for good
		f.err = l.o.FS.SyncDir(l.o.Dir)
	}
	return doomed, f.err
}

// doom renames the files of a segment that leaves, except those that have already come in their place.
func (f *folder) doom(base int64, p *plan) (doomed []string) {
	i := slices.IndexFunc(p.Install, func(in install) bool { return in.Base == base })
	for _, suffix := range segment.Suffixes() {
		name := segment.FileName(base, suffix)
		if i >= 0 && slices.Contains(p.Install[i].Files, suffix) && !f.names[name+segment.SwapSuffix] {
			continue
		}
		if f.rename(name, name+segment.DeletedSuffix) {
			doomed = append(doomed, filepath.Join(f.l.o.Dir, name+segment.DeletedSuffix))
		}
	}
	return doomed
}

// folder is the list of files while a plan is carried out. After a failure nothing more happens.
type folder struct {
	l     *Log
	names map[string]bool
	err   error
}

func (l *Log) list() (*folder, error) {
	entries, err := l.o.FS.ReadDir(l.o.Dir)
	if err != nil {
		return nil, err
	}
	f := &folder{l: l, names: make(map[string]bool, len(entries))}
	for _, e := range entries {
		f.names[e.Name()] = true
	}
	return f, nil
}

// rename renames a file if it is there and reports whether it was.
func (f *folder) rename(from, to string) bool {
	if f.err != nil || !f.names[from] {
		return false
	}
	if f.err = f.l.o.FS.Rename(filepath.Join(f.l.o.Dir, from), filepath.Join(f.l.o.Dir, to)); f.err != nil {
		return false
	}
	delete(f.names, from)
	f.names[to] = true
	return true
}

// complete carries out a plan that a crash has interrupted.
func (l *Log) complete() error {
	path := filepath.Join(l.o.Dir, planFile)
	text, err := vfs.ReadFile(l.o.FS, path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var p *plan
	if err == nil {
		p, err = parsePlan(text)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	_, err = l.replay(p, func() {})
	return err
}
