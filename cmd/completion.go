package cmd

import (
	"io"

	"github.com/spf13/cobra"
)

// shells maps each shell to its completion script's file in completions/.
var shells = []struct {
	name, file string
	write      func(root *cobra.Command, w io.Writer) error
}{
	{"bash", "redrivectl.bash", func(c *cobra.Command, w io.Writer) error { return c.GenBashCompletionV2(w, true) }},
	{"zsh", "redrivectl.zsh", func(c *cobra.Command, w io.Writer) error { return c.GenZshCompletion(w) }},
	{"fish", "redrivectl.fish", func(c *cobra.Command, w io.Writer) error { return c.GenFishCompletion(w, true) }},
	{"powershell", "redrivectl.ps1", func(c *cobra.Command, w io.Writer) error { return c.GenPowerShellCompletionWithDesc(w) }},
}

func newCompletionCmd(a *app) *cobra.Command {
	var subs []*cobra.Command
	for _, s := range shells {
		subs = append(subs, exits(&cobra.Command{
			Use: s.name, Short: "Print the completion script for " + s.name, Args: exactArgs(),
			Example: "  redrivectl completion " + s.name,
			RunE: func(c *cobra.Command, _ []string) error {
				if err := a.asIs("a completion script"); err != nil {
					return err
				}
				return s.write(c.Root(), a.stdout)
			},
		}))
	}
	return group("completion", "Print a completion script for your shell", subs...)
}
