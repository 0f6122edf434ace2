package quorum

import (
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/kbroker/kbroker/internal/metadata"
	"github.com/stretchr/testify/require"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew; then read the diff")

// The bytes on disk must not change unless the version does.
func TestGoldenFrames(t *testing.T) {
	var b strings.Builder
	show := func(what string, bytes []byte) { fmt.Fprintf(&b, "%s\n%s\n", what, hex.Dump(bytes)) }

	show("head", appendFrame(nil, 0, 1, (&head{nodeID: 3, salt: 0xdeadbeef}).encode()))
	a := &appended{hard: hardState(4, 2, 300), entries: entries(299, 4, "", "data")}
	show("append", appendFrame(nil, 0xdeadbeef, 2, a.encode()))
	a.reset, a.entries = &position{500, 4}, nil
	show("append with reset", appendFrame(nil, 0xdeadbeef, 3, a.encode()))

	img, _, err := metadata.Empty().Apply(batch(1))
	require.NoError(t, err)
	s := &snapshot{position: position{500, 4}, conf: confState(1, 2, 3), image: img}
	var file []byte
	require.NoError(t, encodeSnapshot(s, func(frame []byte) error { file = append(file, frame...); return nil }))
	show("snapshot", file)

	const name = "testdata/frames.hex"
	if *rewrite {
		require.NoError(t, os.WriteFile(name, []byte(b.String()), 0o644))
	}
	want, err := os.ReadFile(name)
	require.NoError(t, err)
	require.Equal(t, string(want), b.String())
}

// Bytes that a client stored in the log must not pass for a frame behind a torn one: the salt is unknown to it.
func TestStoredBytesAreNoFrame(t *testing.T) {
	evil := appendFrame(nil, 0, 1<<40, (&appended{hard: hardState(1, 1, 1)}).encode())
	_, found := laterFrame(append([]byte("torn"), evil...), 0, 1)
	require.True(t, found, "with the salt it would be one")
	_, found = laterFrame(append([]byte("torn"), evil...), 0xdeadbeef, 1)
	require.False(t, found)
}
