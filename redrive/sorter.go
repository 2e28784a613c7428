package redrive

import (
	"cmp"
	"slices"
	"time"

	"github.com/redrivectl/redrivectl/internal/classify"
	"github.com/redrivectl/redrivectl/internal/job"
	"github.com/redrivectl/redrivectl/internal/ledger"
	"github.com/redrivectl/redrivectl/reconcile"
)

// sorter puts each job where it belongs: an item, held, or left out.
type sorter struct {
	req  Request
	live map[string]PlanID
	now  time.Time
	cap  int

	keys      map[string]bool // job keys that have their one place
	blocked   map[string]bool // order keys with a job that stays behind
	classes   map[classify.Class]int
	items     []Item
	customers []string
	held      []Held
	heldAs    []reconcile.Assessed
	leftOut   map[string]int
	overCap   bool
	elsewhere bool            // a redrive goes to another destination than the one derived
	inQueue   map[string]bool // job keys of all copies; with an edit alone
	edits     map[string]bool // edited copies that have their one place
}

// NeedsDiscard is what a job needs that is to be dropped: a plan of its own,
// since such a plan destroys.
const NeedsDiscard = "a discard plan: plan create --action discard"

func newSorter(req Request, live map[string]PlanID, now time.Time, limit int) *sorter {
	s := &sorter{
		req: req, live: live, now: now, cap: limit,
		keys: map[string]bool{}, blocked: map[string]bool{}, classes: map[classify.Class]int{},
		held: []Held{}, leftOut: map[string]int{}, inQueue: map[string]bool{}, edits: map[string]bool{},
	}
	if req.Lifts.Edit != nil {
		for _, j := range req.Jobs {
			s.inQueue[j.JobKey] = true
		}
	}
	return s
}

func (s *sorter) sort(c candidate) error {
	a, j := c.Assessed, c.Job
	s.classes[a.Class.Class]++
	if !c.selected {
		s.leaveOut("not_selected", a)
		return nil
	}
	if id, ok := s.inLive(j); ok {
		if s.isNamed(j) {
			return &InPlanError{Job: cmp.Or(j.JobKey, j.Message.Copy.String()), Plan: id}
		}
		s.leaveOut("in_plan:"+string(id), a)
		return nil
	}
	if j.JobKey != "" && s.keys[j.JobKey] {
		s.leaveOut("duplicate_copy", a)
		return nil
	}
	s.keys[j.JobKey] = true
	it := frozen(a, j)
	if why, needs := s.edit(&it, c); why != "" {
		s.hold(a, why, needs)
		return nil
	}
	s.complete(&it, a)
	if why, needs := s.holds(&it, a, c.published); why != "" {
		s.hold(a, why, needs)
		return nil
	}
	switch {
	case s.req.Only != "" && it.Action != s.req.Only:
		s.leaveOut("action_"+string(it.Action), a)
	case len(s.items) >= s.req.Max:
		s.leaveOut("over_max", a)
	default:
		s.items, s.customers = append(s.items, it), append(s.customers, j.CustomerID)
		redrive := it.Action == reconcile.Redrive
		s.overCap = s.overCap || redrive && c.published.Count-c.published.RolledBack >= s.cap
		s.elsewhere = s.elsewhere || redrive && it.Destination != s.derived(&it)
	}
	return nil
}

func (s *sorter) isNamed(j job.Job) bool {
	named := s.req.Select.Jobs
	return j.JobKey != "" && slices.Contains(named, j.JobKey) || slices.Contains(named, j.Message.MessageID)
}

func (s *sorter) inLive(j job.Job) (PlanID, bool) {
	if id, ok := s.live[j.Message.Copy.String()]; ok {
		return id, true
	}
	id, ok := s.live[j.JobKey]
	return id, ok && j.JobKey != ""
}

// complete fills in what a job alone does not tell.
func (s *sorter) complete(it *Item, a reconcile.Assessed) {
	if it.JobKey != "" {
		it.Consumer = s.req.Queue.Consumer
	}
	if it.Action != reconcile.Redrive {
		return
	}
	it.SendBefore = sendBefore(a, s.req.Queue)
	it.Destination = firstOf(s.req.Lifts.To, s.derived(it))
}

// derived is where a job goes without a word about it.
func (s *sorter) derived(it *Item) string { return firstOf(it.Origin, s.req.Queue.Destination) }

// holds names why an item cannot be in the plan, and what it needs; both empty
// for one that can.
func (s *sorter) holds(it *Item, a reconcile.Assessed, pub Published) (why, needs string) {
	switch {
	case it.Action == reconcile.Hold:
		return a.Decision.Why, a.Decision.Needs
	case it.Action == reconcile.Discard && s.req.Only != reconcile.Discard:
		return a.Decision.Why, NeedsDiscard
	case !it.isText():
		return "not_text", "a person: a name in the message is not valid text"
	case it.Action == reconcile.Discard:
		return s.holdsDiscard(it, pub)
	case it.Action == reconcile.Settle && s.req.Only == reconcile.Discard:
		return "", "" // left out, whatever its row
	case it.Action == reconcile.Settle:
		return s.holdsSettle(it)
	case it.Action != reconcile.Redrive:
		return "no_action", "a decision"
	default:
		return s.holdsRedrive(it, pub)
	}
}

// holdsSettle: settling records the effect, so an open row needs a ledger that
// can be written.
func (s *sorter) holdsSettle(it *Item) (why, needs string) {
	if _, moves := changeOf(it, "", reconcile.Settle); moves && !s.req.Queue.LedgerWritable {
		return "ledger_read_only", "a writable ledger, or the row moved by the application"
	}
	return "", ""
}

// holdsDiscard: nobody may claim what is dropped, so a row that could be claimed
// needs a ledger that can be written. A failed one of a read-only ledger stays.
func (s *sorter) holdsDiscard(it *Item, pub Published) (why, needs string) {
	state := ledger.State(it.LedgerState)
	if (state == ledger.Queued || state == ledger.Fenced) && !s.req.Queue.LedgerWritable {
		return "ledger_read_only", "a writable ledger, or the row moved by the application"
	}
	return s.holdsRow(it, pub)
}

func (s *sorter) holdsRedrive(it *Item, pub Published) (why, needs string) {
	l := s.req.Lifts
	switch {
	case l.To == "" && it.Origin != "" && !s.req.Queue.takesBack(it.Origin):
		return "other_origin", "its origin among the queue's sources, or the destination: --to QUEUE"
	case it.Destination == "":
		return "no_destination", "the destination: --to QUEUE"
	case s.req.Queue.FanOut && !l.FanOut:
		return "fan_out", "--fan-out: every consumer of the destination gets the job again"
	case it.OrderKey != "" && s.blocked[it.OrderKey] && s.req.Queue.Ordered && !l.BreakOrder:
		return "order", "the earlier jobs of its group in the plan, or --break-order"
	}
	if why, needs := s.holdsRow(it, pub); why != "" {
		return why, needs
	}
	return s.holdsPublished(it, pub)
}

// holdsPublished holds what this store has published before, as it was or in an
// edited form. An edit that is sent besides, or once more, does not send the
// original again.
func (s *sorter) holdsPublished(it *Item, pub Published) (why, needs string) {
	switch {
	case it.Edit != nil && (it.Edit.SecondSend || it.Edit.again()):
		return "", ""
	case pub.Replaced:
		return whyReplaced, "nothing more: its edited copy " + pub.ReplacedBy + " goes in its place"
	case againHarmless(it) || pub.Count == 0 && !slices.Contains(pub.Copies, it.Copy):
		return "", ""
	case s.req.Lifts.AcceptDuplicates == "":
		return whyPublished, "two approvers for --accept-duplicates WHY"
	}
	it.Republish = true
	return "", ""
}

// holdsRow holds what the ledger's row does not allow.
func (s *sorter) holdsRow(it *Item, pub Published) (why, needs string) {
	switch {
	case it.LedgerAttempt != nil && *it.LedgerAttempt < pub.Attempt:
		return "ledger_older", "a current ledger: this store has published a later attempt than the row's"
	case s.req.Queue.LedgerWritable && !s.movable(it):
		return "not_fenced", "a fence: reconcile the queue with --apply"
	case !it.SendBefore.IsZero() && !s.now.Before(it.SendBefore):
		return "send_before_passed", "a verdict: reconcile the queue with --apply"
	default:
		return "", ""
	}
}

// movable reports that step 4 has a legal move for the row.
func (s *sorter) movable(it *Item) bool {
	_, ok := changeOf(it, "", it.Action)
	return ok || it.LedgerState == "" || it.LedgerState == rowMissing
}

// againHarmless: what this store has published before may go again when the row
// proves that nobody holds the earlier one, or when a second send is harmless.
func againHarmless(it *Item) bool {
	state := ledger.State(it.LedgerState)
	return state == ledger.Failed || state == ledger.Queued || it.Row == rowReplaySafe || it.Row == rowIdempotent
}

func (s *sorter) hold(a reconcile.Assessed, why, needs string) {
	j := a.Job
	h := Held{Copy: j.Message.Copy, MessageID: j.Message.MessageID, JobKey: j.JobKey, Class: a.Class.Class, Why: why, Needs: needs}
	a.Decision.Action, a.Decision.Why, a.Decision.Needs = reconcile.Hold, why, needs
	s.held, s.heldAs = append(s.held, h), append(s.heldAs, a)
	s.stays(a)
}

func (s *sorter) leaveOut(why string, a reconcile.Assessed) {
	s.leftOut[why]++
	s.stays(a)
}

// stays notes that a job remains in the queue before later ones of its group.
// One whose effect is proven holds nobody up.
func (s *sorter) stays(a reconcile.Assessed) {
	if key := a.Job.Message.OrderKey; key != "" && a.Decision.Action != reconcile.Settle && a.Decision.Action != reconcile.Discard {
		s.blocked[key] = true
	}
}

func firstOf(vs ...string) string {
	for _, v := range vs {
		if v != "" {
			return v
		}
	}
	return ""
}
