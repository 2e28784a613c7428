package cmd

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

func newTraceCmd(a *app) *cobra.Command {
	t := &tracer{app: a}
	c := &cobra.Command{
		Use:   "trace KEY",
		Short: "Show all that happened to a job, on one time line",
		Long: `Show on one time line what every source knows of a job: its copies in the queues
and in captures, the ledger's history, verdicts, plans, approvals, runs, archives
and audit records. KEY is a job key, a message ID, or a unique beginning of one
that a queue or the store knows; the job need not be in any queue any more.

Each entry says by whose clock it is, because clocks disagree. A source that does
not answer is named, the others are shown, and the exit code is 3. With --ask the
provider is asked now; nothing is kept of its answer. Nothing is changed.`,
		Example: "  redrivectl trace 7e37a8fe\n  redrivectl trace 7e37a8fe --ask\n  redrivectl trace 7e37a8fe -o json",
		Args:    exactArgs("KEY"),
		RunE: func(c *cobra.Command, args []string) error {
			if t.text = args[0]; t.text == "" {
				return usagef("KEY is empty")
			}
			return t.run(c.Context())
		},
	}
	a.queueFlag(c, &t.queue, "look in this queue, its ledger and its provider alone")
	c.Flags().BoolVar(&t.ask, "ask", false, "ask the provider now")
	return exits(c, exitPartly, exitInterrupted)
}

// traceView is the trace shape of docs/json-output.md.
type traceView struct {
	Key        string       `json:"key"`
	JobKey     *string      `json:"job_key"`
	MessageIDs []string     `json:"message_ids"`
	CopyIDs    []string     `json:"copy_ids"`
	Asked      bool         `json:"provider_asked"`
	Entries    []traceEntry `json:"entries"`
	Sources    []sourceView `json:"sources"`
}

func (t *tracer) run(ctx context.Context) error {
	if err := t.gather(ctx); err != nil {
		return err
	}
	silent := 0
	for _, s := range t.sources {
		if s.silent() {
			silent++
			t.app.note("%s did not answer: %s", s.Source, or(s.Why))
		}
	}
	if err := t.app.print(t.view().result()); err != nil || silent == 0 {
		return err
	}
	return silently(exitPartly)
}

// gather asks every source. It fails when the text names several jobs, or when
// nothing knows it.
func (t *tracer) gather(ctx context.Context) error {
	if _, err := t.app.config(); err != nil {
		return err
	}
	if t.queue != "" {
		name, _, err := t.app.queueConfig(t.queue)
		if err != nil {
			return err
		}
		t.queue = name
	}
	if err := t.openStore(ctx); err != nil {
		return err
	}
	if t.looks == nil {
		for _, name := range t.queues() {
			t.looks = append(t.looks, t.lookAt(ctx, name))
		}
	}
	if err := t.resolve(ctx); err != nil {
		return err
	}
	t.copies()
	t.ledgers(ctx)
	t.records(ctx)
	t.providers(ctx)
	if err := ctx.Err(); err != nil {
		return err
	}
	t.entries = sortEntries(t.entries)
	if len(t.entries) == 0 {
		return fail(exitFailed, "redrivectl list QUEUE --jobs, or redrivectl audit find", "nothing knows %q: asked %s", t.text, t.askedOf())
	}
	return nil
}

// openStore reads the store if there is one. One that cannot be read is a source
// that does not answer.
func (t *tracer) openStore(ctx context.Context) error {
	st, err := t.app.storeToRead(ctx)
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case err != nil:
		t.source("store", func() error { return err })
	case st == nil:
		t.source("store", func() error { return errNone("there is none yet") })
	}
	t.st = st
	return nil
}

// askedOf names the sources with those that did not answer.
func (t *tracer) askedOf() string {
	var names []string
	for _, s := range t.sources {
		name := s.Source
		if s.silent() {
			name += " (did not answer: " + or(s.Why) + ")"
		}
		names = append(names, name)
	}
	return strings.Join(names, ", ")
}

// seenIn are the configured queues that an entry speaks of.
func (t *tracer) seenIn() []string {
	var names []string
	for _, name := range t.queues() {
		if slices.ContainsFunc(t.entries, func(e traceEntry) bool { return e.Queue != nil && *e.Queue == name }) {
			names = append(names, name)
		}
	}
	return names
}

func (t *tracer) view() traceView {
	v := traceView{
		Key: t.text, JobKey: text(t.key()), MessageIDs: []string{}, CopyIDs: []string{}, Asked: t.ask,
		Entries: t.entries, Sources: t.sources,
	}
	for _, e := range t.entries {
		v.MessageIDs = addOnce(v.MessageIDs, e.MessageID)
		v.CopyIDs = addOnce(v.CopyIDs, e.CopyID)
	}
	return v
}

func addOnce(all []string, s *string) []string {
	if s == nil || slices.Contains(all, *s) {
		return all
	}
	return append(all, *s)
}

func (v traceView) result() result {
	r := result{
		Object: v, Headers: []string{"at", "clock", "source", "who", "what", "job_key", "ledger_row", "message_id", "request_id"},
		WideHeaders: []string{"at", "source", "what"},
	}
	for _, e := range v.Entries {
		at := e.At.Format(time.RFC3339Nano)
		r.Elements = append(r.Elements, e)
		r.Rows = append(r.Rows, []string{at, e.Clock, e.Source, or(e.Who), e.What, or(e.JobKey), or(e.LedgerRow), or(e.MessageID), or(e.RequestID)})
		r.Wide = append(r.Wide, []string{e.At.Format("2006-01-02 15:04:05.000"), e.Source, e.sentence()})
	}
	return r
}

// sentence tells the entry with who did it.
func (e traceEntry) sentence() string {
	if e.Who == nil {
		return e.What
	}
	return *e.Who + ": " + e.What
}
