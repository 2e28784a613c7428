package tui

import (
	"cmp"
	"slices"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/redrivectl/redrivectl/internal/term"
)

// queuesPane lists the configured queues, as their brokers describe them.
type queuesPane struct {
	grid
	sorting
	at    string // the queue under the cursor
	shown []string
}

func newQueuesPane() *queuesPane {
	return &queuesPane{sorting: sorting{columns: []string{"queue", "jobs", "oldest"}}}
}

func (p *queuesPane) name() string  { return paneQueues }
func (p *queuesPane) title() string { return "queues" }

func (p *queuesPane) status(*Screen) string {
	if len(p.shown) == 0 {
		return "asking the brokers"
	}
	return plural(len(p.shown), "queue") + ", sorted by " + p.words() + "; describing them looked at no message"
}

func (p *queuesPane) key(s *Screen, msg tea.KeyMsg) tea.Cmd {
	switch {
	case p.move(msg, len(p.shown)):
		p.mind()
	case keys.Describe.is(msg):
		return s.describe()
	case p.sorted(msg):
		p.arrange(s)
	case keys.Open.is(msg) && p.cursor < len(p.shown):
		queue := p.shown[p.cursor]
		s.push(newClassesPane(queue))
		if !s.book(queue).looked {
			return s.look(queue)
		}
	}
	return nil
}

func (p *queuesPane) told(s *Screen, msg tea.Msg) tea.Cmd {
	if _, ok := msg.(described); ok {
		p.arrange(s)
	}
	return nil
}

// arrange puts the queues in order, and the cursor where its queue now is.
func (p *queuesPane) arrange(s *Screen) {
	p.shown = p.shown[:0]
	for name, b := range s.books {
		if b.known {
			p.shown = append(p.shown, name)
		}
	}
	slices.SortFunc(p.shown, func(x, y string) int {
		a, b := s.books[x].queue, s.books[y].queue
		by := 0
		switch p.by {
		case 1:
			by = cmp.Compare(b.Depth, a.Depth)
		case 2:
			by = byTime(a.OldestAt, b.OldestAt)
		}
		return cmp.Or(p.way(by), p.way(cmp.Compare(x, y)))
	})
	if i := slices.Index(p.shown, p.at); i >= 0 {
		p.cursor = i
	}
	p.clamp(len(p.shown))
	p.mind()
}

// mind remembers which queue the cursor is on.
func (p *queuesPane) mind() {
	if p.cursor < len(p.shown) {
		p.at = p.shown[p.cursor]
	}
}

var queueColumns = []column{
	{head: "queue", least: 14, grow: 2},
	{head: "broker", least: 6, from: 100},
	{head: "jobs", least: 7, right: true},
	{head: "counted", least: 11},
	{head: "oldest", least: 6, right: true},
	{head: "expires in", least: 10, right: true},
	{head: "a look", least: 19, grow: 1},
}

func (p *queuesPane) view(s *Screen, w, h int) []string {
	v := gridView{columns: queueColumns, n: len(p.shown), empty: "asking the brokers"}
	v.cells = func(i int) []string {
		q := s.books[p.shown[i]].queue
		if q.Failed != "" {
			return []string{tidy(q.Name), q.Broker, nothing, "", "", "", "failed: " + q.Failed}
		}
		counted, look := "approximate", "leaves no trace"
		if q.Exact {
			counted = "exact"
		}
		if q.LookCounts {
			look = "counts as a receive"
		}
		return []string{
			tidy(q.Name), q.Broker, term.Count(q.Depth), counted, age(s.now(), q.OldestAt), left(s.now(), q.expires()), look,
		}
	}
	v.tone = func(i int) tone {
		if s.books[p.shown[i]].queue.Failed != "" {
			return toneBad
		}
		return toneNone
	}
	below := p.below(s, w)
	return append(p.draw(v, w, h-len(below), s.styles), below...)
}

// below says why the queue under the cursor could not be described.
func (p *queuesPane) below(s *Screen, w int) []string {
	text := ""
	if p.cursor < len(p.shown) {
		text = s.books[p.shown[p.cursor]].queue.Failed
	}
	lines := append(wrapped(text, w), "")[:2]
	for i := range lines {
		lines[i] = s.styles.bad.Render(pad(lines[i], w))
	}
	return lines
}
