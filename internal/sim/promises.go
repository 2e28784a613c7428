package sim

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/redrivectl/redrivectl/audit"
	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/job"
	"github.com/redrivectl/redrivectl/internal/ledger"
	"github.com/redrivectl/redrivectl/redrive"
)

// Promise is one of what always holds, by its name in docs/simulation.md.
type Promise string

// The promises that every schedule checks.
const (
	NoSecondEffect Promise = "no second effect"
	NothingLost    Promise = "nothing lost"
	UnknownHolds   Promise = "unknown holds"
	NoRecord       Promise = "no record, no action"
	Approved       Promise = "approved means exactly this"
	Bounded        Promise = "bounded"
	Gated          Promise = "only a pass goes on"
	Stoppable      Promise = "stoppable"
	Faithful       Promise = "faithful"
	Honest         Promise = "honest"
	Quiet          Promise = "quiet"
	Ends           Promise = "comes to an end"
)

// Violation says which promise a schedule broke, and how.
type Violation struct {
	Promise Promise
	What    string
}

func (v Violation) String() string { return string(v.Promise) + ": " + v.What }

// violate ends the schedule with its first violation.
func (w *world) violate(p Promise, format string, args ...any) {
	if w.broken == nil {
		w.broken = &Violation{p, fmt.Sprintf(format, args...)}
		w.say("## %s", w.broken)
	}
}

// secret marks every payload and customer. It is in no record and in no plan.
const secret = "SECRET"

// keyOf is the job key that a message carries.
func (w *world) keyOf(m broker.Message) string {
	if k, ok := w.keys[string(m.Body)]; ok {
		return k
	}
	j := job.Decode(m, deadName)
	w.keys[string(m.Body)] = j.JobKey
	return j.JobKey
}

// began notes that a run is this process's now.
func (p *proc) began(plan redrive.PlanID, l redrive.Lease, err error) {
	if err == nil {
		p.run, p.plan = l.Run, plan
		p.asked, p.askedBefore = p.world.now, p.world.now
		clear(p.unrecorded)
		p.alert()
	}
}

// asks notes that a run asks the broker for its next batch.
func (p *proc) asks(q *queue) {
	if q.name == deadName {
		p.askedBefore, p.asked = p.asked, p.world.now
	}
}

// stated notes when a plan was taken back.
func (p *proc) stated(a redrive.Approval) {
	if _, twice := p.takenBack[a.Plan]; !twice && a.Decision != redrive.DecisionApprove {
		p.takenBack[a.Plan] = p.world.now
	}
}

// mayRecord holds what is about to be recorded to the promises. An intent is what
// begins something new.
func (p *proc) mayRecord(rs []audit.Record) {
	for _, r := range rs {
		if c, err := r.Canonical(); err == nil && bytes.Contains(c, []byte(secret)) {
			p.violate(Quiet, "a record of %s %s holds a payload or a customer", r.Action, r.JobKey)
		}
		switch {
		case r.Run == "" || r.CopyID == "":
		case r.Phase == audit.Intent:
			p.mayIntend(r)
		case r.Step == audit.StepPublish:
			delete(p.unrecorded, r.CopyID)
		}
	}
}

func (p *proc) mayIntend(r audit.Record) {
	k := p.memory.plans[redrive.PlanID(r.Plan)]
	if k == nil {
		p.violate(Approved, "an intent on %s is of no plan", r.CopyID)
		return
	}
	before := func(t time.Time, known bool) bool { return known && t.Before(p.askedBefore) }
	wished, isWished := p.wished[redrive.RunID(r.Run)]
	_, stands := p.memory.wishes[redrive.RunID(r.Run)]
	taken, isTaken := p.takenBack[redrive.PlanID(r.Plan)]
	switch {
	case !p.last.Add(p.skew).Before(k.Plan.ExpiresAt):
		p.violate(Bounded, "an intent on %s after the plan's expiry", r.CopyID)
	case before(wished, isWished && stands):
		p.violate(Stoppable, "an intent on %s more than a batch after it was asked to stop", r.CopyID)
	case before(taken, isTaken):
		p.violate(Approved, "an intent on %s more than a batch after the approval was taken back", r.CopyID)
	case p.policy != k.Plan.PolicySHA256:
		p.violate(Approved, "an intent on %s under another policy", r.CopyID)
	case p.inForce(k, p.askedBefore.Add(p.skew)) < k.Plan.Tier.Needed():
		p.violate(Approved, "an intent on %s without its approvals", r.CopyID)
	}
	if n := p.intended(redrive.RunID(r.Run), r.CopyID); n > k.Plan.Max {
		p.violate(Bounded, "%d jobs begun of at most %d", n, k.Plan.Max)
	}
}

// inForce counts the persons whose approval of the plan holds at a moment.
func (w *world) inForce(k *kept, at time.Time) int {
	persons := map[string]bool{}
	for _, a := range w.memory.says[k.ID] {
		if a.Decision == redrive.DecisionApprove && a.Approver != k.Plan.Requester && at.Before(a.ExpiresAt) && a.Items == len(k.Plan.Items) {
			persons[a.Approver] = true
		}
	}
	return len(persons)
}

// intended counts the copies that a run has begun, with one more.
func (w *world) intended(run redrive.RunID, more string) int {
	copies := map[string]bool{more: true}
	for _, r := range w.memory.log {
		if r.Run == string(run) && r.Phase == audit.Intent {
			copies[r.CopyID] = true
		}
	}
	return len(copies)
}

// recorded finds the newest record of a run on a copy that is wanted.
func (w *world) recorded(run redrive.RunID, copyID string, want func(audit.Record) bool) *audit.Record {
	for _, r := range slices.Backward(w.memory.log) {
		if r.Run == string(run) && r.CopyID == copyID && want(r.Record) {
			return &r.Record
		}
	}
	return nil
}

func isIntent(r audit.Record) bool { return r.Phase == audit.Intent }

func isPublished(r audit.Record) bool {
	return r.Step == audit.StepPublish && r.Result == audit.ResultDone
}

// item finds the item of a plan that a message was made of, by the name that its
// publish has for the broker.
func (p *proc) item(o broker.Outgoing) *redrive.Item {
	k := p.memory.plans[p.plan]
	if k == nil {
		return nil
	}
	for i := range k.Plan.Items {
		if it := &k.Plan.Items[i]; redrive.DedupID(p.plan, it.Copy) == o.DedupID {
			return it
		}
	}
	return nil
}

// mayPublish holds a redrive to the promises at the moment in which the broker
// takes it.
func (p *proc) mayPublish(to string, o broker.Outgoing) {
	if p.worker || p.run == "" {
		return
	}
	it := p.item(o)
	if it == nil {
		p.violate(Approved, "%s is published and no item of the plan", p.keyOf(o.Message))
		return
	}
	name := it.Copy.String()
	k := p.memory.plans[p.plan]
	switch {
	case p.recorded(p.run, name, isIntent) == nil:
		p.violate(NoRecord, "copy %s is published without an intent", name)
	case p.recorded(p.run, name, isPublished) != nil:
		p.violate(NoSecondEffect, "copy %s is published again although its publish is on record", name)
	case p.unrecorded[name]:
		p.violate(UnknownHolds, "copy %s is published again before the outcome of the first is on record", name)
	case to != it.Destination:
		p.violate(Approved, "copy %s goes to %s, not to %s", name, to, it.Destination)
	case !p.last.Add(p.skew).Before(k.Plan.ExpiresAt):
		p.violate(Bounded, "copy %s is published after the plan's expiry", name)
	}
	p.faithful(it, o.Message)
	p.behindItsGate(k, name)
	p.withinRate(k)
	p.unrecorded[name] = true
}

// behindItsGate: nothing but the canary goes out before the gate has let the run go
// on, and nothing at all when it has failed. Of the canary is what was begun before
// the verdict; a resume settles what it left open, and may publish it again.
func (p *proc) behindItsGate(k *kept, name string) {
	if k.Plan.Canary == 0 {
		return
	}
	g, err := p.memory.gate(p.run)
	if err != nil {
		p.violate(NoRecord, "gate of %s: %v", p.run, err)
		return
	}
	canary := p.begunUnjudged(p.run)
	switch {
	case g.Open():
	case g.Verdict == redrive.VerdictFail, g.Verdict != "" && !canary[name]:
		p.violate(Gated, "copy %s goes out although the gate says %s", name, g.Verdict)
	case len(canary) > k.Plan.Canary && !p.queues.caps.Ordered:
		p.violate(Gated, "copy %s goes out before the gate has spoken, one of %d in a canary of %d", name, len(canary), k.Plan.Canary)
	}
}

// begunUnjudged are the copies whose redrive a run has begun before its gate's first
// verdict.
func (w *world) begunUnjudged(run redrive.RunID) map[string]bool {
	begun := map[string]bool{}
	for _, r := range w.memory.log {
		switch {
		case r.Run != string(run):
		case r.Step == redrive.StepVerdict:
			return begun
		case r.Phase == audit.Intent && r.Action == audit.ActionRedrive:
			begun[r.CopyID] = true
		}
	}
	return begun
}

// faithful: what goes out is what the application once sent, or the edit of it
// that was approved.
func (p *proc) faithful(it *redrive.Item, m broker.Message) {
	is := job.MessageHash(m)
	if it.Edit != nil {
		if is != it.Edit.MessageSHA256 {
			p.violate(Faithful, "the edited copy of %s is not the one that was approved", it.JobKey)
		}
		p.made[p.keyOf(m)] = is
		return
	}
	if is != p.made[p.keyOf(m)] || len(m.System) > 0 {
		p.violate(Faithful, "copy %s goes out as another message than was sent once", it.Copy)
	}
}

// sent is when the call of a publish began, and when the broker took it.
type sent struct{ began, taken time.Time }

// withinRate: never more than the plan's rate in any second, whichever process
// sends. That is counted by when the calls began; the broker may take one late and
// the next early, and so have as many in a fiftieth less.
func (p *proc) withinRate(k *kept) {
	now := sent{p.sends, p.world.now}
	p.out[p.plan] = append(p.out[p.plan], now)
	rate, err := redrive.ParseRate(k.Plan.RatePerSecond)
	if err != nil {
		p.violate(Bounded, "plan %s has the rate %q", p.plan, k.Plan.RatePerSecond)
		return
	}
	begun, taken := 0, 0
	for _, s := range p.out[p.plan] {
		begun += bit(now.began.Sub(s.began) < time.Second)
		taken += bit(now.taken.Sub(s.taken) < time.Second-time.Second/50)
	}
	if n := max(begun, taken); float64(n) > max(float64(rate), 1) {
		p.violate(Bounded, "%d are published within a second, at most %s may be", n, k.Plan.RatePerSecond)
	}
}

// mayChange holds a change of the ledger by an operator to the promises. A worker
// is bound by the ledger alone.
func (p *proc) mayChange(c ledger.Change) {
	if p.worker {
		return
	}
	p.notTooEarly(c)
	for _, r := range slices.Backward(p.memory.log) {
		if r.Phase != audit.Intent || r.Run != c.Run && c.Run != "" {
			continue
		}
		if r.JobKey == c.Key.JobKey || r.Details[audit.DetailReplacedBy] == c.Key.JobKey {
			return
		}
	}
	p.violate(NoRecord, "%s without an intent", describe(c))
}

// notTooEarly: a conclusive no is about attempts of which every record must show
// by now.
func (p *proc) notTooEarly(c ledger.Change) {
	r := p.rows.byKey[p.rows.key(c.Key)]
	if r == nil || !r.matches(c, p.rows.now()) || c.To != ledger.Failed || c.Resolve != ledger.ByVerdict || !strings.HasPrefix(c.Reason, "not_accepted ") {
		return
	}
	for _, a := range r.Attempts {
		if a.Resolution == ledger.Unresolved && p.rows.now().Before(a.SendDeadline.Add(p.settings.maxPause+p.outside.caps.Delay)) {
			p.violate(UnknownHolds, "%s counts as not sent before a record of attempt %d must show", c.Key.JobKey, a.Number)
		}
	}
}

// changed looks at what a change of the ledger has made possible. A job that goes
// out again has not had its effect, unless its provider takes a second one for
// the first, or the risk was accepted.
func (p *proc) changed(c ledger.Change, o ledger.Outcome) {
	p.note("ledger %s: %s", describe(c), [...]string{"unknown", "won", "lost"}[o])
	if o != ledger.Won || p.worker {
		return
	}
	if c.From == ledger.Sending && c.To == ledger.Failed {
		p.violate(UnknownHolds, "%s is taken for failed while a worker has it", c.Key.JobKey)
	}
	if c.To != ledger.Queued && c.To != ledger.Replaced {
		return
	}
	r := p.intentOn(c.Run, c.Key.JobKey)
	if r == nil || p.effects(c.Key.JobKey) == 0 || excuses(*r) {
		return
	}
	if r.Details["decision_row"] != replaySafe || p.outside.caps.KeyLife == 0 {
		p.violate(UnknownHolds, "%s goes out again by row %s, and has had its effect", c.Key.JobKey, r.Details["decision_row"])
	}
}

// replaySafe is the row of the decision table by which a provider takes the
// second send for the first.
const replaySafe = "10"

func (w *world) intentOn(run, key string) *audit.Record {
	for _, r := range slices.Backward(w.memory.log) {
		if r.Run == run && r.Phase == audit.Intent && r.JobKey == key {
			return &r.Record
		}
	}
	return nil
}

// excuses reports that an intent names a risk that persons accepted.
func excuses(r audit.Record) bool {
	return slices.Contains([]string{"duplicates", "provisional", "idempotent"}, r.Details["lift"]) ||
		r.Details["republish"] != "" || r.Details["second_send"] != ""
}

// noSecondEffect is asked at every effect: it is the job's first, in whatever
// form, unless the risk of a second was accepted.
func (w *world) noSecondEffect(key string) {
	all := w.effects(key)
	keys := []string{key}
	for _, r := range w.memory.log {
		by := r.Details[audit.DetailReplacedBy]
		switch {
		case by == "" || r.Phase != audit.Intent:
		case by == key && !slices.Contains(keys, r.JobKey):
			keys = append(keys, r.JobKey)
			all += w.effects(r.JobKey)
		case r.JobKey == key && !slices.Contains(keys, by):
			keys = append(keys, by)
			all += w.effects(by)
		}
	}
	if all < 2 {
		return
	}
	for _, r := range w.memory.log {
		if r.Phase == audit.Intent && slices.Contains(keys, r.JobKey) && excuses(r.Record) {
			return
		}
	}
	w.violate(NoSecondEffect, "the effect of %s has happened %d times", strings.Join(keys, " and "), all)
}

// mayLeave is asked before a copy leaves its queue for good: one of a worker's, or
// a dead one.
func (p *proc) mayLeave(m broker.Message) {
	name, key := m.Copy.String(), p.keyOf(m)
	if p.worker {
		r := p.rows.byKey[p.rows.key(ledger.Key{JobKey: key})]
		if r == nil || !r.State.Committed() && r.State != ledger.Replaced {
			p.violate(NothingLost, "a worker acknowledges copy %s of %s, whose row is not sent", name, key)
		}
		return
	}
	intent := p.recorded(p.run, name, isIntent)
	_, archived := p.memory.archive[string(p.run)+" "+name]
	switch {
	case intent == nil:
		p.violate(NoRecord, "copy %s of %s is acknowledged without an intent", name, key)
	case p.recorded(p.run, name, isPublished) != nil:
	case !archived:
		p.violate(NothingLost, "copy %s of %s is acknowledged without a recorded publish and without an archive", name, key)
	case intent.Action == audit.ActionDiscard:
		p.discarded[key] = true
	case !p.happened(key):
		p.violate(NothingLost, "copy %s is settled, and the effect of %s has not happened", name, key)
	}
}

// forms are the job keys of a job and of the edited copies that went in its place.
func (w *world) forms(key string) map[string]bool {
	keys := map[string]bool{key: true}
	for _, r := range w.memory.log {
		if by := r.Details[audit.DetailReplacedBy]; by != "" && keys[r.JobKey] {
			keys[by] = true
		}
	}
	return keys
}

// happened reports that the job's effect happened, in whatever form.
func (w *world) happened(key string) bool {
	for k := range w.forms(key) {
		if w.effects(k) > 0 {
			return true
		}
	}
	return false
}

// dropped reports that a plan discarded the job, in whatever form.
func (w *world) dropped(key string) bool {
	for k := range w.forms(key) {
		if w.discarded[k] {
			return true
		}
	}
	return false
}

// nothingLost is asked whenever a copy has left a queue.
func (w *world) nothingLost(m broker.Message) {
	key := w.keyOf(m)
	if w.happened(key) || w.dropped(key) || w.present(key) {
		return
	}
	w.violate(NothingLost, "no copy of %s is left, and its effect has not happened", key)
}

// present reports that a copy of the job is in some queue, in whatever form.
func (w *world) present(key string) bool {
	keys := w.forms(key)
	for _, q := range w.queues.named {
		if slices.ContainsFunc(q.copies, func(c *copyOf) bool { return keys[w.keyOf(c.msg)] }) {
			return true
		}
	}
	return false
}

// reported holds a run's account of itself to what happened.
func (p *proc) reported(run redrive.RunID, r redrive.Report) {
	if !r.Adds() {
		p.violate(Stoppable, "the report of run %s does not add up: %+v", run, r)
	}
	ends := p.memory.ends(run)
	counted := map[string]int{}
	for _, id := range slices.Sorted(maps.Keys(ends)) {
		counted[ends[id].Result]++
		if ends[id].Result == "redriven" && p.queues.named[deadName].find(splitCopy(id)) != nil {
			p.violate(Honest, "copy %s counts as redriven and is still there", id)
		}
	}
	if open := len(p.memory.openIntents(run)); open == 0 {
		for result, n := range map[string]int{"redriven": r.Redriven, "settled": r.Settled, "discarded": r.Discarded} {
			// What the run could not see recorded it has to call unknown.
			if n > counted[result] || n < counted[result]-r.Unknown {
				p.violate(Honest, "run %s reports %d %s, its records say %d", run, n, result, counted[result])
			}
		}
	}
}
