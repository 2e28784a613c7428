package tui

import (
	"strings"
	"testing"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/google/go-cmp/cmp"
)

func TestActKeys(t *testing.T) {
	t.Parallel()
	form := []string{"enter", "n"}
	plans := []string{"a"}
	plan := append(plans, "down", "enter")
	const (
		inForm = inJobs + " › plan of class:throttled"
		inPlan = "queues › digests › plans › plan 3f9a1c2d4e5f"
		inRun  = inPlan + " › run 81c2a7b3d4e5"
	)
	for _, c := range []struct {
		name string
		keys []string
		want state
	}{
		{"reconciling asks first", []string{"c"}, state{Panes: inClasses, At: "throttled", Sorted: "jobs", Shown: 3, Asks: "Really reconcile?"}},
		{"no leaves it", []string{"c", "n"}, state{Panes: inClasses, At: "throttled", Sorted: "jobs", Shown: 3, Note: "not confirmed; nothing was changed"}},
		{"yes shows the verdicts", []string{"c", "y"}, state{Panes: inClasses + " › reconcile class throttled", Shown: 2, Note: "reconcile: done"}},
		{"a marked job stays marked, and the cursor moves on", []string{"enter", "space"}, state{Panes: inJobs, At: "c09", Sorted: "oldest", Shown: 7}},
		{"a plan is drafted from what is shown", form, state{Panes: inForm, At: "action", Shown: 7}},
		{"a line is typed", append(form, "down", "enter"), state{Panes: inForm, At: "max", Shown: 7, Input: "max: most items that the plan may have12"}},
		{"freezing asks for the reason", append(form, "F"), state{Panes: inForm, At: "reason", Shown: 7, Input: "reason: why, for the approver and the audit log; required"}},
		{"freezing asks", append(form, "end", "enter", `"over"`, "enter", "F"), state{Panes: inForm, At: "reason", Shown: 7, Asks: "Really plan create?"}},
		{
			"and shows the plan", append(form, "end", "enter", `"over"`, "enter", "F", "y"),
			state{Panes: inJobs + " › plan 3f9a1c2d4e5f", At: "3f9a1c2d4e5f", Note: "plan create: done"},
		},
		{"plans that wait for me come first", plans, state{Panes: inClasses + " › plans", At: "77aa1c2d4e5f", Shown: 2}},
		{"a plan opens", plan, state{Panes: inPlan, At: "3f9a1c2d4e5f"}},
		{"approving asks for the count", append(plan, "A"), state{Panes: inPlan, At: "3f9a1c2d4e5f", Input: "how many items the plan has, as you have seen:"}},
		{"which is a number", append(plan, "A", `"x"`, "enter"), state{
			Panes: inPlan, At: "3f9a1c2d4e5f", Input: "how many items the plan has, as you have seen:x", Fault: "a number is needed",
		}},
		{"and for the reason", append(plan, "A", `"7"`, "enter"), state{Panes: inPlan, At: "3f9a1c2d4e5f", Input: "why you agree:"}},
		{"and then once more", append(plan, "A", `"7"`, "enter", `"seen"`, "enter"), state{Panes: inPlan, At: "3f9a1c2d4e5f", Asks: "Really approve?"}},
		{"running asks", append(plan, "S"), state{Panes: inPlan, At: "3f9a1c2d4e5f", Asks: "Really run?"}},
		{"and is watched", append(plan, "S", "y"), state{Panes: inRun, At: "finished", Note: "run: done"}},
		{"pausing asks why", append(plan, "S", "y", "p"), state{Panes: inRun, At: "finished", Input: "why the run is to pause:"}},
		{"and then once more", append(plan, "S", "y", "p", `"rising errors"`, "enter"), state{Panes: inRun, At: "finished", Asks: "Really pause?"}},
		{"aborting asks", append(plan, "S", "y", "X", `"wrong"`, "enter"), state{Panes: inRun, At: "finished", Asks: "Really abort?"}},
		{"promoting asks", append(plan, "S", "y", "P", `"seen"`, "enter"), state{Panes: inRun, At: "finished", Asks: "Really resume --promote?"}},
		{"going on asks", append(plan, "S", "y", "o"), state{Panes: inRun, At: "finished", Asks: "Really resume?"}},
		{"runs are listed", []string{"w"}, state{Panes: inClasses + " › runs"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := drive(t, newFakeDesk(), "digests").press(c.keys...).state()
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("after %q (-want +got):\n%s", c.keys, diff)
			}
		})
	}
}

// acts is what the desk was told to do.
func (d *fakeDesk) acts() []string {
	var done []string
	for _, a := range d.asked {
		if strings.HasPrefix(a, "do ") {
			done = append(done, a)
		}
	}
	return done
}

func TestWhatIsDone(t *testing.T) {
	t.Parallel()
	const plan = "3f9a1c2d4e5f60718293a4b5c6d7e8f9"
	open := []string{"a", "down", "enter"}
	for _, c := range []struct {
		name string
		keys []string
		want string
	}{
		{"the class under the cursor", []string{"down", "c", "y"}, `do reconcile on=digests form=map[] select=--class "timeout" items=0 reason= agreed=Really reconcile?`},
		{"the marked classes", []string{"space", "space", "c", "y"}, `do reconcile on=digests form=map[] select=--class "throttled" --class "timeout" items=0 reason= agreed=Really reconcile?`},
		{
			"the marked jobs",
			[]string{"enter", "space", "down", "space", "c", "y"},
			`do reconcile on=digests form=map[] select=--job "digest:2026-W09:customer-0007:v1" --job "digest:2026-W09:customer-0010:v1" items=0 reason= agreed=Really reconcile?`,
		},
		{
			"what words left is named",
			[]string{"enter", "/", `"0007"`, "enter", "c", "y"},
			`do reconcile on=digests form=map[] select=--job "digest:2026-W09:customer-0007:v1" items=0 reason= agreed=Really reconcile?`,
		},
		{"all", []string{"enter", "x", "c", "y"}, `do reconcile on=digests form=map[] select=--all items=0 reason= agreed=Really reconcile?`},
		{
			"a plan with what was typed",
			[]string{"enter", "n", "end", "enter", `"over"`, "enter", "F", "y"},
			`do plan create on= form=map[expires:2h max:12 rate:50/s reason:over] select= items=0 reason= agreed=Really plan create?`,
		},
		{"an approval with the count", append(open, "A", `"7"`, "enter", `"seen"`, "enter", "y"), "do approve on=" + plan + " form=map[] select= items=7 reason=seen agreed=Really approve?"},
		{"a rejection", append(open, "J", `"wrong"`, "enter", "y"), "do reject on=" + plan + " form=map[] select= items=0 reason=wrong agreed=Really reject?"},
		{"a run", append(open, "S", "y"), "do run on=" + plan + " form=map[] select= items=0 reason= agreed=Really run?"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			d := newFakeDesk()
			drive(t, d, "digests").press(c.keys...)
			if diff := cmp.Diff([]string{c.want}, d.acts()); diff != "" {
				t.Errorf("done (-want +got):\n%s", diff)
			}
		})
	}
}

// Nothing is ever done that was not said yes to, whatever else is typed.
func TestNothingWithoutYes(t *testing.T) {
	t.Parallel()
	keys := []string{"a", "down", "enter", "A", `"7"`, "enter", `"why"`, "enter", "n", "J", `"why"`, "enter", "esc", "S", "n", "esc", "esc", "c", "n", "enter", "m", "n", "end", "enter", `"why"`, "enter", "F", "n"}
	d := newFakeDesk()
	drive(t, d, "digests").press(keys...)
	if acts := d.acts(); acts != nil {
		t.Errorf("done: %q", acts)
	}
}

// Leaving while a run is carried out here says what that does.
func TestLeavingARun(t *testing.T) {
	t.Parallel()
	x := drive(t, newFakeDesk(), "digests")
	x.s.acts = []*doing{{act: Act{Do: DoRun}}}
	for _, key := range []string{"q", "ctrl+c"} {
		if got := x.press(key).state(); !strings.Contains(got.Asks, "finish its batch in flight") || got.Quit {
			t.Errorf("%s: %+v", key, got)
		}
		x.press("n")
	}
	if got := x.press("ctrl+z").state(); !strings.Contains(got.Asks, "Suspend?") {
		t.Errorf("ctrl+z: %+v", got)
	}
	x.press("n")
	if !x.press("q", "y").quit {
		t.Error("yes did not leave")
	}
}

// The plan takes the place of the form that it was made in, wherever that is by then,
// and whatever else is shown stays.
func TestFreezingLeavesOtherPanes(t *testing.T) {
	t.Parallel()
	freeze := []string{"enter", "n", "end", "enter", `"over"`, "enter", "F"}
	for _, c := range []struct {
		name string
		keys []string
		want state
	}{
		{"another pane was opened", []string{"a"}, state{Panes: inJobs + " › plan 3f9a1c2d4e5f › plans", At: "77aa1c2d4e5f", Shown: 2, Note: "plan create: done"}},
		{"the form was left", []string{"esc"}, state{Panes: inJobs, At: "c10", Sorted: "oldest", Shown: 7, Note: "plan 3f9a1c2d4e5f is made; a lists it"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			x := drive(t, newFakeDesk(), "digests").press(freeze...)
			x.slow = true
			x.press("y")
			freezing := x.held
			x.slow, x.held = false, nil
			x.press(c.keys...).held = freezing
			if diff := cmp.Diff(c.want, x.release().state()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Pressing a and w again goes to what is open already.
func TestListsAreOpenedOnce(t *testing.T) {
	t.Parallel()
	x := drive(t, newFakeDesk(), "digests").press("a", "a", "w", "w", "a", "w", "a", "down", "enter", "S", "y", "w", "a")
	if got, want := x.state().Panes, inClasses+" › plans"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := x.press("w", "enter", "w").state().Panes, inClasses+" › plans › runs"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// Before the first answer has come nothing is said to be none.
func TestOneMoment(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"a", "w"} {
		x := drive(t, newFakeDesk(), "digests")
		x.slow = true
		if view := x.press(key).s.View(); strings.Count(view, oneMoment) != 2 || strings.Contains(view, "no ") {
			t.Errorf("%s shows\n%s", key, view)
		}
		if view := x.release().s.View(); strings.Contains(view, oneMoment) {
			t.Errorf("after the answer %s shows\n%s", key, view)
		}
	}
	x := drive(t, newFakeDesk(), "digests").press(toPlan...)
	x.slow = true
	if view := x.press("enter").s.View(); !strings.Contains(view, oneMoment) || strings.Contains(view, "no run") {
		t.Errorf("a run shows\n%s", view)
	}
	if view := x.release().s.View(); !strings.Contains(view, "no run yet") {
		t.Errorf("after the answer a run shows\n%s", view)
	}
}

// A run that waits for a person says so, whatever made it wait, and what lets it go on.
func TestRunThatWaits(t *testing.T) {
	t.Parallel()
	for _, state := range []string{"paused at its gate", "paused by its circuit breaker"} {
		d := newFakeDesk()
		d.run = &Run{ID: "81c2a7b3d4e5", Plan: d.plans[0].ID, Queue: "digests", State: state, Lives: true, Paused: true, AtGate: true, Planned: 7, Left: 5}
		x := drive(t, d, "digests").press("w", "enter")
		view := x.size(120, 40).s.View()
		if want := state + ": 2 of 7; it waits for a person: P promotes it, X ends it"; !strings.Contains(view, want) || strings.Contains(view, "inconclusive") {
			t.Errorf("%q is not in\n%s", want, view)
		}
		if got := x.press("P").state().Input; got != "why the run may go on all the same:" {
			t.Errorf("P asks %q", got)
		}
	}
}

// What the form does not take it names the command for.
func TestFormNamesTheCommand(t *testing.T) {
	t.Parallel()
	x := drive(t, newFakeDesk(), "digests").press("enter", "n", "end", "up", "enter")
	if got := x.state(); got.At != flagEdit || got.Note != "type it outside: redrivectl plan create digests --edit FILTER" {
		t.Errorf("%+v", got)
	}
}

// What an act tells arrives while it is under way.
func TestNewsOfAnAct(t *testing.T) {
	t.Parallel()
	x := drive(t, newFakeDesk(), "digests").press("a", "down", "enter", "S", "y")
	if view := x.s.View(); !strings.Contains(view, "! the run was slowed by the provider") {
		t.Errorf("the news is not in\n%s", view)
	}
	if news, rows := strings.Index(x.s.View(), "! the run was slowed"), strings.Index(x.s.View(), "redriven"); news > rows {
		t.Errorf("the news is below the rest:\n%s", x.s.View())
	}
	x.take(tea.WindowSizeMsg{Width: 80, Height: 24})
	fits(t, x.s.View(), 80, 24)
}
