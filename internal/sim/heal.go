package sim

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/redrivectl/redrivectl/redrive"
)

// heal waits until the operators are done, and then clears up in calm weather:
// what is open is resumed, reconciled, planned and run until nothing moves any
// more. What is left then has to have a reason.
func (p *proc) heal() {
	for p.operators > 0 && p.broken == nil {
		p.wait(time.Minute)
	}
	p.calm = true
	p.outside.recover()
	ctx := context.Background()
	for round := range 4 {
		if p.broken != nil {
			break
		}
		p.wait(90 * time.Minute)
		for _, id := range slices.Clone(p.memory.started) {
			if r := p.memory.runs[id].record(p.memory, p.clock()); !r.State.Ended() && !r.Lives {
				p.resumeRun(ctx, id)
			}
		}
		p.witness()
		p.reconcile(ctx, true)
		p.lastPlan(ctx, round)
		p.wait(10 * time.Minute)
	}
	p.closing = true
	p.rouse()
}

// witness lets a job succeed, so that later look-ups have something to be
// measured by.
func (p *proc) witness() {
	p.enqueue(false)
	p.rouse()
	p.wait(5*time.Minute + p.outside.caps.Delay)
}

func (p *proc) lastPlan(ctx context.Context, round int) {
	a := asked{rate: 50, expires: 2 * time.Hour}
	a.lifts.Fixed = "all was corrected"
	if round == 3 {
		a.lifts.As = "throttled"
	}
	id, err := p.makePlan(ctx, a)
	p.note("last plan: %v", err)
	if err == nil {
		p.runPlan(ctx, id)
	}
}

// finish holds the end of the schedule to the promises.
func (w *world) finish() {
	if w.broken != nil {
		return
	}
	if r := w.memory.verify(); !r.OK {
		w.violate(NoRecord, "the audit log does not verify: %+v", r.Problems)
	}
	for _, id := range w.memory.order {
		if strings.Contains(string(w.memory.plans[id].Bytes), secret) {
			w.violate(Quiet, "plan %s holds a payload or a customer", id)
		}
	}
	for _, key := range w.jobs {
		if !w.happened(key) && !w.dropped(key) && !w.present(key) {
			w.violate(NothingLost, "no copy of %s is left, and its effect has not happened", key)
		}
	}
	for _, id := range w.memory.started {
		r := w.memory.runs[id]
		if open := w.memory.openIntents(id); r.State == redrive.RunFinished && len(open) > 0 {
			w.violate(Honest, "run %s is finished with %d open intents", id, len(open))
		}
	}
}

// trace is the schedule in lines, one for each thing that happened.
func (w *world) trace() string { return strings.Join(w.lines, "\n") + "\n" }
