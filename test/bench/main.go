// Command bench measures kbroker beside yardsticks taken in the same run: loops that do only what the machine must do, and
// a prototype that does only the data path. Absolute times on shared machines say little; what counts are the ratios and
// the processor seconds per gigabyte. Every case is run several times, kbroker and yardstick in turn, and the median
// stands in the table.
//
//	make bench                     all cases
//	go run ./test/bench -run T1    the cases whose name matches
//
// It starts the processes that it measures, on ports of the kernel's choice and in a temporary directory, and ends them.
package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"syscall"

	"github.com/kbroker/kbroker/test/bench/prototype"
)

func main() {
	if len(os.Args) == 4 && os.Args[1] == "prototype" {
		exit(runPrototype(os.Args[2], os.Args[3]))
	}
	var o options
	flag.StringVar(&o.match, "run", "", "regular expression: only cases whose name matches")
	flag.IntVar(&o.rounds, "rounds", 3, "times that each case is run; the median is shown")
	flag.StringVar(&o.dir, "dir", "", "directory for data (default: a temporary one); its file system is what is measured")
	flag.StringVar(&o.binary, "kbroker", "", "binary to measure (default: built from this tree)")
	flag.Func("override", "one more setting for kbroker as `key=value`; may be repeated", func(s string) error {
		o.settings = append(o.settings, s)
		return nil
	})
	flag.StringVar(&o.profiles, "profiles", "", "directory for CPU profiles of kbroker under each load; the figures are a little worse with them")
	flag.BoolVar(&o.markdown, "markdown", false, "print the table as Markdown, for docs/performance.md")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	exit(run(ctx, o))
}

type options struct {
	match, dir, binary, profiles string
	rounds                       int
	settings                     []string
	markdown                     bool
}

// command is how the run can be repeated.
func (o *options) command() string {
	c := fmt.Sprintf("go run ./test/bench -rounds %d", o.rounds)
	if o.match != "" {
		c += fmt.Sprintf(" -run %q", o.match)
	}
	for _, s := range o.settings {
		c += fmt.Sprintf(" -override %q", s)
	}
	if o.markdown {
		c += " -markdown"
	}
	return c
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func runPrototype(addr, dir string) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	s, err := prototype.New(l, dir, 8)
	if err != nil {
		return err
	}
	go func() {
		c := make(chan os.Signal, 1)
		signal.Notify(c, syscall.SIGTERM, os.Interrupt)
		<-c
		_ = l.Close()
	}()
	return s.Serve()
}

func run(ctx context.Context, o options) error {
	match, err := regexp.Compile(o.match)
	if err != nil {
		return fmt.Errorf("-run: %w", err)
	}
	dir, err := os.MkdirTemp(o.dir, "kbroker-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if o.binary == "" {
		o.binary = filepath.Join(dir, "kbroker")
		if out, err := exec.CommandContext(ctx, "go", "build", "-o", o.binary, "./cmd/kbroker").CombinedOutput(); err != nil {
			return fmt.Errorf("build kbroker: %w\n%s", err, out)
		}
	}
	var table rows
	for _, c := range cases {
		if !match.MatchString(c.name) {
			continue
		}
		fmt.Fprintf(os.Stderr, "%s ...\n", c.name)
		e := &env{ctx: ctx, dir: dir, binary: o.binary, rounds: o.rounds, profiles: o.profiles, name: c.name, settings: o.settings}
		rs, err := c.run(e)
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		table = append(table, rs...)
	}
	return table.print(os.Stdout, o.markdown, o.command())
}
