package tui

import (
	"errors"
	"strings"
	"testing"
)

// TestEverySize draws every pane on every size of a terminal: nothing panics, and
// nothing is wider or higher than the terminal.
func TestEverySize(t *testing.T) {
	t.Parallel()
	for _, sc := range scenes {
		for name, more := range map[string]func(*driver){
			"as it is":     func(*driver) {},
			"with a fault": func(x *driver) { x.s.fail(errors.New(strings.Repeat("it does not answer ", 40))) },
			"being asked": func(x *driver) {
				x.s.confirm(strings.Repeat("Really do all of it? ", 20), nil)
				x.s.question.open = true
			},
			"being typed": func(x *driver) { x.s.ask("why "+strings.Repeat("so ", 40), strings.Repeat("because 漢字 ", 40), nil) },
			"with keys":   func(x *driver) { x.s.help = &pager{} },
			"prepared":    func(x *driver) { x.s.proposal = &proposal{act: Act{Do: DoRun}} },
		} {
			t.Run(sc.name+" "+name, func(t *testing.T) {
				t.Parallel()
				x := drive(t, newFakeDesk(), sc.queue).press(sc.keys...)
				more(x)
				for w := 1; w <= 200; w += 1 + w/45*7 {
					for h := 1; h <= 60; h += 1 + h/13*11 {
						if fits(t, x.size(w, h).s.View(), w, h); t.Failed() {
							t.Fatalf("%d×%d:\n%s", w, h, x.s.View())
						}
					}
				}
			})
		}
	}
}
