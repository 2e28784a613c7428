package cmd

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/classify"
	"github.com/redrivectl/redrivectl/internal/job"
	"github.com/redrivectl/redrivectl/reconcile"
	"github.com/redrivectl/redrivectl/redrive"
)

// located is a job that was asked for by name, with what it was found in.
type located struct {
	assessed reconcile.Assessed
	policy   *classify.Policy
	queue    *queue // nil: found in a dump
	copies   int    // how many copies of the job there are
}

// findJob looks for JOB: a job key or a unique prefix of it, or a message ID. It
// looks in one queue, in all configured ones, or in a dump.
func (a *app) findJob(ctx context.Context, arg, queueName string) (located, error) {
	if queueName == "" && isFile(arg) {
		return a.firstOfDump(ctx, arg)
	}
	cfg, err := a.config()
	if err != nil {
		return located{}, err
	}
	names := configured(cfg)
	if queueName != "" {
		names = []string{queueName}
	}
	if len(names) == 0 {
		return located{}, fail(exitFailed, "name a --queue, or configure one", "no queue is configured to look for %s in", arg)
	}
	var hits []located
	for _, name := range names {
		found, err := a.findIn(ctx, name, arg)
		if err != nil {
			return located{}, err
		}
		hits = append(hits, found...)
	}
	switch {
	case len(hits) == 0:
		return located{}, fail(exitFailed, "redrivectl list "+names[0]+" --jobs", "no quarantined job %q in %s", arg, strings.Join(names, ", "))
	case len(hits) > 1:
		return located{}, fail(exitFailed, "type more of the job key, or a message ID", "%q names %d different jobs", arg, len(hits))
	}
	return hits[0], nil
}

// findIn gathers the distinct jobs of one queue that the argument names. A whole
// key or message ID wins over prefixes.
func (a *app) findIn(ctx context.Context, name, arg string) ([]located, error) {
	q, err := a.queue(ctx, name)
	if err != nil {
		return nil, err
	}
	exact, prefixed := map[string][]job.Job{}, map[string][]job.Job{}
	_, err = q.broker.Browse(ctx, 0, func(m broker.Message) error {
		j := q.decode(m)
		id := firstText(j.JobKey, m.Copy.String())
		switch {
		case j.JobKey == arg || m.MessageID == arg:
			exact[id] = append(exact[id], j)
		case j.JobKey != "" && strings.HasPrefix(j.JobKey, arg):
			prefixed[id] = append(prefixed[id], j)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("look at %s: %w", name, err)
	}
	if len(exact) == 0 {
		exact = prefixed
	}
	st, err := a.storeIfAny(ctx)
	if err != nil {
		return nil, err
	}
	r := a.judge(q, reading{st})
	var hits []located
	for _, id := range slices.Sorted(maps.Keys(exact)) {
		xs, err := r.Assess(ctx, exact[id][:1], redrive.Lifts{})
		if err != nil {
			return nil, err
		}
		hits = append(hits, located{assessed: xs[0], policy: q.policy, queue: q, copies: len(exact[id])})
	}
	return hits, nil
}

func (a *app) firstOfDump(ctx context.Context, arg string) (located, error) {
	src, err := a.dumpSource(arg)
	if err != nil {
		return located{}, err
	}
	var found []located
	_, err = src.look(ctx, 0, func(x reconcile.Assessed) error {
		found = append(found, located{assessed: x, policy: src.policy, copies: 1})
		return nil
	})
	switch {
	case err != nil:
		return located{}, err
	case len(found) != 1:
		return located{}, fail(exitFailed, "redrivectl list "+arg+" --jobs", "%s holds %d messages; name one job in a queue, or a file with one message", arg, len(found))
	}
	return found[0], nil
}
