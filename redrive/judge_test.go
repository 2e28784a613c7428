package redrive_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/redrivectl/redrivectl/internal/job"
	"github.com/redrivectl/redrivectl/internal/ledger"
	"github.com/redrivectl/redrivectl/reconcile"
	"github.com/redrivectl/redrivectl/redrive"
)

// faultOf is the storage of references that the test says it is.
type faultOf map[string]reconcile.Block

func (f faultOf) Fault(_ context.Context, r job.Reference) reconcile.Block { return f[r.URI] }

// TestReferencesHold: only what a worker would send is looked at, and only of a
// job that would be sent.
func TestReferencesHold(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.dead("k1", "k2", "k3")
	w.copy("k4", "")
	w.row("k4", ledger.Sent)
	jobs := w.jobs()
	for i, kind := range []string{job.RefRendering, job.RefStackTrace, job.RefPayload, job.RefPayload} {
		jobs[i].References = []job.Reference{{Kind: job.RefRendering, URI: "fine"}, {Kind: kind, URI: "bad"}}
	}
	jobs[2].References[1].URI = "fine"
	g := w.judge()
	g.References = faultOf{"bad": reconcile.BlockReferenceMismatch}
	as, err := g.Assess(w.ctx, jobs, redrive.Lifts{AcceptDuplicates: "yes", Fixed: "yes", EffectsByFlag: true})
	w.must(err)
	var got []string
	for _, a := range as {
		got = append(got, a.Job.JobKey+" "+string(a.Decision.Action)+" "+a.Decision.Why)
	}
	want := []string{"k1 hold reference_mismatch", "k2 redrive no_effect", "k3 redrive no_effect", "k4 settle already_sent"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
