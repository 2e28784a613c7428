package tui

import (
	"context"
	"time"

	"github.com/redrivectl/redrivectl/redrive"
)

// Desk is all that can be asked of the engine. Each method is one wish, and does
// what the command of the same purpose does, by the same function. Methods may be
// called from several goroutines; each honours ctx and gives back what it holds
// before it returns. Texts are masked as the commands mask them, and not yet
// cleaned: the screen cleans what it takes in.
type Desk interface {
	Looker
	Reader
	Planner
	Actor
	Watcher
}

// Looker tells what is quarantined.
type Looker interface {
	// Queues describes the configured queues. It looks at no message.
	Queues(ctx context.Context) ([]Queue, error)
	// Look looks at a queue as list does, and keeps the look as list does. On some
	// brokers that counts as a receive; Queue.LookCounts says so beforehand.
	Look(ctx context.Context, queue string, tell Tell) (Look, error)
	// Assess is the last look again, with what ledger, store and policy say of its
	// jobs now. No queue is looked at.
	Assess(ctx context.Context, queue string) (Look, error)
	// Select names, by Job.ID, the jobs of the last look that a plan with this
	// selection would be made of. A fault in Where is a *redrive.WhereError.
	Select(ctx context.Context, queue string, sel redrive.Selection) (map[string]bool, error)
}

// Reader tells all that is known of one job, named by Job.ID.
type Reader interface {
	// Show reads the ledger, the store and, where the content was not kept from the
	// last look, the queue again: Content.LookAgain decides that.
	Show(ctx context.Context, queue, id string, as Content) (Sheet, error)
	// Timeline gathers what every source knows of the job, oldest first.
	Timeline(ctx context.Context, queue, id string) ([]Entry, error)
}

// Tell is told now and then how far some work has come. It is quick, and may be
// called from any goroutine.
type Tell func(Step)

// Step is how far some work has come.
type Step struct {
	What  string
	Done  int64
	Total int64 // 0: not known
	// Note is news for the person; the other fields are then empty.
	Note string
	// Verdicts are those that a reconciliation found since the step before.
	Verdicts []Verdict
}

// Queue is what the broker says of a queue without a look.
type Queue struct {
	Name       string
	Broker     string
	Depth      int64 // visible, in flight and delayed
	Exact      bool
	OldestAt   time.Time     // zero: none, or not told
	Retention  time.Duration // 0: for ever
	LookCounts bool
	Failed     string // why nothing could be told; empty: it could
}

// Look is what one look at a queue found.
type Look struct {
	Queue      string
	Broker     string
	At         time.Time
	Complete   bool
	Why        string // why it is not complete
	Exact      bool   // how Total is counted
	Total      int64
	LookCounts bool // this look counted as a receive
	Classes    []Class
	Jobs       []Job // in the broker's order
}

// Class is a failure class with the jobs of it.
type Class struct {
	Name        string
	Disposition string
	Effect      string
	Owner       string
	Runbook     string
	Count       int
	OldestAt    time.Time // zero: not known
	ExpiresAt   time.Time // when the first of its copies expires; zero: never, or not known
}

// Job is one copy as a list shows it. ID is the copy's own identity, which stays
// with it from look to look; the four IDs are apart from each other.
type Job struct {
	ID        string
	JobKey    string
	LedgerRow string
	MessageID string
	RequestID string

	Class       string
	Effect      string
	Disposition string
	Action      string
	Needs       string
	Reason      string
	Ledger      string // the row's state
	Verdict     string
	Region      string
	Schema      string
	Receives    int
	At          time.Time // when it failed, else when it was sent; zero: not known
	ExpiresAt   time.Time // zero: never, or not known

	ask string // Name as the desk gave it, to ask by
}

// Name is what the job can be asked for by.
func (j *Job) Name() string {
	if j.JobKey != "" {
		return j.JobKey
	}
	return j.MessageID
}

// Content says in what form a payload is wanted, and what may be done for it.
type Content struct {
	Form      string // "json", "text", "hex"; empty: what suits it
	LookAgain bool   // look at the queue again if the content was not kept
	// Reveal shows secrets as they are. That is recorded, with the reason, before
	// anything is shown.
	Reveal bool
	Reason string
}

// Sheet is all that is known of one job.
type Sheet struct {
	ID       string
	Sections []Section
	Payload  Payload
}

// Section answers one question about a job, line by line.
type Section struct {
	Title string
	Rows  []Row
}

// Row is one thing that is known; Name is empty where it goes on from the row before.
type Row struct{ Name, Value string }

// Payload is a job's content, rendered. Lines end in "\n".
type Payload struct {
	Form     string
	Text     string
	Bytes    int
	Cut      bool
	Masked   bool   // something was hidden
	Revealed bool   // nothing was
	Missing  string // why there is none to show; empty: there is
}

// Entry is one thing that happened to a job.
type Entry struct {
	At     time.Time
	Clock  string // by whose clock
	Source string
	What   string
}
