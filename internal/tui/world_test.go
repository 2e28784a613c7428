package tui

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/redrivectl/redrivectl/redrive"
)

// fakeDesk answers from what it is given, at once, and notes what was asked.
type fakeDesk struct {
	queues []Queue
	looks  map[string]Look
	sheets map[string]Sheet
	lines  map[string][]Entry
	plans  []Plan
	run    *Run
	err    error // of every answer

	question string // in place of the usual one
	noted    string // told by a run
	rows     []Row  // of plans and runs
	verdicts []Verdict
	draft    *Draft
	asked    []string
}

func (d *fakeDesk) note(format string, args ...any) {
	d.asked = append(d.asked, fmt.Sprintf(format, args...))
}

func (d *fakeDesk) Queues(context.Context) ([]Queue, error) { return slices.Clone(d.queues), d.err }

func (d *fakeDesk) Look(_ context.Context, queue string, tell Tell) (Look, error) {
	d.note("look %s", queue)
	tell(Step{What: "looking at " + queue, Done: 1, Total: 2})
	l := d.looks[queue]
	l.Jobs = append([]Job{}, l.Jobs...)
	l.Classes = append([]Class{}, l.Classes...)
	return l, d.err
}

func (d *fakeDesk) Select(_ context.Context, queue string, sel redrive.Selection) (map[string]bool, error) {
	d.note("select %s %s", queue, sel.Canonical())
	if err := sel.Validate(); err != nil {
		return nil, err
	}
	pass := map[string]bool{}
	for _, j := range d.looks[queue].Jobs {
		in := func(vs []string, v string) bool {
			return len(vs) == 0 || strings.Contains(","+strings.Join(vs, ",")+",", ","+v+",")
		}
		if in(sel.Class, j.Class) && in(sel.Region, j.Region) && in(sel.Schema, j.Schema) && (sel.Where == "" || j.Receives > 3) {
			pass[j.ID] = true
		}
	}
	return pass, nil
}

func (d *fakeDesk) Show(_ context.Context, _, id string, c Content) (Sheet, error) {
	d.note("show %s form=%s again=%v reveal=%v reason=%s", id, c.Form, c.LookAgain, c.Reveal, c.Reason)
	s := d.sheets[id]
	s.ID, s.Payload.Revealed = id, c.Reveal
	if c.Form != "" {
		s.Payload.Form = c.Form
	}
	return s, d.err
}

func (d *fakeDesk) Timeline(_ context.Context, _, id string) ([]Entry, error) {
	d.note("timeline %s", id)
	return d.lines[id], d.err
}

func (d *fakeDesk) Assess(_ context.Context, queue string) (Look, error) {
	d.note("assess %s", queue)
	return d.looks[queue], d.err
}

func (d *fakeDesk) Question(_ context.Context, a Act) (string, error) {
	d.note("question %s %s", a.Do, a.On)
	return cmp.Or(d.question, "Really "+string(a.Do)+"?"), d.err
}

func (d *fakeDesk) Do(_ context.Context, a Act, tell Tell) (Done, error) {
	d.note("do %s on=%s form=%v select=%s items=%d reason=%s agreed=%s", a.Do, a.On, a.Form.Flags, a.Select.Canonical(), a.Items, a.Reason, a.Agreed)
	if a.Do == DoReconcile {
		tell(Step{Verdicts: d.verdicts})
	}
	if a.Do == DoRun {
		tell(Step{Note: d.noted})
		d.run = &Run{
			ID: "81c2a7b3d4e5f60718293a4b5c6d7e8f", Plan: a.On, Queue: "digests", State: "finished", Ended: true, Planned: 7, Started: noon,
			Rows: d.rows,
		}
		if d.draft != nil {
			d.run.State, d.run.Queue, d.run.ID = d.rows[0].Name, d.rows[0].Name, d.rows[0].Name
		}
	}
	done := Done{Act: a, Rows: []Row{{"state", "finished"}}}
	if a.Do == DoCreate {
		done.Plan = d.plans[0].ID
	}
	return done, d.err
}

func (d *fakeDesk) Draft(_ context.Context, f Form) (Draft, error) {
	d.note("draft %s %s max=%s", f.Queue, f.Select.Canonical(), f.Flags["max"])
	if f.Flags["rate"] == "0/s" {
		return Draft{}, errors.New("--rate: it must be above zero")
	}
	if d.draft != nil {
		return *d.draft, d.err
	}
	return Draft{
		Items: 7, Tier: "self", Approved: true,
		Edit: "redrivectl plan create " + f.Queue + " --edit FILTER",
		Rows: []Row{{"items", "7"}, {"approval", "self (proven), 0 of 0 given"}, {"rate", f.Flags["rate"] + ", about 140ms"}},
		Held: []Held{{4, "unknown", "redrivectl reconcile digests --apply"}},
	}, d.err
}

func (d *fakeDesk) Plans(context.Context) ([]Plan, error) { return append([]Plan{}, d.plans...), d.err }

func (d *fakeDesk) Plan(_ context.Context, id string) (Plan, error) {
	for _, p := range d.plans {
		if p.ID == id {
			p.Rows = append([]Row{{"plan", p.ID}, {"queue", p.Queue}, {"items", strconv.Itoa(p.Items)}, {"approval", p.Tier}}, d.rows[2:]...)
			return p, d.err
		}
	}
	return Plan{}, errors.New("no such plan")
}

func (d *fakeDesk) Runs(context.Context) ([]Run, error) {
	if d.run == nil {
		return nil, d.err
	}
	return []Run{*d.run}, d.err
}

func (d *fakeDesk) RunOf(context.Context, string) (Run, bool, error) {
	if d.run == nil {
		return Run{}, false, d.err
	}
	return *d.run, true, d.err
}

var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

// hostile is what a message may try on a terminal.
const hostile = "\x1b[2J\x1b]0;owned\x07\u202eevil\u202c \u200bzero 漢字 ك e\u0301 👩‍👩‍👧 \r\n\u009b31m"

// newFakeDesk is a desk with one queue that may be looked at freely, and one where
// a look counts as a receive.
func newFakeDesk() *fakeDesk {
	d := &fakeDesk{
		queues: []Queue{
			{Name: "digests", Broker: "local", Depth: 12, Exact: true, OldestAt: noon.Add(-26 * time.Hour)},
			{Name: "shipments", Broker: "sqs", Depth: 3, OldestAt: noon.Add(-2 * time.Hour), Retention: 96 * time.Hour, LookCounts: true},
			{Name: "orders", Broker: "sqs", Failed: "queue orders: not permitted"},
		},
		looks: map[string]Look{}, sheets: map[string]Sheet{}, lines: map[string][]Entry{},
		noted: "the run was slowed by the provider", rows: []Row{{"state", "finished"}, {"redriven", "7"}},
		verdicts: []Verdict{{"digest:2026-W09:customer-0002:v1", "accepted", "found"}, {"digest:2026-W09:customer-0005:v1", "not_accepted", ""}},
	}
	d.plans = []Plan{
		{ID: "3f9a1c2d4e5f60718293a4b5c6d7e8f9", Queue: "digests", State: "approved", Items: 7, Tier: "self", Requester: "requester", Reason: "the outage is over", ExpiresAt: noon.Add(2 * time.Hour)},
		{ID: "77aa1c2d4e5f60718293a4b5c6d7e8f9", Queue: "shipments", State: "waiting", Items: 212, Tier: "one", Needed: 1, Mine: true, Requester: "approver", Reason: "credential rotated", ExpiresAt: noon.Add(time.Hour)},
	}
	l := Look{Queue: "digests", Broker: "local", At: noon, Complete: true, Exact: true, Total: 12}
	for i := range 12 {
		j := Job{
			ID: fmt.Sprintf("c%02d", i), JobKey: fmt.Sprintf("digest:2026-W09:customer-%04d:v1", i), LedgerRow: fmt.Sprintf("app/digest:%d", i),
			MessageID: fmt.Sprintf("m-%d", i), Class: "throttled", Effect: "none", Disposition: "retry", Action: "redrive",
			Reason: "429: provider answered 429", Ledger: "failed", Region: "eu-west", Schema: "2", Receives: 3, At: noon.Add(-time.Duration(i) * time.Minute),
		}
		if i%3 == 2 {
			j.Class, j.Effect, j.Action, j.Needs, j.Region, j.Receives = "timeout", "unknown", "hold", "redrivectl reconcile digests --apply", "us-east", 6
		}
		l.Jobs = append(l.Jobs, j)
	}
	l.Jobs[4].Class, l.Jobs[4].JobKey, l.Jobs[4].Reason = "unknown", "", hostile
	l.Classes = []Class{
		{Name: "throttled", Disposition: "retry", Effect: "none", Owner: "mail", Count: 7, OldestAt: noon.Add(-10 * time.Minute)},
		{Name: "timeout", Disposition: "retry", Effect: "unknown", Owner: "mail", Runbook: "https://runbooks.example.com/timeout", Count: 4, OldestAt: noon.Add(-11 * time.Minute), ExpiresAt: noon.Add(50 * time.Hour)},
		{Name: "unknown", Disposition: "hold", Effect: "unknown", Count: 1, OldestAt: noon.Add(-4 * time.Minute)},
	}
	d.looks["digests"] = l
	d.looks["shipments"] = Look{Queue: "shipments", Broker: "sqs", At: noon, Total: 3, LookCounts: true, Why: "stopped at the limit of receives"}
	for _, j := range l.Jobs {
		d.sheets[j.ID] = Sheet{
			Sections: []Section{
				{"what was intended", []Row{{"intended", "weekly_digest email, subject " + or(j.JobKey)}, {"customer", "customer-1 (active)"}}},
				{"why it stopped", []Row{{"stopped", j.Reason}}},
				{"the four IDs", []Row{{"job key", or(j.JobKey)}, {"ledger row", j.LedgerRow}, {"message ID", j.MessageID}, {"request ID", nothing}}},
			},
			Payload: Payload{Form: "json", Text: "{\n  \"week\": \"2026-W09\",\n  \"token\": \"[masked]\"\n}", Bytes: 44, Masked: true},
		}
		d.lines[j.ID] = []Entry{{noon.Add(-time.Hour), "broker", "queue", "sent to digests"}, {noon, "operator", "queue", "is in the dead-letter queue"}}
	}
	return d
}

// driver is a screen with its desk, and does what bubbletea does, in one goroutine.
type driver struct {
	t    testing.TB
	s    *Screen
	desk *fakeDesk
	now  time.Time
	quit bool

	unread bool      // questions are not on the screen for long enough
	slow   bool      // what is asked for is not answered before release
	held   []tea.Cmd // which is that
}

func drive(t testing.TB, d *fakeDesk, queue string) *driver {
	t.Helper()
	x := &driver{t: t, desk: d, now: noon}
	x.s = newScreen(t.Context(), d, Options{
		Queue: queue, Every: 30 * time.Second, Now: func() time.Time { return x.now }, Output: io.Discard, later: x.later,
	})
	x.s.send = func(m tea.Msg) { x.take(m) }
	x.do(x.s.Init())
	return x
}

// later is a clock that never ticks, and on which a question can be read at once.
func (x *driver) later(_ time.Duration, msg tea.Msg) tea.Cmd {
	if _, tick := msg.(ticked); tick || x.unread {
		return nil
	}
	return func() tea.Msg { return msg }
}

func (x *driver) do(cmd tea.Cmd) {
	switch {
	case cmd == nil:
	case x.slow:
		x.held = append(x.held, cmd)
	default:
		x.take(cmd())
	}
}

// release answers what was asked for meanwhile.
func (x *driver) release() *driver {
	held := x.held
	x.slow, x.held = false, nil
	for _, cmd := range held {
		x.do(cmd)
	}
	return x
}

func (x *driver) take(msg tea.Msg) {
	switch msg := msg.(type) {
	case nil:
	case tea.BatchMsg:
		for _, c := range msg {
			x.do(c)
		}
	case tea.QuitMsg:
		x.quit = true
	default:
		x.do(x.s.update(msg))
	}
}

// press types keys by their names; a name in quotes is typed letter by letter.
func (x *driver) press(names ...string) *driver {
	x.t.Helper()
	for _, name := range names {
		if text, ok := strings.CutPrefix(name, `"`); ok {
			for _, r := range strings.TrimSuffix(text, `"`) {
				x.take(tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune{r}})
			}
			continue
		}
		x.take(keyNamed(name))
	}
	return x
}

func keyNamed(name string) tea.KeyMsg {
	named := map[string]tea.KeyType{
		"enter": tea.KeyEnter, "esc": tea.KeyEsc, "up": tea.KeyUp, "down": tea.KeyDown, "pgdown": tea.KeyPgDown, "pgup": tea.KeyPgUp,
		"home": tea.KeyHome, "end": tea.KeyEnd, "ctrl+c": tea.KeyCtrlC, "ctrl+z": tea.KeyCtrlZ, "ctrl+u": tea.KeyCtrlU, "space": tea.KeySpace, "tab": tea.KeyTab,
		"left": tea.KeyLeft, "right": tea.KeyRight, "backspace": tea.KeyBackspace, "shift+tab": tea.KeyShiftTab,
	}
	if t, ok := named[name]; ok {
		k := tea.KeyMsg{Type: t}
		if t == tea.KeySpace {
			k.Runes = []rune{' '}
		}
		return k
	}
	return tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune(name)}
}

func (x *driver) size(w, h int) *driver {
	x.take(tea.WindowSizeMsg{Width: w, Height: h})
	return x
}

var errDown = errors.New("dial tcp 10.0.0.1:443: connection refused")
