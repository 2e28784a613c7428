package redrive

import (
	"context"

	"github.com/redrivectl/redrivectl/audit"
	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/crash"
)

// acknowledge is step 6: exactly the received copies whose publish is recorded,
// or which are settled or discarded, with their archive written.
func (s *session) acknowledge(ctx context.Context, ws []*work) ([]*work, error) {
	crash.At("run.5.recorded")
	if err := s.lease.check(ctx); err != nil {
		return nil, err
	}
	rs := s.ack(ctx, ws)
	crash.At("run.6.acknowledged")
	recs := make([]audit.Record, len(ws))
	for i, w := range ws {
		recs[i] = s.outcomeRecord(w, audit.StepAck, rs[i])
	}
	if err := s.record(ctx, recs...); err != nil {
		return nil, err
	}
	crash.At("run.6.recorded")
	for i, w := range ws {
		switch {
		case rs[i].Outcome == broker.Done:
			s.tracker.end(w.index, endOf(w.action))
		case s.deny("delete from "+s.plan.Entity, rs[i]):
			s.tracker.end(w.index, ItemEnd{endUnknown, "ack"})
			s.setAside(w.delivery)
		case rs[i].Outcome == broker.Refused && s.again(w):
			s.giveBack(ctx, w) // another delivery of this copy may be acknowledged
		default: // it may still be there, for resume to find
			s.tracker.end(w.index, ItemEnd{endUnknown, "ack"})
			s.setAside(w.delivery)
		}
	}
	return nil, nil
}

// ack asks once more about the copies of which no answer came: to take away what is
// gone changes nothing, so where the second answer says done it is.
func (s *session) ack(ctx context.Context, ws []*work) []broker.Result {
	ds := make([]broker.Delivery, len(ws))
	for i, w := range ws {
		ds[i] = w.delivery
	}
	send := func(ds []broker.Delivery) []broker.Result { return s.Broker.Ack(ctx, ds) }
	rs := inBatches(ds, s.caps.MaxBatch, send)
	var open []int
	var left []broker.Delivery
	for i, r := range rs {
		if r.Outcome == broker.Unknown {
			open, left = append(open, i), append(left, ds[i])
		}
	}
	if len(open) == 0 || s.lease.check(ctx) != nil {
		return rs
	}
	for k, r := range inBatches(left, s.caps.MaxBatch, send) {
		if r.Outcome == broker.Done {
			rs[open[k]] = r
		}
	}
	return rs
}
