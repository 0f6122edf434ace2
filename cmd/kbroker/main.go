// Command kbroker is a Kafka-wire-compatible broker, and a small client for it. Without a subcommand it runs a broker.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"golang.org/x/term"

	"github.com/kbroker/kbroker/config"
	"github.com/kbroker/kbroker/internal/cli"
	"github.com/kbroker/kbroker/internal/node"
	"github.com/kbroker/kbroker/internal/telemetry"
	"github.com/kbroker/kbroker/internal/vfs"
)

// version is set by the linker.
var version = "dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

func run(ctx context.Context, args []string, in io.Reader, out, errOut io.Writer) int {
	root := rootCommand(out, errOut)
	root.AddCommand(cli.Commands(cli.Options{In: in, Out: out, Err: errOut, Version: cli.Version{Version: version}})...)
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errOut)
	err := root.ExecuteContext(ctx)
	code := cli.Report(errOut, err)
	if errors.As(err, new(configError)) {
		return cli.ExitUsage
	}
	return code
}

// configError says that the broker did not start because of how it was configured.
type configError struct{ error }

func rootCommand(out, errOut io.Writer) *cobra.Command {
	var o config.Options
	c := &cobra.Command{
		Use:   "kbroker",
		Short: "A Kafka-compatible broker in one binary",
		Long: "Without a subcommand kbroker runs a broker. Without any configuration that is a working node on\n" +
			"localhost:9092 with its data in ./kbroker-data.\n\n" +
			"Settings come from --config, then KAFKA_... variables as the apache/kafka image takes them, then --override;\n" +
			"the later win. Names, units and defaults are Kafka's.",
		Example:       "  kbroker\n  kbroker --config server.properties\n  kbroker --override listeners=PLAINTEXT://:19092 --override log.dirs=/var/lib/kbroker",
		Args:          cobra.NoArgs,
		SilenceErrors: true, SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error { return serve(cmd.Context(), o, out, errOut) },
	}
	c.Flags().StringVarP(&o.File, "config", "c", "", "a Kafka server.properties `file`")
	c.Flags().StringArrayVar(&o.Overrides, "override", nil, "one setting as `key=value`; may be repeated")
	return c
}

// serve runs a broker until ctx ends or it fails.
func serve(ctx context.Context, o config.Options, out, errOut io.Writer) error {
	o.Env = os.Environ()
	cfg, report, err := config.Load(o)
	if err != nil {
		return configError{fmt.Errorf("the configuration cannot be used:\n  %s", strings.ReplaceAll(err.Error(), "\n", "\n  "))}
	}
	log, err := logger(cfg, errOut)
	if err != nil {
		return configError{err}
	}
	defer func() { _ = log.Sync() }() // standard error of a terminal cannot be synced
	tell(log, report)
	n, err := node.Start(ctx, node.Options{Config: cfg, FS: vfs.OS{}, Listen: net.Listen, Logger: log, Banner: out, Version: version})
	if err != nil {
		return err
	}
	var failure error
	select {
	case <-ctx.Done():
	case failure = <-n.Failed():
		log.Error("a component failed; stopping", zap.Error(failure))
	}
	return errors.Join(failure, n.Stop())
}

func logger(cfg *config.Config, w io.Writer) (*zap.Logger, error) {
	format := telemetry.FormatJSON
	f, isFile := w.(*os.File)
	switch strings.ToLower(cfg.Logging.Format) {
	case "console":
		format = telemetry.FormatHuman
	case "json":
	default:
		if isFile && term.IsTerminal(int(f.Fd())) {
			format = telemetry.FormatHuman
		}
	}
	return telemetry.NewLogger(w, strings.ToLower(cfg.Logging.Level), format)
}

// tell logs what was noticed in the configuration: one line for all unknown keys, one for those without effect here.
func tell(log *zap.Logger, r *config.Report) {
	names := func(list []config.Origin) (out []string) {
		for _, o := range list {
			out = append(out, o.Key)
		}
		return out
	}
	if len(r.Unknown) > 0 {
		log.Warn("unknown settings are ignored", zap.Strings("keys", names(r.Unknown)))
	}
	if len(r.WithoutEffect) > 0 {
		log.Info("settings that have no effect in kbroker", zap.Strings("keys", names(r.WithoutEffect)))
	}
	for _, w := range r.Warnings {
		log.Warn(w)
	}
}
