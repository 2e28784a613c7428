package tui

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/redrivectl/redrivectl/internal/term"
)

// runsPane lists the runs of the store, newest first.
type runsPane struct {
	grid
	at     string
	shown  []Run
	asking bool
}

func (s *Screen) openRuns() tea.Cmd {
	p := &runsPane{}
	s.push(p)
	return p.again(s)
}

func (p *runsPane) name() string          { return paneRuns }
func (p *runsPane) title() string         { return "runs" }
func (p *runsPane) status(*Screen) string { return plural(len(p.shown), "run") + ", newest first" }

// listed are the runs as they stand.
type listed struct {
	pane *runsPane
	runs []Run
	err  error
}

func (p *runsPane) again(s *Screen) tea.Cmd {
	if p.asking || s.top() != pane(p) {
		return nil
	}
	p.asking = true
	return s.run(func(ctx context.Context) tea.Msg {
		rs, err := s.desk.Runs(ctx)
		for i := range rs {
			rs[i].tidy()
		}
		return listed{p, rs, err}
	})
}

func (p *runsPane) told(s *Screen, msg tea.Msg) tea.Cmd {
	m, ok := msg.(listed)
	if !ok || m.pane != p {
		return nil
	}
	p.asking = false
	if m.err != nil {
		s.fail(m.err)
		return nil
	}
	p.shown = m.runs
	if i := slices.IndexFunc(p.shown, func(r Run) bool { return r.ID == p.at }); i >= 0 {
		p.cursor = i
	}
	p.clamp(len(p.shown))
	p.mind()
	return nil
}

func (p *runsPane) mind() {
	if p.cursor < len(p.shown) {
		p.at = p.shown[p.cursor].ID
	}
}

func (p *runsPane) key(s *Screen, msg tea.KeyMsg) tea.Cmd {
	switch {
	case p.move(msg, len(p.shown)):
		p.mind()
	case keys.Look.is(msg):
		return p.again(s)
	case keys.Open.is(msg) && p.cursor < len(p.shown):
		return s.watch(p.shown[p.cursor].Plan)
	}
	return nil
}

func (p *runsPane) view(s *Screen, w, h int) []string {
	v := gridView{n: len(p.shown), empty: "no run yet", columns: []column{
		{head: "run", least: 12},
		{head: "queue", least: 10, grow: 1},
		{head: "state", least: 18, grow: 1},
		{head: "done", least: 14, right: true},
		{head: "started", least: 8, right: true},
		{head: "plan", least: 12, from: 100},
	}}
	v.cells = func(i int) []string {
		r := p.shown[i]
		done := term.Count(int64(r.Planned-r.Left)) + " of " + term.Count(int64(r.Planned))
		return []string{short(r.ID), r.Queue, r.State, done, age(s.now(), r.Started), short(r.Plan)}
	}
	return p.draw(v, w, h, s.styles)
}

// runPane watches a plan's run: how far it is, what its gate found, and what went
// wrong; and takes what can be asked of it.
type runPane struct {
	pager
	plan   string
	run    Run
	found  bool
	asking bool
}

func (s *Screen) watch(plan string) tea.Cmd {
	p := &runPane{plan: plan}
	s.push(p)
	return p.again(s)
}

func (p *runPane) name() string { return paneRun }

func (p *runPane) title() string {
	if !p.found {
		return "run"
	}
	return "run " + short(p.run.ID)
}

func (p *runPane) status(s *Screen) string {
	if !p.found {
		if d := p.here(s); d != nil && d.err != "" {
			return "it did not begin: " + d.err
		}
		return "no run yet"
	}
	r := p.run
	text := fmt.Sprintf("%s: %s of %s", r.State, term.Count(int64(r.Planned-r.Left)), term.Count(int64(r.Planned)))
	if r.AtGate {
		text += "; its gate was inconclusive: P promotes it, X ends it"
	}
	if left := p.timeLeft(); left > 0 {
		text += ", about " + term.Duration(left) + " left at " + fmt.Sprintf("%.4g/s", r.Rate)
	}
	if p.here(s) != nil && !p.here(s).over {
		text += ", carried out here"
	}
	return text
}

// timeLeft is how long what remains takes at the rate; 0: not known, or nothing is
// under way.
func (p *runPane) timeLeft() time.Duration {
	r := p.run
	if r.Ended || r.Paused || r.Rate <= 0 || r.Left == 0 {
		return 0
	}
	return time.Duration(float64(r.Left) / r.Rate * float64(time.Second)).Round(time.Second)
}

// here is what carries the run out in this process, or did; nil: another does.
func (p *runPane) here(s *Screen) *doing {
	for _, d := range slices.Backward(s.acts) {
		if d.runs() && (d.act.On == p.plan || p.found && d.act.On == p.run.ID) {
			return d
		}
	}
	return nil
}

// seen is the run as it stands.
type seen struct {
	pane  *runPane
	run   Run
	found bool
	err   error
}

func (p *runPane) again(s *Screen) tea.Cmd {
	if p.asking || s.top() != pane(p) {
		return nil
	}
	p.asking = true
	return s.run(func(ctx context.Context) tea.Msg {
		r, found, err := s.desk.RunOf(ctx, p.plan)
		r.tidy()
		return seen{p, r, found, err}
	})
}

func (p *runPane) told(s *Screen, msg tea.Msg) tea.Cmd {
	switch msg := msg.(type) {
	case seen:
		if msg.pane != p {
			return nil
		}
		p.asking = false
		if msg.err != nil {
			s.fail(msg.err)
			return nil
		}
		if msg.found {
			p.run, p.found = msg.run, true
		}
	case ended:
		return p.again(s)
	}
	return nil
}

func (p *runPane) key(s *Screen, msg tea.KeyMsg) tea.Cmd {
	if p.move(msg) {
		return nil
	}
	if !p.found {
		return nil
	}
	id := p.run.ID
	switch {
	case keys.Pause.is(msg):
		s.askReason(Act{Do: DoPause, On: id}, "why the run is to pause:")
	case keys.Abort.is(msg):
		s.askReason(Act{Do: DoAbort, On: id}, "why the run is to end for good:")
	case keys.Promote.is(msg):
		s.askReason(Act{Do: DoPromote, On: id}, "why the run may go on although its gate was inconclusive:")
	case keys.GoOn.is(msg):
		return s.propose(Act{Do: DoResume, On: id}, nil)
	}
	return nil
}

func (p *runPane) view(s *Screen, w, h int) []string {
	var lines []string
	if p.found {
		lines = append(lines, pad(bar(p.run.Planned-p.run.Left, p.run.Planned, w-2), w), "")
		lines = append(lines, layRows(p.run.Rows, w)...)
	}
	if d := p.here(s); d != nil {
		for _, text := range d.news {
			lines = append(lines, wrappedLines("! "+text, w)...)
		}
		if d.err != "" {
			lines = append(lines, wrappedLines("! "+d.err, w)...)
		}
		if d.over {
			lines = append(lines, pad(fmt.Sprintf("ended with exit code %d", d.done.Code), w))
		}
	}
	return p.show(lines, h)
}

// bar draws how much of a whole is done.
func bar(done, whole, w int) string {
	full := 0
	if whole > 0 {
		full = min(done*w/whole, w)
	}
	return "[" + strings.Repeat("#", max(full, 0)) + strings.Repeat(".", max(w-full, 0)) + "]"
}
