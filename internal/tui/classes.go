package tui

import (
	"cmp"
	"fmt"
	"slices"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/redrivectl/redrivectl/internal/term"
)

// classesPane lists the failure classes of one queue.
type classesPane struct {
	grid
	sorting
	queue string
	at    string // the class under the cursor
	shown []Class
}

func newClassesPane(queue string) *classesPane {
	return &classesPane{queue: queue, sorting: sorting{columns: []string{"jobs", "class", "oldest", "first to expire"}}}
}

func (p *classesPane) name() string            { return paneClasses }
func (p *classesPane) title() string           { return tidy(p.queue) }
func (p *classesPane) status(s *Screen) string { return s.book(p.queue).status(s.now()) }

func (p *classesPane) key(s *Screen, msg tea.KeyMsg) tea.Cmd {
	switch {
	case p.move(msg, len(p.shown)):
		p.mind()
	case keys.Look.is(msg):
		return s.look(p.queue)
	case p.sorted(msg):
		p.arrange(s)
	case keys.Unmark.is(msg):
		clear(s.book(p.queue).classes)
	case keys.Mark.is(msg) && p.cursor < len(p.shown):
		flip(s.book(p.queue).classes, p.shown[p.cursor].Name)
		p.cursor++
		p.clamp(len(p.shown))
		p.mind()
	case keys.Reconcile.is(msg):
		if sc, ok := p.scope(s); ok {
			return s.reconcile(p.queue, sc)
		}
	case keys.Create.is(msg):
		if sc, ok := p.scope(s); ok {
			return s.form(p.queue, sc)
		}
	case keys.Open.is(msg) && p.cursor < len(p.shown):
		jobs := newJobsPane(p.queue, p.shown[p.cursor].Name)
		s.push(jobs)
		return jobs.arrange(s)
	}
	return nil
}

func (p *classesPane) told(s *Screen, msg tea.Msg) tea.Cmd {
	if l, ok := msg.(looked); ok && l.queue == p.queue {
		p.arrange(s)
	}
	return nil
}

// arrange puts the classes in order, those that are gone with them, and the
// cursor where its class now is.
func (p *classesPane) arrange(s *Screen) {
	b := s.book(p.queue)
	p.shown = append(slices.Clone(b.look.Classes), b.gone()...)
	slices.SortFunc(p.shown, func(x, y Class) int {
		by := 0
		switch p.by {
		case 0:
			by = cmp.Compare(y.Count, x.Count)
		case 2:
			by = byTime(x.OldestAt, y.OldestAt)
		case 3:
			by = byTime(x.ExpiresAt, y.ExpiresAt)
		}
		return cmp.Or(p.way(by), p.way(cmp.Compare(x.Name, y.Name)))
	})
	if i := slices.IndexFunc(p.shown, func(c Class) bool { return c.Name == p.at }); i >= 0 {
		p.cursor = i
	}
	p.clamp(len(p.shown))
	p.mind()
}

// mind remembers which class the cursor is on.
func (p *classesPane) mind() {
	if p.cursor < len(p.shown) {
		p.at = p.shown[p.cursor].Name
	}
}

var classColumns = []column{
	{head: "class", least: 19, grow: 1},
	{head: "jobs", least: 7, right: true},
	{head: "trend", least: 7, right: true},
	{head: "next", least: 7},
	{head: "effect", least: 7, from: 90},
	{head: "owner", least: 8, grow: 1},
	{head: "oldest", least: 7, right: true},
	{head: "expires", least: 7, right: true},
}

func (p *classesPane) view(s *Screen, w, h int) []string {
	b := s.book(p.queue)
	v := gridView{columns: classColumns, n: len(p.shown), empty: "no job is quarantined"}
	if !b.looked {
		v.empty = ""
	}
	v.cells = func(i int) []string {
		c := p.shown[i]
		return []string{
			c.Name, term.Count(int64(c.Count)), trend(b.trend(c.Name, c.Count)), c.Disposition, c.Effect, or(c.Owner),
			age(s.now(), c.OldestAt), left(s.now(), c.ExpiresAt),
		}
	}
	v.tone = func(i int) tone {
		switch {
		case p.shown[i].Count == 0:
			return toneGood
		case b.trend(p.shown[i].Name, p.shown[i].Count) > 0:
			return toneWarn
		default:
			return toneNone
		}
	}
	v.marked = func(i int) bool { return b.classes[p.shown[i].Name] }
	below := p.below(s, w, h)
	return append(p.draw(v, w, h-len(below), s.styles), below...)
}

// trend says how much more or less there is since the screen opened.
func trend(by int) string {
	if by == 0 {
		return "="
	}
	return fmt.Sprintf("%+d", by)
}

// grown says the same in words.
func grown(by int) string {
	switch {
	case by > 0:
		return term.Count(int64(by)) + " more than"
	case by < 0:
		return term.Count(int64(-by)) + " fewer than"
	default:
		return "as many as"
	}
}

// below says all of the class under the cursor, which columns may cut.
func (p *classesPane) below(s *Screen, w, h int) []string {
	if p.cursor >= len(p.shown) {
		return nil
	}
	c := p.shown[p.cursor]
	return s.footnotes(w, h,
		fmt.Sprintf("%s: effect %s, owner %s; %s when the screen opened", c.Name, or(c.Effect), or(c.Owner), grown(s.book(p.queue).trend(c.Name, c.Count))),
		"runbook: "+or(c.Runbook))
}
