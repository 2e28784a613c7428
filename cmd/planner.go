package cmd

import (
	"context"
	"fmt"

	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/classify"
	"github.com/redrivectl/redrivectl/internal/job"
	"github.com/redrivectl/redrivectl/internal/store"
	"github.com/redrivectl/redrivectl/internal/term"
	"github.com/redrivectl/redrivectl/redrive"
)

// maxAhead bounds what is set aside for a queue by its own count, which can be
// wrong.
const maxAhead = 1_000_000

// allJobs reads the whole queue, and keeps of each message all but its content.
// each sees every job before that.
func (a *app) allJobs(ctx context.Context, q *queue, each func(job.Job)) ([]job.Job, broker.Completeness, error) {
	d, err := q.describe(ctx)
	if err != nil {
		return nil, broker.Completeness{}, err
	}
	jobs := make([]job.Job, 0, min(d.Depth.Total(), maxAhead)) // growing would cost as much again
	p := a.progress()
	c, err := q.broker.Browse(ctx, 0, func(m broker.Message) error {
		j := q.decode(m)
		each(j)
		jobs = append(jobs, j.WithoutContent())
		p.Update(term.Step{What: "looking at " + q.name, Done: int64(len(jobs))})
		return nil
	})
	if err != nil {
		return nil, c, fmt.Errorf("look at %s: %w", q.name, err)
	}
	return jobs, c, nil
}

func (a *app) planner(q *queue, st *store.Store) (*redrive.Planner, error) {
	who, customer, err := a.signs(st)
	if err != nil {
		return nil, err
	}
	shipped, err := a.shipped(q)
	if err != nil {
		return nil, err
	}
	limits := q.policy.Limits()
	return &redrive.Planner{
		Plans: st, Assess: a.judge(q, st), Who: who, Now: a.now, Nonce: randomHex,
		Customer: customer, Shipped: shipped, RedriveCap: &limits.RedriveCap, SelfMax: &limits.SelfMax,
	}, nil
}

// shipped are the digests of policy and settings that count as approved because
// they make no claim of the user's own.
func (a *app) shipped(q *queue) (map[string]bool, error) {
	policy, err := classify.Default()
	if err != nil {
		return nil, err
	}
	digests, err := a.digests(q)
	if err != nil {
		return nil, err
	}
	return map[string]bool{policy.SHA256(): true, digests.Settings: a.cfg.ShippedSettings(q.name)}, nil
}

// judge decides under a plan's lifts, from what ledger, provider and store say.
func (a *app) judge(q *queue, k knowledge) redrive.Judge {
	return redrive.Judge{
		Facts: a.assessor(q, k),
		Disposition: func(c classify.Class) (classify.Disposition, bool) {
			return q.policy.Of(c, "claimed").Disposition, q.policy.Has(c)
		},
		References: references{a.storage()},
	}
}

func (a *app) digests(q *queue) (redrive.Digests, error) {
	settings, err := a.cfg.SettingsSHA256(q.name)
	if err != nil {
		return redrive.Digests{}, fmt.Errorf("digest the settings of %s: %w", q.name, err)
	}
	return redrive.Digests{Policy: q.policy.SHA256(), Settings: settings}, nil
}

func (a *app) queueFacts(ctx context.Context, q *queue) (redrive.QueueFacts, error) {
	d, err := q.describe(ctx)
	if err != nil {
		return redrive.QueueFacts{}, err
	}
	caps := q.broker.Capabilities()
	f := redrive.QueueFacts{
		Name: q.name, Entity: d.Queue, Broker: q.brokerName, Consumer: q.cfg.Consumer,
		Ledger: q.ledger != nil, LedgerName: q.cfg.Ledger, FanOut: caps.FanOut, Ordered: caps.Ordered, MaxMessageBytes: caps.MaxMessageBytes,
		MaxPause: q.cfg.Worker.MaxPause, MaxAge: q.cfg.MaxAge, Sources: q.cfg.Sources,
	}
	if len(q.cfg.Sources) == 1 {
		f.Destination = q.cfg.Sources[0]
	}
	if q.ledger != nil {
		caps := q.ledger.Capabilities()
		f.LedgerWritable, f.LedgerSendBefore, f.LedgerReplaces = caps.Writable, caps.SendBefore, caps.Replaces
	}
	if q.provider != nil {
		caps := q.provider.Capabilities()
		f.Provider = &caps
	}
	return f, nil
}
