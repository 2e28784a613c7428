package reconcile

import (
	"time"

	"github.com/redrivectl/redrivectl/internal/provider"
)

// Look is one answer of the provider about the job.
type Look struct {
	At     time.Time // when it was asked, by the ledger's clock
	Answer provider.Answer
}

// Control is a positive control: a later send of the same account and region
// that the ledger knows was accepted, and that the provider showed. It counts
// for looks after it was seen, since only then had the records caught up.
type Control struct {
	JobKey string
	SeenAt time.Time // by the ledger's clock
}

// JudgeInput is the evidence on one job, and what it has to be measured by. All
// times are by the ledger's clock.
type JudgeInput struct {
	JobKey       string
	Capabilities provider.Capabilities
	// Fenced: the row is fenced, by a run that may change the ledger. Without it
	// the best no is provisional.
	Fenced bool
	// Attempts are the tries in question: the unresolved ones. Known are the
	// others: a refusal on record may be one of theirs.
	Attempts, Known []Try
	// Quiet is when the last of them can have sent at the latest: the latest
	// send deadline, or the fence's time where the ledger records none. Zero:
	// not known.
	Quiet time.Time
	// Earliest is when the first of them can have sent. Zero: not known.
	Earliest time.Time

	First, Second *Look
	Control       *Control
	// Unique: no other job of the ledger has the same fingerprint in the window,
	// so that a record without a key can be this job's alone.
	Unique bool
	// Deaf: the provider shows records for a job that never was, so what it shows
	// for this one is not known to be this one's.
	Deaf bool

	MaxPause         time.Duration // how long a worker may stand still between check and send
	ClockMargin      time.Duration
	SecondLookAfter  time.Duration
	LedgerOffset     time.Duration // the ledger's clock minus ours
	TransportRetries bool          // one attempt may be several requests
}

// Try is one attempt whose outcome is asked for.
type Try struct {
	Number    int
	RequestID string
}

// Judgement is what the evidence comes to.
type Judgement struct {
	Verdict   Verdict
	Why       string // short, stable, snake_case
	Detail    string // free text, where there is more to say
	RequestID string // of the record that decided
	// Until is when a too_early look-up may be tried again.
	Until time.Time
}

// The reasons of a judgement that others act on.
const (
	// WhySecondLook: nothing but the second look is missing.
	WhySecondLook = "second_look_missing"
	// WhyNoControl: no later send was shown before the last look.
	WhyNoControl = "no_positive_control"
)

// Judge makes a verdict of the evidence. An acceptance in any look wins; a
// failed look-up is never a verdict; and a no is conclusive only when every
// condition of the safe-to-send rule holds.
func Judge(in JudgeInput) Judgement {
	looks := in.looks()
	r := sift(in, looks)
	switch {
	case len(looks) == 0:
		return Judgement{Verdict: Unavailable, Why: "not_asked"}
	case r.accepted != nil && in.Capabilities.Can(provider.ProvesAccepted):
		return Judgement{Verdict: Accepted, Why: "found", Detail: r.accepted.Detail, RequestID: r.accepted.RequestID}
	case r.err != nil:
		return Judgement{Verdict: Unavailable, Why: "look_up_failed", Detail: r.err.Error()}
	case r.accepted != nil:
		return Judgement{Verdict: Ambiguous, Why: "acceptance_not_provable", RequestID: r.accepted.RequestID}
	case r.doubtful > 0 && in.Deaf:
		return Judgement{Verdict: Ambiguous, Why: "shown_for_any_job"}
	case r.doubtful > 0:
		return Judgement{Verdict: Ambiguous, Why: "unbound_candidates"}
	case !r.complete:
		return Judgement{Verdict: Ambiguous, Why: "answer_incomplete"}
	case len(r.rejected) > 0:
		return judgeRejected(in, r)
	case !r.notFound:
		return Judgement{Verdict: Ambiguous, Why: "neither_found_nor_not_found"}
	default:
		return judgeNo(in, NotAccepted)
	}
}

func (in JudgeInput) looks() []Look {
	var ls []Look
	for _, l := range []*Look{in.First, in.Second} {
		if l != nil {
			ls = append(ls, *l)
		}
	}
	return ls
}

// sifted is what the looks show, taken together.
type sifted struct {
	accepted *provider.Hit
	rejected map[string]bool // request IDs of records that refuse
	doubtful int             // records that could be this job and say neither
	complete bool
	notFound bool // every look said so
	err      error
}

func sift(in JudgeInput, looks []Look) sifted {
	s := sifted{rejected: map[string]bool{}, complete: true, notFound: true}
	for _, l := range looks {
		if l.Answer.Err != nil && s.err == nil {
			s.err = l.Answer.Err
		}
		s.complete = s.complete && l.Answer.Complete
		s.notFound = s.notFound && l.Answer.NotFound
		for _, h := range l.Answer.Hits {
			s.add(in, h)
		}
	}
	return s
}

// add sorts one record in. One that carries another job's key is not ours; one
// that carries none is, only where nothing else can be meant.
func (s *sifted) add(in JudgeInput, h provider.Hit) {
	ours := h.JobKey == in.JobKey && in.JobKey != "" && !in.Deaf || h.JobKey == "" && in.Unique
	switch {
	case h.JobKey != "" && h.JobKey != in.JobKey:
	case !ours:
		s.doubtful++
	case h.Status == provider.Accepted:
		s.accepted = &h
	case h.Status == provider.Rejected:
		s.rejected[h.RequestID] = true
	default:
		s.doubtful++
	}
}

// judgeRejected: a refusal on record is a verdict only when every other attempt
// was refused as well, or is proven not to have been accepted.
func judgeRejected(in JudgeInput, r sifted) Judgement {
	if !in.Capabilities.Can(provider.ProvesRejected) {
		return Judgement{Verdict: Ambiguous, Why: "rejection_not_provable"}
	}
	var j Judgement
	switch {
	case !in.Fenced:
		j = Judgement{Verdict: ProvisionalNo, Why: "not_fenced"}
	case !in.TransportRetries && in.eachRejected(r.rejected):
		j = Judgement{Verdict: Rejected, Why: "each_attempt_rejected"}
	default:
		j = judgeNo(in, Rejected)
	}
	for id := range r.rejected {
		j.RequestID = max(j.RequestID, id)
	}
	return j
}

// eachRejected reports that every attempt in question has a refusal of its own:
// by its request ID where it has one, else one more record than the known
// attempts can account for.
func (in JudgeInput) eachRejected(rejected map[string]bool) bool {
	spare := len(rejected)
	for _, t := range in.Known {
		if t.RequestID == "" || rejected[t.RequestID] {
			spare--
		}
	}
	for _, t := range in.Attempts {
		if t.RequestID != "" && !rejected[t.RequestID] {
			return false
		}
		spare--
	}
	return len(in.Attempts) > 0 && spare >= 0
}

// judgeNo weighs a whole answer that shows no acceptance. The order matters
// where several conditions fail: what waiting cures comes after what it cannot.
func judgeNo(in JudgeInput, conclusive Verdict) Judgement {
	c := in.Capabilities
	switch {
	case !c.Can(provider.ProvesNotAccepted):
		return Judgement{Verdict: Ambiguous, Why: "absence_not_provable"}
	case c.ByRequest && !in.oneRequest():
		return Judgement{Verdict: Ambiguous, Why: "other_requests_not_asked"}
	case in.tooOld():
		return Judgement{Verdict: TooOld, Why: "outside_look_back"}
	case in.tooEarly():
		return Judgement{Verdict: TooEarly, Why: "inside_delay", Until: in.earliestLook()}
	case !in.Fenced:
		return Judgement{Verdict: ProvisionalNo, Why: "not_fenced"}
	case c.Delay < 0:
		return Judgement{Verdict: ProvisionalNo, Why: "delay_not_documented"}
	case c.LookBack <= 0:
		return Judgement{Verdict: ProvisionalNo, Why: "look_back_not_documented"}
	case in.Quiet.IsZero() || in.Earliest.IsZero():
		return Judgement{Verdict: ProvisionalNo, Why: "attempts_not_dated"}
	case !in.windowRead():
		return Judgement{Verdict: ProvisionalNo, Why: "window_not_read"}
	case in.Control == nil || in.Control.SeenAt.IsZero():
		return Judgement{Verdict: ProvisionalNo, Why: WhyNoControl}
	case in.First == nil || in.Second == nil || in.Second.At.Sub(in.First.At) < in.SecondLookAfter:
		return Judgement{Verdict: ProvisionalNo, Why: WhySecondLook}
	case in.Second.At.Before(in.Control.SeenAt):
		return Judgement{Verdict: ProvisionalNo, Why: WhyNoControl}
	default:
		return Judgement{Verdict: conclusive, Why: "every_condition_holds"}
	}
}

// oneRequest reports that all there was to ask about is the one request that is
// known by its ID.
func (in JudgeInput) oneRequest() bool {
	return len(in.Attempts) == 1 && in.Attempts[0].RequestID != "" && !in.TransportRetries
}

// slack is how far ledger's and provider's clocks may lie apart: as measured,
// and the margin on top.
func (in JudgeInput) slack() time.Duration {
	var worst time.Duration
	for _, l := range in.looks() {
		worst = max(worst, (l.Answer.ClockOffset - in.LedgerOffset).Abs())
	}
	return worst + in.ClockMargin
}

// earliestLook is when every record must have become visible.
func (in JudgeInput) earliestLook() time.Time {
	return in.Quiet.Add(in.MaxPause + max(in.Capabilities.Delay, 0) + in.slack())
}

// tooEarly is judged by the first look: both must lie beyond the delay.
func (in JudgeInput) tooEarly() bool {
	return !in.Quiet.IsZero() && in.looks()[0].At.Before(in.earliestLook())
}

// tooOld is judged by the last look, and by what is known to be the earliest.
func (in JudgeInput) tooOld() bool {
	if in.Capabilities.LookBack <= 0 || in.Earliest.IsZero() {
		return false
	}
	looks := in.looks()
	age := looks[len(looks)-1].At.Sub(in.Earliest) + in.slack()
	return age > in.Capabilities.LookBack-LookBackMargin(in.Capabilities.LookBack)
}

// LookBackMargin is what is taken off a provider's look-back: a day, or a
// quarter of a look-back that is shorter than four days, which a day would eat
// up.
func LookBackMargin(lookBack time.Duration) time.Duration {
	return min(24*time.Hour, lookBack/4)
}

// windowRead reports that each look covered the whole time in which a record
// can lie, by the provider's clock.
func (in JudgeInput) windowRead() bool {
	for _, l := range in.looks() {
		from, to := in.Earliest.Add(-in.slack()), in.Quiet.Add(in.slack()+in.MaxPause)
		if l.Answer.Evidence.From.After(from) || l.Answer.Evidence.To.Before(to) {
			return false
		}
	}
	return true
}
