package cmd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/redrivectl/redrivectl/cmd/quiet"
	"github.com/redrivectl/redrivectl/internal/term"
	"github.com/redrivectl/redrivectl/internal/tui"
	"github.com/spf13/cobra"
)

func init() { quiet.Over() } //nolint:gochecknoinits // What asks the terminal, in its own initialisation, is linked in by the screen.

const triageLong = `Open the interactive screen: queues, their failure classes, the jobs of a class,
and all that is known of one job. It does what the commands do, by the same
functions and with the same records, and nothing that they cannot do.

It looks at a queue when you open it, and says when it looked last. Where a look
leaves every message as it was, it looks again every --every; where a look counts
as a receive (SQS), only by the key r, unless --every-counted is given.

"?" shows the keys of each pane. Off a terminal there is no screen: use list, show,
plan, approve and run.`

type triageOptions struct {
	app     *app
	queue   string
	every   time.Duration
	counted time.Duration
}

func newTriageCmd(a *app) *cobra.Command {
	o := &triageOptions{app: a, every: 30 * time.Second}
	c := &cobra.Command{
		Use: "triage [QUEUE]", Short: "Open the interactive screen", Long: triageLong,
		Example: "  redrivectl triage\n  redrivectl triage digests\n  redrivectl triage shipments --every-counted 10m",
		Args:    atMostOne("QUEUE"), ValidArgsFunction: a.completeQueues,
		RunE: func(c *cobra.Command, args []string) error {
			o.queue = optional(args)
			if err := o.validate(); err != nil {
				return err
			}
			return o.run(c.Context())
		},
	}
	f := c.Flags()
	f.Var(lengthFlag{to: &o.every, zero: true}, "every", "how long after a look the next one follows, where a look leaves no trace (0s: by key alone)")
	f.Var(lengthFlag{to: &o.counted, zero: true}, "every-counted", "the same where a look counts as a receive; at least 1m (default by key alone)")
	return exits(c, exitPartly, exitRefused, exitAudit, exitGate, exitInterrupted)
}

// validate refuses what no screen can be shown on, with the command to use in its
// place.
func (o *triageOptions) validate() error {
	if err := o.app.asIs("the screen"); err != nil {
		return err
	}
	if o.counted > 0 && o.counted < time.Minute {
		return usagef("--every-counted %s: each look takes a receive from every message; at least 1m", o.counted)
	}
	in, isFile := o.app.stdin.(*os.File)
	if !isFile || !term.Detect(in, o.app.lookupEnv, true).IsTTY || !o.app.terminal().IsTTY {
		return fail(exitUsage, o.instead(), "triage needs a terminal for its screen, and standard input or output is none")
	}
	if o.app.getenv("TERM") == "dumb" {
		return fail(exitUsage, o.instead(), "triage needs a terminal that can move its cursor, and TERM is dumb")
	}
	return nil
}

func (o *triageOptions) instead() string {
	if o.queue == "" {
		return "redrivectl status"
	}
	return "redrivectl list " + o.queue
}

func (o *triageOptions) run(ctx context.Context) error {
	d, err := newTriageDesk(o.app, o.queue)
	if err != nil {
		return err
	}
	t := o.app.terminal()
	err = tui.Show(ctx, d, tui.Options{
		Queue: o.queue, Color: t.Color, Every: o.every, EveryCounted: o.counted, Now: o.app.now,
		Input: o.app.stdin, Output: o.app.stdout,
	})
	var crash *tui.CrashError
	if errors.As(err, &crash) {
		_, _ = fmt.Fprintf(o.app.stderr, "%s\n", term.CleanLines(string(crash.Stack))) // nowhere is left to tell of a failure
		return fail(exitFailed, "report this with the lines above", "%w", err)
	}
	return d.end(err)
}
