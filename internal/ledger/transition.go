package ledger

import (
	"fmt"
	"sync"
)

// Party is who makes a transition.
type Party string

// The parties. Application is whoever enqueues; Run is a redrive run.
const (
	Application Party = "application"
	Worker      Party = "worker"
	Reconcile   Party = "reconcile"
	Run         Party = "run"
)

// Transition is one legal move of a row.
type Transition struct {
	From, To State // From is empty for a row that is written first
	By       []Party
	// Least and Most bound by how much the attempt grows.
	Least, Most int
	// LateAccept: the move needs the row's late_accept.
	LateAccept bool
	When       string // in words, as docs/state-machine.md has it
}

// Transitions lists every legal move. docs/state-machine.md holds the same
// table, and a test compares the two.
func Transitions() []Transition {
	return []Transition{
		{"", Queued, []Party{Application}, 1, 1, false, "the job is enqueued, at attempt 1"},
		{Queued, Queued, []Party{Run}, 0, 0, false, "re-queued at the same attempt: the run that queued it no longer lives"},
		{Queued, Sending, []Party{Worker}, 0, 0, false, "claim; before `send_before`, without `late_accept`"},
		{Queued, Fenced, []Party{Reconcile}, 0, 0, false, "an attempt is unresolved and the run that queued it no longer lives"},
		{Queued, Reconciled, []Party{Reconcile, Run}, 0, 0, false, "the provider accepted an earlier attempt"},
		{Queued, Failed, []Party{Worker, Run}, 0, 1, false, "never claimed: found stale, rolled back, or discarded"},
		{Queued, Replaced, []Party{Run}, 0, 0, false, "an edited copy is queued in the same transaction"},
		{Sending, Sent, []Party{Worker}, 0, 0, false, "the provider accepted"},
		{Sending, Failed, []Party{Worker}, 0, 0, false, "proven failure"},
		{Sending, Fenced, []Party{Reconcile}, 0, 0, false, "`send_deadline` has passed"},
		{Sending, Reconciled, []Party{Reconcile, Run}, 0, 0, false, "the provider accepted"},
		{Fenced, Queued, []Party{Run}, 1, 1, false, "replay-safe, or a lifted hold"},
		{Fenced, Reconciled, []Party{Reconcile, Run}, 0, 0, false, "the provider accepted"},
		{Fenced, Failed, []Party{Reconcile, Run}, 0, 1, false, "the provider did not accept, rolled back, or discarded"},
		{Failed, Queued, []Party{Run}, 1, 1, false, "redriven"},
		{Failed, Sending, []Party{Worker}, 1, 1, false, "claim as the next attempt: effect none, retryable, budget left"},
		{Failed, Fenced, []Party{Reconcile}, 0, 0, false, "an attempt is unresolved"},
		{Failed, Reconciled, []Party{Reconcile, Run}, 0, 0, false, "the provider accepted an earlier attempt"},
		{Failed, Failed, []Party{Run}, 1, 1, false, "rolled back under an open intent, or discarded, so that a late re-queue loses"},
		{Failed, Replaced, []Party{Run}, 0, 0, false, "an edited copy is queued in the same transaction"},
		{Sent, Sent, []Party{Run}, 0, 0, false, "a corrected copy with a job key of its own is queued in the same transaction"},
		{Reconciled, Reconciled, []Party{Run}, 0, 0, false, "a corrected copy with a job key of its own is queued in the same transaction"},
		{Sent, Reconciled, []Party{Reconcile, Run}, 0, 0, true, "`late_accept` is set"},
		{Replaced, Reconciled, []Party{Reconcile, Run}, 0, 0, true, "`late_accept` is set"},
	}
}

// Move finds the legal transition between two states.
func Move(from, to State) (Transition, bool) {
	t, ok := moves()[[2]State{from, to}]
	return t, ok
}

// moves are the transitions by their states, made once: every change of a row asks.
var moves = sync.OnceValue(func() map[[2]State]Transition {
	all := map[[2]State]Transition{}
	for _, t := range Transitions() {
		all[[2]State{t.From, t.To}] = t
	}
	return all
})

// Late reports a record that compares nothing: a success or a proven failure
// whose claim was taken away meanwhile.
func (c Change) Late() bool { return c.To == "" }

// Checked returns c with Attempt filled in, or ErrIllegal with the rule that c
// breaks whatever the row says. What depends on the row is the ledger's to
// compare.
func (c Change) Checked() (Change, error) {
	if c.Late() {
		return c.checkedLate()
	}
	t, ok := Move(c.From, c.To)
	if !ok || c.From == "" {
		return c, fmt.Errorf("%w: from %q to %q", ErrIllegal, c.From, c.To)
	}
	if c.Attempt == 0 {
		c.Attempt = c.FromAttempt + t.Least
	}
	if step := c.Attempt - c.FromAttempt; step < t.Least || step > t.Most {
		return c, fmt.Errorf("%w: from %q to %q, attempt %d to %d", ErrIllegal, c.From, c.To, c.FromAttempt, c.Attempt)
	}
	return c, c.checkFields()
}

func (c Change) checkedLate() (Change, error) {
	if c.Attempt == 0 {
		c.Attempt = c.FromAttempt
	}
	proven := c.ErrorClass != "" && c.Effect == EffectNone && c.Resolve == ByWorker
	if !c.LateAccept && !proven {
		return c, fmt.Errorf("%w: a late record is an acceptance or a failure proven to have no effect", ErrIllegal)
	}
	return c, nil
}

func (c Change) checkFields() error {
	switch {
	case c.LateAccept:
		return fmt.Errorf("%w: late_accept is recorded by itself, without a new state", ErrIllegal)
	case c.To == Sending && c.ClaimLife <= 0:
		return fmt.Errorf("%w: a claim needs a claim life above zero", ErrIllegal)
	case c.To == Failed && c.Resolve == ByWorker && c.Effect != EffectNone:
		return fmt.Errorf("%w: a failure resolves its attempt only when its effect is none", ErrIllegal)
	case c.replaces() != (c.Replace != nil):
		return fmt.Errorf("%w: replaced and the row that replaces go together", ErrIllegal)
	case c.Replace != nil && c.Replace.Key.JobKey == c.Key.JobKey:
		return fmt.Errorf("%w: a row cannot replace itself", ErrIllegal)
	}
	return nil
}

// replaces reports that the change queues an edited copy under a key of its own.
func (c Change) replaces() bool { return c.To == Replaced || c.From == c.To && c.To.Committed() }

// The two words of Row.Effect, Attempt.Effect and Change.Effect.
const (
	EffectNone    = "none"
	EffectUnknown = "unknown"
)
