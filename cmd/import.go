package cmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"

	"github.com/redrivectl/redrivectl/audit"
	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/broker/dump"
	"github.com/redrivectl/redrivectl/internal/store"
	"github.com/redrivectl/redrivectl/internal/term"
	"github.com/redrivectl/redrivectl/redrive"
	"github.com/spf13/cobra"
)

type importOptions struct {
	app     *app
	file    string
	queue   string
	archive string
	job     string
	copyID  string
	reason  string
	dryRun  bool
}

func newImportCmd(a *app) *cobra.Command {
	o := &importOptions{app: a}
	c := &cobra.Command{
		Use:   "import [FILE]",
		Short: "Put exported or archived messages back into their queue",
		Long: `Put messages back into a dead-letter queue: those of an export, or with --archive
those that a run settled or discarded. They come back as they were, with bytes,
attributes and types, identity, times and the reason, as far as the broker can;
what it cannot keep is told. Nothing is sent: what comes back is quarantined, and
goes on only by a plan.

A message that is in the queue already is passed over, so an import that was
interrupted is completed by doing it again. Each message has an audit record
before and after it. An export that was cut or changed is refused before anything
is put back.`,
		Example: "  redrivectl import digests.jsonl --queue digests --dry-run\n  redrivectl import digests.jsonl --queue digests --yes -o json\n" +
			"  redrivectl import --archive 81c2 --job 7e37a8fe-1 --reason \"discarded by mistake\"",
		Args: o.args,
		RunE: func(c *cobra.Command, args []string) error {
			o.file = optional(args)
			if err := o.validate(); err != nil {
				return err
			}
			return o.run(c.Context())
		},
	}
	f := c.Flags()
	a.queueFlag(c, &o.queue, "queue whose dead-letter queue takes them (default with FILE the one that was exported, if the config has it; with --archive the run's own)")
	f.StringVar(&o.archive, "archive", "", "in place of FILE: what this run archived; a RUN or the beginning of one")
	f.StringVar(&o.job, "job", "", "with --archive: only this job, by job key or message ID, whole")
	f.StringVar(&o.copyID, "copy", "", "with --archive: only this copy, as store archives shows it")
	f.StringVar(&o.reason, "reason", "", "why, for the audit log")
	f.BoolVar(&o.dryRun, "dry-run", false, "say what would be put back, and change nothing")
	return exits(c, exitPartly, exitRefused, exitAudit, exitInterrupted)
}

func (o *importOptions) args(c *cobra.Command, args []string) error {
	if o.archive != "" {
		return exactArgs()(c, args)
	}
	return exactArgs("FILE")(c, args)
}

func (o *importOptions) validate() error {
	switch {
	case o.archive == "" && (o.job != "" || o.copyID != ""):
		return usagef("--job and --copy choose from an --archive; export chooses what a FILE holds")
	default:
		return nil
	}
}

// origin is where the copies come from.
type origin struct {
	name    string // for people
	queue   string // configured queue that takes them
	copies  redrive.Copies
	details map[string]string // for the records
	entity  string            // the dead-letter queue that they were in; empty: told by each
	notes   []string          // what is to be known of it
}

func (o *importOptions) run(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err // before the log is asked, which would not take it
	}
	st, err := o.app.store(ctx)
	if err != nil {
		return err
	}
	from, err := o.origin(ctx, st)
	if err != nil {
		return err
	}
	if err := o.app.withinRegion(ctx, st, from.queue); err != nil {
		return err
	}
	q, err := o.app.queue(ctx, from.queue)
	if err != nil {
		return err
	}
	im, err := o.importer(ctx, q, st, from)
	if err != nil {
		return err
	}
	if from.entity != "" && from.entity != im.Entity {
		from.notes = append(from.notes, fmt.Sprintf("the messages were in %s; in %s they cannot keep their identity", from.entity, im.Entity))
	}
	for _, note := range from.notes {
		o.app.note("%s", note)
	}
	if o.dryRun || !o.app.yes {
		more, err := o.survey(ctx, im, from)
		if err != nil || !more {
			return err
		}
	}
	done, err := im.Import(ctx, from.copies)
	return o.report(from, done, err)
}

// survey says what would be done and asks. It is false where that is all.
func (o *importOptions) survey(ctx context.Context, im *redrive.Importer, from origin) (bool, error) {
	would, err := im.Survey(ctx, from.copies)
	if err != nil {
		return false, err
	}
	if o.dryRun || would.Imported == 0 {
		return false, o.report(from, would, nil)
	}
	return true, o.app.confirm(fmt.Sprintf("Put %d messages of %s into dead-letter queue %s (%d more are there)?",
		would.Imported, from.name, im.Entity, would.AlreadyThere))
}

func (o *importOptions) importer(ctx context.Context, q *queue, st *store.Store, from origin) (*redrive.Importer, error) {
	who, customer, err := o.app.signs(st)
	if err != nil {
		return nil, err
	}
	d, err := q.describe(ctx)
	if err != nil {
		return nil, err
	}
	tell := stepper(o.app.progress(), "importing to "+q.name)
	return &redrive.Importer{
		Broker: q.broker, Log: st, Decode: q.decode, Customer: customer, Who: who, Now: o.app.now,
		Queue: q.name, Entity: d.Queue, Reason: o.reason, Details: from.details, Orphans: o.app.printOrphans,
		Records: func(ctx context.Context, each func(audit.Record) error) error {
			query := audit.Query{Queue: q.name, Action: redrive.ActionImport, OldestFirst: true}
			return st.FindAudit(ctx, query, func(e audit.Entry) error { return each(e.Record) })
		},
		Progress: func(done redrive.Imported) { tell(int64(done.Read-done.Remaining), int64(done.Read)) },
	}, nil
}

func (o *importOptions) origin(ctx context.Context, st *store.Store) (origin, error) {
	if o.archive != "" {
		return o.fromArchive(ctx, st)
	}
	return o.fromFile()
}

// fromFile reads the export once, so that one that was cut changes nothing.
func (o *importOptions) fromFile() (origin, error) {
	info, err := os.Stat(o.file)
	if err != nil {
		return origin{}, fmt.Errorf("open export: %w", err)
	}
	if !info.Mode().IsRegular() {
		return origin{}, usagef("import reads its FILE several times, and %s is no plain file", o.file)
	}
	t, err := readExport(o.file, func(broker.Message) error { return nil })
	if err != nil {
		return origin{}, err
	}
	queue, err := o.takes(t.Queue)
	if err != nil {
		return origin{}, err
	}
	from := origin{
		name: o.file, queue: queue, entity: t.Queue, details: map[string]string{"export_sha256": t.SHA256},
		copies: func(ctx context.Context, each func(broker.Message) error) error {
			again, err := readExport(o.file, func(m broker.Message) error {
				return errors.Join(ctx.Err(), each(m))
			})
			if err == nil && again != t {
				err = fmt.Errorf("%s changed while it was imported", o.file)
			}
			return err
		},
	}
	if !t.Complete {
		from.notes = append(from.notes, "the export is not of the whole queue: "+t.Why)
	}
	return from, nil
}

// takes is the queue that takes an export: the one that is named, else the only one
// in the config whose dead-letter queue was exported.
func (o *importOptions) takes(exported string) (string, error) {
	if o.queue != "" {
		return o.queue, nil
	}
	cfg, err := o.app.config()
	if err != nil {
		return "", err
	}
	var from []string
	for name, q := range cfg.Queues {
		if q.DeadLetter == exported {
			from = append(from, name)
		}
	}
	if len(from) != 1 {
		return "", usagef("--queue is required: the export is of %s, which is the dead-letter queue of %d configured queues", exported, len(from))
	}
	return from[0], nil
}

func readExport(path string, each func(broker.Message) error) (dump.Trailer, error) {
	f, err := os.Open(path)
	if err != nil {
		return dump.Trailer{}, fmt.Errorf("open export: %w", err)
	}
	defer f.Close() //nolint:errcheck // Nothing was written.
	t, err := dump.ReadExport(f, each)
	if errors.Is(err, dump.ErrCut) || errors.Is(err, dump.ErrDamaged) {
		return t, fail(exitFailed, "export it again; redrivectl list "+path+" shows what can be read of it", "%s: %w; nothing was put back", path, err)
	}
	return t, err
}

func (o *importOptions) fromArchive(ctx context.Context, st *store.Store) (origin, error) {
	r, err := st.LoadRun(ctx, o.archive)
	if err != nil {
		return origin{}, notFound("run", o.archive, err)
	}
	query := store.ArchiveQuery{Run: r.ID, Copy: o.copyID, Job: o.job}
	from := origin{
		name: "the archive of run " + short(string(r.ID)), queue: cmp.Or(o.queue, r.Queue), details: map[string]string{"archive_run": string(r.ID)},
		copies: func(ctx context.Context, each func(broker.Message) error) error {
			return st.EachArchived(ctx, query, func(a redrive.Archived) error { return each(a.Job.Message) })
		},
	}
	n, err := st.CountArchived(ctx, query)
	switch {
	case err != nil:
	case n == 0:
		err = fail(exitRefused, "redrivectl store archives --run "+string(r.ID), "run %s archived no such copy", r.ID)
	case r.Lives:
		err = fail(exitRefused, "redrivectl runs show "+string(r.ID), "run %s of %s is under way", r.ID, r.Holder)
	case !r.State.Ended():
		from.notes = append(from.notes, fmt.Sprintf("run %s has not ended: resuming it may take off again what is put back now", r.ID))
	}
	return from, err
}

// importView is the import shape of docs/json-output.md.
type importView struct {
	Queue        string          `json:"queue"`
	From         string          `json:"from"`
	DryRun       bool            `json:"dry_run"`
	Read         int             `json:"read"`
	Imported     int             `json:"imported"`
	AlreadyThere int             `json:"already_there"`
	Refused      int             `json:"refused"`
	Unknown      int             `json:"unknown"`
	Remaining    int             `json:"remaining"`
	NotKept      map[string]int  `json:"not_kept"`
	Problems     []importProblem `json:"problems"`
}

type importProblem struct {
	CopyID    string `json:"copy_id"`
	MessageID string `json:"message_id"`
	Result    string `json:"result"`
	Why       string `json:"why"`
}

// report prints what was done, also where the import ended early.
func (o *importOptions) report(from origin, done redrive.Imported, err error) error {
	if err != nil && done.Imported+done.Refused+done.Unknown == 0 {
		return err
	}
	v := importView{
		Queue: from.queue, From: from.name, DryRun: o.dryRun, Read: done.Read, Imported: done.Imported, AlreadyThere: done.AlreadyThere,
		Refused: done.Refused, Unknown: done.Unknown, Remaining: done.Remaining, NotKept: done.NotKept, Problems: []importProblem{},
	}
	for _, p := range done.Problems {
		v.Problems = append(v.Problems, importProblem{p.Copy.String(), p.MessageID, p.Outcome.String(), term.Mask(fmt.Sprint(p.Why))})
	}
	if perr := o.app.print(v.result()); perr != nil {
		return errors.Join(err, perr)
	}
	if err != nil {
		return withHint(err, "the same import again: what is there already is passed over")
	}
	if v.Refused+v.Unknown > 0 {
		return silently(exitPartly)
	}
	return nil
}

func (v importView) result() result {
	verb := "imported"
	if v.DryRun {
		verb = "to import"
	}
	r := result{Object: v, Headers: []string{"what", "value"}, Rows: [][]string{
		{"queue", v.Queue},
		{"from", v.From},
		{"read", strconv.Itoa(v.Read)},
		{verb, strconv.Itoa(v.Imported)},
		{"already there", strconv.Itoa(v.AlreadyThere)},
		{"refused", strconv.Itoa(v.Refused)},
		{"unknown", strconv.Itoa(v.Unknown)},
		{"remaining", strconv.Itoa(v.Remaining)},
	}}
	for _, field := range slices.Sorted(maps.Keys(v.NotKept)) {
		r.Rows = append(r.Rows, []string{"not kept: " + field, strconv.Itoa(v.NotKept[field])})
	}
	for _, p := range v.Problems {
		r.Elements = append(r.Elements, p)
		r.Rows = append(r.Rows, []string{p.Result + ": " + p.CopyID, p.Why})
	}
	switch {
	case v.DryRun:
		r.After = []string{"", "dry run: nothing was changed"}
	case v.Imported > 0:
		r.After = []string{"", "they are quarantined again: redrivectl list " + v.Queue}
	}
	return r
}
