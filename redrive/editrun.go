package redrive

import (
	"context"
	"fmt"

	"github.com/redrivectl/redrivectl/audit"
	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/job"
	"github.com/redrivectl/redrivectl/internal/ledger"
	"github.com/redrivectl/redrivectl/reconcile"
)

// reedit applies the plan's edit to what was received. What is not exactly what
// was approved stops the item.
func (s *session) reedit(ctx context.Context, w *work) (ItemEnd, bool) {
	want := w.item.Edit
	if want == nil || w.published {
		return ItemEnd{}, true
	}
	if s.editor == nil {
		return ItemEnd{endSkipped, "edit_failed"}, false
	}
	now, err := s.editor.Edit(ctx, w.job)
	if err != nil {
		return ItemEnd{endSkipped, editWhy(err)}, false
	}
	if !want.isOf(now) {
		return ItemEnd{endSkipped, "edit_differs"}, false
	}
	w.edited = &now
	return ItemEnd{}, true
}

// outgoing is the message that is published: the job's, or its edit's.
func (w *work) outgoing() broker.Message {
	if w.edited != nil {
		return w.edited.Outgoing()
	}
	return w.job.Outgoing()
}

// sameEdits assesses the edited copies that an earlier run has queued: still
// nothing of them may have been sent.
func (s *session) sameEdits(ctx context.Context, ws []*work, stop map[*work]ItemEnd) error {
	var again []*work
	var copies []job.Job
	for _, w := range ws {
		if e := w.item.Edit; !w.queued && e != nil && e.again() && w.edited != nil {
			j := *w.edited
			j.Message.Receives, j.Message.SentAt = w.item.Receives, w.job.Message.SentAt
			again, copies = append(again, w), append(copies, j)
		}
	}
	if len(copies) == 0 {
		return nil
	}
	as, err := s.Assess.Assess(ctx, copies, s.plan.Lifts)
	if err != nil {
		return fmt.Errorf("re-check %d edited copies: %w", len(copies), err)
	}
	for i, w := range again {
		d := as[i].Decision
		if as[i].Row == nil || !w.item.edited().asPlanned(*as[i].Row) || d.Action != reconcile.Redrive || d.Row != rowNoEffect && d.Row != rowNotAccepted {
			stop[w] = ItemEnd{endSkipped, "changed_ledger"}
		}
	}
	return nil
}

// withoutMove drops edits whose row this ledger cannot replace now. Published
// all the same they would be jobs beside their originals.
func (s *session) withoutMove(ctx context.Context, ws []*work) ([]*work, error) {
	stop := map[*work]ItemEnd{}
	for _, w := range ws {
		if w.item.Edit == nil || w.item.LedgerState == "" || w.queued {
			continue
		}
		if _, ok := changeOf(w.item, s.run, w.action); !ok || !s.writable() {
			stop[w] = ItemEnd{endSkipped, "ledger_read_only"}
		}
	}
	return s.drop(ctx, ws, stop)
}

// newRow fills in what the edited copy's row says beside its key and hash.
func (w *work) newRow(c ledger.Change) ledger.Change {
	if c.Replace == nil || w.edited == nil {
		return c
	}
	n := *c.Replace
	n.Subject, n.Version, n.Region, n.CustomerID = w.edited.Subject, w.edited.Version, w.edited.Region, w.edited.CustomerID
	n.Account, n.Actor = w.account, c.Actor
	c.Replace = &n
	return c
}

// rowInPlace reads the row of the edited copy that replaced the original, for a
// change whose reply was lost.
func (s *session) rowInPlace(ctx context.Context, c ledger.Change) bool {
	if c.Replace == nil {
		return true
	}
	l := s.Ledger.Get(ctx, []ledger.Key{c.Replace.Key})[0]
	return l.Found == ledger.Present && l.Row.State == ledger.Queued && l.Row.Run == c.Run
}

// inPlaces reads the edited copies' rows for open intents: where the original's
// row names one, that row stands for it in the resume table.
func (s *session) inPlaces(ctx context.Context, items []*Item, rows []*ledger.Lookup) []*ledger.Lookup {
	ls := make([]*ledger.Lookup, len(items))
	for n, it := range items {
		if it.inPlace(rows[n]) {
			ls[n] = s.rows(ctx, []ledger.Key{{JobKey: it.Edit.JobKey, Consumer: it.Consumer}})[0]
		}
	}
	return ls
}

// describe tells in a record what is sent in the place of what.
func (e *ItemEdit) describe(r audit.Record, rule *EditRule) {
	r.Details[audit.DetailReplacedBy] = e.identity()
	r.Details["edited_payload_sha256"], r.Details["edited_body_sha256"] = e.PayloadSHA256, e.BodySHA256
	if rule != nil {
		r.Details["edit_sha256"], r.Details["revision"] = rule.SHA256, rule.Revision
	}
	if e.SecondSend {
		r.Details["second_send"] = "corrected"
	}
}
