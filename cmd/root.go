package cmd

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const rootLong = `redrivectl is the operator's command for dead-letter queues.

It says what is quarantined and why, finds out which of those jobs have already
had their effect, and puts the rest back to work in approved, bounded,
rate-limited batches, with one audit record per action.

A recovery is usually: list, reconcile --apply, plan create, approve, run.`

func newRootCmd(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:           "redrivectl",
		Short:         "List, reconcile and redrive dead-letter queues, sending nothing twice",
		Long:          rootLong,
		Example:       "  redrivectl demo\n  redrivectl list digests\n  redrivectl list dump.json --jobs -o json",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          rootArgs,
		RunE:          func(c *cobra.Command, args []string) error { return helpTopic(c, args).Help() },
		PersistentPreRunE: func(c *cobra.Command, _ []string) error {
			if err := a.validateGlobal(); err != nil {
				return err
			}
			return noEmptyFlags(c)
		},
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	c.SetIn(a.stdin)
	c.SetOut(a.helpOut())
	c.SetErr(a.stderr)
	c.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		a.output = formTyped(a.args)
		return fail(exitUsage, c.CommandPath()+" --help", "%w", err)
	})
	c.SetHelpCommand(&cobra.Command{Hidden: true, Use: "no-help"})
	f := c.PersistentFlags()
	f.StringVar(&a.configPath, "config", "", "config file (default $REDRIVECTL_CONFIG, ./redrivectl.yaml, then the user's config folder)")
	f.StringVar(&a.storePath, "store", "", "operator's store, a SQLite file (default from the config, else the user's state folder)")
	f.StringVarP((*string)(&a.output), "output", "o", outputTable, "output form: "+strings.Join(outputForms, ", "))
	f.BoolVar(&a.noColor, "no-color", false, "never colour the output")
	f.BoolVar(&a.yes, "yes", false, "answer yes where the command would ask")
	must(c.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(outputForms, cobra.ShellCompDirectiveNoFileComp)))
	addGroup(c, "See what is there:", newListCmd(a), newShowCmd(a), newTraceCmd(a), newStatusCmd(a), newTriageCmd(a), newExportCmd(a))
	addGroup(c, "Review by hand:", newHoldCmd(a), newReleaseCmd(a))
	addGroup(c, "Recover:", newReconcileCmd(a), newPlanCmd(a), newApprovalsCmd(a), newApproveCmd(a), newRejectCmd(a),
		newRevokeCmd(a), newRunCmd(a), newPauseCmd(a), newResumeCmd(a), newAbortCmd(a), newRollbackCmd(a), newRunsCmd(a), newImportCmd(a))
	addGroup(c, "Account for it:", newAuditCmd(a), newEvidenceCmd(a), newPolicyCmd(a), newLedgerCmd(a), newDoctorCmd(a), newStoreCmd(a), newMetricsCmd(a))
	addGroup(c, "Start:", newDemoCmd(a), newInitCmd(a), newCompletionCmd(a), newVersionCmd(a))
	c.SetHelpCommandGroupID("Start:") // else the help has a heading with nothing under it
	c.AddCommand(newGenCmd())
	return exits(c)
}

// formTyped is the output form that a command line asks for, found without reading
// its other flags: the error about one of them is told in that form.
func formTyped(args []string) outputForm {
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.ParseErrorsAllowlist.UnknownFlags = true
	form := f.StringP("output", "o", outputTable, "")
	_ = f.Parse(args) // what is wrong with the line is being told
	return outputForm(*form)
}

// noEmptyFlags refuses a flag that was given without a value, as a script does whose
// variable is not set: a filter that is taken for none would select everything. A
// reason may be empty where it may be left out.
func noEmptyFlags(c *cobra.Command) error {
	var err error
	c.Flags().Visit(func(f *pflag.Flag) {
		values := []string{f.Value.String()}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			values = list.GetSlice()
		}
		if f.Name != "reason" && (len(values) == 0 || slices.Contains(values, "")) {
			err = usagef("--%s is empty: give it a value, or leave it out", f.Name)
		}
	})
	return err
}

// addGroup adds commands under one heading of the root's help.
func addGroup(root *cobra.Command, title string, cs ...*cobra.Command) {
	root.AddGroup(&cobra.Group{ID: title, Title: title})
	for _, c := range cs {
		c.GroupID = title
		root.AddCommand(c)
	}
}

// group makes a command that only holds others: it prints its help, and refuses
// an unknown subcommand, which cobra by itself would accept.
func group(use, short string, subs ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{
		Use: use, Short: short, Args: groupArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(subs...)
	return exits(c)
}

// rootArgs takes "help" and the words of a command; all else is unknown.
func rootArgs(c *cobra.Command, args []string) error {
	if len(args) > 0 && args[0] == "help" && helpTopic(c, args) != nil {
		return nil
	}
	return groupArgs(c, args)
}

// helpTopic is the command that "help WORDS..." asks about, or nil.
func helpTopic(root *cobra.Command, args []string) *cobra.Command {
	if len(args) == 0 {
		return root
	}
	c, rest, err := root.Find(args[1:])
	if err != nil || len(rest) > 0 {
		return nil
	}
	c.InitDefaultHelpFlag()
	return c
}

func groupArgs(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return fail(exitUsage, c.CommandPath()+" --help", "unknown command %q for %q", args[0], c.CommandPath())
}

// exactArgs demands one argument for each name.
func exactArgs(names ...string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) == len(names) {
			return nil
		}
		return argError(c, args, names...)
	}
}

// optional is the argument of atMostOne; empty: it was left out.
func optional(args []string) string { return strings.Join(args, "") }

func argError(c *cobra.Command, args []string, names ...string) error {
	want := "no arguments"
	if len(names) > 0 {
		want = strings.Join(names, " ")
	}
	return fail(exitUsage, c.CommandPath()+" --help", "%s takes %s, and got %d", c.CommandPath(), want, len(args))
}

// validateGlobal checks the flags that every command has.
func (a *app) validateGlobal() error {
	if !slices.Contains(outputForms, string(a.output)) {
		bad := a.output
		a.output = outputTable
		return usagef("unknown output form %q: use one of %s", string(bad), strings.Join(outputForms, ", "))
	}
	return nil
}

// must panics on an error that only a mistake in this program can cause.
func must(err error) {
	if err != nil {
		panic(fmt.Sprintf("redrivectl is built wrongly: %v", err))
	}
}

// atMostOne lets an argument be left out.
func atMostOne(name string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) <= 1 {
			return nil
		}
		return argError(c, args, "["+name+"]")
	}
}
