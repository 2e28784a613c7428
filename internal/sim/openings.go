package sim

import (
	"context"
	"time"

	"github.com/redrivectl/redrivectl/internal/ledger"
	"github.com/redrivectl/redrivectl/redrive"
)

// openings bring about, in calm weather, what a schedule would hardly come to by
// lot, and say at which call of an operator a worker that comes late does most
// harm then. A share of the schedules goes on from one of them; the named schedules
// take the same steps.
var openings = []struct {
	name, window string
	play         func(*proc)
}{
	{"a dead run has queued a row under an unresolved attempt", "look up", (*proc).queuedByADeadRun},
	{"a run has queued rows that no worker has claimed", "store append", (*proc).unclaimed},
	{"two attempts are unresolved", "look up", (*proc).twoUnresolved},
	{"an edit died before its publish", "ledger apply", (*proc).editDied},
	{"a run's message came back before its copy was acknowledged", "ledger apply", (*proc).cameBack},
	{"one of two identical messages was sent", "look up", (*proc).twins},
}

// open plays an opening, in calm weather.
func (p *proc) open() {
	p.note("opening: %s; race at %s", openings[p.opening].name, p.odds.race)
	p.calm = true
	openings[p.opening].play(p)
	if p.outside.mute.has(p.world.now) {
		p.outside.mute.to = p.world.now.Add(time.Duration(p.rnd.Int64N(int64(2 * time.Hour))))
	}
	p.calm, p.dead, p.trap, p.run, p.outside.script = false, false, nil, "", nil
}

func (p *proc) queuedByADeadRun() {
	p.unknown(pick(p.world, []int{sendLostReply, sendTimeout, sendTimeout}))
	p.dies(pick(p.world, []string{"publish", "ack " + deadName, "ack " + deadName}))
	p.planAndRunCalmly(nil)
	p.anew()
	p.outside.recover()
	p.aside(func() {
		p.enqueued(sendAccepted)
		p.wait(5*time.Minute + p.outside.caps.Delay)
	})
}

func (p *proc) unclaimed() {
	p.enqueued(sendRejected, sendRejected, sendRejected)
	p.planAndRunCalmly(nil)
}

func (p *proc) twoUnresolved() {
	p.unknown(sendLostReply)
	p.outside.script = []int{pick(p.world, []int{sendLostReply, sendTimeout})}
	p.planAndRunCalmly(nil)
	p.works()
}

func (p *proc) editDied() {
	p.enqueued(sendRejected)
	p.dies("publish")
	p.planAndRunCalmly(p.edits[0])
	p.anew()
}

func (p *proc) cameBack() {
	p.enqueued(sendRejected)
	p.outside.script = []int{sendRejected}
	p.meanwhile("ack "+deadName, (*proc).works)
	p.planAndRunCalmly(nil)
}

func (p *proc) twins() {
	p.outside.script = []int{sendLostReply, sendTimeout}
	p.enqueueAs("job-1", secret, 1)
	p.enqueueAs("job-2", secret, 1)
	p.works()
}

// enqueued makes jobs whose first sends end as told, and lets the worker have
// them.
func (p *proc) enqueued(sends ...int) {
	p.outside.script = append(p.outside.script, sends...)
	for range sends {
		p.enqueue(false)
	}
	p.works()
}

// works lets a worker handle what is in the source.
func (p *proc) works() {
	was, run := p.name, p.run
	p.name, p.worker = "worker", true
	defer func() { p.name, p.worker, p.run = was, false, run }()
	k := p.reference()
	for range 20 {
		if n, _ := k.Step(context.Background()); n == 0 {
			return
		}
	}
}

// dies kills the process as the next call of op begins; never at "".
func (p *proc) dies(op string) {
	p.meanwhile(op, func(p *proc) {
		p.note("!! killed at %s", op)
		p.dead = true
	})
}

// meanwhile lets something happen as the next call of op begins.
func (p *proc) meanwhile(op string, do func(*proc)) {
	p.trap = func(is string) {
		if is == op {
			p.trap = nil
			do(p)
		}
	}
}

// anew begins another process, long after the lease of a dead one.
func (p *proc) anew() {
	p.dead, p.trap, p.run = false, nil, ""
	p.wait(3 * time.Minute)
}

// planCalmly makes a plan of all that is quarantined, as corrected, or edited.
func (p *proc) planCalmly(edit *redrive.EditRule) redrive.PlanID {
	a := asked{rate: 50, expires: 2 * time.Hour}
	a.lifts.Edit = edit
	if edit == nil {
		a.lifts.Fixed = "corrected"
	}
	id, err := p.makePlan(context.Background(), a)
	p.note("plan: %v", err)
	return id
}

func (p *proc) planAndRunCalmly(edit *redrive.EditRule) {
	if id := p.planCalmly(edit); id != "" {
		p.runPlan(context.Background(), id)
	}
}

// unknown leaves job-1 with an attempt whose effect happened, or not, and whose
// reply was lost; its row is fenced, and nobody can be asked.
func (p *proc) unknown(how int) {
	p.enqueued(how)
	p.outside.mute = window{p.world.now, p.world.now.Add(1000 * time.Hour)}
	p.wait(2 * time.Minute)
	p.reconcile(context.Background(), true)
}

// aside does something while no worker sees what is in the source.
func (p *proc) aside(do func()) {
	q := p.queues.named[sourceName]
	hidden := q.copies
	q.copies = nil
	do()
	q.copies = append(hidden, q.copies...)
}

// first is the row of job-1.
func (p *proc) first() ledger.Row {
	return p.rows.byKey[p.rows.key(ledger.Key{JobKey: "job-1"})].Row
}
