package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/kbroker/kbroker/test/compat/kafka"
)

// outcome is how a case ended.
type outcome string

const (
	passed  outcome = "ok"
	failed  outcome = "not ok"
	skipped outcome = "skip"
)

// result is one case of a client.
type result struct {
	name    string
	outcome outcome
	detail  string
}

// job is what a runner gets: whom to run against whom.
type job struct {
	client  client
	cluster *kafka.Cluster
	// dir is an empty folder for the runner's files.
	dir string
	// leave are the cases not to run.
	leave []string
	// log takes the output of what is run.
	log io.Writer
}

// leaves reports whether a case is not to be run.
func (j *job) leaves(name string) bool { return slices.Contains(j.leave, name) }

// runner runs a client's cases. An error says that it could not run them at all.
type runner func(context.Context, *job) ([]result, error)

// runners are the ways to run a client, by the name that clients.yaml uses.
var runners map[string]runner

func init() {
	runners = map[string]runner{
		"kcat":     runKcat,
		"go tests": runGoTests,
	}
}

// clientLimit bounds one client's run.
const clientLimit = 15 * time.Minute

// verdict is a client's run, judged.
type verdict struct {
	client  client
	results []result
	faults  []string
	took    time.Duration
}

func (v *verdict) count(o outcome) int {
	n := 0
	for _, r := range v.results {
		if r.outcome == o {
			n++
		}
	}
	return n
}

// runClient starts a cluster, runs the client against it and judges.
func runClient(ctx context.Context, w *kafka.Workspace, c client, o kafka.Options, dir string, log io.Writer) *verdict {
	ctx, cancel := context.WithTimeout(ctx, clientLimit)
	defer cancel()
	v := &verdict{client: c}
	o.Config = maps.Clone(c.Config)
	cluster, err := w.Start(ctx, o)
	if err != nil {
		v.faults = append(v.faults, fmt.Sprintf("%s: %v", c.Name, err))
		return v
	}
	defer cluster.Close()
	j := &job{client: c, cluster: cluster, dir: dir, log: log}
	j.leave = slices.Collect(maps.Keys(c.Skips))
	if o.Software != kafka.ApacheKafka {
		j.leave = append(j.leave, slices.Collect(maps.Keys(c.Later))...)
	}
	slices.Sort(j.leave)
	begin := time.Now()
	v.results, err = runners[c.Runner](ctx, j)
	v.took = time.Since(begin)
	if err != nil {
		v.faults = append(v.faults, fmt.Sprintf("%s: %v", c.Name, err))
	}
	for _, n := range cluster.Nodes() {
		if !n.Running() {
			v.faults = append(v.faults, fmt.Sprintf("%s: the broker ended; the end of its output:\n%s", c.Name, n.Log()))
		}
	}
	v.judge(len(j.leave) - len(c.Skips))
	return v
}

// judge adds the faults that the results show. fewer is the number of cases left out of those that count.
func (v *verdict) judge(fewer int) {
	c := v.client
	for _, r := range v.results {
		switch r.outcome {
		case failed:
			v.faults = append(v.faults, fmt.Sprintf("%s: %s failed: %s", c.Name, r.name, r.detail))
		case skipped:
			v.faults = append(v.faults, fmt.Sprintf("%s: %s skipped itself: %s", c.Name, r.name, r.detail))
		case passed:
		}
	}
	if want := c.Cases - fewer; len(v.results) != want {
		v.faults = append(v.faults, fmt.Sprintf("%s: %d cases ran, clients.yaml says %d", c.Name, len(v.results), want))
	}
}

// parseLines reads what a client program prints: "ok NAME", "not ok NAME: why" and "skip NAME: why".
func parseLines(out []byte) []result {
	var rs []result
	for sc := bufio.NewScanner(bytes.NewReader(out)); sc.Scan(); {
		for _, o := range []outcome{failed, passed, skipped} {
			if rest, ok := strings.CutPrefix(sc.Text(), string(o)+" "); ok {
				name, why, _ := strings.Cut(rest, ": ")
				rs = append(rs, result{name: name, outcome: o, detail: why})
				break
			}
		}
	}
	return rs
}

// output runs a prepared command; an error carries the end of what it printed.
func output(cmd *exec.Cmd, log io.Writer) (string, error) {
	var out bytes.Buffer
	cmd.Stdout = io.MultiWriter(&out, log)
	cmd.Stderr = cmd.Stdout
	err := cmd.Run()
	if err != nil {
		text := out.String()
		err = fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args[:min(len(cmd.Args), 3)], " "), err, text[max(0, len(text)-2000):])
	}
	return out.String(), err
}

// check is a case written in this package.
type check struct {
	name string
	run  func(ctx context.Context) error
}

// caseLimit bounds one check.
const caseLimit = 2 * time.Minute

// runChecks runs cases one after the other.
func runChecks(ctx context.Context, j *job, list []check) []result {
	var rs []result
	for _, c := range list {
		if j.leaves(c.name) {
			continue
		}
		limited, cancel := context.WithTimeout(ctx, caseLimit)
		begin := time.Now()
		err := c.run(limited)
		if limited.Err() != nil {
			err = errors.Join(limited.Err(), err)
		}
		cancel()
		r := result{name: c.name, outcome: passed}
		if err != nil {
			r.outcome, r.detail = failed, err.Error()
		}
		fmt.Fprintf(j.log, "== %s %s (%.1fs) %s\n", r.outcome, c.name, time.Since(begin).Seconds(), r.detail)
		rs = append(rs, r)
	}
	return rs
}
