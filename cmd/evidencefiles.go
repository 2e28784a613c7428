package cmd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redrivectl/redrivectl/audit"
	"github.com/redrivectl/redrivectl/internal/job"
	"github.com/redrivectl/redrivectl/internal/ledger"
	"github.com/redrivectl/redrivectl/internal/store"
	"github.com/redrivectl/redrivectl/internal/term"
	"github.com/redrivectl/redrivectl/reconcile"
	"github.com/redrivectl/redrivectl/redrive"
)

// evidenceGatherer makes the files of a bundle from what a trace has found.
type evidenceGatherer struct {
	*tracer
	st      *store.Store // open for writing, since the export is recorded
	job     *job.Job     // a copy in a queue; nil: there is none
	files   bundle
	missing []string // what the bundle lacks, and why

	partly   bool // a source did not answer
	verified bool // the audit log is whole
}

// decisionView is what a decision rests on, as docs/json-output.md has it.
type decisionView struct {
	Action      string         `json:"action"`
	Why         string         `json:"why"`
	Needs       *string        `json:"needs"`
	Lift        *string        `json:"lift"`
	DecisionRow int            `json:"decision_row"`
	When        *string        `json:"when"` // the row in words; null: a manual hold
	Inputs      map[string]any `json:"inputs"`
	Hold        *holdView      `json:"hold"`
}

type rowView struct {
	LedgerRow     string        `json:"ledger_row"`
	State         string        `json:"state"`
	Attempt       int           `json:"attempt"`
	Run           *string       `json:"run"`
	RequestID     *string       `json:"request_id"`
	LateAccept    bool          `json:"late_accept"`
	Retryable     bool          `json:"retryable"`
	ErrorClass    *string       `json:"error_class"`
	Effect        *string       `json:"effect"`
	Reason        *string       `json:"reason"`
	ReplacedBy    *string       `json:"replaced_by"`
	Version       *string       `json:"version"`
	PayloadSHA256 *string       `json:"payload_sha256"`
	CreatedAt     *time.Time    `json:"created_at"`
	UpdatedAt     *time.Time    `json:"updated_at"`
	ClaimedAt     *time.Time    `json:"claimed_at"`
	SendDeadline  *time.Time    `json:"send_deadline"`
	SendBefore    *time.Time    `json:"send_before"`
	FencedAt      *time.Time    `json:"fenced_at"`
	Attempts      []attemptView `json:"attempts"`
	History       []eventView   `json:"history"`
}

type verdictFile struct {
	Queue    string             `json:"queue"`
	JobKey   string             `json:"job_key"`
	Attempt  int                `json:"attempt"`
	Verdict  string             `json:"verdict"`
	At       time.Time          `json:"at"`
	Digest   string             `json:"evidence_sha256"`
	Matches  bool               `json:"evidence_matches_digest"`
	Evidence reconcile.Evidence `json:"evidence"`
}

// gather makes all files. What a source does not give is noted as missing; an
// error means that the bundle cannot be made.
func (g *evidenceGatherer) gather(ctx context.Context) error {
	g.files = bundle{"README.txt": []byte(evidenceReadme)}
	steps := []func(context.Context) error{g.addJob, g.addSettings, g.addRows, g.addVerdicts, g.addAudit, g.addPlans, g.addTrace}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// add keeps a value as the program prints it: masked when its view was made, and
// harmless on a terminal.
func (g *evidenceGatherer) add(name string, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("encode %s: %w", name, err)
	}
	g.files[name] = append(term.CleanJSON(b), '\n')
	return nil
}

func (g *evidenceGatherer) lacks(what string, err error) {
	g.missing = append(g.missing, what+": "+term.Mask(err.Error()))
	g.partly = g.partly || !errors.Is(err, errNoCopy)
}

var errNoCopy = errors.New("no copy of the job is in a queue")

// addJob adds the copy as list shows it, with the decision on it.
func (g *evidenceGatherer) addJob(ctx context.Context) error {
	for _, l := range g.looks {
		for _, j := range l.jobs {
			if g.job == nil && g.is(j) {
				g.job = &j
			}
		}
	}
	if g.job == nil {
		g.lacks("job.json and decision.json", errNoCopy)
		return nil
	}
	q, err := g.app.queue(ctx, g.job.Queue)
	var as []reconcile.Assessed
	if err == nil {
		as, err = g.app.judge(q, reading{g.st}).Assess(ctx, []job.Job{*g.job}, redrive.Lifts{})
	}
	if err != nil {
		g.lacks("job.json and decision.json", err)
		return nil
	}
	return errors.Join(g.add("job.json", g.app.jobView(as[0])), g.add("decision.json", g.app.decisionView(as[0])))
}

// settingsFile says under which rules the bundle was made.
type settingsFile struct {
	ToolVersion string          `json:"tool_version"`
	Store       string          `json:"store"`
	Queues      []queueSettings `json:"queues"`
}

type queueSettings struct {
	Queue    string `json:"queue"`
	Policy   string `json:"policy"`
	Digest   string `json:"policy_sha256"`
	Settings string `json:"settings_sha256"`
}

// addSettings adds the digests in force of each queue that the job was seen in.
func (g *evidenceGatherer) addSettings(context.Context) error {
	f := settingsFile{ToolVersion: buildVersion().Version, Store: g.st.StoreID(), Queues: []queueSettings{}}
	for _, name := range g.seenIn() {
		policy, err := g.app.policyFor(name)
		if err != nil {
			g.lacks("settings.json", err)
			continue
		}
		d, err := g.app.digests(&queue{name: name, policy: policy})
		if err != nil {
			return err
		}
		f.Queues = append(f.Queues, queueSettings{name, policy.Name(), d.Policy, d.Settings})
	}
	return g.add("settings.json", f)
}

func (a *app) decisionView(x reconcile.Assessed) decisionView {
	d, in := x.Decision, x.Input
	v := decisionView{
		Action: string(d.Action), Why: d.Why, Needs: text(term.Mask(d.Needs)), Lift: text(d.Lift), DecisionRow: d.Row,
		Inputs: map[string]any{
			"disposition": in.Disposition, "outdated": in.Outdated, "effect": in.Effect, "unresolved": in.Unresolved,
			"standing": in.Standing, "mismatch": in.Mismatch, "verdict": in.Verdict, "replay_safe": in.ReplaySafe,
			"declared": in.Declared, "asking": in.Asking, "block": in.Block,
		},
	}
	for _, r := range reconcile.Rows() {
		if r.Row == d.Row {
			v.When = text(r.When)
		}
	}
	if x.Hold != nil {
		h := a.holdView(*x.Hold)
		v.Hold = &h
	}
	return v
}

func (g *evidenceGatherer) addRows(context.Context) error {
	views := []rowView{}
	for _, r := range g.rows {
		attempts, history := historyOf(r.Row)
		views = append(views, rowView{
			LedgerRow: reconcile.LedgerRowName(r.ledger, r.Key), State: string(r.State), Attempt: r.Attempt, Run: text(r.Run),
			RequestID: text(r.RequestID), LateAccept: r.LateAccept, Retryable: r.Retryable, ErrorClass: text(r.ErrorClass),
			Effect: text(r.Effect), Reason: text(term.Mask(r.Reason)), ReplacedBy: text(r.ReplacedBy), Version: text(r.Version),
			PayloadSHA256: text(r.PayloadSHA256), CreatedAt: moment(r.CreatedAt), UpdatedAt: moment(r.UpdatedAt),
			ClaimedAt: moment(r.ClaimedAt), SendDeadline: moment(r.SendDeadline), SendBefore: moment(r.SendBefore),
			FencedAt: moment(r.FencedAt), Attempts: attempts, History: history,
		})
	}
	return g.add("ledger.json", views)
}

// historyOf is a row's attempts and its events, each newest first.
func historyOf(r ledger.Row) ([]attemptView, []eventView) {
	attempts, history := []attemptView{}, []eventView{}
	for _, at := range slices.Backward(r.Attempts) {
		attempts = append(attempts, attemptView{
			Attempt: at.Number, ClaimedAt: moment(at.ClaimedAt), Deadline: moment(at.SendDeadline), RequestID: text(at.RequestID),
			ErrorClass: text(at.ErrorClass), Effect: text(at.Effect), Resolved: text(string(at.Resolution)),
		})
	}
	for _, e := range slices.Backward(r.Events) {
		history = append(history, newEventView(e))
	}
	return attempts, history
}

// addVerdicts adds each verdict with its evidence, and whether that is still what
// its digest was taken of.
func (g *evidenceGatherer) addVerdicts(ctx context.Context) error {
	fs, err := g.st.VerdictsOn(ctx, g.key())
	if err != nil {
		g.lacks("verdicts.json", err)
		return nil
	}
	views := []verdictFile{}
	for _, f := range fs {
		sum, err := f.Evidence.Digest()
		if err != nil {
			return err
		}
		views = append(views, verdictFile{
			Queue: f.Queue, JobKey: f.JobKey, Attempt: f.Attempt, Verdict: string(f.Verdict), At: f.At.UTC(),
			Digest: f.EvidenceSHA256, Matches: sum == f.EvidenceSHA256, Evidence: f.Evidence,
		})
	}
	return g.add("verdicts.json", views)
}

// addAudit adds the job's records as an export has them, each with its number and
// hash in the chain, and what verifying the whole log said.
func (g *evidenceGatherer) addAudit(ctx context.Context) error {
	var out bytes.Buffer
	for _, n := range g.asked() {
		err := g.st.FindAudit(ctx, auditQuery(n), func(e audit.Entry) error {
			canonical, err := e.Record.Canonical()
			if err == nil {
				_, err = fmt.Fprintf(&out, "{\"hash\":%q,\"record\":%s}\n", e.Hash, canonical)
			}
			return err
		})
		if err != nil {
			g.lacks("audit.jsonl", err)
		}
	}
	g.files["audit.jsonl"] = out.Bytes()
	report, err := g.st.VerifyAudit(ctx)
	if err != nil {
		return err
	}
	g.verified = report.OK
	return g.add("audit-verify.json", report)
}

// addPlans adds each plan in the bytes that its ID is the hash of, and who
// approved it.
func (g *evidenceGatherer) addPlans(ctx context.Context) error {
	for _, n := range g.asked() {
		ps, err := g.st.PlansWith(ctx, n)
		if err != nil {
			g.lacks("plans", err)
			return nil
		}
		for _, p := range ps {
			g.files["plans/"+string(p.ID)+".json"] = p.Bytes
			as, err := g.st.Approvals(ctx, p.ID)
			if err != nil {
				g.lacks("approvals of plan "+string(p.ID), err)
				continue
			}
			if err := g.add("plans/"+string(p.ID)+".approvals.json", as); err != nil {
				return err
			}
		}
	}
	return nil
}

// addTrace adds the time line, and names the sources that did not answer.
func (g *evidenceGatherer) addTrace(context.Context) error {
	for _, s := range g.sources {
		if s.silent() {
			g.missing, g.partly = append(g.missing, s.Source+": "+or(s.Why)), true
		}
	}
	return g.add("trace.json", g.view())
}

const evidenceReadme = `What redrivectl knew of one job when this was written. Check that nothing was
changed since, in this folder:

    sha256sum -c MANIFEST

The digest of MANIFEST itself stands in the audit log, in the record of this
export (redrivectl audit find --action evidence).

job.json           the copy in the dead-letter queue, as list shows it
decision.json      what may be done with it, the row of the decision table that
                   said so, and what went in
settings.json      digests of policy and settings, version of redrivectl
ledger.json        the application's record with its history
verdicts.json      what the provider's records proved, with the evidence
trace.json         all of it on one time line, with the sources that were asked
audit.jsonl        the job's audit records, each with its hash in the chain;
                   texts as they were hashed, so do not print it on a terminal
audit-verify.json  what verifying the whole log said
plans/ID.json      each plan that had the job; the SHA-256 of its bytes is its ID
payload.bin        the job's payload, where that was asked for
`
