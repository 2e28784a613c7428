package sim

import (
	"context"

	"github.com/redrivectl/redrivectl/audit"
	"github.com/redrivectl/redrivectl/reconcile"
	"github.com/redrivectl/redrivectl/redrive"
)

// gate is what the log says of a run's gate.
func (m *memory) gate(run redrive.RunID) (g redrive.GateState, err error) {
	r := m.runs[run]
	if r == nil {
		return g, nil
	}
	p := m.plans[r.Plan].Plan
	if p.Thresholds == nil {
		return g, nil
	}
	g.Exists = p.Canary > 0
	for _, r := range m.log {
		switch {
		case r.Run != string(run) || r.CopyID != "":
		case r.Step == redrive.StepVerdict:
			if g, err = redrive.GateOf(r.Record); err != nil {
				return g, err
			}
		case r.Step == redrive.StepPromote:
			g.Promoted = redrive.GatePromotion{By: r.Actor.Name, Reason: r.Reason, At: r.Time}
		}
	}
	return g, nil
}

// Gate implements redrive.Gates.
func (s storeOf) Gate(_ context.Context, run redrive.RunID) (g redrive.GateState, err error) {
	failed := s.read("gate", func() { g, err = s.m.gate(run) })
	if failed != nil {
		return g, failed
	}
	return g, err
}

// SaveVerdict implements redrive.Gates.
func (s storeOf) SaveVerdict(_ context.Context, l redrive.Lease, rec audit.Record) error {
	return s.write("save verdict", func() error {
		if err := s.m.fence(l, s.now()); err != nil {
			return err
		}
		return s.append([]audit.Record{rec})
	})
}

// Publishes implements redrive.Gates.
func (s storeOf) Publishes(_ context.Context, run redrive.RunID) (ps []redrive.PublishedCopy, err error) {
	err = s.read("publishes", func() {
		for _, r := range s.m.log {
			if r.Run != string(run) {
				continue
			}
			if r.Phase == audit.Intent && r.Action == string(reconcile.Redrive) {
				ps = append(ps, redrive.PublishedCopy{Copy: r.CopyID, Result: redrive.ResultIntended, At: r.Time})
			}
			if r.Phase == audit.Outcome && r.Step == audit.StepPublish {
				ps = append(ps, redrive.PublishedCopy{Copy: r.CopyID, NewMessageID: r.Details["new_message_id"], Result: r.Result, At: r.Time})
			}
		}
	})
	return ps, err
}

// Promote implements redrive.Wishes.
func (s storeOf) Promote(_ context.Context, run redrive.RunID, rec audit.Record) (out redrive.RunRecord, err error) {
	err = s.write("promote", func() error {
		r := s.m.runs[run]
		before := r.record(s.m, s.now())
		g, err := s.m.gate(run)
		if err != nil {
			return err
		}
		if err := g.MayPromote(before); err != nil {
			return err
		}
		rec.Run, rec.Plan, rec.Queue = string(r.ID), string(r.Plan), r.Queue
		out = before
		return s.append([]audit.Record{rec})
	})
	return out, err
}
