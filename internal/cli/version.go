package cli

import (
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// Version says what this binary is.
type Version struct {
	Version string `json:"version"`
	Commit  string `json:"commit,omitempty"`
	Go      string `json:"go"`
	System  string `json:"system"`
}

// BuildVersion fills a Version from what the Go toolchain noted in the binary; version overrides the module's when it is
// not empty.
func BuildVersion(version string) Version {
	v := Version{Version: version, Go: runtime.Version(), System: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	if v.Version == "" {
		v.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			v.Commit = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			v.Commit += " (changed)"
		}
	}
	return v
}

func (o Options) versionCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "version", Short: "Print the version of this program", Args: args(0, 0, "no argument"),
		RunE: func(*cobra.Command, []string) error {
			if asJSON {
				return writeJSON(o.Out, o.Version)
			}
			commit := ""
			if o.Version.Commit != "" {
				commit = " commit " + o.Version.Commit
			}
			return say(o.Out, "kbroker %s%s (%s, %s)", o.Version.Version, commit, o.Version.Go, o.Version.System)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	return c
}
