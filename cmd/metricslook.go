package cmd

import (
	"context"
	"time"

	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/job"
	"github.com/redrivectl/redrivectl/reconcile"
	"github.com/redrivectl/redrivectl/redrive"
)

// lookSeen is what a look at the queue came to: one that is made now, or the last
// one that was kept, which is counted once. Nil: there is none.
type lookSeen struct {
	at        time.Time
	complete  bool
	actions   bool // what may be done with the jobs is known
	n         int
	jobs      map[jobLabels]int
	byAction  map[reconcile.Action]int
	keys      map[string]bool // job keys that have a copy
	customers map[string]bool
	recent    int  // failed in the hour before the look
	timed     bool // some job tells when it failed
}

// jobLabels are the labels under which jobs are counted together.
type jobLabels struct{ class, region, schemaVersion string }

func (s *lookSeen) whole() bool { return s != nil && s.complete }

// lookFigures counts the jobs of a look. One that would count as a receive is not
// made: the last one that was kept stands for it, with its age.
func (m *queueMetrics) lookFigures(ctx context.Context, d broker.Description) (*lookSeen, error) {
	free := m.queue.broker != nil && !d.LookCounts && m.queue.broker.Capabilities().FreePeek
	look := m.lookKept
	if m.look && free {
		look = m.lookNow
	}
	seen, err := look(ctx)
	if err != nil {
		return nil, err
	}
	m.putLook(seen)
	return seen, nil
}

func (m *queueMetrics) newLook(at time.Time) *lookSeen {
	return &lookSeen{
		at: at, actions: m.actionsKnown(), jobs: map[jobLabels]int{}, byAction: map[reconcile.Action]int{},
		keys: map[string]bool{}, customers: map[string]bool{},
	}
}

// actionsKnown: without the ledger that the queue should have, what may be done
// with its jobs is not known.
func (m *queueMetrics) actionsKnown() bool { return m.queue.ledger != nil || m.queue.cfg.Ledger == "" }

func (m *queueMetrics) lookNow(ctx context.Context) (*lookSeen, error) {
	src := m.app.queueSource(m.queue, m.store)
	src.tell = func(int64, int64) {}
	seen := m.newLook(m.app.now())
	l, err := src.look(ctx, 0, func(x reconcile.Assessed) error {
		m.count(seen, x)
		return nil
	})
	seen.complete = l.Complete
	return seen, err
}

// lookKept counts the last look that was kept. One that was counted before is not
// read again, unless more can be told of it now.
func (m *queueMetrics) lookKept(ctx context.Context) (*lookSeen, error) {
	if m.store == nil {
		return nil, errNoLook
	}
	seen := m.looks[m.name]
	b := &assessing{ctx: ctx, source: &source{assess: m.app.assessor(m.queue, reading{m.store}).Assess, tell: func(int64, int64) {}}}
	found, err := m.store.WalkCapture(ctx, m.name, func(kept redrive.Capture) func(job.Job) error {
		if seen != nil && seen.at.Equal(kept.CapturedAt) && seen.actions == m.actionsKnown() {
			return nil
		}
		seen = m.newLook(kept.CapturedAt)
		seen.complete = kept.Complete
		b.each = func(x reconcile.Assessed) error {
			m.count(seen, x)
			return nil
		}
		return b.addJob
	})
	if err == nil {
		err = b.flush()
	}
	if err == nil && !found {
		err = errNoLook
	}
	if err != nil {
		return nil, err
	}
	m.looks[m.name] = seen
	return seen, nil
}

func (m *queueMetrics) count(s *lookSeen, x reconcile.Assessed) {
	j := x.Job
	s.n++
	s.jobs[jobLabels{string(x.Class.Class), declared(j.Region, m.regions), declared(j.SchemaVersion, m.versions)}]++
	s.byAction[x.Decision.Action]++
	s.keys[j.JobKey] = true
	if j.CustomerID != "" {
		s.customers[j.CustomerID] = true
	}
	if at := j.Failure.At; !at.IsZero() {
		s.timed = true
		if ago := s.at.Sub(at); ago >= 0 && ago <= time.Hour {
			s.recent++
		}
	}
}

// putLook writes what the look came to. Where no job tells when it failed, how
// many failed lately is not known.
func (m *queueMetrics) putLook(s *lookSeen) {
	complete := 0.0
	if s.complete {
		complete = 1
	}
	m.set.Add("redrivectl_look_age_seconds", m.app.age(s.at), m.name)
	m.set.Add("redrivectl_look_complete", complete, m.name)
	m.set.Add("redrivectl_affected_customers", float64(len(s.customers)), m.name)
	if s.timed || s.n == 0 {
		m.set.Add("redrivectl_jobs_failed_last_hour", float64(s.recent), m.name)
	}
	for l, n := range s.jobs {
		m.set.Add("redrivectl_jobs", float64(n), m.name, l.class, l.region, l.schemaVersion)
	}
	if !s.actions {
		return
	}
	for _, a := range []reconcile.Action{reconcile.Redrive, reconcile.Settle, reconcile.Discard, reconcile.Hold} {
		m.set.Add("redrivectl_jobs_by_action", float64(s.byAction[a]), m.name, string(a))
	}
}
