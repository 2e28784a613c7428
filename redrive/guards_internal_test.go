package redrive

import (
	"testing"

	"github.com/redrivectl/redrivectl/internal/ledger"
	"github.com/redrivectl/redrivectl/reconcile"
)

// TestEditTaken: each of the things by which somebody has the edited copy's identity
// already is enough by itself.
func TestEditTaken(t *testing.T) {
	t.Parallel()
	row := func(f ledger.Found) *ledger.Lookup { return &ledger.Lookup{Found: f} }
	for name, c := range map[string]struct {
		editing editing
		live    map[string]PlanID
		inQueue map[string]bool
		want    bool
	}{
		"nobody":               {editing: editing{assessed: reconcile.Assessed{Row: row(ledger.Missing)}}},
		"a row":                {editing: editing{assessed: reconcile.Assessed{Row: row(ledger.Present)}}, want: true},
		"it was published":     {editing: editing{published: Published{Count: 1}}, want: true},
		"it was itself edited": {editing: editing{published: Published{Replaced: true}}, want: true},
		"another plan":         {live: map[string]PlanID{"k~r": "p"}, want: true},
		"in the queue":         {inQueue: map[string]bool{"k~r": true}, want: true},
	} {
		s := &sorter{live: c.live, inQueue: c.inQueue}
		if got := s.taken(&Item{Edit: &ItemEdit{JobKey: "k~r"}}, candidate{edit: &c.editing}); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
