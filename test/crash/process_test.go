package crash

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
)

var binary struct {
	sync.Once
	path string
	err  error
}

// kbroker builds the binary once for all tests.
func kbroker(t *testing.T) string {
	t.Helper()
	binary.Do(func() {
		dir, err := os.MkdirTemp("", "kbroker-crash-") //nolint:usetesting // it outlives the test that happens to build first
		if err != nil {
			binary.err = err
			return
		}
		binary.path = filepath.Join(dir, "kbroker")
		out, err := exec.Command("go", "build", "-o", binary.path, "../../cmd/kbroker").CombinedOutput()
		if err != nil {
			binary.err = fmt.Errorf("%w: %s", err, out)
		}
	})
	require.NoError(t, binary.err)
	return binary.path
}

func TestMain(m *testing.M) {
	code := m.Run()
	if binary.path != "" {
		_ = os.RemoveAll(filepath.Dir(binary.path))
	}
	os.Exit(code)
}

// process is a broker in its own directory, on a port that it keeps over restarts.
type process struct {
	*testing.T
	dir, addr string
	args      []string
	cmd       *exec.Cmd
	log       output
}

// output gathers what processes print; a test may read it while they write.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

func newProcess(t *testing.T, settings ...string) *process {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr := l.Addr().String()
	require.NoError(t, l.Close())
	p := &process{T: t, dir: t.TempDir(), addr: addr}
	p.args = []string{"--override", "listeners=PLAINTEXT://" + addr, "--override", "log.dirs=" + p.dir, "--override", "http.listener=",
		"--override", "group.initial.rebalance.delay.ms=0"}
	for _, s := range settings {
		p.args = append(p.args, "--override", s)
	}
	t.Cleanup(p.kill)
	return p
}

// start runs the broker and waits until it answers.
func (p *process) start() {
	p.Helper()
	p.cmd = exec.Command(kbroker(p.T), p.args...)
	p.cmd.Stdout, p.cmd.Stderr = &p.log, &p.log
	require.NoError(p, p.cmd.Start())
	c, err := kgo.NewClient(kgo.SeedBrokers(p.addr), kgo.RetryTimeout(20*time.Second))
	require.NoError(p, err)
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for c.Ping(ctx) != nil {
		require.NoError(p, ctx.Err(), "the broker does not answer:\n%s", &p.log)
	}
}

// kill ends the process the hard way, if it runs.
func (p *process) kill() {
	if p.cmd != nil {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait() // killed: the error only says so
		p.cmd = nil
	}
}

// terminate asks the process to stop and returns its exit code.
func (p *process) terminate() int {
	p.Helper()
	require.NoError(p, p.cmd.Process.Signal(syscall.SIGTERM))
	done := make(chan struct{})
	cmd := p.cmd
	go func() {
		defer close(done)
		_ = cmd.Wait() // the exit code is read below
	}()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		p.Fatalf("the broker does not stop:\n%s", &p.log)
	}
	p.cmd = nil
	return cmd.ProcessState.ExitCode()
}
