package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/broker/dump"
	"github.com/redrivectl/redrivectl/internal/classify"
	"github.com/redrivectl/redrivectl/internal/job"
	"github.com/redrivectl/redrivectl/internal/store"
	"github.com/redrivectl/redrivectl/internal/term"
	"github.com/redrivectl/redrivectl/reconcile"
)

// How much is assessed at once: one ledger query, and the memory that a look
// needs.
const (
	assessBatch = 500
	assessBytes = 8 << 20 // of their bodies
)

// source is what can be looked at: a queue, or a dump that needs no config.
type source struct {
	name   string
	broker string
	policy *classify.Policy
	decode func(broker.Message) job.Job
	assess func(context.Context, []job.Job) ([]reconcile.Assessed, error)
	browse func(ctx context.Context, limit int, each func(broker.Message) error) (broker.Completeness, error)
	// describe is nil for a dump.
	describe func(context.Context) (broker.Description, error)
	now      func() time.Time
	tell     func(done, total int64)
}

// look is what is known of one look as a whole.
type look struct {
	At         time.Time
	Complete   bool
	Why        string
	Counted    string
	Total      int64
	LookCounts bool
	Retention  time.Duration // of the queue; 0: for ever, or not told
}

// isFile reports whether an argument names a dump: "-", or an existing path
// that contains a separator or ends in .json or .jsonl.
func isFile(arg string) bool {
	if arg == "-" {
		return true
	}
	if !looksLikeFile(arg) {
		return false
	}
	info, err := os.Stat(arg)
	return err == nil && !info.IsDir()
}

func looksLikeFile(arg string) bool {
	ext := filepath.Ext(arg)
	return strings.ContainsAny(arg, `/\`) || ext == ".json" || ext == ".jsonl"
}

// source resolves a QUEUE|FILE|- argument.
func (a *app) source(ctx context.Context, arg string, file bool) (*source, error) {
	if file || isFile(arg) {
		return a.dumpSource(arg)
	}
	q, err := a.queue(ctx, arg)
	if err != nil {
		return nil, err
	}
	st, err := a.storeIfAny(ctx)
	if err != nil {
		return nil, err
	}
	return a.queueSource(q, st), nil
}

func (a *app) queueSource(q *queue, st *store.Store) *source {
	p := a.progress()
	return &source{
		name: q.name, broker: q.brokerName, policy: q.policy, decode: q.decode, assess: a.assessor(q, reading{st}).Assess,
		browse: q.broker.Browse, describe: q.describe, now: a.now,
		tell: stepper(p, "looking at "+q.name),
	}
}

func (a *app) dumpSource(arg string) (*source, error) {
	policy, err := classify.Default()
	if err != nil {
		return nil, err
	}
	r := a.assessorAlone(policy, arg)
	return &source{
		name: arg, broker: "dump", policy: policy, now: a.now, tell: func(int64, int64) {},
		decode: func(m broker.Message) job.Job { return job.Decode(m, arg) },
		assess: r.Assess,
		browse: func(ctx context.Context, limit int, each func(broker.Message) error) (broker.Completeness, error) {
			return a.browseDump(ctx, arg, limit, each)
		},
	}, nil
}

var errEnough = errors.New("limit reached")

func (a *app) browseDump(ctx context.Context, arg string, limit int, each func(broker.Message) error) (broker.Completeness, error) {
	in := a.stdin
	if arg != "-" {
		f, err := os.Open(arg)
		if err != nil {
			return broker.Completeness{}, fmt.Errorf("open dump: %w", err)
		}
		defer f.Close() //nolint:errcheck // Nothing was written.
		in = f
	}
	n := 0
	err := dump.Look(in, func(m broker.Message) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		if limit > 0 && n == limit {
			return errEnough
		}
		n++
		return each(m)
	})
	if errors.Is(err, errEnough) {
		return broker.Completeness{Why: fmt.Sprintf("stopped at the limit of %d", limit)}, nil
	}
	switch {
	case err == nil:
		return broker.Completeness{Complete: true}, nil
	case n > 0 && errors.Is(err, io.ErrUnexpectedEOF): // what came before it is whole
		return broker.Completeness{Why: term.Mask(err.Error())}, nil
	default:
		return broker.Completeness{}, fmt.Errorf("read dump %s: %w", arg, err)
	}
}

// look browses the source and gives every job to each, assessed in batches.
func (s *source) look(ctx context.Context, limit int, each func(reconcile.Assessed) error) (look, error) {
	l := look{At: s.now(), Counted: countedHow(broker.Depth{Exact: true})}
	if s.describe != nil {
		d, err := s.describe(ctx)
		if err != nil {
			return l, err
		}
		l.Total, l.LookCounts, l.Counted, l.Retention = d.Depth.Total(), d.LookCounts, countedHow(d.Depth), d.Retention
	}
	b := &assessing{source: s, ctx: ctx, each: each, total: l.Total}
	c, err := s.browse(ctx, limit, b.add)
	if err == nil {
		err = b.flush()
	}
	if err != nil {
		return l, err
	}
	l.Complete, l.Why = c.Complete, c.Why
	if s.describe == nil {
		l.Total = b.seen
	}
	return l, nil
}

// assessing gathers a batch of jobs, so that the ledger is asked once for many.
type assessing struct {
	source *source
	ctx    context.Context //nolint:containedctx // One look's own, passed to the callback of Browse.
	each   func(reconcile.Assessed) error
	jobs   []job.Job
	bytes  int // of the jobs' messages
	seen   int64
	total  int64
}

func (b *assessing) add(m broker.Message) error { return b.addJob(b.source.decode(m)) }

func (b *assessing) addJob(j job.Job) error {
	b.jobs = append(b.jobs, j)
	b.bytes += len(j.Message.Body) + len(j.Message.Raw)
	b.seen++
	if len(b.jobs) < assessBatch && b.bytes < assessBytes {
		return nil
	}
	return b.flush()
}

func (b *assessing) flush() error {
	if len(b.jobs) == 0 {
		return nil
	}
	xs, err := b.source.assess(b.ctx, b.jobs)
	if err != nil {
		return err
	}
	b.jobs, b.bytes = b.jobs[:0], 0
	for _, x := range xs {
		if err := b.each(x); err != nil {
			return err
		}
	}
	b.source.tell(b.seen, b.total)
	return nil
}
