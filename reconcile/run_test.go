package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/redrivectl/redrivectl/audit"
	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/classify"
	"github.com/redrivectl/redrivectl/internal/job"
	"github.com/redrivectl/redrivectl/internal/ledger"
	"github.com/redrivectl/redrivectl/internal/ledger/sqlledger"
	"github.com/redrivectl/redrivectl/internal/provider"
	"github.com/redrivectl/redrivectl/internal/provider/httpcontract"
	"github.com/redrivectl/redrivectl/internal/provider/providertest"
	"github.com/redrivectl/redrivectl/reconcile"
)

const (
	life     = 30 * time.Second
	delay    = time.Minute
	pause    = 10 * time.Second
	margin   = time.Second
	wait     = 20 * time.Second
	consumer = "mailer"
)

type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// memoryLog keeps records; it fails from the append that failAt counts to.
type memoryLog struct {
	records []audit.Record
	appends int
	failAt  int
}

func (l *memoryLog) Append(_ context.Context, rs ...audit.Record) (audit.Head, error) {
	l.appends++
	if l.failAt > 0 && l.appends >= l.failAt {
		return audit.Head{}, fmt.Errorf("disk full: %w", audit.ErrNotWritable)
	}
	l.records = append(l.records, rs...)
	return audit.Head{Seq: int64(len(l.records))}, nil
}

// open are the intents without an outcome, as the store would list them.
func (l *memoryLog) open(context.Context, string) ([]audit.Record, error) {
	open := map[string]audit.Record{}
	for _, r := range l.records {
		if r.Phase == audit.Intent {
			open[r.Action+r.JobKey] = r
		} else {
			delete(open, r.Action+r.JobKey)
		}
	}
	var rs []audit.Record
	for _, r := range open {
		rs = append(rs, r)
	}
	return rs, nil
}

type memoryStore struct {
	verdicts map[string]reconcile.Found
	seen     map[ledger.Key]reconcile.SeenRow
	holds    map[reconcile.HoldID]reconcile.ManualHold
	tried    map[string]bool
	holdsErr error
}

func (m *memoryStore) SaveVerdicts(_ context.Context, fs ...reconcile.Found) error {
	for _, f := range fs {
		m.verdicts[f.JobKey] = f
	}
	return nil
}

func (m *memoryStore) LatestVerdicts(_ context.Context, _ string, keys []string) (map[string]reconcile.Found, error) {
	fs := map[string]reconcile.Found{}
	for _, k := range keys {
		if f, ok := m.verdicts[k]; ok {
			fs[k] = f
		}
	}
	return fs, nil
}

func (m *memoryStore) Remember(_ context.Context, _ string, rows []ledger.Row) error {
	for _, r := range rows {
		m.seen[r.Key] = reconcile.SeenRow{State: r.State, Attempt: r.Attempt, UpdatedAt: r.UpdatedAt}
	}
	return nil
}

func (m *memoryStore) HoldsOf(context.Context, []reconcile.HoldID) (map[reconcile.HoldID]reconcile.ManualHold, error) {
	return m.holds, m.holdsErr
}

func (m *memoryStore) Seen(_ context.Context, _ string, _ []ledger.Key) (map[ledger.Key]reconcile.SeenRow, error) {
	return m.seen, nil
}

func (m *memoryStore) TriedBefore(context.Context, []string) (map[string]bool, error) {
	return m.tried, nil
}

// byType is a policy of two lines: what the failure is called is its class.
type byType struct{}

func (byType) Of(c classify.Class, rule string) classify.Result {
	return classify.Result{Class: c, Rule: rule, Disposition: classify.Discard, Effect: classify.EffectNone}
}

func (byType) Classify(j job.Job, _ time.Time) classify.Result {
	r := classify.Result{Class: classify.Class(j.Failure.Type), Effect: classify.EffectUnknown, Disposition: classify.Retry}
	if r.Class == classify.Throttled {
		r.Effect = classify.EffectNone
	}
	return r
}

// world is a ledger, a provider and the reconciler between them, on one clock.
type world struct {
	*clock
	t        *testing.T
	ledger   *sqlledger.Ledger
	path     string
	provider *providertest.Server
	contract httpcontract.Config
	log      *memoryLog
	store    *memoryStore
	r        *reconcile.Reconciler
	jobs     []job.Job
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, clock: &clock{now: time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)}, log: &memoryLog{}}
	w.store = &memoryStore{verdicts: map[string]reconcile.Found{}, seen: map[ledger.Key]reconcile.SeenRow{}}
	w.path = filepath.Join(t.TempDir(), "ledger.db")
	w.ledger = w.open(sqlledger.Config{Path: w.path, Create: true, Now: w.Now})
	if err := w.ledger.Init(t.Context()); err != nil {
		t.Fatal(err)
	}
	var err error
	if w.provider, err = providertest.New(providertest.Config{Now: w.Now}); err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(w.provider)
	t.Cleanup(srv.Close)
	w.contract = httpcontract.Config{
		Name: "mail", BaseURL: srv.URL, Now: w.Now, Lookup: &httpcontract.Lookup{
			Path: "/messages?op_id={job_key}", Found: "size(body.items) > 0", NotFound: "size(body.items) == 0",
			Accepted: `item.status != "rejected"`, Bind: "item.op_id", Delay: delay, LookBack: 30 * 24 * time.Hour,
		},
		Proves: []provider.Proof{provider.ProvesAccepted, provider.ProvesNotAccepted, provider.ProvesRejected},
	}
	client, err := httpcontract.New(w.contract)
	if err != nil {
		t.Fatal(err)
	}
	w.r = &reconcile.Reconciler{
		Ledger: w.ledger, Provider: client, Log: w.log, Verdicts: w.store, Memory: w.store, Holds: w.store, Policy: byType{},
		RunLives: func(context.Context, string) (bool, error) { return false, nil },
		Settings: reconcile.Settings{
			Queue: "digests", Consumer: consumer, LedgerName: "app", ClaimLife: life, MaxPause: pause,
			ClockMargin: margin, SecondLookAfter: wait,
		},
		Now:   w.Now,
		Sleep: func(_ context.Context, d time.Duration) error { w.Advance(d); return nil },
		Open:  w.log.open,
	}
	return w
}

func (w *world) open(cfg sqlledger.Config) *sqlledger.Ledger {
	w.t.Helper()
	l, err := sqlledger.Open(w.t.Context(), cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = l.Close() })
	return l
}

func key(k string) ledger.Key { return ledger.Key{JobKey: k, Consumer: consumer} }

func (w *world) row(k string) ledger.Row {
	w.t.Helper()
	r, ok, err := w.ledger.History(w.t.Context(), key(k))
	if err != nil || !ok {
		w.t.Fatalf("row %s: %v, %v", k, ok, err)
	}
	r.Events = nil
	return r
}

func (w *world) apply(c ledger.Change) {
	w.t.Helper()
	c.Actor = "worker"
	if r := w.ledger.Apply(w.t.Context(), []ledger.Change{c})[0]; r.Outcome != ledger.Won {
		w.t.Fatalf("%+v: %+v", c, r)
	}
}

func (w *world) claim(k string) {
	w.t.Helper()
	if err := w.ledger.Insert(w.t.Context(), ledger.NewRow{Key: key(k), Region: "eu", Actor: "app"}); err != nil {
		w.t.Fatal(err)
	}
	w.apply(ledger.Change{Key: key(k), From: ledger.Queued, FromAttempt: 1, To: ledger.Sending, Attempt: 1, ClaimLife: life})
}

// send sends as a worker does, whatever the answer.
func (w *world) send(k string, fs ...providertest.Fault) {
	w.t.Helper()
	for i := range fs {
		fs[i].OpID, fs[i].On, fs[i].Times = k, providertest.OnSend, 1
	}
	w.provider.Set(fs...)
	rec := httptest.NewRecorder()
	defer func() { _ = recover() }() // the provider hangs up
	w.provider.ServeHTTP(rec, httptest.NewRequest(http.MethodPost, "/messages", strings.NewReader(`{"op_id":"`+k+`","region":"eu"}`)))
}

// dies claims a job whose worker dies, and puts its copy into the queue.
func (w *world) dies(k string) {
	w.t.Helper()
	w.claim(k)
	w.dead(k, classify.Timeout)
}

func (w *world) dead(k string, c classify.Class) {
	w.jobs = append(w.jobs, job.Job{
		JobKey: k, Redrivable: true, Failure: job.Failure{Type: string(c), At: w.Now()},
		Message: broker.Message{MessageID: "m-" + k, Receives: 3, SentAt: w.Now()},
	})
}

// succeeds is a later send that the ledger knows was accepted.
func (w *world) succeeds(k string) {
	w.t.Helper()
	w.claim(k)
	w.send(k)
	w.apply(ledger.Change{Key: key(k), From: ledger.Sending, FromAttempt: 1, To: ledger.Sent, Attempt: 1})
}

func (w *world) run(apply bool) reconcile.Summary {
	w.t.Helper()
	sum, err := w.r.Run(w.t.Context(), reconcile.Request{Jobs: w.jobs, BrowseComplete: true, Apply: apply}, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	return sum
}

// settled lets the deadline pass, sends a control, and lets the delay pass.
func (w *world) settled() {
	w.t.Helper()
	w.Advance(life + time.Second)
	w.succeeds("control")
	w.Advance(delay + pause + 2*margin)
}

type line struct {
	Verdict reconcile.Verdict
	Action  reconcile.Action
	Why     string
	State   ledger.State
}

func (w *world) lines(sum reconcile.Summary) map[string]line {
	ls := map[string]line{}
	for _, e := range sum.Jobs {
		ls[e.JobKey] = line{e.Verdict, e.Action, e.Why, w.row(e.JobKey).State}
	}
	return ls
}

func (w *world) want(sum reconcile.Summary, want map[string]line) {
	w.t.Helper()
	if diff := cmp.Diff(want, w.lines(sum)); diff != "" {
		w.t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestRunMovesRowsByWhatIsProven(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.dies("sent")
	w.send("sent", providertest.Fault{Kind: providertest.AcceptThenHangUp})
	w.dies("unsent")
	w.dies("refused")
	w.send("refused", providertest.Fault{Kind: providertest.Refuse, Status: 422, Recorded: true})
	w.settled()
	w.want(w.run(true), map[string]line{
		"sent":    {reconcile.Accepted, reconcile.Settle, "already_sent", ledger.Reconciled},
		"unsent":  {reconcile.NotAccepted, reconcile.Redrive, "no_effect", ledger.Failed},
		"refused": {reconcile.Rejected, reconcile.Hold, "needs_fix", ledger.Failed},
	})
	if open, _ := w.log.open(t.Context(), ""); len(open) != 0 {
		t.Errorf("open intents: %+v", open)
	}
	if got := w.row("sent").RequestID; got == "" {
		t.Error("row has no request ID of the record that proved it")
	}
	f := w.store.verdicts["unsent"]
	if digest, err := f.Evidence.Digest(); err != nil || digest != f.EvidenceSHA256 || len(f.Evidence.Looks) != 2 || f.Evidence.Control != "control" {
		t.Errorf("evidence: %+v, %v", f, err)
	}
	w.want(w.run(true), map[string]line{})
}

// TestRunTakesNoRecordOfAnEarlierAttemptForTheLast: a refusal that the ledger
// has accounted for says nothing of an attempt that came after it.
func TestRunTakesNoRecordOfAnEarlierAttemptForTheLast(t *testing.T) {
	t.Parallel()
	for _, resolved := range []string{"worker", "verdict"} {
		t.Run("by "+resolved, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.claim("j")
			w.send("j", providertest.Fault{Kind: providertest.Refuse, Status: 422, Recorded: true})
			w.dead("j", classify.Timeout)
			if resolved == "worker" {
				w.apply(ledger.Change{
					Key: key("j"), From: ledger.Sending, FromAttempt: 1, To: ledger.Failed,
					ErrorClass: "rejected_payload", Effect: ledger.EffectNone, Resolve: ledger.ByWorker,
				})
			} else {
				w.settled()
				w.want(w.run(true), map[string]line{"j": {reconcile.Rejected, reconcile.Hold, "needs_fix", ledger.Failed}})
			}
			w.apply(ledger.Change{Key: key("j"), From: ledger.Failed, FromAttempt: 1, To: ledger.Queued, Run: "r"})
			w.apply(ledger.Change{Key: key("j"), From: ledger.Queued, FromAttempt: 2, FromRun: "r", To: ledger.Sending, ClaimLife: life})
			w.send("j", providertest.Fault{Kind: providertest.Late, For: life + delay/2})
			w.Advance(life)
			w.want(w.run(true), map[string]line{"j": {reconcile.TooEarly, reconcile.Hold, "too_early", ledger.Fenced}})
			w.succeeds("after")
			w.Advance(delay + pause + 2*margin)
			w.want(w.run(true), map[string]line{"j": {reconcile.Accepted, reconcile.Settle, "already_sent", ledger.Reconciled}})
		})
	}
}

// TestVerdictEndsWithTheNextClaim: a row that a dead run left queued is claimed
// at the same attempt, and what was found before says nothing of that claim.
func TestVerdictEndsWithTheNextClaim(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.dies("j")
	w.Advance(life)
	w.apply(ledger.Change{Key: key("j"), From: ledger.Sending, FromAttempt: 1, To: ledger.Fenced})
	w.apply(ledger.Change{Key: key("j"), From: ledger.Fenced, FromAttempt: 1, To: ledger.Queued, Run: "dead"})
	w.settled()
	w.want(w.run(false), map[string]line{"j": {reconcile.ProvisionalNo, reconcile.Hold, "provisional_no", ledger.Queued}})
	w.apply(ledger.Change{Key: key("j"), From: ledger.Queued, FromAttempt: 2, FromRun: "dead", To: ledger.Sending, ClaimLife: life})
	w.send("j")
	w.Advance(life)
	as, err := w.r.Assess(t.Context(), w.jobs)
	if err != nil {
		t.Fatal(err)
	}
	if d := as[0].With(reconcile.Lifts{AcceptProvisional: true}, reconcile.NotDeclared); d.Action != reconcile.Hold {
		t.Errorf("decided %+v by %+v", d, as[0].Verdict)
	}
}

func TestRunWithoutApplyChangesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.dies("sent")
	w.send("sent")
	w.dies("unsent")
	w.settled()
	before := []ledger.Row{w.row("sent"), w.row("unsent")}
	want := map[string]line{
		"sent":   {reconcile.Accepted, reconcile.Settle, "accepted", ledger.Sending},
		"unsent": {reconcile.ProvisionalNo, reconcile.Hold, "provisional_no", ledger.Sending},
	}
	w.want(w.run(false), want)
	w.r.Ledger = w.open(sqlledger.Config{Path: w.path, Mode: sqlledger.Read, Now: w.Now})
	sum := w.run(true)
	w.want(sum, want)
	if sum.Applied || len(w.log.records) != 0 {
		t.Errorf("applied %v, records %+v", sum.Applied, w.log.records)
	}
	if diff := cmp.Diff(before, []ledger.Row{w.row("sent"), w.row("unsent")}); diff != "" {
		t.Errorf("ledger changed (-before +after)\n%s", diff)
	}
}

func TestRunHoldsWhatIsNotProven(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		set  func(*world)
		want line
	}{
		{"in flight", func(*world) {}, line{"", "", "", ""}},
		{
			"inside the delay", func(w *world) { w.Advance(life); w.succeeds("control") },
			line{reconcile.TooEarly, reconcile.Hold, "too_early", ledger.Fenced},
		},
		{
			"no later send", func(w *world) { w.Advance(life + delay + pause + margin) },
			line{reconcile.ProvisionalNo, reconcile.Hold, "provisional_no", ledger.Fenced},
		},
		{"later send of another region", func(w *world) {
			w.Advance(life)
			if err := w.ledger.Insert(w.t.Context(), ledger.NewRow{Key: key("us"), Region: "us"}); err != nil {
				w.t.Fatal(err)
			}
			w.apply(ledger.Change{Key: key("us"), From: ledger.Queued, FromAttempt: 1, To: ledger.Sending, ClaimLife: life})
			w.send("us")
			w.apply(ledger.Change{Key: key("us"), From: ledger.Sending, FromAttempt: 1, To: ledger.Sent})
			w.Advance(delay + pause + margin)
		}, line{reconcile.ProvisionalNo, reconcile.Hold, "provisional_no", ledger.Fenced}},
		{"records that stopped before the later send", func(w *world) {
			w.settled()
			w.provider.Set(providertest.Fault{On: providertest.OnLookup, Kind: providertest.Empty})
		}, line{reconcile.ProvisionalNo, reconcile.Hold, "provisional_no", ledger.Fenced}},
		{"add-on missing", func(w *world) {
			w.settled()
			w.provider.Set(providertest.Fault{On: providertest.OnLookup, Kind: providertest.Forbidden})
		}, line{reconcile.Unavailable, reconcile.Hold, "unavailable", ledger.Fenced}},
		{"second look fails", func(w *world) {
			w.settled()
			w.provider.Set(providertest.Fault{OpID: "j", On: providertest.OnLookup, Kind: "none", Times: 1},
				providertest.Fault{OpID: "j", On: providertest.OnLookup, Kind: providertest.Malformed})
		}, line{reconcile.Unavailable, reconcile.Hold, "unavailable", ledger.Fenced}},
		{
			"outside the look-back", func(w *world) { w.Advance(30 * 24 * time.Hour); w.succeeds("control"); w.Advance(2 * delay) },
			line{reconcile.TooOld, reconcile.Hold, "too_old", ledger.Fenced},
		},
		{"shown between the looks", func(w *world) {
			w.send("j", providertest.Fault{Kind: providertest.Late, For: life + delay + pause + 3*margin + wait/2})
			w.settled()
		}, line{reconcile.Accepted, reconcile.Settle, "already_sent", ledger.Reconciled}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.dies("j")
			tt.set(w)
			if got := w.lines(w.run(true))["j"]; got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}

func TestRunCompletesOnceTheDelayHasPassed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.dies("j")
	w.Advance(life + time.Second)
	w.succeeds("control")
	sum := w.run(true)
	fencedAt := w.row("j").FencedAt
	if until := sum.Jobs[0].Until; until == nil || !strings.Contains(sum.Jobs[0].Needs, until.Format(time.RFC3339)) {
		t.Fatalf("no time is named: %+v", sum.Jobs[0])
	}
	w.Advance(sum.Jobs[0].Until.Sub(w.Now()))
	w.want(w.run(true), map[string]line{"j": {reconcile.NotAccepted, reconcile.Redrive, "no_effect", ledger.Failed}})
	if got := w.row("j").FencedAt; !got.Equal(fencedAt) {
		t.Errorf("fence was renewed: %s, first %s", got, fencedAt)
	}
}

func TestRunFindsOrphans(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.claim("sent")
	w.send("sent")
	w.claim("unsent")
	w.settled()
	w.claim("running")
	sum := w.run(true)
	w.want(sum, map[string]line{
		"sent":   {reconcile.Accepted, reconcile.Settle, "accepted", ledger.Reconciled},
		"unsent": {reconcile.NotAccepted, reconcile.Hold, "not_accepted", ledger.Failed},
	})
	if sum.Orphans != 2 || !sum.OrphansExact {
		t.Errorf("orphans %d, exact %v", sum.Orphans, sum.OrphansExact)
	}
	for _, e := range sum.Jobs {
		if e.JobKey == "unsent" && !strings.Contains(e.Needs, "publish the job again") {
			t.Errorf("needs %q", e.Needs)
		}
	}
}

// TestRunLeavesRowsOfAnotherQueueAlone: its provider was asked for their effect,
// so that ours knows nothing of it proves nothing.
func TestRunLeavesRowsOfAnotherQueueAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.r.Settings.SharedRows = true
	w.dies("ours")
	w.claim("theirs")
	w.settled()
	sum := w.run(true)
	w.want(sum, map[string]line{"ours": {reconcile.NotAccepted, reconcile.Redrive, "no_effect", ledger.Failed}})
	if got := w.row("theirs").State; got != ledger.Sending || sum.Orphans != 0 || sum.OrphansExact {
		t.Errorf("row is %s, %d orphans, exact %v", got, sum.Orphans, sum.OrphansExact)
	}
}

// TestRunBelievesNoRecordTwice: a provider that ignores the question shows every
// job the same records, and none of them is known to be its own.
func TestRunBelievesNoRecordTwice(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	contract := w.contract
	contract.Lookup.Path, contract.Lookup.Bind = "/messages?typo={job_key}", ""
	client, err := httpcontract.New(contract)
	if err != nil {
		t.Fatal(err)
	}
	w.r.Provider = client
	w.dies("sent")
	w.send("sent")
	w.dies("unsent")
	w.settled()
	w.want(w.run(true), map[string]line{
		"sent":   {reconcile.Ambiguous, reconcile.Hold, "ambiguous", ledger.Fenced},
		"unsent": {reconcile.Ambiguous, reconcile.Hold, "ambiguous", ledger.Fenced},
	})
}

func TestRunSettlesALateAcceptance(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.dies("j")
	w.settled()
	// The worker wakes between the fence and the verdict.
	w.r.Sleep = func(_ context.Context, d time.Duration) error {
		w.Advance(d)
		w.apply(ledger.Change{Key: key("j"), FromAttempt: 1, LateAccept: true, RequestID: "late"})
		return nil
	}
	got := w.lines(w.run(true))["j"]
	if got.Action != reconcile.Settle || got.Why != "already_sent" {
		t.Errorf("got %+v", got)
	}
}

// TestRunStopsWithoutALog lets each append fail in turn: nothing may start
// after it, and a later run completes.
func TestRunStopsWithoutALog(t *testing.T) {
	t.Parallel()
	const appends = 4 // intent and outcome of the fence, and of the move
	for n := 1; n <= appends; n++ {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.dies("j")
			w.settled()
			w.log.failAt = n
			_, err := w.r.Run(t.Context(), reconcile.Request{Jobs: w.jobs, BrowseComplete: true, Apply: true}, nil)
			if !errors.Is(err, audit.ErrNotWritable) {
				t.Fatalf("got %v", err)
			}
			states := []ledger.State{ledger.Sending, ledger.Fenced, ledger.Fenced, ledger.Failed}
			if got := w.row("j").State; got != states[n-1] {
				t.Errorf("row is %s, want %s", got, states[n-1])
			}
			w.log.failAt = 0
			w.run(true)
			if got := w.row("j"); got.State != ledger.Failed || got.Attempts[0].Resolution != ledger.ByVerdict {
				t.Errorf("not completed: %+v", got)
			}
			if open, _ := w.log.open(t.Context(), ""); len(open) != 0 {
				t.Errorf("open intents: %+v", open)
			}
		})
	}
}

func TestRunStopsAskingAProviderThatIsDown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i := range 50 {
		w.dies(fmt.Sprint("j", i))
	}
	w.settled()
	asked := 0
	client := w.r.Provider
	w.r.Provider = countingProvider{client, &asked}
	w.provider.Set(providertest.Fault{On: providertest.OnLookup, Kind: providertest.Unavailable})
	sum := w.run(true)
	if asked != 20 || sum.Verdicts[reconcile.Unavailable] != 50 {
		t.Errorf("asked %d times, verdicts %v", asked, sum.Verdicts)
	}
	w.provider.Clear()
	asked = 0
	sum = w.run(true)
	if asked != 50+1+50 || sum.Verdicts[reconcile.NotAccepted] != 50 {
		t.Errorf("asked %d times (two looks each, one control), verdicts %v", asked, sum.Verdicts)
	}
}

type countingProvider struct {
	provider.Provider
	n *int
}

func (p countingProvider) Lookup(ctx context.Context, ss []provider.Send) []provider.Answer {
	*p.n += len(ss)
	return p.Provider.Lookup(ctx, ss)
}

func TestRunCutShortSavesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.dies("j")
	w.settled()
	ctx, cancel := context.WithCancel(t.Context())
	w.r.Sleep = func(context.Context, time.Duration) error { cancel(); return context.Canceled }
	sum, err := w.r.Run(ctx, reconcile.Request{Jobs: w.jobs, BrowseComplete: true, Apply: true}, nil)
	if !errors.Is(err, context.Canceled) || len(w.store.verdicts) != 0 {
		t.Errorf("error %v, verdicts %+v", err, w.store.verdicts)
	}
	w.want(sum, map[string]line{"j": {reconcile.None, reconcile.Hold, "effect_unknown", ledger.Fenced}})
}

func TestAssessHoldsWhatTheStoreKnowsBetter(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.claim("older")
	w.apply(ledger.Change{
		Key: key("older"), From: ledger.Sending, FromAttempt: 1, To: ledger.Failed,
		ErrorClass: "throttled", Effect: "none", Resolve: ledger.ByWorker, Retryable: true,
	})
	w.dead("older", classify.Throttled)
	w.dead("missing", classify.Throttled)
	why := func() map[string]string {
		as, err := w.r.Assess(t.Context(), w.jobs)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		for _, a := range as {
			got[a.Job.JobKey] = a.Decision.Why
		}
		return got
	}
	if diff := cmp.Diff(map[string]string{"older": "no_effect", "missing": "ledger_missing"}, why()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	seen := w.store.seen[key("older")]
	seen.UpdatedAt = seen.UpdatedAt.Add(time.Second)
	w.store.seen[key("older")] = seen
	if got := why()["older"]; got != "ledger_older" {
		t.Errorf("a row older than the store's knowledge: %s", got)
	}
}
