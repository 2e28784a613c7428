package classify

import (
	"maps"
	"slices"
	"time"

	"github.com/redrivectl/redrivectl/internal/job"
)

// Names that take the place of a rule's where no rule of the file decided.
const (
	NoRule     = "none"
	MaxAgeRule = "max_age"       // older than the class's, the policy's or the queue's maximum age
	BrokerRule = "broker_expiry" // past the broker's own expiry
	// RolledBackRule: the job came back from a redrive that was rolled back, with
	// the class that it had been redriven under.
	RolledBackRule = "rolled_back"
	// ErrorPrefix precedes the name of a rule that could not be evaluated. The
	// job is then unknown, whatever later rules say.
	ErrorPrefix = "error:"
)

// Limits are the bounds that a policy sets on redrives.
type Limits struct {
	SelfMax    int // redrives per queue in 24 hours that need no approver
	RedriveCap int // redrives of one job that need no approver
	BreakGlass int // items per queue in 24 hours that one person may run alone in an emergency
}

// Policy is a policy file, checked and compiled. It is not changed after Load
// and may be used by several goroutines.
type Policy struct {
	name    string
	sha256  string
	classes map[Class]class
	rules   []rule
	maxAge  time.Duration
	// queueMaxAge is the configured maximum age of the queue, see WithMaxAge.
	queueMaxAge time.Duration
	retry       RetryPolicy
	limits      Limits
	gate        Gate
}

func newPolicy(f file) *Policy {
	p := &Policy{
		classes: map[Class]class{
			Unknown: {Effect: EffectUnknown, Disposition: Hold},
			Stale:   {Effect: EffectNone, Disposition: Discard},
			Expired: {Effect: EffectNone, Disposition: Discard},
		},
		maxAge: time.Duration(f.MaxAge),
		retry:  RetryPolicy{Base: 30 * time.Second, Cap: 15 * time.Minute, Budget: 6, FullJitter: true, Deadline: 24 * time.Hour},
		limits: Limits{SelfMax: DefaultSelfMax, RedriveCap: DefaultRedriveCap},
		gate:   newGate(f.Gate),
	}
	for name, c := range f.Classes {
		p.classes[name] = c
	}
	if r := f.Retry; r != nil {
		p.retry = RetryPolicy{time.Duration(r.Base), time.Duration(r.Cap), r.Budget, r.FullJitter, time.Duration(r.Deadline)}
	}
	if f.SelfMax != nil {
		p.limits.SelfMax = *f.SelfMax
	}
	if f.BreakGlass != nil {
		p.limits.BreakGlass = *f.BreakGlass
	}
	if f.RedriveCap != nil {
		p.limits.RedriveCap = *f.RedriveCap
	}
	return p
}

// Name is the name of the file as Load was given it.
func (p *Policy) Name() string { return p.name }

// SHA256 is the lower-case hex digest of the file's bytes.
func (p *Policy) SHA256() string { return p.sha256 }

// Retry is the retry policy of the queue's workers, as the file gives it, else
// the default.
func (p *Policy) Retry() RetryPolicy { return p.retry }

// Limits are the bounds on redrives, as the file gives them, else the defaults.
func (p *Policy) Limits() Limits { return p.limits }

// Classes are the classes that the policy defines, by name.
func (p *Policy) Classes() []Class { return slices.Sorted(maps.Keys(p.classes)) }

// Has reports whether the policy defines a class.
func (p *Policy) Has(c Class) bool { _, ok := p.classes[c]; return ok }

// WithMaxAge is the policy for a queue with a maximum age of its own; of several
// maximum ages the shortest holds. 0 changes nothing.
func (p *Policy) WithMaxAge(d time.Duration) *Policy {
	q := *p
	q.queueMaxAge = shortest(p.queueMaxAge, d)
	return &q
}

// Classify says which class a job belongs to. It is pure. A job past its
// maximum age, or past the broker's expiry, is expired whatever stopped it; the
// effect stays the worse of both classes, because being late proves nothing
// about what was sent. So it is where the message names another try whose outcome
// is open.
func (p *Policy) Classify(j job.Job, now time.Time) Result {
	f := newFacts(&j, now)
	class, rule := p.match(f)
	if came, ok := p.rolledBack(j.Failure); ok && rule == NoRule {
		class, rule = came, RolledBackRule
	}
	r := p.Of(class, rule)
	if f.cause.Doubt {
		r.Effect = EffectUnknown
	}
	late := p.late(j, r, now)
	if late == "" || class == Expired {
		return r
	}
	e := p.Of(Expired, late)
	e.Effect = e.Effect.Worse(r.Effect)
	return e
}

// rolledBack is the class that a worker names which dead-letters a job with the
// class and the reason of its ledger row, where the reason is a rollback.
func (p *Policy) rolledBack(f job.Failure) (Class, bool) {
	c := Class(f.Type)
	return c, f.Message == RolledBackRule && p.Has(c)
}

// late names the rule by which a job is too old, or is empty.
func (p *Policy) late(j job.Job, r Result, now time.Time) string {
	if at := j.Message.ExpiresAt; !at.IsZero() && !at.After(now) {
		return BrokerRule
	}
	if sent := j.Message.SentAt; r.MaxAge > 0 && !sent.IsZero() && now.Sub(sent) > r.MaxAge {
		return MaxAgeRule
	}
	return ""
}

// Of is the result for a class that something else than a rule decided, such as
// stale, which the ledger knows. A class that the policy does not define is
// unknown.
func (p *Policy) Of(c Class, rule string) Result {
	def, ok := p.classes[c]
	if !ok {
		c, def = Unknown, p.classes[Unknown]
	}
	return Result{
		Class: c, Rule: rule, Effect: def.Effect, Disposition: def.Disposition, Owner: def.Owner, Runbook: def.Runbook,
		MaxAge: shortest(time.Duration(def.MaxAge), p.maxAge, p.queueMaxAge), Evidence: def.Evidence,
	}
}

// shortest is the shortest duration that is not 0, or 0.
func shortest(ds ...time.Duration) time.Duration {
	var s time.Duration
	for _, d := range ds {
		if d > 0 && (s == 0 || d < s) {
			s = d
		}
	}
	return s
}
