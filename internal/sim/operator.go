package sim

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redrivectl/redrivectl/audit"
	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/classify"
	"github.com/redrivectl/redrivectl/internal/job"
	"github.com/redrivectl/redrivectl/internal/ledger"
	"github.com/redrivectl/redrivectl/internal/provider"
	"github.com/redrivectl/redrivectl/reconcile"
	"github.com/redrivectl/redrivectl/redrive"
)

const (
	deadName   = "jobs-dlq"
	sourceName = "jobs"
	consumer   = "mailer"
	ledgerName = "app"
	settingsIs = "settings-1"
)

func (p *proc) who(name string) audit.Who {
	return audit.Who{Actor: audit.Person{Name: name, Known: "declared"}, Host: p.name, ToolVersion: "sim"}
}

func (p *proc) store() operatorStore {
	s := storeOf{p, p.memory}
	if p.twin != nil {
		return p.twin(s)
	}
	return s
}

func (p *proc) dlq() queueOf { return queueOf{p, p.queues.named[deadName]} }

func (p *proc) ledger() ledger.Ledger { return ledgerOf{p, p.rows} }

func decode(m broker.Message) job.Job { return job.Decode(m, deadName) }

// reconciler is wired as cmd wires it.
func (p *proc) reconciler() *reconcile.Reconciler {
	s := p.store()
	return &reconcile.Reconciler{
		Ledger: p.ledger(), Provider: providerOf{p}, Log: s, Verdicts: s, Memory: s, Holds: s,
		RunLives: func(ctx context.Context, run string) (bool, error) { return s.Lives(ctx, redrive.RunID(run)) },
		Policy:   p.rules, Now: p.clock, Sleep: p.sleep, Who: p.who(p.name), Open: s.open,
		Settings: reconcile.Settings{
			Queue: deadName, Consumer: consumer, LedgerName: ledgerName, ClaimLife: p.settings.claimLife, MaxPause: p.settings.maxPause,
			ClockMargin: p.settings.clockMargin, SecondLookAfter: time.Minute,
		},
	}
}

func (p *proc) judge() redrive.Judge {
	return redrive.Judge{Facts: p.reconciler(), Disposition: func(c classify.Class) (classify.Disposition, bool) {
		return p.rules.Of(c, "claimed").Disposition, p.rules.Has(c)
	}}
}

func (p *proc) planner() *redrive.Planner {
	limit := 50
	return &redrive.Planner{
		Plans: p.store(), Assess: p.judge(), Who: p.who(p.name), Now: p.clock, Nonce: p.serial,
		Customer:   func(id string) string { return audit.Hash([]byte(id)) },
		RedriveCap: &limit, Shipped: map[string]bool{p.policy: true, settingsIs: true},
	}
}

func (w *world) serial() string {
	w.serials++
	return strconv.Itoa(w.serials)
}

func (p *proc) approver(name string) *redrive.Approver {
	return &redrive.Approver{Plans: p.store(), Who: p.who(name), Persons: redrive.Persons{Declared: true}, Now: p.clock}
}

func (p *proc) runner() *redrive.Runner {
	s := p.store()
	return &redrive.Runner{
		Broker: p.dlq(), Ledger: p.ledger(), LedgerName: ledgerName, Plans: s, Runs: s, Rollbacks: s, Archive: s, Assess: p.judge(),
		Decode: decode, Current: redrive.Digests{Policy: p.policy, Settings: settingsIs}, Persons: redrive.Persons{Declared: true},
		Owner: func(classify.Class) string { return "owner" }, Who: p.who(p.name),
		NewRunID: func() redrive.RunID { return redrive.RunID("run" + p.serial()) }, Now: p.clock, Sleep: p.sleep,
		Ticks:    func(time.Duration) (<-chan time.Time, func()) { return nil, func() {} },
		LeaseTTL: p.settings.leaseTTL, DeliveryLease: p.settings.deliveryLease, EmptyTries: 3, EmptyWait: time.Second, Workers: 1,
	}
}

func (p *proc) facts() redrive.QueueFacts {
	return redrive.QueueFacts{
		Name: deadName, Entity: deadName, Broker: "sim", Consumer: consumer, Destination: sourceName, Sources: []string{sourceName},
		Ledger: true, LedgerName: ledgerName, LedgerWritable: p.rows.caps.Writable, LedgerSendBefore: p.rows.caps.SendBefore,
		LedgerReplaces: p.rows.caps.Replaces, Ordered: p.queues.caps.Ordered, MaxPause: p.settings.maxPause, Provider: &p.outside.caps,
	}
}

var _ provider.Provider = providerOf{}

// look sees the whole queue.
func (p *proc) look(ctx context.Context, each func(job.Job)) error {
	c, err := p.dlq().Browse(ctx, 0, func(m broker.Message) error {
		each(decode(m))
		return nil
	})
	if err == nil && !c.Complete {
		err = errors.New(c.Why)
	}
	return err
}

// asked is what a plan is made for.
type asked struct {
	lifts   redrive.Lifts
	only    reconcile.Action
	jobs    []string // job keys; none: all
	rate    redrive.Rate
	expires time.Duration
	gate    redrive.GateRequest
}

// makePlan looks, freezes and saves a plan, and lets as many others approve it as
// it needs.
func (p *proc) makePlan(ctx context.Context, a asked) (redrive.PlanID, error) {
	req := redrive.Request{
		Queue: p.facts(), Select: redrive.Selection{All: len(a.jobs) == 0, Jobs: a.jobs}, Only: a.only, Max: 20, Rate: a.rate,
		Expires: a.expires, Gate: a.gate, Reason: "recovery", Lifts: a.lifts, Digests: redrive.Digests{Policy: p.policy, Settings: settingsIs},
		ArchiveRetention: time.Hour,
	}
	var editor *redrive.Editor
	if a.lifts.Edit != nil {
		var err error
		if editor, err = redrive.NewEditor(a.lifts.Edit, decode); err != nil {
			return "", err
		}
		req.Edits = []redrive.Edited{}
	}
	err := p.look(ctx, func(j job.Job) {
		if editor != nil {
			req.Edits = append(req.Edits, editor.Edited(ctx, j))
		}
		req.Jobs = append(req.Jobs, j.WithoutContent())
	})
	if err != nil {
		return "", err
	}
	d, err := p.planner().Draft(ctx, req)
	if err != nil {
		return "", err
	}
	return d.ID, p.propose(ctx, d)
}

func (p *proc) propose(ctx context.Context, d redrive.Draft) error {
	if err := p.planner().Save(ctx, d); err != nil {
		return err
	}
	for _, it := range d.Plan.Items {
		p.note("plans %s of %s, copy %s, by row %d, ledger %s", it.Action, it.JobKey, it.Copy.ID, it.Row, it.LedgerState)
	}
	for i := range d.Plan.Tier.Needed() {
		if _, err := p.approver(fmt.Sprintf("approver-%d", i+1)).Approve(ctx, string(d.ID), len(d.Plan.Items), "fine"); err != nil {
			return err
		}
	}
	return nil
}

// carried is what came of a run, or of what is left of one.
func (p *proc) carried(e redrive.Ended, err error) {
	p.note("run %s: %s %+v %v", e.Run, e.State, e.Report, err)
	p.run = ""
	if e.Run != "" && !e.Report.Adds() {
		p.violate(Stoppable, "the report of run %s does not add up: %+v", e.Run, e.Report)
	}
}

func (p *proc) runPlan(ctx context.Context, id redrive.PlanID) {
	p.carried(p.runner().Run(ctx, string(id)))
}

func (p *proc) resumeRun(ctx context.Context, id redrive.RunID) {
	p.carried(p.runner().Resume(ctx, string(id)))
}

// reconcile asks the provider about what is not known.
func (p *proc) reconcile(ctx context.Context, apply bool) {
	var jobs []job.Job
	if err := p.look(ctx, func(j job.Job) { jobs = append(jobs, j) }); err != nil {
		return
	}
	_, err := p.reconciler().Run(ctx, reconcile.Request{Jobs: jobs, BrowseComplete: true, Apply: apply}, nil)
	p.note("reconcile: %v", err)
}
