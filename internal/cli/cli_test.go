package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// fake starts a cluster of one broker on a port of the system's choice.
func fake(t *testing.T, opts ...kfake.Opt) *kfake.Cluster {
	t.Helper()
	c, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(1)}, opts...)...)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// shell runs commands against one address.
type shell struct {
	t         *testing.T
	bootstrap string
	client    []kgo.Opt
}

func shellFor(t *testing.T, c *kfake.Cluster) *shell {
	return &shell{t: t, bootstrap: strings.Join(c.ListenAddrs(), ",")}
}

type result struct {
	out, err string
	code     int
}

func (s *shell) runIn(ctx context.Context, in string, args ...string) result {
	s.t.Helper()
	var out, errs bytes.Buffer
	root := &cobra.Command{Use: "kbroker", SilenceErrors: true, SilenceUsage: true}
	root.AddCommand(Commands(Options{
		In: strings.NewReader(in), Out: &out, Err: &errs, Client: s.client,
		Version: Version{Version: "1.2.3", Go: "go1.26", System: "linux/amd64", Commit: "abc"},
	})...)
	root.SetOut(&out)
	root.SetErr(&errs)
	if s.bootstrap != "" && args[0] != "version" {
		args = append(args, "--bootstrap", s.bootstrap)
	}
	root.SetArgs(args)
	code := Report(&errs, root.ExecuteContext(ctx))
	return result{out.String(), errs.String(), code}
}

func (s *shell) run(args ...string) result {
	s.t.Helper()
	return s.runIn(s.t.Context(), "", args...)
}

// ok runs a command that must succeed and returns its output.
func (s *shell) ok(args ...string) string {
	s.t.Helper()
	r := s.run(args...)
	require.Zero(s.t, r.code, "%v: %s", args, r.err)
	return r.out
}

// json runs a command that must succeed and reads its output.
func (s *shell) json(into any, args ...string) {
	s.t.Helper()
	require.NoError(s.t, json.Unmarshal([]byte(s.ok(append(args, "--json")...)), into))
}

func (s *shell) fill(topic string, lines ...string) {
	s.t.Helper()
	r := s.runIn(s.t.Context(), strings.Join(lines, "\n"), "produce", topic)
	require.Zero(s.t, r.code, r.err)
}

func TestVersion(t *testing.T) {
	s := &shell{t: t}
	require.Equal(t, "kbroker 1.2.3 commit abc (go1.26, linux/amd64)\n", s.ok("version"))
	var v Version
	s.json(&v, "version")
	require.Equal(t, "1.2.3", v.Version)
	require.NotEmpty(t, BuildVersion("").Go)
	require.Equal(t, "9.9", BuildVersion("9.9").Version)
}

func TestWrongUsage(t *testing.T) {
	s := &shell{t: t}
	for _, tc := range []struct{ args, want string }{
		{"topic create", "want the names of the topics, got 0 arguments (see kbroker topic create --help)"},
		{"topic crate x", `unknown command "crate"; there are create, list, describe, alter, delete`},
		{"topic list --intern", "unknown flag: --intern (see kbroker topic list --help)"},
		{"topic create x --partitions many", "invalid argument"},
		{"topic create x --config retention", `--config "retention" is not of the form key=value`},
		{"topic alter x", "nothing to do: want --partitions, --config or --delete-config"},
		{"produce x --acks 2", `--acks "2": want all, 1 or 0`},
		{"produce x --compression rar", `--compression "rar"`},
		{"produce x --header y", `--header "y" is not of the form key=value`},
		{"produce", "want the name of a topic"},
		{"consume x --format xml", `--format "xml": want value, text or json`},
		{"consume x --isolation none", `--isolation "none"`},
		{"consume x --offset soon", `--offset "soon": want earliest, latest, a number, or -N`},
		{"consume x --group g --offset 5", "--group goes on where the group is"},
		{"consume x --group g --partition 0", "--group goes on where the group is"},
		{"consume x --from-beginning --offset 5", "contradict each other"},
		{"consume x --count -1", "--count -1"},
		{"group reset g --topic t", "want one of --to-earliest"},
		{"group reset g --topic t --to-earliest --to-latest", "want one of --to-earliest"},
		{"group reset g --to-earliest", "want --topic or --all-topics"},
		{"group reset g --to-earliest --topic t --all-topics", "want --topic or --all-topics"},
		{"group reset g --topic t:x --to-earliest", `"x" is no partition`},
		{"group reset g --topic t --to-offset -5", "--to-offset -5: want 0 or more"},
		{"group reset g --topic t --shift-by 9223372036854775807", "is too far"},
		{"group reset g --topic t --to-datetime yesterday", `--to-datetime "yesterday": want a time such as`},
		{"config describe topic", "want topic NAME, broker ID, broker default, group NAME or client-metrics NAME"},
		{"config describe planet earth", `"planet" is no kind of resource`},
		{"config alter broker x --set a=b", `"x" is no broker id`},
		{"config alter topic x", "nothing to do"},
		{"config alter topic x --append y", `--append "y" is not of the form key=value`},
		{"frobnicate", "unknown command"},
		{"topic list --bootstrap ,", "--bootstrap is empty"},
	} {
		r := s.run(strings.Fields(tc.args)...)
		require.Equal(t, ExitUsage, r.code, "%s: %s", tc.args, r.err)
		require.Contains(t, r.err, "kbroker: ", tc.args)
		require.Contains(t, r.err, tc.want, tc.args)
		require.Empty(t, r.out, tc.args)
	}
}

func TestGroupsOfCommandsShowTheirHelp(t *testing.T) {
	s := &shell{t: t}
	for _, name := range []string{"topic", "group", "config"} {
		require.Contains(t, s.ok(name), "Available Commands")
	}
}

func TestNobodyAnswers(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr := ln.Addr().String()
	require.NoError(t, ln.Close())
	r := (&shell{t: t, bootstrap: addr}).run("topic", "list")
	require.Equal(t, ExitFailed, r.code)
	require.Contains(t, r.err, "no broker answers at "+addr)
	require.Contains(t, r.err, "connection refused")
	require.Contains(t, r.err, "start one with `kbroker`")
}

func TestSomethingElseAnswers(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	served := make(chan struct{})
	go func() {
		defer close(served)
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() { _ = ln.Close(); <-served })
	r := (&shell{t: t, bootstrap: ln.Addr().String()}).run("topic", "list")
	require.Equal(t, ExitFailed, r.code)
	require.Contains(t, r.err, "does not speak Kafka's protocol")
}

func TestUnknownHost(t *testing.T) {
	dns := &net.DNSError{Err: "no such host", Name: "nowhere.invalid", IsNotFound: true}
	s := &shell{t: t, bootstrap: "nowhere.invalid", client: []kgo.Opt{
		kgo.Dialer(func(context.Context, string, string) (net.Conn, error) { return nil, dns }),
	}}
	r := s.run("topic", "list")
	require.Equal(t, ExitFailed, r.code)
	require.Contains(t, r.err, "the host of nowhere.invalid:9092 is not known")
}

func TestBootstrapForms(t *testing.T) {
	for in, want := range map[string][]string{
		"h": {"h:9092"}, "h:1": {"h:1"}, "a, b:2,": {"a:9092", "b:2"}, "[::1]": {"[::1]:9092"}, "[::1]:7": {"[::1]:7"},
	} {
		require.Equal(t, want, (&remote{bootstrap: in}).seeds(), in)
	}
}

func TestCancelledCommandIsSilent(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := shellFor(t, fake(t)).runIn(ctx, "", "topic", "list")
	require.Empty(t, r.err)
	require.Equal(t, ExitFailed, r.code)
}

func TestAdvertisedAddressThatDoesNotAnswer(t *testing.T) {
	err := explain(&net.OpError{Op: "dial", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 9092}, Err: context.DeadlineExceeded})
	require.ErrorContains(t, err, "the cluster tells clients to connect to 10.0.0.1:9092")
	require.ErrorContains(t, err, "advertised.listeners")
	require.ErrorContains(t, explain(context.DeadlineExceeded), "--timeout gives more")
	require.NoError(t, explain(nil))
}

func waitLimit(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}
