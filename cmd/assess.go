package cmd

import (
	"context"
	"slices"

	"github.com/redrivectl/redrivectl/internal/classify"
	"github.com/redrivectl/redrivectl/internal/config"
	"github.com/redrivectl/redrivectl/internal/ledger"
	"github.com/redrivectl/redrivectl/internal/store"
	"github.com/redrivectl/redrivectl/internal/term"
	"github.com/redrivectl/redrivectl/reconcile"
	"github.com/redrivectl/redrivectl/redrive"
)

// knowledge is what assessing needs of the operator's store.
type knowledge interface {
	reconcile.Verdicts
	reconcile.Memory
	reconcile.Holds
	Lives(ctx context.Context, run redrive.RunID) (bool, error)
}

// reading is the store as a command sees it that only looks: it uses what is
// known and learns nothing, so that it works where the store cannot be written
// and where there is none yet.
type reading struct{ store *store.Store }

// SaveVerdicts keeps nothing.
func (reading) SaveVerdicts(context.Context, ...reconcile.Found) error { return nil }

// LatestVerdicts are those on record, if there is a store.
func (r reading) LatestVerdicts(ctx context.Context, queue string, keys []string) (map[string]reconcile.Found, error) {
	if r.store == nil {
		return map[string]reconcile.Found{}, nil
	}
	return r.store.LatestVerdicts(ctx, queue, keys)
}

// Remember keeps nothing.
func (reading) Remember(context.Context, string, []ledger.Row) error { return nil }

// Seen is what was seen before, if there is a store.
func (r reading) Seen(ctx context.Context, name string, keys []ledger.Key) (map[ledger.Key]reconcile.SeenRow, error) {
	if r.store == nil {
		return map[ledger.Key]reconcile.SeenRow{}, nil
	}
	return r.store.Seen(ctx, name, keys)
}

// TriedBefore is what was imported, if there is a store.
func (r reading) TriedBefore(ctx context.Context, payloads []string) (map[string]bool, error) {
	if r.store == nil {
		return map[string]bool{}, nil
	}
	return r.store.TriedBefore(ctx, payloads)
}

// HoldsOf are the manual holds, if there is a store. One that cannot be read is
// an error: a hold that is not seen must not be taken for none.
func (r reading) HoldsOf(ctx context.Context, ids []reconcile.HoldID) (map[reconcile.HoldID]reconcile.ManualHold, error) {
	if r.store == nil {
		return map[reconcile.HoldID]reconcile.ManualHold{}, nil
	}
	return r.store.HoldsOf(ctx, ids)
}

// Lives asks the store, if there is one; without it no run can live.
func (r reading) Lives(ctx context.Context, run redrive.RunID) (bool, error) {
	if r.store == nil {
		return false, nil
	}
	return r.store.Lives(ctx, run)
}

// assessor finds out what may be done with the jobs of a queue.
func (a *app) assessor(q *queue, k knowledge) *reconcile.Reconciler {
	s := reconcile.Settings{
		Queue: q.name, Consumer: q.cfg.Consumer, Region: q.cfg.Region, LedgerName: q.cfg.Ledger,
		ClaimLife: q.cfg.Worker.ClaimLife, MaxPause: q.cfg.Worker.MaxPause,
		ClockMargin: a.cfg.Reconcile.ClockMargin, SecondLookAfter: a.cfg.Reconcile.SecondLookAfter,
		TransportRetries: q.cfg.Worker.TransportRetries,
	}
	s.SharedOrigin, s.SharedRows = a.shares(q)
	if q.cfg.Effects != nil {
		s.Declared = reconcile.ByConfig
	}
	return &reconcile.Reconciler{
		Ledger: q.ledger, Provider: q.provider, Verdicts: k, Memory: k, Holds: k,
		RunLives: func(ctx context.Context, run string) (bool, error) { return k.Lives(ctx, redrive.RunID(run)) },
		Policy:   q.policy, Settings: s, Now: a.now, Sleep: sleep,
	}
}

// shares says what the queue has in common with the others of its ledger: its
// origin, with another consumer; and rows that may be either's, judged by
// another provider or worker.
func (a *app) shares(q *queue) (origin, rows bool) {
	for name, other := range a.cfg.Queues {
		if name == q.name || q.cfg.Ledger == "" || other.Ledger != q.cfg.Ledger {
			continue
		}
		origin = origin || other.Consumer != q.cfg.Consumer && sameOrigin(q.cfg, other)
		alike := other.Provider == q.cfg.Provider && other.Worker == q.cfg.Worker
		rows = rows || !q.apart(other) && !alike
	}
	return origin, rows
}

// sameOrigin: two dead-letter queues behind one source, or one behind both.
func sameOrigin(a, b config.Queue) bool {
	if a.Broker != b.Broker || a.Path != b.Path {
		return false
	}
	return a.DeadLetter == b.DeadLetter ||
		slices.ContainsFunc(a.Sources, func(s string) bool { return slices.Contains(b.Sources, s) })
}

// assessorAlone judges messages by themselves. Nobody has said that whoever
// took them does not retry, so no effect is proven.
func (a *app) assessorAlone(policy *classify.Policy, name string) *reconcile.Reconciler {
	k := reading{}
	return &reconcile.Reconciler{
		Verdicts: k, Memory: k, Holds: k, Policy: policy, Now: a.now, Sleep: sleep,
		RunLives: func(context.Context, string) (bool, error) { return false, nil },
		Settings: reconcile.Settings{Queue: name, TransportRetries: true},
	}
}

// stepper tells progress under one name.
func stepper(p *term.Progress, what string) func(done, total int64) {
	return func(done, total int64) { p.Update(term.Step{What: what, Done: done, Total: total}) }
}
