package cmd

import (
	"context"
	"strings"

	"github.com/redrivectl/redrivectl/internal/job"
	"github.com/redrivectl/redrivectl/internal/store"
	"github.com/redrivectl/redrivectl/internal/term"
	"github.com/redrivectl/redrivectl/reconcile"
	"github.com/spf13/cobra"
)

func newReleaseCmd(a *app) *cobra.Command {
	var queue, reason string
	c := &cobra.Command{
		Use:   "release JOB",
		Short: "Release a job from manual review",
		Long: `End the manual review of a job. JOB is the job key or a unique beginning of it,
or the message ID by which it was held; it need not be in its queue any more.
Releasing decides nothing: what may be done with the job is as it would be
without the hold.`,
		Example: `  redrivectl release 7e37a8fe --reason "customer agreed"`,
		Args:    exactArgs("JOB"),
		RunE: func(c *cobra.Command, args []string) error {
			return a.release(c.Context(), args[0], queue, givenReason(reason))
		},
	}
	reasonFlag(c, &reason, "why it is released")
	a.queueFlag(c, &queue, "the queue in which it is held")
	return exits(c, exitRefused, exitAudit)
}

func (a *app) release(ctx context.Context, arg, queue, reason string) error {
	hs, err := a.listHolds(ctx)
	if err != nil {
		return err
	}
	h, err := heldJob(hs, arg, queue)
	if err != nil {
		return err
	}
	st, err := a.store(ctx)
	if err != nil {
		return err
	}
	rec, err := a.jobRecord(st, "release", reason, job.Job{JobKey: h.JobKey, Queue: h.Queue})
	if err != nil {
		return err
	}
	rec.MessageID, rec.CopyID = h.MessageID, h.CopyID
	rec.Details = map[string]string{store.DetailOwner: h.Owner}
	if err := st.ReleaseHold(ctx, h.HoldID, rec); err != nil {
		return notFound("hold", arg, err)
	}
	v := a.holdView(h)
	return a.print(result{Object: releaseView{v, rec.Actor.Name, term.Mask(reason)}, Headers: []string{"what", "value"}, Rows: append(v.rows(),
		[]string{"released by", rec.Actor.Name}, []string{"because", term.Mask(reason)})})
}

// releaseView is what release answers: the hold as it was, and who ended it.
type releaseView struct {
	holdView
	ReleasedBy    string `json:"released_by"`
	ReleaseReason string `json:"release_reason"`
}

// heldJob finds the one hold that the argument names. A whole job key or message
// ID wins over beginnings of keys.
func heldJob(hs []reconcile.ManualHold, arg, queue string) (reconcile.ManualHold, error) {
	var exact, prefixed []reconcile.ManualHold
	for _, h := range hs {
		switch {
		case queue != "" && h.Queue != queue:
		case h.JobKey == arg || h.MessageID == arg || h.CopyID == arg:
			exact = append(exact, h)
		case h.JobKey != "" && arg != "" && strings.HasPrefix(h.JobKey, arg):
			prefixed = append(prefixed, h)
		}
	}
	if len(exact) == 0 {
		exact = prefixed
	}
	switch len(exact) {
	case 0:
		return reconcile.ManualHold{}, fail(exitFailed, "redrivectl hold --list", "no job %q is on hold", arg)
	case 1:
		return exact[0], nil
	default:
		return reconcile.ManualHold{}, fail(exitFailed, "type more of the job key, or --queue", "%q names %d jobs on hold", arg, len(exact))
	}
}
