package redrive

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/classify"
	"github.com/redrivectl/redrivectl/internal/job"
	"github.com/redrivectl/redrivectl/internal/ledger"
)

// Bounds of how often outcomes are looked for.
const (
	looksInAll   = 60
	shortestLook = time.Second
	longestLook  = 10 * time.Second
	// looksPerCost: between two looks at a whole dead-letter queue passes so many
	// times what the last one took.
	looksPerCost = 20
	// sentBefore is how far the broker's clock may be behind ours before a copy of
	// a canary is taken for an older one.
	sentBefore = 5 * time.Second
)

// canaryJob is one redrive of the sample, and what became of it so far.
type canaryJob struct {
	key          ledger.Key
	attempt      int // the first of the row's that this redrive made possible
	payload      string
	newMessageID string
	publishedAt  time.Time // by the store's clock
	// perhaps: no more than the intent is on record. It counts once its row is this
	// run's.
	perhaps bool
	run     RunID

	counted, sent, failed, throttled, returned bool
	heeded                                     bool // its throttling lowered the rate
	took                                       time.Duration
	timed                                      bool // and not perhaps: nobody knows since when
}

func (s *session) newCanaryJob(it *Item, p PublishedCopy) *canaryJob {
	c := &canaryJob{
		key:     ledger.Key{JobKey: it.JobKey, Consumer: it.Consumer},
		payload: it.PayloadSHA256, newMessageID: p.NewMessageID, publishedAt: p.At,
		perhaps: p.Result == ResultIntended, run: s.run,
	}
	if change, ok := changeOf(it, s.run, it.Action); ok {
		c.attempt = change.Attempt
	}
	if it.Edit != nil {
		c.key.JobKey, c.payload, c.attempt = it.Edit.JobKey, it.Edit.PayloadSHA256, 1
	}
	return c
}

// observer looks at a canary until its gate has a verdict.
type observer struct {
	s     *session
	jobs  []*canaryJob
	n     int       // items of the sample
	last  time.Time // the last publish
	until time.Time
	every time.Duration

	offset *time.Duration // of the ledger's clock against ours; nil: not known
	window string         // why nobody can say when the last copy can have come back
	blind  string         // why the dead-letter queue was not seen as it must be
	seen   int64          // its depth at the last whole look; -1: there was none
	next   time.Time      // no look at it before
}

func (s *session) newObserver(ctx context.Context, sample []int) (*observer, error) {
	o := &observer{s: s, n: len(sample), seen: -1, last: s.Now()}
	var err error
	if o.jobs, err = s.handedOver(ctx, sample); err != nil {
		return nil, err
	}
	if len(o.jobs) > 0 {
		o.last = time.Time{}
	}
	for _, c := range o.jobs {
		if c.publishedAt.After(o.last) {
			o.last = c.publishedAt
		}
	}
	wait := s.plan.Thresholds.Observe()
	if s.plan.Gate == GateDLQOnly {
		var within time.Duration
		within, o.window = s.returnsWithin(ctx, sample)
		wait = max(wait, within)
	} else if s.Ledger != nil {
		o.offset = s.clockOffset(ctx)
	}
	o.until = o.last.Add(wait)
	o.every = min(max(wait/looksInAll, shortestLook), longestLook)
	return o, nil
}

// clockOffset is by how much the ledger's clock is ahead of this one, or nil.
func (s *session) clockOffset(ctx context.Context) *time.Duration {
	before := s.Now()
	at, err := s.Ledger.Now(ctx)
	if err != nil {
		return nil
	}
	after := s.Now()
	d := at.Sub(before.Add(after.Sub(before) / 2))
	return &d
}

// look finds out what became of the sample. A ledger or a queue that does not
// answer leaves outcomes open; only an end of ctx is an error.
func (o *observer) look(ctx context.Context, over bool) (Figures, error) {
	if o.s.plan.Gate == GateLedger {
		o.readRows(ctx)
	}
	if o.mustLook(over) {
		if err := o.lookAtQueue(ctx, over); err != nil {
			return Figures{}, err
		}
	}
	return o.figures(), ctx.Err()
}

// readRows asks the ledger for those that are not sent yet, in its own batches.
func (o *observer) readRows(ctx context.Context) {
	var open []*canaryJob
	var keys []ledger.Key
	for _, c := range o.jobs {
		if !c.sent && c.key.JobKey != "" {
			open, keys = append(open, c), append(keys, c.key)
		}
	}
	if len(keys) == 0 {
		return
	}
	for i, l := range o.s.Ledger.Get(ctx, keys) {
		open[i].see(l, o.offset)
	}
}

// see takes in what the row says now.
func (c *canaryJob) see(l ledger.Lookup, offset *time.Duration) {
	if l.Found != ledger.Present {
		return
	}
	r := l.Row
	if c.perhaps && (r.Run != string(c.run) || r.Attempt < c.attempt) {
		return
	}
	c.counted = true
	c.throttled = c.throttled || r.Attempt >= c.attempt && r.State == ledger.Failed && isThrottled(r.ErrorClass) ||
		slices.ContainsFunc(r.Attempts, func(a ledger.Attempt) bool { return a.Number >= c.attempt && isThrottled(a.ErrorClass) })
	c.failed = r.State == ledger.Failed && r.Attempt >= c.attempt && !r.Retryable
	if c.sent = r.State.Committed() || r.LateAccept; !c.sent {
		return
	}
	if r.State == ledger.Sent && !r.LateAccept && !c.perhaps && offset != nil {
		c.timed, c.took = true, max(0, r.UpdatedAt.Sub(c.publishedAt.Add(*offset)))
	}
}

func isThrottled(class string) bool { return class == string(classify.Throttled) }

// mustLook reports that the dead-letter queue is to be looked at now. Where a look
// costs nothing, that is with each; where it counts as a receive, once, when there
// is nothing else to wait for.
func (o *observer) mustLook(over bool) bool {
	waits, unsent := false, false
	for _, c := range o.jobs {
		waits = waits || !c.sent && !c.failed
		unsent = unsent || !c.sent && !c.returned
	}
	switch {
	case !unsent:
		return false
	case o.s.caps.FreePeek:
		return true
	case o.s.plan.Gate == GateDLQOnly:
		return over
	default:
		return over || !waits
	}
}

// lookAtQueue finds canaries among the dead again.
func (o *observer) lookAtQueue(ctx context.Context, over bool) error {
	d, err := o.s.Broker.Describe(ctx)
	switch {
	case err != nil:
		o.blind = fmt.Sprintf("the dead-letter queue does not answer: %v", err)
		return ctx.Err()
	case !over && (o.s.Now().Before(o.next) || d.Depth.Exact && d.Depth.Total() == o.seen):
		return nil
	}
	began := o.s.Now()
	seen, err := o.s.Broker.Browse(ctx, 0, o.meet(o.earliest()))
	o.next = o.s.Now().Add(looksPerCost * o.s.Now().Sub(began))
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		o.blind, o.seen = fmt.Sprintf("the look at the dead-letter queue failed: %v", err), -1
	case !seen.Complete:
		o.blind, o.seen = "the look at the dead-letter queue was incomplete: "+seen.Why, -1
	default:
		o.blind, o.seen = "", d.Depth.Total()
	}
	return nil
}

// earliest is the first publish of the sample.
func (o *observer) earliest() time.Time {
	first := o.last
	for _, c := range o.jobs {
		if c.publishedAt.Before(first) {
			first = c.publishedAt
		}
	}
	return first
}

// meet notes each dead copy that is a canary's: by the name that the broker gave
// the message, or, where a worker made another message of it, as the same job, sent
// since. The plan's own copies and older ones are none.
func (o *observer) meet(first time.Time) func(broker.Message) error {
	byName, byJob := map[string]*canaryJob{}, map[string]*canaryJob{}
	for _, c := range o.jobs {
		byJob[c.name()] = c
		if c.newMessageID != "" {
			byName[c.newMessageID] = c
		}
	}
	return func(m broker.Message) error {
		if c := byName[m.MessageID]; c != nil {
			c.returned = true
			return nil
		}
		if _, planned := o.s.plan.Items.of(m.Copy); planned || !m.SentAt.IsZero() && m.SentAt.Before(first.Add(-sentBefore)) {
			return nil
		}
		if c := byJob[nameOf(o.s.Decode(m))]; c != nil {
			c.returned = true
		}
		return nil
	}
}

// name recognises a job among dead copies.
func (c *canaryJob) name() string {
	if c.key.JobKey != "" {
		return "key " + c.key.JobKey
	}
	return "payload " + c.payload
}

func nameOf(j job.Job) string {
	if j.JobKey != "" {
		return "key " + j.JobKey
	}
	return "payload " + j.PayloadSHA256
}

// figures count what is known now.
func (o *observer) figures() Figures {
	f := Figures{
		Canary: o.n, ObservedSeconds: max(0, o.s.Now().Sub(o.last).Seconds()),
		Blind: cmp.Or(o.window, o.blind),
	}
	limit := o.s.plan.Thresholds.MaxP95Seconds
	var took []float64
	for _, c := range o.jobs {
		if c.perhaps && !c.counted {
			continue
		}
		f.Redrives++
		f.count(c)
		if !c.sent {
			continue
		}
		if !c.timed {
			f.Untimed++
			continue
		}
		took = append(took, c.took.Seconds())
		if limit > 0 && c.took.Seconds() > limit {
			f.Slow++
		}
	}
	slices.Sort(took)
	f.P50Seconds, f.P95Seconds = percentile(took, 0.5), percentile(took, 0.95)
	return f
}

// count adds one redrive. What came back has an outcome: it was not sent.
func (f *Figures) count(c *canaryJob) {
	switch {
	case c.sent:
		f.Sent++
	case c.failed, c.returned:
		f.Failed++
	default:
		f.Pending++
	}
	if c.returned {
		f.Returned++
	}
	if c.throttled {
		f.Throttled++
	}
}

// percentile is the nearest-rank one of sorted values; nil where there are none.
func percentile(sorted []float64, share float64) *float64 {
	if len(sorted) == 0 {
		return nil
	}
	v := sorted[int(math.Ceil(share*float64(len(sorted))))-1]
	return &v
}
