package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redrivectl/redrivectl/internal/crash"
	"github.com/redrivectl/redrivectl/internal/provider"
)

const lookBatch = 20

// firstLooks asks about every subject. Where the provider's clock turns out to
// lie farther off than the windows allowed for, they are asked about again.
func (w *work) firstLooks(ctx context.Context) error {
	ask := w.asked()
	w.looks(ctx, "first look", ask, func(s *subject, l Look) { s.first = &l })
	var worst time.Duration
	for _, s := range ask {
		worst = max(worst, (s.first.Answer.ClockOffset - w.ledgerIs).Abs())
	}
	if worst > w.Settings.ClockMargin && ctx.Err() == nil {
		w.assumed = worst
		w.looks(ctx, "first look", ask, func(s *subject, l Look) { s.first = &l })
	}
	crash.At("reconcile.look.first")
	return nil
}

func (w *work) asked() []*subject {
	var ss []*subject
	for _, s := range w.subjects {
		if !s.lost {
			ss = append(ss, s)
		}
	}
	return ss
}

// secondLooks asks again about those for which nothing else is missing, after
// one wait for all of them.
func (w *work) secondLooks(ctx context.Context) error {
	var ask []*subject
	var due time.Time
	for _, s := range w.asked() {
		if w.judge(s).Why == WhySecondLook {
			ask = append(ask, s)
			due = latest(due, s.first.At.Add(w.Settings.SecondLookAfter))
		}
	}
	if len(ask) == 0 {
		return nil
	}
	if wait := due.Sub(w.ledgerNow()); wait > 0 {
		w.progress(Progress{Step: "second look", Total: len(ask)})
		if err := w.Sleep(ctx, wait); err != nil {
			return err
		}
	}
	w.looks(ctx, "second look", ask, func(s *subject, l Look) { s.second = &l })
	crash.At("reconcile.look.second")
	return nil
}

// askForNobody asks, where something was found, for a job that never was. What
// is shown for that one too was not found by its key: the path may misspell the
// provider's parameter, and the provider ignore it.
func (w *work) askForNobody(ctx context.Context) {
	var nobody provider.Send
	for _, s := range w.asked() {
		send := w.send(s)
		if s.shown() && (nobody.From.IsZero() || send.From.Before(nobody.From)) {
			nobody = send
		}
	}
	if nobody.JobKey == "" {
		return
	}
	nobody.JobKey, nobody.RequestID = fmt.Sprintf("redrivectl-no-such-job-%d", w.now.UnixNano()), ""
	for _, h := range w.lookup(ctx, []provider.Send{nobody})[0].Answer.Hits {
		w.deaf = w.deaf || h.JobKey == nobody.JobKey
	}
}

// shown reports that a look found a record of the subject.
func (s *subject) shown() bool {
	for _, l := range []*Look{s.first, s.second} {
		if l != nil && slices.ContainsFunc(l.Answer.Hits, func(h provider.Hit) bool { return h.JobKey == s.key.JobKey }) {
			return true
		}
	}
	return false
}

// ledgerNow is the ledger's clock as far as it was measured at the start.
func (w *work) ledgerNow() time.Time { return w.Now().Add(w.ledgerIs) }

// errNotAsked stands for the look-ups that were not tried any more.
var errNotAsked = errors.New("not asked: every look-up of the batch before failed")

// looks asks in batches. A batch that fails whole ends the asking: a provider
// that is down is not asked thousands of times, each with its time-out.
func (w *work) looks(ctx context.Context, step string, ss []*subject, take func(*subject, Look)) {
	down := false
	for start := 0; start < len(ss); start += lookBatch {
		batch := ss[start:min(start+lookBatch, len(ss))]
		sends := make([]provider.Send, len(batch))
		for i, s := range batch {
			sends[i] = w.send(s)
		}
		looks := w.notAsked(len(batch))
		if !down {
			looks = w.lookup(ctx, sends)
		}
		down = true
		for i, l := range looks {
			down = down && l.Answer.Err != nil
			take(batch[i], l)
		}
		w.progress(Progress{Step: step, Done: start + len(batch), Total: len(ss)})
	}
}

func (w *work) notAsked(n int) []Look {
	looks := make([]Look, n)
	for i := range looks {
		looks[i] = Look{At: w.ledgerNow(), Answer: provider.Answer{Err: errNotAsked}}
	}
	return looks
}

// lookup asks and dates the answers by the ledger's clock.
func (w *work) lookup(ctx context.Context, sends []provider.Send) []Look {
	looks := make([]Look, len(sends))
	before := w.ledgerNow()
	for i, a := range w.Provider.Lookup(ctx, sends) {
		looks[i] = Look{At: before, Answer: a}
		if at := a.Evidence.AskedAt; !at.IsZero() {
			looks[i].At = at.Add(w.ledgerIs)
		}
	}
	return looks
}

// send is the question about a subject, its window wide enough for twice the
// clock offset and margin that are known of.
func (w *work) send(s *subject) provider.Send {
	slack := 2*(w.Settings.ClockMargin+w.assumed) + time.Second
	send := provider.Send{
		JobKey: s.key.JobKey, RequestID: s.question.requestID,
		From: s.question.earliest.Add(-slack), To: w.ledgerNow().Add(slack),
	}
	if s.question.earliest.IsZero() {
		send.From = w.now.Add(-w.Provider.Capabilities().LookBack - slack)
	}
	switch {
	case s.row != nil:
		send.Account, send.Region = s.row.Account, s.row.Region
	case s.job != nil:
		send.Region = s.job.Region
	}
	return send
}

func (w *work) judge(s *subject) Judgement {
	return Judge(JudgeInput{
		JobKey: s.key.JobKey, Capabilities: w.Provider.Capabilities(),
		Fenced:   s.fenced && w.apply,
		Attempts: s.question.tries, Known: s.question.known, Quiet: s.question.quiet, Earliest: s.question.earliest,
		First: s.first, Second: s.second, Control: s.control,
		MaxPause: w.Settings.MaxPause, ClockMargin: w.Settings.ClockMargin,
		SecondLookAfter: w.Settings.SecondLookAfter, LedgerOffset: w.ledgerIs,
		TransportRetries: w.Settings.TransportRetries, Deaf: w.deaf,
	})
}
