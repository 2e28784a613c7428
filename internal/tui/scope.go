package tui

import (
	"maps"
	"slices"
	"strings"

	"github.com/redrivectl/redrivectl/redrive"
)

// scope is what a plan or a reconciliation is to be about.
type scope struct {
	sel   redrive.Selection
	words string // for the person
}

// scope of the classes: those that are marked, else the one under the cursor.
func (p *classesPane) scope(s *Screen) (scope, bool) {
	marked := slices.Sorted(maps.Keys(s.book(p.queue).classes))
	if len(marked) == 0 && p.cursor < len(p.shown) {
		marked = []string{p.shown[p.cursor].Name}
	}
	if len(marked) == 0 {
		return scope{}, false
	}
	return scope{redrive.Selection{Class: marked}, "class " + tidy(strings.Join(marked, ", "))}, true
}

// scope of the jobs: those that are marked, else all that the list shows. Words
// cannot be planned by, so that what they left is named job by job.
func (p *jobsPane) scope(s *Screen) (scope, bool) {
	b := s.book(p.queue)
	switch {
	case len(b.marks) > 0:
		return scope{redrive.Selection{Jobs: p.names(func(j *Job) bool { return b.marks[j.ID] })}, plural(len(b.marks), "marked job")}, true
	case len(p.shown.order) == 0:
		return scope{}, false
	case len(p.filter.Words) > 0:
		names := p.names(func(j *Job) bool { return p.shown.place(j.ID) >= 0 })
		return scope{redrive.Selection{Jobs: names}, plural(len(p.shown.order), "job") + " that the list shows"}, true
	case p.filter.Select.Empty():
		return scope{redrive.Selection{All: true}, "all jobs of " + tidy(p.queue)}, true
	default:
		return scope{p.filter.Select, tidy(p.filter.String())}, true
	}
}

// names are how a selection names the jobs of the look that are in.
func (p *jobsPane) names(in func(*Job) bool) []string {
	var names []string
	for i := range p.shown.jobs {
		if j := &p.shown.jobs[i]; in(j) {
			names = append(names, j.ask)
		}
	}
	return names
}
