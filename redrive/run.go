package redrive

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redrivectl/redrivectl/audit"
	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/classify"
	"github.com/redrivectl/redrivectl/internal/crash"
	"github.com/redrivectl/redrivectl/internal/job"
	"github.com/redrivectl/redrivectl/internal/ledger"
	"github.com/redrivectl/redrivectl/reconcile"
)

// Assessor says everything that is known of jobs, with the action that the
// decision table gives under a plan's lifts. It answers job for job; what it
// cannot find out is a hold, never a guess. Its error means that nothing could
// be assessed at all.
type Assessor interface {
	Assess(ctx context.Context, jobs []job.Job, l Lifts) ([]reconcile.Assessed, error)
}

// Digests are the policy and settings in force, lower-case hex SHA-256.
type Digests struct {
	Policy   string
	Settings string
}

// Runner carries out approved plans on one dead-letter queue.
type Runner struct {
	Broker     broker.Broker
	Ledger     ledger.Ledger // nil: the queue has none
	LedgerName string        // as configured
	Plans      Plans
	Runs       Runs
	Rollbacks  Rollbacks // for Rollback, and for what was run without approvals before
	Archive    Archive
	Assess     Assessor
	// Decode reads a message as the planner did.
	Decode func(broker.Message) job.Job

	// Current are the digests that a run begins with. InForce tells them anew before
	// each batch, so that a change ends the run; nil: they cannot change.
	Current Digests
	InForce func(context.Context) (Digests, error)
	Persons
	// Owner is who owns the jobs of a class, as the policy says; empty: nobody.
	// It goes with what is archived.
	Owner func(classify.Class) string

	audit.Who
	Reason   string // why a run is resumed; empty: the plan's
	NewRunID func() RunID
	Now      func() time.Time
	// Sleep waits, or returns ctx's error when ctx ends first.
	Sleep func(ctx context.Context, d time.Duration) error
	// Ticks fires the heartbeat; stop ends it.
	Ticks func(d time.Duration) (ticks <-chan time.Time, stop func())

	LeaseTTL      time.Duration // of the run's lease on the queue
	DeliveryLease time.Duration // of each received copy
	EmptyTries    int           // receives without anything new before what is open counts as gone
	EmptyWait     time.Duration // between two of them
	Workers       int           // batches in flight; an ordered queue always has one

	// WaitAtGate: where the gate is inconclusive the run waits, as paused, for a
	// person to promote it; else it ends as paused, with an UndecidedError.
	WaitAtGate bool
	// Observing is told of each look at the canary, of the verdict, and when the run
	// waits for a person and goes on; nil: nobody listens.
	Observing func(Observation)
	// Begun is told how many jobs the plan has, before the first batch; nil: nobody
	// listens.
	Begun func(planned int)
	// Progress is told after every batch; nil: nobody listens.
	Progress func(Report)
	// Slowed is told that the run lowered its rate, since the broker or the provider
	// asked for it; nil: nobody listens.
	Slowed func(Pace)
	// Notice is told that the run is paused, and, with the zero Wish, that it goes
	// on; nil: nobody listens.
	Notice func(Wish)
	// Orphans takes the outcomes that the log could not take any more, so that
	// they can at least be printed. It must not fail.
	Orphans func([]audit.Record)
}

// Ended is how a run, or a part of one between two starts, ended.
type Ended struct {
	Run           RunID
	Plan          PlanID
	State         RunState
	Report        Report
	BreakGlass    string // why it went without the approvals that it needs; empty: it did not
	Gate          GateState
	RatePerSecond float64 // as lowered by throttling
	Pace          Pace
	Duration      time.Duration
}

// Run begins the plan's one run and carries it out. The plan is found by a
// unique prefix. It returns what was done in any case; the error says why the
// run ended early: ErrRefused (never begun, expired, revoked), ErrGate,
// audit.ErrNotWritable, audit.ErrFenced, ctx's, or a failure.
func (r *Runner) Run(ctx context.Context, prefix string) (Ended, error) {
	p, err := r.Plans.OpenPlan(ctx, prefix)
	if err != nil {
		return Ended{}, fmt.Errorf("load plan %s: %w", prefix, err)
	}
	return r.RunOpened(ctx, p)
}

// RunOpened is Run of a plan that is open already, whose jobs it closes.
func (r *Runner) RunOpened(ctx context.Context, opened Frozen) (Ended, error) {
	s, err := r.started(ctx, opened)
	if err != nil {
		return Ended{}, errors.Join(err, opened.Items.Close())
	}
	return s.whole(ctx, func(ctx context.Context) error { return s.rest(ctx) })
}

// started begins the plan's run. The plan that runs is the one that was checked
// as the run was made.
func (r *Runner) started(ctx context.Context, opened Frozen) (*session, error) {
	rec, err := r.startRecord(ctx, opened, r.NewRunID(), stepStart)
	if err != nil {
		return nil, err
	}
	check := func(p Frozen, as []Approval) error {
		err := r.mayBegin(p, as)
		if err == nil && glassOf(p, as, r.Now(), r.Persons) != "" {
			err = glassWithin(ctx, r.Rollbacks, p, r.Persons.Alone, r.Now())
		}
		return err
	}
	b := r.begin(opened.ID, RunID(rec.Run))
	b.Opened = &opened
	p, lease, err := r.Runs.Begin(ctx, b, check, rec)
	if err != nil {
		return nil, err // it names the plan, or whoever was first
	}
	crash.At("run.0.begun")
	s := r.newSession(p, lease, nil, Pace{})
	s.glass = rec.Details[audit.DetailBreakGlass]
	return s, nil
}

func (r *Runner) begin(id PlanID, run RunID) Begin {
	return Begin{Plan: id, Run: run, Holder: r.Actor.Name + "@" + r.Host, TTL: r.LeaseTTL, Now: r.Now()}
}

func (r *Runner) startRecord(ctx context.Context, p Frozen, run RunID, step string) (audit.Record, error) {
	rec := r.runRecord(actionRun, run, p.ID, p.Queue)
	rec.Phase, rec.Step, rec.Result, rec.Reason = audit.Outcome, step, audit.ResultDone, p.Reason
	if r.Solo != "" {
		rec.Details["solo"] = r.Solo
	}
	why, err := r.glass(ctx, p)
	if why != "" {
		rec.Details[audit.DetailBreakGlass] = why
	}
	return rec, err
}

// whole runs the body under heartbeat and ends the run, whatever becomes of it.
func (s *session) whole(ctx context.Context, body func(context.Context) error) (Ended, error) {
	started := s.Now()
	if s.Begun != nil {
		s.Begun(s.plan.Items.Len())
	}
	err := s.beating(ctx, func(ctx context.Context) error {
		err := s.afterAbort(ctx, body(ctx))
		if err == nil {
			err = s.tellPace(ctx, true)
		}
		return err
	})
	crash.At("run.7.ending")
	state, err := s.finish(context.WithoutCancel(ctx), err)
	err = errors.Join(err, s.plan.Items.Close())
	return Ended{
		Run: s.run, Plan: s.id, State: state, Report: s.tracker.report(), Gate: s.gate,
		BreakGlass: s.glass, RatePerSecond: s.limiter.rate(), Pace: s.pacer.pace(), Duration: s.Now().Sub(started),
	}, err
}

// beating runs the body while the lease is kept.
func (s *session) beating(ctx context.Context, body func(context.Context) error) error {
	beating, stop := context.WithCancel(context.WithoutCancel(ctx))
	ticks, stopTicks := s.Ticks(s.LeaseTTL / 3)
	ended := make(chan struct{})
	go func() { defer close(ended); s.lease.beat(beating, ticks) }()
	defer func() {
		stop()
		stopTicks()
		<-ended
	}()
	return body(ctx)
}

// finish releases what is held and closes the run. A run whose lease is
// another's closes nothing; one with open intents is interrupted, never
// finished, so that resume can settle them.
func (s *session) finish(ctx context.Context, err error) (RunState, error) {
	s.releaseAside(ctx)
	if errors.Is(err, audit.ErrFenced) {
		return RunInterrupted, err
	}
	open, openErr := s.Runs.OpenIntents(ctx, s.run)
	if openErr != nil {
		return RunFailed, errors.Join(err, fmt.Errorf("open intents of run %s: %w", s.run, openErr))
	}
	state := stateOf(err, len(open) > 0)
	report := s.tracker.report()
	if endErr := s.Runs.End(ctx, s.lease.current(), state, report, s.endRecord(state, report)); endErr != nil {
		return RunFailed, errors.Join(err, fmt.Errorf("end run %s: %w", s.run, endErr))
	}
	crash.At("run.7.ended")
	return state, err
}

func stateOf(err error, open bool) RunState {
	var stopped *StoppedError
	var undecided *UndecidedError
	switch {
	case errors.As(err, &undecided):
		return RunPaused
	case err == nil && !open:
		return RunFinished
	case err == nil, errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return RunInterrupted
	case errors.As(err, &stopped) && !open:
		return RunAborted
	case errors.As(err, &stopped):
		return RunInterrupted
	default:
		return RunFailed
	}
}
