package cmd

import (
	"context"
	"slices"
	"strings"

	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/classify"
	"github.com/redrivectl/redrivectl/internal/job"
	"github.com/redrivectl/redrivectl/internal/store"
	"github.com/redrivectl/redrivectl/reconcile"
)

// queueLook is what one look at a queue found that the text may name.
type queueLook struct {
	queue    string
	jobs     []job.Job
	complete broker.Completeness
	policy   *classify.Policy
	counts   bool // the look counted as a receive
	err      error
}

func (t *tracer) lookAt(ctx context.Context, name string) queueLook {
	l := queueLook{queue: name}
	q, err := t.app.queueAlone(ctx, name)
	if err != nil {
		l.err = err
		return l
	}
	l.policy = q.policy
	if d, err := q.broker.Describe(ctx); err == nil {
		l.counts = d.LookCounts
	}
	l.complete, l.err = q.broker.Browse(ctx, 0, func(m broker.Message) error {
		if j := q.decode(m); strings.HasPrefix(j.JobKey, t.text) || strings.HasPrefix(m.MessageID, t.text) || m.Copy.String() == t.text {
			l.jobs = append(l.jobs, j)
		}
		return nil
	})
	return l
}

// resolve finds out which one job the text names. A whole key, message ID or
// copy wins over beginnings. What nobody knows is taken for a whole job key, for
// the ledgers to know.
func (t *tracer) resolve(ctx context.Context) error {
	names := []store.Name{}
	if t.st != nil {
		var err error
		if names, err = t.st.Names(ctx, t.text); err != nil {
			t.source("store", func() error { return err })
		}
	}
	for _, l := range t.looks {
		for _, j := range l.jobs {
			names = append(names, nameOf(j))
		}
	}
	byJob, whole := map[string][]store.Name{}, map[string][]store.Name{}
	for _, n := range names {
		id := firstText(n.JobKey, n.MessageID, n.CopyID)
		byJob[id] = append(byJob[id], n)
		if n.JobKey == t.text || n.MessageID == t.text || n.CopyID == t.text {
			whole[id] = append(whole[id], n)
		}
	}
	if _, isKey := whole[t.text]; isKey {
		whole = map[string][]store.Name{t.text: whole[t.text]}
	}
	if len(whole) > 0 {
		byJob = whole
	}
	switch len(byJob) {
	case 0:
		t.names = []store.Name{{JobKey: t.text}}
	case 1:
		for _, ns := range byJob {
			t.names = ns
		}
	default:
		return fail(exitFailed, "type more of the job key, or a message ID", "%q names %d different jobs", t.text, len(byJob))
	}
	return nil
}

func nameOf(j job.Job) store.Name {
	return store.Name{JobKey: j.JobKey, MessageID: j.Message.MessageID, CopyID: j.Message.Copy.String()}
}

// key is the job key; empty: the job has none.
func (t *tracer) key() string { return t.names[0].JobKey }

// asked are the names to ask the store by: the one job key, or each copy.
func (t *tracer) asked() []store.Name {
	if k := t.key(); k != "" {
		return []store.Name{{JobKey: k}}
	}
	return t.names
}

// is reports whether a copy in a queue is the job's.
func (t *tracer) is(j job.Job) bool {
	if k := t.key(); k != "" {
		return j.JobKey == k
	}
	return j.JobKey == "" && slices.ContainsFunc(t.names, func(n store.Name) bool { return n.MessageID == j.Message.MessageID })
}

// queues are the configured ones, or the one that was named.
func (t *tracer) queues() []string {
	if t.queue != "" {
		return []string{t.queue}
	}
	return configured(t.app.cfg)
}

// crosses reports that the job names another region than the one that a queue is
// bound to: then nothing is asked about it there.
func (t *tracer) crosses(bound string) bool {
	for _, l := range t.looks {
		if slices.ContainsFunc(l.jobs, func(j job.Job) bool { return t.is(j) && reconcile.CrossesRegion(bound, j.Region) }) {
			return true
		}
	}
	return slices.ContainsFunc(t.rows, func(r tracedRow) bool { return reconcile.CrossesRegion(bound, r.Region) })
}
