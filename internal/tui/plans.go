package tui

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/redrivectl/redrivectl/internal/term"
)

// plansList lists the plans that hold jobs. Those that wait for the person here
// come first.
var plansList = list[Plan]{
	pane: panePlans,
	ask: func(ctx context.Context, d Desk) ([]Plan, error) {
		ps, err := d.Plans(ctx)
		slices.SortStableFunc(ps, func(x, y Plan) int { return rank(y.Mine) - rank(x.Mine) })
		return ps, err
	},
	tidy: (*Plan).tidy,
	id:   func(p *Plan) string { return p.ID },
	says: func(ps []Plan) string {
		mine := 0
		for _, p := range ps {
			mine += rank(p.Mine)
		}
		return plural(len(ps), "plan") + " with jobs, " + strconv.Itoa(mine) + " waiting for your approval"
	},
	empty: "no plan holds jobs",
	columns: []column{
		{head: "plan", least: 12},
		{head: "queue", least: 10, grow: 1},
		{head: "state", least: 8},
		{head: "items", least: 6, right: true},
		{head: "approvals", least: 9},
		{head: "expires", least: 7, right: true},
		{head: "requester", least: 9, grow: 1},
		{head: "reason", least: 20, grow: 3, from: 100},
	},
	cells: func(s *Screen, p *Plan) []string {
		return []string{
			short(p.ID), p.Queue, p.State, term.Count(int64(p.Items)), fmt.Sprintf("%d of %d", p.Given, p.Needed), left(s.now(), p.ExpiresAt),
			p.Requester, p.Reason,
		}
	},
	tone: func(p *Plan) tone {
		if p.Mine {
			return toneWarn
		}
		return toneNone
	},
	below: func(p *Plan) string {
		text := "it does not wait for you"
		if p.Mine {
			text = "it waits for your approval"
		}
		return text + "; reason: " + or(p.Reason)
	},
	open: func(s *Screen, p *Plan) tea.Cmd {
		plan := &planPane{id: p.ID}
		s.push(plan)
		return plan.again(s)
	},
}

// rank is 1 for what comes first.
func rank(first bool) int {
	if first {
		return 1
	}
	return 0
}

// short is a long ID as a list shows it.
func short(id string) string { return cutPlain(tidy(id), 12) }

// planPane shows one plan, and takes what can be done with it.
type planPane struct {
	pager
	polled[Plan]
	id string
}

func (p *planPane) name() string  { return panePlan }
func (p *planPane) title() string { return "plan " + short(p.id) }

func (p *planPane) status(*Screen) string {
	x := p.value
	switch {
	case !p.known:
		return oneMoment
	case x.Mine:
		return "it waits for your approval: A"
	case x.State == "approved":
		return "approved; S carries it out"
	default:
		return fmt.Sprintf("%s, %d of %d approvals", x.State, x.Given, x.Needed)
	}
}

func (p *planPane) again(s *Screen) tea.Cmd {
	return p.poll(s, func(ctx context.Context) (Plan, error) {
		x, err := s.desk.Plan(ctx, p.id)
		x.tidy()
		return x, err
	})
}

func (p *planPane) told(s *Screen, msg tea.Msg) tea.Cmd {
	was := p.value.Rows
	if p.take(s, msg) && !slices.Equal(was, p.value.Rows) {
		p.forget()
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

func (p *planPane) view(_ *Screen, w, h int) []string {
	return p.show(p.lay(w, func() []string { return layRows(p.value.Rows, w) }), h)
}
