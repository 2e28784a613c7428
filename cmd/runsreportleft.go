package cmd

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/redrivectl/redrivectl/redrive"
)

// Outcomes that are no end of an item in the run, but what came after it.
const (
	leftFailedAgain = "failed_again"
	leftBack        = "back_in_queue"
	leftRolledBack  = "rolled_back"
)

// leftShown is how many jobs of a group a person is shown; JSON has all.
const leftShown = 3

// leftView is a group of jobs that are not done, or not any more, for one reason.
type leftView struct {
	Outcome string        `json:"outcome"`
	Why     string        `json:"why"`
	Count   int           `json:"count"`
	Needs   string        `json:"needs"`
	Jobs    []reportedJob `json:"jobs"`
}

// leftovers gathers what is left, by outcome and reason.
type leftovers struct{ groups map[leftKey]*leftView }

type leftKey struct{ outcome, why string }

func (l *leftovers) add(outcome, why string, it redrive.Item) {
	if l.groups == nil {
		l.groups = map[leftKey]*leftView{}
	}
	k := leftKey{outcome, why}
	if l.groups[k] == nil {
		l.groups[k] = &leftView{Outcome: outcome, Why: why}
	}
	g := l.groups[k]
	g.Count++
	g.Jobs = append(g.Jobs, newReportedJob(it))
}

// end adds an item of the plan that the run did not do.
func (l *leftovers) end(it redrive.Item, e redrive.ItemEnd, open bool) {
	switch word := e.Word(); word {
	case "redriven", "settled", "discarded":
	case "remaining":
		why := "not_begun"
		if open {
			why = "in_flight"
		}
		l.add(word, why, it)
	default:
		l.add(word, maskedWord(e.Reason), it)
	}
}

// leftOrder is how outcomes follow each other: what may have had an effect first.
var leftOrder = []string{"unknown", leftFailedAgain, leftBack, leftRolledBack, "failed", "skipped", "remaining"}

func (l *leftovers) views(n nextCommands) []leftView {
	views := []leftView{}
	for _, g := range l.groups {
		g.Needs = n.of(g.Outcome, g.Why)
		views = append(views, *g)
	}
	slices.SortFunc(views, func(x, y leftView) int {
		return cmp.Or(cmp.Compare(slices.Index(leftOrder, x.Outcome), slices.Index(leftOrder, y.Outcome)), y.Count-x.Count, cmp.Compare(x.Why, y.Why))
	})
	return views
}

// some are the names of the first jobs of the group, and how many more there are.
func (g leftView) some() (names []string, more int) {
	for _, j := range g.Jobs[:min(len(g.Jobs), leftShown)] {
		names = append(names, j.name())
	}
	return names, len(g.Jobs) - len(names)
}

// nextCommands words what to type about what is left. No job is named in them: a
// key is a text from outside, and what is typed goes to a shell.
type nextCommands struct {
	run, queue string
	lives      bool // the run goes on by itself
	resumes    bool // it may be resumed
	promotes   bool // it waits at its gate for a person
}

func (r *runReporter) needs() nextCommands {
	goesOn := r.run.Lives && r.run.State != redrive.RunPaused
	return nextCommands{run: short(r.view.Run), queue: r.view.Queue, lives: goesOn, resumes: !goesOn && !r.run.State.Ended(), promotes: r.view.record.atGate()}
}

func (n nextCommands) of(outcome, why string) string {
	switch {
	case outcome == "remaining" && n.lives:
		return "redrivectl runs show " + n.run
	case n.promotes && outcome == "remaining":
		return promoteHint(n.run)
	case n.resumes && (outcome == "remaining" || why == redrive.OpenIntent):
		return "redrivectl resume " + n.run
	case outcome == "remaining", outcome == leftRolledBack:
		return n.planAgain("")
	case outcome == leftFailedAgain, outcome == leftBack:
		return "redrivectl list " + n.queue + " --jobs"
	case outcome == "unknown":
		return "redrivectl trace JOB"
	default:
		return n.after(why)
	}
}

// after is what to type about an item that was skipped, held or failed.
func (n nextCommands) after(why string) string {
	switch why {
	case "manual_hold":
		return "redrivectl release JOB --reason WHY"
	case "already_sent", "row_sent", "row_reconciled":
		return n.planAgain(" --action settle")
	case "publish_refused":
		return "redrivectl doctor " + n.queue
	case "gone", "copy_gone":
		return "redrivectl trace JOB"
	case "publish_unknown", "changed_verdict", "changed_effect", "row_sending", "row_fenced", "row_queued":
		return "redrivectl reconcile " + n.queue + " --apply"
	case "ledger_unreadable", "ledger_missing", "ledger_read_only", "ledger_lost":
		return "redrivectl ledger check"
	case "revoked", "approval_expired", "expired", "policy changed", "settings changed", "not_received", "row_failed", "rolled_back", "order_blocked", "send_before_passed":
		return n.planAgain("")
	default:
		return "redrivectl show JOB"
	}
}

// planAgain is a new plan for the same jobs, whose keys the JSON of the report has.
func (n nextCommands) planAgain(options string) string {
	return "redrivectl plan create " + n.queue + " --jobs-from FILE" + options + " --max N --reason WHY"
}

// text is the group in one line for a table.
func (g leftView) text() string {
	names, more := g.some()
	said := strconv.Itoa(g.Count) + ": " + strings.Join(names, ", ")
	if more > 0 {
		said += ", and " + strconv.Itoa(more) + " more"
	}
	return said + "; next: " + g.Needs
}
