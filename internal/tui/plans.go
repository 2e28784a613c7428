package tui

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/redrivectl/redrivectl/internal/term"
)

// watching is a pane that looks again at every tick.
type watching interface {
	again(s *Screen) tea.Cmd
}

// plansPane lists the plans that hold jobs. Those that wait for the person here
// come first.
type plansPane struct {
	grid
	at     string
	shown  []Plan
	asking bool
}

func (s *Screen) openPlans() tea.Cmd {
	p := &plansPane{}
	s.push(p)
	return p.again(s)
}

func (p *plansPane) name() string  { return panePlans }
func (p *plansPane) title() string { return "plans" }

func (p *plansPane) status(*Screen) string {
	mine := 0
	for _, x := range p.shown {
		if x.Mine {
			mine++
		}
	}
	return plural(len(p.shown), "plan") + " with jobs, " + strconv.Itoa(mine) + " waiting for your approval"
}

// planned are the plans as they stand.
type planned struct {
	pane  *plansPane
	plans []Plan
	err   error
}

func (p *plansPane) again(s *Screen) tea.Cmd {
	if p.asking || s.top() != pane(p) {
		return nil
	}
	p.asking = true
	return s.run(func(ctx context.Context) tea.Msg {
		ps, err := s.desk.Plans(ctx)
		for i := range ps {
			ps[i].tidy()
		}
		slices.SortStableFunc(ps, func(x, y Plan) int { return rank(y.Mine) - rank(x.Mine) })
		return planned{p, ps, err}
	})
}

func rank(first bool) int {
	if first {
		return 1
	}
	return 0
}

func (p *plansPane) told(s *Screen, msg tea.Msg) tea.Cmd {
	m, ok := msg.(planned)
	if !ok || m.pane != p {
		return nil
	}
	p.asking = false
	if m.err != nil {
		s.fail(m.err)
		return nil
	}
	p.shown = m.plans
	if i := slices.IndexFunc(p.shown, func(x Plan) bool { return x.ID == p.at }); i >= 0 {
		p.cursor = i
	}
	p.clamp(len(p.shown))
	p.mind()
	return nil
}

func (p *plansPane) mind() {
	if p.cursor < len(p.shown) {
		p.at = p.shown[p.cursor].ID
	}
}

func (p *plansPane) key(s *Screen, msg tea.KeyMsg) tea.Cmd {
	switch {
	case p.move(msg, len(p.shown)):
		p.mind()
	case keys.Look.is(msg):
		return p.again(s)
	case keys.Open.is(msg) && p.cursor < len(p.shown):
		return s.openPlan(p.shown[p.cursor].ID)
	}
	return nil
}

func (p *plansPane) view(s *Screen, w, h int) []string {
	v := gridView{n: len(p.shown), empty: "no plan holds jobs", columns: []column{
		{head: "plan", least: 12},
		{head: "queue", least: 10, grow: 1},
		{head: "state", least: 8},
		{head: "items", least: 6, right: true},
		{head: "approvals", least: 9},
		{head: "expires", least: 7, right: true},
		{head: "requester", least: 9, grow: 1},
		{head: "reason", least: 20, grow: 3, from: 100},
	}}
	v.cells = func(i int) []string {
		x := p.shown[i]
		return []string{
			short(x.ID), x.Queue, x.State, term.Count(int64(x.Items)), fmt.Sprintf("%d of %d", x.Given, x.Needed), left(s.now(), x.ExpiresAt), x.Requester, x.Reason,
		}
	}
	v.tone = func(i int) tone {
		if p.shown[i].Mine {
			return toneWarn
		}
		return toneNone
	}
	var below []string
	if p.cursor < len(p.shown) {
		x := p.shown[p.cursor]
		text := "it does not wait for you"
		if x.Mine {
			text = "it waits for your approval"
		}
		below = s.footnotes(w, text+"; reason: "+or(x.Reason))
	}
	return append(p.draw(v, w, h-len(below), s.styles), below...)
}

// short is a long ID as a list shows it.
func short(id string) string { return id[:min(len(id), 12)] }

// planPane shows one plan, and takes what can be done with it.
type planPane struct {
	pager
	id     string
	plan   Plan
	known  bool
	asking bool
}

func (s *Screen) openPlan(id string) tea.Cmd {
	p := &planPane{id: id}
	s.push(p)
	return p.again(s)
}

func (p *planPane) name() string  { return panePlan }
func (p *planPane) title() string { return "plan " + short(p.id) }

func (p *planPane) status(*Screen) string {
	switch {
	case !p.known:
		return "asking"
	case p.plan.Mine:
		return "it waits for your approval: A"
	case p.plan.State == "approved":
		return "approved; S carries it out"
	default:
		return fmt.Sprintf("%s, %d of %d approvals", p.plan.State, p.plan.Given, p.plan.Needed)
	}
}

// opened is the plan as it stands.
type opened struct {
	pane *planPane
	plan Plan
	err  error
}

func (p *planPane) again(s *Screen) tea.Cmd {
	if p.asking || s.top() != pane(p) {
		return nil
	}
	p.asking = true
	return s.run(func(ctx context.Context) tea.Msg {
		x, err := s.desk.Plan(ctx, p.id)
		x.tidy()
		return opened{p, x, err}
	})
}

func (p *planPane) told(s *Screen, msg tea.Msg) tea.Cmd {
	if m, ok := msg.(opened); ok && m.pane == p {
		p.asking = false
		if m.err != nil {
			s.fail(m.err)
			return nil
		}
		p.plan, p.known = m.plan, true
	}
	return nil
}

func (p *planPane) key(s *Screen, msg tea.KeyMsg) tea.Cmd {
	switch {
	case p.move(msg):
	case keys.Approve.is(msg):
		p.approve(s)
	case keys.Reject.is(msg):
		s.askReason(Act{Do: DoReject, On: p.id}, "why you reject the plan:")
	case keys.Start.is(msg):
		return s.propose(Act{Do: DoRun, On: p.id}, func(*doing) tea.Cmd { return s.watch(p.id) })
	case keys.Watch.is(msg):
		return s.watch(p.id)
	}
	return nil
}

// approve takes the number of items, so that nobody approves what he has not looked
// at, and why.
func (p *planPane) approve(s *Screen) {
	s.ask("how many items the plan has, as you have seen:", "", func(text string) (tea.Cmd, error) {
		n, err := strconv.Atoi(text)
		if err != nil {
			return nil, errNoNumber
		}
		s.askReason(Act{Do: DoApprove, On: p.id, Items: n}, "why you agree:")
		return nil, nil
	})
}

// askReason lets the person type a reason, and proposes the act with it.
func (s *Screen) askReason(act Act, label string) {
	s.ask(label, "", func(reason string) (tea.Cmd, error) {
		if reason == "" {
			return nil, errNoReason
		}
		s.input = nil
		act.Reason = reason
		return s.propose(act, nil), nil
	})
}

func (p *planPane) view(_ *Screen, w, h int) []string { return p.show(layRows(p.plan.Rows, w), h) }
