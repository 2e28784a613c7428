package cmd

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/redrivectl/redrivectl/internal/term"
)

// ticket is a report in Markdown. What this program words and counts stands as it
// is; every other text is a code span.
type ticket struct{ strings.Builder }

// markdown writes the report as a ticket.
func (v runReportView) markdown() string {
	t := &ticket{}
	fmt.Fprintf(&t.Builder, "# Run %s on %s\n\n%s: %s.\n",
		term.CodeSpan(short(v.Run)), term.CodeSpan(v.Queue), term.CodeSpan(v.record.stateText()), v.record.done())
	if v.Glass != nil {
		fmt.Fprintf(&t.Builder, "\n**BREAK GLASS: run by one person, without the approvals that it needs:** %s\n", term.CodeSpan(*v.Glass))
	}
	if !v.Audit.OK {
		t.WriteString("\n**The audit log does not verify: nothing below is proven.**\n")
	}
	t.section("Plan")
	t.facts(append([]fact{{"run", v.Run, true}}, v.plannedFacts()...))
	t.section("What was done")
	t.classes(v.Classes)
	t.list(v.doneFacts())
	t.section("What became of it since")
	t.list(v.sinceFacts())
	t.section("What is left")
	t.left(v.Left)
	t.section("On record")
	t.list(v.recordFacts())
	return t.String()
}

func (t *ticket) section(name string) { fmt.Fprintf(&t.Builder, "\n## %s\n\n", name) }

func (f fact) cell() string {
	if f.foreign {
		return term.CodeSpan(f.value)
	}
	return f.value
}

func (t *ticket) facts(fs []fact) {
	t.table("what", "value")
	for _, f := range fs {
		t.row(f.what, f.cell())
	}
}

func (t *ticket) list(fs []fact) {
	for _, f := range fs {
		fmt.Fprintf(&t.Builder, "- %s: %s\n", f.what, f.cell())
	}
}

// classes is the matrix of classes and outcomes.
func (t *ticket) classes(cs []classReport) {
	t.table("class", "planned", "redriven", "settled", "discarded", "skipped", "failed", "unknown", "remaining")
	for _, c := range cs {
		cells := []string{term.CodeSpan(c.Class)}
		for _, n := range []int{c.Planned, c.Redriven, c.Settled, c.Discarded, c.Skipped, c.Failed, c.Unknown, c.Remaining} {
			cells = append(cells, strconv.Itoa(n))
		}
		t.row(cells...)
	}
	t.WriteString("\n")
}

func (t *ticket) left(groups []leftView) {
	if len(groups) == 0 {
		t.WriteString("Nothing.\n")
		return
	}
	t.table("outcome", "why", "count", "jobs", "next")
	for _, g := range groups {
		names, more := g.some()
		for i, name := range names {
			names[i] = term.CodeSpan(name)
		}
		if more > 0 {
			names = append(names, fmt.Sprintf("and %d more", more))
		}
		t.row(strings.ReplaceAll(g.Outcome, "_", " "), term.CodeSpan(g.Why), strconv.Itoa(g.Count), strings.Join(names, ", "), term.CodeSpan(g.Needs))
	}
}

func (t *ticket) table(headers ...string) {
	t.row(headers...)
	t.row(strings.Split(strings.Repeat("--- ", len(headers)-1)+"---", " ")...)
}

func (t *ticket) row(cells ...string) {
	fmt.Fprintf(&t.Builder, "| %s |\n", strings.Join(cells, " | "))
}
