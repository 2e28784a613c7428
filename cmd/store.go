package cmd

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redrivectl/redrivectl/audit"
	"github.com/redrivectl/redrivectl/internal/store"
	"github.com/spf13/cobra"
)

func newStoreCmd(a *app) *cobra.Command {
	return group("store", "See what the operator's store holds, and prune it",
		newStoreShowCmd(a), newStoreArchivesCmd(a), newStorePruneCmd(a))
}

// storeView is the store show shape of docs/json-output.md.
type storeView struct {
	Store        string `json:"store"`
	Path         string `json:"path"`
	Bytes        int64  `json:"bytes"`
	AuditRecords int64  `json:"audit_records"`
	Plans        int64  `json:"plans"`
	Runs         int64  `json:"runs"`
	Captures     int64  `json:"captures"`
	CapturedJobs int64  `json:"captured_jobs"`
	Archives     int64  `json:"archives"`
	ArchiveBytes int64  `json:"archive_bytes"`
	// What store prune would remove now.
	PrunableCaptures int64 `json:"prunable_captures"`
	PrunableArchives int64 `json:"prunable_archives"`
}

func newStoreShowCmd(a *app) *cobra.Command {
	return exits(&cobra.Command{
		Use: "show", Short: "Show where the store is and how much it holds", Args: exactArgs(),
		Example: "  redrivectl store show\n  redrivectl store show --store /srv/ops/store.db -o json",
		RunE:    func(c *cobra.Command, _ []string) error { return a.showStore(c.Context()) },
	}, exitRefused)
}

func (a *app) showStore(ctx context.Context) error {
	st, err := a.auditStore(ctx)
	if err != nil {
		return err
	}
	z, err := st.Sizes(ctx)
	if err != nil {
		return err
	}
	p, err := st.Prunable(ctx, 0)
	if err != nil {
		return err
	}
	v := storeView{
		Store: st.StoreID(), Path: st.Path(), Bytes: z.Bytes, AuditRecords: z.AuditRecords, Plans: z.Plans, Runs: z.Runs,
		Captures: z.Captures, CapturedJobs: z.CapturedJobs, Archives: z.Archives, ArchiveBytes: z.ArchiveBytes,
		PrunableCaptures: p.Captures, PrunableArchives: p.Archives,
	}
	return a.print(v.result())
}

func (v storeView) result() result {
	n := func(n int64) string { return strconv.FormatInt(n, 10) }
	r := result{Object: v, Headers: []string{"what", "value"}, Rows: [][]string{
		{"store", v.Store},
		{"path", v.Path},
		{"bytes", n(v.Bytes)},
		{"audit records", n(v.AuditRecords)},
		{"plans", n(v.Plans)},
		{"runs", n(v.Runs)},
		{"captures", n(v.Captures)},
		{"captured jobs", n(v.CapturedJobs)},
		{"archives", n(v.Archives)},
		{"archive bytes", n(v.ArchiveBytes)},
		{"captures past their day", n(v.PrunableCaptures)},
		{"archives past their retention", n(v.PrunableArchives)},
	}}
	if v.PrunableCaptures+v.PrunableArchives > 0 {
		r.After = []string{"", "next: redrivectl store prune --dry-run"}
	}
	return r
}

// archiveView is one archived copy; the content stays in the store.
type archiveView struct {
	Run        string    `json:"run"`
	Plan       string    `json:"plan"`
	Queue      string    `json:"queue"`
	Action     string    `json:"action"`
	JobKey     *string   `json:"job_key"`
	MessageID  string    `json:"message_id"`
	CopyID     string    `json:"copy_id"`
	Owner      string    `json:"owner"`
	ArchivedAt time.Time `json:"archived_at"`
	KeptUntil  time.Time `json:"kept_until_at"`
	Bytes      int64     `json:"bytes"`
}

func newStoreArchivesCmd(a *app) *cobra.Command {
	var run, queue, job string
	c := &cobra.Command{
		Use: "archives", Short: "List what runs took off a queue without sending it", Args: exactArgs(),
		Long: `List the copies that runs settled or discarded, newest first, with their owner
and how long they are kept. "redrivectl import --archive" puts them back.`,
		Example: "  redrivectl store archives --job 7e37a8fe-1\n  redrivectl store archives --run 81c2 -o json",
		RunE: func(c *cobra.Command, _ []string) error {
			return a.listArchives(c.Context(), run, store.ArchiveQuery{Queue: queue, Job: job})
		},
	}
	c.Flags().StringVar(&run, "run", "", "only of this run, or the beginning of its ID")
	a.queueFlag(c, &queue, "only of this queue")
	c.Flags().StringVar(&job, "job", "", "only this job, by job key or message ID, whole")
	return exits(c, exitRefused)
}

func (a *app) listArchives(ctx context.Context, run string, q store.ArchiveQuery) error {
	st, err := a.auditStore(ctx)
	if err != nil {
		return err
	}
	if run != "" {
		r, err := st.LoadRun(ctx, run)
		if err != nil {
			return notFound("run", run, err)
		}
		q.Run = r.ID
	}
	headers, row := a.archiveTable()
	out := newStream(a, "archives", headers)
	n := 0
	err = st.Archives(ctx, q, func(c store.ArchivedCopy) error {
		n++
		v := archiveView{
			Run: string(c.Run), Plan: string(c.Plan), Queue: c.Queue, Action: c.Action, JobKey: text(c.JobKey), MessageID: c.MessageID,
			CopyID: c.Copy, Owner: c.Owner, ArchivedAt: c.At, KeptUntil: c.KeptUntil, Bytes: c.Bytes,
		}
		return out.add(v, row(v))
	})
	if err == nil && n == 0 {
		err = a.knownQueue(q.Queue)
	}
	if err != nil {
		return err
	}
	return out.finish(map[string]any{"count": n})
}

// archiveTable is how archives stand in a table: every column for a program, and
// for a person those that fit the terminal.
func (a *app) archiveTable() ([]string, func(archiveView) []string) {
	if !a.forPeople() {
		return []string{"run", "action", "job_key", "message_id", "copy_id", "queue", "owner", "archived_at", "kept_until_at", "bytes"},
			func(v archiveView) []string {
				return []string{
					v.Run, v.Action, or(v.JobKey), v.MessageID, v.CopyID, v.Queue, v.Owner,
					utc(v.ArchivedAt), utc(v.KeptUntil), strconv.FormatInt(v.Bytes, 10),
				}
			}
	}
	if a.terminal().Width < roomy { // the job is what import asks for
		return []string{"run", "action", "job", "kept until"}, func(v archiveView) []string {
			return []string{short(v.Run), v.Action, firstText(or(v.JobKey), v.MessageID), v.KeptUntil.Format(time.DateOnly)}
		}
	}
	return []string{"run", "action", "job", "copy", "owner", "kept until"}, func(v archiveView) []string {
		return []string{short(v.Run), v.Action, firstText(or(v.JobKey), v.MessageID), v.CopyID, v.Owner, v.KeptUntil.Format(time.DateOnly)}
	}
}

type pruneOptions struct {
	app    *app
	older  time.Duration
	reason string
	dryRun bool
}

func newStorePruneCmd(a *app) *cobra.Command {
	o := &pruneOptions{app: a}
	c := &cobra.Command{
		Use: "prune", Short: "Remove captures and archives that are past their time", Args: exactArgs(),
		Long: `Remove captures that are older than 24 hours, and archived messages past their
retention, so that no byte of them is left in the store's files. An archived
message that was removed cannot be put back.

What was removed is recorded in the audit log, by count and digest. Audit records,
and the plans, approvals and runs that they speak of, always stay.`,
		Example: "  redrivectl store prune --dry-run\n  redrivectl store prune --older-than 180d --reason \"quarterly\" --yes",
		RunE:    func(c *cobra.Command, _ []string) error { return o.run(c.Context()) },
	}
	c.Flags().Var(lengthFlag{to: &o.older}, "older-than", "of what is past its time, only what was kept for longer than this (30d)")
	c.Flags().StringVar(&o.reason, "reason", "", "why, for the audit log")
	c.Flags().BoolVar(&o.dryRun, "dry-run", false, "say what would be removed, and remove nothing")
	return exits(c, exitPartly, exitRefused, exitAudit)
}

func (o *pruneOptions) run(ctx context.Context) error {
	st, err := o.app.auditStore(ctx)
	if err != nil {
		return err
	}
	would, err := st.Prunable(ctx, o.older)
	if err != nil {
		return err
	}
	if o.dryRun {
		return o.print(would)
	}
	if would.Nothing() { // what an earlier prune could not erase may go now
		return o.prune(ctx)
	}
	question := fmt.Sprintf("Remove %d captures and %d archived messages (%d bytes) from %s for good?",
		would.Captures, would.Archives, would.ArchiveBytes, st.Path())
	if err := o.app.confirm(question); err != nil {
		return err
	}
	return o.prune(ctx)
}

func (o *pruneOptions) prune(ctx context.Context) error {
	st, err := o.app.store(ctx)
	if err != nil {
		return err
	}
	who, err := o.app.who()
	if err != nil {
		return err
	}
	rec := who.Record("prune")
	rec.Phase, rec.Result, rec.Reason = audit.Outcome, audit.ResultDone, o.reason
	p, err := st.Prune(ctx, o.older, rec)
	if err != nil {
		return err
	}
	if err := o.print(p); err != nil {
		return err
	}
	if !p.Erased {
		o.app.note("another process reads the store; what was removed is erased from its files by the next prune")
		return silently(exitPartly)
	}
	return nil
}

// pruneView is the store prune shape of docs/json-output.md.
type pruneView struct {
	DryRun         bool    `json:"dry_run"`
	Captures       int64   `json:"captures"`
	CapturedJobs   int64   `json:"captured_jobs"`
	Archives       int64   `json:"archives"`
	ArchiveBytes   int64   `json:"archive_bytes"`
	ArchivesSHA256 *string `json:"archives_sha256"`
	Erased         bool    `json:"erased"`
}

func (o *pruneOptions) print(p store.Pruned) error {
	v := pruneView{
		DryRun: o.dryRun, Captures: p.Captures, CapturedJobs: p.CapturedJobs, Archives: p.Archives,
		ArchiveBytes: p.ArchiveBytes, ArchivesSHA256: text(p.ArchivesSHA256), Erased: p.Erased,
	}
	r := result{Object: v, Headers: []string{"what", "value"}, Rows: [][]string{
		{"captures", strconv.FormatInt(v.Captures, 10)},
		{"captured jobs", strconv.FormatInt(v.CapturedJobs, 10)},
		{"archives", strconv.FormatInt(v.Archives, 10)},
		{"archive bytes", strconv.FormatInt(v.ArchiveBytes, 10)},
		{"archives sha256", or(v.ArchivesSHA256)},
		{"erased", strconv.FormatBool(v.Erased)},
	}}
	if o.dryRun {
		r.After = []string{"", "dry run: nothing was removed"}
	}
	return o.app.print(r)
}
