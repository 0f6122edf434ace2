// Command cluster runs brokers in the foreground until it is interrupted, to try things by hand: Apache Kafka as an oracle,
// or kbroker. It prints the addresses and where the files are.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/kbroker/kbroker/test/compat/kafka"
)

// settings gathers repeated -set key=value flags.
type settings map[string]string

func (s settings) String() string { return fmt.Sprint(map[string]string(s)) }

func (s settings) Set(v string) error {
	key, value, ok := strings.Cut(v, "=")
	if !ok {
		return fmt.Errorf("%q is not key=value", v)
	}
	s[key] = value
	return nil
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	o := kafka.Options{Config: map[string]string{}}
	flag.StringVar((*string)(&o.Software), "software", "kafka", "kafka or kbroker")
	flag.StringVar(&o.Version, "version", kafka.DefaultVersion, "version of Apache Kafka")
	flag.IntVar(&o.Nodes, "nodes", 1, "number of nodes")
	flag.Var(settings(o.Config), "set", "a broker setting, key=value; may be given more than once")
	flag.Parse()
	w, err := kafka.NewWorkspace()
	if err != nil {
		return err
	}
	defer w.Close()
	c, err := w.Start(ctx, o)
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stdout, "%s\nbootstrap %s\nfiles %s\n", c.Name(), c.Bootstrap(), w.Dir())
	if o.Software == kafka.ApacheKafka {
		libs, err := kafka.Install(ctx, o.Version)
		if err != nil {
			return err
		}
		fmt.Fprintf(os.Stdout, "tools java -cp '%s/*' org.apache.kafka.tools.TopicCommand --bootstrap-server %s --list\n", libs, c.Bootstrap())
	}
	<-ctx.Done()
	return w.Close()
}
