package tui

import (
	"strings"
	"testing"
	"time"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/google/go-cmp/cmp"
)

// state is what a person would say of the screen.
type state struct {
	Panes  string // from the first to the one that is shown
	At     string // what the cursor is on
	Sorted string
	Shown  int    // rows of the list
	Note   string // with "! " in front where it is bad
	Input  string // what is being typed
	Fault  string
	Asks   string // the question that waits
	Help   bool
	Quit   bool
}

func (x *driver) state() state {
	st := state{Panes: x.s.crumbs(), Note: x.s.note.text, Help: x.s.help != nil, Quit: x.quit}
	if x.s.note.bad {
		st.Note = "! " + st.Note
	}
	if x.s.input != nil {
		st.Input, st.Fault = x.s.input.label+x.s.input.line.Value(), x.s.input.fault
	}
	if x.s.question != nil {
		st.Asks = x.s.question.text
	}
	switch p := x.s.top().(type) {
	case *queuesPane:
		st.At, st.Sorted, st.Shown = p.at, p.words(), len(p.shown)
	case *classesPane:
		st.At, st.Sorted, st.Shown = p.at, p.words(), len(p.shown)
	case *jobsPane:
		st.At, st.Sorted, st.Shown = p.at, p.words(), len(p.shown.order)
	case *formPane:
		st.At, st.Shown = formLines[p.cursor].flag, p.draft.Items
	case *listPane[Plan]:
		st.At, st.Shown = short(p.at), len(p.value)
	case *planPane:
		st.At = short(p.value.ID)
	case *listPane[Run]:
		st.At, st.Shown = short(p.at), len(p.value)
	case *runPane:
		st.At = p.value.State
	case *reconcilePane:
		st.Shown = len(p.of.verdicts)
	case *jobPane:
		st.At = p.sheet.ID
		if p.time {
			st.At = "time line"
		}
	}
	return st
}

const (
	inClasses = "queues › digests"
	inJobs    = "queues › digests › class:throttled"
	inJob     = inJobs + " › digest:2026-W09:customer-0010:v1"
)

func TestKeys(t *testing.T) {
	t.Parallel()
	jobs := []string{"enter"}
	job := append(jobs, "enter")
	for _, c := range []struct {
		name  string
		queue string
		keys  []string
		want  state
	}{
		{"the queues come first", "", nil, state{Panes: "queues", At: "digests", Sorted: "queue", Shown: 3}},
		{"down and the end", "", []string{"down", "G"}, state{Panes: "queues", At: "shipments", Sorted: "queue", Shown: 3}},
		{"past the end stays", "", []string{"G", "j", "j"}, state{Panes: "queues", At: "shipments", Sorted: "queue", Shown: 3}},
		{"sorting keeps the cursor on its queue", "", []string{"s"}, state{Panes: "queues", At: "digests", Sorted: "jobs", Shown: 3}},
		{"and the other way round", "", []string{"s", "s", "S"}, state{Panes: "queues", At: "digests", Sorted: "oldest, backwards", Shown: 3}},
		{"enter opens the classes", "", []string{"enter"}, state{Panes: inClasses, At: "throttled", Sorted: "jobs", Shown: 3}},
		{"esc goes back", "", []string{"enter", "esc"}, state{Panes: "queues", At: "digests", Sorted: "queue", Shown: 3}},
		{"esc on the first pane stays", "", []string{"esc"}, state{Panes: "queues", At: "digests", Sorted: "queue", Shown: 3}},
		{"q quits", "", []string{"q"}, state{Panes: "queues", At: "digests", Sorted: "queue", Shown: 3, Quit: true}},
		{"ctrl+c quits", "", []string{"ctrl+c"}, state{Panes: "queues", At: "digests", Sorted: "queue", Shown: 3, Quit: true}},
		{"help is shown", "", []string{"?"}, state{Panes: "queues", At: "digests", Sorted: "queue", Shown: 3, Help: true}},
		{"keys that walk walk in it", "", []string{"?", "down"}, state{Panes: "queues", At: "digests", Sorted: "queue", Shown: 3, Help: true}},
		{"and any other key leaves it", "", []string{"?", "q"}, state{Panes: "queues", At: "digests", Sorted: "queue", Shown: 3}},

		{"a queue may be named", "digests", nil, state{Panes: inClasses, At: "throttled", Sorted: "jobs", Shown: 3}},
		{"classes by name", "digests", []string{"s", "G"}, state{Panes: inClasses, At: "unknown", Sorted: "class", Shown: 3}},
		{"classes by age keep the cursor", "digests", []string{"down", "s", "s"}, state{Panes: inClasses, At: "timeout", Sorted: "oldest", Shown: 3}},

		{"a class opens its jobs, the oldest first", "digests", jobs, state{Panes: inJobs, At: "c10", Sorted: "oldest", Shown: 7}},
		{"jobs by name keep the cursor", "digests", append(jobs, "s"), state{Panes: inJobs, At: "c10", Sorted: "job", Shown: 7}},
		{"the filter is typed on", "digests", append(jobs, "/"), state{Panes: inJobs, At: "c10", Sorted: "oldest", Shown: 7, Input: "/class:throttled "}},
		{"esc leaves the filter as it was", "digests", append(jobs, "/", `"zzz"`, "esc"), state{Panes: inJobs, At: "c10", Sorted: "oldest", Shown: 7}},
		{"words filter", "digests", append(jobs, "/", `"0007"`, "enter"), state{Panes: inJobs + " 0007", At: "c07", Sorted: "oldest", Shown: 1}},
		{"nothing may pass", "digests", append(jobs, "/", `"zzz"`, "enter"), state{Panes: inJobs + " zzz", At: "c10", Sorted: "oldest", Shown: 0}},
		{"x drops the filter", "digests", append(jobs, "x"), state{Panes: "queues › digests › all jobs", At: "c10", Sorted: "oldest", Shown: 12}},
		{"a region filters", "digests", append(jobs, "/", "ctrl+u", `"region:us-east"`, "enter"), state{Panes: "queues › digests › region:us-east", At: "c11", Sorted: "oldest", Shown: 4}},
		{
			"a filter without its value is told", "digests", append(jobs, "/", `"region:"`, "enter"),
			state{Panes: inJobs, At: "c10", Sorted: "oldest", Shown: 7, Input: "/class:throttled region:", Fault: "region: needs a value, as in region:VALUE"},
		},
		{"a condition filters", "digests", append(jobs, "x", ":", `"receives > 3"`, "enter"), state{Panes: "queues › digests › where receives > 3", At: "c08", Sorted: "oldest", Shown: 4}},
		{
			"a fault in a condition stays where it was typed", "digests", append(jobs, ":", `"receives >"`, "enter"),
			state{
				Panes: inJobs, At: "c10", Sorted: "oldest", Shown: 7, Input: ":receives >",
				Fault: "Syntax error: mismatched input '<EOF>' expecting {'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}",
			},
		},
		{"and goes with the next letter", "digests", append(jobs, ":", `"receives >"`, "enter", "1"), state{Panes: inJobs, At: "c10", Sorted: "oldest", Shown: 7, Input: ":receives >1"}},

		{"enter opens a job", "digests", job, state{Panes: inJob, At: "c10"}},
		{"t shows the time line", "digests", append(job, "t"), state{Panes: inJob, At: "time line"}},
		{"and t shows the job again", "digests", append(job, "t", "t"), state{Panes: inJob, At: "c10"}},
		{"revealing needs a reason", "digests", append(job, "R", "enter"), state{
			Panes: inJob, At: "c10", Input: "why the secrets are needed, for the audit log:", Fault: "a reason is needed: the audit log needs it",
		}},
		{"and asks", "digests", append(job, "R", `"ticket 4711"`, "enter"), state{
			Panes: inJob, At: "c10", Asks: "Show the secrets of digest:2026-W09:customer-0010:v1? That you did, and why, is recorded in the audit log first.",
		}},
		{"no is no", "digests", append(job, "R", `"ticket 4711"`, "enter", "n"), state{Panes: inJob, At: "c10", Note: "not confirmed; nothing was changed"}},
		{"other keys answer nothing", "digests", append(job, "R", `"why"`, "enter", "q"), state{
			Panes: inJob, At: "c10", Asks: "Show the secrets of digest:2026-W09:customer-0010:v1? That you did, and why, is recorded in the audit log first.",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := drive(t, newFakeDesk(), c.queue).press(c.keys...).state()
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("after %q (-want +got):\n%s", c.keys, diff)
			}
		})
	}
}

// Who asks for another form of the payload sees it, wherever the page stood.
func TestFormShowsThePayload(t *testing.T) {
	t.Parallel()
	x := drive(t, newFakeDesk(), "digests").size(80, 10).press("enter", "enter")
	if strings.Contains(x.s.View(), "payload, ") {
		t.Fatal("the payload is in sight already")
	}
	if view := x.press("f").s.View(); !strings.Contains(view, "payload, 44 B, text") {
		t.Errorf("the payload is not in\n%s", view)
	}
	if view := x.press("home").s.View(); strings.Contains(view, "payload, ") {
		t.Errorf("it cannot be left:\n%s", view)
	}
}

func TestWhatIsAsked(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		queue string
		keys  []string
		want  []string
	}{
		{"the list of queues looks at nothing", "", []string{"down", "r", "s"}, nil},
		{"opening a queue looks once", "", []string{"enter", "esc", "enter"}, []string{"look digests"}},
		{"r looks again", "digests", []string{"r"}, []string{"look digests", "look digests"}},
		{"moving about asks nothing", "digests", []string{"down", "up", "G", "g", "pgdown", "s"}, []string{"look digests"}},
		{"secrets are asked for with the reason", "digests", []string{"enter", "enter", "R", `"ticket 4711"`, "enter", "y"}, []string{
			"look digests", `select digests --class "throttled"`, "show c10 form= again=false reveal=false reason=", "show c10 form= again=false reveal=true reason=ticket 4711",
		}},
		{"another form hides them again", "digests", []string{"enter", "enter", "R", `"why"`, "enter", "y", "f"}, []string{
			"look digests", `select digests --class "throttled"`, "show c10 form= again=false reveal=false reason=", "show c10 form= again=false reveal=true reason=why",
			"show c10 form=text again=false reveal=false reason=",
		}},
		{"what was not kept is looked for", "digests", []string{"enter", "enter", "p"}, []string{
			"look digests", `select digests --class "throttled"`, "show c10 form= again=false reveal=false reason=", "show c10 form= again=true reveal=false reason=",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			d := newFakeDesk()
			drive(t, d, c.queue).press(c.keys...)
			if diff := cmp.Diff(c.want, d.asked); diff != "" {
				t.Errorf("asked (-want +got):\n%s", diff)
			}
		})
	}
}

// A look that finds other jobs leaves the cursor on its job, the filter and the
// order as they are.
func TestLookKeepsPlace(t *testing.T) {
	t.Parallel()
	d := newFakeDesk()
	x := drive(t, d, "digests").press("enter", "s", "home", "down", "down", "down")
	before := x.state()
	if before.At != "c06" {
		t.Fatalf("the cursor is on %s", before.At)
	}
	l := d.looks["digests"]
	more := Job{ID: "new", JobKey: "a-first", Class: "throttled", At: noon}
	l.Jobs = append([]Job{more}, l.Jobs[3:]...)
	d.looks["digests"] = l
	after := x.press("r").state()
	before.Shown = 6 // c00 and c01 are gone, and one is new
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("after a look (-before +after):\n%s", diff)
	}
}

// A job that has gone leaves the cursor where it stood.
func TestJobGone(t *testing.T) {
	t.Parallel()
	d := newFakeDesk()
	x := drive(t, d, "digests").press("enter", "G")
	l := d.looks["digests"]
	l.Jobs = l.Jobs[2:]
	d.looks["digests"] = l
	if got := x.press("r").state(); got.Shown != 5 || got.At != "c03" {
		t.Errorf("%d jobs, cursor on %s", got.Shown, got.At)
	}
}

func TestTrend(t *testing.T) {
	t.Parallel()
	d := newFakeDesk()
	x := drive(t, d, "digests")
	l := d.looks["digests"]
	l.Classes = []Class{{Name: "throttled", Count: 9}, {Name: "auth", Count: 2}}
	d.looks["digests"] = l
	view := x.press("r").s.View()
	for _, want := range []string{
		"throttled                    9       +2", "auth                         2       +2",
		"timeout                      0       -4", "unknown                      0       -1",
	} {
		if !strings.Contains(view, want) {
			t.Errorf("%q is not in\n%s", want, view)
		}
	}
}

// Where a look leaves no trace the queue that is shown is looked at again by
// itself; where it counts as a receive it is not.
func TestTimedLooks(t *testing.T) {
	t.Parallel()
	for queue, want := range map[string]int{"digests": 2, "shipments": 1} {
		d := newFakeDesk()
		x := drive(t, d, queue)
		for range 35 {
			x.now = x.now.Add(time.Second)
			x.take(ticked{})
		}
		if len(d.asked) != want {
			t.Errorf("%s was asked %q", queue, d.asked)
		}
	}
}

func TestLookFails(t *testing.T) {
	t.Parallel()
	d := newFakeDesk()
	x := drive(t, d, "digests")
	d.err = errDown
	x.press("r")
	if got := x.state(); got.Note != "! "+errDown.Error() || got.Shown != 3 {
		t.Errorf("state %+v", got)
	}
	x.now = x.now.Add(5 * time.Minute)
	if view := x.s.View(); !strings.Contains(view, "looked at 12:00:00Z, 5m ago") {
		t.Errorf("the time of the look that stands is not in\n%s", view)
	}
}

// Suspending gives up what is under way before the process stops.
func TestSuspend(t *testing.T) {
	t.Parallel()
	x := drive(t, newFakeDesk(), "digests")
	ctx := x.s.ctx
	cmd := x.s.update(keyNamed("ctrl+z"))
	if ctx.Err() == nil {
		t.Error("what is under way was not ended")
	}
	cmd = x.s.update(cmd())
	if _, ok := cmd().(tea.SuspendMsg); !ok {
		t.Errorf("then came %T", cmd())
	}
	if x.s.ctx.Err() == nil {
		t.Error("something may begin before the process stops")
	}
	x.take(tea.ResumeMsg{})
	if x.s.ctx.Err() != nil {
		t.Error("nothing can be asked after it")
	}
}

// Whatever pane is shown, leaving waits for what is under way, and begins nothing
// any more.
func TestCloseWaits(t *testing.T) {
	t.Parallel()
	x := drive(t, newFakeDesk(), "digests")
	late := x.s.look("digests")
	x.s.close()
	if msg := late(); msg != nil {
		t.Errorf("a look began: %T", msg)
	}
}
