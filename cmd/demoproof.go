package cmd

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/broker/local"
	"github.com/redrivectl/redrivectl/internal/job"
	"github.com/redrivectl/redrivectl/internal/provider/providertest"
	"github.com/redrivectl/redrivectl/reconcile"
)

// demoCopy is a message as a look at a queue found it. Its key is empty where
// the message tells none.
type demoCopy struct{ messageID, jobKey string }

// demoEvidence is all that the proof rests on: the provider's own log, and what
// was found in the queues and in the archive. What was planned is no part of it.
type demoEvidence struct {
	before  []demoCopy           // quarantined when the recovery began
	logged  int                  // lines of the provider's log at that time
	log     []providertest.Entry // the whole log, afterwards
	dead    []demoCopy           // quarantined afterwards
	waiting []demoCopy           // in the source queue afterwards
	dropped []demoCopy           // discarded, and whole in the archive
}

// demoHeld is a job that is still quarantined, and what it needs.
type demoHeld struct {
	JobKey    *string `json:"job_key"`
	MessageID string  `json:"message_id"`
	Class     string  `json:"class"`
	Needs     string  `json:"needs"`
}

// demoSummary is the demo shape of docs/json-output.md.
type demoSummary struct {
	Jobs             int        `json:"jobs"`
	Redriven         int        `json:"redriven"`
	Settled          int        `json:"settled"`
	Discarded        int        `json:"discarded"`
	Held             int        `json:"held"`
	DuplicateEffects int        `json:"duplicate_effects"`
	Lost             int        `json:"lost"`
	AuditRecords     int        `json:"audit_records"`
	AuditVerified    bool       `json:"audit_verified"`
	Waiting          int        `json:"waiting"`
	Dir              string     `json:"dir"`
	Seed             string     `json:"seed"`
	HeldJobs         []demoHeld `json:"held_jobs"`
}

// prove counts what became of each job that was quarantined: it is held if it
// still is, settled if the provider had accepted it before the recovery,
// redriven if it accepted it since, waiting if it is in the source queue,
// discarded if the archive alone has it, and lost if it is nowhere. Every acceptance of an operation after its first is a
// duplicate effect, whichever job's it is.
func (e demoEvidence) prove() demoSummary {
	early, all := accepts(e.log[:e.logged]), accepts(e.log)
	dead, waiting, dropped := identities(e.dead), identities(e.waiting), identities(e.dropped)
	s := demoSummary{Jobs: len(e.before)}
	for _, c := range e.before {
		switch {
		case c.in(dead):
			s.Held++
		case c.jobKey != "" && early[c.jobKey] > 0:
			s.Settled++
		case c.jobKey != "" && all[c.jobKey] > 0:
			s.Redriven++
		case c.in(waiting):
			s.Waiting++
		case c.in(dropped):
			s.Discarded++
		default:
			s.Lost++
		}
	}
	for _, n := range all {
		s.DuplicateEffects += n - 1
	}
	return s
}

// accepts counts effects by operation. A repeat that an idempotency key
// answered had none.
func accepts(es []providertest.Entry) map[string]int {
	n := map[string]int{}
	for _, e := range es {
		if e.Accepted && !e.Repeat {
			n[e.OpID]++
		}
	}
	return n
}

// identities are the names under which copies can be found again: a message ID
// is new after a redrive, the job key stays.
func identities(cs []demoCopy) map[demoCopy]bool {
	names := map[demoCopy]bool{}
	for _, c := range cs {
		names[demoCopy{messageID: c.messageID}] = true
		if c.jobKey != "" {
			names[demoCopy{jobKey: c.jobKey}] = true
		}
	}
	return names
}

func (c demoCopy) in(names map[demoCopy]bool) bool {
	return names[demoCopy{messageID: c.messageID}] || c.jobKey != "" && names[demoCopy{jobKey: c.jobKey}]
}

// problems are the reasons for which the recovery was not what it promises.
func (s demoSummary) problems() []string {
	var ps []string
	if s.DuplicateEffects != 0 {
		ps = append(ps, fmt.Sprintf("%d effects happened again", s.DuplicateEffects))
	}
	if s.Lost != 0 {
		ps = append(ps, fmt.Sprintf("%d jobs are lost", s.Lost))
	}
	if n := s.Redriven + s.Settled + s.Discarded + s.Held; n != s.Jobs {
		ps = append(ps, fmt.Sprintf("%d of %d jobs are accounted for", n, s.Jobs))
	}
	if !s.AuditVerified {
		ps = append(ps, "the audit log does not verify")
	}
	return ps
}

func (s demoSummary) verdict() error {
	if ps := s.problems(); len(ps) > 0 {
		return fail(exitFailed, "", "the demo has failed: %s", strings.Join(ps, "; "))
	}
	return nil
}

func (s demoSummary) result() result {
	return result{
		Object: s, Headers: []string{"what", "count"},
		Rows: [][]string{
			{"jobs quarantined", count(s.Jobs)},
			{"redriven", count(s.Redriven)},
			{"settled", count(s.Settled)},
			{"discarded", count(s.Discarded)},
			{"held", count(s.Held)},
			{"duplicate effects", count(s.DuplicateEffects)},
			{"lost", count(s.Lost)},
			{"audit records", count(s.AuditRecords)},
			{"audit verified", strconv.FormatBool(s.AuditVerified)},
		},
	}
}

// evidence is what is found before the recovery.
func (w *demoWorld) evidence(ctx context.Context) (e demoEvidence, err error) {
	if e.before, err = browseDemo(ctx, w.dead); err != nil {
		return e, err
	}
	es, err := w.log.read()
	e.logged = len(es)
	return e, err
}

// complete adds what is found after it.
func (w *demoWorld) complete(ctx context.Context, e *demoEvidence) (err error) {
	if e.log, err = w.log.read(); err != nil {
		return err
	}
	if e.dead, err = browseDemo(ctx, w.dead); err != nil {
		return err
	}
	if e.waiting, err = browseDemo(ctx, w.source); err != nil {
		return err
	}
	e.dropped, err = w.dropped(ctx)
	return err
}

// dropped are the copies that the archive has of discarded jobs.
func (w *demoWorld) dropped(ctx context.Context) (cs []demoCopy, err error) {
	var v struct {
		Archives []struct {
			Action    string `json:"action"`
			JobKey    string `json:"job_key"`
			MessageID string `json:"message_id"`
		} `json:"archives"`
	}
	code, err := w.ask(ctx, &v, "store", "archives")
	if err == nil && code != exitDone {
		err = fail(exitFailed, "", "redrivectl store archives ended with exit code %d", code)
	}
	for _, a := range v.Archives {
		if a.Action == string(reconcile.Discard) {
			cs = append(cs, demoCopy{messageID: a.MessageID, jobKey: a.JobKey})
		}
	}
	return cs, err
}

func browseDemo(ctx context.Context, q *local.Queue) ([]demoCopy, error) {
	cs := []demoCopy{}
	whole, err := q.Browse(ctx, 0, func(m broker.Message) error {
		cs = append(cs, demoCopy{messageID: m.MessageID, jobKey: job.Decode(m, demoQueue).JobKey})
		return nil
	})
	if err == nil && !whole.Complete {
		err = fmt.Errorf("look at a queue of the demo: %s", whole.Why)
	}
	return cs, err
}

// summary proves what happened, and asks the program itself for the rest.
func (w *demoWorld) summary(ctx context.Context, e demoEvidence) (demoSummary, error) {
	w.chapter("Proof, from the provider's own log, the queues and the archive")
	s := e.prove()
	s.Dir, s.Seed = w.dir, strconv.FormatUint(w.seed, 10)
	var audited struct {
		OK      bool `json:"ok"`
		Records int  `json:"records"`
	}
	code, err := w.ask(ctx, &audited, "audit", "verify")
	if err != nil {
		return s, err
	}
	s.AuditRecords, s.AuditVerified = audited.Records, audited.OK && code == exitDone
	s.HeldJobs, err = w.held(ctx)
	return s, err
}

func (w *demoWorld) held(ctx context.Context) ([]demoHeld, error) {
	js, err := w.listed(ctx)
	if err != nil {
		return nil, err
	}
	hs := []demoHeld{}
	for _, j := range js {
		hs = append(hs, demoHeld{JobKey: text(j.JobKey), MessageID: j.MessageID, Class: j.Class, Needs: j.Needs})
	}
	slices.SortStableFunc(hs, func(a, b demoHeld) int { return strings.Compare(a.Class, b.Class) })
	return hs, nil
}
