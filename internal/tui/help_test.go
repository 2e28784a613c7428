package tui

import (
	"strings"
	"testing"
)

// TestHelpTellsAllKeys: on a terminal of 80 by 24 every key of every pane can be read
// in the help, walking down where they do not fit.
func TestHelpTellsAllKeys(t *testing.T) {
	t.Parallel()
	for _, sc := range scenes {
		x := drive(t, newFakeDesk(), sc.queue).press(sc.keys...)
		x.s.question, x.s.input, x.s.help = nil, nil, nil
		seen := x.press("?").s.View()
		for range 30 {
			seen += x.press("down").s.View()
		}
		for _, list := range []string{x.s.top().name(), "everywhere"} {
			for _, k := range keysOf(list) {
				if first, _, _ := strings.Cut(k.Does, ";"); !strings.Contains(seen, k.Help().Key+" ") || !strings.Contains(seen, first[:min(len(first), 50)]) {
					t.Errorf("%s: %s is not in the help", sc.name, k.Help().Key)
				}
			}
		}
	}
}

// TestHintsAreWhole: at 80 columns no hint of the form is cut.
func TestHintsAreWhole(t *testing.T) {
	t.Parallel()
	const room = 80 - 2 - 18 - gap
	for _, l := range formLines {
		if width("  ("+l.hint+")") > room {
			t.Errorf("%s: %q is cut", l.flag, l.hint)
		}
	}
}
