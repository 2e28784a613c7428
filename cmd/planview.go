package cmd

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redrivectl/redrivectl/internal/term"
	"github.com/redrivectl/redrivectl/reconcile"
	"github.com/redrivectl/redrivectl/redrive"
)

// planView is the plan shape of docs/json-output.md.
type planView struct {
	Plan      string         `json:"plan"`
	Queue     string         `json:"queue"`
	State     string         `json:"state"`
	DryRun    bool           `json:"dry_run"`
	Requester string         `json:"requester"`
	Verified  bool           `json:"person_verified"`
	Reason    string         `json:"reason"`
	Query     string         `json:"query"`
	ItemCount int            `json:"item_count"`
	Actions   map[string]int `json:"actions"`
	Classes   map[string]int `json:"classes"`
	Unwrapped int            `json:"unwrapped"`
	Tier      string         `json:"tier"`
	TierWhy   []string       `json:"tier_why"`
	Needed    int            `json:"approvals_needed"`
	Given     int            `json:"approvals_given"`
	Approved  bool           `json:"approved"`
	CreatedAt time.Time      `json:"created_at"`
	ExpiresAt time.Time      `json:"expires_at"`
	Rate      float64        `json:"rate_per_second"`
	Max       int            `json:"max"`
	Canary    int            `json:"canary"`
	Gate      string         `json:"gate"`
	// Thresholds are null where nothing is judged.
	Thresholds *redrive.Thresholds `json:"thresholds"`
	Retention  int64               `json:"archive_retention_seconds"`
	Lifts      redrive.Lifts       `json:"lifts"`
	LeftOut    map[string]int      `json:"left_out"`
	Held       []jobView           `json:"held"`
	Items      []redrive.Item      `json:"items,omitempty"`
	Diffs      []diffView          `json:"diffs,omitempty"`
	ActiveRun  *string             `json:"run"`
	Solo       *string             `json:"solo,omitempty"`        // why a team of one approves for itself
	Glass      *string             `json:"break_glass,omitempty"` // why one person ran it without the approvals that it needs
}

func newPlanView(id redrive.PlanID, p redrive.Plan, state redrive.PlanState, given int) planView {
	v := planView{
		Plan: string(id), Queue: p.Queue, State: string(state), Requester: p.Requester,
		Reason: term.Mask(p.Reason), Query: term.Mask(p.Query), ItemCount: len(p.Items),
		Actions: map[string]int{"redrive": 0, "settle": 0, "discard": 0}, Classes: map[string]int{},
		Tier: string(p.Tier), TierWhy: p.TierWhy, Needed: p.Tier.Needed(), Given: given,
		Approved:  state == redrive.PlanApproved || state == redrive.PlanRunning || state == redrive.PlanFinished,
		CreatedAt: p.CreatedAt, ExpiresAt: p.ExpiresAt, Max: p.Max, Retention: p.ArchiveSeconds, Canary: p.Canary, Gate: p.Gate, Thresholds: p.Thresholds, Lifts: maskedLifts(p.Lifts), LeftOut: p.LeftOut, Held: []jobView{},
	}
	if r, err := redrive.ParseRate(p.RatePerSecond); err == nil {
		v.Rate = float64(r)
	}
	for _, it := range p.Items {
		v.Actions[string(it.Action)]++
		v.Classes[string(it.Class)]++
		if it.Unwrap && it.Action == reconcile.Redrive {
			v.Unwrapped++
		}
	}
	for _, h := range p.Held {
		v.Held = append(v.Held, jobView{
			JobKey: text(h.JobKey), MessageID: h.MessageID, CopyID: h.Copy.String(), Queue: p.Queue,
			Class: string(h.Class), Action: string(reconcile.Hold), Why: h.Why, Needs: text(h.Needs),
		})
	}
	return v
}

// maskedLifts hides secrets in what a person stated.
func maskedLifts(l redrive.Lifts) redrive.Lifts {
	l.Fixed, l.AcceptProvisional, l.AcceptDuplicates = term.Mask(l.Fixed), term.Mask(l.AcceptProvisional), term.Mask(l.AcceptDuplicates)
	if l.Edit != nil {
		e := *l.Edit
		e.JQ, l.Edit = term.Mask(e.JQ), &e
	}
	return l
}

// result prints the plan as lines of "what, value"; with items, those too.
func (v planView) result(p redrive.Plan, items bool) result {
	r := result{
		Object:  v,
		Headers: []string{"what", "value"},
		Rows: [][]string{
			{"plan", v.Plan},
			{"queue", v.Queue},
			{"state", v.State},
			{"reason", v.Reason},
			{"requester", v.Requester},
			{"selection", v.Query},
			{"items", strconv.Itoa(v.ItemCount)},
			{"actions", counts(v.Actions)},
			{"classes", counts(v.Classes)},
			{"approval", v.approval()},
			{"rate", fmt.Sprintf("%s/s, about %s", p.RatePerSecond, planDuration(p))},
			{"expires", utc(v.ExpiresAt)},
			{"left out", counts(v.LeftOut)},
			{"held", heldText(v.Held)},
		},
	}
	r.Rows = append(glassRows(v.Glass), r.Rows...)
	r.Rows = append(r.Rows, gateRows(p)...)
	if v.Unwrapped > 0 {
		r.Rows = append(r.Rows, []string{"unwrapped", fmt.Sprintf("%d: the original alone is sent, without its wrapper", v.Unwrapped)})
	}
	if v.Actions["discard"] > 0 {
		r.Rows = slices.Insert(r.Rows, 1+len(glassRows(v.Glass)), []string{"destroys", v.destroys()})
	}
	if e := v.Lifts.Edit; e != nil {
		r.Rows = append(r.Rows, []string{"edit", e.JQ}, []string{"revision", e.Revision})
	}
	r.Rows = append(r.Rows, soloRows(v.Solo)...)
	for _, h := range v.Held {
		r.Elements = append(r.Elements, h)
	}
	r.withDiffs(v.Diffs)
	if items {
		r.Rows = append(r.Rows, v.itemRows(p)...)
	}
	return r
}

// itemRows are every item and every held job.
func (v planView) itemRows(p redrive.Plan) [][]string {
	var rows [][]string
	for _, it := range p.Items {
		cells := []string{firstText(it.JobKey, it.MessageID), string(it.Class), it.Why}
		if it.Unwrap && it.Action == reconcile.Redrive {
			cells = append(cells, "unwrapped")
		}
		rows = append(rows, []string{string(it.Action), strings.Join(append(cells, becomes(it)...), "  ")})
	}
	for _, h := range v.Held {
		rows = append(rows, []string{"held", strings.Join([]string{firstText(or(h.JobKey), h.MessageID), h.Class, h.Why, or(h.Needs)}, "  ")})
	}
	return rows
}

// becomes names the edited copy that goes in an item's place.
func becomes(it redrive.Item) []string {
	if it.Edit == nil {
		return nil
	}
	return []string{"becomes " + firstText(it.Edit.JobKey, "another payload")}
}

// destroys says what a plan that discards takes away, and until when it can be
// brought back.
func (v planView) destroys() string {
	return fmt.Sprintf("%d jobs for good (%s); archived whole first, for %s", v.Actions["discard"], counts(v.Classes), span(float64(v.Retention)))
}

// approval says who must approve and why, and how many have, where that is known.
func (v planView) approval() string {
	who := fmt.Sprintf("%s (%s)", v.Tier, strings.Join(v.TierWhy, ", "))
	if v.State == stateOfFile {
		return fmt.Sprintf("%s, %d needed", who, v.Needed)
	}
	return fmt.Sprintf("%s, %d of %d given", who, v.Given, v.Needed)
}

func planDuration(p redrive.Plan) time.Duration {
	rate, err := redrive.ParseRate(p.RatePerSecond)
	if err != nil {
		return 0
	}
	return rate.Needs(len(p.Items))
}

// heldText counts what is held by what it needs.
func heldText(held []jobView) string {
	needs := map[string]int{}
	for _, h := range held {
		needs[or(h.Needs)]++
	}
	if len(needs) == 0 {
		return "0"
	}
	return strconv.Itoa(len(held)) + ": " + counts(needs)
}

// tallyView is the whole plan as it stands now.
func tallyView(s redrive.Tally) planView {
	v := newPlanView(s.Plan.ID, s.Plan.Plan, s.Plan.State, s.Given)
	v.Approved, v.ActiveRun = s.Approved, text(string(s.Plan.Run))
	for _, a := range s.Statements {
		if a.Decision == redrive.DecisionBreakGlass {
			v.Glass = text(term.Mask(a.Reason))
		}
	}
	return v
}
