package cmd

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/job"
	"github.com/redrivectl/redrivectl/internal/tui"
	"github.com/redrivectl/redrivectl/redrive"
)

// Show is what show prints, in the order in which a person asks.
func (d *triageDesk) Show(ctx context.Context, queue, id string, as tui.Content) (sheet tui.Sheet, err error) {
	k, err := d.last(queue)
	if err != nil {
		return sheet, err
	}
	err = d.wish(nil, func(a *app) error {
		found, err := k.locate(ctx, a, id, as.LookAgain)
		if err != nil {
			return err
		}
		o := &showOptions{app: a, queue: queue, reveal: as.Reveal, reason: as.Reason, form: as.Form}
		v, err := o.sheet(ctx, found)
		if err != nil {
			return err
		}
		sheet = newSheet(id, v, found.assessed.Job)
		return nil
	})
	return sheet, err
}

// locate is the job as the last look found it, with what ledger and store say of it
// now. With again the queue is looked at for what was not kept of it.
func (k *keptLook) locate(ctx context.Context, a *app, id string, again bool) (located, error) {
	i := slices.IndexFunc(k.view.Jobs, func(j tui.Job) bool { return j.ID == id })
	if i < 0 {
		return located{}, fmt.Errorf("this copy was not in %s at the last look", k.queue)
	}
	q, err := a.queue(ctx, k.queue)
	if err != nil {
		return located{}, err
	}
	j := k.jobs[i].Job
	if again && contentDropped(j) {
		if j, err = lookAgain(ctx, q, id); err != nil {
			return located{}, err
		}
	}
	st, err := a.storeIfAny(ctx)
	if err != nil {
		return located{}, err
	}
	xs, err := a.judge(q, reading{st}).Assess(ctx, []job.Job{j}, redrive.Lifts{})
	if err != nil {
		return located{}, err
	}
	return located{assessed: xs[0], policy: q.policy, queue: q, copies: k.copies(j)}, nil
}

// contentDropped reports that the look did not keep the job's content.
func contentDropped(j job.Job) bool { return j.Payload == nil && j.PayloadBytes > 0 }

// lookAgain finds one copy in its queue, with its content.
func lookAgain(ctx context.Context, q *queue, id string) (job.Job, error) {
	var found *job.Job
	_, err := q.broker.Browse(ctx, 0, func(m broker.Message) error {
		if m.Copy.String() != id {
			return nil
		}
		j := q.decode(m)
		found = &j
		return errEnough
	})
	switch {
	case found != nil:
		return *found, nil
	case err != nil:
		return job.Job{}, fmt.Errorf("look at %s: %w", q.name, err)
	default:
		return job.Job{}, fmt.Errorf("this copy is not in %s any more, or was not visible", q.name)
	}
}

// copies counts the copies of the job that the look found.
func (k *keptLook) copies(j job.Job) int {
	n := 0
	for _, x := range k.jobs {
		if j.JobKey != "" && x.Job.JobKey == j.JobKey || x.Job.Message.Copy == j.Message.Copy {
			n++
		}
	}
	return n
}

// sheetSections are the questions that a job's sheet answers, each with what show
// names the answers. What none names stands under the last.
var sheetSections = []struct {
	title string
	names []string
}{
	{"what was intended", []string{"intended", "customer", "queue"}},
	{"what was attempted", []string{"ledger", "receives", "copies", "quarantined by"}},
	{"why it stopped", []string{"stopped", "class", "effect", "runbook", "not read"}},
	{"what it needs next", []string{"action", "needs", "a redrive needs", "on hold", "not redrivable", "in plan"}},
	{"the four IDs", []string{"job key", "ledger row", "message ID", "request ID"}},
	{"provider evidence", []string{"verdict"}},
}

func newSheet(id string, v showView, j job.Job) tui.Sheet {
	s := tui.Sheet{ID: id}
	rows := v.rows()
	attempts, history := toRows(v.attemptRows()), toRows(v.historyRows())
	taken := map[string]bool{}
	for _, r := range slices.Concat(attempts, history) {
		taken[r.Name] = true
	}
	for _, sec := range sheetSections {
		out := tui.Section{Title: sec.title}
		for _, name := range sec.names {
			taken[name] = true
			for _, r := range rows {
				if r[0] == name {
					out.Rows = append(out.Rows, tui.Row{Name: r[0], Value: r[1]})
				}
			}
		}
		switch sec.title {
		case "what was attempted":
			out.Rows = append(out.Rows, attempts...)
		case "provider evidence":
			out.Rows = append(out.Rows, evidenceRows(v.Evidence)...)
		}
		s.Sections = append(s.Sections, out)
	}
	s.Sections = append(s.Sections, tui.Section{Title: "ledger history, newest first", Rows: history})
	rest := tui.Section{Title: "what else came with it"}
	for _, r := range toRows(rows) {
		if !taken[r.Name] {
			rest.Rows = append(rest.Rows, r)
		}
	}
	s.Sections = append(s.Sections, rest)
	s.Payload = tui.Payload{
		Form: v.Payload.Form, Text: v.Payload.Text, Bytes: v.Payload.Bytes, Cut: v.Payload.Cut, Masked: v.Payload.Masked, Revealed: v.Revealed,
	}
	if contentDropped(j) {
		s.Payload = tui.Payload{Bytes: j.PayloadBytes, Missing: "not kept from the last look, which was long"}
	}
	return s
}

func toRows(rows [][]string) []tui.Row {
	out := make([]tui.Row, len(rows))
	for i, r := range rows {
		out[i] = tui.Row{Name: r[0], Value: r[1]}
	}
	return out
}

// evidenceRows is the evidence of a verdict, a line for each line of its JSON.
func evidenceRows(evidence any) []tui.Row {
	if evidence == nil {
		return nil
	}
	b, err := json.MarshalIndent(evidence, "", "  ")
	if err != nil {
		return []tui.Row{{Name: "evidence", Value: "not to be shown: " + err.Error()}}
	}
	var rows []tui.Row
	for line := range strings.Lines(string(b)) {
		if line = strings.TrimRight(line, "\n"); strings.Trim(line, " {}[],") != "" {
			rows = append(rows, tui.Row{Value: strings.TrimRight(strings.TrimPrefix(line, "  "), ",")})
		}
	}
	return rows
}

// Timeline is what trace prints, with the copies that the last look found.
func (d *triageDesk) Timeline(ctx context.Context, queue, id string) (entries []tui.Entry, err error) {
	k, err := d.last(queue)
	if err != nil {
		return nil, err
	}
	err = d.wish(nil, func(a *app) error {
		t, err := k.tracer(ctx, a, id)
		if err != nil {
			return err
		}
		if err := t.gather(ctx); err != nil {
			return err
		}
		for _, e := range t.entries {
			entries = append(entries, tui.Entry{At: e.At, Clock: e.Clock, Source: e.Source, What: e.sentence()})
		}
		for _, s := range t.sources {
			if s.silent() {
				entries = append(entries, tui.Entry{At: a.now(), Clock: clockOperator, Source: s.Source, What: "did not answer: " + or(s.Why)})
			}
		}
		return nil
	})
	return entries, err
}

func (k *keptLook) tracer(ctx context.Context, a *app, id string) (*tracer, error) {
	found, err := k.locate(ctx, a, id, false)
	if err != nil {
		return nil, err
	}
	j := found.assessed.Job
	l := queueLook{queue: k.queue, policy: found.policy, complete: broker.Completeness{Complete: k.seen.Complete, Why: k.seen.Why}}
	for _, x := range k.jobs {
		if x.Job.Message.Copy == j.Message.Copy || j.JobKey != "" && x.Job.JobKey == j.JobKey {
			l.jobs = append(l.jobs, x.Job)
		}
	}
	return &tracer{app: a, text: firstText(j.JobKey, id), queue: k.queue, looks: []queueLook{l}}, nil
}
