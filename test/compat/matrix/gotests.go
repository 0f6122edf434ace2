package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/kbroker/kbroker/test/compat/kafka"
)

// runGoTests runs the test suite of a Go module from the module cache. Settings: module (path@version), package (folder
// within it), run (pattern of tests), env (NAME=value lines; ADDR stands for the broker's addresses), tags, timeout.
func runGoTests(ctx context.Context, j *job) ([]result, error) {
	with := j.client.With
	bin, src, err := compiled(ctx, j)
	if err != nil {
		return nil, err
	}
	args := []string{"-test.v=test2json", "-test.timeout=14m", "-test.run=" + with["run"]}
	if len(j.leave) > 0 {
		args = append(args, "-test.skip=^("+strings.Join(j.leave, "|")+")$")
	}
	cmd := kafka.Command(ctx, "go", append([]string{"tool", "test2json", bin}, args...)...)
	cmd.Dir = filepath.Join(src, with["package"])
	cmd.Env = os.Environ()
	for _, line := range strings.Fields(with["env"]) {
		cmd.Env = append(cmd.Env, strings.ReplaceAll(line, "ADDR", j.cluster.Bootstrap()))
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = io.MultiWriter(&out, j.log), j.log
	err = cmd.Run()
	rs := goResults(out.Bytes())
	if len(rs) == 0 && err != nil {
		return nil, fmt.Errorf("%w: %s", err, tail(out.String()))
	}
	return rs, nil
}

// tail is the end of a text, for messages.
func tail(s string) string { return s[max(0, len(s)-2000):] }

// compiled is the module's test binary and the folder with its sources, which tests read files from. Both are cached: the
// module cache is read-only and its modules' tests may write.
func compiled(ctx context.Context, j *job) (bin, src string, err error) {
	with := j.client.With
	name := strings.NewReplacer("/", "-", "@", "-").Replace(with["module"])
	dir, err := kafka.Installed("go-"+name, func(dir string) error {
		download := kafka.Command(ctx, "go", "mod", "download", "-json", with["module"])
		download.Dir = dir
		text, err := download.Output()
		if err != nil {
			return fmt.Errorf("download %s: %w: %s", with["module"], err, text)
		}
		var info struct{ Dir string }
		if err := json.Unmarshal(text, &info); err != nil {
			return err
		}
		src := filepath.Join(dir, "src")
		if err := os.CopyFS(src, os.DirFS(info.Dir)); err != nil {
			return err
		}
		build := kafka.Command(ctx, "go", "test", "-mod=mod", "-c", "-o", filepath.Join(dir, "tests"), "./"+with["package"])
		build.Dir = src
		return runWith(build, j.log)
	})
	return filepath.Join(dir, "tests"), filepath.Join(dir, "src"), err
}

func runWith(cmd *exec.Cmd, log io.Writer) error {
	_, err := output(cmd, log)
	return err
}

// goResults reads test2json's events: one result per top-level test.
func goResults(events []byte) []result {
	var rs []result
	text := map[string]*strings.Builder{}
	sc := bufio.NewScanner(bytes.NewReader(events))
	sc.Buffer(nil, 16<<20)
	for sc.Scan() {
		var e struct{ Action, Test, Output string }
		if json.Unmarshal(sc.Bytes(), &e) != nil || e.Test == "" {
			continue
		}
		top, _, nested := strings.Cut(e.Test, "/")
		if text[top] == nil {
			text[top] = &strings.Builder{}
		}
		switch {
		case e.Action == "output":
			text[top].WriteString(e.Output)
		case nested:
		case e.Action == "pass":
			rs = append(rs, result{name: top, outcome: passed})
		case e.Action == "fail":
			rs = append(rs, result{name: top, outcome: failed, detail: tail(text[top].String())})
		case e.Action == "skip":
			rs = append(rs, result{name: top, outcome: skipped, detail: tail(text[top].String())})
		}
	}
	return rs
}
