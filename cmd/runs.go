package cmd

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redrivectl/redrivectl/audit"
	"github.com/redrivectl/redrivectl/internal/store"
	"github.com/redrivectl/redrivectl/internal/term"
	"github.com/redrivectl/redrivectl/redrive"
	"github.com/spf13/cobra"
)

func newRunsCmd(a *app) *cobra.Command {
	return group("runs", "Look at runs, living and past", newRunsListCmd(a), newRunsShowCmd(a), newRunsReportCmd(a))
}

// runRecordView is a run as the store has it.
type runRecordView struct {
	runView
	Holder      string     `json:"holder"`
	Lives       bool       `json:"lives"`
	StartedAt   time.Time  `json:"started_at"`
	EndedAt     *time.Time `json:"ended_at"`
	Asked       *wishView  `json:"asked"`
	OpenIntents *int       `json:"open_intents,omitempty"`
	RolledBack  *int       `json:"rolled_back,omitempty"`
}

func newRunRecordView(r redrive.RunRecord, now time.Time) runRecordView {
	v := runRecordView{Holder: r.Holder, Lives: r.Lives, StartedAt: r.StartedAt.UTC(), EndedAt: moment(r.EndedAt), Asked: newWishView(r.Wish)}
	v.Run, v.Plan, v.Queue, v.State, v.Gate = string(r.ID), string(r.Plan), r.Queue, string(r.State), newGateView(r.Gate)
	if r.GateFault != "" {
		v.Gate.Verdict, v.Gate.Why = verdictUnreadable, &r.GateFault
	}
	v.report(r.Report)
	v.Glass = text(term.Mask(r.BreakGlass))
	v.paced(r.Pace)
	end := now
	if !r.EndedAt.IsZero() {
		end = r.EndedAt
	}
	v.Duration = end.Sub(r.StartedAt).Seconds()
	return v
}

// soFar counts what a run has done that has not ended, from the audit log: the
// store keeps a report from a run's end on, or an older one where it was resumed.
func soFar(ctx context.Context, st *store.Store, r redrive.RunRecord) (redrive.RunRecord, error) {
	if !underWay(r) {
		return r, nil
	}
	p, err := st.LoadPlan(ctx, string(r.Plan))
	if err != nil {
		return r, err
	}
	ends, err := st.Ends(ctx, r.ID)
	return counted(r, len(p.Plan.Items), ends), err
}

func underWay(r redrive.RunRecord) bool {
	return r.State == redrive.RunRunning || r.State == redrive.RunPaused
}

// counted is soFar of what was read already.
func counted(r redrive.RunRecord, items int, ends map[string]redrive.ItemEnd) redrive.RunRecord {
	if underWay(r) {
		r.Report = redrive.ReportOf(items, ends)
	}
	return r
}

func newRunsListCmd(a *app) *cobra.Command {
	var watch bool
	c := &cobra.Command{
		Use: "list [QUEUE]", Short: "List runs, newest first",
		Long: `List runs, newest first. With --watch, show how far the living ones are until none
lives any more, and then the list. With -o jsonl that prints each run that lives at
each change. Ctrl-C ends the watch alone.

A run of whose gate the record cannot be read is listed without a verdict, and the
exit code is 3.`,
		Example: "  redrivectl runs list\n  redrivectl runs list digests -o json\n  redrivectl runs list --watch", Args: atMostOne("QUEUE"),
		ValidArgsFunction: a.completeQueues,
		RunE:              func(c *cobra.Command, args []string) error { return a.listRuns(c.Context(), optional(args), watch) },
	}
	c.Flags().BoolVar(&watch, "watch", false, "wait until no run lives")
	return exits(c, exitPartly, exitRefused, exitInterrupted)
}

func (a *app) listRuns(ctx context.Context, queue string, watch bool) error {
	st, err := a.storeToRead(ctx)
	if err != nil {
		return err
	}
	var views []runRecordView
	if st != nil {
		if views, err = a.runViews(ctx, st, queue); err != nil {
			return err
		}
	}
	if len(views) == 0 {
		if err := a.knownQueue(queue); err != nil {
			return err
		}
	}
	if watch && len(views) > 0 {
		return a.watchRuns(ctx, queue)
	}
	return a.printRuns(views)
}

// printRuns lists runs. One whose gate cannot be read makes the list partial.
func (a *app) printRuns(views []runRecordView) error {
	if err := a.print(runsResult(views)); err != nil {
		return err
	}
	for _, v := range views {
		if v.Gate.Verdict == verdictUnreadable {
			a.note("run %s: %s", v.Run, *v.Gate.Why)
			return silently(exitPartly)
		}
	}
	return nil
}

func (a *app) runViews(ctx context.Context, st *store.Store, queue string) ([]runRecordView, error) {
	rs, err := st.ListRuns(ctx, queue)
	if err != nil {
		return nil, err
	}
	var views []runRecordView
	for _, r := range rs {
		if r, err = soFar(ctx, st, r); err != nil {
			return nil, err
		}
		views = append(views, newRunRecordView(r, a.now()))
	}
	return views, nil
}

func runsResult(views []runRecordView) result {
	r := result{
		Object:       map[string]any{"runs": append([]runRecordView{}, views...)},
		Headers:      []string{"run", "plan", "queue", "state", "planned", "redriven", "settled", "discarded", "skipped", "unknown", "remaining", "started", "holder"},
		WideHeaders:  []string{"run", "queue", "state", "started", "done", "holder", "plan"},
		BriefHeaders: []string{"run", "queue", "state", "started", "done"},
	}
	for _, v := range views {
		r.Elements = append(r.Elements, v)
		r.Rows = append(r.Rows, []string{
			v.Run, v.Plan, v.Queue, v.loud(v.stateText()), strconv.Itoa(v.Planned), strconv.Itoa(v.Redriven), strconv.Itoa(v.Settled), strconv.Itoa(v.Discarded),
			counts(v.Skipped), strconv.Itoa(v.Unknown), strconv.Itoa(v.Remaining), utc(v.StartedAt), v.Holder,
		})
		brief := []string{short(v.Run), v.Queue, v.loud(v.stateText()), v.StartedAt.Format(time.DateTime), v.done()}
		r.Brief = append(r.Brief, brief)
		r.Wide = append(r.Wide, append(slices.Clip(brief), v.Holder, short(v.Plan)))
	}
	return r
}

// done says in a few words how far a run came.
func (v runRecordView) done() string {
	said := fmt.Sprintf("%d redriven, %d settled of %d", v.Redriven, v.Settled, v.Planned)
	if v.Discarded > 0 { // such a plan redrives nothing
		said = fmt.Sprintf("%d discarded, %d settled of %d", v.Discarded, v.Settled, v.Planned)
	}
	skipped := 0
	for _, n := range v.Skipped {
		skipped += n
	}
	for _, rest := range []struct {
		n    int
		what string
	}{{skipped, "skipped"}, {v.Failed, "failed"}, {v.Unknown, "unknown"}, {v.Remaining, "remaining"}} {
		if rest.n > 0 {
			said += fmt.Sprintf(", %d %s", rest.n, rest.what)
		}
	}
	return said
}

// loud says beside something of a run that it went without the approvals that it needs.
func (v runView) loud(said string) string {
	if v.Glass == nil {
		return said
	}
	return said + " BREAK GLASS"
}

// stateText says of a run that has not ended whether it lives, and what it was
// asked and has not come to yet.
func (v runRecordView) stateText() string {
	state := redrive.RunState(v.State)
	if v.Gate.Verdict == verdictUnreadable {
		return v.State + " (its gate cannot be read)"
	}
	if state != redrive.RunRunning && state != redrive.RunPaused {
		return v.State
	}
	switch {
	case v.atGate() && v.Gate.state.Verdict == redrive.VerdictTripped:
		return "paused by its circuit breaker"
	case v.atGate():
		return "paused at its gate"
	case !v.Lives:
		return v.State + " (dead: resume it)"
	case v.Asked != nil && v.Asked.What == string(redrive.WishAbort):
		return "aborting"
	case v.Asked != nil && state == redrive.RunRunning:
		return "pausing"
	case v.Asked == nil && state == redrive.RunPaused:
		return "resuming"
	default:
		return v.State
	}
}

// atGate reports that the run waits for a person to promote it, in a process or in
// none.
func (v runRecordView) atGate() bool {
	return v.State == string(redrive.RunPaused) && v.Asked == nil && v.Gate.state.Waits() &&
		(v.Lives || v.EndedAt != nil)
}

func newRunsShowCmd(a *app) *cobra.Command {
	var watch bool
	c := &cobra.Command{
		Use: "show RUN", Short: "Show one run",
		Long: `Show one run. With --watch, show how far it is until it has ended, and then the run
and its exit code: 0 done, 3 partly done, interrupted or dead, 4 aborted, 6 stopped
or paused at its gate, 1 failed.
With -o jsonl it prints the run at each change. Ctrl-C ends the watch alone.`,
		Example: "  redrivectl runs show 81c2\n  redrivectl runs show 81c2 -o json\n  redrivectl runs show 81c2 --watch",
		Args:    exactArgs("RUN"),
		RunE:    func(c *cobra.Command, args []string) error { return a.showRun(c.Context(), args[0], watch) },
	}
	c.Flags().BoolVar(&watch, "watch", false, "wait until the run has ended, and end as it did")
	return exits(c, exitPartly, exitRefused, exitGate, exitInterrupted)
}

func (a *app) showRun(ctx context.Context, prefix string, watch bool) error {
	st, err := a.storeToRead(ctx)
	if err != nil {
		return err
	}
	if st == nil {
		return notFound("run", prefix, redrive.ErrNotFound)
	}
	r, err := st.LoadRun(ctx, prefix)
	if err != nil {
		return notFound("run", prefix, err)
	}
	if watch {
		return a.watchRun(ctx, r.ID)
	}
	v, err := a.showView(ctx, st, r)
	if err != nil {
		return err
	}
	return a.print(v.showResult())
}

// showView is a run with what runs show adds.
func (a *app) showView(ctx context.Context, st *store.Store, r redrive.RunRecord) (runRecordView, error) {
	r, err := soFar(ctx, st, r)
	if err != nil {
		return runRecordView{}, err
	}
	return a.viewOf(ctx, st, r)
}

// viewOf is showView of a run that is counted.
func (a *app) viewOf(ctx context.Context, st *store.Store, r redrive.RunRecord) (runRecordView, error) {
	open, err := st.OpenIntents(ctx, r.ID)
	if err != nil {
		return runRecordView{}, err
	}
	back, err := rolledBack(ctx, st, r.ID)
	v := newRunRecordView(r, a.now())
	n := len(open)
	v.OpenIntents, v.RolledBack, v.Solo = &n, &back, a.solo()
	return v, err
}

// rolledBack counts the jobs that rollbacks of a run took back.
func rolledBack(ctx context.Context, st *store.Store, run redrive.RunID) (n int, err error) {
	q := audit.Query{Run: string(run), Action: redrive.ActionRollback, Phase: audit.Outcome}
	err = st.FindAudit(ctx, q, func(e audit.Entry) error {
		if e.Record.JobKey != "" && e.Record.Result == audit.ResultDone {
			n++
		}
		return nil
	})
	return n, err
}

func (v runRecordView) showResult() result {
	out := v.result()
	out.Object = v
	out.Rows = append(out.Rows, []string{"holder", v.Holder}, []string{"lives", strconv.FormatBool(v.Lives)},
		[]string{"started", utc(v.StartedAt)}, []string{"open intents", strconv.Itoa(*v.OpenIntents)})
	if *v.RolledBack > 0 {
		out.Rows = append(out.Rows, []string{"rolled back", strconv.Itoa(*v.RolledBack)})
	}
	out.Rows = append(out.Rows, v.Asked.rows()...)
	switch {
	case v.atGate():
		out.After = []string{"", "next: " + promoteHint(short(v.Run))}
	case !v.Lives && !redrive.RunState(v.State).Ended():
		out.After = []string{"", "next: redrivectl resume " + v.Run}
	case v.State == string(redrive.RunPaused) && v.Lives:
		out.After = []string{"", "next: redrivectl resume " + v.Run + " lets it go on"}
	}
	return out
}
