package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redrivectl/redrivectl/internal/crash"
	"github.com/redrivectl/redrivectl/internal/ledger"
	"github.com/redrivectl/redrivectl/internal/provider"
)

// controlTries is how many later sends are looked up to find one that shows.
const controlTries = 3

// controls are the positive controls that were seen, and the rows that were
// tried and did not show.
type controls struct {
	seen  []seenControl
	tried map[ledger.Key]bool
	group map[group]*sendsOf
}

// group is whose sends can be each other's controls.
type group struct{ account, region string }

// sendsOf is what was learnt of a group, so that thousands of jobs without a
// control do not scan the ledger thousands of times.
type sendsOf struct {
	newest    time.Time // no send of the group was recorded after that
	fruitless int       // scans whose rows did not show
}

const maxFruitless = 20

type seenControl struct {
	Control
	account, region string
	sentAfter       time.Time // its send cannot lie before that
}

// findControls looks, for every no that lacks nothing else, for a send of the
// same account and region that began after the job's attempts had ended, that
// the ledger knows was accepted, and that the provider shows. It runs before
// the second look, because records that caught up only after a look prove
// nothing about it. One control serves all jobs whose attempts ended before it,
// so the latest are served first.
func (w *work) findControls(ctx context.Context) error {
	var need []*subject
	for _, s := range w.asked() {
		if w.judge(s).Why == WhyNoControl {
			need = append(need, s)
		}
	}
	slices.SortStableFunc(need, func(a, b *subject) int { return b.question.quiet.Compare(a.question.quiet) })
	for i, s := range need {
		if err := w.findControl(ctx, s); err != nil {
			return err
		}
		w.progress(Progress{Step: "control", Done: i + 1, Total: len(need)})
	}
	crash.At("reconcile.look.control")
	return nil
}

func (w *work) findControl(ctx context.Context, s *subject) error {
	if s.control = w.controls.find(s); s.control != nil {
		return nil
	}
	g, err := w.sendsLike(ctx, s)
	if err != nil || !g.newest.After(s.question.quiet) || g.fruitless >= maxFruitless {
		return err
	}
	rows, err := w.laterSends(ctx, s)
	if err != nil {
		return err
	}
	g.fruitless++
	for _, row := range rows {
		if w.controls.tried[row.Key] {
			continue
		}
		w.controls.tried[row.Key] = true
		if w.tryControl(ctx, row) {
			s.control = w.controls.find(s)
			return nil
		}
	}
	return nil
}

func (w *work) sendsLike(ctx context.Context, s *subject) (*sendsOf, error) {
	of := group{s.row.Account, s.row.Region}
	if g := w.controls.group[of]; g != nil {
		return g, nil
	}
	g := &sendsOf{}
	window := w.sentLike(s)
	window.NewestFirst = true
	err := w.Ledger.Scan(ctx, window, func(row ledger.Row) error {
		if row.Region != s.row.Region || row.Account != s.row.Account {
			return nil
		}
		g.newest = row.UpdatedAt
		return errEnough
	})
	if err != nil && !errors.Is(err, errEnough) {
		return nil, fmt.Errorf("scan the ledger for the newest send: %w", err)
	}
	w.controls.group[of] = g
	return g, nil
}

// sentLike selects the sent rows of the subject's account and region.
func (w *work) sentLike(s *subject) ledger.Window {
	window := ledger.Window{States: []ledger.State{ledger.Sent}, Region: s.row.Region, Account: s.row.Account}
	if w.Ledger.Capabilities().Scoped {
		window.Consumer = w.Settings.Consumer
	}
	return window
}

func (c *controls) find(s *subject) *Control {
	for _, k := range c.seen {
		if k.account == s.row.Account && k.region == s.row.Region && !k.sentAfter.Before(s.question.quiet) {
			return &k.Control
		}
	}
	return nil
}

var errEnough = errors.New("enough rows")

// laterSends are the first few that follow the subject's attempts: being the
// oldest that qualify, they are the likeliest to lie beyond the delay.
func (w *work) laterSends(ctx context.Context, s *subject) ([]ledger.Row, error) {
	window := w.sentLike(s)
	window.UpdatedAfter = s.question.quiet
	var rows []ledger.Row
	err := w.Ledger.Scan(ctx, window, func(row ledger.Row) error {
		if row.Region != s.row.Region || row.Account != s.row.Account || sentAfter(row).Before(s.question.quiet) {
			return nil
		}
		if rows = append(rows, row); len(rows) == controlTries {
			return errEnough
		}
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		return nil, fmt.Errorf("scan the ledger for a later send: %w", err)
	}
	return rows, nil
}

// sentAfter is a time that a sent row's request cannot lie before.
func sentAfter(row ledger.Row) time.Time {
	if !row.ClaimedAt.IsZero() {
		return row.ClaimedAt
	}
	return row.CreatedAt
}

// tryControl looks a sent row up in the way the job was, and keeps it when the
// provider shows it as accepted.
func (w *work) tryControl(ctx context.Context, row ledger.Row) bool {
	s := &subject{key: row.Key, row: &row}
	s.question = question{requestID: row.RequestID, earliest: sentAfter(row)}
	look := w.lookup(ctx, []provider.Send{w.send(s)})[0]
	for _, h := range look.Answer.Hits {
		if look.Answer.Err == nil && h.JobKey == row.JobKey && h.Status == provider.Accepted {
			w.controls.seen = append(w.controls.seen, seenControl{
				Control: Control{JobKey: row.JobKey, SeenAt: w.ledgerNow()},
				account: row.Account, region: row.Region, sentAfter: sentAfter(row),
			})
			return true
		}
	}
	return false
}
