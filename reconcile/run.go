package reconcile

import (
	"context"
	"fmt"
	"time"

	"github.com/redrivectl/redrivectl/audit"
	"github.com/redrivectl/redrivectl/internal/classify"
	"github.com/redrivectl/redrivectl/internal/crash"
	"github.com/redrivectl/redrivectl/internal/job"
	"github.com/redrivectl/redrivectl/internal/ledger"
)

// Request asks for one reconciliation of the queue.
type Request struct {
	// Jobs are the quarantined jobs as a browse found them. BrowseComplete says
	// that they are all; else a row without a copy among them may have one.
	Jobs           []job.Job
	BrowseComplete bool
	// Apply fences rows and moves them by what is found. Without it, or with a
	// read-only ledger, nothing changes and the best no is provisional.
	Apply bool
	// Limit is the most jobs to ask the provider about; 0: all.
	Limit int
	// Only says which of the jobs to ask about; nil: all, and the orphans. The others
	// are still known to have a copy.
	Only func(Assessed) (bool, error)
}

// Progress is where a reconciliation stands.
type Progress struct {
	Step        string // "fence", "first look", "control", "second look", "record"
	Done, Total int
	Found       []Found // verdicts that were kept since the step before
}

// subject is one job or orphan on its way through a reconciliation.
type subject struct {
	key      ledger.Key
	job      *job.Job    // nil: an orphan
	row      *ledger.Row // nil: no row to be had
	standing Standing
	question question
	fenced   bool
	// lost: the row changed under our hands, so nothing is asked about it now.
	lost bool

	first, second *Look
	control       *Control
	found         Found
}

// work is one reconciliation under way.
type work struct {
	*Reconciler
	apply    bool
	now      time.Time     // the ledger's clock at the start
	ledgerIs time.Duration // the ledger's clock minus ours
	assumed  time.Duration // the clock offset that windows allow for, beside the margin
	deaf     bool          // the provider shows records whatever it is asked for
	subjects []*subject
	progress func(Progress)
	controls controls
}

const auditBatch = 100

// Run covers the jobs whose effect is unknown and the ledger's orphans: rows
// sending past their deadline, or left fenced, with no copy among the jobs. It
// returns what it found even with an error. An audit log that cannot be written
// stops it at once, before the next step. A run that was cut short is completed
// by the next one.
func (r *Reconciler) Run(ctx context.Context, req Request, progress func(Progress)) (Summary, error) {
	if progress == nil {
		progress = func(Progress) {}
	}
	w := &work{Reconciler: r, apply: req.Apply && r.canWrite(), progress: progress}
	w.controls = controls{tried: map[ledger.Key]bool{}, group: map[group]*sendsOf{}}
	orphans, err := w.prepare(ctx, req)
	if err == nil {
		err = w.work(ctx)
	}
	sum, sumErr := w.summary(context.WithoutCancel(ctx), req, orphans)
	if err == nil {
		err = sumErr
	}
	return sum, err
}

func (r *Reconciler) canWrite() bool { return r.Ledger != nil && r.Ledger.Capabilities().Writable }

// prepare finds the subjects and returns the orphans among them.
func (w *work) prepare(ctx context.Context, req Request) ([]*subject, error) {
	if err := w.clocks(ctx); err != nil {
		return nil, err
	}
	if w.apply {
		if err := w.closeOpen(ctx); err != nil {
			return nil, err
		}
	}
	as, err := w.Assess(ctx, req.Jobs)
	if err != nil {
		return nil, err
	}
	chosen, err := chosen(as, req.Only)
	if err != nil {
		return nil, err
	}
	w.addJobs(chosen)
	var orphans []*subject
	if req.Only == nil {
		if orphans, err = w.orphans(ctx, as); err != nil {
			return nil, err
		}
	}
	w.subjects = append(w.subjects, orphans...)
	if req.Limit > 0 && len(w.subjects) > req.Limit {
		w.subjects = w.subjects[:req.Limit]
	}
	if w.Provider == nil {
		w.subjects = nil
	}
	return orphans, nil
}

// chosen are the jobs that only lets pass.
func chosen(as []Assessed, only func(Assessed) (bool, error)) ([]Assessed, error) {
	if only == nil {
		return as, nil
	}
	var some []Assessed
	for _, a := range as {
		ok, err := only(a)
		if err != nil {
			return nil, err
		}
		if ok {
			some = append(some, a)
		}
	}
	return some, nil
}

func (w *work) clocks(ctx context.Context) error {
	w.now = w.Now()
	if w.Ledger == nil {
		return nil
	}
	at, err := w.Ledger.Now(ctx)
	if err != nil {
		return fmt.Errorf("read the ledger's clock: %w", err)
	}
	w.ledgerIs, w.now = at.Sub(w.now), at
	return nil
}

// addJobs takes each job once whose outcome is not known, or known and not yet
// in the ledger.
func (w *work) addJobs(as []Assessed) {
	taken := map[string]bool{"": true}
	for _, a := range as {
		if taken[a.Job.JobKey] || !asks(a) {
			continue
		}
		taken[a.Job.JobKey] = true
		s := &subject{key: w.key(a.Job.JobKey), job: &a.Job, standing: a.Input.Standing}
		if row := a.present(); row != nil {
			s.setRow(*row, w.Settings.ClaimLife)
		} else {
			s.question = questionOfJob(a.Job)
		}
		w.subjects = append(w.subjects, s)
	}
}

// asks reports that a look-up would tell something that the ledger does not.
func asks(a Assessed) bool {
	in := a.Input
	switch {
	case a.BoundTo != "", in.Mismatch, in.Standing == Committed, in.Standing == InFlight,
		in.Standing == StandsReplaced, in.Standing == ReplacementSent, in.Standing == Unscoped:
		return false
	case in.Verdict == Rejected && in.Standing == StandsFailed:
		return false
	default:
		return in.Effect == classify.EffectUnknown && in.Standing != NeverClaimed || in.unresolvedInLedger()
	}
}

// unresolvedInLedger leaves verdicts on record aside: one that never reached
// the ledger has to be found again.
func (in Input) unresolvedInLedger() bool {
	return in.Unresolved || in.Standing == SendingPast || in.Standing == StandsFenced
}

func (s *subject) setRow(r ledger.Row, claimLife time.Duration) {
	s.row = &r
	s.fenced = r.State == ledger.Fenced
	s.question = questionOf(r, claimLife)
}

// questionOfJob is all that can be asked where there is no row: the job was not
// sent before it was handed to the queue.
func questionOfJob(j job.Job) question {
	return question{earliest: j.Message.SentAt, quiet: latest(j.Failure.At, j.Message.FirstReceivedAt)}
}

// orphans are the rows that only the ledger knows of. Rows of the given jobs are
// none, whatever their state.
func (w *work) orphans(ctx context.Context, as []Assessed) ([]*subject, error) {
	if w.Ledger == nil || w.Settings.SharedRows {
		return nil, nil
	}
	have := map[string]bool{}
	for _, a := range as {
		have[a.Job.JobKey] = true
	}
	window := ledger.Window{States: []ledger.State{ledger.Sending, ledger.Fenced}}
	if w.Ledger.Capabilities().Scoped {
		window.Consumer = w.Settings.Consumer
	}
	var ss []*subject
	err := w.Ledger.Scan(ctx, window, func(row ledger.Row) error {
		if have[row.JobKey] || !Abandoned(row, w.now, w.Settings.ClaimLife) || CrossesRegion(w.Settings.Region, row.Region) {
			return nil
		}
		s := &subject{key: row.Key, standing: standingByState(row)}
		s.setRow(row, w.Settings.ClaimLife)
		ss = append(ss, s)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("scan the ledger for orphans: %w", err)
	}
	return ss, nil
}

// work runs the steps in the order that makes a no conclusive: nobody can send
// any more, then a look, then a later send is seen, then a second look.
func (w *work) work(ctx context.Context) error {
	if len(w.subjects) == 0 {
		return nil
	}
	if w.apply {
		if err := w.fence(ctx); err != nil {
			return err
		}
	}
	steps := []func(context.Context) error{w.firstLooks, w.findControls, w.secondLooks, w.record}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("reconcile: %w", err)
		}
	}
	return nil
}

// auditRecord is a record about one subject. It names no copy: intents and
// outcomes of a later run, which may hold another copy, must meet.
func (w *work) auditRecord(action string, phase audit.Phase, s *subject) audit.Record {
	rec := w.Who.Record(action)
	rec.Queue, rec.Phase, rec.JobKey = w.Settings.Queue, phase, s.key.JobKey
	if s.row != nil {
		attempt := s.row.Attempt
		rec.Attempt, rec.RequestID, rec.Region = &attempt, s.row.RequestID, s.row.Region
		rec.LedgerRow = LedgerRowName(w.Settings.LedgerName, s.key)
		rec.PayloadSHA256 = s.row.PayloadSHA256
	}
	if j := s.job; j != nil {
		rec.MessageID, rec.Period, rec.SchemaVersion = j.Message.MessageID, j.Period, j.SchemaVersion
		rec.DeploymentID, rec.PayloadSHA256 = j.DeploymentID, j.PayloadSHA256
		if w.Customer != nil && j.CustomerID != "" {
			rec.Customer = w.Customer(j.CustomerID)
		}
	}
	return rec
}

// closeOpen writes outcomes for what an earlier run left open, by what the
// ledger says now. An intent whose row cannot be read stays open.
func (w *work) closeOpen(ctx context.Context) error {
	if w.Open == nil {
		return nil
	}
	open, err := w.Open(ctx, w.Settings.Queue)
	if err != nil {
		return fmt.Errorf("read open intents: %w", err)
	}
	keys := make([]ledger.Key, len(open))
	for i, rec := range open {
		keys[i] = w.key(rec.JobKey)
	}
	var outcomes []audit.Record
	for i, lk := range w.Ledger.Get(ctx, keys) {
		if lk.Found != ledger.Unreadable {
			outcomes = append(outcomes, closing(open[i], lk))
		}
	}
	if len(outcomes) == 0 {
		return nil
	}
	_, err = w.Log.Append(ctx, outcomes...)
	crash.At("reconcile.open.closed")
	return err
}

func closing(intent audit.Record, lk ledger.Lookup) audit.Record {
	rec := intent
	rec.Phase, rec.Step, rec.Result = audit.Outcome, "", audit.ResultSkipped
	rec.Reason = "found by a later run: row is " + string(lk.Found)
	if lk.Found == ledger.Present {
		rec.Reason = "found by a later run: row is " + string(lk.Row.State)
		if intent.Transition != "" && lk.Row.State == targetOf(intent.Transition) {
			rec.Result = audit.ResultDone
		}
	}
	return rec
}

// inBatches calls do for up to auditBatch subjects at a time.
func inBatches(ss []*subject, do func(batch []*subject, done int) error) error {
	for start := 0; start < len(ss); start += auditBatch {
		end := min(start+auditBatch, len(ss))
		if err := do(ss[start:end], end); err != nil {
			return err
		}
	}
	return nil
}
