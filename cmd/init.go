package cmd

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/redrivectl/redrivectl/internal/config"
	"github.com/spf13/cobra"
)

type initOptions struct {
	app    *app
	broker string
	file   string
	print  bool
	schema bool
}

func newInitCmd(a *app) *cobra.Command {
	o := &initOptions{app: a}
	c := &cobra.Command{
		Use: "init", Short: "Write a commented config",
		Long: `Write a config in which every key stands with its default and its meaning. An
existing file is never overwritten.`,
		Example: "  redrivectl init\n  redrivectl init --file config/redrivectl.yaml\n  redrivectl init --print\n  redrivectl init --schema > redrivectl.schema.json",
		Args:    exactArgs(),
		RunE: func(*cobra.Command, []string) error {
			if o.print && o.schema {
				return usagef("give --print or --schema, not both")
			}
			if o.print || o.schema {
				if err := a.asIs("what is printed"); err != nil {
					return err
				}
			}
			return o.run()
		},
	}
	f := c.Flags()
	f.StringVar(&o.broker, "broker", string(config.Local), "the broker to write it for: local or sqs")
	f.StringVar(&o.file, "file", config.FileName, "where to write it")
	f.BoolVar(&o.print, "print", false, "print it instead")
	f.BoolVar(&o.schema, "schema", false, "print the JSON Schema of the config, for editors")
	must(c.RegisterFlagCompletionFunc("broker", cobra.FixedCompletions([]string{string(config.Local), string(config.SQS)}, cobra.ShellCompDirectiveNoFileComp)))
	return exits(c, exitRefused)
}

func (o *initOptions) run() error {
	if o.schema {
		b, err := config.Schema()
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(o.app.stdout, strings.TrimSpace(string(b)))
		return err
	}
	content, err := config.InitText(config.Broker(o.broker))
	if err != nil {
		return usagef("--broker %s: %w", o.broker, err)
	}
	if o.print {
		_, err := fmt.Fprint(o.app.stdout, content)
		return err
	}
	if err := writeNew(o.file, content, 0o644); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return fail(exitRefused, "redrivectl init --print, or another --file", "%s exists; it was not changed", o.file)
		}
		return fmt.Errorf("write config: %w", err)
	}
	return o.app.print(result{
		Object:  map[string]any{"file": o.file},
		Headers: []string{"what", "value"}, Rows: [][]string{{"wrote", o.file}},
		After: []string{"", "next: redrivectl status"},
	})
}

// writeNew writes a file that must not exist.
func writeNew(path, content string, mode fs.FileMode) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = f.WriteString(content)
	return errors.Join(err, f.Close())
}
