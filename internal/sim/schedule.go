package sim

import (
	"context"
	"time"

	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/classify"
	"github.com/redrivectl/redrivectl/internal/ledger"
	"github.com/redrivectl/redrivectl/internal/worker"
	"github.com/redrivectl/redrivectl/reconcile"
	"github.com/redrivectl/redrivectl/redrive"
)

// reference is the worker that this process runs.
func (p *proc) reference() *worker.Worker {
	return &worker.Worker{
		Queue: queueOf{p, p.queues.named[sourceName]}, Ledger: ledgerOf{p, p.rows}, Sender: senderOf{p}, Renderings: ledgerOf{p, p.rows},
		Decode: func(m broker.Message) (worker.Work, error) {
			return worker.Work{Key: ledger.Key{JobKey: p.keyOf(m), Consumer: consumer}}, nil
		},
		Render:    func(m broker.Message, _ ledger.Row) ([]byte, error) { return decode(m).Payload, nil },
		Retry:     classify.RetryPolicy{Base: 10 * time.Second, Cap: time.Minute, Budget: 3},
		ClaimLife: p.settings.claimLife, Lease: p.settings.claimLife + 10*time.Second, Actor: p.name, Now: p.clock, Rand: p.rnd,
		Report: func(error) {},
	}
}

// work handles copies until the schedule ends. A killed worker begins anew.
func (p *proc) work() {
	k := p.reference()
	if p.late() {
		p.rest(p.upTo(p.longestRest()))
	}
	for !p.closing && p.broken == nil {
		if p.strikes(p.odds.away, "is away") {
			p.wait(p.untilAbout())
		}
		n, err := k.Step(context.Background())
		if p.dead {
			p.dead = false
			p.wait(p.upTo(2 * time.Minute))
			continue
		}
		if n == 0 || err != nil {
			p.rest(p.between(20*time.Second, p.longestRest()))
		}
	}
}

func (w *world) longestRest() time.Duration {
	if w.late() {
		return 4 * time.Hour
	}
	return 2 * time.Minute
}

// untilAbout is how long a worker stays away: for hours, or until just before or
// behind the time up to which some row may be claimed.
func (p *proc) untilAbout() time.Duration {
	for _, k := range p.rows.order {
		if left := p.rows.byKey[k].SendBefore.Sub(p.rows.now()); left > 0 && p.chance(0.7) {
			return left + p.between(-30*time.Second, 10*time.Second)
		}
	}
	return p.between(10*time.Minute, 5*time.Hour)
}

// operate is an operator's shift: one command after the other, some of them
// killed, with breaks in which keys and approvals expire.
func (p *proc) operate(commands int) {
	for range commands {
		p.thinks = true
		p.wait(p.pauseBetween())
		p.thinks = false
		if p.broken != nil || p.closing {
			break
		}
		p.dead, p.run = false, ""
		p.command(context.Background())
	}
	p.dead = false
	p.operators--
}

// pauseBetween is how long an operator thinks, or sleeps: not seldom until just
// before or behind the end of a key's life.
func (p *proc) pauseBetween() time.Duration {
	life := p.outside.caps.KeyLife
	switch {
	case p.chance(0.5), p.late() && p.chance(0.5):
		return p.upTo(time.Minute)
	case p.chance(0.6):
		return p.upTo(20 * time.Minute)
	case life > 0 && p.chance(0.5):
		return p.between(life/2, life)
	default:
		return p.upTo(3 * time.Hour)
	}
}

func (p *proc) command(ctx context.Context) {
	commands := []struct {
		weight int
		do     func(context.Context)
	}{
		{40, p.planAndRun},
		{10, p.planOnly},
		{12, p.runSome},
		{18, p.resumeSome},
		{18, func(ctx context.Context) { p.reconcile(ctx, true) }},
		{4, func(ctx context.Context) { p.reconcile(ctx, false) }},
		{8, p.ask},
		{3, p.takeBack},
		{10, p.rollBack},
		{5, p.promote},
	}
	if p.running() {
		commands[6].weight = 250 // there is something to stop
	}
	if p.waits() != "" {
		commands[9].weight = 60
	}
	switch at := p.odds.race; { // what a worker can get in between of
	case !p.late():
	case at == "look up":
		commands[4].weight = 150
	default:
		commands[4].weight, commands[8].weight = 50, 100
	}
	total := 0
	for _, c := range commands {
		total += c.weight
	}
	at := p.rnd.IntN(total)
	for _, c := range commands {
		if at -= c.weight; at < 0 {
			c.do(ctx)
			return
		}
	}
}

// promote lets the run go on that waits at its gate, and resumes it.
func (p *proc) promote(ctx context.Context) {
	id := p.waits()
	if id == "" {
		return
	}
	c := &redrive.Controller{Runs: p.store(), Who: p.who(p.name), Now: p.clock}
	r, err := c.Promote(ctx, id, "looks good")
	p.note("promote %s: %v", id, err)
	if err == nil && !r.Lives {
		p.resumeRun(ctx, id)
	}
}

// waits is a run that goes on only once a person has promoted it.
func (p *proc) waits() redrive.RunID {
	for _, id := range p.memory.started {
		r := p.memory.runs[id].record(p.memory, p.clock())
		if g, err := p.memory.gate(id); err == nil && g.MayPromote(r) == nil {
			return id
		}
	}
	return ""
}

// running reports that the run that was begun last is under way.
func (w *world) running() bool {
	n := len(w.memory.started)
	return n > 0 && w.memory.runs[w.memory.started[n-1]].record(w.memory, w.now).Lives
}

// wanted draws what a plan is made for.
func (p *proc) wanted() asked {
	a := asked{rate: pick(p.world, []redrive.Rate{1, 2, 5, 50}), expires: pick(p.world, []time.Duration{10 * time.Minute, time.Hour, 2 * time.Hour})}
	if p.chance(0.3) {
		a.gate = p.gated()
	}
	switch x := p.rnd.IntN(100); {
	case x < 35:
	case x < 72:
		a.lifts.Fixed = "the receiver was corrected"
	case x < 84:
		a.lifts.Edit = pick(p.world, p.edits)
	case x < 88:
		a.lifts.AcceptProvisional = "nobody will ever know"
	case x < 92:
		a.lifts.AcceptDuplicates = "better twice than never"
	case x < 96:
		a.only = reconcile.Discard
	default:
		a.lifts.Fixed, a.lifts.As = "looked into", classify.Throttled
	}
	return a
}

// gated draws a canary with its gate, or a circuit breaker alone.
func (p *proc) gated() redrive.GateRequest {
	g := redrive.GateRequest{Canary: p.rnd.IntN(3), Thresholds: &redrive.Thresholds{
		ObserveSeconds: pick(p.world, []int64{60, 300, 1200}), MinSuccess: pick(p.world, []float64{0.5, 1}),
		MaxReturned: pick(p.world, []float64{0, 0.5}), MaxThrottled: 0.5,
	}}
	if p.chance(0.2) {
		g.Kind = redrive.GateDLQOnly
	}
	return g
}

func (p *proc) planAndRun(ctx context.Context) {
	if p.chance(0.4) {
		p.reconcile(ctx, true)
	}
	id, err := p.makePlan(ctx, p.wanted())
	if err != nil {
		p.note("plan: %v", err)
		return
	}
	if p.chance(0.3) {
		p.wait(p.pauseBetween())
	}
	p.runPlan(ctx, id)
}

func (p *proc) planOnly(ctx context.Context) {
	_, err := p.makePlan(ctx, p.wanted())
	p.note("plan: %v", err)
}

// runSome runs a plan that somebody made.
func (p *proc) runSome(ctx context.Context) {
	var open []redrive.PlanID
	for _, id := range p.memory.order {
		if p.memory.plans[id].state(p.clock()).Open() {
			open = append(open, id)
		}
	}
	if len(open) > 0 {
		p.runPlan(ctx, pick(p.world, open))
	}
}

func (p *proc) resumeSome(ctx context.Context) {
	var left []redrive.RunID
	for _, id := range p.memory.started {
		if r := p.memory.runs[id].record(p.memory, p.clock()); !r.State.Ended() && !r.Lives {
			left = append(left, id)
		}
	}
	if len(left) > 0 {
		p.resumeRun(ctx, pick(p.world, left))
	}
}

// ask pauses, aborts or lets go on a run, which may be another process's.
func (p *proc) ask(ctx context.Context) {
	if len(p.memory.started) == 0 {
		return
	}
	id := p.memory.started[len(p.memory.started)-1]
	c := &redrive.Controller{Runs: p.store(), Who: p.who(p.name), Now: p.clock}
	switch p.rnd.IntN(3) {
	case 0:
		_, err := c.Ask(ctx, string(id), redrive.WishAbort, "enough")
		p.note("abort %s: %v", id, err)
	default:
		_, err := c.Ask(ctx, string(id), redrive.WishPause, "wait")
		p.note("pause %s: %v", id, err)
		if err == nil {
			p.wait(p.upTo(pick(p.world, []time.Duration{time.Second, 3 * time.Minute})))
			_, err = c.Lift(ctx, id, "")
			p.note("lift the pause of %s: %v", id, err)
		}
	}
}

// rollBack takes back one of the last runs, whoever carries it out.
func (p *proc) rollBack(ctx context.Context) {
	n := len(p.memory.started)
	if n == 0 {
		return
	}
	p.takeBackRun(ctx, p.memory.started[n-1-p.rnd.IntN(min(n, 2))])
}

func (p *proc) takeBackRun(ctx context.Context, id redrive.RunID) {
	r, err := p.runner().Rollback(ctx, string(id), "it was the wrong thing")
	p.run = ""
	p.note("roll back %s: %v %v", id, r.Counts, err)
	sum := 0
	for _, n := range r.Counts {
		sum += n
	}
	if err == nil && sum != r.Planned {
		p.violate(Stoppable, "the rollback of %s does not add up: %v of %d", id, r.Counts, r.Planned)
	}
}

func (p *proc) takeBack(ctx context.Context) {
	if len(p.memory.order) == 0 {
		return
	}
	id := p.memory.order[len(p.memory.order)-1]
	_, err := p.approver("approver-1").Revoke(ctx, string(id), "no")
	p.note("revoke: %v", err)
}
