package redrive

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/redrivectl/redrivectl/audit"
	"github.com/redrivectl/redrivectl/internal/classify"
	"github.com/redrivectl/redrivectl/internal/job"
	"github.com/redrivectl/redrivectl/internal/ledger"
	"github.com/redrivectl/redrivectl/internal/provider"
	"github.com/redrivectl/redrivectl/reconcile"
)

// DefaultRedriveCap is how often one job may be redriven without another person.
const DefaultRedriveCap = 2

// assessAtOnce bounds the memory and the queries of one assessment.
const assessAtOnce = 500

// QueueFacts is what the planner must know of the queue and of what stands
// behind it.
type QueueFacts struct {
	Name, Entity, Broker string
	Consumer             string
	// Sources are the configured ones, as the broker names origins; empty: any
	// origin will do.
	Sources []string
	// Destination is where a copy returns whose origin is not known; empty: none.
	Destination      string
	Ledger           bool
	LedgerName       string // as configured
	LedgerWritable   bool
	LedgerSendBefore bool                   // the ledger can store it
	LedgerReplaces   bool                   // the ledger can replace a row by another
	Provider         *provider.Capabilities // nil: the queue has none
	FanOut, Ordered  bool                   // of the broker
	MaxMessageBytes  int                    // of the broker; 0: not known
	MaxPause         time.Duration          // of a worker, between check and send
	MaxAge           time.Duration          // of the queue; 0: none
}

// takesBack reports that a redrive may return to a copy's origin.
func (q QueueFacts) takesBack(origin string) bool {
	return len(q.Sources) == 0 || slices.Contains(q.Sources, origin)
}

// Request asks for a plan.
type Request struct {
	Queue  QueueFacts
	Jobs   []job.Job // in the broker's order
	Edits  []Edited  // job for job, with Lifts.Edit alone
	Select Selection
	// Only limits the plan to one action; empty: redrive and settle. With Discard
	// the plan drops what is selected, and does nothing else.
	Only    reconcile.Action
	Max     int
	Rate    Rate
	Expires time.Duration
	Reason  string
	Lifts   Lifts
	Digests Digests
	Gate    GateRequest
	// ArchiveRetention is how long the copies that the plan takes off the queue for
	// good are kept.
	ArchiveRetention time.Duration
}

// Draft is a plan that is not saved.
type Draft struct {
	ID    PlanID
	Bytes []byte
	Plan  Plan
	// Held are the selected jobs that need something first, as assessed.
	Held []reconcile.Assessed
}

// Planner freezes selections into plans.
type Planner struct {
	Plans  Plans
	Assess Assessor
	audit.Who
	Now   func() time.Time
	Nonce func() string
	// Customer is the keyed HMAC of a customer's ID.
	Customer func(id string) string
	// Shipped are the digests of default policy and settings, approved as such.
	Shipped    map[string]bool
	RedriveCap *int // nil: DefaultRedriveCap
	// SelfMax is how many redrives a person may plan alone in 24 hours, as the
	// policy says; nil: 10.
	SelfMax *int
}

// EmptyError says that nothing is left to plan, and what there was.
type EmptyError struct {
	Classes map[classify.Class]int // all jobs seen
	LeftOut map[string]int
	Held    []Held
}

func (e *EmptyError) Error() string {
	var classes []string
	for _, c := range slices.Sorted(maps.Keys(e.Classes)) {
		classes = append(classes, fmt.Sprintf("%s (%d)", c, e.Classes[c]))
	}
	seen := "no job was seen in the queue"
	if len(classes) > 0 {
		seen = "classes there are: " + strings.Join(classes, ", ")
	}
	if len(e.Held) > 0 {
		seen += fmt.Sprintf("; %d selected jobs are held", len(e.Held))
	}
	return "selection is empty; " + seen
}

// Is makes an EmptyError a refusal.
func (e *EmptyError) Is(target error) bool { return target == ErrRefused }

// Draft makes the plan and saves nothing. Refusals are ErrRefused.
func (p *Planner) Draft(ctx context.Context, req Request) (Draft, error) {
	if err := req.check(); err != nil {
		return Draft{}, err
	}
	req.Lifts.Discard = req.Only == reconcile.Discard
	now := p.Now().UTC()
	live, err := p.Plans.InLivePlans(ctx, req.Queue.Name, now)
	if err != nil {
		return Draft{}, fmt.Errorf("live plans of %s: %w", req.Queue.Name, err)
	}
	s := newSorter(req, live, now, p.cap())
	if err := p.candidates(ctx, req, now, s.sort); err != nil {
		return Draft{}, err
	}
	if len(s.items) == 0 {
		return Draft{}, &EmptyError{Classes: s.classes, LeftOut: s.leftOut, Held: s.held}
	}
	if err := req.fits(len(s.items)); err != nil {
		return Draft{}, err
	}
	plan, err := p.plan(ctx, req, s, now)
	if err != nil {
		return Draft{}, err
	}
	id, b, err := Canonical(plan)
	return Draft{ID: id, Bytes: b, Plan: plan, Held: s.heldAs}, err
}

// fits refuses a plan that would expire before it is done.
func (r Request) fits(n int) error {
	need := r.Rate.Needs(n)
	if need > r.Expires {
		return fmt.Errorf("%d items at %.4g/s take %s, longer than the plan's %s: %w", n, r.Rate, need, r.Expires, ErrRefused)
	}
	if r.Gate.Canary == 0 {
		return nil
	}
	if observe := r.Gate.Thresholds.Observe(); need+observe > r.Expires {
		return fmt.Errorf("%d items at %.4g/s take %s, with the canary's observation of %s longer than the plan's %s: %w",
			n, r.Rate, need, observe, r.Expires, ErrRefused)
	}
	return nil
}

// Save keeps the draft under its ID. An InPlanError says that another plan was
// faster.
func (p *Planner) Save(ctx context.Context, d Draft) error {
	rec := p.Record("plan")
	rec.Plan, rec.Queue, rec.Reason = string(d.ID), d.Plan.Queue, d.Plan.Reason
	rec.Phase, rec.Result = audit.Outcome, audit.ResultDone
	rec.Details = map[string]string{"items": fmt.Sprint(len(d.Plan.Items)), "tier": string(d.Plan.Tier), "query": d.Plan.Query}
	if n := d.Plan.Discards(); n > 0 {
		rec.Details["discards"] = fmt.Sprint(n)
	}
	if err := p.Plans.SavePlan(ctx, d.ID, d.Bytes, d.Plan, rec); err != nil {
		return fmt.Errorf("save plan %s: %w", d.ID, err)
	}
	return nil
}

func (r Request) check() error {
	refuse := func(format string, args ...any) error {
		return fmt.Errorf(format+": %w", append(args, ErrRefused)...)
	}
	switch {
	case r.Select.Empty():
		return refuse("plan of %s selects nothing: at least one filter is needed", r.Queue.Name)
	case strings.TrimSpace(r.Reason) == "":
		return refuse("plan of %s has no reason", r.Queue.Name)
	case r.Max <= 0:
		return refuse("plan of %s has no maximum", r.Queue.Name)
	case r.Rate <= 0 || r.Expires <= 0:
		return refuse("plan of %s needs a rate and an expiry above zero", r.Queue.Name)
	case r.Only != "" && !planned(r.Only):
		return refuse("plan of %s cannot be limited to %s", r.Queue.Name, r.Only)
	case r.Only == reconcile.Discard && r.Lifts != Lifts{Discard: r.Lifts.Discard}:
		return refuse("plan of %s discards, and its options are for redrives", r.Queue.Name)
	case (r.Lifts.Edit != nil) != (r.Edits != nil) || r.Edits != nil && len(r.Edits) != len(r.Jobs):
		return refuse("plan of %s has an edit rule without edited copies", r.Queue.Name)
	case r.Lifts.EffectsByFlag && r.Queue.Provider != nil:
		return refuse("effects of %s cannot be declared idempotent: a provider is configured to be asked", r.Queue.Name)
	}
	return r.checkGate()
}

// candidate is one job of the queue. Those that are not selected are looked at
// because their place in an ordering group matters.
type candidate struct {
	reconcile.Assessed
	selected  bool
	published Published
	edit      *editing // nil: the plan has no edit
}

// candidates assesses all jobs, marks those that the selection names, and hands
// each on at once, since what is known of a whole queue is too much to keep.
func (p *Planner) candidates(ctx context.Context, req Request, now time.Time, each func(candidate) error) error {
	m, err := req.Select.matcher(now)
	if err != nil {
		return fmt.Errorf("%w: %w", err, ErrRefused)
	}
	for from := 0; from < len(req.Jobs); from += assessAtOnce {
		to := min(from+assessAtOnce, len(req.Jobs))
		part, edits := req.Jobs[from:to], make([]*editing, to-from)
		if req.Edits != nil {
			if edits, err = p.editings(ctx, req, part, req.Edits[from:to]); err != nil {
				return err
			}
		}
		as, err := p.Assess.Assess(ctx, part, req.Lifts)
		if err != nil {
			return fmt.Errorf("assess %d jobs of %s: %w", len(part), req.Queue.Name, err)
		}
		ps, err := p.published(ctx, req.Queue, part)
		if err != nil {
			return err
		}
		for i, a := range as {
			ok, err := m.matches(a)
			if err != nil {
				return fmt.Errorf("%w: %w", err, ErrRefused)
			}
			if err := each(candidate{Assessed: a, selected: ok, published: ps[i], edit: edits[i]}); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p *Planner) published(ctx context.Context, q QueueFacts, jobs []job.Job) ([]Published, error) {
	ids := make([]Identity, len(jobs))
	for i, j := range jobs {
		ids[i] = Identity{JobKey: j.JobKey, Entity: j.Message.Copy.Entity, Origin: j.Message.Origin, PayloadSHA256: j.PayloadSHA256}
		if q.Ledger && j.JobKey != "" {
			ids[i].LedgerRow = reconcile.LedgerRowName(q.LedgerName, ledger.Key{JobKey: j.JobKey, Consumer: q.Consumer})
		}
	}
	return publishedBut(ctx, p.Plans, ids, "")
}

func (p *Planner) plan(ctx context.Context, req Request, s *sorter, now time.Time) (Plan, error) {
	for i := range s.items {
		if id := s.customers[i]; id != "" && p.Customer != nil {
			s.items[i].Customer = p.Customer(id)
		}
	}
	canary, gate, err := req.gate(s.items)
	if err != nil {
		return Plan{}, err
	}
	tier, why, err := p.tier(ctx, req, s, now, req.weakerGate(s.items, canary, gate))
	if err != nil {
		return Plan{}, err
	}
	return Plan{Items: s.items, Held: s.held, Terms: Terms{
		Format: PlanFormat, Store: p.Plans.StoreID(),
		Queue: req.Queue.Name, Entity: req.Queue.Entity, Broker: req.Queue.Broker,
		CreatedAt: now, ExpiresAt: now.Add(req.Expires),
		Requester: p.Actor.Name, RequesterKnown: p.Actor.Known, Reason: req.Reason,
		Query: req.Select.Canonical(), Max: req.Max, RatePerSecond: req.Rate.String(),
		Canary: canary, Gate: gate, Thresholds: req.Gate.Thresholds,
		ArchiveSeconds: int64(req.ArchiveRetention / time.Second), Tier: tier, TierWhy: why, Lifts: req.Lifts,
		PolicySHA256: req.Digests.Policy, SettingsSHA256: req.Digests.Settings,
		LeftOut: s.leftOut, Nonce: p.Nonce(),
	}}, nil
}

func (p *Planner) tier(ctx context.Context, req Request, s *sorter, now time.Time, weakerGate bool) (Tier, []string, error) {
	before, err := p.Plans.SelfRedrives(ctx, req.Queue.Name, now.Add(-24*time.Hour))
	if err != nil {
		return "", nil, fmt.Errorf("redrives of %s so far: %w", req.Queue.Name, err)
	}
	approved, err := p.Plans.ApprovedDigests(ctx)
	if err != nil {
		return "", nil, fmt.Errorf("approved digests: %w", err)
	}
	known := func(d string) bool { return approved[d] || p.Shipped[d] }
	tier, why := TierOf(TierInput{
		Items: s.items, Lifts: req.Lifts, SelfBefore: before, SelfMax: p.SelfMax, Ledger: req.Queue.Ledger,
		Billing:        req.Queue.Provider != nil && req.Queue.Provider.Billing,
		PolicyApproved: known(req.Digests.Policy), SettingsApproved: known(req.Digests.Settings), OverCap: s.overCap, Elsewhere: s.elsewhere,
		WeakerGate: weakerGate,
	})
	return tier, why, nil
}

func (p *Planner) cap() int {
	if p.RedriveCap != nil {
		return *p.RedriveCap
	}
	return DefaultRedriveCap
}
