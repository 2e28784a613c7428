package cmd

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/redrivectl/redrivectl/audit"
	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/broker/dump"
	"github.com/redrivectl/redrivectl/internal/crash"
	"github.com/redrivectl/redrivectl/internal/store"
	"github.com/redrivectl/redrivectl/internal/term"
	"github.com/redrivectl/redrivectl/reconcile"
	"github.com/redrivectl/redrivectl/redrive"
	"github.com/spf13/cobra"
)

type exportOptions struct {
	app    *app
	target string
	out    string
	class  []string
	jobs   []string
	limit  int
	reason string
}

func newExportCmd(a *app) *cobra.Command {
	o := &exportOptions{app: a}
	c := &cobra.Command{
		Use:   "export QUEUE",
		Short: "Write what is quarantined to a file, without loss",
		Long: `Write the messages of a dead-letter queue as JSON lines that lose nothing: bytes,
attributes and their types, identities, times, and what the broker noted. Every
message stays where it is. "redrivectl import" puts them back, and "redrivectl
list FILE" reads them.

An export holds payloads as they are, secrets included. So it is recorded in the
audit log before anything leaves the queue, it is not written to a terminal, and
a file that it makes is readable by its owner alone. The file appears whole or
not at all. The last line tells how many messages there are, whether that is all,
and their digest; where it is missing the export was cut.`,
		Example: "  redrivectl export digests --out digests.jsonl\n  redrivectl export digests --class malformed --reason \"ticket 4711\" > malformed.jsonl\n" +
			"  redrivectl export digests --job 7e37a8fe-1 --out job.jsonl",
		Args:              exactArgs("QUEUE"),
		ValidArgsFunction: a.completeQueues,
		RunE: func(c *cobra.Command, args []string) error {
			o.target = args[0]
			if err := o.validate(); err != nil {
				return err
			}
			return o.run(c.Context())
		},
	}
	f := c.Flags()
	f.StringVar(&o.out, "out", "", "file to make; it must not exist (default standard output)")
	f.StringSliceVar(&o.class, "class", nil, "only these failure classes")
	f.StringArrayVar(&o.jobs, "job", nil, "only this job, by job key or message ID, whole (repeatable)")
	f.IntVar(&o.limit, "limit", 0, "look at no more than this many messages (0: all)")
	f.StringVar(&o.reason, "reason", "", "why, for the audit log")
	must(c.RegisterFlagCompletionFunc("class", completeFrom(classNames)))
	return exits(c, exitPartly, exitRefused, exitAudit, exitInterrupted)
}

func (o *exportOptions) validate() error {
	switch {
	case o.limit < 0:
		return usagef("--limit must not be negative")
	case o.out != "":
		return nil
	case o.app.terminal().IsTTY:
		return fail(exitUsage, "redrivectl export "+o.target+" --out FILE, or a pipe",
			"an export holds payloads as they are, and this is a terminal")
	case o.app.output == outputJSONL: // which it is
		return nil
	default:
		return o.app.asIs("an export on standard output")
	}
}

// selection words what was asked for, as plan create words it.
func (o *exportOptions) selection() string {
	return redrive.Selection{Class: o.class, Jobs: o.jobs}.Canonical()
}

func (o *exportOptions) run(ctx context.Context) error {
	q, err := o.app.queue(ctx, o.target)
	if err != nil {
		return err
	}
	if err := hasClasses(q.policy, o.class); err != nil {
		return err
	}
	if o.out != "" {
		if err := mustBeFree(o.out, "give another --out"); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return err // before the log is asked, which would not take it
	}
	st, err := o.app.storeFor(ctx, q.name)
	if err != nil {
		return err
	}
	x, err := o.begin(ctx, q, st)
	if err != nil {
		return err
	}
	return x.run(ctx)
}

// exporting is one export at work.
type exporting struct {
	*exportOptions
	queue   *queue
	entity  string
	store   *store.Store
	record  audit.Record
	file    *outFile // nil: standard output
	lines   *dump.Exporter
	classes map[string]bool // those that were seen
	seen    int64
	total   int64
	tell    func(done, total int64)
}

func (o *exportOptions) begin(ctx context.Context, q *queue, st *store.Store) (*exporting, error) {
	who, err := o.app.who()
	if err != nil {
		return nil, err
	}
	d, err := q.describe(ctx)
	if err != nil {
		return nil, err
	}
	to := "standard output"
	if o.out != "" {
		to = "file"
	}
	rec := who.Record("export")
	rec.Queue, rec.Reason, rec.Details = q.name, o.reason, map[string]string{"to": to, "selection": o.selection()}
	return &exporting{
		exportOptions: o, queue: q, entity: d.Queue, store: st, classes: map[string]bool{}, total: d.Depth.Total(),
		tell:   stepper(o.app.progress(), "exporting "+q.name),
		record: rec,
	}, nil
}

// run writes the intent, the messages, the outcome, and only then what makes the
// export valid: the name of the file, or the last line on standard output.
func (x *exporting) run(ctx context.Context) error {
	intent := x.record
	intent.Phase = audit.Intent
	if _, err := x.store.Append(ctx, intent); err != nil {
		return err
	}
	crash.At("export.1.intended")
	if err := x.open(); err != nil {
		return x.failed(err)
	}
	c, err := x.write(ctx)
	t := dump.Trailer{Queue: x.entity, Selection: x.selection(), Complete: c.Complete, Why: c.Why}
	if err == nil {
		err = x.prepare(t)
	}
	if err != nil {
		return x.failed(errors.Join(err, x.drop()))
	}
	if err := x.append(audit.ResultDone, c.Why); err != nil {
		return errors.Join(err, x.drop())
	}
	crash.At("export.2.recorded")
	if err := x.publish(t); err != nil {
		return err
	}
	return x.report(c)
}

func (x *exporting) open() (err error) {
	if x.out == "" {
		x.lines = dump.NewExporter(x.app.stdout)
		return nil
	}
	if x.file, err = newOutFile(x.out); err == nil {
		x.lines = dump.NewExporter(x.file)
	}
	return err
}

// prepare writes all but what makes the export valid.
func (x *exporting) prepare(t dump.Trailer) error {
	if x.file == nil {
		return x.lines.Flush()
	}
	if err := x.lines.Finish(t); err != nil {
		return err
	}
	return x.file.sync()
}

func (x *exporting) publish(t dump.Trailer) error {
	if x.file == nil {
		return x.lines.Finish(t)
	}
	return x.file.keep(false)
}

// drop removes the file. What went to standard output is gone.
func (x *exporting) drop() error {
	if x.file == nil {
		return nil
	}
	return x.file.drop()
}

// write looks at the queue. Only a filter by class needs to know more of a job
// than its message tells.
func (x *exporting) write(ctx context.Context) (broker.Completeness, error) {
	var c broker.Completeness
	var err error
	if len(x.class) == 0 {
		c, err = x.queue.broker.Browse(ctx, x.limit, x.add)
	} else {
		var l look
		l, err = x.app.queueSource(x.queue, x.store).look(ctx, x.limit, x.addOfClass)
		c = broker.Completeness{Complete: l.Complete, Why: l.Why}
	}
	if err != nil {
		return c, err
	}
	if x.selection() != "" && x.lines.Count() == 0 {
		return c, x.nothing()
	}
	return c, nil
}

func (x *exporting) addOfClass(a reconcile.Assessed) error {
	x.classes[string(a.Class.Class)] = true
	if !slices.Contains(x.class, string(a.Class.Class)) {
		return nil
	}
	return x.add(a.Job.Message)
}

func (x *exporting) add(m broker.Message) error {
	if x.seen++; x.seen%assessBatch == 0 {
		x.tell(x.seen, x.total)
	}
	if len(x.jobs) > 0 && !slices.Contains(x.jobs, m.MessageID) && !slices.Contains(x.jobs, x.queue.decode(m).JobKey) {
		return nil
	}
	return x.lines.Add(m)
}

// nothing is a selection that found nothing.
func (x *exporting) nothing() error {
	if len(x.class) > 0 && len(x.classes) > 0 {
		return fail(exitRefused, "redrivectl list "+x.queue.name, "nothing in %s matches %s; its classes are: %s",
			x.queue.name, x.selection(), strings.Join(slices.Sorted(maps.Keys(x.classes)), ", "))
	}
	return fail(exitRefused, "redrivectl list "+x.queue.name+" --jobs", "nothing in %s matches %s", x.queue.name, x.selection())
}

// append records how the export ended, also where it was interrupted.
func (x *exporting) append(result, why string) error {
	rec := x.record
	rec.Phase, rec.Result, rec.Details = audit.Outcome, result, maps.Clone(x.record.Details)
	if x.lines != nil {
		rec.Details["count"], rec.Details["sha256"] = strconv.FormatInt(x.lines.Count(), 10), x.lines.SHA256()
	}
	if why != "" {
		rec.Details["why"] = why
	}
	_, err := x.store.Append(context.Background(), rec)
	return err
}

// failed records that the export is not whole, and why.
func (x *exporting) failed(err error) error {
	why := term.Text(err.Error())
	if errors.Is(err, context.Canceled) {
		why = "interrupted"
	}
	return errors.Join(err, x.append(audit.ResultFailed, why))
}

// exportView is the export shape of docs/json-output.md.
type exportView struct {
	Queue     string  `json:"queue"`
	File      string  `json:"file"`
	Selection *string `json:"selection"`
	Count     int64   `json:"count"`
	Bytes     int64   `json:"bytes"`
	Complete  bool    `json:"complete"`
	Why       *string `json:"why"`
	SHA256    string  `json:"sha256"`
}

// report says what is in the file. On standard output the last line has said it.
func (x *exporting) report(c broker.Completeness) error {
	v := exportView{
		Queue: x.queue.name, File: x.out, Selection: text(x.selection()), Count: x.lines.Count(), Bytes: x.lines.Bytes(),
		Complete: c.Complete, Why: text(c.Why), SHA256: x.lines.SHA256(),
	}
	if v.File != "" {
		if err := x.app.print(v.result()); err != nil {
			return err
		}
	}
	if c.Complete {
		return nil
	}
	if v.File == "" || !x.app.output.isJSON() {
		x.app.note("incomplete: %s", c.Why)
	}
	if x.limit > 0 {
		return nil
	}
	return silently(exitPartly)
}

func (v exportView) result() result {
	return result{Object: v, Headers: []string{"what", "value"}, Rows: [][]string{
		{"wrote", v.File},
		{"queue", v.Queue},
		{"selection", or(v.Selection)},
		{"messages", strconv.FormatInt(v.Count, 10)},
		{"bytes", strconv.FormatInt(v.Bytes, 10)},
		{"complete", strconv.FormatBool(v.Complete)},
		{"sha256", v.SHA256},
	}, After: []string{"", "it holds payloads as they are; redrivectl import puts them back"}}
}
