package reconcile

import (
	"context"
	"fmt"

	"github.com/redrivectl/redrivectl/audit"
	"github.com/redrivectl/redrivectl/internal/crash"
	"github.com/redrivectl/redrivectl/internal/ledger"
)

// Digest is the lower-case hex SHA-256 of the evidence's RFC 8785 bytes.
func (e Evidence) Digest() (string, error) {
	canonical, err := audit.CanonicalJSON(e)
	if err != nil {
		return "", fmt.Errorf("encode evidence: %w", err)
	}
	return audit.Hash(canonical), nil
}

// record judges, keeps every verdict with its evidence, and then moves the rows
// whose outcome is proven.
func (w *work) record(ctx context.Context) error {
	w.askForNobody(ctx)
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("reconcile: %w", err) // a look that was cut short is no evidence
	}
	all := w.asked()
	return inBatches(all, func(batch []*subject, done int) error {
		err := w.recordBatch(ctx, batch)
		p := Progress{Step: "record", Done: done, Total: len(all)}
		for _, s := range batch {
			if err == nil {
				p.Found = append(p.Found, s.found)
			}
		}
		w.progress(p)
		return err
	})
}

func (w *work) recordBatch(ctx context.Context, batch []*subject) error {
	fs := make([]Found, len(batch))
	var moves []*subject
	for i, s := range batch {
		if err := w.conclude(s); err != nil {
			return err
		}
		fs[i] = s.found
		if _, moved := target(s.found.Verdict); moved && s.fenced && w.apply {
			moves = append(moves, s)
		}
	}
	if err := w.Verdicts.SaveVerdicts(ctx, fs...); err != nil {
		return fmt.Errorf("save verdicts: %w", err)
	}
	crash.At("reconcile.verdict.saved")
	if len(moves) == 0 {
		return nil
	}
	return w.move(ctx, moves)
}

// conclude makes the verdict and its evidence.
func (w *work) conclude(s *subject) error {
	j := w.judge(s)
	e := Evidence{Fenced: s.fenced, RequestID: j.RequestID, Why: j.Why}
	if j.Detail != "" {
		e.Why += ": " + j.Detail
	}
	if s.fenced {
		e.FencedAt = s.row.FencedAt
	}
	if s.control != nil {
		e.Control = s.control.JobKey
	}
	for _, l := range []*Look{s.first, s.second} {
		if l == nil {
			continue
		}
		e.Looks = append(e.Looks, l.Answer.Evidence)
		if o := l.Answer.ClockOffset.Seconds(); max(o, -o) > max(e.ClockOffset, -e.ClockOffset) {
			e.ClockOffset = o
		}
	}
	digest, err := e.Digest()
	s.found = Found{
		Queue: w.Settings.Queue, JobKey: s.key.JobKey, Verdict: j.Verdict, At: w.ledgerNow(), Until: j.Until,
		Evidence: e, EvidenceSHA256: digest,
	}
	if s.row != nil {
		s.found.Attempt = s.row.Attempt
	}
	return err
}

// target is the state that a proven outcome moves a row to.
func target(v Verdict) (ledger.State, bool) {
	switch v {
	case Accepted:
		return ledger.Reconciled, true
	case NotAccepted, Rejected:
		return ledger.Failed, true
	default:
		return "", false
	}
}

func (w *work) move(ctx context.Context, ss []*subject) error {
	intents := make([]audit.Record, len(ss))
	changes := make([]ledger.Change, len(ss))
	for i, s := range ss {
		changes[i] = moveOf(s)
		intents[i] = w.auditRecord(actionReconcile, audit.Intent, s)
		intents[i].Transition = transition(ledger.Fenced, changes[i].To)
		intents[i].EvidenceSHA256, intents[i].Reason = s.found.EvidenceSHA256, string(s.found.Verdict)
		if id := s.found.Evidence.RequestID; id != "" {
			intents[i].RequestID = id
		}
	}
	if _, err := w.Log.Append(ctx, intents...); err != nil {
		return err
	}
	crash.At("reconcile.move.intent")
	results := w.Ledger.Apply(ctx, changes)
	crash.At("reconcile.move.ledger")
	return w.moved(context.WithoutCancel(ctx), ss, intents, changes, results)
}

// moveOf resolves every attempt up to the row's by the verdict. The row is not
// made retryable: whether it goes again is for a plan.
func moveOf(s *subject) ledger.Change {
	c := ledger.Change{
		Key: s.key, From: ledger.Fenced, FromAttempt: s.row.Attempt, FromRun: s.row.Run, Attempt: s.row.Attempt,
		Actor: actor, Reason: string(s.found.Verdict) + " " + s.found.EvidenceSHA256,
		RequestID: s.found.Evidence.RequestID, Resolve: ledger.ByVerdict,
	}
	c.To, _ = target(s.found.Verdict)
	if c.To == ledger.Failed {
		c.Effect, c.ErrorClass = ledger.EffectNone, s.row.ErrorClass
	}
	return c
}

func (w *work) moved(ctx context.Context, ss []*subject, intents []audit.Record, changes []ledger.Change, results []ledger.Result) error {
	now := w.reread(ctx, ss)
	outcomes := make([]audit.Record, len(ss))
	for i, s := range ss {
		outcomes[i] = intents[i]
		outcomes[i].Phase = audit.Outcome
		outcomes[i].Result = audit.ResultUnknown
		lk := now[i]
		switch {
		case results[i].Outcome == ledger.Won, lk.Found == ledger.Present && lk.Row.State == changes[i].To:
			outcomes[i].Result = audit.ResultDone
		case lk.Found == ledger.Present:
			outcomes[i].Result = audit.ResultRefused
			outcomes[i].Details = map[string]string{"row": string(lk.Row.State)}
		default:
			outcomes[i].Details = map[string]string{"row": reasonOf(results[i].Err, lk.Err)}
		}
		if lk.Found == ledger.Present {
			s.row = &lk.Row
		}
	}
	if _, err := w.Log.Append(ctx, outcomes...); err != nil {
		return err
	}
	crash.At("reconcile.move.outcome")
	return nil
}
