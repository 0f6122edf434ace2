package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// broker is a process under measurement: kbroker, or the prototype beside it.
type broker struct {
	name string
	addr string
	dir  string
	log  string
	args []string
	// cmd is the running process, nil when there is none; exited yields how it ended, once.
	cmd    *exec.Cmd
	exited chan error
	// profiles is the address that serves profiles, empty for none.
	profiles string
}

// freePort asks the kernel for a port. Another process may take it before ours does; then the start fails and says so.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// newKBroker prepares a kbroker in its own directory; start runs it.
func newKBroker(binary, dir string, settings ...string) (*broker, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	cport, err := freePort()
	if err != nil {
		return nil, err
	}
	addr := fmt.Sprintf("127.0.0.1:%d", port)
	args := []string{binary,
		"--override", "node.id=1", "--override", "process.roles=broker,controller",
		"--override", fmt.Sprintf("listeners=PLAINTEXT://%s,CONTROLLER://127.0.0.1:%d", addr, cport),
		"--override", "controller.listener.names=CONTROLLER",
		"--override", "log.dirs=" + filepath.Join(dir, "data"), "--override", "http.listener=",
		"--override", "group.initial.rebalance.delay.ms=0",
	}
	for _, s := range settings {
		args = append(args, "--override", s)
	}
	return &broker{name: "kbroker", addr: addr, dir: dir, log: filepath.Join(dir, "kbroker.log"), args: args}, nil
}

// profiled makes the broker serve profiles of itself.
func (b *broker) profiled() error {
	port, err := freePort()
	if err != nil {
		return err
	}
	b.profiles = fmt.Sprintf("127.0.0.1:%d", port)
	b.args = append(b.args, "--override", "http.pprof.enable=true", "--override", "http.listener="+b.profiles)
	return nil
}

// profile writes what the broker spends its time on into a file.
func (b *broker) profile(ctx context.Context, path string) error {
	const seconds = 2
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", b.profiles, seconds), nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o644)
}

// newPrototype prepares the prototype: this program again, with another first word.
func newPrototype(dir string) (*broker, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	addr := fmt.Sprintf("127.0.0.1:%d", port)
	return &broker{name: "prototype", addr: addr, dir: dir, log: filepath.Join(dir, "prototype.log"),
		args: []string{self, "prototype", addr, dir}}, nil
}

// startLimit bounds how long a start may take before it counts as failed.
const startLimit = 2 * time.Minute

// start runs the process and waits until it serves: it answers ApiVersions, and Metadata with a leader for partition 0 of
// the topic, unless that is empty. Sockets that merely accept say nothing: a broker opens them before it has recovered.
func (b *broker) start(ctx context.Context, topic string) (time.Duration, error) {
	out, err := os.OpenFile(b.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return 0, err
	}
	defer out.Close()
	cmd := exec.CommandContext(ctx, b.args[0], b.args[1:]...)
	cmd.Stdout, cmd.Stderr = out, out
	begin := time.Now()
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	b.cmd, b.exited = cmd, make(chan error, 1)
	go func() { b.exited <- cmd.Wait() }()
	err = errNotServing
	for time.Since(begin) < startLimit && errors.Is(err, errNotServing) {
		select {
		case werr := <-b.exited:
			b.cmd = nil
			return 0, fmt.Errorf("%s ended during its start: %w; the end of its log:\n%s", b.name, werr, b.logTail())
		default:
			err = serves(b.addr, topic, begin.Add(startLimit))
		}
		if errors.Is(err, errNotServing) {
			time.Sleep(500 * time.Microsecond) // the granularity of the measurement, not a wait for luck
		}
	}
	if took := time.Since(begin); err == nil {
		return took, nil
	}
	_ = b.kill()
	return 0, fmt.Errorf("%s does not serve at %s: %w; the end of its log:\n%s", b.name, b.addr, err, b.logTail())
}

// errNotServing says that a broker may be on its way.
var errNotServing = errors.New("not serving yet")

// serves asks a broker the questions that start waits for.
func serves(addr, topic string, deadline time.Time) error {
	c, err := dialRaw(addr)
	if err != nil {
		return fmt.Errorf("%w: %w", errNotServing, err)
	}
	defer c.Close()
	if err := c.SetDeadline(deadline); err != nil {
		return err
	}
	versions := kmsg.NewPtrApiVersionsRequest()
	versions.Version, versions.ClientSoftwareName, versions.ClientSoftwareVersion = 3, "bench", "1"
	if _, err := c.roundTrip(versions); err != nil {
		return fmt.Errorf("%w: ApiVersions: %w", errNotServing, err)
	}
	if topic == "" {
		return nil
	}
	req := kmsg.NewPtrMetadataRequest()
	req.Version = 9
	t := kmsg.NewMetadataRequestTopic()
	t.Topic = &topic
	req.Topics = append(req.Topics, t)
	resp, err := c.roundTrip(req)
	if err != nil {
		return fmt.Errorf("%w: Metadata: %w", errNotServing, err)
	}
	return led(resp.(*kmsg.MetadataResponse), topic)
}

// led reports whether an answer names a leader for partition 0 of a topic.
func led(resp *kmsg.MetadataResponse, topic string) error {
	for i := range resp.Topics {
		t := &resp.Topics[i]
		if t.Topic == nil || *t.Topic != topic {
			continue
		}
		for j := range t.Partitions {
			if p := &t.Partitions[j]; p.Partition == 0 && p.ErrorCode == 0 && p.Leader >= 0 {
				return nil
			}
		}
	}
	return fmt.Errorf("%w: %s-0 has no leader", errNotServing, topic)
}

// logTail returns the last lines of the process's output, for error messages.
func (b *broker) logTail() string {
	const most = 2 << 10
	data, err := os.ReadFile(b.log)
	if err != nil {
		return err.Error()
	}
	return string(data[max(0, len(data)-most):])
}

// stop ends the process in order; it must exit with status 0.
func (b *broker) stop() error {
	if b.cmd == nil {
		return nil
	}
	if err := b.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	err := <-b.exited
	b.cmd = nil
	if err != nil {
		return fmt.Errorf("%s did not stop in order: %w; the end of its log:\n%s", b.name, err, b.logTail())
	}
	return nil
}

func (b *broker) kill() error {
	if b.cmd == nil {
		return nil
	}
	_ = b.cmd.Process.Kill() // it may have ended already
	<-b.exited               // killed: the error only says so
	b.cmd = nil
	return nil
}

// cpu returns the processor time that the process has used, all threads, user and system.
func (b *broker) cpu() (time.Duration, error) {
	if runtime.GOOS != "linux" {
		return 0, errors.New("processor time of another process is read from /proc, which only Linux has")
	}
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", b.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	return parseCPU(string(data))
}

// parseCPU reads user and system time from a line of /proc/PID/stat.
func parseCPU(stat string) (time.Duration, error) {
	// The command in brackets may hold spaces: count fields behind the last bracket. utime and stime are fields 14 and 15.
	f := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(f) < 13 {
		return 0, fmt.Errorf("%d fields in the process's stat", len(f))
	}
	var ticks int64
	for _, s := range f[11:13] {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	const tick = time.Second / 100 // USER_HZ, fixed by Linux's interface
	return time.Duration(ticks) * tick, nil
}

// rss returns the resident memory of the process in bytes.
func (b *broker) rss() (int64, error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/status", b.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	defer f.Close()
	return parseRSS(f)
}

// parseRSS reads the resident memory from /proc/PID/status.
func parseRSS(status io.Reader) (int64, error) {
	for sc := bufio.NewScanner(status); sc.Scan(); {
		rest, ok := strings.CutPrefix(sc.Text(), "VmRSS:")
		if f := strings.Fields(rest); ok && len(f) > 0 {
			kb, err := strconv.ParseInt(f[0], 10, 64)
			return kb << 10, err
		}
	}
	return 0, errors.New("no VmRSS in the process's status")
}
