package cmd

import (
	"context"
	"errors"
	"fmt"

	"github.com/redrivectl/redrivectl/internal/job"
	"github.com/redrivectl/redrivectl/reconcile"
	"github.com/redrivectl/redrivectl/redrive"
)

// capturing keeps what a look finds in the store, without payloads. A look must
// also work where the store cannot be written, so the first failure ends the
// keeping with a note, and not the look.
type capturing struct {
	app    *app
	ctx    context.Context //nolint:containedctx // One look's own.
	source *source
	writer redrive.CaptureWriter // nil: nothing is kept
	others int                   // jobs of another region, which are not kept
}

// capture begins to keep a look at a queue; a dump is its own record.
func (a *app) capture(ctx context.Context, src *source) *capturing {
	c := &capturing{app: a, ctx: ctx, source: src}
	if src.describe == nil {
		return c
	}
	st, err := a.storeFor(ctx, src.name)
	if err == nil {
		c.writer, err = st.NewCapture(ctx, src.name, src.now())
	}
	c.check(err)
	return c
}

// add keeps a job, unless it names another region than its queue.
func (c *capturing) add(j job.Job) {
	switch {
	case c.writer == nil:
	case reconcile.CrossesRegion(c.app.cfg.Queues[c.source.name].Region, j.Region):
		c.others++
	default:
		c.check(c.writer.Add(c.ctx, j))
	}
}

func (c *capturing) finish(l look) {
	if c.writer == nil {
		return
	}
	if c.others > 0 {
		l.Complete, l.Why = false, fmt.Sprintf("%d jobs of another region were not kept", c.others)
	}
	c.check(c.writer.Finish(c.ctx, redrive.Capture{
		Queue: c.source.name, Broker: c.source.broker, CapturedAt: l.At, Complete: l.Complete, Why: l.Why,
		Counted: l.Counted, Total: l.Total,
	}))
}

func (c *capturing) check(err error) {
	if err == nil {
		return
	}
	c.writer = nil
	if c.ctx.Err() == nil && !errors.Is(err, errUnnamedStore) {
		c.app.note("this look is not kept: %v", err)
	}
}
