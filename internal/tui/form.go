package tui

import (
	"context"
	"maps"
	"slices"
	"strconv"

	tea "github.com/charmbracelet/bubbletea"
)

// formPane is a plan in the making. At every change it shows what the plan would be.
type formPane struct {
	grid
	pager
	form   Form
	words  string
	draft  Draft
	fault  string // why there is no draft
	asking bool
	frozen *doing
	number int // of the draft that was asked for last
}

// formLine is a flag of plan create, as the form shows it.
type formLine struct {
	flag string
	hint string
}

var formLines = []formLine{
	{"action", "redrive, settle or discard; empty: redrive and settle"},
	{"max", "most items that the plan may have"},
	{"rate", "most jobs in any one-second window, as 50/s or 30/m"},
	{"expires", "how long the plan is good for"},
	{"canary", "so many first, as a sample; auto; empty: the policy's"},
	{"observe", "how long the gate waits for what becomes of the sample"},
	{"gate", "ledger or dlq-only; empty: by what the queue has"},
	{"min-success", "least share that must reach sent"},
	{"max-returned", "most that may come back"},
	{"max-throttled", "most that the provider may throttle"},
	{"max-p95", "longest time from publish to sent for 95 of 100"},
	{"fixed", "what was corrected, for classes that wait for it"},
	{"as", "the class that you claim for jobs of class unknown"},
	{"to", "destination instead of each job's origin"},
	{"effects", "idempotent: a repeated effect is harmless"},
	{"fan-out", "true: all consumers of the destination get the jobs"},
	{"break-order", "true: jobs may overtake earlier ones of their group"},
	{"accept-provisional", "why a provisional no is good enough"},
	{"accept-duplicates", "why a second effect is acceptable (two approvers)"},
	{flagEdit, "not here; enter shows the command to type"},
	{flagReason, "why, for the approver and the audit log; required"},
}

// FormFlags are the flags of plan create that a plan in the making offers.
func FormFlags() []string {
	names := make([]string, len(formLines))
	for i, l := range formLines {
		names[i] = l.flag
	}
	return names
}

const (
	// flagReason is the last line, and the only one that has to be filled in.
	flagReason = "reason"
	// flagEdit needs what this screen has not: the change of each payload, to be
	// looked at.
	flagEdit = "edit"
)

func newFormPane(queue string, sc scope, jobs int) *formPane {
	return &formPane{words: sc.words, form: Form{
		Queue: queue, Select: sc.sel, Flags: map[string]string{"max": strconv.Itoa(max(jobs, 1)), "rate": "50/s", "expires": "2h"},
	}}
}

// form opens a plan in the making.
func (s *Screen) form(queue string, sc scope) tea.Cmd {
	p := newFormPane(queue, sc, int(s.book(queue).look.Total))
	s.push(p)
	return p.ask(s)
}

func (p *formPane) name() string  { return paneForm }
func (p *formPane) title() string { return "plan of " + p.words }

func (p *formPane) status(*Screen) string {
	switch {
	case p.fault != "":
		return "no plan: " + p.fault
	case p.asking:
		return "being drafted from the last look"
	default:
		return "a draft from the last look; nothing is kept before you freeze it"
	}
}

// drafted is what the plan would be.
type drafted struct {
	pane   *formPane
	number int
	draft  Draft
	err    error
}

func (p *formPane) ask(s *Screen) tea.Cmd {
	p.asking = true
	p.number++
	number, form := p.number, p.form
	form.Flags = maps.Clone(form.Flags)
	return s.run(func(ctx context.Context) tea.Msg {
		d, err := s.desk.Draft(ctx, form)
		d.tidy()
		return drafted{p, number, d, err}
	})
}

func (p *formPane) told(_ *Screen, msg tea.Msg) tea.Cmd {
	d, ok := msg.(drafted)
	if !ok || d.pane != p || d.number != p.number {
		return nil
	}
	p.asking, p.fault, p.draft = false, "", d.draft
	p.forget()
	if d.err != nil {
		p.fault = why(d.err)
	}
	return nil
}

func (p *formPane) key(s *Screen, msg tea.KeyMsg) tea.Cmd {
	switch {
	case p.grid.move(msg, len(formLines)):
	case keys.Edit.is(msg):
		p.edit(s)
	case keys.Freeze.is(msg):
		if p.form.Flags[flagReason] == "" {
			p.cursor = len(formLines) - 1 // the reason, which may be below the edge
			p.edit(s)
			return nil
		}
		form := p.form
		form.Flags = maps.Clone(form.Flags)
		return s.propose(Act{Do: DoCreate, Form: form}, func(d *doing) tea.Cmd {
			p.frozen = d
			return nil
		})
	}
	return nil
}

// frozen puts the plan that was made in the place of its form, wherever that is.
func (s *Screen) frozen(d *doing) tea.Cmd {
	i := slices.IndexFunc(s.panes, func(p pane) bool { f, ok := p.(*formPane); return ok && f.frozen == d })
	if i < 0 { // it was left
		s.say("plan " + short(d.done.Plan) + " is made; a lists it")
		return nil
	}
	plan := &planPane{id: d.done.Plan}
	s.panes[i] = plan
	return plan.again(s)
}

func (p *formPane) edit(s *Screen) {
	l := formLines[p.cursor]
	if l.flag == flagEdit {
		s.say("type it outside: " + p.draft.Edit)
		return
	}
	s.ask(l.flag+": "+l.hint, p.form.Flags[l.flag], func(text string) (tea.Cmd, error) {
		s.input = nil
		p.form.Flags[l.flag] = text
		return p.ask(s), nil
	})
}

func (p *formPane) view(s *Screen, w, h int) []string {
	v := gridView{columns: []column{{head: "what", least: 18}, {head: "value", least: 20, grow: 1}}, n: len(formLines)}
	v.cells = func(i int) []string {
		value := tidy(p.form.Flags[formLines[i].flag])
		if value == "" {
			value = "  (" + formLines[i].hint + ")"
		}
		return []string{formLines[i].flag, value}
	}
	below := p.lay(w, func() []string { return p.below(s, w) })
	rows := min(max(min(len(formLines)+1, h-len(below)), 5), h)
	lines := p.grid.draw(v, w, rows, s.styles)
	return append(lines, p.show(below, h-rows)...)
}

// below is what the plan would be: how many jobs, which approval, how long it
// takes, and what is held and why.
func (p *formPane) below(s *Screen, w int) []string {
	if p.fault != "" {
		lines := wrappedLines("no plan: "+p.fault, w)
		for i := range lines {
			lines[i] = s.styles.bad.Render(lines[i])
		}
		return lines
	}
	rows := slices.Clone(p.draft.Rows)
	for _, held := range p.draft.Held {
		rows = append(rows, Row{"held", plural(held.Count, "job") + ": " + held.Why + "; needs " + held.Needs})
	}
	return layRows(rows, w)
}
