package kafka

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// launcher knows how one kind of broker is prepared and run.
type launcher interface {
	// format prepares the folder of a new node.
	format(ctx context.Context, n *Node) error
	// command is the broker's process.
	command(ctx context.Context, n *Node) *exec.Cmd
	// extra are settings that only this kind knows.
	extra() map[string]string
}

func (w *Workspace) launcher(ctx context.Context, o Options) (launcher, error) {
	switch o.Software {
	case KBroker:
		path, err := w.Broker()
		return goBroker{path: path}, err
	case ApacheKafka:
		libs, err := Install(ctx, o.Version)
		return javaBroker{libs: libs, heap: o.Heap}, err
	default:
		return nil, fmt.Errorf("no broker is called %q", o.Software)
	}
}

type goBroker struct{ path string }

func (goBroker) format(context.Context, *Node) error { return nil }

func (b goBroker) command(ctx context.Context, n *Node) *exec.Cmd {
	cmd := Command(ctx, b.path, "--config", n.configFile())
	cmd.Dir = n.dir
	cmd.Env = append(os.Environ(), "CLUSTER_ID="+clusterID)
	return cmd
}

func (goBroker) extra() map[string]string { return map[string]string{"http.listener": ""} }

type javaBroker struct {
	libs string
	heap int
}

// log4j1 makes Kafka 3 write warnings; Kafka 4's logging needs a property only.
const log4j1 = `log4j.rootLogger=WARN, stdout
log4j.appender.stdout=org.apache.log4j.ConsoleAppender
log4j.appender.stdout.layout=org.apache.log4j.PatternLayout
log4j.appender.stdout.layout.ConversionPattern=%d %p %m (%c)%n
`

func (b javaBroker) format(ctx context.Context, n *Node) error {
	if err := os.WriteFile(filepath.Join(n.dir, "log4j.properties"), []byte(log4j1), 0o600); err != nil {
		return err
	}
	cmd := b.java(ctx, n, "kafka.tools.StorageTool", "format", "-t", clusterID, "-c", n.configFile())
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("format node %d: %w\n%s", n.ID, err, out)
	}
	return nil
}

func (b javaBroker) command(ctx context.Context, n *Node) *exec.Cmd {
	return b.java(ctx, n, "kafka.Kafka", n.configFile())
}

func (b javaBroker) java(ctx context.Context, n *Node, class string, args ...string) *exec.Cmd {
	cmd := Command(ctx, "java", append([]string{
		fmt.Sprintf("-Xmx%dm", b.heap), "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData",
		"-Dlog4j2.level=WARN", "-Dlog4j.configuration=file:" + filepath.Join(n.dir, "log4j.properties"),
		"-cp", filepath.Join(b.libs, "*"), class,
	}, args...)...)
	cmd.Dir = n.dir
	return cmd
}

func (javaBroker) extra() map[string]string { return nil }

// Tool prepares one of Apache Kafka's tools, by class name, from the jars of a version.
func Tool(ctx context.Context, version, class string, args ...string) (*exec.Cmd, error) {
	libs, err := Install(ctx, version)
	if err != nil {
		return nil, err
	}
	return Command(ctx, "java", append([]string{
		"-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-Xshare:auto",
		"-Dlog4j2.level=ERROR", "-cp", filepath.Join(libs, "*"), class,
	}, args...)...), nil
}
