package cmd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redrivectl/redrivectl/internal/term"
	"github.com/redrivectl/redrivectl/redrive"
	"github.com/spf13/cobra"
)

func newRollbackCmd(a *app) *cobra.Command {
	o := &rollbackOptions{app: a}
	c := &cobra.Command{
		Use: "rollback RUN", Short: "Take back what a run has redriven and no worker has claimed",
		Long: `Take back what a run has queued and no worker has claimed yet, from any terminal
that shares its store, whether the run is under way or over. Each such ledger row
becomes failed by compare-and-set, so that no worker can claim it; nothing is
published, and no message is touched. A worker that meets a copy of such a job
dead-letters it, as its contract says, and a new plan can take the job up again: a
redrive that was rolled back does not count in the cap on redrives of a job.

A run that lives is aborted first, and waited for; one that was interrupted or has
died is aborted and settled, without sending anything. None of them can be resumed
into publishing any more.

What a worker has claimed cannot be taken back, and is named, with the state of
its row. What the run settled had its effect before, and what it discarded is in
the archive: neither is touched. It takes a ledger that redrivectl may write.

The exit code is 3 where something was claimed, left or unknown, or where the run
could not be settled, so that it has not ended. It can be typed
again: after an interruption it finishes, and after that it changes nothing.`,
		Example: "  redrivectl rollback 81c2 --reason \"wrong selection\"\n  redrivectl rollback 81c2 --reason \"wrong selection\" --yes -o json",
		Args:    exactArgs("RUN"),
		RunE: func(c *cobra.Command, args []string) error {
			o.run = args[0]
			o.reason = givenReason(o.reason)
			return o.rollback(c.Context())
		},
	}
	reasonFlag(c, &o.reason, "why")
	return exits(c, exitPartly, exitRefused, exitAudit, exitInterrupted)
}

type rollbackOptions struct {
	app    *app
	run    string
	reason string
}

func (o *rollbackOptions) rollback(ctx context.Context) error {
	look, err := o.app.storeToRead(ctx)
	if err != nil {
		return err
	}
	if look == nil {
		return notFound("run", o.run, redrive.ErrNotFound)
	}
	rr, err := look.LoadRun(ctx, o.run)
	if err != nil {
		return notFound("run", o.run, err)
	}
	st, err := o.app.store(ctx)
	if err != nil {
		return err
	}
	sp, err := st.LoadPlan(ctx, string(rr.Plan))
	if err != nil {
		return err
	}
	r, err := o.app.runner(ctx, rr.Queue, st)
	if err != nil {
		return err
	}
	if err := o.confirm(ctx, r, rr); err != nil {
		return err
	}
	if rr.Lives {
		o.app.note("run %s lives: it is asked to abort, and waited for", short(string(rr.ID)))
	}
	report, err := r.Rollback(ctx, string(rr.ID), o.reason)
	if report.Run == "" {
		return withHint(err, beginHint(err, "redrivectl runs show "+short(string(rr.ID))))
	}
	return o.print(newRollbackView(report, sp.Plan, o.reason), report, err)
}

// confirm says first what can be taken back now; what is refused is said without
// a question.
func (o *rollbackOptions) confirm(ctx context.Context, r *redrive.Runner, rr redrive.RunRecord) error {
	s, err := r.SurveyRollback(ctx, string(rr.ID))
	if err != nil {
		return withHint(err, "redrivectl runs show "+short(string(rr.ID)))
	}
	first := ""
	if !rr.State.Ended() {
		first = "It is aborted first. "
	}
	return o.app.confirm(fmt.Sprintf("Roll back run %s on %s? %sNow %d of %d jobs can be taken back, and %d are claimed. It cannot be undone.",
		short(string(rr.ID)), rr.Queue, first, s.Counts[redrive.BackTaken], s.Planned, s.Counts[redrive.BackClaimed]))
}

func (o *rollbackOptions) print(v rollbackView, report redrive.RollbackReport, err error) error {
	v.Solo = o.app.solo()
	again := "redrivectl rollback " + short(v.Run) + " --reason WHY"
	if perr := o.app.print(v.result(again)); perr != nil {
		return errors.Join(err, perr)
	}
	switch {
	case err != nil:
		return withHint(err, again)
	case !report.Whole() || !report.State.Ended():
		return silently(exitPartly)
	default:
		return nil
	}
}

// rollbackView is the rollback shape of docs/json-output.md.
type rollbackView struct {
	Run       string         `json:"run"`
	Plan      string         `json:"plan"`
	Queue     string         `json:"queue"`
	State     string         `json:"state"`
	Reason    string         `json:"reason"`
	Planned   int            `json:"planned"`
	Back      int            `json:"rolled_back"`
	Before    int            `json:"rolled_back_before"`
	Claimed   int            `json:"claimed"`
	Left      int            `json:"left"`
	Unknown   int            `json:"unknown"`
	NotBegun  int            `json:"not_begun"`
	Settled   int            `json:"settled"`
	Discarded int            `json:"discarded"`
	Why       map[string]int `json:"why"`
	Jobs      []rollbackJob  `json:"jobs"`
	Solo      *string        `json:"solo,omitempty"`
}

// rollbackJob is a job of which the run may have done something.
type rollbackJob struct {
	reportedJob
	Row     *string `json:"ledger_row"`
	State   *string `json:"ledger_state"`
	Attempt *int    `json:"attempt"`
	Request *string `json:"request_id"`
	Outcome string  `json:"outcome"`
	Why     *string `json:"why"`
}

func newRollbackView(r redrive.RollbackReport, p redrive.Plan, reason string) rollbackView {
	n := r.Counts
	v := rollbackView{
		Run: string(r.Run), Plan: string(r.Plan), Queue: r.Queue, State: string(r.State), Reason: term.Mask(reason), Planned: r.Planned,
		Back: n[redrive.BackTaken], Before: n[redrive.BackBefore], Claimed: n[redrive.BackClaimed], Left: n[redrive.BackLeft],
		Unknown: n[redrive.BackUnknown], NotBegun: n[redrive.BackNotOut], Settled: n[redrive.BackSettled], Discarded: n[redrive.BackDropped],
		Why: map[string]int{}, Jobs: []rollbackJob{},
	}
	for _, i := range r.Items {
		j := rollbackJob{
			reportedJob: newReportedJob(p.Items[i.Index]), Row: text(i.LedgerRow), Outcome: string(i.Back), Why: text(i.Why),
			State: text(string(i.Row.State)), Request: text(i.Row.RequestID),
		}
		if i.Row.State != "" {
			j.Attempt = &i.Row.Attempt
		}
		if i.Why != "" {
			v.Why[i.Why]++
		}
		v.Jobs = append(v.Jobs, j)
	}
	return v
}

func (v rollbackView) result(again string) result {
	r := result{Object: v, Headers: []string{"what", "value"}, Rows: [][]string{
		{"run", v.Run},
		{"queue", v.Queue},
		{"state", v.State},
		{"planned", strconv.Itoa(v.Planned)},
		{"rolled back", strconv.Itoa(v.Back)},
	}}
	for _, row := range []struct {
		what string
		n    int
		said string
	}{
		{"rolled back before", v.Before, ""},
		{"claimed already", v.Claimed, v.named(redrive.BackClaimed)},
		{"left", v.Left, v.named(redrive.BackLeft)},
		{"unknown", v.Unknown, v.named(redrive.BackUnknown)},
		{"not begun", v.NotBegun, ""},
		{"settled", v.Settled, "; they had their effect before the run"},
		{"discarded", v.Discarded, "; redrivectl import --archive " + short(v.Run) + " brings them back"},
	} {
		if row.n > 0 {
			r.Rows = append(r.Rows, []string{row.what, strconv.Itoa(row.n) + row.said})
		}
	}
	r.Rows = append(r.Rows, soloRows(v.Solo)...)
	for _, j := range v.Jobs {
		r.Elements = append(r.Elements, j)
	}
	r.After = []string{"", "next: " + v.next(again)}
	return r
}

func (v rollbackView) next(again string) string {
	switch {
	case v.Unknown > 0:
		return again
	case !redrive.RunState(v.State).Ended():
		return "redrivectl resume " + short(v.Run)
	default:
		return "redrivectl runs report " + short(v.Run)
	}
}

// namedMost is how many jobs a person is shown by name; JSON has all.
const namedMost = 10

// named are the jobs that ended so, with what stands in the way.
func (v rollbackView) named(back redrive.Back) string {
	var names []string
	for _, j := range v.Jobs {
		if j.Outcome == string(back) {
			names = append(names, fmt.Sprintf("%s (%s)", j.name(), strings.TrimPrefix(or(j.Why), "row_")))
		}
	}
	if len(names) == 0 {
		return ""
	}
	more := ""
	if n := len(names) - namedMost; n > 0 {
		names, more = slices.Clip(names[:namedMost]), fmt.Sprintf(", and %d more: -o json names all", n)
	}
	return ": " + strings.Join(names, ", ") + more
}
