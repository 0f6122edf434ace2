package cli

import (
	"flag"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
)

var rewrite = flag.Bool("rewrite", false, "write transcripts anew")

// normal replaces what differs from run to run.
var normal = []struct {
	find *regexp.Regexp
	put  string
}{
	{regexp.MustCompile(`\bid [A-Za-z0-9_-]{22}\b`), "id <id>"},
	{regexp.MustCompile(`"id": "[A-Za-z0-9_-]{22}"`), `"id": "<id>"`},
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z`), "<time>"},
}

// A transcript is a session as a user sees it. A line "$ printf 'TEXT' | kbroker ..." or "$ kbroker ..." runs a command;
// what follows is its output, then its errors marked "! ", then "exit N" unless it is 0.
func TestTranscripts(t *testing.T) {
	files, err := os.ReadDir("testdata")
	require.NoError(t, err)
	for _, f := range files {
		t.Run(f.Name(), func(t *testing.T) {
			name := "testdata/" + f.Name()
			want, err := os.ReadFile(name)
			require.NoError(t, err)
			s := shellFor(t, fake(t, kfake.DefaultNumPartitions(2)))
			var got strings.Builder
			for _, line := range strings.Split(string(want), "\n") {
				switch {
				case strings.HasPrefix(line, "#"), line == "":
					got.WriteString(line + "\n")
				case strings.HasPrefix(line, "$ "):
					got.WriteString(line + "\n" + s.session(line))
				}
			}
			text := strings.TrimRight(got.String(), "\n") + "\n"
			if *rewrite {
				require.NoError(t, os.WriteFile(name, []byte(text), 0o644))
				return
			}
			require.Equal(t, string(want), text, "run: go test ./internal/cli -run Transcripts -rewrite, and read the difference")
		})
	}
}

var commandLine = regexp.MustCompile(`^\$ (?:printf '([^']*)' \| )?kbroker (.*)$`)

// session runs one line of a transcript and returns what a user would see.
func (s *shell) session(line string) string {
	m := commandLine.FindStringSubmatch(line)
	require.NotNil(s.t, m, line)
	in := strings.NewReplacer(`\n`, "\n").Replace(m[1])
	r := s.runIn(waitLimit(s.t), in, strings.Fields(m[2])...)
	var b strings.Builder
	b.WriteString(r.out)
	for _, e := range strings.Split(strings.TrimSuffix(r.err, "\n"), "\n") {
		if e != "" {
			b.WriteString("! " + e + "\n")
		}
	}
	if r.code != 0 {
		b.WriteString("exit " + string(rune('0'+r.code)) + "\n")
	}
	text := b.String()
	for _, n := range normal {
		text = n.find.ReplaceAllString(text, n.put)
	}
	return text
}
