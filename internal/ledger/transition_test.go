package ledger

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestDocumentedTransitions holds docs/state-machine.md to the code.
func TestDocumentedTransitions(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("../../docs/state-machine.md")
	if err != nil {
		t.Fatal(err)
	}
	table := "| from | to | who | attempt | when |\n| --- | --- | --- | --- | --- |\n"
	for _, m := range Transitions() {
		table += fmt.Sprintf("| %s | %s | %s | %s | %s |\n", shown(m.From), shown(m.To), parties(m.By), steps(m), m.When)
	}
	if !strings.Contains(string(doc), table) {
		t.Errorf("docs/state-machine.md does not have this table:\n%s", table)
	}
	for _, m := range Transitions() {
		if arrow := fmt.Sprintf("    %s --> %s", or(string(m.From), "[*]"), m.To); !strings.Contains(string(doc), arrow) {
			t.Errorf("the diagram lacks %q", arrow)
		}
	}
}

func or(s, d string) string {
	if s == "" {
		return d
	}
	return s
}

func shown(s State) string {
	if s == "" {
		return "–"
	}
	return "`" + string(s) + "`"
}

func parties(ps []Party) string {
	ss := make([]string, len(ps))
	for i, p := range ps {
		ss[i] = string(p)
	}
	return strings.Join(ss, ", ")
}

func steps(m Transition) string {
	switch {
	case m.From == "":
		return "1"
	case m.Most == 0:
		return "same"
	case m.Least == 0:
		return "same or next"
	default:
		return "next"
	}
}

// TestNothingLeavesCommitted: what has happened is never undone. A committed row
// may only stay as it is.
func TestNothingLeavesCommitted(t *testing.T) {
	t.Parallel()
	for _, m := range Transitions() {
		if m.From.Committed() && m.To != Reconciled && m.To != m.From {
			t.Errorf("%s → %s", m.From, m.To)
		}
		if m.To == Sending && !slices.Equal(m.By, []Party{Worker}) {
			t.Errorf("%s → sending by %v: only a worker sends", m.From, m.By)
		}
	}
}

func TestChecked(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change  Change
		attempt int
		legal   bool
	}{
		"claim":                     {Change{From: Queued, FromAttempt: 2, To: Sending, ClaimLife: time.Second}, 2, true},
		"claim, wrong attempt":      {Change{From: Queued, FromAttempt: 2, Attempt: 3, To: Sending, ClaimLife: time.Second}, 0, false},
		"claim for ever":            {Change{From: Queued, FromAttempt: 2, To: Sending}, 0, false},
		"claim of a failed row":     {Change{From: Failed, FromAttempt: 2, To: Sending, ClaimLife: time.Second}, 3, true},
		"redrive from attempt 0":    {Change{From: Failed, To: Queued}, 1, true},
		"rollback":                  {Change{From: Queued, FromAttempt: 2, To: Failed}, 2, true},
		"rollback ahead":            {Change{From: Queued, FromAttempt: 2, Attempt: 3, To: Failed}, 3, true},
		"rollback too far":          {Change{From: Queued, FromAttempt: 2, Attempt: 4, To: Failed}, 0, false},
		"straight to sent":          {Change{From: Queued, FromAttempt: 1, To: Sent}, 0, false},
		"re-queue while sending":    {Change{From: Sending, FromAttempt: 1, To: Queued}, 0, false},
		"new row":                   {Change{To: Queued, Attempt: 1, LateAccept: false}, 1, false},
		"late accept":               {Change{FromAttempt: 4, LateAccept: true}, 4, true},
		"late accept with a state":  {Change{From: Fenced, To: Reconciled, LateAccept: true}, 0, false},
		"late failure":              {Change{FromAttempt: 4, ErrorClass: "auth", Effect: EffectNone, Resolve: ByWorker}, 4, true},
		"late failure, unproven":    {Change{FromAttempt: 4, ErrorClass: "timeout", Effect: EffectUnknown, Resolve: ByWorker}, 0, false},
		"nothing":                   {Change{FromAttempt: 4}, 0, false},
		"unproven failure resolved": {Change{From: Sending, FromAttempt: 1, To: Failed, Effect: EffectUnknown, Resolve: ByWorker}, 0, false},
		"replaced by itself":        {Change{From: Failed, FromAttempt: 1, To: Replaced, Replace: &NewRow{}}, 0, false},
		"replaced":                  {Change{From: Failed, FromAttempt: 1, To: Replaced, Replace: &NewRow{Key: Key{JobKey: "new"}}}, 1, true},
		"sent, and a copy besides":  {Change{From: Sent, FromAttempt: 1, To: Sent, Replace: &NewRow{Key: Key{JobKey: "new"}}}, 1, true},
		"sent again as it is":       {Change{From: Sent, FromAttempt: 1, To: Sent}, 0, false},
		"queued with a copy":        {Change{From: Failed, FromAttempt: 1, To: Queued, Replace: &NewRow{Key: Key{JobKey: "new"}}}, 0, false},
		"replaced by nothing":       {Change{From: Failed, FromAttempt: 1, To: Replaced}, 0, false},
	} {
		got, err := c.change.Checked()
		if (err == nil) != c.legal || err != nil && !errors.Is(err, ErrIllegal) {
			t.Errorf("%s: %v", name, err)
		}
		if c.legal && got.Attempt != c.attempt {
			t.Errorf("%s: attempt %d, want %d", name, got.Attempt, c.attempt)
		}
	}
}
