package cmd

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/redrivectl/redrivectl/internal/config"
	"github.com/spf13/cobra"
)

const demoLong = `Make a small world in a folder and play a whole recovery in it.

The world is a queue, a ledger, a policy, a config, and a mail provider on
loopback. Workers, which are processes of their own, send weekly digests and
shipment updates while the provider misbehaves, goes down, and some of them are
killed, until --jobs of them are quarantined. Then the commands that a person
would type are printed and run, one after the other, by a requester and an
approver. At the end the provider's own log and the queues are counted: how
often an effect happened twice, and what was lost.

The folder stays, with its config. Change into it and try every command by hand;
"redrivectl demo provider --dir DIR" starts its provider again. With --outage it
ends when the jobs are quarantined, and the recovery is yours.

It fails unless nothing was sent twice, nothing is lost, every job is accounted
for and the audit log verifies. With --scenario a canary goes first, and its gate
or the circuit breaker stops or holds the run: see "redrivectl run". Of the
recovery's commands, only reconcile may end with exit code 3: then it is run again
when the provider's delay has passed.`

type demoOptions struct {
	app  *app
	dir  string
	jobs int
	seed uint64

	outage   bool
	scenario string
}

// demoStory is another way to recover than the whole one.
type demoStory struct {
	name string
	tell string // in the flag's help
	play func(*demoWorld, context.Context) error
	code int // how the demo ends where all went as it should
}

// demoStories are what --scenario takes.
func demoStories() []demoStory {
	return []demoStory{
		{"failing-canary", "a canary comes back, and the gate stops the run (exit code 6)", (*demoWorld).failingCanary, exitGate},
		{"inconclusive", "nothing is known of a canary, and a person promotes the run at a second terminal", (*demoWorld).inconclusiveCanary, exitDone},
		{"breaker", "a canary passes, the rest comes back, and the circuit breaker stops the run (exit code 6)", (*demoWorld).trippedBreaker, exitGate},
	}
}

func demoStoryNames() []string {
	var names []string
	for _, s := range demoStories() {
		names = append(names, s.name)
	}
	return names
}

// story is what happens once the jobs are quarantined.
func (o *demoOptions) story() demoStory {
	for _, s := range demoStories() {
		if s.name == o.scenario {
			return s
		}
	}
	if o.outage {
		return demoStory{play: (*demoWorld).leave}
	}
	return demoStory{play: (*demoWorld).recover}
}

func newDemoCmd(a *app) *cobra.Command {
	o := &demoOptions{app: a}
	c := &cobra.Command{
		Use: "demo", Short: "Play a whole recovery, step by step, and leave it to explore", Long: demoLong,
		Example: "  redrivectl demo\n  redrivectl demo --dir /tmp/world --jobs 1000 --seed 7\n  redrivectl demo --dir /tmp/world --outage\n  redrivectl demo --scenario failing-canary\n  redrivectl demo -o json",
		Args:    groupArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := o.validate(); err != nil {
				return err
			}
			return o.run(c.Context())
		},
	}
	f := c.Flags()
	f.StringVar(&o.dir, "dir", "", "folder to make the world in, new or empty (default a new one among the temporary files)")
	f.IntVar(&o.jobs, "jobs", 240, "how many jobs end up quarantined")
	f.Uint64Var(&o.seed, "seed", 1, "decides which job suffers what")
	f.BoolVar(&o.outage, "outage", false, "make the failures alone, and recover from nothing")
	told := "play this instead of the whole recovery"
	for _, s := range demoStories() {
		told += fmt.Sprintf("; %s: %s", s.name, s.tell)
	}
	f.StringVar(&o.scenario, "scenario", "", told)
	must(c.RegisterFlagCompletionFunc("scenario", completeFrom(demoStoryNames)))
	c.AddCommand(newDemoProviderCmd(a), newDemoWorkerCmd(a))
	return exits(c, exitRefused, exitGate, exitInterrupted)
}

func (o *demoOptions) validate() error {
	if o.app.configPath != "" || o.app.storePath != "" {
		return usagef("the demo makes a config and a store of its own: leave --config and --store out")
	}
	if o.scenario != "" && (o.outage || !slices.Contains(demoStoryNames(), o.scenario)) {
		return usagef("--scenario %s: use one of %s, without --outage", o.scenario, strings.Join(demoStoryNames(), ", "))
	}
	if least := len(demoScenarios()); o.jobs < least {
		return usagef("--jobs %d: at least %d are needed for every kind of failure to happen", o.jobs, least)
	}
	if o.scenario != "" && o.jobs < demoScenarioJobs {
		return usagef("--jobs %d: at least %d are needed for a canary, and for something behind it", o.jobs, demoScenarioJobs)
	}
	return nil
}

func (o *demoOptions) run(ctx context.Context) error {
	dir, err := o.folder()
	if err != nil {
		return err
	}
	w, err := newDemoWorld(ctx, o, dir)
	if err != nil {
		return err
	}
	w.say("The world is in %s (seed %d). It stays there.", dir, o.seed)
	story := o.story()
	sum, err := w.play(ctx, func(ctx context.Context) error { return story.play(w, ctx) })
	if ctx.Err() != nil {
		return fail(exitInterrupted, "redrivectl demo provider --dir "+shellQuote(dir), "interrupted; the world in %s stays as it is", dir)
	}
	if err != nil {
		return withHint(err, "look at "+filepath.Join(dir, demoProcessLog))
	}
	if err := o.app.print(sum.result()); err != nil {
		return err
	}
	w.farewell(o.outage)
	if err := sum.verdict(); err != nil || story.code == exitDone {
		return err
	}
	return silently(story.code) // the story has told why
}

// folder is the world's new home. A folder that holds anything is refused:
// the world in it may be somebody's evidence.
func (o *demoOptions) folder() (string, error) {
	if o.dir == "" {
		dir, err := os.MkdirTemp("", "redrivectl-demo-")
		if err != nil {
			return "", fmt.Errorf("make a folder for the demo: %w", err)
		}
		return dir, nil
	}
	dir, err := filepath.Abs(o.dir)
	if err != nil {
		return "", fmt.Errorf("find %s: %w", o.dir, err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("make the demo's folder: %w", err)
	}
	found, err := os.ReadDir(dir)
	if err != nil {
		return "", fmt.Errorf("look into the demo's folder: %w", err)
	}
	if len(found) > 0 {
		return "", fail(exitRefused, "name a new folder, or leave --dir out", "the folder %s is not empty", dir)
	}
	return dir, nil
}

// play makes the failures, does then what recovers from them, and proves what came
// of it.
func (w *demoWorld) play(ctx context.Context, then func(context.Context) error) (demoSummary, error) {
	if err := w.outage(ctx); err != nil {
		return demoSummary{}, fmt.Errorf("make the outage: %w", err)
	}
	e, err := w.evidence(ctx)
	if err != nil {
		return demoSummary{}, err
	}
	if n := len(e.before); n != w.planned {
		return demoSummary{}, fmt.Errorf("%d jobs are quarantined where %d should be", n, w.planned)
	}
	if err := then(ctx); err != nil {
		return demoSummary{}, fmt.Errorf("recover: %w", err)
	}
	if err := w.complete(ctx, &e); err != nil {
		return demoSummary{}, err
	}
	return w.summary(ctx, e)
}

// leave shows what is quarantined, and leaves it there.
func (w *demoWorld) leave(ctx context.Context) error {
	w.chapter("What is quarantined, and why?")
	return w.typed(ctx, demoRequester, []string{"list", demoQueue})
}

// narration is where the demo tells what it does: with -o json and the like
// standard output is the summary's alone.
func (a *app) narration() io.Writer {
	if a.output == outputTable {
		return a.stdout
	}
	return a.stderr
}

func (w *demoWorld) say(format string, args ...any) {
	fmt.Fprintf(w.out, format+"\n", args...) //nolint:errcheck // A narration that nobody reads ends nothing.
}

func (w *demoWorld) chapter(title string) { w.say("\n== %s\n", title) }

func (w *demoWorld) farewell(outage bool) {
	next := "redrivectl audit list"
	if outage {
		next = "redrivectl reconcile digests --apply"
	}
	w.say("\nTry it by hand:\n\n  cd %s\n  redrivectl demo provider &\n  redrivectl demo worker &\n  export REDRIVECTL_ACTOR=%s\n  redrivectl list digests --jobs\n  %s",
		shellQuote(w.dir), demoRequester, next)
}

// demoConfig is the config of the world in dir.
func (a *app) demoConfig(dir string) (*config.Config, config.Queue, error) {
	a.configPath = filepath.Join(dir, config.FileName)
	cfg, err := a.config()
	if err != nil {
		return nil, config.Queue{}, withHint(err, "redrivectl demo --dir "+shellQuote(dir))
	}
	q, ok := cfg.Queues[demoQueue]
	if !ok || len(q.Sources) != 1 || q.Ledger == "" || cfg.Providers[q.Provider].BaseURL == "" {
		return nil, q, fail(exitFailed, "redrivectl demo", "%s is not the config of a demo: it has no queue %q with one source, ledger and provider", cfg.File, demoQueue)
	}
	return cfg, q, nil
}

func count(n int) string { return strconv.Itoa(n) }
