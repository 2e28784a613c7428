package cmd

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/redrivectl/redrivectl/audit"
	"github.com/redrivectl/redrivectl/internal/store"
	"github.com/redrivectl/redrivectl/internal/term"
	"github.com/spf13/cobra"
)

func newAuditCmd(a *app) *cobra.Command {
	return group("audit", "Read, search, verify and export the audit log",
		newAuditListCmd(a), newAuditFindCmd(a), newAuditVerifyCmd(a), newAuditExportCmd(a), newAuditCheckpointCmd(a))
}

func newAuditListCmd(a *app) *cobra.Command {
	var limit int
	c := &cobra.Command{
		Use: "list", Short: "List audit records, newest first", Args: exactArgs(),
		Example: "  redrivectl audit list\n  redrivectl audit list --limit 0 -o jsonl",
		RunE: func(c *cobra.Command, _ []string) error {
			if limit < 0 {
				return usagef("--limit must not be negative")
			}
			return a.printRecords(c.Context(), audit.Query{Limit: limit})
		},
	}
	c.Flags().IntVar(&limit, "limit", 50, "no more than this many records (0: all)")
	return exits(c, exitRefused, exitAudit)
}

type auditFindOptions struct {
	customer, job, runID, plan, queue, action string
	since                                     time.Time
	limit                                     int
	glass                                     bool
}

func newAuditFindCmd(a *app) *cobra.Command {
	o := &auditFindOptions{}
	c := &cobra.Command{
		Use: "find", Short: "Find the records of a customer, job, run or plan", Args: exactArgs(),
		Long: `Find audit records, newest first. A customer is looked up by the keyed hash that
stands for it in the log, so the same customer key must be configured.`,
		Example: "  redrivectl audit find --job 7e37a8fe\n  redrivectl audit find --customer sub-17 -o json\n  redrivectl audit find --run 81c2",
		RunE:    func(c *cobra.Command, _ []string) error { return o.run(c.Context(), a) },
	}
	f := c.Flags()
	f.StringVar(&o.customer, "customer", "", "the customer's ID")
	f.StringVar(&o.job, "job", "", "job key, or the beginning of one")
	f.StringVar(&o.runID, "run", "", "run, or the beginning of its ID")
	f.StringVar(&o.plan, "plan", "", "plan, or the beginning of its ID")
	a.queueFlag(c, &o.queue, "queue")
	f.StringVar(&o.action, "action", "", "action, such as redrive, settle, approve or reveal")
	f.Var(momentFlag{&o.since, a.now}, "since", "at or after this RFC 3339 time, or so long ago (2h, 3d)")
	f.BoolVar(&o.glass, "break-glass", false, "only what one person ran in an emergency, without the approvals that it needs")
	f.IntVar(&o.limit, "limit", 0, "no more than this many records (0: all)")
	return exits(c, exitRefused, exitAudit)
}

func (o *auditFindOptions) run(ctx context.Context, a *app) error {
	if o.limit < 0 {
		return usagef("--limit must not be negative")
	}
	if (*o == auditFindOptions{limit: o.limit}) {
		return usagef("say what to find: --customer, --job, --run, --plan, --queue, --action, --break-glass or --since")
	}
	st, err := a.auditStore(ctx)
	if err != nil {
		return err
	}
	q := audit.Query{JobKeyPrefix: o.job, Queue: o.queue, Action: o.action, Since: o.since, BreakGlass: o.glass, Limit: o.limit}
	if err := o.resolve(ctx, a, st, &q); err != nil {
		return err
	}
	return a.printRecords(ctx, q)
}

// resolve turns prefixes and the customer's ID into what records hold.
func (o *auditFindOptions) resolve(ctx context.Context, a *app, st *store.Store, q *audit.Query) error {
	if o.runID != "" {
		r, err := st.LoadRun(ctx, o.runID)
		if err != nil {
			return notFound("run", o.runID, err)
		}
		q.Run = string(r.ID)
	}
	if o.plan != "" {
		p, err := st.LoadPlan(ctx, o.plan)
		if err != nil {
			return notFound("plan", o.plan, err)
		}
		q.Plan = string(p.ID)
	}
	if o.customer == "" {
		return nil
	}
	tag, err := a.customers(st)
	if err != nil {
		return err
	}
	if q.Customer = tag(o.customer); q.Customer == "" {
		return fail(exitFailed, "configure audit.customer_key", "no key is known by which customers are found")
	}
	return nil
}

// recordTable is how records stand in a table: every column for a program, and
// for a person those that fit the terminal.
func (a *app) recordTable() (headers []string, cells func(audit.Record) []string) {
	if !a.forPeople() {
		return []string{"seq", "time", "actor", "action", "phase", "step", "result", "job_key", "plan", "run", "reason"}, recordCells
	}
	headers = []string{"seq", "time", "actor", "action", "result", "about"}
	clock, narrow := time.DateTime, a.terminal().Width < roomy
	if narrow {
		clock = "01-02 15:04:05"
	}
	brief := func(r audit.Record) []string {
		what := strings.Join(strings.Fields(r.Action+" "+r.Step), " ")
		return []string{
			strconv.FormatInt(r.Seq, 10), r.Time.UTC().Format(clock), r.Actor.Name, what,
			firstText(r.Result, string(r.Phase)), firstText(r.JobKey, r.MessageID, short(r.Run), short(r.Plan)),
		}
	}
	if narrow {
		return headers, brief
	}
	return append(headers, "reason"), func(r audit.Record) []string { return append(brief(r), firstText(r.Reason)) }
}

func recordCells(r audit.Record) []string {
	return []string{
		strconv.FormatInt(r.Seq, 10), utc(r.Time), r.Actor.Name, r.Action, string(r.Phase),
		firstText(r.Step), firstText(r.Result), firstText(r.JobKey, r.MessageID), firstText(r.Plan), firstText(r.Run), firstText(r.Reason),
	}
}

func (a *app) printRecords(ctx context.Context, q audit.Query) error {
	st, err := a.auditStore(ctx)
	if err != nil {
		return err
	}
	headers, row := a.recordTable()
	out := newStream(a, "records", headers)
	err = st.FindAudit(ctx, q, func(e audit.Entry) error {
		rec := masked(e.Record)
		return out.add(recordView{rec, e.Hash}, row(rec))
	})
	if err != nil {
		return err
	}
	head, err := st.AuditHead(ctx)
	if err != nil {
		return err
	}
	return out.finish(map[string]any{"head": head})
}

// masked hides secrets that a person typed or an error told. Only the export has
// the record as it is hashed.
func masked(r audit.Record) audit.Record {
	r.Reason = term.Mask(r.Reason)
	if r.Details != nil {
		r.Details = maps.Clone(r.Details)
		for k, v := range r.Details {
			r.Details[k] = term.Mask(v)
		}
	}
	return r
}

// recordView is a record with its own hash beside its fields.
type recordView struct {
	audit.Record
	Hash string `json:"hash"`
}

func newAuditVerifyCmd(a *app) *cobra.Command {
	var export, checkpoint string
	c := &cobra.Command{
		Use: "verify", Short: "Verify the chain of the audit log", Args: exactArgs(),
		Long: `Verify the whole log: every record, the chain, the guards around it, and that it
extends the checkpoint that this machine remembers. With --export the file is
verified instead, offline. With --checkpoint either must also extend the one that
"audit checkpoint" printed and that was kept where others cannot write.

Records after the last remembered checkpoint can be rewritten by whoever can
write the file; docs/audit.md says what this does and does not prove.`,
		Example: "  redrivectl audit verify\n  redrivectl audit verify --checkpoint checkpoint.json\n" +
			"  redrivectl audit verify --export audit.jsonl --checkpoint checkpoint.json",
		RunE: func(c *cobra.Command, _ []string) error {
			kept, err := keptCheckpoints(checkpoint)
			if err != nil {
				return err
			}
			if export != "" {
				return a.verifyExport(c.Context(), export, kept)
			}
			return a.verifyStore(c.Context(), kept)
		},
	}
	c.Flags().StringVar(&export, "export", "", "verify this export instead of the store")
	c.Flags().StringVar(&checkpoint, "checkpoint", "", "file with a checkpoint that the log must extend, as audit checkpoint prints it")
	return exits(c, exitRefused, exitAudit)
}

// keptCheckpoints is the one in the file, where one is named.
func keptCheckpoints(path string) ([]audit.Head, error) {
	if path == "" {
		return nil, nil
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read checkpoint: %w", err)
	}
	h, err := audit.ParseHead(b)
	if err != nil {
		return nil, fmt.Errorf("checkpoint %s: %w", path, err)
	}
	return []audit.Head{h}, nil
}

func (a *app) verifyStore(ctx context.Context, kept []audit.Head) error {
	st, err := a.auditStore(ctx)
	if err != nil {
		return err
	}
	report, err := st.VerifyAudit(ctx, kept...)
	if err != nil {
		return err
	}
	return a.printReport(report)
}

func (a *app) verifyExport(ctx context.Context, export string, kept []audit.Head) error {
	f, err := os.Open(export)
	if err != nil {
		return fmt.Errorf("open export: %w", err)
	}
	defer f.Close() //nolint:errcheck // Nothing was written.
	report, err := audit.VerifyExport(ctx, f, kept...)
	if err != nil {
		return fmt.Errorf("verify %s: %w", export, err)
	}
	return a.printReport(report)
}

func (a *app) printReport(report audit.Report) error {
	r := result{Object: report, Headers: []string{"what", "value"}, Rows: [][]string{
		{"ok", strconv.FormatBool(report.OK)},
		{"records", strconv.FormatInt(report.Records, 10)},
		{"open intents", strconv.Itoa(report.OpenIntents)},
		{"store", report.Head.Store},
		{"head", fmt.Sprintf("%d %s", report.Head.Seq, report.Head.Hash)},
	}}
	for _, p := range report.Problems {
		r.Elements = append(r.Elements, p)
		r.Rows = append(r.Rows, []string{"problem at " + strconv.FormatInt(p.Seq, 10), p.What})
	}
	if err := a.print(r); err != nil {
		return err
	}
	if !report.OK {
		return silently(exitAudit)
	}
	return nil
}

func newAuditExportCmd(a *app) *cobra.Command {
	return exits(&cobra.Command{
		Use: "export", Short: "Write the whole log as JSON lines that verify offline", Args: exactArgs(),
		Example: "  redrivectl audit export > audit.jsonl\n  redrivectl audit verify --export audit.jsonl",
		RunE: func(c *cobra.Command, _ []string) error {
			if a.output != outputJSONL { // which it is
				if err := a.asIs("an export"); err != nil {
					return err
				}
			}
			if a.terminal().IsTTY {
				return fail(exitRefused, "redrivectl audit export > audit.jsonl",
					"an export holds texts as they were hashed, control characters included, and this is a terminal")
			}
			st, err := a.auditStore(c.Context())
			if err != nil {
				return err
			}
			return st.ExportAudit(c.Context(), a.stdout)
		},
	}, exitRefused)
}

func newAuditCheckpointCmd(a *app) *cobra.Command {
	return exits(&cobra.Command{
		Use: "checkpoint", Short: "Verify the log and print where it ends, to keep elsewhere", Args: exactArgs(),
		Long: `Verify the whole log and print its end as one line of JSON: store, sequence and
hash. Kept where those who can write the store cannot, in a ticket or a signed
commit, it shows later that nothing up to it was changed:
"audit verify --checkpoint FILE" holds the log, or an export, against it.`,
		Example: "  redrivectl audit checkpoint > checkpoint.json\n  redrivectl audit verify --checkpoint checkpoint.json",
		RunE: func(c *cobra.Command, _ []string) error {
			if a.output == outputCSV {
				return a.asIs("a checkpoint")
			}
			return a.printCheckpoint(c.Context())
		},
	}, exitRefused, exitAudit)
}

// printCheckpoint prints nothing where the log does not verify, so that nobody
// keeps what vouches for nothing.
func (a *app) printCheckpoint(ctx context.Context) error {
	st, err := a.auditStore(ctx)
	if err != nil {
		return err
	}
	report, err := st.VerifyAudit(ctx)
	if err != nil {
		return err
	}
	if err := report.Err(); err != nil {
		return withHint(err, "redrivectl audit verify")
	}
	line, err := json.Marshal(report.Head)
	if err != nil {
		return fmt.Errorf("encode checkpoint: %w", err)
	}
	_, err = fmt.Fprintf(a.stdout, "%s\n", line)
	return err
}
