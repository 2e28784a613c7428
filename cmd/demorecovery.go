package cmd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redrivectl/redrivectl/reconcile"
)

// The two persons of the demo.
const (
	demoRequester = "requester"
	demoApprover  = "approver"
)

// demoRunTime is how long a run may take at the rate that the demo asks for.
const demoRunTime = 20 * time.Second

// recover does what an operator would, by the commands that one would type.
func (w *demoWorld) recover(ctx context.Context) error {
	w.chapter("What is quarantined, and why?")
	err := w.typed(ctx, demoRequester,
		[]string{"status"}, []string{"list", demoQueue}, []string{"list", demoQueue, "--by", "region"},
		[]string{"list", demoQueue, "--class", "unknown", "--jobs"})
	if err == nil {
		w.chapter("Which of them have had their effect already?")
		err = w.reconcile(ctx)
	}
	if err == nil {
		w.chapter("Redrive what is proven harmless, settle what is proven sent")
		err = w.plan(ctx, "plan-1.json", []string{"throttled", "unavailable", "server_error", "timeout"},
			"--reason", "the provider's outage is over")
	}
	if err == nil {
		w.chapter("A cause was corrected")
		err = w.plan(ctx, "plan-2.json", []string{"auth"}, "--fixed", "credential rotated", "--reason", "the rotated credential works")
	}
	if err == nil {
		w.chapter("Some jobs are too late: drop them, archived first")
		err = w.discard(ctx)
	}
	if err == nil {
		w.chapter("What was done, and what is left")
		err = w.typed(ctx, demoRequester,
			[]string{"runs", "list"}, []string{"audit", "list", "--limit", "6"}, []string{"audit", "verify"},
			[]string{"list", demoQueue, "--jobs"}, []string{"status"})
	}
	return err
}

// typed runs commands as a person types them: each is printed, and then what it
// prints. One that fails ends the demo.
func (w *demoWorld) typed(ctx context.Context, actor string, commands ...[]string) error {
	for _, args := range commands {
		if code, err := w.command(ctx, actor, args); err != nil {
			return err
		} else if code != exitDone {
			return fail(exitFailed, "", "redrivectl %s ended with exit code %d", strings.Join(args, " "), code)
		}
	}
	return nil
}

func (w *demoWorld) command(ctx context.Context, actor string, args []string) (code int, err error) {
	w.prompt(actor, args, "")
	c := w.child(ctx, actor, args)
	c.Stdout, c.Stderr = w.out, w.app.stderr
	code, err = exitOf(c.Run())
	w.say("")
	return code, err
}

func (w *demoWorld) prompt(actor string, args []string, tail string) {
	quoted := make([]string, len(args))
	for i, a := range args {
		quoted[i] = shellQuote(a)
	}
	w.say("$ REDRIVECTL_ACTOR=%s redrivectl %s%s", actor, strings.Join(quoted, " "), tail)
}

// child is this program with other arguments, in the demo's folder.
func (w *demoWorld) child(ctx context.Context, actor string, args []string) *exec.Cmd {
	c := exec.CommandContext(ctx, w.exe) //nolint:gosec // This program itself.
	c.Args = append([]string{"redrivectl"}, args...)
	c.Dir, c.Env = w.dir, w.environment(actor)
	// Asked first, so that a run finishes its batch.
	c.Cancel = func() error { return c.Process.Signal(os.Interrupt) }
	c.WaitDelay = demoGrace
	return c
}

// exitOf tells an exit code from a command that did not run or was stopped.
func exitOf(err error) (int, error) {
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Exited() {
		if exit.ExitCode() == exitInterrupted {
			return exitInterrupted, context.Canceled
		}
		return exit.ExitCode(), nil
	}
	return 0, err
}

// ask runs a command for its JSON, without a word.
func (w *demoWorld) ask(ctx context.Context, v any, args ...string) (code int, err error) {
	c := w.child(ctx, demoRequester, append(args, "-o", "json"))
	var out, problems bytes.Buffer
	c.Stdout, c.Stderr = &out, &problems
	if code, err = exitOf(c.Run()); err != nil {
		return code, err
	}
	if err := json.Unmarshal(out.Bytes(), v); err != nil {
		return code, fmt.Errorf("redrivectl %s: exit code %d: %w: %s", strings.Join(args, " "), code, err, problems.Bytes())
	}
	return code, nil
}

// demoListed is what the demo reads of "list --jobs -o json".
type demoListed struct {
	JobKey    string `json:"job_key"`
	MessageID string `json:"message_id"`
	Class     string `json:"class"`
	Verdict   string `json:"verdict"`
	Action    string `json:"action"`
	Needs     string `json:"needs"`
}

func (w *demoWorld) listed(ctx context.Context) ([]demoListed, error) {
	var v struct {
		Jobs []demoListed `json:"jobs"`
	}
	code, err := w.ask(ctx, &v, "list", demoQueue, "--jobs")
	if err == nil && code != exitDone {
		err = fail(exitFailed, "", "redrivectl list %s --jobs ended with exit code %d", demoQueue, code)
	}
	return v.Jobs, err
}

// reconcile asks the provider about what is in doubt, and again while a verdict
// only needs time.
func (w *demoWorld) reconcile(ctx context.Context) error {
	deadline := time.Now().Add(demoPatience)
	for {
		code, err := w.command(ctx, demoRequester, []string{"reconcile", demoQueue, "--apply", "--yes"})
		if err != nil {
			return err
		}
		if code != exitDone && code != exitPartly {
			return fail(exitFailed, "", "redrivectl reconcile ended with exit code %d", code)
		}
		js, err := w.listed(ctx)
		if err != nil {
			return err
		}
		waiting := 0
		for _, j := range js {
			if v := reconcile.Verdict(j.Verdict); v == reconcile.TooEarly || v == reconcile.Unavailable {
				waiting++
			}
		}
		if waiting == 0 {
			return w.typed(ctx, demoRequester, append(showSettled(js), []string{"list", demoQueue, "--by", "action"})...)
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%d jobs still have no conclusive verdict", waiting)
		}
		w.say("%d jobs are too young for a verdict: the provider's delay has to pass.\n", waiting)
		if err := sleep(ctx, 2*time.Second); err != nil {
			return err
		}
	}
}

// showSettled is the command that shows one job whose effect was found to have
// happened.
func showSettled(js []demoListed) [][]string {
	for _, j := range js {
		if j.JobKey != "" && j.Action == string(reconcile.Settle) {
			return [][]string{{"show", j.JobKey}}
		}
	}
	return nil
}

// plan has its redrives carried out, and lets the workers send what came back.
func (w *demoWorld) plan(ctx context.Context, file string, classes []string, why ...string) error {
	if err := w.carryOut(ctx, file, classes, why...); err != nil {
		return err
	}
	w.say("The workers, healthy now, take what came back.")
	return w.work(ctx, func() (bool, string, error) { return w.drained(ctx) })
}

// discard drops what a newer version has overtaken and what is too old.
func (w *demoWorld) discard(ctx context.Context) error {
	err := w.carryOut(ctx, "plan-3.json", []string{"stale", "expired"}, "--action", "discard", "--reason", "too late to send")
	if err != nil {
		return err
	}
	cs, err := w.dropped(ctx)
	if err != nil || len(cs) == 0 {
		return err
	}
	return w.typed(ctx, demoRequester, []string{"store", "archives", "--job", firstText(cs[0].jobKey, cs[0].messageID)})
}

// carryOut has one person ask and another approve, and runs what was approved.
func (w *demoWorld) carryOut(ctx context.Context, file string, classes []string, why ...string) error {
	js, err := w.listed(ctx)
	if err != nil {
		return err
	}
	most := 0
	for _, j := range js {
		if slices.Contains(classes, j.Class) {
			most++
		}
	}
	rate := max(200, most/int(demoRunTime.Seconds()))
	id, items, err := w.createPlan(ctx, file, append([]string{
		"plan", "create", demoQueue, "--class", strings.Join(classes, ","), "--max", strconv.Itoa(most), "--rate", fmt.Sprintf("%d/s", rate),
	}, why...))
	if err != nil {
		return err
	}
	err = w.typed(ctx, demoRequester, []string{"plan", "show", id})
	if err == nil {
		err = w.typed(ctx, demoApprover, []string{"approve", id, "--items", strconv.Itoa(items), "--reason", "verdicts and bounds look right"})
	}
	if err == nil {
		err = w.typed(ctx, demoRequester, []string{"run", id, "--yes"})
	}
	return err
}

// createPlan keeps the plan's JSON in a file, as a script would that needs its
// ID; people then look at it with "plan show".
func (w *demoWorld) createPlan(ctx context.Context, file string, args []string) (id string, items int, err error) {
	args = append(args, "-o", "json")
	w.prompt(demoRequester, args, " > "+file)
	c := w.child(ctx, demoRequester, args)
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, w.app.stderr
	code, err := exitOf(c.Run())
	if err == nil && code != exitDone {
		err = fail(exitFailed, "", "redrivectl plan create ended with exit code %d", code)
	}
	if err != nil {
		return "", 0, err
	}
	if err := os.WriteFile(w.path(file), out.Bytes(), 0o600); err != nil {
		return "", 0, fmt.Errorf("keep the plan: %w", err)
	}
	var v struct {
		Plan      string `json:"plan"`
		ItemCount int    `json:"item_count"`
	}
	if err := json.Unmarshal(out.Bytes(), &v); err != nil || len(v.Plan) < 12 {
		return "", 0, fmt.Errorf("read the plan from %s: %w", file, errors.Join(err, errors.New("it names no plan")))
	}
	w.say("")
	return short(v.Plan), v.ItemCount, nil
}

// shellQuote quotes an argument where a shell would read it otherwise.
func shellQuote(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./,:=@%+", r)
	}
	if s != "" && strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s
	}
	if !strings.ContainsAny(s, "\"$`\\!") {
		return `"` + s + `"`
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
