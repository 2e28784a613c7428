package reconcile

// WhyRegionMismatch is why a decision is to hold a job whose message names another
// region than its queue is bound to.
const WhyRegionMismatch = "region_mismatch"

// CrossesRegion reports whether what names a region does not belong where all is
// bound to another. What names none belongs anywhere.
func CrossesRegion(bound, named string) bool {
	return bound != "" && named != "" && named != bound
}

// regionDecision stands before the decision table: what may be done with the job
// is for its own region to say.
func regionDecision(bound string) Decision {
	return Decision{
		Action: Hold, Why: WhyRegionMismatch,
		Needs: "a person, or the queue of its own region: this one is bound to " + bound,
	}
}
