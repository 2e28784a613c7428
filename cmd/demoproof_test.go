package cmd

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/redrivectl/redrivectl/internal/provider/providertest"
)

func copies(keys ...string) []demoCopy {
	cs := make([]demoCopy, len(keys))
	for i, k := range keys {
		cs[i] = demoCopy{messageID: "message of " + k, jobKey: k}
	}
	return cs
}

func accepted(keys ...string) []providertest.Entry {
	es := make([]providertest.Entry, len(keys))
	for i, k := range keys {
		es[i] = providertest.Entry{OpID: k, Accepted: true}
	}
	return es
}

// The proof is told nothing of what was planned, so it must find by itself what
// a bad recovery would leave behind.
func TestDemoProof(t *testing.T) {
	t.Parallel()
	refused := []providertest.Entry{{OpID: "a", Status: 429}, {OpID: "a", Rejected: true, Status: 400}}
	for _, c := range []struct {
		name     string
		evidence demoEvidence
		want     demoSummary
		problems []string
	}{
		{
			"settled, redriven and held",
			demoEvidence{before: copies("a", "b", "c"), logged: 1, log: accepted("a", "b"), dead: copies("c")},
			demoSummary{Jobs: 3, Settled: 1, Redriven: 1, Held: 1},
			nil,
		},
		{
			"refused sends had no effect",
			demoEvidence{before: copies("a"), logged: 1, log: append(refused, accepted("a")...)},
			demoSummary{Jobs: 1, Redriven: 1},
			nil,
		},
		{
			"sent again by the recovery",
			demoEvidence{before: copies("a"), logged: 1, log: accepted("a", "a")},
			demoSummary{Jobs: 1, Settled: 1, DuplicateEffects: 1},
			[]string{"1 effects happened again"},
		},
		{
			"sent twice by the recovery, and once more",
			demoEvidence{before: copies("a"), log: accepted("a", "a", "a")},
			demoSummary{Jobs: 1, Redriven: 1, DuplicateEffects: 2},
			[]string{"2 effects happened again"},
		},
		{
			"another job sent twice",
			demoEvidence{before: copies("a"), logged: 2, log: accepted("x", "x"), dead: copies("a")},
			demoSummary{Jobs: 1, Held: 1, DuplicateEffects: 1},
			[]string{"1 effects happened again"},
		},
		{
			"a repeat that a key answered",
			demoEvidence{before: copies("a"), logged: 1, log: append(accepted("a"), providertest.Entry{OpID: "a", Accepted: true, Repeat: true})},
			demoSummary{Jobs: 1, Settled: 1},
			nil,
		},
		{
			"gone without an acceptance",
			demoEvidence{before: copies("a"), log: refused},
			demoSummary{Jobs: 1, Lost: 1},
			[]string{"1 jobs are lost", "0 of 1 jobs are accounted for"},
		},
		{
			"gone without a key",
			demoEvidence{before: []demoCopy{{messageID: "m"}}, log: accepted("")},
			demoSummary{Jobs: 1, Lost: 1},
			[]string{"1 jobs are lost", "0 of 1 jobs are accounted for"},
		},
		{
			"held without a key",
			demoEvidence{before: []demoCopy{{messageID: "m"}, {messageID: "n"}}, dead: []demoCopy{{messageID: "n"}}},
			demoSummary{Jobs: 2, Held: 1, Lost: 1},
			[]string{"1 jobs are lost", "1 of 2 jobs are accounted for"},
		},
		{
			"discarded, and in the archive",
			demoEvidence{before: append(copies("a", "b"), demoCopy{messageID: "m"}), dead: copies("b"), dropped: append(copies("a"), demoCopy{messageID: "m"})},
			demoSummary{Jobs: 3, Discarded: 2, Held: 1},
			nil,
		},
		{
			"said to be discarded, and sent",
			demoEvidence{before: copies("a"), log: accepted("a"), dropped: copies("a")},
			demoSummary{Jobs: 1, Redriven: 1},
			nil,
		},
		{
			"waits in the source queue",
			demoEvidence{before: copies("a"), waiting: []demoCopy{{messageID: "new", jobKey: "a"}}},
			demoSummary{Jobs: 1, Waiting: 1},
			[]string{"0 of 1 jobs are accounted for"},
		},
		{
			"came back to the dead-letter queue",
			demoEvidence{before: copies("a"), dead: []demoCopy{{messageID: "new", jobKey: "a"}}},
			demoSummary{Jobs: 1, Held: 1},
			nil,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := c.evidence.prove()
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("summary (-want +got):\n%s", diff)
			}
			got.AuditVerified = true
			if diff := cmp.Diff(c.problems, got.problems()); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
			if err := got.verdict(); exitCode(err) != map[bool]int{true: exitDone, false: exitFailed}[len(c.problems) == 0] {
				t.Errorf("verdict: %v", err)
			}
		})
	}
}

func TestDemoProofNeedsTheAuditLog(t *testing.T) {
	t.Parallel()
	want := []string{"the audit log does not verify"}
	if diff := cmp.Diff(want, demoSummary{}.problems()); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}

// Moving any one job elsewhere must change the summary: no place is taken for
// another.
func TestDemoProofTellsPlacesApart(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for _, place := range []string{"early", "late", "dead", "waiting", "nowhere"} {
		e := demoEvidence{before: copies("a")}
		switch place {
		case "early":
			e.log, e.logged = accepted("a"), 1
		case "late":
			e.log = accepted("a")
		case "dead":
			e.dead = slices.Clone(e.before)
		case "waiting":
			e.waiting = slices.Clone(e.before)
		}
		s := fmt.Sprint(e.prove())
		if other, ok := seen[s]; ok {
			t.Errorf("%s and %s give the same summary", place, other)
		}
		seen[s] = place
	}
}
