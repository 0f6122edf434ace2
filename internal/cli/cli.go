package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Options is what the commands get from the process. The zero value is not useful: In, Out and Err must be set.
type Options struct {
	In       io.Reader
	Out, Err io.Writer
	// Version is what the version command prints.
	Version Version
	// Client is added to the options of every client, after the commands' own; tests connect through it.
	Client []kgo.Opt
}

// Commands returns the client subcommands, ready to be added to a root command. Each call makes new ones; they are used
// from one goroutine. Give the root a context that is cancelled by signals.
func Commands(o Options) []*cobra.Command {
	cmds := []*cobra.Command{
		o.topicCommand(), o.produceCommand(), o.consumeCommand(), o.groupCommand(), o.configCommand(), o.versionCommand(),
	}
	for _, c := range cmds {
		quiet(c)
	}
	return cmds
}

// quiet leaves the printing of errors to Report and turns wrong flags into usage errors.
func quiet(c *cobra.Command) {
	c.SilenceErrors, c.SilenceUsage = true, true
	c.SetFlagErrorFunc(func(c *cobra.Command, err error) error { return usageOf(c, err) })
	for _, sub := range c.Commands() {
		quiet(sub)
	}
}

// group makes a command that only has subcommands: without one it shows its help, with a wrong one it names them.
func group(use, short string, subs ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short, FParseErrWhitelist: cobra.FParseErrWhitelist{UnknownFlags: true}, Args: func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		names := make([]string, len(subs))
		for i, s := range subs {
			names[i] = s.Name()
		}
		return usageOf(c, fmt.Errorf("unknown command %q; there are %s", args[0], strings.Join(names, ", ")))
	}, RunE: func(c *cobra.Command, _ []string) error { return c.Help() }}
	c.AddCommand(subs...)
	return c
}

// args checks the number of arguments and says what is expected. most < 0 means any number.
func args(least, most int, want string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) < least || most >= 0 && len(args) > most {
			return usageOf(c, fmt.Errorf("want %s, got %d arguments", want, len(args)))
		}
		return nil
	}
}

const defaultBootstrap = "localhost:9092"

// Time limits of everything that a person waits for.
const (
	dialTimeout    = 5 * time.Second
	connectTimeout = 10 * time.Second
	defaultTimeout = 30 * time.Second
)

// remote holds the flags of every command that talks to a cluster.
type remote struct {
	Options
	bootstrap string
	timeout   time.Duration
	json      bool
}

func (o Options) remote(c *cobra.Command) *remote {
	r := &remote{Options: o}
	c.Flags().StringVar(&r.bootstrap, "bootstrap", defaultBootstrap, "addresses HOST:PORT of brokers to begin with, separated by commas")
	c.Flags().BoolVar(&r.json, "json", false, "write JSON")
	c.Flags().DurationVar(&r.timeout, "timeout", defaultTimeout, "how long requests may take")
	return r
}

// seeds returns the addresses of --bootstrap; a name without a port gets 9092.
func (r *remote) seeds() []string {
	var seeds []string
	for _, s := range strings.Split(r.bootstrap, ",") {
		if s = strings.TrimSpace(s); s == "" {
			continue
		}
		if last := s[strings.LastIndexByte(s, ']')+1:]; !strings.Contains(last, ":") {
			s += ":9092"
		}
		seeds = append(seeds, s)
	}
	return seeds
}

// connect makes a client and makes sure that a broker answers, so that a wrong address is a clear error and not silence.
func (r *remote) connect(ctx context.Context, opts ...kgo.Opt) (*kgo.Client, error) {
	seeds := r.seeds()
	if len(seeds) == 0 {
		return nil, &usageError{msg: "--bootstrap is empty"}
	}
	all := []kgo.Opt{
		kgo.SeedBrokers(seeds...), kgo.ClientID("kbroker-cli"), kgo.DialTimeout(dialTimeout), kgo.RetryTimeout(r.timeout),
		kgo.RequestRetries(3),
	}
	cl, err := kgo.NewClient(append(append(all, opts...), r.Client...)...)
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	ping, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	if err := cl.Ping(ping); err != nil {
		cl.Close()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, unreachable(seeds, err)
	}
	return cl, nil
}

// admin runs fn with an admin client and the time limit of --timeout.
func (r *remote) admin(ctx context.Context, fn func(context.Context, *kadm.Client, *kgo.Client) error) error {
	cl, err := r.connect(ctx)
	if err != nil {
		return err
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	adm := kadm.NewClient(cl)
	adm.SetTimeoutMillis(int32(min(r.timeout.Milliseconds(), 1<<31-1)))
	return explain(fn(ctx, adm, cl))
}
