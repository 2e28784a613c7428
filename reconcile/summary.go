package reconcile

import (
	"context"
	"time"

	"github.com/redrivectl/redrivectl/internal/classify"
)

// Summary is what a reconciliation found. Its JSON is the shape that is
// promised; only additions are made to it.
type Summary struct {
	Queue    string          `json:"queue"`
	Checked  int             `json:"checked"` // jobs and orphans that the provider was asked about
	Applied  bool            `json:"applied"`
	Verdicts map[Verdict]int `json:"verdicts"`
	Orphans  int             `json:"orphans"`
	// OrphansExact is false when the queue was not seen whole: an orphan may
	// have a dead copy after all; and when orphans cannot be told from another
	// queue's rows.
	OrphansExact bool           `json:"orphans_exact"`
	Jobs         []SummaryEntry `json:"jobs"`
}

// SummaryEntry is one job or orphan. Evidence is the digest of what its verdict
// rests on.
type SummaryEntry struct {
	JobKey  string  `json:"job_key"`
	Verdict Verdict `json:"verdict"`
	// Because is why the verdict is no better, such as no_positive_control.
	Because   string     `json:"verdict_why"`
	Evidence  string     `json:"evidence"`
	Action    Action     `json:"action"`
	Needs     string     `json:"needs"`
	Why       string     `json:"why"`
	RequestID string     `json:"request_id"`
	Until     *time.Time `json:"until"` // when a too_early look-up may be tried again
	Orphan    bool       `json:"orphan"`
}

const (
	needsNoCopy     = "no copy to publish: the application must publish the job again, or import an archived copy"
	needsWholeLook  = "a complete look at the queue: a dead copy may exist that was not seen"
	needsNotChecked = "another reconcile: this one was limited, cut short, or lost the row to somebody else"
)

// summary assesses the jobs again, now that verdicts and rows have changed.
func (w *work) summary(ctx context.Context, req Request, orphans []*subject) (Summary, error) {
	sum := Summary{
		Queue: w.Settings.Queue, Applied: w.apply, Verdicts: map[Verdict]int{},
		Orphans: len(orphans), OrphansExact: req.BrowseComplete && !w.Settings.SharedRows && req.Only == nil, Jobs: []SummaryEntry{},
	}
	found := map[string]*Found{}
	for _, s := range w.subjects {
		if s.found.Verdict == None {
			continue
		}
		sum.Checked++
		sum.Verdicts[s.found.Verdict]++
		if s.job != nil {
			found[s.key.JobKey] = &s.found
		}
	}
	as, err := w.Assess(ctx, req.Jobs)
	for _, a := range as {
		if req.Only != nil && found[a.Job.JobKey] == nil {
			continue
		}
		if e, ok := entryOf(a, found[a.Job.JobKey]); ok {
			sum.Jobs = append(sum.Jobs, e)
		}
	}
	for _, s := range orphans {
		sum.Jobs = append(sum.Jobs, orphanEntry(s, req.BrowseComplete))
	}
	return sum, err
}

// entryOf lists the jobs that were checked, and those that still wait for it.
func entryOf(a Assessed, f *Found) (SummaryEntry, bool) {
	if f == nil && !asks(a) {
		return SummaryEntry{}, false
	}
	e := SummaryEntry{
		JobKey: a.Job.JobKey, Action: a.Decision.Action, Needs: a.Decision.Needs, Why: a.Decision.Why,
	}
	if f == nil {
		f = a.Verdict
	}
	e.take(f)
	return e, true
}

func (e *SummaryEntry) take(f *Found) {
	if f == nil {
		return
	}
	e.Verdict, e.Because = f.Verdict, f.Evidence.Why
	e.Evidence, e.RequestID = f.EvidenceSHA256, f.Evidence.RequestID
	if !f.Until.IsZero() {
		e.Until = &f.Until
	}
}

// orphanEntry says what may be done with a row that has no copy: an accepted
// one is settled by its move alone, and nothing else can be published by us.
func orphanEntry(s *subject, whole bool) SummaryEntry {
	in := Input{
		Disposition: classify.Retry, Effect: classify.EffectUnknown, Unresolved: true,
		Standing: s.standing, Verdict: s.found.Verdict,
	}
	d := Decide(in)
	nameTime(&d, &s.found)
	switch {
	case !whole && d.Action != Settle:
		d.Action, d.Needs = Hold, needsWholeLook
	case s.found.Verdict == None:
		d.Action, d.Needs = Hold, needsNotChecked
	case s.found.Verdict == NotAccepted, s.found.Verdict == Rejected:
		d.Action, d.Needs = Hold, needsNoCopy
	}
	e := SummaryEntry{JobKey: s.key.JobKey, Action: d.Action, Needs: d.Needs, Why: d.Why, Orphan: true}
	e.take(&s.found)
	return e
}
