package redrive

import (
	"context"
	"fmt"
	"time"

	"github.com/redrivectl/redrivectl/audit"
)

// WishKind is what a person can ask of a run.
type WishKind string

// The kinds of wishes. A pause holds until it is lifted; an abort is for good.
const (
	WishPause WishKind = "pause"
	WishAbort WishKind = "abort"
)

// Steps of the records about what was asked of a run, and what it made of that.
const (
	stepAskPause  = "ask_pause"
	stepAskAbort  = "ask_abort"
	stepLiftPause = "lift_pause"
	stepPaused    = "paused"
	stepContinued = "continued"
)

// Wish is what a person asked of a run, from any terminal that shares the store.
// The zero Wish asks for nothing.
type Wish struct {
	Run    RunID
	Kind   WishKind
	Person string
	Reason string
	At     time.Time
}

// Wishes keeps what is asked of runs. Each method writes its record in the same
// transaction, completed with the run's plan and queue.
type Wishes interface {
	// LoadRun finds a run by a unique prefix of its ID.
	LoadRun(ctx context.Context, prefix string) (RunRecord, error)
	// SaveWish keeps what is asked, in place of what was asked before. It is
	// ErrRefused for a run that is finished or aborted, and for a pause of one
	// that does not live or is to be aborted.
	SaveWish(ctx context.Context, w Wish, rec audit.Record) (RunRecord, error)
	// LiftPause takes the pause of a living run back. It is ErrRefused when the
	// run does not live, or when no pause is asked of it.
	LiftPause(ctx context.Context, run RunID, rec audit.Record) (RunRecord, error)
	// Promote lets a run go on whose gate is inconclusive. It is ErrRefused for any
	// other, for one that was promoted already, and for one that is over or to be
	// aborted.
	Promote(ctx context.Context, run RunID, rec audit.Record) (RunRecord, error)
}

// Controller asks things of runs that another process carries out.
type Controller struct {
	Runs Wishes
	audit.Who
	Now func() time.Time
}

// Ask keeps a wish for the run with this prefix. The run heeds it before its next
// batch; one that does not live is not changed by it, but will be when it is
// resumed. Results are as SaveWish's.
func (c *Controller) Ask(ctx context.Context, prefix string, kind WishKind, reason string) (RunRecord, error) {
	r, err := c.Runs.LoadRun(ctx, prefix)
	if err != nil {
		return r, fmt.Errorf("load run %s: %w", prefix, err)
	}
	w := Wish{Run: r.ID, Kind: kind, Person: c.Actor.Name, Reason: reason, At: c.Now()}
	step := stepAskPause
	if kind == WishAbort {
		step = stepAskAbort
	}
	return c.Runs.SaveWish(ctx, w, controlRecord(c.Who, step, reason))
}

// Lift takes the pause of a living run back. The reason may be empty: that the
// pause is over is one. Results are as LiftPause's.
func (c *Controller) Lift(ctx context.Context, run RunID, reason string) (RunRecord, error) {
	return c.Runs.LiftPause(ctx, run, controlRecord(c.Who, stepLiftPause, reason))
}

// Promote lets a run go on whose gate is inconclusive, by a person, for a reason. A
// run that lives goes on by itself. Results are as Wishes.Promote's.
func (c *Controller) Promote(ctx context.Context, run RunID, reason string) (RunRecord, error) {
	return c.Runs.Promote(ctx, run, controlRecord(c.Who, StepPromote, reason))
}

func controlRecord(by audit.Who, step, reason string) audit.Record {
	rec := by.Record(actionRun)
	rec.Phase, rec.Step, rec.Result, rec.Reason = audit.Outcome, step, audit.ResultDone, reason
	return rec
}
