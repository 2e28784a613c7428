package cmd

import (
	"runtime"
	"runtime/debug"

	"github.com/redrivectl/redrivectl/internal/crash"
	"github.com/spf13/cobra"
)

type versionView struct {
	Version     string   `json:"version"`
	Revision    string   `json:"revision"`
	Modified    bool     `json:"modified"`
	Go          string   `json:"go"`
	Platform    string   `json:"platform"`
	CrashPoints []string `json:"crash_points,omitempty"`
}

func newVersionCmd(a *app) *cobra.Command {
	return exits(&cobra.Command{
		Use: "version", Short: "Print the version", Args: exactArgs(),
		Example: "  redrivectl version\n  redrivectl version -o json",
		RunE: func(*cobra.Command, []string) error {
			v := buildVersion()
			rows := [][]string{
				{"version", v.Version}, {"revision", v.Revision}, {"go", v.Go}, {"platform", v.Platform},
			}
			for _, p := range v.CrashPoints {
				rows = append(rows, []string{"crash point", p})
			}
			return a.print(result{Object: v, Headers: []string{"what", "value"}, Rows: rows})
		},
	})
}

// buildVersion reads what the Go toolchain stamped into the binary.
func buildVersion() versionView {
	v := versionView{Version: "devel", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH, CrashPoints: crash.Names()}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	if info.Main.Version != "" && info.Main.Version != "(devel)" {
		v.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Revision = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
	return v
}
