package redrive

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/redrivectl/redrivectl/audit"
	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/reconcile"
)

// receive is step 1: up to n open items of the set under lease, matched by copy
// identity. What is not of this plan is held aside until the run ends: released
// at once, it would only come again.
func (s *session) receive(ctx context.Context, set []int, n int) ([]*work, arrival, error) {
	want := s.tracker.open(set, n)
	defer s.tracker.asked(want)
	if len(want) == 0 {
		return nil, nothing, nil
	}
	only, err := s.only(want)
	if err != nil {
		return nil, nothing, err
	}
	asked := s.ask(set, n)
	ds, err := s.Broker.Receive(ctx, broker.Request{Max: asked, Lease: s.deliveryLease(), Only: only})
	if err != nil {
		return nil, nothing, &receiveError{s.plan.Entity, err}
	}
	in := want
	if !s.caps.SelectiveReceive {
		in = set
	}
	var ws []*work
	met := 0 // for the first time
	for _, d := range ds {
		if i, ok := s.tracker.take(d.Copy, in); ok {
			w, err := s.newWork(i, d)
			if err != nil {
				for _, d := range ds {
					s.setAside(d)
				}
				return nil, nothing, err
			}
			ws = append(ws, w)
			continue
		}
		s.breaker.meet(d.Message)
		if s.setAside(d) {
			met++
		}
	}
	s.inPlanOrder(ws)
	switch {
	case len(ws) > 0 || met >= min(asked, atLeast(s.caps.MaxBatch, asked)):
		return ws, much, nil
	case met > 0:
		return nil, others, nil
	default:
		return nil, nothing, nil
	}
}

// only names the copies of items to a broker that can select.
func (s *session) only(is []int) ([]broker.CopyID, error) {
	if !s.caps.SelectiveReceive {
		return nil, nil
	}
	only := make([]broker.CopyID, len(is))
	for n, i := range is {
		it, err := s.plan.Items.At(i)
		if err != nil {
			return nil, err
		}
		only[n] = it.Copy
	}
	return only, nil
}

// ask is how many copies to receive for n items. A broker that cannot select is
// asked for a full batch once every open item is within the rate: more would
// not match, and fewer would take a call for each copy in between.
func (s *session) ask(set []int, n int) int {
	if open, _ := s.tracker.left(set); s.caps.SelectiveReceive || open > n {
		return n
	}
	return max(n, s.caps.MaxBatch)
}

// receiveError is a receive that failed: nothing was leased, as far as is known,
// so it may be tried again.
type receiveError struct {
	entity string
	err    error
}

func (e *receiveError) Error() string { return "receive from " + e.entity + ": " + e.err.Error() }

func (e *receiveError) Unwrap() error { return e.err }

func (s *session) newWork(i int, d broker.Delivery) (*work, error) {
	it, err := s.plan.Items.At(i)
	if err != nil {
		return nil, err
	}
	return s.workOf(i, it, d), nil
}

func (s *session) workOf(i int, it *Item, d broker.Delivery) *work {
	w := &work{index: i, item: it, action: it.Action, delivery: d, job: s.Decode(d.Message), attempt: it.LedgerAttempt}
	if c, ok := changeOf(it, s.run, it.Action); ok && s.writable() && it.Edit == nil {
		w.attempt = &c.Attempt
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if e, ok := s.entries[i]; ok {
		w.intended, w.queued, w.published, w.doubt = e.intended, e.queued, e.published, e.doubt
		if e.settle {
			w.action = reconcile.Settle
		}
	}
	return w
}

// inPlanOrder sorts a batch as the plan has it, unless the broker keeps order
// itself: then its order is the truth.
func (s *session) inPlanOrder(ws []*work) {
	if s.ordered {
		return
	}
	slices.SortStableFunc(ws, func(a, b *work) int { return a.index - b.index })
}

// waves splits a batch so that of one order key only one copy is under way:
// sent, recorded, acknowledged, then the next.
func (s *session) waves(ws []*work) [][]*work {
	if !s.ordered {
		return [][]*work{ws}
	}
	var waves [][]*work
	depth := map[string]int{}
	for _, w := range ws {
		n := 0
		if key := w.delivery.OrderKey; key != "" {
			n = depth[key]
			depth[key]++
		}
		if n == len(waves) {
			waves = append(waves, nil)
		}
		waves[n] = append(waves[n], w)
	}
	return waves
}

// setAside keeps the receipt of a copy until the run ends, without its body. It
// reports whether the copy is met for the first time.
func (s *session) setAside(d broker.Delivery) (first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	first = !s.met[d.Copy]
	s.met[d.Copy] = true
	d.Message = broker.Message{Copy: d.Copy, MessageID: d.MessageID, OrderKey: d.OrderKey}
	s.aside[d.Copy] = d
	return first
}

// keepAside renews what is held aside before its lease ends. A copy whose
// renewal fails is forgotten: it will come again and be held again.
func (s *session) keepAside(ctx context.Context) {
	s.mu.Lock()
	var due []broker.Delivery
	for _, d := range s.aside {
		if d.LeaseUntil.Sub(s.Now()) < s.deliveryLease()/2 {
			due = append(due, d)
		}
	}
	s.mu.Unlock()
	rs := inBatches(due, s.caps.MaxBatch, func(ds []broker.Delivery) []broker.Result {
		return s.Broker.Extend(ctx, ds, s.deliveryLease())
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, d := range due {
		if rs[i].Outcome != broker.Done {
			delete(s.aside, d.Copy)
			continue
		}
		d.LeaseUntil = s.Now().Add(s.deliveryLease())
		s.aside[d.Copy] = d
	}
}

// releaseAside gives back everything that is held.
func (s *session) releaseAside(ctx context.Context) {
	s.letGo(ctx, func(broker.CopyID) bool { return true })
}

// letGo gives back those of what is held aside that which accepts.
func (s *session) letGo(ctx context.Context, which func(broker.CopyID) bool) {
	s.mu.Lock()
	var ds []broker.Delivery
	for c, d := range s.aside {
		if !which(c) {
			continue
		}
		delete(s.aside, c)
		if d.LeaseUntil.After(s.Now()) {
			ds = append(ds, d)
		}
	}
	s.mu.Unlock()
	slices.SortFunc(ds, func(a, b broker.Delivery) int { return compareCopies(a.Copy, b.Copy) })
	s.release(ctx, ds)
}

// release makes copies visible again. Releasing twice is harmless, so what failed
// is tried once more: what cannot be released is hidden until its lease ends.
func (s *session) release(ctx context.Context, ds []broker.Delivery) {
	for range 2 {
		rs := inBatches(ds, s.caps.MaxBatch, func(ds []broker.Delivery) []broker.Result { return s.Broker.Release(ctx, ds) })
		var failed []broker.Delivery
		for i, r := range rs {
			if r.Outcome != broker.Done && !errors.Is(r.Err, broker.ErrLeaseLost) {
				failed = append(failed, ds[i])
			}
		}
		ds = failed
	}
}

// extend makes sure that the broker's lease on each copy outlasts the step, or
// drops the item: a copy that another reader may hold is not acted upon.
func (s *session) extend(ctx context.Context, ws []*work) ([]*work, error) {
	var due []*work
	var ds []broker.Delivery
	for _, w := range ws {
		if w.delivery.LeaseUntil.Sub(s.Now()) < s.deliveryLease()/2 {
			due, ds = append(due, w), append(ds, w.delivery)
		}
	}
	rs := inBatches(ds, s.caps.MaxBatch, func(ds []broker.Delivery) []broker.Result {
		return s.Broker.Extend(ctx, ds, s.deliveryLease())
	})
	stop := map[*work]ItemEnd{}
	for i, w := range due {
		if rs[i].Outcome != broker.Done {
			stop[w] = s.lostDelivery(w)
			continue
		}
		w.delivery.LeaseUntil = s.Now().Add(s.deliveryLease())
	}
	return s.drop(ctx, ws, stop)
}

// lostDelivery: the copy may be delivered again, so the item goes back a few
// times before it is given up.
func (s *session) lostDelivery(w *work) ItemEnd {
	switch {
	case s.again(w):
		return ItemEnd{}
	case w.published:
		return ItemEnd{endUnknown, "ack"}
	default:
		return ItemEnd{endSkipped, "message_lease_lost"}
	}
}

// drop ends the stopped works and returns the others. An unknown outcome leaves
// its intent open, so it has no closing record; an empty end gives the copy
// back for a later batch. Every other stopped copy is held aside.
func (s *session) drop(ctx context.Context, ws []*work, stop map[*work]ItemEnd) ([]*work, error) {
	if len(stop) == 0 {
		return ws, nil
	}
	var recs []audit.Record
	for _, w := range ws {
		if e, ok := stop[w]; ok && e.Result != "" && e.Result != endUnknown {
			recs = append(recs, s.closeRecords(w, e)...)
		}
	}
	if err := s.record(ctx, recs...); err != nil {
		return nil, err
	}
	var on []*work
	for _, w := range ws {
		e, stopped := stop[w]
		switch {
		case !stopped:
			on = append(on, w)
		case e.Result == "":
			s.giveBack(ctx, w)
		default:
			s.tracker.end(w.index, e)
			s.setAside(w.delivery)
		}
	}
	return on, nil
}

// giveBack opens an item again and makes its copy visible for a later batch.
func (s *session) giveBack(ctx context.Context, ws ...*work) {
	ds := make([]broker.Delivery, len(ws))
	for i, w := range ws {
		s.tracker.reopen(w.index)
		ds[i] = w.delivery
	}
	s.release(ctx, ds)
}

func (s *session) deliveryLease() time.Duration {
	if s.caps.MaxLease > 0 {
		return min(s.DeliveryLease, s.caps.MaxLease)
	}
	return s.DeliveryLease
}
