package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/redrivectl/redrivectl/redrive"
)

// errDead is what every call of a killed process gets. Nothing of such a process
// reaches the world any more, so whatever its code still does is as good as not
// done.
var errDead = errors.New("the process is dead")

// errFault is an injected failure: the call was not applied, or nobody can tell.
var errFault = errors.New("injected fault")

// fate is what becomes of one call.
type fate int

const (
	fine       fate = iota
	failed          // not applied, and the caller is told so
	lostBefore      // not applied, and the caller cannot tell
	lostAfter       // applied, and the caller cannot tell
	killed          // not applied; the process is gone
)

// clockwork is the simulated time and who may go on when. Exactly one process
// runs at any moment: it holds the baton until it waits, and hands it to whoever
// is next. So a seed decides everything.
type clockwork struct {
	rnd     *rand.Rand
	now     time.Time
	procs   []*proc
	ended   chan struct{} // closed when every process has ended
	closing bool          // workers end
	calm    bool          // no fault is injected, and every call is quick

	steps   int
	ordinal int             // of the next fault that could be
	without map[int]bool    // faults that are left out, by ordinal
	struck  []int           // the ordinals of the faults that were
	deaths  map[string]bool // where a process could have been killed; nil: not asked for

	tracing bool
	lines   []string
}

// mostSteps is more than any schedule takes that comes to an end.
const mostSteps = 200_000

// proc is one process of the schedule: a worker, or an operator's terminal.
type proc struct {
	*world
	name string
	skew time.Duration // of its machine's clock
	wake chan struct{}
	at   time.Time // it goes on then
	gone bool      // its script has ended
	dead bool      // it was killed; its script begins anew
	idle bool      // it waits for work, and may be woken early
	last time.Time // when its last call came back

	thinks bool // an operator between two commands

	worker             bool
	run                redrive.RunID // that it carries out now
	plan               redrive.PlanID
	asked, askedBefore time.Time       // when its run asked the broker for a batch, and for the one before
	sends              time.Time       // when its last publish began
	unrecorded         map[string]bool // copies that it published, and has not recorded yet
	trap               func(op string) // of a named schedule: what happens as this call begins
	applied            func()          // of a test: called when the store has done what it was asked for
}

// start adds a process that begins after a while.
func (w *world) start(name string, skew, after time.Duration, script func(*proc)) *proc {
	p := &proc{world: w, name: name, skew: skew, wake: make(chan struct{}, 1), at: w.now.Add(after)}
	w.procs = append(w.procs, p)
	go func() {
		<-p.wake
		script(p)
		p.gone = true
		if next := w.next(); next != nil {
			next.wake <- struct{}{}
			return
		}
		close(w.ended)
	}()
	return p
}

// run carries the schedule until every process has ended.
func (w *world) run() {
	w.next().wake <- struct{}{}
	<-w.ended
}

// next is who goes on: the earliest, and by lot among those of one moment.
func (w *world) next() *proc {
	var best []*proc
	for _, p := range w.procs {
		switch {
		case p.gone:
		case len(best) == 0 || p.at.Before(best[0].at):
			best = append(best[:0], p)
		case p.at.Equal(best[0].at):
			best = append(best, p)
		}
	}
	if len(best) == 0 {
		return nil
	}
	p := best[0]
	if len(best) > 1 {
		p = best[w.rnd.IntN(len(best))]
	}
	if p.at.After(w.now) {
		w.now = p.at
	}
	p.idle = false
	return p
}

// wait lets time pass for this process. The others go on meanwhile.
func (p *proc) wait(d time.Duration) {
	if p.steps++; p.steps > mostSteps {
		p.violate(Ends, "the schedule has not ended after %d steps; now: %s", mostSteps, p.name)
	}
	p.at = p.world.now.Add(max(d, 0))
	next := p.next()
	if next == p {
		return
	}
	next.wake <- struct{}{}
	<-p.wake
}

// rest waits for work, at most d.
func (p *proc) rest(d time.Duration) {
	p.idle = true
	p.wait(d)
}

// late reports that workers come late: in a race they keep what a run has queued
// waiting, until they are let in.
func (w *world) late() bool { return w.odds.race != "" && !w.calm && len(w.memory.started) > 0 }

// windows are the calls of an operator with which he acts on what he has looked
// at. In a race a worker gets there first, at one of them.
var windows = []string{"ledger apply", "look up", "store append"}

// alert has operators who think look at what has begun, now and then.
func (p *proc) alert() {
	for _, o := range p.procs {
		if o.thinks && p.chance(0.5) {
			o.at = p.world.now.Add(p.upTo(5 * time.Second))
		}
	}
}

// letIn wakes the workers at once.
func (p *proc) letIn() {
	for _, o := range p.procs {
		if o.idle && o.worker {
			p.note("lets %s in", o.name)
			o.idle, o.at = false, p.world.now
		}
	}
}

// rouse wakes who waits for work.
func (w *world) rouse() {
	for _, p := range w.procs {
		if p.idle && !w.late() {
			p.idle = false
			if soon := w.now.Add(w.upTo(5 * time.Second)); soon.Before(p.at) {
				p.at = soon
			}
		}
	}
}

// clock is the time on this process's machine.
func (p *proc) clock() time.Time { return p.world.now.Add(p.skew) }

// sleep is Sleep for what runs in this process.
func (p *proc) sleep(ctx context.Context, d time.Duration) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case p.over():
		return errDead
	}
	p.wait(d)
	return nil
}

// over reports that nothing this process does counts any more.
func (p *proc) over() bool { return p.dead || p.broken != nil }

// enter begins a call: it takes its time to arrive, and may be killed or come to
// grief on the way. What can fail visibly says so.
func (p *proc) enter(op string, fails ...fate) fate {
	if p.over() {
		return killed
	}
	p.wait(p.latency(op))
	if p.trap != nil {
		p.trap(op)
	}
	switch {
	case p.over():
		return killed
	case p.killedAt(op, "before"):
		return killed
	}
	if len(fails) == 0 || !p.world.strikes(float64(len(fails))*p.world.odds.at(failing, op), "") {
		return fine
	}
	f := pick(p.world, fails)
	p.note("!! %s: %s", op, f)
	return f
}

// leave ends a call that was applied. It reports whether the process got the
// answer.
func (p *proc) leave(op string) bool {
	p.wait(p.world.upTo(20 * time.Millisecond))
	if p.over() {
		return false
	}
	if p.killedAt(op, "after") {
		return false
	}
	p.last = p.world.now
	return true
}

// killedAt decides whether the process is killed right before a call, or right
// after it.
func (p *proc) killedAt(op, when string) bool {
	here := op + ": killed " + when
	if p.deaths != nil {
		p.deaths[here] = true
	}
	if !p.strikes(p.world.odds.at(killing, op), here) {
		return false
	}
	p.dead = true
	return true
}

func (f fate) String() string {
	return [...]string{"fine", "failed", "lost, not applied", "lost, applied", "killed"}[f]
}

// latency is mostly short. Now and then a process is slow, or stands still for
// minutes, as one does whose machine is suspended.
func (p *proc) latency(op string) time.Duration {
	w := p.world
	switch {
	case w.odds.focus == op && w.odds.kind == stalling && w.strikes(focused, ""):
		return w.upTo(pick(w, []time.Duration{5 * time.Second, 2 * time.Minute}))
	case w.odds.race == op && !p.worker && w.strikes(0.8, ""):
		p.letIn()
		return w.upTo(8 * time.Second)
	case w.strikes(w.odds.pause, p.name+" "+op+": stands still"):
		return time.Second + w.upTo(w.odds.longest)
	case w.strikes(w.odds.slow, ""):
		return w.upTo(15 * time.Second)
	default:
		return w.upTo(20 * time.Millisecond)
	}
}

func (p *proc) strikes(odds float64, what string) bool {
	if !p.world.strikes(odds, "") {
		return false
	}
	p.note("!! %s", what)
	return true
}

// strikes decides by lot whether a fault happens. Each decision has an ordinal,
// and draws the same from the seed whether or not it is left out, so that a
// failing schedule can be made smaller.
func (w *world) strikes(odds float64, what string) bool {
	if w.calm || odds == 0 {
		return false
	}
	w.ordinal++
	if w.rnd.Float64() >= odds || w.without[w.ordinal] {
		return false
	}
	w.struck = append(w.struck, w.ordinal)
	if what != "" {
		w.say("!! %s", what)
	}
	return true
}

// chance is a decision of the schedule that is no fault.
func (w *world) chance(odds float64) bool { return w.rnd.Float64() < odds }

// upTo is a length of time below d, by lot; in calm weather next to nothing.
func (w *world) upTo(d time.Duration) time.Duration {
	if w.calm {
		return time.Millisecond
	}
	return time.Duration(w.rnd.Int64N(int64(d)) + 1)
}

// between is a length of time from a to b, by lot.
func (w *world) between(a, b time.Duration) time.Duration {
	return a + time.Duration(w.rnd.Int64N(int64(b-a)+1))
}

func pick[T any](w *world, of []T) T { return of[w.rnd.IntN(len(of))] }

// note is a line of the trace about what this process does.
func (p *proc) note(format string, args ...any) {
	if p.tracing {
		p.say(p.name+" "+format, args...)
	}
}

func (w *world) say(format string, args ...any) {
	if w.tracing {
		w.lines = append(w.lines, w.now.Sub(epoch).Truncate(time.Millisecond).String()+" "+fmt.Sprintf(format, args...))
	}
}
