package cmd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redrivectl/redrivectl/redrive"
)

// trippedBreaker redrives behind a canary that passes, and has the provider refuse
// everything once the rest is under way.
func (w *demoWorld) trippedBreaker(ctx context.Context) error {
	w.chapter("What is quarantined, and why?")
	if err := w.typed(ctx, demoRequester, []string{"list", demoQueue}); err != nil {
		return err
	}
	w.chapter("A canary goes first, and then the rest, slowly")
	rate := max(1, w.planned/40) // the rest takes long enough to go wrong
	id, items, err := w.gatedPlan(ctx, "--observe", "1m", "--rate", fmt.Sprintf("%d/s", rate))
	if err != nil {
		return err
	}
	w.chapter("The canary passes; then the provider's credential is revoked")
	code, err := w.whileWorking(func() (int, error) {
		watch, stop := context.WithCancel(ctx)
		defer stop()
		refused := make(chan error, 1)
		go func() { refused <- w.refuseBulk(watch) }()
		code, err := w.command(ctx, demoRequester, []string{"run", id, "--yes"})
		stop()
		if rerr := <-refused; !errors.Is(rerr, context.Canceled) {
			err = errors.Join(err, rerr)
		}
		return code, err
	})
	if err != nil {
		return err
	}
	r, err := w.lastRun(ctx)
	if err != nil {
		return err
	}
	if code != exitGate || r.Gate.Verdict != string(redrive.VerdictTripped) || r.Remaining == 0 || r.Redriven+r.Remaining != items {
		return fail(exitFailed, "", "the run ended with exit code %d, %d of %d redriven and the verdict %s", code, r.Redriven, items, r.Gate.Verdict)
	}
	w.say("The run ended with exit code %d. Its canary had passed, but of the redrives since too\nmany came back refused, so the circuit breaker tripped before the next batch: %d jobs\nwere not touched. The run is paused. Once the credential is right again a person\nanswers for it and lets it go on:\n\n  %s\n",
		code, r.Remaining, promoteHint(short(r.Run)))
	return w.typed(ctx, demoRequester, []string{"runs", "report", short(r.Run)}, []string{"audit", "find", "--run", short(r.Run), "--limit", "4"})
}

// refuseBulk has the provider refuse every send once the newest run has sent more
// than its canary.
func (w *demoWorld) refuseBulk(ctx context.Context) error {
	for {
		r, err := w.lastRun(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err == nil && r.Gate.Verdict == string(redrive.VerdictPass) && r.Remaining > 0 {
			return w.refuseAll(ctx)
		}
		if err := sleep(ctx, 200*time.Millisecond); err != nil {
			return err
		}
	}
}
