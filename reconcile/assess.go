package reconcile

import (
	"context"
	"fmt"
	"time"

	"github.com/redrivectl/redrivectl/internal/classify"
	"github.com/redrivectl/redrivectl/internal/job"
	"github.com/redrivectl/redrivectl/internal/ledger"
	"github.com/redrivectl/redrivectl/internal/provider"
)

// view is what ledger and store say of a set of jobs at one moment.
type view struct {
	now      time.Time // the ledger's clock; ours where it does not answer
	rows     map[ledger.Key]ledger.Lookup
	seen     map[ledger.Key]SeenRow
	verdicts map[string]Found
	holds    map[HoldID]ManualHold
	tried    map[string]bool // payloads of which a queue has forgotten tries
	lives    map[string]bool
	replaced map[string]bool // job keys of replacements that were sent
}

// Assess says of each job, in order, what is known of it and what may be done.
// It changes nothing but the store's memory of rows. Its error means that the
// store failed; a ledger that fails holds the jobs instead.
func (r *Reconciler) Assess(ctx context.Context, jobs []job.Job) ([]Assessed, error) {
	v, err := r.view(ctx, jobKeys(jobs))
	if err != nil {
		return nil, err
	}
	if v.holds, err = r.readHolds(ctx, jobs); err != nil {
		return nil, err
	}
	if v.tried, err = r.Memory.TriedBefore(ctx, payloads(jobs)); err != nil {
		return nil, fmt.Errorf("read what was tried before: %w", err)
	}
	as := make([]Assessed, len(jobs))
	for i, j := range jobs {
		as[i] = r.assess(v, j)
	}
	return as, nil
}

func payloads(jobs []job.Job) []string {
	hashes := make([]string, len(jobs))
	for i, j := range jobs {
		hashes[i] = j.PayloadSHA256
	}
	return hashes
}

func jobKeys(jobs []job.Job) []string {
	var keys []string
	seen := map[string]bool{"": true}
	for _, j := range jobs {
		if !seen[j.JobKey] {
			seen[j.JobKey] = true
			keys = append(keys, j.JobKey)
		}
	}
	return keys
}

func (r *Reconciler) key(jobKey string) ledger.Key {
	return ledger.Key{JobKey: jobKey, Consumer: r.Settings.Consumer}
}

func (r *Reconciler) view(ctx context.Context, jobKeys []string) (*view, error) {
	v := &view{now: r.Now(), rows: map[ledger.Key]ledger.Lookup{}, lives: map[string]bool{}, replaced: map[string]bool{}}
	queue := make([]ledger.Key, len(jobKeys))
	for i, k := range jobKeys {
		queue[i] = r.key(k)
	}
	if r.Ledger != nil {
		r.readRows(ctx, v, queue)
	}
	if err := r.readStore(ctx, v, queue, jobKeys); err != nil {
		return nil, err
	}
	return v, r.readRuns(ctx, v)
}

// readRows asks for all rows at once, and for the replacements of those that
// were replaced.
func (r *Reconciler) readRows(ctx context.Context, v *view, keys []ledger.Key) {
	now, err := r.Ledger.Now(ctx)
	if err == nil {
		v.now = now
	}
	for i, lk := range r.Ledger.Get(ctx, keys) {
		if err != nil && lk.Found == ledger.Present {
			lk = ledger.Lookup{Found: ledger.Unreadable, Err: fmt.Errorf("read the ledger's clock: %w", err)}
		}
		v.rows[keys[i]] = lk
	}
	var replacements []ledger.Key
	for _, lk := range v.rows {
		if lk.Found == ledger.Present && lk.Row.State == ledger.Replaced && lk.Row.ReplacedBy != "" {
			replacements = append(replacements, r.key(lk.Row.ReplacedBy))
		}
	}
	if len(replacements) == 0 {
		return
	}
	for i, lk := range r.Ledger.Get(ctx, replacements) {
		sent := lk.Found == ledger.Present && (lk.Row.State.Committed() || lk.Row.LateAccept)
		v.replaced[replacements[i].JobKey] = sent
	}
}

// readStore reads what the store knows, and then teaches it what was seen.
func (r *Reconciler) readStore(ctx context.Context, v *view, keys []ledger.Key, jobKeys []string) error {
	if len(keys) == 0 {
		return nil
	}
	var err error
	if v.verdicts, err = r.Verdicts.LatestVerdicts(ctx, r.Settings.Queue, jobKeys); err != nil {
		return fmt.Errorf("read verdicts: %w", err)
	}
	if r.Ledger == nil {
		return nil
	}
	if v.seen, err = r.Memory.Seen(ctx, r.Settings.LedgerName, keys); err != nil {
		return fmt.Errorf("read what was seen of the ledger: %w", err)
	}
	var rows []ledger.Row
	for k, lk := range v.rows {
		if s, ok := v.seen[k]; lk.Found == ledger.Present && (!ok || s.teaches(lk.Row)) {
			row := lk.Row
			row.Key = k
			rows = append(rows, row)
		}
	}
	if len(rows) == 0 {
		return nil
	}
	if err := r.Memory.Remember(ctx, r.Settings.LedgerName, rows); err != nil {
		return fmt.Errorf("remember ledger rows: %w", err)
	}
	return nil
}

// readRuns asks once for every run that has queued a row.
func (r *Reconciler) readRuns(ctx context.Context, v *view) error {
	for _, lk := range v.rows {
		run := lk.Row.Run
		if _, known := v.lives[run]; known || run == "" || lk.Row.State != ledger.Queued {
			continue
		}
		lives, err := r.RunLives(ctx, run)
		if err != nil {
			return fmt.Errorf("read run %s: %w", run, err)
		}
		v.lives[run] = lives
	}
	return nil
}

func (r *Reconciler) assess(v *view, j job.Job) Assessed {
	a := Assessed{Job: j, Class: r.Policy.Classify(j, r.Now())}
	if r.Ledger != nil && j.JobKey != "" {
		lk := v.rows[r.key(j.JobKey)]
		a.Row = &lk
	}
	if f, ok := v.verdicts[j.JobKey]; ok && j.JobKey != "" && stillAbout(f, a.Row, j) {
		a.Verdict = &f
	}
	if h, ok := v.holds[HoldIDOf(j)]; ok {
		a.Hold = &h
	}
	if CrossesRegion(r.Settings.Region, j.Region) {
		a.BoundTo = r.Settings.Region
	}
	r.markStale(&a)
	a.Input = r.input(v, a)
	a.Effect = a.Input.Effect
	a.Decision = a.With(Lifts{}, NotDeclared)
	return a
}

// markStale gives a job whose newer version was sent the class for that, as the
// policy has it. What its own failure proves of the effect stays as it is.
func (r *Reconciler) markStale(a *Assessed) {
	row := a.present()
	if row == nil || !row.NewerSent || a.Class.Class == classify.Stale {
		return
	}
	effect := a.Class.Effect
	a.Class = r.Policy.Of(classify.Stale, "newer_sent")
	a.Class.Class, a.Class.Disposition, a.Class.Effect = classify.Stale, classify.Discard, effect
}

func (a Assessed) present() *ledger.Row {
	if a.Row == nil || a.Row.Found != ledger.Present {
		return nil
	}
	return &a.Row.Row
}

func (r *Reconciler) input(v *view, a Assessed) Input {
	in := Input{
		Disposition: a.Class.Disposition,
		Outdated:    a.Class.Class == classify.Stale || a.Class.Class == classify.Expired,
		Standing:    r.standing(v, a),
		Declared:    r.Settings.Declared,
		Mismatch:    mismatch(a.Job, a.present()),
		Asking:      r.asking(a.Job.JobKey),
	}
	in.Effect, in.Unresolved = r.effect(v, a, in.Standing)
	if a.Verdict != nil {
		in.Verdict = a.Verdict.Verdict
	}
	if row := a.present(); row != nil && r.Provider != nil {
		in.ReplaySafe = r.replaySafe(*row, a.Job.PayloadSHA256, v.now)
	}
	in.Block = r.block(a)
	return in
}

func (r *Reconciler) asking(jobKey string) Asking {
	switch {
	case r.Provider == nil:
		return NoProvider
	case jobKey == "":
		return NoJobKey
	default:
		return CanAsk
	}
}

func (r *Reconciler) standing(v *view, a Assessed) Standing {
	in := StandingInput{
		Row: a.Row, Now: v.now, ClaimLife: r.Settings.ClaimLife, JobAt: a.Job.Message.SentAt,
		SharedOrigin: r.Settings.SharedOrigin,
	}
	if a.Row == nil {
		return NoLedger
	}
	in.Capabilities = r.Ledger.Capabilities()
	in.RunLives = v.lives[a.Row.Row.Run]
	in.ReplacementSent = v.replaced[a.Row.Row.ReplacedBy]
	if s, ok := v.seen[r.key(a.Job.JobKey)]; ok {
		in.Seen = &s
	}
	return StandingOf(in)
}

// effect is the worst over the tries, and whether one of them is unresolved.
// Without a history an unknown effect is an unresolved try.
func (r *Reconciler) effect(v *view, a Assessed, s Standing) (classify.Effect, bool) {
	if s == Purged {
		return classify.EffectUnknown, true
	}
	in := EffectInput{
		Message: a.Class.Effect, Silent: a.Job.Failure.Empty(), Receives: a.Job.Message.Receives,
		TriedBefore: v.tried[a.Job.PayloadSHA256],
		Row:         a.present(), TransportRetries: r.Settings.TransportRetries,
	}
	in.History = a.Row != nil && r.Ledger.Capabilities().History
	e := EffectOf(in)
	if a.Verdict != nil && a.Verdict.Verdict == Rejected {
		return classify.EffectUnknown, false // so that the table's row for a refusal decides
	}
	if in.Row == nil || !in.History {
		return e, e == classify.EffectUnknown && s != NeverClaimed
	}
	return e, AttemptUnresolved(*in.Row)
}

// mismatch compares what both sides know of payload and version.
func mismatch(j job.Job, row *ledger.Row) bool {
	differ := func(a, b string) bool { return a != "" && b != "" && a != b }
	return row != nil && (differ(j.PayloadSHA256, row.PayloadSHA256) || differ(j.Version, row.Version))
}

func (r *Reconciler) block(a Assessed) Block {
	switch row := a.present(); {
	case a.Job.MappingFailed:
		return BlockUnmapped
	case !a.Job.Redrivable:
		return BlockNotWhole
	case row == nil || r.Ledger.Capabilities().Writable:
		return NotBlocked
	case row.State == ledger.Queued, row.State == ledger.Failed && row.Retryable && row.Effect == ledger.EffectNone:
		return NotBlocked
	default:
		return BlockReadOnly
	}
}

func (r *Reconciler) replaySafe(row ledger.Row, payloadSHA256 string, now time.Time) bool {
	caps := r.Ledger.Capabilities()
	samePayload := row.PayloadSHA256 != "" && row.PayloadSHA256 == payloadSHA256
	until := ReplayUntil(row, r.Provider.Capabilities(), r.Settings.MaxPause)
	return caps.Writable && caps.SendBefore && samePayload && now.Add(r.Settings.ClockMargin).Before(until)
}

// ReplayUntil is until when the provider takes a second send of the row's job
// for the first: the earliest claim in question + key life − maxPause. It is
// zero where that is not known or the key is longer than the provider honours.
func ReplayUntil(row ledger.Row, caps provider.Capabilities, maxPause time.Duration) time.Time {
	tooLong := caps.KeyMaxBytes > 0 && len(row.JobKey) > caps.KeyMaxBytes
	q := questionOf(row, 0)
	if caps.KeyLife <= 0 || tooLong || q.earliest.IsZero() {
		return time.Time{}
	}
	return q.earliest.Add(caps.KeyLife - maxPause)
}

// stillAbout reports that a verdict on record speaks of the job as it is. An
// acceptance always does: the effect happened. Any other verdict is about the
// attempts up to its own, and is void once there were more, or another claim.
func stillAbout(f Found, lk *ledger.Lookup, j job.Job) bool {
	if f.Verdict == Accepted {
		return true
	}
	if lk == nil || lk.Found != ledger.Present {
		return f.Attempt == 0 && !f.At.Before(j.Failure.At) && !f.At.Before(j.Message.SentAt)
	}
	row := lk.Row
	if f.Attempt != row.Attempt || !row.ClaimedAt.IsZero() && !row.ClaimedAt.Before(f.askedAt()) {
		return false
	}
	if f.Verdict == NotAccepted || f.Verdict == Rejected {
		return row.State == ledger.Fenced && row.FencedAt.Equal(f.Evidence.FencedAt) || coveredByVerdict(&row)
	}
	return true
}

// askedAt is when the provider was first asked, as far as is known: what began
// later the verdict cannot speak of.
func (f Found) askedAt() time.Time {
	at := f.At
	for _, l := range f.Evidence.Looks {
		if !l.AskedAt.IsZero() && l.AskedAt.Before(at) {
			at = l.AskedAt
		}
	}
	return at
}
