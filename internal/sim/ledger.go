package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/redrivectl/redrivectl/internal/ledger"
)

// rows is the application's ledger, in memory. It keeps what
// internal/ledger/ledgertest asks of one, which a test of this package shows.
type rows struct {
	now       func() time.Time
	caps      ledger.Capabilities
	consumer  string // of a key that names none
	byKey     map[ledger.Key]*row
	order     []ledger.Key
	renders   map[ledger.Key][]byte
	unanswers map[ledger.Key]bool // rows that cannot be decoded
}

type row struct {
	ledger.Row
	touched int // in the order of changes
}

var errExists = errors.New("ledger has this row already")

func newRows(now func() time.Time, consumer string) *rows {
	return &rows{
		now: now, consumer: consumer, byKey: map[ledger.Key]*row{}, renders: map[ledger.Key][]byte{}, unanswers: map[ledger.Key]bool{},
		caps: ledger.Capabilities{
			Writable: true, Scoped: true, History: true, SendBefore: true, PayloadSHA256: true, Replaces: true,
			MaxBatch: 500, RowWritten: ledger.AtEnqueue,
		},
	}
}

func (l *rows) key(k ledger.Key) ledger.Key {
	if k.Consumer == "" {
		k.Consumer = l.consumer
	}
	return k
}

func plain(k ledger.Key) bool {
	s := k.JobKey + k.Consumer
	return k.JobKey != "" && utf8.ValidString(s) && !strings.ContainsRune(s, 0)
}

func (l *rows) insert(n ledger.NewRow, run string, before time.Time) error {
	k := l.key(n.Key)
	if !plain(k) {
		return fmt.Errorf("ledger key %q is no plain text", k.JobKey)
	}
	if l.byKey[k] != nil {
		return fmt.Errorf("job key %q: %w", k.JobKey, errExists)
	}
	now := l.now()
	r := &row{Row: ledger.Row{
		Key: k, State: ledger.Queued, Attempt: 1, Run: run, Subject: n.Subject, Version: n.Version, PayloadSHA256: n.PayloadSHA256,
		Region: n.Region, Account: n.Account, CustomerID: n.CustomerID, CreatedAt: now, UpdatedAt: now, SendBefore: before,
		Attempts: []ledger.Attempt{},
	}, touched: len(l.order)}
	r.Events = append(r.Events, ledger.Event{At: now, Actor: n.Actor, To: ledger.Queued, Attempt: 1, Run: run})
	l.byKey[k], l.order = r, append(l.order, k)
	return nil
}

// read is the row as an answer has it.
func (l *rows) read(r *row, events bool) ledger.Row {
	out := r.Row
	out.Attempts, out.Events = slices.Clone(r.Attempts), nil
	if events {
		out.Events = slices.Clone(r.Events)
	}
	for _, k := range l.order {
		o := l.byKey[k]
		if k.Consumer == r.Consumer && o.Subject == r.Subject && r.Subject != "" && o.State.Committed() && newer(o.Version, r.Version) {
			out.NewerSent = true
		}
	}
	return out
}

func newer(a, b string) bool {
	x, err := strconv.Atoi(a)
	y, err2 := strconv.Atoi(b)
	return err == nil && err2 == nil && x > y
}

var errUnreadable = errors.New("the row cannot be decoded")

func (l *rows) get(k ledger.Key) ledger.Lookup {
	key := l.key(k)
	switch r := l.byKey[key]; {
	case !plain(k) || l.unanswers[key]:
		return ledger.Lookup{Found: ledger.Unreadable, Row: ledger.Row{Key: key}, Err: errUnreadable}
	case r == nil:
		return ledger.Lookup{Found: ledger.Missing}
	default:
		return ledger.Lookup{Found: ledger.Present, Row: l.read(r, false)}
	}
}

// apply is one compare-and-set.
func (l *rows) apply(c ledger.Change) ledger.Result {
	made, err := c.Checked()
	if err == nil && !plain(c.Key) {
		err = fmt.Errorf("ledger key %q is no plain text", c.Key.JobKey)
	}
	out := ledger.Result{Outcome: ledger.Lost, Err: err}
	if err == nil && l.change(made) {
		out = ledger.Result{Outcome: ledger.Won}
	}
	if c.Unread && out.Outcome == ledger.Won {
		return out
	}
	lk := l.get(c.Key)
	out.Row = lk.Row
	if lk.Found == ledger.Missing && out.Err == nil {
		out.Err = ledger.ErrMissing
	}
	return out
}

func (l *rows) change(c ledger.Change) bool {
	r := l.byKey[l.key(c.Key)]
	if r == nil || !r.matches(c, l.now()) || c.Replace != nil && l.byKey[l.key(c.Replace.Key)] != nil {
		return false
	}
	if c.Replace != nil && l.insert(*c.Replace, c.Run, c.SendBefore) != nil {
		return false
	}
	before := r.State
	r.set(c, l.now())
	l.touch(r)
	r.record(c, before, l.now())
	return true
}

func (l *rows) touch(r *row) {
	for _, k := range l.order {
		r.touched = max(r.touched, l.byKey[k].touched+1)
	}
}

// matches is what the change compares, and what the move asks beyond that.
func (r *row) matches(c ledger.Change, now time.Time) bool {
	if c.Late() {
		return true
	}
	move, _ := ledger.Move(c.From, c.To)
	switch {
	case r.State != c.From || r.Attempt != c.FromAttempt || c.From == ledger.Queued && r.Run != c.FromRun:
		return false
	case move.LateAccept && !r.LateAccept, c.To == ledger.Replaced && r.LateAccept:
		return false
	case c.To == ledger.Fenced && c.From == ledger.Sending:
		return !now.Before(r.SendDeadline)
	case c.To != ledger.Sending:
		return true
	case r.LateAccept || !r.SendBefore.IsZero() && !now.Before(r.SendBefore):
		return false
	default:
		return c.From != ledger.Failed || r.Retryable && r.Effect == ledger.EffectNone
	}
}

func (r *row) set(c ledger.Change, now time.Time) {
	r.UpdatedAt = now
	r.LateAccept = r.LateAccept || c.LateAccept
	if c.RequestID != "" {
		r.RequestID = c.RequestID
	}
	if c.Replace != nil {
		r.ReplacedBy = c.Replace.Key.JobKey
	}
	if c.Late() {
		return
	}
	if c.Reason != "" {
		r.Reason = c.Reason
	}
	r.State, r.Attempt = c.To, c.Attempt
	r.setTo(c, now)
}

// setTo is what only one new state sets.
func (r *row) setTo(c ledger.Change, now time.Time) {
	switch c.To {
	case ledger.Sending:
		r.ClaimedAt, r.SendDeadline, r.FencedAt = now, now.Add(c.ClaimLife), time.Time{}
		if !r.SendBefore.IsZero() && r.SendBefore.Before(r.SendDeadline) {
			r.SendDeadline = r.SendBefore
		}
	case ledger.Queued:
		r.Run, r.SendBefore = c.Run, c.SendBefore
	case ledger.Fenced:
		if r.FencedAt.IsZero() {
			r.FencedAt = now
		}
	case ledger.Failed:
		r.ErrorClass, r.Effect, r.Retryable = c.ErrorClass, c.Effect, c.Retryable
		if c.Run != "" {
			r.Run = c.Run
		}
	}
}

// record keeps the change in the history, and folds it into the attempts.
func (r *row) record(c ledger.Change, before ledger.State, now time.Time) {
	r.Events = append(r.Events, ledger.Event{
		At: now, Actor: c.Actor, From: before, To: r.State, Attempt: c.Attempt, Run: c.Run,
		Reason: c.Reason, ErrorClass: c.ErrorClass, RequestID: c.RequestID,
	})
	if c.To == ledger.Sending {
		r.Attempts = append(r.Attempts, ledger.Attempt{Number: c.Attempt, ClaimedAt: now, SendDeadline: r.SendDeadline})
		return
	}
	for i := range r.Attempts {
		a := &r.Attempts[i]
		own := a.Number == c.Attempt
		if own {
			a.RequestID, a.ErrorClass, a.Effect = orElse(c.RequestID, a.RequestID), orElse(c.ErrorClass, a.ErrorClass), orElse(c.Effect, a.Effect)
		}
		if covers := own || c.Resolve == ledger.ByVerdict && a.Number <= c.Attempt; covers && a.Resolution == ledger.Unresolved {
			a.Resolution = c.Resolve
		}
	}
}

func orElse(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// scan yields the rows of a window in the order of their last change.
func (l *rows) scan(w ledger.Window, each func(ledger.Row) error) error {
	rs := make([]*row, 0, len(l.order))
	for _, k := range l.order {
		if l.unanswers[k] {
			return errUnreadable
		}
		if r := l.byKey[k]; r.in(w) {
			rs = append(rs, r)
		}
	}
	slices.SortFunc(rs, func(a, b *row) int {
		if w.NewestFirst {
			a, b = b, a
		}
		return a.touched - b.touched
	})
	for i, r := range rs {
		if w.Limit > 0 && i == w.Limit {
			return nil
		}
		if err := each(l.read(r, false)); err != nil {
			return err
		}
	}
	return nil
}

func (r *row) in(w ledger.Window) bool {
	differ := func(want, have string) bool { return want != "" && want != have }
	switch {
	case len(w.States) > 0 && !slices.Contains(w.States, r.State):
		return false
	case differ(w.Consumer, r.Consumer) || differ(w.Region, r.Region) || differ(w.Account, r.Account):
		return false
	case !w.UpdatedAfter.IsZero() && !r.UpdatedAt.After(w.UpdatedAfter):
		return false
	default:
		return w.DeadlineBefore.IsZero() || !r.SendDeadline.IsZero() && r.SendDeadline.Before(w.DeadlineBefore)
	}
}

// rendering and saveRendering keep what was rendered: of two the first wins.
func (l *rows) rendering(_ context.Context, k ledger.Key) []byte { return l.renders[l.key(k)] }

func (l *rows) saveRendering(k ledger.Key, content []byte) []byte {
	k = l.key(k)
	if l.renders[k] == nil {
		l.renders[k] = content
	}
	return l.renders[k]
}
