package redrive

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redrivectl/redrivectl/audit"
	"github.com/redrivectl/redrivectl/internal/classify"
)

// Verdict is what a gate says of a canary. Only a pass goes on by itself.
type Verdict string

// The verdicts. The zero Verdict: none was given yet.
const (
	VerdictPass         Verdict = "pass"
	VerdictFail         Verdict = "fail"
	VerdictInconclusive Verdict = "inconclusive"
	// VerdictTripped is the circuit breaker's, later in the run: the redrives broke a
	// threshold.
	VerdictTripped Verdict = "tripped"
)

// ErrGate is wrapped where a run stopped or paused at its gate.
var ErrGate = errors.New("the gate does not let the run go on")

// whyGateFailed is why a run stopped whose canary did not meet the thresholds.
const whyGateFailed = "gate_failed"

// Figures are what became of a canary. Sent, Failed and Pending count each redrive
// once; Returned and Throttled may count one of them besides.
type Figures struct {
	Canary    int `json:"canary"`   // items of the sample
	Redrives  int `json:"redrives"` // of them, handed to their destination, or perhaps
	Sent      int `json:"sent"`     // reached sent, or are proven to have been
	Failed    int `json:"failed"`   // have an outcome, and it is not sent
	Pending   int `json:"pending"`  // have no outcome yet, or none that can be read
	Returned  int `json:"returned"` // came back to the dead-letter queue
	Throttled int `json:"throttled"`
	Slow      int `json:"slow"`    // took longer than the threshold of the 95th percentile
	Untimed   int `json:"untimed"` // were sent, and nothing tells how fast
	// Window is how many redrives a circuit breaker judges by, and Late how many of
	// those have no outcome after the time of observation; 0 for a canary.
	Window int `json:"window,omitempty"`
	Late   int `json:"late,omitempty"`
	// P50Seconds and P95Seconds are of the times from publish to sent, by nearest
	// rank; nil: none is known.
	P50Seconds *float64 `json:"p50_seconds"`
	P95Seconds *float64 `json:"p95_seconds"`
	// ObservedSeconds is from the last publish to the look.
	ObservedSeconds float64 `json:"observed_seconds"`
	// Blind is why the dead-letter queue could not be looked at as it must; empty:
	// it was, or need not be.
	Blind string `json:"blind,omitempty"`
}

// GateState is what is on record of a run's gate. The zero GateState: its plan has
// none.
type GateState struct {
	Exists     bool
	Kind       string      // GateLedger or GateDLQOnly; empty: not known before a verdict
	Thresholds *Thresholds // nil as Kind is empty
	Verdict    Verdict     // empty: none was given yet
	Why        string      // what decided it, for people
	Figures    Figures
	At         time.Time
	// Promoted: a person let an inconclusive run go on.
	Promoted GatePromotion
}

// GatePromotion is who let a run go on whose gate was inconclusive; zero: nobody.
type GatePromotion struct {
	By     string
	Reason string
	At     time.Time
}

// Open reports that the run may go on with all of its plan.
func (g GateState) Open() bool {
	return g.Verdict == VerdictPass || g.asksPerson() && g.Promoted.By != ""
}

// Waits reports that the run may go on only once a person has promoted it.
func (g GateState) Waits() bool { return g.asksPerson() && g.Promoted.By == "" }

func (g GateState) asksPerson() bool {
	return g.Verdict == VerdictInconclusive || g.Verdict == VerdictTripped
}

// Said is what the run waits for a person for.
func (g GateState) Said() string {
	if g.Verdict == VerdictTripped {
		return "its circuit breaker tripped: " + g.Why
	}
	return "its gate is inconclusive: " + g.Why
}

// MayPromote refuses to let a run go on that has no inconclusive gate to pass, or
// that cannot go on.
func (g GateState) MayPromote(r RunRecord) error {
	switch {
	case r.State.Ended():
		return fmt.Errorf("run %s is %s: %w", r.ID, r.State, ErrRefused)
	case r.Wish.Kind == WishAbort:
		return fmt.Errorf("run %s is to be aborted, as %s asked: %w", r.ID, r.Wish.Person, ErrRefused)
	case g.Verdict == "":
		return fmt.Errorf("the gate of run %s has given no verdict: %w", r.ID, ErrRefused)
	case !g.asksPerson():
		return fmt.Errorf("the gate of run %s says %s, only an inconclusive one or a circuit breaker that tripped can be promoted: %w", r.ID, g.Verdict, ErrRefused)
	case g.Open():
		return fmt.Errorf("run %s was promoted by %s already: %w", r.ID, g.Promoted.By, ErrRefused)
	}
	return nil
}

// UndecidedError says that a run is paused because its gate was inconclusive, or
// because its circuit breaker tripped.
type UndecidedError struct {
	Run RunID
	Why string // in words, as GateState.Said
}

func (e *UndecidedError) Error() string {
	return fmt.Sprintf("run %s is paused: %s", e.Run, e.Why)
}

// Is makes an UndecidedError one of a gate.
func (e *UndecidedError) Is(target error) bool { return target == ErrGate }

// stopped is a StoppedError when the gate has failed.
func (g GateState) stopped() error {
	if g.Verdict != VerdictFail {
		return nil
	}
	return &StoppedError{Why: whyGateFailed, At: g.At, Reason: g.Why}
}

// Gates keeps what gates said. The audit log is the truth: what is returned is
// what the records say.
type Gates interface {
	// Gate is the run's latest verdict, and who promoted it. It is ErrChanged when
	// the log has no such record.
	Gate(ctx context.Context, run RunID) (GateState, error)
	// SaveVerdict writes the record of a verdict under the lease, in place of an
	// earlier one; audit.ErrFenced once it is another's.
	SaveVerdict(ctx context.Context, l Lease, rec audit.Record) error
	// Publishes are the recorded publishes of the run, in the order of their records,
	// each behind the intent to redrive, whose Result is "intended".
	Publishes(ctx context.Context, run RunID) ([]PublishedCopy, error)
}

// PublishedCopy is the recorded publish of one dead copy.
type PublishedCopy struct {
	Copy         string // CopyID.String of the dead copy
	NewMessageID string // what the broker calls the new one; empty: it did not tell
	Result       string // "done", "refused", "unknown" or ResultIntended
	At           time.Time
}

// ResultIntended is a redrive of which no more is on record: a process that died
// may have published it.
const ResultIntended = "intended"

// Names of the details of a verdict's record.
const (
	detailVerdict    = "verdict"
	detailFigures    = "figures"
	detailThresholds = "thresholds"
	detailGate       = "gate"
)

// Steps of the records about a gate.
const (
	StepVerdict = "gate"
	StepPromote = "promote"
)

// verdictRecord is the record of a verdict.
func (s *session) verdictRecord(g GateState) (audit.Record, error) {
	rec := s.stepRecord(StepVerdict, g.Why)
	figures, err := audit.CanonicalJSON(g.Figures)
	if err != nil {
		return rec, fmt.Errorf("encode figures: %w", err)
	}
	thresholds, err := audit.CanonicalJSON(s.plan.Thresholds)
	if err != nil {
		return rec, fmt.Errorf("encode thresholds: %w", err)
	}
	rec.Details = map[string]string{
		detailVerdict: string(g.Verdict), detailFigures: string(figures), detailThresholds: string(thresholds), detailGate: cmp.Or(g.Kind, s.plan.Gate),
	}
	return rec, nil
}

// GateOf reads a verdict from its record.
func GateOf(rec audit.Record) (GateState, error) {
	g := GateState{Exists: true, Kind: rec.Details[detailGate], Verdict: Verdict(rec.Details[detailVerdict]), Why: rec.Reason, At: rec.Time}
	if rec.Action != actionRun || rec.Step != StepVerdict {
		return g, fmt.Errorf("record %d is no verdict: %w", rec.Seq, ErrChanged)
	}
	if err := json.Unmarshal([]byte(rec.Details[detailFigures]), &g.Figures); err != nil {
		return g, fmt.Errorf("figures in record %d: %w", rec.Seq, err)
	}
	if err := json.Unmarshal([]byte(rec.Details[detailThresholds]), &g.Thresholds); err != nil {
		return g, fmt.Errorf("thresholds in record %d: %w", rec.Seq, err)
	}
	return g, nil
}

// span is what a threshold's count can still come to.
type span struct{ least, most int }

// judge is the decision of a gate, from nothing but its arguments. over: no more
// outcomes are waited for. The zero Verdict: wait on.
//
// A redrive without an outcome may still end in any way. What breaks a threshold
// however all of them end is a fail, at once; what holds however they end is a
// pass, once all have ended or the time is over; and anything else is inconclusive
// then.
func judge(f Figures, t Thresholds, kind string, over bool) (Verdict, string) {
	if f.Redrives == 0 {
		return VerdictInconclusive, "no canary was sent"
	}
	broken, open := f.against(t, kind)
	switch {
	case len(broken) > 0:
		return VerdictFail, strings.Join(broken, "; ")
	case !over && (f.Pending > 0 || kind == GateDLQOnly):
		return "", ""
	case len(open) > 0:
		return VerdictInconclusive, f.undecided(open, kind)
	case kind == GateDLQOnly:
		return VerdictPass, "no canary came back, and nothing else was looked at"
	default:
		return VerdictPass, "all thresholds hold"
	}
}

// undecided says what is not known, and what hangs on it.
func (f Figures) undecided(open []string, kind string) string {
	switch said := strings.Join(open, ", "); {
	case kind == GateDLQOnly:
		return said
	case f.Pending > 0:
		return fmt.Sprintf("%d of %d have no outcome, on which these hang: %s", f.Pending, f.Redrives, said)
	case f.Blind != "":
		return fmt.Sprintf("%s, and on that hang: %s", f.Blind, said)
	default:
		return fmt.Sprintf("nothing tells how fast %d of %d were sent, on which these hang: %s", f.Untimed, f.Redrives, said)
	}
}

// against holds the figures against the thresholds: which are broken however what
// is pending ends, and which could be.
func (f Figures) against(t Thresholds, kind string) (broken, open []string) {
	n := f.Redrives
	hold := func(name, found string, s span, breaks func(int) bool, limit string) {
		switch least, most := breaks(s.least), breaks(s.most); {
		case least && most:
			broken = append(broken, fmt.Sprintf("%s (%s)", found, limit))
		case least || most:
			open = append(open, fmt.Sprintf("%s (%s)", name, limit))
		}
	}
	count := func(k int, name string) string { return fmt.Sprintf("%d of %d %s", k, n, name) }
	above := func(limit float64) func(int) bool {
		return func(k int) bool { return float64(k) > limit*float64(n)+tiny }
	}
	if kind == GateDLQOnly {
		hold("came back", count(f.Returned, "came back"), span{f.Returned, f.Returned}, above(t.MaxReturned), "at most "+classify.FormatShare(t.MaxReturned))
		if f.Blind != "" {
			open = append(open, "whether any came back is not known: "+f.Blind)
		} else if f.Returned > 0 {
			open = append(open, fmt.Sprintf("%d of %d came back, and nothing else tells of the others", f.Returned, n))
		}
		return broken, open
	}
	sent := count(f.Sent, "sent")
	if f.Pending > 0 { // those may still be
		sent = fmt.Sprintf("%s, so no more than %d can be sent", count(f.Failed, "failed"), f.Sent+f.Pending)
	}
	hold("sent", sent, span{f.Sent, f.Sent + f.Pending}, func(k int) bool { return float64(k) < t.MinSuccess*float64(n)-tiny }, "at least "+classify.FormatShare(t.MinSuccess))
	back := span{f.Returned, f.Returned + f.Pending}
	if f.Blind != "" {
		back.most += f.Failed // nobody saw whether they are back
	}
	hold("came back", count(f.Returned, "came back"), span{back.least, min(n, back.most)}, above(t.MaxReturned), "at most "+classify.FormatShare(t.MaxReturned))
	hold("throttled", count(f.Throttled, "throttled"), span{f.Throttled, min(n, f.Throttled+f.Pending)}, above(t.MaxThrottled), "at most "+classify.FormatShare(t.MaxThrottled))
	if t.MaxP95Seconds > 0 && f.Sent+f.Pending > 0 {
		allowed := (f.Sent + f.Pending) / 20 // that many of 100 in 20 may be slower
		slow := "took longer than " + seconds(t.MaxP95Seconds)
		hold(slow, count(f.Slow, slow), span{f.Slow, f.Slow + f.Untimed + f.Pending}, func(k int) bool { return k > allowed }, "at most 5%")
	}
	return broken, open
}

// tiny is less than any two shares of countable jobs are apart, and more than
// their rounding.
const tiny = 1e-6

func seconds(s float64) string { return time.Duration(s * float64(time.Second)).String() }
