package reconcile

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/classify"
	"github.com/redrivectl/redrivectl/internal/job"
)

// TestManualHoldIsAboveEverything: whatever is proven, declared or lifted, a held
// job holds.
func TestManualHoldIsAboveEverything(t *testing.T) {
	t.Parallel()
	want := Decision{Action: Hold, Why: "manual_hold", Needs: "release: redrivectl release JOB (held for mail-team)"}
	everyInput(classify.Retry, func(in *Input) {
		a := Assessed{Class: classify.Result{Class: classify.Unknown}, Input: *in, Hold: &ManualHold{Owner: "mail-team"}}
		if got := a.With(in.Lifts, in.Declared); got != want {
			t.Fatalf("%+v\n%+v", *in, got)
		}
	})
}

func TestHoldIDOf(t *testing.T) {
	t.Parallel()
	j := func(key, origin, sha, id string) job.Job {
		return job.Job{JobKey: key, PayloadSHA256: sha, Message: broker.Message{Origin: origin, Copy: broker.CopyID{Entity: "dlq", ID: id}}}
	}
	tests := []struct {
		name string
		job  job.Job
		want string
	}{
		{"by key", j("k-1", "src", "aa", "7"), `job_key "k-1"`},
		{"a key of bytes", j("k\x00\xff", "src", "aa", "7"), `job_key "k\x00\xff"`},
		{"without key", j("", "src", "aa", "7"), `payload aa`},
		{"without key and origin", j("", "", "aa", "7"), `payload aa`},
		{"without key and payload", j("", "src", "", "7"), `copy "7"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(HoldID{Entity: "dlq", Job: tt.want}, HoldIDOf(tt.job)); diff != "" {
				t.Error(diff)
			}
		})
	}
}
