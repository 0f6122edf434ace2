package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// Exit codes of the process.
const (
	ExitOK     = 0
	ExitFailed = 1 // the cluster was asked and it, or the way to it, failed
	ExitUsage  = 2 // the command line is wrong
)

// usageError is a command line that cannot be meant.
type usageError struct {
	msg  string
	help string // how to get help, empty when the text says enough
}

func (e *usageError) Error() string { return e.msg }

func usageOf(c *cobra.Command, err error) error {
	return &usageError{msg: err.Error(), help: "see " + c.CommandPath() + " --help"}
}

func usagef(format string, a ...any) error { return &usageError{msg: fmt.Sprintf(format, a...)} }

// ExitCode returns the exit code for what a command returned. A wrong command or flag of the root command counts as
// wrong usage too.
func ExitCode(err error) int {
	var u *usageError
	switch {
	case err == nil:
		return ExitOK
	case errors.As(err, &u), strings.HasPrefix(err.Error(), "unknown command"), strings.HasPrefix(err.Error(), "unknown flag"),
		strings.HasPrefix(err.Error(), "unknown shorthand"):
		return ExitUsage
	}
	return ExitFailed
}

// Report writes an error for people and returns the exit code. It writes nothing for nil, nor when the command was
// cancelled, which is what the user asked for.
func Report(w io.Writer, err error) int {
	var u *usageError
	switch {
	case err == nil:
	case errors.Is(err, context.Canceled):
	case errors.As(err, &u) && u.help != "":
		_, _ = fmt.Fprintf(w, "kbroker: %v (%s)\n", err, u.help)
	default:
		_, _ = fmt.Fprintf(w, "kbroker: %v\n", err)
	}
	return ExitCode(err)
}

// unreachable explains why no broker answered.
func unreachable(seeds []string, err error) error {
	where := strings.Join(seeds, ", ")
	var (
		op  *net.OpError
		dns *net.DNSError
	)
	switch {
	case errors.As(err, &dns):
		return fmt.Errorf("the host of %s is not known: %w; name a broker with --bootstrap HOST:PORT", where, err)
	case errors.As(err, &op) && op.Op == "dial":
		return fmt.Errorf("no broker answers at %s (%w); start one with `kbroker`, or name another with --bootstrap HOST:PORT",
			where, op.Err)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("no broker answers at %s within %v; is that the address of a Kafka listener?", where, connectTimeout)
	}
	return fmt.Errorf("what answers at %s does not speak Kafka's protocol as we do (%w); is that a Kafka listener without TLS?",
		where, err)
}

// explain adds to an error what can be done about it.
func explain(err error) error {
	var (
		op     *net.OpError
		shards *kadm.ShardErrors
	)
	switch {
	case err == nil:
		return nil
	case errors.As(err, &shards) && len(shards.Errs) > 0:
		return explain(shards.Errs[0].Err)
	case errors.As(err, &op) && op.Op == "dial":
		return fmt.Errorf("the cluster tells clients to connect to %v, where nothing answers (%w); check advertised.listeners of that broker",
			op.Addr, op.Err)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("no answer in time: %w; --timeout gives more", err)
	case errors.Is(err, kerr.UnknownTopicOrPartition):
		return fmt.Errorf("%w; kbroker topic list shows what there is", err)
	case errors.Is(err, kerr.UnsupportedVersion):
		return fmt.Errorf("%w; the cluster does not offer what this command needs", err)
	}
	return err
}

// answered joins an error code with the text that came with it.
func answered(what string, err error, message string) error {
	var ke *kerr.Error
	switch {
	case errors.Is(err, kerr.UnknownTopicOrPartition):
		return fmt.Errorf("%s does not exist (%w)", what, &codeOnly{kerr.UnknownTopicOrPartition})
	case message != "" && errors.As(err, &ke):
		return fmt.Errorf("%s: %s (%w)", what, message, &codeOnly{ke})
	}
	return fmt.Errorf("%s: %w", what, err)
}

// codeOnly shows the name of an error code without its general explanation, where the broker gave a better one.
type codeOnly struct{ err *kerr.Error }

func (c *codeOnly) Error() string { return c.err.Message }
func (c *codeOnly) Unwrap() error { return c.err }

// all joins errors of several things; nil when there is none.
func all(errs []error) error { return errors.Join(errs...) }
