package cmd

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redrivectl/redrivectl/redrive"
)

// fact is one line of a report, for the table and for the ticket alike.
type fact struct {
	what, value string
	foreign     bool // the value has words that are not this program's
}

// plannedFacts say what was to be done, who said so, and when.
func (v runReportView) plannedFacts() []fact {
	fs := []fact{
		{"plan", v.Plan, true},
		{"queue", v.Queue, true},
		{"reason", v.Reason, true},
		{"requester", v.Requester + " (" + v.RequesterKnown + ")", true},
		{"selection", v.Query, true},
		{"tier", v.tierText(), true},
	}
	for _, l := range liftTexts(v.Lifts) {
		fs = append(fs, fact{"lift", l, true})
	}
	for _, s := range v.Approvals {
		fs = append(fs, fact{decided[s.Decision], s.text(), true})
	}
	if v.Solo != nil {
		fs = append(fs, fact{"solo", *v.Solo, true})
	}
	fs = append(fs, fact{"planned", utc(v.PlannedAt), false}, fact{"approved", timeText(v.ApprovedAt), false}, fact{"expires", utc(v.ExpiresAt), false})
	for i, s := range v.Sessions {
		fs = append(fs, fact{s.what(), s.text(v.Lives && i == len(v.Sessions)-1), true})
	}
	return fs
}

func (v runReportView) tierText() string {
	if len(v.TierWhy) == 0 {
		return v.Tier
	}
	return v.Tier + ": " + strings.Join(v.TierWhy, ", ")
}

// decided are the statements as a report names them.
var decided = map[string]string{
	redrive.DecisionApprove: "approved by", redrive.DecisionReject: "rejected by", redrive.DecisionRevoke: "revoked by",
	redrive.DecisionBreakGlass: "BREAK GLASS by",
}

func (s statementView) text() string {
	said := fmt.Sprintf("%s (%s) at %s: %s", s.Person, s.Known, utc(s.At), s.Reason)
	if s.Solo != nil {
		said += "; solo: " + *s.Solo
	}
	return said
}

func (s sessionView) what() string {
	if s.Resumed {
		return "resumed"
	}
	return "started"
}

// text says how the session ended, unless it is under way.
func (s sessionView) text(lives bool) string {
	state := "no end is on record; last record"
	switch {
	case s.State != nil:
		state = *s.State
	case lives:
		state = "under way"
	}
	return fmt.Sprintf("%s by %s on %s; %s %s", utc(s.StartedAt), s.By, firstText(s.Host), state, utc(s.EndedAt))
}

// liftTexts are the declared exceptions with their reasons.
func liftTexts(l redrive.Lifts) (texts []string) {
	said := func(lift, why string) {
		if why != "" {
			texts = append(texts, lift+": "+why)
		}
	}
	flag := func(lift string, set bool) {
		if set {
			texts = append(texts, lift)
		}
	}
	said("fixed", l.Fixed)
	said("as", string(l.As))
	said("accept provisional", l.AcceptProvisional)
	said("accept duplicates", l.AcceptDuplicates)
	flag("effects idempotent", l.EffectsByFlag)
	flag("fan-out", l.FanOut)
	flag("break order", l.BreakOrder)
	said("to", l.To)
	if l.Edit != nil {
		said("edit", l.Edit.JQ+", revision "+l.Edit.Revision)
	}
	flag("discard", l.Discard)
	return texts
}

// doneFacts say what was done, and how fast.
func (v runReportView) doneFacts() []fact {
	fs := append(v.Gate.facts(), []fact{
		{"rate", v.Rate.text(), false},
		{"duplicates prevented", v.Prevented.text(), v.Prevented.Count > 0},
		{"unknown sends", v.UnknownSends.text(), v.UnknownSends.Count > 0},
		{"approval to close", v.ToClose.text(), false},
	}...)
	for _, b := range v.Rollbacks {
		fs = append(fs, fact{"rolled back by", fmt.Sprintf("%s (%s) at %s: %s", b.By, b.Known, utc(b.At), b.Reason), true})
	}
	if len(v.Rollbacks) > 0 {
		fs = append(fs, fact{"jobs rolled back", strconv.Itoa(v.RolledBack), false})
	}
	if len(v.Provider.Verdicts) > 0 {
		fs = append(fs, fact{"verdicts", counts(v.Provider.Verdicts), true}, fact{"provider answers", counts(v.Provider.Answers), false})
	}
	return fs
}

func (r rateReport) text() string {
	said := fmt.Sprintf("%s/s asked", figure(r.Asked))
	if r.Effective != nil {
		said += fmt.Sprintf("; %s/s redriven over %s; at most %d in one second", figure(*r.Effective), span(r.Running-r.Idle), r.Highest)
	}
	if r.Idle > 0 {
		said += fmt.Sprintf("; observed or paused for %s", span(r.Idle))
	}
	if r.Lowest != nil {
		said += fmt.Sprintf("; lowered %s by throttling, to %s at least", times(r.Slowed), perSecond(*r.Lowest))
	}
	return said
}

// figure is a number with as many digits as people read.
func figure(f float64) string {
	if f >= 100 {
		return strconv.FormatFloat(f, 'f', 0, 64)
	}
	return strconv.FormatFloat(f, 'g', 3, 64)
}

func (p preventedReport) text() string {
	return firstNames(p.Jobs, func(j preventedJob) string { return j.name() + " (" + j.Outcome + ", " + j.Why + ")" })
}

func (u unknownSends) text() string {
	return firstNames(u.Jobs, func(j unknownSendOf) string { return j.name() + " (now " + j.Outcome + ")" })
}

// firstNames counts jobs and names the first of them.
func firstNames[J any](jobs []J, name func(J) string) string {
	said := strconv.Itoa(len(jobs))
	for i, j := range jobs[:min(len(jobs), leftShown)] {
		said += []string{": ", ", "}[min(i, 1)] + name(j)
	}
	if more := len(jobs) - leftShown; more > 0 {
		said += fmt.Sprintf(", and %d more", more)
	}
	return said
}

func (p percentilesView) text() string {
	if p.Count == 0 {
		return nothing
	}
	return fmt.Sprintf("p50 %s, p95 %s, of %d", span(*p.P50), span(*p.P95), p.Count)
}

// sinceFacts say what became of the redriven jobs.
func (v runReportView) sinceFacts() []fact {
	fs := []fact{{"since", v.Since.text(), true}, {"approval to reconciliation", v.ToReconciled.text(), false}}
	if v.Since.LookAt != nil && v.Since.Back != nil {
		fs = append(fs, fact{"back in the queue", fmt.Sprintf("%d, by the look of %s", *v.Since.Back, utc(*v.Since.LookAt)), false})
	}
	return fs
}

func (s sinceReport) text() string {
	if s.Jobs == 0 {
		return "nothing was redriven"
	}
	if s.ReadAt == nil {
		return fmt.Sprintf("%d redriven; what became of them is not known here", s.Jobs)
	}
	became := map[string]int{"sent": s.Sent, "queued": s.Queued, "claimed and pending": s.Claimed, "rolled back": s.RolledBack, "replaced": s.Replaced, "not known": s.NotKnown}
	for class, n := range s.Failed {
		became["failed again ("+class+")"] = n
	}
	return fmt.Sprintf("%s, by the ledger at %s", counts(became), utc(*s.ReadAt))
}

// recordFacts say where the run stands on record, and what that is worth.
func (v runReportView) recordFacts() []fact {
	fs := []fact{
		{"archives", v.Archives.text(), true},
		{"open intents", strconv.Itoa(v.OpenIntents), false},
		{"audit records", fmt.Sprintf("%d, from %s to %s", v.Audit.Records, or(v.Audit.First), or(v.Audit.Last)), false},
		{"audit head", fmt.Sprintf("%d %s", v.Audit.Head.Seq, v.Audit.Head.Hash), true},
		{"audit log verifies", yesNo(v.Audit.OK), false},
	}
	for _, p := range v.Audit.Problems {
		fs = append(fs, fact{"problem at " + strconv.FormatInt(p.Seq, 10), p.What, true})
	}
	for _, s := range v.Sources {
		if s.silent() {
			fs = append(fs, fact{"did not answer", s.Source + ": " + or(s.Why), true})
		}
	}
	return fs
}

func (a archivesReport) text() string {
	if a.Count == 0 || a.FirstUntil == nil || a.LastUntil == nil {
		return "none"
	}
	until := a.FirstUntil.Format(time.DateOnly)
	if last := a.LastUntil.Format(time.DateOnly); last != until {
		until += " to " + last
	}
	return fmt.Sprintf("%s; kept for %s, until %s", counts(a.Actions), span(a.Retention), until)
}

func (c classReport) text() string {
	done := map[string]int{
		"redriven": c.Redriven, "settled": c.Settled, "discarded": c.Discarded, "skipped": c.Skipped,
		"failed": c.Failed, "unknown": c.Unknown, "remaining": c.Remaining,
	}
	return fmt.Sprintf("%d: %s", c.Planned, counts(done))
}

// result is the report as lines of "what, value"; with -o jsonl its elements are
// what is left.
func (v runReportView) result() result {
	r := result{Object: v, Headers: []string{"what", "value"}, Rows: [][]string{{"run", v.Run}, {"state", v.headline()}}}
	add := func(fs []fact) {
		for _, f := range fs {
			r.Rows = append(r.Rows, []string{f.what, f.value})
		}
	}
	add(v.plannedFacts())
	for _, c := range v.Classes {
		r.Rows = append(r.Rows, []string{"class " + c.Class, c.text()})
	}
	add(v.doneFacts())
	add(v.sinceFacts())
	for _, g := range v.Left {
		r.Elements = append(r.Elements, g)
		r.Rows = append(r.Rows, []string{g.Outcome + ": " + g.Why, g.text()})
	}
	add(v.recordFacts())
	return r
}
