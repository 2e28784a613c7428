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

// runsList lists the runs of the store, newest first.
var runsList = list[Run]{
	pane:  paneRuns,
	ask:   func(ctx context.Context, d Desk) ([]Run, error) { return d.Runs(ctx) },
	tidy:  (*Run).tidy,
	id:    func(r *Run) string { return r.ID },
	says:  func(rs []Run) string { return plural(len(rs), "run") + ", newest first" },
	empty: "no run yet",
	columns: []column{
		{head: "run", least: 12},
		{head: "queue", least: 10, grow: 1},
		{head: "state", least: 18, grow: 1},
		{head: "done", least: 14, right: true},
		{head: "started", least: 8, right: true},
		{head: "plan", least: 12, from: 100},
	},
	cells: func(s *Screen, r *Run) []string {
		return []string{short(r.ID), r.Queue, r.State, r.done(), age(s.now(), r.Started), short(r.Plan)}
	},
	tone: func(r *Run) tone {
		if r.AtGate {
			return toneWarn
		}
		return toneNone
	},
	below: func(r *Run) string { return r.State + " on " + r.Queue + ", of plan " + short(r.Plan) },
	open:  func(s *Screen, r *Run) tea.Cmd { return s.watch(r.Plan) },
}

// done says how much of its plan a run has done.
func (r *Run) done() string {
	return term.Count(int64(r.Planned-r.Left)) + " of " + term.Count(int64(r.Planned))
}

// planRun is the run of a plan, or that there is none.
type planRun struct {
	Run
	found bool
}

// runPane watches a plan's run: how far it is, what its gate found, and what went
// wrong; and takes what can be asked of it.
type runPane struct {
	pager
	polled[planRun]
	plan string
}

// watch shows a plan's run.
func (s *Screen) watch(plan string) tea.Cmd {
	p := &runPane{plan: plan}
	s.push(p)
	return p.again(s)
}

func (p *runPane) name() string { return paneRun }

func (p *runPane) title() string {
	if !p.value.found {
		return "run"
	}
	return "run " + short(p.value.ID)
}

func (p *runPane) status(s *Screen) string {
	d, r := p.here(s), p.value.Run
	switch {
	case !p.known:
		return oneMoment
	case !p.value.found && d != nil && d.err != "":
		return "it did not begin: " + d.err
	case !p.value.found:
		return "no run yet"
	}
	text := r.State + ": " + r.done()
	if r.AtGate {
		text += "; it waits for a person: P promotes it, X ends it"
	}
	if left := r.timeLeft(); left > 0 {
		text += ", about " + term.Duration(left) + " left at " + fmt.Sprintf("%.4g/s", r.Rate)
	}
	if d != nil && !d.over {
		text += ", carried out here"
	}
	return text
}

// timeLeft is how long what remains takes at the rate; 0: not known, or nothing is
// under way.
func (r *Run) timeLeft() time.Duration {
	if r.Ended || r.Paused || r.Rate <= 0 || r.Left == 0 {
		return 0
	}
	return time.Duration(float64(r.Left) / r.Rate * float64(time.Second)).Round(time.Second)
}

// here is what carries the run out in this process, or did; nil: another does.
func (p *runPane) here(s *Screen) *doing {
	for _, d := range slices.Backward(s.acts) {
		if d.runs() && (d.act.On == p.plan || p.value.found && d.act.On == p.value.ID) {
			return d
		}
	}
	return nil
}

func (p *runPane) again(s *Screen) tea.Cmd {
	return p.poll(s, func(ctx context.Context) (planRun, error) {
		r, found, err := s.desk.RunOf(ctx, p.plan)
		r.tidy()
		return planRun{r, found}, err
	})
}

func (p *runPane) told(s *Screen, msg tea.Msg) tea.Cmd {
	switch msg.(type) {
	case moved:
		p.forget()
	case ended:
		p.forget()
		return p.again(s)
	default:
		if p.take(s, msg) {
			p.forget()
		}
	}
	return nil
}

func (p *runPane) key(s *Screen, msg tea.KeyMsg) tea.Cmd {
	if p.move(msg) || !p.value.found {
		return nil
	}
	id := p.value.ID
	switch {
	case keys.Pause.is(msg):
		s.askReason(Act{Do: DoPause, On: id}, "why the run is to pause:")
	case keys.Abort.is(msg):
		s.askReason(Act{Do: DoAbort, On: id}, "why the run is to end for good:")
	case keys.Promote.is(msg):
		s.askReason(Act{Do: DoPromote, On: id}, "why the run may go on all the same:")
	case keys.GoOn.is(msg):
		return s.propose(Act{Do: DoResume, On: id}, nil)
	}
	return nil
}

func (p *runPane) view(s *Screen, w, h int) []string {
	return p.show(p.lay(w, func() []string { return p.rows(s, w) }), h)
}

// mostNew is how many of the news stand above what else is known of a run, where they
// are seen.
const mostNew = 3

func (p *runPane) rows(s *Screen, w int) []string {
	var lines, news, old []string
	if r := p.value; r.found {
		lines = append(lines, pad(bar(r.Planned-r.Left, r.Planned, w-2), w))
	}
	d := p.here(s)
	if d != nil {
		news = slices.Clone(d.news)
		if d.err != "" {
			news = append(news, d.err)
		}
		if d.over {
			news = append(news, fmt.Sprintf("ended with exit code %d", d.done.Code))
		}
		old, news = news[:max(len(news)-mostNew, 0)], news[max(len(news)-mostNew, 0):]
	}
	for _, text := range news {
		lines = append(lines, wrappedLines("! "+text, w)...)
	}
	lines = append(append(lines, ""), layRows(p.value.Rows, w)...)
	for _, text := range old {
		lines = append(lines, wrappedLines("! "+text, w)...)
	}
	return lines
}

// bar draws how much of a whole is done.
func bar(done, whole, w int) string {
	full := 0
	if whole > 0 {
		full = min(done*w/whole, w)
	}
	return "[" + strings.Repeat("#", max(full, 0)) + strings.Repeat(".", max(w-full, 0)) + "]"
}
