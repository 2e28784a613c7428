package sim

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/redrivectl/redrivectl/audit"
	"github.com/redrivectl/redrivectl/redrive"
)

func (r *runRow) record(m *memory, now time.Time) redrive.RunRecord {
	out := r.RunRecord
	l := m.leases[r.key]
	out.Lives = (r.State == redrive.RunRunning || r.State == redrive.RunPaused) && l != nil && l.Run == r.ID && l.Expires.After(now)
	out.Wish = m.wishes[r.ID]
	return out
}

// whole is the record with what is said of the run's gate, as a look at runs has it.
func (r *runRow) whole(m *memory, now time.Time) (redrive.RunRecord, error) {
	out := r.record(m, now)
	var err error
	out.Gate, err = m.gate(r.ID)
	return out, err
}

func (m *memory) taken(what string, run redrive.RunID) error {
	r := m.runs[run]
	e := &redrive.TakenError{What: what, Run: run, Holder: r.Holder, Since: r.StartedAt}
	if l := m.leases[r.key]; l != nil && l.Run == run {
		e.Holder, e.Since, e.Until = l.Holder, l.Since, l.Expires
	}
	return e
}

func (m *memory) begin(b redrive.Begin, now time.Time, check func(redrive.Frozen, []redrive.Approval) error, rec audit.Record) (redrive.Frozen, redrive.Lease, error) {
	p, err := m.plan(string(b.Plan), now)
	if err != nil {
		return redrive.Frozen{}, redrive.Lease{}, err
	}
	k := m.plans[p.ID]
	if p.Run != "" {
		return redrive.Frozen{}, redrive.Lease{}, m.taken("plan", p.Run)
	}
	if err := m.refuseHeld(k.key, b.Run, now); err != nil {
		return redrive.Frozen{}, redrive.Lease{}, err
	}
	f, err := p.Open()
	if b.Opened != nil {
		f.Items = b.Opened.Items
	}
	if err != nil {
		return redrive.Frozen{}, redrive.Lease{}, err
	}
	if err := check(f, slices.Clone(m.says[p.ID])); err != nil {
		return redrive.Frozen{}, redrive.Lease{}, err
	}
	r := &runRow{redrive.RunRecord{ID: b.Run, Plan: p.ID, Queue: p.Plan.Queue, State: redrive.RunRunning, Holder: b.Holder, StartedAt: now}, k.key}
	m.runs[b.Run], m.started = r, append(m.started, b.Run)
	k.State, k.Run = redrive.PlanRunning, b.Run
	rec.Run, rec.Plan = string(b.Run), string(p.ID)
	return f, m.takeLease(k.key, p.Plan.Queue, b, now), m.mark(now, rec)
}

func (m *memory) refuseHeld(key string, run redrive.RunID, now time.Time) error {
	if l := m.leases[key]; l != nil && l.Run != run && l.Expires.After(now) {
		return m.taken("queue", l.Run)
	}
	return nil
}

func (m *memory) takeLease(key, queue string, b redrive.Begin, now time.Time) redrive.Lease {
	m.token++
	l := redrive.Lease{Queue: queue, Run: b.Run, Holder: b.Holder, Token: m.token, Since: now.UTC(), Expires: now.Add(b.TTL).UTC()}
	m.leases[key] = &leaseRow{l, key}
	return l
}

func (m *memory) resume(run redrive.RunID, b redrive.Begin, now time.Time, rec audit.Record) (redrive.Lease, error) {
	r := m.runs[run]
	switch {
	case r == nil:
		return redrive.Lease{}, fmt.Errorf("run %s: %w", run, redrive.ErrNotFound)
	case m.busy(r, now):
		return redrive.Lease{}, m.taken("plan", run)
	case r.State.Ended():
		return redrive.Lease{}, fmt.Errorf("run %s is %s: %w", run, r.State, redrive.ErrRefused)
	}
	if err := m.refuseHeld(r.key, run, now); err != nil {
		return redrive.Lease{}, err
	}
	r.State, r.Holder, r.EndedAt = redrive.RunRunning, b.Holder, time.Time{}
	m.forgetPause(run)
	b.Run = run
	rec.Run, rec.Plan = string(run), string(r.Plan)
	return m.takeLease(r.key, r.Queue, b, now), m.mark(now, rec)
}

// busy reports that the run lives, or is being rolled back.
func (m *memory) busy(r *runRow, now time.Time) bool {
	l := m.leases[r.key]
	return r.record(m, now).Lives || l != nil && l.Run == r.ID && l.Expires.After(now)
}

func (m *memory) beginRollback(b redrive.Begin, w redrive.Wish, now time.Time, rec audit.Record) (redrive.Lease, error) {
	r := m.runs[b.Run]
	if m.busy(r, now) {
		return redrive.Lease{}, m.taken("plan", b.Run)
	}
	if err := m.refuseHeld(r.key, b.Run, now); err != nil {
		return redrive.Lease{}, err
	}
	if !r.State.Ended() && m.wishes[b.Run].Kind != redrive.WishAbort {
		m.wishes[b.Run] = w
	}
	rec.Run, rec.Plan = string(b.Run), string(r.Plan)
	return m.takeLease(r.key, r.Queue, b, now), m.append(now, rec)
}

func (m *memory) endRollback(l redrive.Lease, now time.Time, rec audit.Record) error {
	if err := m.fence(l, now); err != nil {
		return err
	}
	delete(m.leases, m.runs[l.Run].key)
	return m.append(now, rec)
}

func (m *memory) forgetPause(run redrive.RunID) {
	if m.wishes[run].Kind == redrive.WishPause {
		delete(m.wishes, run)
	}
}

// fence refuses a lease that another holds, or that has expired at now; with the
// zero time it may have expired.
func (m *memory) fence(l redrive.Lease, now time.Time) error {
	have := m.leases[m.runs[l.Run].key]
	if have == nil || have.Token != l.Token || !now.IsZero() && !now.Before(have.Expires) {
		return fmt.Errorf("run %s: %w", l.Run, audit.ErrFenced)
	}
	return nil
}

func (m *memory) heartbeat(l redrive.Lease, now time.Time, ttl time.Duration) (redrive.Lease, error) {
	if err := m.fence(l, time.Time{}); err != nil {
		return l, err
	}
	l.Expires = now.Add(ttl).UTC()
	m.leases[m.runs[l.Run].key].Expires = l.Expires
	return l, nil
}

func (m *memory) setState(l redrive.Lease, s redrive.RunState, now time.Time, rec audit.Record) error {
	if err := m.fence(l, now); err != nil {
		return err
	}
	m.runs[l.Run].State = s
	return m.append(now, rec)
}

func (m *memory) end(l redrive.Lease, s redrive.RunState, report redrive.Report, now time.Time, rec audit.Record) error {
	if err := m.fence(l, time.Time{}); err != nil {
		return err
	}
	r := m.runs[l.Run]
	r.State, r.EndedAt, r.Report = s, now, report
	delete(m.leases, r.key)
	m.forgetPause(l.Run)
	if k := m.plans[r.Plan]; s.Ended() && k.State == redrive.PlanRunning {
		k.State = redrive.PlanFinished
	}
	rec.Run, rec.Plan = string(l.Run), string(r.Plan)
	return m.mark(now, rec)
}

func (m *memory) saveWish(w redrive.Wish, now time.Time, rec audit.Record) (redrive.RunRecord, error) {
	r := m.runs[w.Run]
	before := r.record(m, now)
	refuse := func(why string) (redrive.RunRecord, error) {
		return before, fmt.Errorf("run %s %s: %w", w.Run, why, redrive.ErrRefused)
	}
	switch {
	case before.State.Ended():
		return refuse("has ended")
	case w.Kind == redrive.WishPause && !before.Lives:
		return refuse("does not live")
	case w.Kind == redrive.WishPause && before.Wish.Kind == redrive.WishAbort:
		return refuse("is to be aborted")
	}
	m.wishes[w.Run] = w
	rec.Run, rec.Plan, rec.Queue = string(r.ID), string(r.Plan), r.Queue
	return r.record(m, now), m.append(now, rec)
}

func (m *memory) liftPause(run redrive.RunID, now time.Time, rec audit.Record) (redrive.RunRecord, error) {
	r := m.runs[run]
	before := r.record(m, now)
	if !before.Lives || before.Wish.Kind != redrive.WishPause {
		return before, fmt.Errorf("no pause is asked of run %s: %w", run, redrive.ErrRefused)
	}
	m.forgetPause(run)
	rec.Run, rec.Plan, rec.Queue = string(r.ID), string(r.Plan), r.Queue
	return r.record(m, now), m.append(now, rec)
}

// copies folds a run's records by copy, as the audit log's own rules have it.
func (m *memory) copies(run redrive.RunID) map[string]*audit.CopyState {
	states := map[string]*audit.CopyState{}
	for _, r := range m.log {
		if r.Run != string(run) || r.CopyID == "" {
			continue
		}
		if states[r.CopyID] == nil {
			states[r.CopyID] = &audit.CopyState{}
		}
		states[r.CopyID].See(r.Record)
	}
	return states
}

func (m *memory) openIntents(run redrive.RunID) []redrive.Intent {
	states := m.copies(run)
	var open []redrive.Intent
	for _, id := range slices.Sorted(maps.Keys(states)) {
		if c := states[id]; c.Intent != 0 {
			open = append(open, redrive.Intent{Seq: c.Intent, Record: m.log[c.Intent-1].Record, Publish: c.Publish})
		}
	}
	slices.SortFunc(open, func(a, b redrive.Intent) int { return int(a.Seq - b.Seq) })
	return open
}

func (m *memory) ends(run redrive.RunID) map[string]redrive.ItemEnd {
	ends := map[string]redrive.ItemEnd{}
	for id, c := range m.copies(run) {
		if c.Ended != "" {
			ends[id] = redrive.ItemEnd{Result: c.Ended, Reason: c.Reason}
		}
	}
	return ends
}

// openReconciliations are the intents of fences and moves without an outcome.
func (m *memory) openReconciliations(queue string) []audit.Record {
	open := map[string]audit.Record{}
	for _, r := range m.log {
		if r.Queue != queue || r.Run != "" || r.Action != "fence" && r.Action != "reconcile" {
			continue
		}
		delete(open, r.Action+r.JobKey)
		if r.Phase == audit.Intent {
			open[r.Action+r.JobKey] = r.Record
		}
	}
	var rs []audit.Record
	for _, k := range slices.Sorted(maps.Keys(open)) {
		rs = append(rs, open[k])
	}
	return rs
}
