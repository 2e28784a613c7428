package redrive

// ReportOf is the report of a run that has not ended, from its plan's items and
// from how copies were closed so far. What is open remains.
func ReportOf(planned int, ends map[string]ItemEnd) Report {
	r := Report{Planned: planned, Skipped: map[string]int{}}
	for _, e := range ends {
		r.count(e, 1)
	}
	r.Remaining = planned - len(ends)
	return r
}
