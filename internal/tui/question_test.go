package tui

import (
	"slices"
	"testing"
)

// inPlan are the keys to a plan that is approved.
var toPlan = []string{"a", "down", "enter"}

// TestQuestionWaitsForTheLine: no key that was typed before a question could be read
// answers it, or anything else: neither while it is being prepared nor in the moment
// in which it is drawn.
func TestQuestionWaitsForTheLine(t *testing.T) {
	t.Parallel()
	d := newFakeDesk()
	x := drive(t, d, "digests").press(toPlan...)
	x.slow, x.unread = true, true
	x.press("S", "y", "Y", "A", "7", "enter", "S", "q")
	if st := x.state(); st.Asks != "" || st.Input != "" || st.Quit || len(x.held) != 1 {
		t.Errorf("while it was prepared: %+v, %d asked", st, len(x.held))
	}
	x.release().press("y", "n", "esc", "enter")
	if st := x.state(); st.Asks != "Really run?" || st.Quit {
		t.Errorf("while it was drawn: %+v", st)
	}
	if acts := d.acts(); acts != nil {
		t.Fatalf("done: %q", acts)
	}
	x.take(drawn{x.s.question})
	if x.press("y"); len(d.acts()) != 1 {
		t.Errorf("done: %q", d.acts())
	}
}

// A question never comes over a line that is being typed, whose letters would answer
// it.
func TestQuestionAndInputLine(t *testing.T) {
	t.Parallel()
	d := newFakeDesk()
	x := drive(t, d, "digests").press(toPlan...)
	x.slow = true
	x.press("S", "J", `"yyy"`)
	x.release().press("enter")
	if st := x.state(); st.Input != "" || st.Asks != "Really run?" || d.acts() != nil {
		t.Errorf("%+v, done %q", st, d.acts())
	}
}

// A question that is being prepared can be left, and does not come after that.
func TestQuestionIsLeft(t *testing.T) {
	t.Parallel()
	d := newFakeDesk()
	x := drive(t, d, "digests").press(toPlan...)
	x.slow = true
	x.press("S", "esc")
	if st := x.state(); st.Note != "left before it was asked; nothing was changed" {
		t.Errorf("%+v", st)
	}
	x.press("p") // no key of the plan
	if st := x.release().state(); st.Asks != "" || st.Note != "" {
		t.Errorf("%+v", st)
	}
}

// Two acts proposed in a row: the first one is asked about, and the second not at all.
func TestSecondProposal(t *testing.T) {
	t.Parallel()
	d := newFakeDesk()
	x := drive(t, d, "digests").press("down")
	x.slow = true
	x.press("c", "up", "c")
	x.release().press("y")
	want := `do reconcile on=digests form=map[] select=--class "timeout" items=0 reason= agreed=Really reconcile?`
	if got := d.acts(); !slices.Equal(got, []string{want}) {
		t.Errorf("done: %q", got)
	}
}

// A question that a terminal is too small for is not answered by yes.
func TestUnseenQuestion(t *testing.T) {
	t.Parallel()
	for _, size := range [][2]int{{20, 24}, {80, 7}, {40, 8}} {
		d := newFakeDesk()
		d.question = "Really? It would, among much else that takes more than one line to say on any screen, do all of it again."
		x := drive(t, d, "digests").press("c").size(size[0], size[1]).press("y")
		if d.acts() != nil {
			t.Errorf("%v: done: %q\n%s", size, d.acts(), x.s.View())
		}
		if x.size(80, 24).press("y"); len(d.acts()) != 1 {
			t.Errorf("%v: done after it could be seen: %q", size, d.acts())
		}
	}
	d := newFakeDesk()
	x := drive(t, d, "digests").press("c").size(20, 5).press("n")
	if x.size(80, 24); x.s.question != nil {
		t.Error("no was not taken")
	}
	if x.size(20, 5).press("c", "enter", "/", "q"); !x.quit || d.acts() != nil {
		t.Errorf("quit %v, done %q", x.quit, d.acts())
	}
}
