package kafka

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/test/compat/wire"
)

// Node is one process of a cluster. It is safe for concurrent use.
type Node struct {
	// ID is the node's id, from 1.
	ID int32
	// Addr is where clients reach it: the first listener.
	Addr string

	dir        string
	controller string
	listeners  map[string]string
	run        launcher

	mu struct {
		sync.Mutex
		cmd   *exec.Cmd
		ended chan struct{} // closed once cmd has been waited for
	}
}

// Listener is the address of one of the node's listeners.
func (n *Node) Listener(name string) string { return n.listeners[name] }

// LogDir is the folder of the node's partitions.
func (n *Node) LogDir() string { return filepath.Join(n.dir, "data") }

func (n *Node) configFile() string { return filepath.Join(n.dir, "server.properties") }
func (n *Node) logFile() string    { return filepath.Join(n.dir, "output.log") }

// PID is the process's id, 0 when it does not run.
func (n *Node) PID() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.mu.cmd == nil {
		return 0
	}
	return n.mu.cmd.Process.Pid
}

// Running reports whether the process is alive.
func (n *Node) Running() bool {
	n.mu.Lock()
	cmd, ended := n.mu.cmd, n.mu.ended
	n.mu.Unlock()
	if cmd == nil {
		return false
	}
	select {
	case <-ended:
		return false
	default:
		return true
	}
}

// Start runs a stopped node and returns once it serves.
func (n *Node) Start(ctx context.Context) error {
	if n.Running() {
		return fmt.Errorf("node %d runs already", n.ID)
	}
	if err := n.start(ctx); err != nil {
		return err
	}
	return n.await(ctx, 1)
}

// start runs the process; await says when it serves.
func (n *Node) start(_ context.Context) error {
	out, err := os.OpenFile(n.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer out.Close()
	// The process outlives the context of its start.
	cmd := n.run.command(context.Background(), n)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start node %d: %w", n.ID, err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // how it ended stands in ProcessState
	}()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.mu.cmd, n.mu.ended = cmd, ended
	return nil
}

// await returns once the node answers with that many brokers and a controller.
func (n *Node) await(ctx context.Context, brokers int) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	for {
		err := n.ask(ctx, brokers)
		if err == nil {
			return nil
		}
		if !n.Running() {
			return fmt.Errorf("node %d ended during its start: %w; the end of its output:\n%s", n.ID, err, n.Log())
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("node %d does not serve: %w; the end of its output:\n%s", n.ID, err, n.Log())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// ask says what is missing for a cluster of that many brokers.
func (n *Node) ask(ctx context.Context, brokers int) error {
	conn, err := wire.Dial(ctx, n.Addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	req := kmsg.NewPtrMetadataRequest()
	req.Version = 9
	req.Topics = []kmsg.MetadataRequestTopic{}
	resp, err := conn.Request(ctx, req)
	if err != nil {
		return err
	}
	m := resp.(*kmsg.MetadataResponse)
	if len(m.Brokers) < brokers || m.ControllerID < 0 {
		return fmt.Errorf("%d of %d brokers, controller %d", len(m.Brokers), brokers, m.ControllerID)
	}
	return nil
}

// stopLimit bounds a controlled stop.
const stopLimit = 60 * time.Second

// Stop asks the node to end and waits until it has.
func (n *Node) Stop(ctx context.Context) error {
	n.mu.Lock()
	cmd, ended := n.mu.cmd, n.mu.ended
	n.mu.Unlock()
	if cmd == nil {
		return nil
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop node %d: %w", n.ID, err)
	}
	ctx, cancel := context.WithTimeout(ctx, stopLimit)
	defer cancel()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		n.Kill()
		return fmt.Errorf("node %d does not stop: %w; the end of its output:\n%s", n.ID, ctx.Err(), n.Log())
	}
}

// Kill ends the node at once, with all that it started, and waits until it is gone.
func (n *Node) Kill() {
	n.mu.Lock()
	cmd, ended := n.mu.cmd, n.mu.ended
	n.mu.Unlock()
	if cmd == nil {
		return
	}
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // it may have ended by itself
	<-ended
}

// logTail is how much of a node's output Log returns.
const logTail = 8 << 10

// Log is the end of what the node has printed.
func (n *Node) Log() string {
	b, err := os.ReadFile(n.logFile())
	if err != nil {
		return err.Error()
	}
	return string(b[max(0, len(b)-logTail):])
}
