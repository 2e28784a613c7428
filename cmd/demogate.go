package cmd

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/redrivectl/redrivectl/internal/provider/providertest"
	"github.com/redrivectl/redrivectl/redrive"
)

// demoWaits is how long the demo waits for somebody to promote its run.
const demoWaits = 10 * time.Minute

// demoCanary is the size of the canary of the demo's scenarios, at least.
const demoCanary = 5

// demoScenarioJobs is how many jobs a scenario needs: of fewer, no more may be
// proven redrivable than the canary has.
const demoScenarioJobs = 40

// failingCanary redrives while the provider refuses everything, which nobody has
// noticed but the canary.
func (w *demoWorld) failingCanary(ctx context.Context) error {
	w.chapter("What is quarantined, and why?")
	if err := w.typed(ctx, demoRequester, []string{"list", demoQueue}); err != nil {
		return err
	}
	w.chapter("Nobody has noticed yet that the provider's credential was revoked")
	if err := w.refuseAll(ctx); err != nil {
		return err
	}
	w.say("The provider now answers 401 to every send. The outage is over, so the requester\nplans to redrive; a few jobs go first, as a canary.\n")
	id, items, err := w.gatedPlan(ctx, "--observe", "1m")
	if err != nil {
		return err
	}
	w.chapter("The canary goes, and the workers take it")
	code, err := w.whileWorking(func() (int, error) { return w.command(ctx, demoRequester, []string{"run", id, "--yes"}) })
	if err == nil { // the gate may have seen enough before the last of them was tried
		err = w.work(ctx, func() (bool, string, error) { return w.drained(ctx) })
	}
	if err != nil {
		return err
	}
	r, err := w.lastRun(ctx)
	if err != nil {
		return err
	}
	if code != exitGate || r.Gate.Verdict != string(redrive.VerdictFail) || r.Redriven+r.Remaining != items {
		return fail(exitFailed, "", "the run ended with exit code %d, %d of %d redriven and the gate's verdict %s", code, r.Redriven, items, r.Gate.Verdict)
	}
	w.say("The run ended with exit code %d. The canary of %d was refused, so the gate\nfailed: the other %d jobs were not touched, and are as safe as before. Without a\ncanary all %d would have used up a try.\n",
		code, r.Redriven, r.Remaining, items)
	return w.typed(ctx, demoRequester, []string{"runs", "report", short(r.Run)}, []string{"list", demoQueue, "--class", "auth,throttled,unavailable"})
}

// inconclusiveCanary redrives while no worker works, so that nothing is known when
// the time is over, and waits for somebody at another terminal.
func (w *demoWorld) inconclusiveCanary(ctx context.Context) error {
	w.chapter("What is quarantined, and why?")
	if err := w.typed(ctx, demoRequester, []string{"list", demoQueue}); err != nil {
		return err
	}
	w.chapter("A canary goes first, while the workers are being deployed")
	id, items, err := w.gatedPlan(ctx, "--observe", "3s")
	if err != nil {
		return err
	}
	code, err := w.untilPromoted(ctx, id)
	if err != nil {
		return err
	}
	r, err := w.lastRun(ctx)
	if err != nil {
		return err
	}
	if r.Gate.Promoted == nil {
		w.say("Nobody promoted the run. It ended with exit code %d, and %d of %d jobs were not touched.", code, r.Remaining, items)
		return fail(code, promoteHint(short(r.Run)), "the run was not promoted")
	}
	if code != exitDone || r.Redriven != items {
		return fail(exitFailed, "", "the promoted run ended with exit code %d and %d of %d redriven", code, r.Redriven, items)
	}
	w.say("%s let it go on (%s), and that is on record. The workers are back.\n", r.Gate.Promoted.By, r.Gate.Promoted.Reason)
	if err := w.work(ctx, func() (bool, string, error) { return w.drained(ctx) }); err != nil {
		return err
	}
	return w.typed(ctx, demoRequester, []string{"runs", "report", short(r.Run)}, []string{"audit", "find", "--run", short(r.Run), "--limit", "6"})
}

// gatedPlan has the proven redrives planned with a canary, and approved.
func (w *demoWorld) gatedPlan(ctx context.Context, thresholds ...string) (id string, items int, err error) {
	id, items, err = w.createPlan(ctx, "plan-1.json", append([]string{
		"plan", "create", demoQueue, "--class", "throttled,unavailable", "--action", "redrive", "--max", strconv.Itoa(w.planned),
		"--rate", "200/s", "--canary", strconv.Itoa(demoCanary), "--reason", "the provider's outage is over",
	}, thresholds...))
	if err == nil {
		err = w.typed(ctx, demoRequester, []string{"plan", "show", id})
	}
	if err == nil {
		err = w.typed(ctx, demoApprover, []string{"approve", id, "--items", strconv.Itoa(items), "--reason", "a canary goes first"})
	}
	return id, items, err
}

// refuseAll has the provider refuse every send from now on.
func (w *demoWorld) refuseAll(ctx context.Context) error {
	fs := []providertest.Fault{}
	for _, js := range w.jobs {
		for _, j := range js {
			fs = append(fs, providertest.Fault{OpID: j.key, On: providertest.OnSend, Kind: providertest.Refuse, Status: http.StatusUnauthorized})
		}
	}
	data, err := json.Marshal(fs)
	if err != nil {
		return fmt.Errorf("encode the refusals: %w", err)
	}
	if err := os.WriteFile(w.path(demoRefusalsFile), data, 0o600); err != nil {
		return fmt.Errorf("write the refusals: %w", err)
	}
	if err := w.provider.stop(); err != nil {
		return err
	}
	return w.startProvider(ctx, "--faults", demoRefusalsFile)
}

const demoRefusalsFile = "refusals.json"

// whileWorking does something while workers work.
func (w *demoWorld) whileWorking(do func() (int, error)) (code int, err error) {
	p, err := w.start("demo", "worker", "--dir", w.dir, "--until-eof")
	if err != nil {
		return 0, err
	}
	code, err = do()
	return code, errors.Join(err, p.stop())
}

// untilPromoted runs the plan, which waits at its gate, and says what to type at
// another terminal. Where nobody does it ends the run.
func (w *demoWorld) untilPromoted(ctx context.Context, id string) (code int, err error) {
	ctx, cancel := context.WithTimeout(ctx, demoWaits)
	defer cancel()
	args := []string{"run", id, "--yes", "--wait"}
	w.prompt(demoRequester, args, "")
	c := w.child(ctx, demoRequester, args)
	said, out := io.Pipe()
	c.Stdout, c.Stderr = w.out, out
	told := make(chan struct{})
	go func() { defer close(told); w.tellPromotion(said) }()
	err = c.Run()
	_ = out.Close() // a pipe in memory
	<-told
	code, err = exitOf(err)
	if code == exitInterrupted && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return exitGate, nil
	}
	return code, err
}

// tellPromotion passes on what the run says, and once it waits for a person says
// what that person types.
func (w *demoWorld) tellPromotion(said io.Reader) {
	for lines := bufio.NewScanner(said); lines.Scan(); {
		line := lines.Text()
		_, _ = fmt.Fprintln(w.app.stderr, line) // nowhere is left to tell of a failure
		_, rest, waits := strings.Cut(line, "redrivectl resume ")
		if run, _, ok := strings.Cut(rest, " --promote"); waits && ok {
			w.say("\nNobody works, so %d canaries have no outcome, and the gate can tell neither way. It\nasks a person. At a second terminal, somebody who knows better types:\n\n  cd %s\n  REDRIVECTL_ACTOR=colleague redrivectl resume %s --promote --reason \"the workers were only being deployed\"\n\nand the run goes on here. It waits for %s.",
				demoCanary, shellQuote(w.dir), run, demoWaits)
		}
	}
}

// lastRun is the newest run, as runs list has it.
func (w *demoWorld) lastRun(ctx context.Context) (r runRecordView, err error) {
	var v struct {
		Runs []runRecordView `json:"runs"`
	}
	code, err := w.ask(ctx, &v, "runs", "list")
	if err == nil && (code != exitDone || len(v.Runs) == 0) {
		err = fail(exitFailed, "", "redrivectl runs list ended with exit code %d and %d runs", code, len(v.Runs))
	}
	if err != nil {
		return r, err
	}
	return v.Runs[0], nil
}
