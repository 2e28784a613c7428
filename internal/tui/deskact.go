package tui

import (
	"context"
	"time"

	"github.com/redrivectl/redrivectl/redrive"
)

// Actor does what the commands do that change something.
type Actor interface {
	// Question is what is asked before an act, in the command's own words. It
	// changes nothing. An error says that the act would be refused, and why.
	Question(ctx context.Context, a Act) (string, error)
	// Do does it, and returns when it is done: for a run, when the run has ended.
	// When ctx ends, a run finishes its batch in flight. Done is told in any case;
	// the error says why it was refused, failed or ended early.
	Do(ctx context.Context, a Act, tell Tell) (Done, error)
}

// Planner tells what a plan would be.
type Planner interface {
	// Draft makes the plan that the form asks for from the last look, and keeps
	// nothing. A reason is not needed for it. Draft.Edit is told in any case.
	Draft(ctx context.Context, f Form) (Draft, error)
	// Plans are those that hold jobs, newest first.
	Plans(ctx context.Context) ([]Plan, error)
	// Plan is what plan show says of one.
	Plan(ctx context.Context, id string) (Plan, error)
}

// Watcher tells how runs stand.
type Watcher interface {
	// Runs are those of the store, newest first.
	Runs(ctx context.Context) ([]Run, error)
	// RunOf is the run of a plan; found is false while it has none.
	RunOf(ctx context.Context, plan string) (r Run, found bool, err error)
}

// Doing is what can be done.
type Doing string

// Each of these is the command of its name.
const (
	DoReconcile Doing = "reconcile" // with --apply
	DoCreate    Doing = "plan create"
	DoApprove   Doing = "approve"
	DoReject    Doing = "reject"
	DoRun       Doing = "run"
	DoPause     Doing = "pause"
	DoResume    Doing = "resume"
	DoPromote   Doing = "resume --promote"
	DoAbort     Doing = "abort"
)

// Act is one wish to change something.
type Act struct {
	Do     Doing
	On     string            // a queue, a plan or a run
	Select redrive.Selection // of DoReconcile
	Form   Form              // of DoCreate
	Items  int               // of DoApprove, as typed
	Reason string
	// Agreed is the question that the person said yes to.
	Agreed string
}

// Done is how an act ended.
type Done struct {
	Act  Act
	Plan string // the plan that was made
	Rows []Row  // what the command would print
	Code int    // the exit code that it would end with
}

// Form asks for a plan. Flags are those of plan create, by name.
type Form struct {
	Queue  string
	Select redrive.Selection
	Flags  map[string]string
}

// Draft is what a plan would be.
type Draft struct {
	Items    int
	Tier     string
	Approved bool // it needs no approval
	Rows     []Row
	Held     []Held
	Edit     string // the command that makes this plan with edited payloads
}

// Held are jobs that need something first.
type Held struct {
	Count int
	Why   string
	Needs string
}

// Plan is a plan as it stands.
type Plan struct {
	ID        string
	Queue     string
	State     string
	Items     int
	Tier      string
	Given     int
	Needed    int
	Approved  bool
	Mine      bool // it waits for the person who asks
	Requester string
	Reason    string
	ExpiresAt time.Time
	Rows      []Row // all that plan show says; empty in a list
}

// Run is a run as it stands.
type Run struct {
	ID      string
	Plan    string
	Queue   string
	State   string // in words
	Lives   bool
	Ended   bool // nobody carries it out, now
	Paused  bool
	AtGate  bool // it waits for a person to promote it
	Planned int
	Left    int
	Rate    float64 // jobs a second, as it may go now; 0: not known
	Started time.Time
	Took    time.Duration
	Rows    []Row
}

// Verdict is what a reconciliation found of one job.
type Verdict struct {
	JobKey  string
	Verdict string
	Because string
}
