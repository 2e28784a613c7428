package tui

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strconv"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/redrivectl/redrivectl/internal/term"
)

// jobsPane lists the jobs of one queue that a filter lets pass. What it shows is
// an arrangement, which is made beside Update: so a key costs the same however
// many jobs there are.
type jobsPane struct {
	grid
	sorting
	queue  string
	filter filter // of what is shown
	want   filter // of what was asked for last
	at     string // ID of the job under the cursor, which stays with it
	shown  arrangement
	asked  int // number of the arrangement that was asked for last
}

// arrangement is a list of jobs in order, as one look and one filter gave it.
type arrangement struct {
	jobs  []Job
	order []int          // places in jobs, in the order in which they are shown
	rank  []int          // for each job its place in order; -1: it is not shown
	index map[string]int // Job.ID to its place in jobs
}

func (a arrangement) at(i int) *Job { return &a.jobs[a.order[i]] }

// place is where a job is shown; -1: it is not.
func (a arrangement) place(id string) int {
	i, ok := a.index[id]
	if !ok {
		return -1
	}
	return a.rank[i]
}

func newJobsPane(queue, class string) *jobsPane {
	p := &jobsPane{queue: queue, sorting: sorting{columns: jobOrders}}
	if class != "" {
		p.filter.Select.Class = []string{class}
		p.want = p.filter
	}
	return p
}

// jobOrders are what jobs can be sorted by; orderJobs compares by them.
var jobOrders = []string{"oldest", "job", "class", "next", "region", "receives", "first to expire"}

func (o sorting) orderJobs(x, y *Job) int {
	switch jobOrders[o.by] {
	case "job":
		return cmp.Compare(x.Name(), y.Name())
	case "class":
		return cmp.Compare(x.Class, y.Class)
	case "next":
		return cmp.Or(cmp.Compare(x.Action, y.Action), cmp.Compare(x.Needs, y.Needs))
	case "region":
		return cmp.Compare(x.Region, y.Region)
	case "receives":
		return cmp.Compare(y.Receives, x.Receives)
	case "first to expire":
		return byTime(x.ExpiresAt, y.ExpiresAt)
	default:
		return byTime(x.At, y.At)
	}
}

func (p *jobsPane) name() string { return paneJobs }

func (p *jobsPane) title() string {
	if f := p.filter.String(); f != "" {
		return tidy(f)
	}
	return "all jobs"
}

func (p *jobsPane) status(s *Screen) string {
	marked := ""
	if n := len(s.book(p.queue).marks); n > 0 {
		marked = term.Count(int64(n)) + " marked, "
	}
	return marked + term.Count(int64(len(p.shown.order))) + " shown, sorted by " + p.words() + "; " + s.book(p.queue).status(s.now())
}

// arranged is an arrangement that was asked for; err: the filter has a fault.
type arranged struct {
	pane   *jobsPane
	number int
	filter filter
	shown  arrangement
	err    error
}

// arrange asks for the pane's jobs in order, from the last look.
func (p *jobsPane) arrange(s *Screen) tea.Cmd { return p.arrangeBy(s, p.want) }

func (p *jobsPane) arrangeBy(s *Screen, f filter) tea.Cmd {
	b := s.book(p.queue)
	p.asked++
	p.want = f
	number, by, jobs, index := p.asked, p.sorting, b.look.Jobs, b.index
	return s.run(func(ctx context.Context) tea.Msg {
		pass := map[string]bool{}
		all := f.Select.Empty()
		if !all {
			var err error
			if pass, err = s.desk.Select(ctx, p.queue, f.Select); err != nil {
				return arranged{pane: p, number: number, filter: f, err: err}
			}
		}
		shown := arrangeJobs(jobs, by, func(j *Job) bool { return (all || pass[j.ID]) && f.says(j) })
		shown.index = index
		return arranged{p, number, f, shown, nil}
	})
}

func arrangeJobs(jobs []Job, by sorting, pass func(*Job) bool) arrangement {
	a := arrangement{jobs: jobs, rank: make([]int, len(jobs)), order: make([]int, 0, len(jobs))}
	for i := range jobs {
		a.rank[i] = -1
		if pass(&jobs[i]) {
			a.order = append(a.order, i)
		}
	}
	slices.SortStableFunc(a.order, func(x, y int) int { return by.way(by.orderJobs(&jobs[x], &jobs[y])) })
	for place, i := range a.order {
		a.rank[i] = place
	}
	return a
}

func (p *jobsPane) told(s *Screen, msg tea.Msg) tea.Cmd {
	switch msg := msg.(type) {
	case looked:
		if msg.queue == p.queue && msg.err == nil {
			return p.arrange(s)
		}
	case arranged:
		if msg.pane == p && msg.number == p.asked {
			p.take(s, msg)
		}
	}
	return nil
}

// take shows an arrangement, and puts the cursor where its job now is. A filter
// with a fault changes nothing, and stays in the line where it was typed.
func (p *jobsPane) take(s *Screen, msg arranged) {
	if msg.err != nil {
		p.want = p.filter
		if s.input == nil || !s.input.refused(msg.err) {
			s.fail(msg.err)
		}
		return
	}
	if s.input != nil && s.input.waits {
		s.input = nil
	}
	p.filter, p.shown = msg.filter, msg.shown
	if i := p.shown.place(p.at); i >= 0 {
		p.cursor = i
	}
	p.clamp(len(p.shown.order))
	p.mind()
}

// mind remembers which job the cursor is on.
func (p *jobsPane) mind() {
	if p.cursor < len(p.shown.order) {
		p.at = p.shown.at(p.cursor).ID
	}
}

func (p *jobsPane) key(s *Screen, msg tea.KeyMsg) tea.Cmd {
	switch {
	case p.move(msg, len(p.shown.order)):
		p.mind()
	case p.sorted(msg):
		return p.arrange(s)
	case keys.Look.is(msg):
		return s.look(p.queue)
	case keys.Mark.is(msg), keys.MarkAll.is(msg), keys.Unmark.is(msg):
		p.mark(s, msg)
	case keys.Reconcile.is(msg):
		if sc, ok := p.scope(s); ok {
			return s.reconcile(p.queue, sc)
		}
	case keys.Create.is(msg):
		if sc, ok := p.scope(s); ok {
			return s.form(p.queue, sc)
		}
	case keys.Clear.is(msg):
		return p.arrangeBy(s, filter{})
	case keys.Filter.is(msg):
		s.ask("/", spaced(p.filter.typed()), func(text string) (tea.Cmd, error) {
			f, err := parseFilter(text)
			f.Select.Where = p.filter.Select.Where
			return p.arrangeIf(s, f, err)
		})
	case keys.Condition.is(msg):
		s.ask(":", p.filter.Select.Where, func(text string) (tea.Cmd, error) {
			f := p.filter
			f.Select.Where = text
			return p.arrangeIf(s, f, nil)
		})
	case keys.Open.is(msg) && p.cursor < len(p.shown.order):
		return p.open(s)
	}
	return nil
}

// mark marks the job under the cursor, or all that the list shows, or none.
func (p *jobsPane) mark(s *Screen, msg tea.KeyMsg) {
	marks := s.book(p.queue).marks
	switch {
	case keys.Unmark.is(msg):
		clear(marks)
	case keys.MarkAll.is(msg):
		for i := range p.shown.order {
			marks[p.shown.at(i).ID] = true
		}
	case p.cursor < len(p.shown.order):
		flip(marks, p.shown.at(p.cursor).ID)
		p.cursor++
		p.clamp(len(p.shown.order))
		p.mind()
	}
}

// flip sets a mark, or takes it back.
func flip(marks map[string]bool, name string) {
	if marks[name] {
		delete(marks, name)
	} else {
		marks[name] = true
	}
}

func (p *jobsPane) arrangeIf(s *Screen, f filter, err error) (tea.Cmd, error) {
	if err != nil {
		return nil, err
	}
	return p.arrangeBy(s, f), nil
}

func (p *jobsPane) open(s *Screen) tea.Cmd {
	j := newJobPane(p.queue, *p.shown.at(p.cursor))
	s.push(j)
	return j.request(s, Content{})
}

var jobColumns = []column{
	{head: "job", least: 16, grow: 4, name: true},
	{head: "class", least: 19},
	{head: "next", least: 7},
	{head: "age", least: 6, right: true},
	{head: "needs, or reason", least: 14, grow: 4},
	{head: "effect", least: 7, from: 110},
	{head: "ledger", least: 10, from: 110},
	{head: "verdict", least: 14, from: 120},
	{head: "region", least: 12, from: 140},
	{head: "schema", least: 8, from: 140},
	{head: "receives", least: 8, right: true, from: 150},
	{head: "expires", least: 7, right: true, from: 150},
}

func (p *jobsPane) view(s *Screen, w, h int) []string {
	v := gridView{columns: p.columns(), n: len(p.shown.order), empty: "no job passes the filter"}
	if p.shown.jobs == nil && s.book(p.queue).look.Total > 0 {
		v.empty = oneMoment
	}
	v.cells = func(i int) []string {
		j := p.shown.at(i)
		return []string{
			j.Name(), j.Class, j.Action, age(s.now(), j.At), cmp.Or(j.Needs, j.Reason), j.Effect, or(j.Ledger), or(j.Verdict), or(j.Region),
			or(j.Schema), strconv.Itoa(j.Receives), left(s.now(), j.ExpiresAt),
		}
	}
	v.marked = func(i int) bool { return s.book(p.queue).marks[p.shown.at(i).ID] }
	below := p.below(s, w, h)
	return append(p.draw(v, w, h-len(below), s.styles), below...)
}

// columns leave the class out where there is but one.
func (p *jobsPane) columns() []column {
	cs := slices.Clone(jobColumns)
	if len(p.filter.Select.Class) == 1 {
		cs[1].from = math.MaxInt
	}
	return cs
}

// below says all of the job under the cursor, which columns may cut.
func (p *jobsPane) below(s *Screen, w, h int) []string {
	if p.cursor >= len(p.shown.order) {
		return nil
	}
	j := p.shown.at(p.cursor)
	texts := []string{
		j.Name() + ": " + j.Class + ", effect " + j.Effect + ", verdict " + or(j.Verdict) + ", ledger " + or(j.Ledger) + ", region " + or(j.Region) +
			", schema " + or(j.Schema) + ", " + plural(j.Receives, "receive") + ", expires in " + left(s.now(), j.ExpiresAt),
		j.Action + ", needs " + or(j.Needs),
		j.Reason,
	}
	return s.footnotes(w, h, texts...)
}
