package reconcile

import (
	"testing"

	"github.com/redrivectl/redrivectl/internal/classify"
)

// TestRegionIsAboveEverything: whatever is proven, declared or lifted, a job of
// another region holds.
func TestRegionIsAboveEverything(t *testing.T) {
	t.Parallel()
	want := Decision{Action: Hold, Why: "region_mismatch", Needs: "a person, or the queue of its own region: this one is bound to eu"}
	everyInput(classify.Retry, func(in *Input) {
		a := Assessed{Class: classify.Result{Class: classify.Unknown}, Input: *in, BoundTo: "eu"}
		if got := a.With(in.Lifts, in.Declared); got != want {
			t.Fatalf("%+v\n%+v", *in, got)
		}
	})
}

func TestCrossesRegion(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		bound, named string
		want         bool
	}{{"", "", false}, {"", "us", false}, {"eu", "", false}, {"eu", "eu", false}, {"eu", "us", true}, {"eu", "EU", true}} {
		if got := CrossesRegion(tt.bound, tt.named); got != tt.want {
			t.Errorf("bound to %q, named %q: %v", tt.bound, tt.named, got)
		}
	}
}
