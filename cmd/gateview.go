package cmd

import (
	"fmt"
	"time"

	"github.com/redrivectl/redrivectl/internal/term"
	"github.com/redrivectl/redrivectl/redrive"
)

// verdictNone and verdictPending are what a gate says that is no verdict.
const (
	verdictNone    = "none"    // the plan has no canary
	verdictPending = "pending" // not judged yet
	// verdictUnreadable: what is on record of it is not what it was.
	verdictUnreadable = "unreadable"
)

// gateView is the gate shape of docs/json-output.md.
type gateView struct {
	Verdict    string         `json:"verdict"`
	Why        *string        `json:"why"`
	Kind       *string        `json:"kind"`
	JudgedAt   *time.Time     `json:"judged_at"`
	Figures    any            `json:"figures"`
	Thresholds any            `json:"thresholds"`
	Promoted   *promotionView `json:"promoted"`

	state redrive.GateState
}

type promotionView struct {
	By     string    `json:"person"`
	Reason string    `json:"reason"`
	At     time.Time `json:"promoted_at"`
}

func newGateView(g redrive.GateState) gateView {
	v := gateView{Verdict: verdictNone, Figures: struct{}{}, Thresholds: struct{}{}, state: g}
	if g.Thresholds != nil {
		v.Thresholds = g.Thresholds
	}
	if !g.Exists {
		return v
	}
	v.Kind = text(g.Kind)
	if v.Verdict = verdictPending; g.Verdict == "" {
		return v
	}
	v.Verdict, v.Why, v.JudgedAt, v.Figures = string(g.Verdict), text(term.Mask(g.Why)), moment(g.At), g.Figures
	if p := g.Promoted; p.By != "" {
		v.Promoted = &promotionView{p.By, term.Mask(p.Reason), p.At.UTC()}
	}
	return v
}

// rows say in a table what the gate found; none where the plan has no canary.
func (v gateView) rows() [][]string {
	var rows [][]string
	for _, f := range v.facts() {
		rows = append(rows, []string{f.what, f.value})
	}
	return rows
}

func (v gateView) facts() []fact {
	if !v.state.Exists {
		return nil
	}
	fs := []fact{{"gate", "no verdict yet", false}}
	if v.state.Verdict != "" {
		judged, of := "gate", "canary"
		if v.state.Verdict == redrive.VerdictTripped {
			judged, of = "circuit breaker", "window"
		}
		fs = []fact{{judged, v.Verdict + ": " + or(v.Why), true}, {of, figuresText(v.state.Figures, v.state.Kind), false}}
	}
	if t := v.state.Thresholds; t != nil {
		fs = append(fs, fact{"thresholds", thresholdText(*t), false})
	}
	if p := v.Promoted; p != nil {
		fs = append(fs, fact{"promoted by", fmt.Sprintf("%s at %s: %s", p.By, utc(p.At), p.Reason), true})
	}
	return fs
}

// figuresText says in a line what became of a canary.
func figuresText(f redrive.Figures, kind string) string {
	if f.Window > 0 {
		return windowText(f, kind)
	}
	said := fmt.Sprintf("%d of %d handed over", f.Redrives, f.Canary)
	if kind == redrive.GateDLQOnly {
		return fmt.Sprintf("%s; %d came back within %s; no ledger tells of the others", said, f.Returned, span(f.ObservedSeconds))
	}
	said += fmt.Sprintf(": %d sent, %d failed, %d without an outcome after %s; %d came back, %d throttled",
		f.Sent, f.Failed, f.Pending, span(f.ObservedSeconds), f.Returned, f.Throttled)
	if f.P50Seconds != nil {
		said += fmt.Sprintf("; sent after p50 %s, p95 %s", span(*f.P50Seconds), span(*f.P95Seconds))
	}
	return said
}

// windowText says in a line what became of the redrives that a circuit breaker
// judged.
func windowText(f redrive.Figures, kind string) string {
	said := fmt.Sprintf("the last %d, of %d at most", f.Redrives, f.Window)
	if kind == redrive.GateDLQOnly {
		return fmt.Sprintf("%s: %d came back; no ledger tells of the others", said, f.Returned)
	}
	said += fmt.Sprintf(": %d sent, %d failed, %d without an outcome in time; %d came back, %d throttled", f.Sent, f.Failed, f.Late, f.Returned, f.Throttled)
	if f.P50Seconds != nil {
		said += fmt.Sprintf("; sent after p50 %s, p95 %s", span(*f.P50Seconds), span(*f.P95Seconds))
	}
	return said
}

// tellGate says at a run's own terminal what its gate does.
func (a *app) tellGate(progress *term.Progress) func(redrive.Observation) {
	told, paused := false, false
	return func(o redrive.Observation) {
		f := o.Figures
		switch {
		case o.Paused:
			paused = true
			a.note("the run waits for a person: redrivectl resume %s --promote --reason WHY lets it go on, from any terminal; redrivectl abort %s ends it",
				short(string(o.Run)), short(string(o.Run)))
		case o.Gate.Verdict != "" && paused:
			a.note("promoted by %s: %s; the run goes on", o.Gate.Promoted.By, term.Mask(o.Gate.Promoted.Reason))
		case o.Gate.Verdict == redrive.VerdictTripped:
			a.note("the circuit breaker tripped: %s", term.Mask(o.Gate.Why))
			a.note("%s", windowText(f, o.Gate.Kind))
		case o.Gate.Verdict != "":
			a.note("the gate says %s: %s", o.Gate.Verdict, term.Mask(o.Gate.Why))
		case !told:
			told = true
			a.note("the canary is out, %d jobs; the gate waits for what becomes of them, until %s at the latest", f.Redrives, utc(o.Until))
			if o.LookCosts {
				a.note("a look at the dead-letter queue counts as a receive there: it gets at most one, at the end")
			}
		default:
			progress.Update(term.Step{What: "observing the canary", Done: int64(f.Redrives - f.Pending), Total: int64(f.Redrives)})
		}
	}
}
