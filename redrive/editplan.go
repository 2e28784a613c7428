package redrive

import (
	"context"
	"fmt"

	"github.com/redrivectl/redrivectl/internal/job"
	"github.com/redrivectl/redrivectl/internal/ledger"
	"github.com/redrivectl/redrivectl/reconcile"
)

// whyReplaced is why the decision table holds a job whose row is replaced.
const whyReplaced = "replaced"

// Why a job is held of which something is out already: of an edit, under the
// edited copy's identity.
const (
	whyKeyTaken  = "edit_key_taken"
	whyPublished = "published_before"
)

// editing is a candidate's edited copy with what is known of its key.
type editing struct {
	Edited
	assessed  reconcile.Assessed
	published Published
}

// editings looks up the edited copies of jobs: their keys must be free, or their
// rows left behind by an earlier run of the same edit.
func (p *Planner) editings(ctx context.Context, req Request, jobs []job.Job, es []Edited) ([]*editing, error) {
	all := make([]*editing, len(jobs))
	var made []*editing
	var copies []job.Job
	for i, j := range jobs {
		all[i] = &editing{Edited: es[i]}
		if es[i].Why != "" {
			continue
		}
		j.JobKey, j.PayloadSHA256, j.BodySHA256, j.MessageSHA256 = es[i].JobKey, es[i].PayloadSHA256, es[i].BodySHA256, es[i].MessageSHA256
		made, copies = append(made, all[i]), append(copies, j)
	}
	if len(copies) == 0 {
		return all, nil
	}
	as, err := p.Assess.Assess(ctx, copies, req.Lifts)
	if err != nil {
		return nil, fmt.Errorf("assess %d edited copies of %s: %w", len(copies), req.Queue.Name, err)
	}
	ps, err := p.published(ctx, req.Queue, copies)
	if err != nil {
		return nil, err
	}
	for i, e := range made {
		e.assessed, e.published = as[i], ps[i]
	}
	return all, nil
}

// edit makes the item the edit of its job, or names why it cannot be edited and
// what it needs. An item that is held or discarded anyway stays as it is.
func (s *sorter) edit(it *Item, c candidate) (why, needs string) {
	if c.edit == nil || it.Action == reconcile.Discard {
		return "", ""
	}
	it.Edit = &c.edit.ItemEdit
	switch it.Action {
	case reconcile.Settle:
		why, needs = s.secondSend(it)
	case reconcile.Hold:
		if it.Why != whyReplaced || !s.replacedBefore(it, c) {
			it.Edit = nil
			return "", ""
		}
	default:
		if it.Row != rowNoEffect && it.Row != rowNotAccepted && it.Row != rowRejected {
			why, needs = "edit_needs_no_effect", "proof that nothing was sent: a changed job loses the protection of its key"
		}
	}
	if why == "" {
		why, needs = s.editable(it, c)
	}
	if why != "" {
		it.Edit = nil
	}
	return why, needs
}

// secondSend: a job that was sent is sent again in another form only where the
// operator names the revision, and its row is at rest.
func (s *sorter) secondSend(it *Item) (why, needs string) {
	switch state := ledger.State(it.LedgerState); {
	case it.Why == "replacement_sent":
		return it.Why, "a plan without --edit, which settles it: its edited copy was sent"
	case !s.req.Lifts.Edit.Named:
		return "edit_already_sent", "a plan without --edit, which settles it, or --revision R for a corrected second send"
	case s.req.Queue.Ledger && !state.Committed():
		return "edit_already_sent", "a plan without --edit first, which settles it"
	}
	it.Action, it.Edit.SecondSend = reconcile.Redrive, true
	return "", ""
}

// replacedBefore takes up an edit whose row an earlier run has queued in the
// original's place, where nothing of it was sent: the same edit goes out again
// under the same key.
func (s *sorter) replacedBefore(it *Item, c candidate) bool {
	row, copyRow := c.Row, c.edit.assessed.Row
	if c.edit.Why != "" || !it.inPlace(row) || row.Row.State != ledger.Replaced || copyRow == nil || copyRow.Found != ledger.Present {
		return false
	}
	d := c.edit.assessed.Decision
	proven := d.Action == reconcile.Redrive && (d.Row == rowNoEffect || d.Row == rowNotAccepted)
	if !proven || copyRow.Row.PayloadSHA256 != c.edit.PayloadSHA256 {
		return false
	}
	var of Item
	of.freezeRow(*copyRow)
	it.Action = reconcile.Redrive
	it.Edit.RowState, it.Edit.RowAttempt, it.Edit.RowRun = of.LedgerState, of.LedgerAttempt, of.LedgerRun
	return true
}

// editable names what forbids the edit whatever the decision is.
func (s *sorter) editable(it *Item, c candidate) (why, needs string) {
	q, e := s.req.Queue, c.edit
	row := it.LedgerState != ""
	switch {
	case e.Why != "":
		return e.Why, e.Needs
	case it.JobKey == "" && q.Ledger:
		return "edit_no_job_key", "a job key, under which the ledger has the job"
	case it.LedgerState == rowMissing:
		return "edit_needs_row", "a ledger row, which the edited copy's can replace"
	case row && !q.LedgerWritable:
		return "ledger_read_only", "a writable ledger: the row must be replaced before the edited copy is sent"
	case row && !q.LedgerReplaces:
		return "ledger_cannot_replace", "a ledger with a column for replaced_by"
	case q.MaxMessageBytes > 0 && e.Bytes > q.MaxMessageBytes:
		return "edit_too_large", fmt.Sprintf("an edit whose message has no more than %d bytes", q.MaxMessageBytes)
	case e.assessed.Row != nil && e.assessed.Row.Found == ledger.Unreadable:
		return "ledger_unreadable", "the ledger to answer for the edited copy's key"
	case !it.Edit.again() && s.taken(it, c):
		return whyKeyTaken, "another --revision: a job is known by the edited copy's identity already"
	case s.edits[it.Edit.identity()+"\n"+it.Origin]:
		return whyKeyTaken, "another plan: one copy of the job is enough"
	}
	s.edits[it.Edit.identity()+"\n"+it.Origin] = true
	return "", ""
}

// taken: the edited copy's identity must be nobody's, in the ledger, in this
// store, in another plan and in the queue.
func (s *sorter) taken(it *Item, c candidate) bool {
	row := c.edit.assessed.Row
	_, live := s.live[it.Edit.JobKey]
	return row != nil && row.Found == ledger.Present || c.edit.published.Count > 0 || c.edit.published.Replaced ||
		it.Edit.JobKey != "" && (live || s.inQueue[it.Edit.JobKey])
}
