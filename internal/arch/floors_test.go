package arch

import (
	"encoding/json"
	"os/exec"
	"sort"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const modulePath = "github.com/kbroker/kbroker/"

// floors is the map of the house. A package imports only packages of lower floors, never of its own. Packages under
// test/ stand above everything and are not imported by anybody.
var floors = map[string]struct {
	floor int
	why   string
}{
	"config":             {0, "typed configuration; reads files and the environment only"},
	"internal/model":     {0, "shared value types"},
	"internal/vfs":       {0, "seam to the file system"},
	"internal/memnet":    {0, "seam to the network, for tests"},
	"internal/telemetry": {0, "logger"},
	"internal/arch":      {0, "tests of the house itself"},

	"protocol":             {1, "frames, headers, error codes"},
	"protocol/record":      {1, "record batches"},
	"internal/vfs/memfs":   {1, "files that forget what was not synced"},
	"internal/vfs/faultfs": {1, "files that fail on demand"},
	"internal/netio":       {1, "pieces of files to a socket, one file per system"},

	"partition/segment":    {2, "one segment's files"},
	"partition/producer":   {2, "pure: idempotence and open transactions"},
	"partition/epoch":      {2, "pure: leader epochs"},
	"partition/checkpoint": {2, "small text files of offsets"},
	"replication/isr":      {2, "pure: in-sync replicas and high watermark"},
	"internal/metadata":    {2, "immutable cluster image"},

	"partition/seglog": {3, "ordered segments"},
	"internal/logdir":  {3, "one directory of log.dirs"},

	"partition":        {4, "one replica of one partition"},
	"internal/quorum":  {4, "raft over the metadata log"},
	"internal/coordrt": {4, "coordinator runtime"},

	"internal/controller":        {5, "cluster decisions"},
	"internal/coordrt/coordtest": {5, "a coordinator's log in memory, for tests"},
	"internal/groupcoord":        {5, "group coordinator"},

	"internal/broker": {6, "partitions hosted here"},

	"internal/server/api": {7, "one file per API key"},
	"internal/console":    {7, "HTTP: health, metrics"},
	"internal/cli":        {7, "client subcommands"},

	"internal/server": {8, "listeners and connections"},

	"internal/node": {9, "builds everything from a configuration"},

	"cmd/kbroker": {10, "flags, signals, exit code"},
}

type goPackage struct {
	ImportPath string
	Imports    []string
}

func listPackages(t *testing.T) []goPackage {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports", "./...")
	cmd.Dir = "../.."
	out, err := cmd.Output()
	require.NoError(t, err)
	var ps []goPackage
	for dec := json.NewDecoder(strings.NewReader(string(out))); dec.More(); {
		var p goPackage
		require.NoError(t, dec.Decode(&p))
		ps = append(ps, p)
	}
	require.NotEmpty(t, ps)
	return ps
}

func TestPackagesImportOnlyLowerFloors(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range listPackages(t) {
		name := strings.TrimPrefix(p.ImportPath, modulePath)
		seen[name] = true
		if strings.HasPrefix(name, "test/") || strings.HasPrefix(name, "internal/gen/") {
			continue
		}
		own, known := floors[name]
		if !known {
			t.Errorf("package %s has no floor: add it to the table with a reason", name)
			continue
		}
		for _, imp := range p.Imports {
			dep, ours := strings.CutPrefix(imp, modulePath)
			if !ours {
				continue
			}
			if strings.HasPrefix(dep, "test/") {
				t.Errorf("%s -> %s: nothing imports the tests", name, dep)
				continue
			}
			if d := floors[dep]; d.floor >= own.floor {
				t.Errorf("%s (floor %d, %s) -> %s (floor %d, %s): a package imports only lower floors",
					name, own.floor, own.why, dep, d.floor, d.why)
			}
		}
	}
	var missing []string
	for name := range floors {
		if !seen[name] {
			missing = append(missing, name)
		}
	}
	sort.Strings(missing)
	require.Empty(t, missing, "floors without a package: remove them from the table")
}

// Shipping code must not carry test machinery: it would end up in the binary and in its start-up time.
func TestBinaryCarriesNoTestCode(t *testing.T) {
	cmd := exec.Command("go", "list", "-deps", "./cmd/kbroker")
	cmd.Dir = "../.."
	out, err := cmd.Output()
	require.NoError(t, err)
	for _, dep := range strings.Fields(string(out)) {
		for _, banned := range []string{
			"testing", "github.com/stretchr/testify", "github.com/cockroachdb/datadriven", "github.com/twmb/franz-go/pkg/kfake",
			modulePath + "internal/coordrt/coordtest", modulePath + "internal/vfs/memfs", modulePath + "internal/vfs/faultfs", modulePath + "internal/memnet",
		} {
			require.False(t, dep == banned || strings.HasPrefix(dep, banned+"/"), "cmd/kbroker depends on %s", dep)
		}
	}
}
