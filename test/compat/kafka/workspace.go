package kafka

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
)

// folderPrefix begins the name of every Workspace's folder; sweep looks for it.
const folderPrefix = "kbroker-compat-"

// lockName is the file in a Workspace's folder that is locked as long as its owner lives.
const lockName = ".lock"

// Workspace is a temporary folder and what runs in it. It is safe for concurrent use.
type Workspace struct {
	dir     string
	lock    *os.File
	signals chan os.Signal
	watched chan struct{}
	build   func() (string, error)

	mu struct {
		sync.Mutex
		clusters []*Cluster
		closed   bool
	}
}

// NewWorkspace makes a folder, removes those whose owners were killed, and from then on ends what was started in it when
// this process is told to stop. Close ends it.
func NewWorkspace() (*Workspace, error) {
	sweep(os.TempDir())
	dir, err := os.MkdirTemp("", folderPrefix)
	if err != nil {
		return nil, err
	}
	lock, err := lockFolder(dir)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	w := &Workspace{dir: dir, lock: lock, signals: make(chan os.Signal, 1), watched: make(chan struct{})}
	w.build = sync.OnceValues(w.buildBroker)
	signal.Notify(w.signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	go w.watch()
	return w, nil
}

// Dir is the folder; callers may put their own files in it.
func (w *Workspace) Dir() string { return w.dir }

// watch waits for a signal, cleans up and lets the signal do what it would have done.
func (w *Workspace) watch() {
	defer close(w.watched)
	s, told := <-w.signals
	if !told {
		return
	}
	_ = w.clean() // the process ends; there is nobody to tell
	signal.Reset(s)
	if num, ok := s.(syscall.Signal); ok {
		_ = syscall.Kill(os.Getpid(), num)
	}
}

// Close kills what still runs, waits for it and removes the folder.
func (w *Workspace) Close() error {
	err := w.clean()
	signal.Stop(w.signals)
	w.mu.Lock()
	first := !w.mu.closed
	w.mu.closed = true
	w.mu.Unlock()
	if first {
		close(w.signals)
	}
	<-w.watched
	return err
}

func (w *Workspace) clean() error {
	w.mu.Lock()
	clusters := w.mu.clusters
	w.mu.clusters = nil
	w.mu.Unlock()
	var errs []error
	for _, c := range clusters {
		errs = append(errs, c.Close())
	}
	errs = append(errs, os.RemoveAll(w.dir), w.lock.Close())
	if err := errors.Join(errs...); err != nil && !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil
}

func (w *Workspace) add(c *Cluster) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.clusters = append(w.mu.clusters, c)
}

// Broker is the path of the kbroker binary, built from this tree at the first call.
func (w *Workspace) Broker() (string, error) { return w.build() }

func (w *Workspace) buildBroker() (string, error) {
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	path := filepath.Join(w.dir, "kbroker")
	cmd := Command(context.Background(), "go", "build", "-o", path, "./cmd/kbroker")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build kbroker: %w\n%s", err, out)
	}
	return path, nil
}

// moduleRoot is the folder of go.mod, found from this source file's place or from the working directory.
func moduleRoot() (string, error) {
	if _, file, _, ok := runtime.Caller(0); ok {
		root := filepath.Join(filepath.Dir(file), "..", "..", "..")
		if _, err := os.Stat(filepath.Join(root, "go.mod")); err == nil {
			return filepath.Clean(root), nil
		}
	}
	out, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("find the module: %w", err)
	}
	return filepath.Dir(strings.TrimSpace(string(out))), nil
}

// sweep removes the folders whose owners no longer live: their lock can be taken.
func sweep(temp string) {
	dirs, err := filepath.Glob(filepath.Join(temp, folderPrefix+"*"))
	if err != nil {
		return
	}
	for _, dir := range dirs {
		if _, err := os.Stat(filepath.Join(dir, lockName)); err != nil {
			continue // just being made, or not a folder of ours
		}
		if lock, err := lockFolder(dir); err == nil {
			_ = os.RemoveAll(dir) // what cannot be removed stays for the next one
			_ = lock.Close()
		}
	}
}

// lockFolder takes the folder's lock without waiting.
func lockFolder(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, lockName), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("lock %s: %w", dir, err)
	}
	return f, nil
}

// Command prepares a program that ends with this process: it gets a process group of its own, which is killed as a whole
// when ctx ends, and is killed by the kernel when its parent dies.
func Command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.SysProcAttr = ownGroup()
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	return cmd
}
