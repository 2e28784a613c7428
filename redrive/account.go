package redrive

import (
	"slices"
	"strconv"
	"time"

	"github.com/redrivectl/redrivectl/audit"
	"github.com/redrivectl/redrivectl/internal/classify"
)

// Account is what the audit log tells of one plan and its run, taken record by
// record in the order of the log. It keeps a fixed amount for each item of the
// plan and each session, and no record.
type Account struct {
	Approved time.Time // of the last approval; zero: none was given
	Sessions []RunSession
	// Publishes counts the copies that were handed over, or may have been; Peak is
	// the most of them within one second, by the times of their records. A batch is
	// recorded after it was published, so that its copies have one time.
	Publishes, Peak int
	// Slowed counts how often throttling lowered the rate; Lowest is the least that
	// it left, in jobs per second, or 0 where it never did.
	Slowed int
	Lowest float64
	// First and Last are the sequences of the first and the last record, and
	// Records is how many there are between them that speak of the plan.
	First, Last int64
	Records     int
	Rollbacks   []RunRollback

	back map[int]bool // items that a rollback took back
	idle idling

	plan   Plan
	at     map[string]int // CopyID.String to index
	items  []audit.CopyState
	unsure []bool      // by index; see Unsure
	began  int64       // sequence of the record that began the newest session
	second []time.Time // of the publishes within the last second
	last   time.Time   // of the newest record that the run itself made
}

// RunSession is one stretch in which a run was carried out: from its start, or a
// resume, to its end.
type RunSession struct {
	From, To time.Time // To is the last record of one that was killed
	By       audit.Person
	Host     string
	Resumed  bool
	// Ended is the state that it ended in; empty: it never recorded its end.
	Ended RunState
}

// RunRollback is one rollback of a run.
type RunRollback struct {
	At     time.Time
	By     audit.Person
	Reason string
}

// NewAccount has seen no record yet.
func NewAccount(p Plan) *Account {
	n := len(p.Items)
	a := &Account{plan: p, at: make(map[string]int, n), items: make([]audit.CopyState, n), unsure: make([]bool, n), back: map[int]bool{}}
	for i, it := range p.Items {
		a.at[it.Copy.String()] = i
	}
	return a
}

// See takes the next record that names the plan.
func (a *Account) See(r audit.Record) {
	if a.First == 0 {
		a.First = r.Seq
	}
	a.Last = r.Seq
	a.Records++
	switch {
	case r.Action == DecisionApprove:
		a.Approved = r.Time
	case r.Action == actionRun:
		a.session(r)
	case r.Action == ActionRollback:
		a.rollback(r)
	case r.Run != "" && r.CopyID != "":
		a.copy(r)
	}
}

func (a *Account) rollback(r audit.Record) {
	switch i, ok := a.at[r.Details[detailCopy]]; {
	case r.JobKey == "" && r.Phase == audit.Intent:
		a.Rollbacks = append(a.Rollbacks, RunRollback{At: r.Time, By: r.Actor, Reason: r.Reason})
	case ok && r.Phase == audit.Outcome && r.Result == audit.ResultDone:
		a.back[i] = true
	}
}

// Back reports that a rollback took item i back, by the log.
func (a *Account) Back(i int) bool { return a.back[i] }

// TakenBack counts the items that rollbacks took back.
func (a *Account) TakenBack() int { return len(a.back) }

// session begins one, or ends the one that is under way. What a person asked of the
// run meanwhile does neither.
func (a *Account) session(r audit.Record) {
	n := len(a.Sessions)
	switch {
	case r.Step == stepEnd && n > 0:
		a.Sessions[n-1].To, a.Sessions[n-1].Ended = r.Time, RunState(r.Result)
		a.rest(r.Time)
	case r.Step == stepPaused:
		a.idle.paused = r.Time
	case r.Step == stepContinued:
		a.idle.goOn(r.Time)
	case r.Step == StepVerdict && Verdict(r.Details[detailVerdict]) != VerdictTripped:
		a.idle.judged, a.idle.since = true, r.Time.Sub(a.last)
	case r.Step == stepStart || r.Step == stepResume:
		if n > 0 && a.Sessions[n-1].Ended == "" {
			a.Sessions[n-1].To = a.last
		}
		a.Sessions = append(a.Sessions, RunSession{From: r.Time, By: r.Actor, Host: r.Host, Resumed: r.Step == stepResume})
		a.last, a.began = r.Time, r.Seq
		a.idle.since, a.idle.paused = 0, time.Time{}
	case r.Step == stepSlowed:
		a.slowed(r)
	}
}

// slowed counts a record that the rate was lowered, and reads out of it to what.
func (a *Account) slowed(r audit.Record) {
	a.Slowed++
	rate, err := strconv.ParseFloat(r.Details[detailEffective], 64)
	if err == nil && (a.Lowest == 0 || rate < a.Lowest) {
		a.Lowest = rate
	}
}

func (a *Account) copy(r audit.Record) {
	if i, ok := a.at[r.CopyID]; ok {
		a.unsure[i] = a.unsure[i] || a.mayHaveSent(a.items[i], r)
		a.items[i].See(r)
	}
	a.last = r.Time
	a.idle.take()
	if r.Step != audit.StepPublish || r.Result == audit.ResultRefused {
		return
	}
	a.Publishes++
	a.second = append(a.second, r.Time)
	for r.Time.Sub(a.second[0]) >= time.Second {
		a.second = a.second[1:]
	}
	a.Peak = max(a.Peak, len(a.second))
}

// mayHaveSent reports that, by the record, a publish may have happened of which
// nobody knows: its own outcome is unknown, or it finishes what a session before
// began and left no word about.
func (a *Account) mayHaveSent(s audit.CopyState, r audit.Record) bool {
	if r.Step != audit.StepPublish {
		return false
	}
	return r.Result == audit.ResultUnknown || s.Intent != 0 && s.Intent < a.began && s.Publish == ""
}

// Unsure reports that item i was handed over at least once with an outcome that
// nobody knew then, whatever became of it later: where it was handed over again,
// its destination may have got it twice.
func (a *Account) Unsure(i int) bool { return a.unsure[i] }

// Stop ends the session that is under way, for a report of a run: now while it
// lives, else with the last thing that it recorded.
func (a *Account) Stop(now time.Time, lives bool) {
	n := len(a.Sessions)
	if n == 0 || a.Sessions[n-1].Ended != "" {
		return
	}
	a.Sessions[n-1].To = a.last
	if lives {
		a.Sessions[n-1].To = now
		a.rest(now)
	}
}

// idling is for how long a run observed its canary or was paused: it sends nothing
// then, by intention.
type idling struct {
	whole  time.Duration
	since  time.Duration // of the time since the last record about a copy
	paused time.Time     // since when; zero: it is not
	judged bool          // the canary is observed no more
}

// goOn ends a pause.
func (d *idling) goOn(at time.Time) {
	if !d.paused.IsZero() {
		d.since += at.Sub(d.paused)
	}
	d.paused = time.Time{}
}

func (d *idling) take() { d.whole, d.since = d.whole+max(d.since, 0), 0 }

// rest ends what the run was waiting for at the end of a session. A canary without a
// verdict was observed since its last record.
func (a *Account) rest(at time.Time) {
	a.idle.goOn(at)
	if a.plan.Canary > 0 && !a.idle.judged {
		a.idle.since = at.Sub(a.last)
	}
	a.idle.take()
}

// Idle is for how long of Running the run observed its canary or was paused.
func (a *Account) Idle() time.Duration { return min(a.idle.whole, a.Running()) }

// Running is for how long the run was carried out, all sessions together.
func (a *Account) Running() (d time.Duration) {
	for _, s := range a.Sessions {
		d += max(s.To.Sub(s.From), 0)
	}
	return d
}

// Item is how item i of the plan stands.
func (a *Account) Item(i int) audit.CopyState { return a.items[i] }

// OpenIntent is why an item is unknown whose run no longer lives, and left an
// intent without an outcome.
const OpenIntent = "open_intent"

// End is how item i was closed. An open intent is a step under way while the run
// lives, and unknown once it does not.
func (a *Account) End(i int, lives bool) ItemEnd {
	s := a.items[i]
	if s.Intent != 0 && !lives {
		return ItemEnd{Result: endUnknown, Reason: OpenIntent}
	}
	return ItemEnd{Result: s.Ended, Reason: s.Reason}
}

// Reports counts the items of the plan, all together and by their class.
func (a *Account) Reports(lives bool) (all Report, classes map[classify.Class]*Report) {
	all, classes = Report{Skipped: map[string]int{}}, map[classify.Class]*Report{}
	for i, it := range a.plan.Items {
		c := classes[it.Class]
		if c == nil {
			c = &Report{Skipped: map[string]int{}}
			classes[it.Class] = c
		}
		for _, r := range []*Report{&all, c} {
			r.Planned++
			r.count(a.End(i, lives), 1)
		}
	}
	return all, classes
}

// sentAlready are the reasons of a close that stopped a second effect.
var sentAlready = []string{whyAlreadySent, "row_sent", "row_reconciled"}

// Prevented reports that the item's effect had happened, so that doing what its
// class asks for would have been a second one.
func (e ItemEnd) Prevented() bool {
	return e.Result == endSettled || slices.Contains(sentAlready, e.Reason)
}

// Word is the end as reports count it: what is held counts as skipped, what is not
// closed as "remaining", and a result that is none of the known as "unknown".
func (e ItemEnd) Word() string {
	switch e.Result {
	case "":
		return "remaining"
	case endHeld:
		return endSkipped
	case endRedriven, endSettled, endDiscarded, endFailed, endSkipped:
		return e.Result
	default:
		return endUnknown
	}
}
