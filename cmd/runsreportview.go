package cmd

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/redrivectl/redrivectl/audit"
	"github.com/redrivectl/redrivectl/internal/metrics"
	"github.com/redrivectl/redrivectl/internal/term"
	"github.com/redrivectl/redrivectl/redrive"
)

// runReportView is the run report shape of docs/json-output.md.
type runReportView struct {
	Run            string          `json:"run"`
	Plan           string          `json:"plan"`
	Queue          string          `json:"queue"`
	State          string          `json:"state"`
	Lives          bool            `json:"lives"`
	AsOf           time.Time       `json:"reported_at"`
	Requester      string          `json:"requester"`
	RequesterKnown string          `json:"requester_known"`
	Reason         string          `json:"reason"`
	Query          string          `json:"query"`
	Tier           string          `json:"tier"`
	TierWhy        []string        `json:"tier_why"`
	Lifts          redrive.Lifts   `json:"lifts"`
	Approvals      []statementView `json:"approvals"`
	PlannedAt      time.Time       `json:"planned_at"`
	ApprovedAt     *time.Time      `json:"approved_at"`
	StartedAt      time.Time       `json:"started_at"`
	EndedAt        *time.Time      `json:"ended_at"`
	ExpiresAt      time.Time       `json:"expires_at"`
	Sessions       []sessionView   `json:"sessions"`
	Rollbacks      []rollbackNote  `json:"rollbacks"`
	RolledBack     int             `json:"rolled_back"`
	Planned        int             `json:"planned"`
	Redriven       int             `json:"redriven"`
	Settled        int             `json:"settled"`
	Discarded      int             `json:"discarded"`
	Skipped        map[string]int  `json:"skipped"`
	Failed         int             `json:"failed"`
	Unknown        int             `json:"unknown"`
	Remaining      int             `json:"remaining"`
	Classes        []classReport   `json:"classes"`
	Gate           gateView        `json:"gate"`
	Rate           rateReport      `json:"rate"`
	Prevented      preventedReport `json:"duplicates_prevented"`
	UnknownSends   unknownSends    `json:"unknown_sends"`
	ToClose        percentilesView `json:"approval_to_close"`
	ToReconciled   percentilesView `json:"approval_to_reconciliation"`
	Since          sinceReport     `json:"since"`
	Provider       providerReport  `json:"provider"`
	Left           []leftView      `json:"left"`
	Archives       archivesReport  `json:"archives"`
	OpenIntents    int             `json:"open_intents"`
	Audit          auditReport     `json:"audit"`
	Sources        []sourceView    `json:"sources"`
	Solo           *string         `json:"solo,omitempty"`
	Glass          *string         `json:"break_glass,omitempty"`

	record runRecordView // the run in the words of runs list
}

// headline says in a few words how the run stands and how far it came.
func (v runReportView) headline() string {
	return v.record.loud(v.record.stateText()) + ": " + v.record.done()
}

// statementView is what a person said about the plan, and how he is known.
type statementView struct {
	Decision string    `json:"decision"`
	Person   string    `json:"person"`
	Known    string    `json:"known"`
	Reason   string    `json:"reason"`
	Solo     *string   `json:"solo"`
	At       time.Time `json:"stated_at"`
}

// sessionView is one stretch in which the run was carried out.
type sessionView struct {
	StartedAt time.Time `json:"started_at"`
	EndedAt   time.Time `json:"ended_at"`
	By        string    `json:"person"`
	Known     string    `json:"known"`
	Host      string    `json:"host"`
	Resumed   bool      `json:"resumed"`
	State     *string   `json:"state"`
}

// rollbackNote is one rollback of the run.
type rollbackNote struct {
	At     time.Time `json:"begun_at"`
	By     string    `json:"person"`
	Known  string    `json:"known"`
	Reason string    `json:"reason"`
}

// classReport is one row of the matrix of classes and outcomes.
type classReport struct {
	Class     string         `json:"class"`
	Planned   int            `json:"planned"`
	Redriven  int            `json:"redriven"`
	Settled   int            `json:"settled"`
	Discarded int            `json:"discarded"`
	Skipped   int            `json:"skipped"`
	Failed    int            `json:"failed"`
	Unknown   int            `json:"unknown"`
	Remaining int            `json:"remaining"`
	Verdicts  map[string]int `json:"verdicts"`
}

type rateReport struct {
	Asked     float64  `json:"asked_per_second"`
	Effective *float64 `json:"effective_per_second"`
	Highest   int      `json:"highest_in_one_second"`
	Publishes int      `json:"publishes"`
	Running   float64  `json:"running_seconds"`
	Idle      float64  `json:"idle_seconds"`
	Slowed    int      `json:"slowed"`
	Lowest    *float64 `json:"lowest_per_second"`
}

type preventedReport struct {
	Count int            `json:"count"`
	Jobs  []preventedJob `json:"jobs"`
}

type preventedJob struct {
	reportedJob
	Outcome string `json:"outcome"`
	Why     string `json:"why"`
}

// unknownSends names every job that may have been handed over more often than the
// outcomes on record say.
type unknownSends struct {
	Count int             `json:"count"`
	Jobs  []unknownSendOf `json:"jobs"`
}

type unknownSendOf struct {
	reportedJob
	Outcome string `json:"outcome"`
}

// reportedJob names a job of the plan.
type reportedJob struct {
	JobKey    *string `json:"job_key"`
	MessageID string  `json:"message_id"`
	CopyID    string  `json:"copy_id"`
	Class     string  `json:"class"`
}

func newReportedJob(it redrive.Item) reportedJob {
	return reportedJob{text(it.JobKey), it.MessageID, it.Copy.String(), string(it.Class)}
}

func (j reportedJob) name() string { return firstText(or(j.JobKey), j.MessageID, j.CopyID) }

// percentilesView tells how long something took, of so many.
type percentilesView struct {
	Count int      `json:"count"`
	P50   *float64 `json:"p50_seconds"`
	P95   *float64 `json:"p95_seconds"`
}

func newPercentiles(seconds []float64) percentilesView {
	v := percentilesView{Count: len(seconds)}
	if v.Count > 0 {
		v.P50, v.P95 = new(metrics.Quantile(seconds, 0.5)), new(metrics.Quantile(seconds, 0.95))
	}
	return v
}

type archivesReport struct {
	Count      int            `json:"count"`
	Actions    map[string]int `json:"actions"`
	Bytes      int64          `json:"bytes"`
	Retention  float64        `json:"retention_seconds"`
	FirstUntil *time.Time     `json:"first_kept_until"`
	LastUntil  *time.Time     `json:"last_kept_until"`
}

type auditReport struct {
	First    *string         `json:"first_seq"`
	Last     *string         `json:"last_seq"`
	Records  int             `json:"records"`
	Head     audit.Head      `json:"head"`
	OK       bool            `json:"ok"`
	Problems []audit.Problem `json:"problems"`
}

func seqText(n int64) *string {
	if n == 0 {
		return nil
	}
	return new(strconv.FormatInt(n, 10))
}

// planned fills in what the plan and the run say by themselves.
func (r *runReporter) planned(sp redrive.StoredPlan) {
	p := r.plan
	pv := newPlanView(sp.ID, p, sp.State, 0)
	r.queue = r.app.cfg.Queues[p.Queue]
	r.view = runReportView{
		Run: string(r.run.ID), Plan: pv.Plan, Queue: pv.Queue, State: string(r.run.State), Lives: r.run.Lives, AsOf: r.app.now().UTC(),
		Requester: pv.Requester, RequesterKnown: p.RequesterKnown, Reason: pv.Reason, Query: pv.Query,
		Tier: pv.Tier, TierWhy: append([]string{}, pv.TierWhy...), Lifts: pv.Lifts, Approvals: []statementView{},
		PlannedAt: pv.CreatedAt.UTC(), StartedAt: r.run.StartedAt.UTC(), EndedAt: moment(r.run.EndedAt), ExpiresAt: pv.ExpiresAt.UTC(),
		Sessions: []sessionView{}, Rollbacks: []rollbackNote{}, Gate: newGateView(r.run.Gate), Rate: rateReport{Asked: pv.Rate},
		Prevented: preventedReport{Jobs: []preventedJob{}}, UnknownSends: unknownSends{Jobs: []unknownSendOf{}},
		Provider: providerReport{Verdicts: map[string]int{}, Answers: map[string]int{}},
		Archives: archivesReport{Actions: map[string]int{}, Retention: float64(pv.Retention)}, Solo: r.app.solo(),
	}
}

// done counts what became of each item of the plan, by the log.
func (r *runReporter) done() {
	all, classes := r.account.Reports(r.run.Lives)
	r.run.Report = all
	v := &r.view
	v.Planned, v.Redriven, v.Settled, v.Discarded = all.Planned, all.Redriven, all.Settled, all.Discarded
	v.Skipped, v.Failed, v.Unknown, v.Remaining = all.Skipped, all.Failed, all.Unknown, all.Remaining
	v.ApprovedAt = moment(r.account.Approved)
	for _, b := range r.account.Rollbacks {
		v.Rollbacks = append(v.Rollbacks, rollbackNote{b.At.UTC(), b.By.Name, b.By.Known, term.Mask(b.Reason)})
	}
	v.RolledBack = r.account.TakenBack()
	v.Classes = []classReport{}
	for _, class := range slices.Sorted(maps.Keys(classes)) {
		c := classes[class]
		v.Classes = append(v.Classes, classReport{
			Class: string(class), Planned: c.Planned, Redriven: c.Redriven, Settled: c.Settled, Discarded: c.Discarded,
			Skipped: sum(c.Skipped), Failed: c.Failed, Unknown: c.Unknown, Remaining: c.Remaining, Verdicts: map[string]int{},
		})
	}
	slices.SortStableFunc(v.Classes, func(x, y classReport) int { return cmp.Compare(y.Planned, x.Planned) })
	v.Rate.Publishes, v.Rate.Highest, v.Rate.Running = r.account.Publishes, r.account.Peak, r.account.Running().Seconds()
	if v.Rate.Slowed = r.account.Slowed; r.account.Lowest > 0 {
		v.Rate.Lowest = new(r.account.Lowest)
	}
	v.Rate.Idle = r.account.Idle().Seconds()
	if busy := v.Rate.Running - v.Rate.Idle; busy > 0 {
		v.Rate.Effective = new(float64(v.Redriven) / busy)
	}
	v.record = newRunRecordView(r.run, r.app.now())
	v.Glass = v.record.Glass
	r.items()
}

// items goes through the plan once: what each item prevented or left, whether it may
// have been sent unseen, and how long it took to close.
func (r *runReporter) items() {
	var closed []float64
	for i, it := range r.plan.Items {
		state, end := r.account.Item(i), r.account.End(i, r.run.Lives)
		if state.Intent != 0 {
			r.view.OpenIntents++
		}
		if !state.ClosedAt.IsZero() {
			closed = append(closed, r.sinceApproval(state.ClosedAt))
		}
		if end.Prevented() {
			r.view.Prevented.Count++
			r.view.Prevented.Jobs = append(r.view.Prevented.Jobs, preventedJob{newReportedJob(it), end.Word(), cmp.Or(end.Reason, it.Why)})
		}
		if r.account.Unsure(i) {
			r.view.UnknownSends.Count++
			r.view.UnknownSends.Jobs = append(r.view.UnknownSends.Jobs, unknownSendOf{newReportedJob(it), end.Word()})
		}
		r.left.end(it, end, state.Intent != 0)
	}
	r.view.ToClose = newPercentiles(closed)
}

// sinceApproval is how long after its approval something of the run was; a plan
// that needed none counts from the start of its run.
func (r *runReporter) sinceApproval(at time.Time) float64 {
	from := r.account.Approved
	if from.IsZero() {
		from = r.run.StartedAt
	}
	return max(at.Sub(from), 0).Seconds()
}

func sum(counts map[string]int) (n int) {
	for _, k := range counts {
		n += k
	}
	return n
}

// maskedWord hides a secret that an application or an error wrote where a word is
// expected.
func maskedWord(s string) string { return cmp.Or(term.Mask(s), "none_told") }
