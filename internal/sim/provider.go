package sim

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/redrivectl/redrivectl/internal/classify"
	"github.com/redrivectl/redrivectl/internal/provider"
	"github.com/redrivectl/redrivectl/internal/worker"
)

// outside is the provider: what really happened in the world, and what it shows
// of that.
type outside struct {
	caps    provider.Capabilities
	skew    time.Duration // of its clock
	lag     time.Duration // until a record shows; within caps.Delay
	stalled window        // records of this time show only after it
	mute    window        // look-ups fail
	hears   bool          // it logs what it refuses
	records []request

	// What a named schedule wants of the next sends, in order.
	script []int
	delays []time.Duration
}

type window struct{ from, to time.Time }

func (w window) has(t time.Time) bool { return !t.Before(w.from) && t.Before(w.to) }

// request is one that arrived. Effect says that it took effect: a repeated key is
// accepted and has none.
type request struct {
	key, account string
	id           string
	at           time.Time
	accepted     bool
	effect       bool
}

// accept takes a request at this moment, under its key where that is honoured.
func (w *world) accept(key, account string) string {
	o := &w.outside
	for _, r := range o.records {
		if r.key == key && r.accepted && o.caps.KeyLife > 0 && w.now.Sub(r.at) < o.caps.KeyLife {
			o.records = append(o.records, request{key: key, account: account, id: r.id, at: w.now, accepted: true})
			return r.id
		}
	}
	id := "q" + strconv.Itoa(len(o.records)+1)
	o.records = append(o.records, request{key: key, account: account, id: id, at: w.now, accepted: true, effect: true})
	w.say("provider accepts %s as %s", key, id)
	w.noSecondEffect(key)
	return id
}

// effects counts how often the effect of a job happened.
func (w *world) effects(key string) (n int) {
	for _, r := range w.outside.records {
		if r.key == key && r.effect {
			n++
		}
	}
	return n
}

// shown is up to when records show at a moment. They show in the order in which
// they were made.
func (o *outside) shown(at time.Time) time.Time {
	if o.stalled.has(at) {
		at = o.stalled.from
	}
	return at.Add(-o.lag)
}

// senderOf is the provider as one worker sends to it.
type senderOf struct{ p *proc }

// outcomes of a send that reaches the provider, or does not.
const (
	sendAccepted = iota
	sendLostReply
	sendTimeout
	sendThrottled
	sendUnavailable
	sendRejected
	sendError      // a server error, and nothing happened
	sendErrorAfter // a server error after the effect
)

// Send is the one request of an attempt. Between the worker's check of its
// deadline and the arrival lies what the contract allows: no more than the
// longest pause after the deadline.
func (s senderOf) Send(_ context.Context, r worker.Request) (string, error) {
	w := s.p.world
	if s.p.over() {
		return "", errDead
	}
	row := w.rows.byKey[w.rows.key(r.Key)]
	s.p.wait(w.travel(row.SendDeadline.Add(-w.rows.now().Sub(w.now))))
	if s.p.over() || s.p.killedAt("send", "before") {
		return "", errDead
	}
	how := w.outcome()
	s.p.note("sends %s at attempt %d: %s", r.Key.JobKey, r.Attempt, sendNames[how])
	id, err := w.arrive(how, r)
	if !s.p.leave("send") {
		return "", errDead
	}
	return id, err
}

var sendNames = [...]string{"accepted", "accepted, reply lost", "lost on the way", "throttled", "unavailable", "rejected", "server error", "server error after the effect"}

// travel is how long a request is under way: mostly short, now and then until
// just before or after its deadline.
func (w *world) travel(deadline time.Time) time.Duration {
	left := deadline.Sub(w.now)
	if d := w.outside.delays; len(d) > 0 {
		w.outside.delays = d[1:]
		return d[0]
	}
	switch {
	case w.strikes(w.odds.stall, ""):
		return w.upTo(left + w.settings.maxPause)
	case w.strikes(w.odds.stall, ""):
		return left + w.settings.maxPause - time.Duration(w.rnd.Int64N(int64(2*time.Second)))
	default:
		return min(w.upTo(300*time.Millisecond), left)
	}
}

func (w *world) outcome() int {
	if s := w.outside.script; len(s) > 0 {
		w.outside.script = s[1:]
		return s[0]
	}
	switch {
	case w.late() && w.strikes(0.7, ""):
		return sendLostReply
	case w.calm || !w.strikes(w.odds.send, ""):
		return sendAccepted
	}
	return 1 + w.rnd.IntN(len(sendNames)-1)
}

func (w *world) arrive(how int, r worker.Request) (string, error) {
	switch how {
	case sendAccepted:
		return w.accept(r.Key.JobKey, r.Account), nil
	case sendLostReply:
		w.accept(r.Key.JobKey, r.Account)
		return "", context.DeadlineExceeded
	case sendTimeout:
		return "", context.DeadlineExceeded
	case sendThrottled:
		return "", refusal(classify.Throttled, "429", true)
	case sendUnavailable:
		return "", refusal(classify.Unavailable, "503", true)
	case sendRejected:
		return "", w.reject(r)
	case sendErrorAfter:
		w.accept(r.Key.JobKey, r.Account)
	}
	return "", &worker.Failure{Class: classify.ServerError, Effect: classify.EffectUnknown, Code: "500", Err: errors.New("status 500")}
}

func refusal(c classify.Class, code string, retryable bool) *worker.Failure {
	return &worker.Failure{Class: c, Effect: classify.EffectNone, Code: code, Retryable: retryable, Err: errors.New("status " + code)}
}

func (w *world) reject(r worker.Request) error {
	f := refusal(classify.RejectedPayload, "422", false)
	if w.outside.hears {
		f.RequestID = "q" + strconv.Itoa(len(w.outside.records)+1)
		w.outside.records = append(w.outside.records, request{key: r.Key.JobKey, account: r.Account, id: f.RequestID, at: w.now})
	}
	return f
}

// providerOf is the provider as one operator asks it.
type providerOf struct{ p *proc }

var _ provider.Provider = providerOf{}

// Capabilities implements provider.Provider.
func (o providerOf) Capabilities() provider.Capabilities { return o.p.outside.caps }

// Scan is never asked for: the capabilities say that there is none.
func (o providerOf) Scan(context.Context, provider.Window) provider.Answer {
	return provider.Answer{Err: errFault}
}

// Lookup implements provider.Provider. Each look-up takes its time.
func (o providerOf) Lookup(_ context.Context, sends []provider.Send) []provider.Answer {
	as := make([]provider.Answer, len(sends))
	for i, s := range sends {
		asked := o.p.clock()
		if as[i] = o.look(s); !o.p.leave("look up") {
			as[i] = provider.Answer{Err: errDead}
		}
		as[i].ClockOffset = o.p.outside.skew - o.p.skew
		as[i].Evidence = provider.Evidence{Endpoint: "sim", Query: provider.Hashed(s.JobKey), From: s.From, To: s.To, AskedAt: asked, Rows: len(as[i].Hits)}
		o.p.note("asks about %s: %d records, not found %t, complete %t, %v", s.JobKey, len(as[i].Hits), as[i].NotFound, as[i].Complete, as[i].Err)
	}
	return as
}

func (o providerOf) look(s provider.Send) provider.Answer {
	if f := o.p.enter("look up", failed); f != fine {
		return provider.Answer{Err: f.err()}
	}
	w := o.p.world
	if w.outside.mute.has(w.now) || o.p.strikes(w.odds.lie, "the look-up fails") {
		return provider.Answer{Err: errFault}
	}
	a := provider.Answer{Complete: true, Hits: w.outside.hits(s, w.now)}
	a.NotFound = len(a.Hits) == 0
	switch {
	case o.p.strikes(w.odds.lie/4, "the answer is cut short"):
		a.Complete, a.Hits = false, nil
	case o.p.strikes(w.odds.lie/4, "the answer says neither found nor not found"):
		a.Hits, a.NotFound = nil, false
	}
	return a
}

// recover ends what hides the provider's records.
func (o *outside) recover() { o.stalled, o.mute = window{}, window{} }

// hits are the records that show now and lie in what is asked for.
func (o *outside) hits(s provider.Send, now time.Time) []provider.Hit {
	shown := o.shown(now)
	var hs []provider.Hit
	for _, r := range o.records {
		at := r.at.Add(o.skew)
		if r.key != s.JobKey && (o.caps.Binds || r.account != s.Account) || r.at.After(shown) || at.Before(s.From) || at.After(s.To) {
			continue
		}
		h := provider.Hit{JobKey: r.key, RequestID: r.id, Status: provider.Accepted, At: at}
		if !r.accepted {
			h.Status = provider.Rejected
		}
		if !o.caps.Binds {
			h.JobKey = ""
		}
		hs = append(hs, h)
	}
	return hs
}
