package faultfs

import (
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/kbroker/kbroker/internal/vfs"
)

// Op is a set of operations.
type Op uint32

// The operations. OpCreate is an Open that may create or empty the file; OpOpen any other.
const (
	OpOpen Op = 1 << iota
	OpCreate
	OpRead
	OpWrite
	OpSize
	OpTruncate
	OpSync
	OpClose
	OpRemove
	OpRemoveAll
	OpRename
	OpMkdirAll
	OpReadDir
	OpStat
	OpSyncDir
	OpChtimes
	OpLock
	OpUsage

	opEnd
)

// Any is every operation, Mutating those that change what a disk holds or what of it is durable.
const (
	Any      = opEnd - 1
	Mutating = OpCreate | OpWrite | OpTruncate | OpSync | OpRemove | OpRemoveAll | OpRename | OpMkdirAll | OpSyncDir |
		OpChtimes | OpLock
)

var opNames = []string{
	"open", "create", "read", "write", "size", "truncate", "sync", "close", "remove", "removeall", "rename", "mkdirall",
	"readdir", "stat", "syncdir", "chtimes", "lock", "usage",
}

// String returns the names of the operations in the set, joined by '|'.
func (o Op) String() string {
	var names []string
	for i, name := range opNames {
		if o&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, "|")
}

// Call describes one operation.
type Call struct {
	Op   Op
	Path string
	// NewPath is the target of a rename.
	NewPath string
	// Offset and Len are set for reads and writes; Offset alone, the new length, for truncations.
	Offset int64
	Len    int
}

// String is one line for traces.
func (c Call) String() string {
	switch c.Op {
	case OpRename:
		return fmt.Sprintf("rename %s -> %s", c.Path, c.NewPath)
	case OpRead, OpWrite:
		return fmt.Sprintf("%s %s [%d,%d)", c.Op, c.Path, c.Offset, c.Offset+int64(c.Len))
	case OpTruncate:
		return fmt.Sprintf("truncate %s to %d", c.Path, c.Offset)
	default:
		return c.Op.String() + " " + c.Path
	}
}

// Rule makes operations fail. The zero value of a field does not restrict.
type Rule struct {
	// Ops is the set of operations; 0 stands for Any.
	Ops Op
	// Path is a glob as in path.Match over the whole path or, without a slash, over the last element. A rename matches by
	// either name.
	Path string
	// Nth is the first matching call, counted from 1, that fails.
	Nth int
	// Count is how many calls fail from there on; 0 is all of them.
	Count int
	// Probability, when above 0, is the chance that a call that would fail does.
	Probability float64
	// Err is the cause; nil stands for EIO. It is wrapped in an *fs.PathError with the operation and the path.
	Err error
	// Partial is how many bytes of a failing write still reach the file.
	Partial int
}

// Installed is a rule in force.
type Installed struct {
	fs          *FS
	rule        Rule
	seen, fired int
}

// Fired returns how often the rule made an operation fail.
func (i *Installed) Fired() int {
	i.fs.mu.Lock()
	defer i.fs.mu.Unlock()
	return i.fired
}

// Remove lifts the rule.
func (i *Installed) Remove() {
	i.fs.mu.Lock()
	defer i.fs.mu.Unlock()
	for at, other := range i.fs.mu.rules {
		if other == i {
			i.fs.mu.rules = append(i.fs.mu.rules[:at:at], i.fs.mu.rules[at+1:]...)
			return
		}
	}
}

// FS is the wrapper. It is safe for concurrent use.
type FS struct {
	base vfs.FS
	mu   struct {
		sync.Mutex
		rules []*Installed
		hook  func(Call) error
		rand  *rand.Rand
	}
}

var _ vfs.FS = (*FS)(nil)

// New wraps base. The seed feeds the rules with a probability.
func New(base vfs.FS, seed uint64) *FS {
	f := &FS{base: base}
	f.mu.rand = rand.New(rand.NewPCG(seed, 0))
	return f
}

// Add puts a rule in force, after those that are. It panics on a malformed glob.
func (f *FS) Add(r Rule) *Installed {
	if _, err := filepath.Match(r.Path, ""); err != nil {
		panic(fmt.Sprintf("faultfs: glob %q: %v", r.Path, err))
	}
	if r.Ops == 0 {
		r.Ops = Any
	}
	i := &Installed{fs: f, rule: r}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.rules = append(f.mu.rules, i)
	return i
}

// SetHook sets the function called before every mutating operation; nil removes it. It may be called concurrently when
// the operations are.
func (f *FS) SetHook(hook func(Call) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.hook = hook
}

// try asks the hook and the rules. Partial is how many bytes of a failing write to let through.
func (f *FS) try(c Call) (partial int, err error) {
	f.mu.Lock()
	hook := f.mu.hook
	f.mu.Unlock()
	if hook != nil && c.Op&Mutating != 0 {
		if err := hook(c); err != nil {
			return 0, &fs.PathError{Op: c.Op.String(), Path: c.Path, Err: err}
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, i := range f.mu.rules {
		if i.matches(c) && i.fires(f.mu.rand) {
			return i.rule.Partial, &fs.PathError{Op: c.Op.String(), Path: c.Path, Err: i.rule.cause()}
		}
	}
	return 0, nil
}

func (f *FS) tryPath(op Op, path string) error {
	_, err := f.try(Call{Op: op, Path: path})
	return err
}

func (r *Rule) cause() error {
	if r.Err == nil {
		return syscall.EIO
	}
	return r.Err
}

func (i *Installed) matches(c Call) bool {
	return i.rule.Ops&c.Op != 0 && (i.rule.Path == "" || i.rule.covers(c.Path) || c.NewPath != "" && i.rule.covers(c.NewPath))
}

func (r *Rule) covers(path string) bool {
	if !strings.ContainsRune(r.Path, filepath.Separator) {
		path = filepath.Base(path)
	}
	ok, _ := filepath.Match(r.Path, path) // the glob was checked by Add
	return ok
}

func (i *Installed) fires(r *rand.Rand) bool {
	i.seen++
	first := max(1, i.rule.Nth)
	if i.seen < first || i.rule.Count > 0 && i.seen >= first+i.rule.Count {
		return false
	}
	if i.rule.Probability > 0 && r.Float64() >= i.rule.Probability {
		return false
	}
	i.fired++
	return true
}

// Open implements vfs.FS.
func (f *FS) Open(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	op := OpOpen
	if flag&(os.O_CREATE|os.O_TRUNC) != 0 {
		op = OpCreate
	}
	if err := f.tryPath(op, name); err != nil {
		return nil, err
	}
	base, err := f.base.Open(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return &file{f, base}, nil
}

// Remove implements vfs.FS.
func (f *FS) Remove(name string) error {
	if err := f.tryPath(OpRemove, name); err != nil {
		return err
	}
	return f.base.Remove(name)
}

// RemoveAll implements vfs.FS.
func (f *FS) RemoveAll(name string) error {
	if err := f.tryPath(OpRemoveAll, name); err != nil {
		return err
	}
	return f.base.RemoveAll(name)
}

// Rename implements vfs.FS.
func (f *FS) Rename(oldName, newName string) error {
	if _, err := f.try(Call{Op: OpRename, Path: oldName, NewPath: newName}); err != nil {
		return err
	}
	return f.base.Rename(oldName, newName)
}

// MkdirAll implements vfs.FS.
func (f *FS) MkdirAll(name string, perm fs.FileMode) error {
	if err := f.tryPath(OpMkdirAll, name); err != nil {
		return err
	}
	return f.base.MkdirAll(name, perm)
}

// ReadDir implements vfs.FS.
func (f *FS) ReadDir(name string) ([]fs.DirEntry, error) {
	if err := f.tryPath(OpReadDir, name); err != nil {
		return nil, err
	}
	return f.base.ReadDir(name)
}

// Stat implements vfs.FS.
func (f *FS) Stat(name string) (fs.FileInfo, error) {
	if err := f.tryPath(OpStat, name); err != nil {
		return nil, err
	}
	return f.base.Stat(name)
}

// SyncDir implements vfs.FS.
func (f *FS) SyncDir(name string) error {
	if err := f.tryPath(OpSyncDir, name); err != nil {
		return err
	}
	return f.base.SyncDir(name)
}

// Chtimes implements vfs.FS.
func (f *FS) Chtimes(name string, mtime time.Time) error {
	if err := f.tryPath(OpChtimes, name); err != nil {
		return err
	}
	return f.base.Chtimes(name, mtime)
}

// Lock implements vfs.FS.
func (f *FS) Lock(name string) (io.Closer, error) {
	if err := f.tryPath(OpLock, name); err != nil {
		return nil, err
	}
	return f.base.Lock(name)
}

// Usage implements vfs.FS.
func (f *FS) Usage(name string) (total, free int64, err error) {
	if err := f.tryPath(OpUsage, name); err != nil {
		return 0, 0, err
	}
	return f.base.Usage(name)
}

// file passes everything through the rules. Close always closes the base file: a failed close releases the handle too.
type file struct {
	fs   *FS
	base vfs.File
}

func (h *file) Name() string { return h.base.Name() }

// OSFile returns nil: bytes that leave by sendfile would not be seen by the rules.
func (h *file) OSFile() *os.File { return nil }

func (h *file) ReadAt(b []byte, off int64) (int, error) {
	if _, err := h.fs.try(Call{Op: OpRead, Path: h.Name(), Offset: off, Len: len(b)}); err != nil {
		return 0, err
	}
	return h.base.ReadAt(b, off)
}

func (h *file) WriteAt(b []byte, off int64) (int, error) {
	partial, err := h.fs.try(Call{Op: OpWrite, Path: h.Name(), Offset: off, Len: len(b)})
	if err == nil {
		return h.base.WriteAt(b, off)
	}
	if partial = min(partial, len(b)); partial > 0 {
		n, werr := h.base.WriteAt(b[:partial], off)
		if werr != nil {
			err = werr
		}
		return n, err
	}
	return 0, err
}

func (h *file) Size() (int64, error) {
	if err := h.fs.tryPath(OpSize, h.Name()); err != nil {
		return 0, err
	}
	return h.base.Size()
}

func (h *file) Truncate(size int64) error {
	if _, err := h.fs.try(Call{Op: OpTruncate, Path: h.Name(), Offset: size}); err != nil {
		return err
	}
	return h.base.Truncate(size)
}

func (h *file) Sync() error {
	if err := h.fs.tryPath(OpSync, h.Name()); err != nil {
		return err
	}
	return h.base.Sync()
}

func (h *file) Close() error {
	err := h.fs.tryPath(OpClose, h.Name())
	if cerr := h.base.Close(); err == nil {
		err = cerr
	}
	return err
}
