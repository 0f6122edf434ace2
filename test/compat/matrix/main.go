package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/kbroker/kbroker/test/compat/kafka"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// flags are what the command line says.
type flags struct {
	only     string
	software string
	version  string
	logs     string
	list     bool
}

func parseFlags() flags {
	var f flags
	flag.StringVar(&f.only, "only", "", "clients to run, by name, separated by commas; all unless set")
	flag.StringVar(&f.software, "software", "kbroker", "kbroker or kafka")
	flag.StringVar(&f.version, "version", kafka.DefaultVersion, "version of Apache Kafka")
	flag.StringVar(&f.logs, "logs", "", "folder for what the clients print; it goes nowhere unless set")
	flag.BoolVar(&f.list, "list", false, "list the clients and stop")
	flag.Parse()
	return f
}

// errFailed says that some client's run is not as clients.yaml says; the faults have been printed.
var errFailed = errors.New("not every client passed")

func run(ctx context.Context, out io.Writer) error {
	f := parseFlags()
	list, err := chosen(f.only)
	if err != nil {
		return err
	}
	if f.list {
		for _, c := range list {
			fmt.Fprintf(out, "%-24s %4d cases  %s\n", c.Name, c.Cases, c.About)
		}
		return nil
	}
	w, err := kafka.NewWorkspace()
	if err != nil {
		return err
	}
	defer w.Close()
	o := kafka.Options{Software: kafka.Software(f.software), Version: f.version}
	var verdicts []*verdict
	for _, c := range list {
		v, err := runLogged(ctx, w, c, o, f.logs)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%s: %d passed, %d failed, %d skipped (%.0fs)\n", c.Name, v.count(passed), v.count(failed), v.count(skipped), v.took.Seconds())
		verdicts = append(verdicts, v)
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	if err := record(verdicts, o); err != nil {
		return err
	}
	return sum(out, verdicts)
}

// chosen are the clients that the command line asks for.
func chosen(only string) ([]client, error) {
	list, err := loadClients(clientsFile)
	if err != nil || only == "" {
		return list, err
	}
	names := strings.Split(only, ",")
	var some []client
	for _, c := range list {
		if slices.Contains(names, c.Name) {
			some = append(some, c)
		}
	}
	if len(some) != len(names) {
		return nil, fmt.Errorf("-only %s names %d known clients", only, len(some))
	}
	return some, nil
}

func runLogged(ctx context.Context, w *kafka.Workspace, c client, o kafka.Options, logs string) (*verdict, error) {
	dir, err := os.MkdirTemp(w.Dir(), c.Name+"-")
	if err != nil {
		return nil, err
	}
	log := io.Discard
	if logs != "" {
		if err := os.MkdirAll(logs, 0o755); err != nil {
			return nil, err
		}
		file, err := os.Create(filepath.Join(logs, c.Name+"-"+string(o.Software)+".log"))
		if err != nil {
			return nil, err
		}
		defer file.Close()
		log = file
	}
	return runClient(ctx, w, c, o, dir, log), nil
}

// sum prints the faults and the last line.
func sum(out io.Writer, verdicts []*verdict) error {
	var pass, fail, skip int
	var faults []string
	for _, v := range verdicts {
		pass, fail, skip = pass+v.count(passed), fail+v.count(failed), skip+v.count(skipped)
		faults = append(faults, v.faults...)
	}
	for _, f := range faults {
		fmt.Fprintf(out, "FAULT %s\n", f)
	}
	fmt.Fprintf(out, "%d passed, %d failed, %d skipped\n", pass, fail, skip)
	if len(faults) > 0 {
		return errFailed
	}
	return nil
}
