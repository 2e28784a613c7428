package cmd

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/redrivectl/redrivectl/internal/config"
	"github.com/redrivectl/redrivectl/internal/job"
	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// newGenCmd writes the generated parts of the repository. It is hidden: only
// the Makefile and a test use it.
func newGenCmd() *cobra.Command {
	return exits(&cobra.Command{
		Use: "gen DIR", Short: "Write command and manual pages, completions and JSON Schemas", Hidden: true, Args: exactArgs("DIR"),
		Example: "  redrivectl gen .",
		RunE: func(c *cobra.Command, args []string) error {
			files, err := generated(c.Root())
			if err != nil {
				return err
			}
			for name, data := range files {
				path := filepath.Join(args[0], name)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // Files of the repository, for all to read.
					return fmt.Errorf("make folder: %w", err)
				}
				if err := os.WriteFile(path, data, 0o644); err != nil { //nolint:gosec // The same.
					return fmt.Errorf("write %s: %w", name, err)
				}
			}
			return nil
		},
	})
}

// generated renders every generated file of the repository, by path.
func generated(root *cobra.Command) (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, s := range shells {
		var b bytes.Buffer
		if err := s.write(root, &b); err != nil {
			return nil, fmt.Errorf("completion for %s: %w", s.name, err)
		}
		files["completions/"+s.file] = b.Bytes()
	}
	schema, err := config.Schema()
	if err != nil {
		return nil, err
	}
	files["docs/config.schema.json"] = append(bytes.TrimSpace(schema), '\n')
	if files["docs/envelope.schema.json"], err = job.EnvelopeSchema(); err != nil {
		return nil, err
	}
	if err := commandPages(root, files); err != nil {
		return nil, err
	}
	return files, manPages(root, files)
}

// codeLine is a line of the exit codes in a command's help.
var codeLine = regexp.MustCompile(`(?m)^  (\d)`)

// codeBlock makes the exit codes a block of code, which keeps their lines apart.
func codeBlock(page []byte) []byte {
	page = bytes.Replace(page, []byte("\nExit codes:\n"), []byte("\nExit codes:\n\n"), 1)
	return codeLine.ReplaceAll(page, []byte("    $1"))
}

// commandPages adds one Markdown page for each visible command.
func commandPages(c *cobra.Command, files map[string][]byte) error {
	if c.Hidden {
		return nil
	}
	c.DisableAutoGenTag = true
	c.SetHelpCommand(&cobra.Command{Hidden: true, Use: "no-help"}) // GenMarkdown would add "help" as a command
	var b bytes.Buffer
	if err := doc.GenMarkdown(c, &b); err != nil {
		return fmt.Errorf("page of %s: %w", c.CommandPath(), err)
	}
	files["docs/commands/"+strings.ReplaceAll(c.CommandPath(), " ", "_")+".md"] = codeBlock(b.Bytes())
	for _, sub := range c.Commands() {
		if err := commandPages(sub, files); err != nil {
			return err
		}
	}
	return nil
}
