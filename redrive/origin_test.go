package redrive_test

import (
	"errors"
	"testing"

	"github.com/redrivectl/redrivectl/redrive"
)

// Each copy returns to its own origin. The configured sources bound what that
// may be, and one source alone stands in for an origin that is not known.
func TestCopyReturnsToItsOrigin(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		sources    []string
		only, to   string // the one source; typed
		origin     string
		want, held string
	}{
		"its origin":                      {origin: "app", want: "app"},
		"its origin, before the source":   {origin: "app", sources: []string{"app"}, only: "app", want: "app"},
		"its origin, one of several":      {origin: "b", sources: []string{"a", "b"}, want: "b"},
		"no source of the queue's":        {origin: "c", sources: []string{"a", "b"}, held: "other_origin"},
		"no source, and typed":            {origin: "c", sources: []string{"a"}, only: "a", to: "d", want: "d"},
		"not known, and one source":       {sources: []string{"a"}, only: "a", want: "a"},
		"not known, and several sources":  {sources: []string{"a", "b"}, held: "no_destination"},
		"not known, and nothing is named": {held: "no_destination"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.dead("k1")
			req := w.request()
			req.Queue.Sources, req.Queue.Destination, req.Lifts.To = c.sources, c.only, c.to
			req.Jobs[0].Message.Origin = c.origin
			d, err := w.planner().Draft(w.ctx, req)
			var empty *redrive.EmptyError
			switch {
			case errors.As(err, &empty):
				if empty.Held[0].Why != c.held {
					t.Errorf("held as %s, want %q", empty.Held[0].Why, c.held)
				}
			case err != nil:
				t.Error(err)
			case d.Plan.Items[0].Destination != c.want:
				t.Errorf("goes to %q, want %q (held %q)", d.Plan.Items[0].Destination, c.want, c.held)
			}
		})
	}
}
