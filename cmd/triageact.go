package cmd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/redrivectl/redrivectl/internal/term"
	"github.com/redrivectl/redrivectl/internal/tui"
	"github.com/redrivectl/redrivectl/redrive"
	"github.com/spf13/cobra"
)

// runDone is a run that was carried out here, as the command would have ended.
type runDone struct {
	printed []result
	err     error
}

// end is how triage ends: with what could not be told while the screen was shown, and
// as the last run that was carried out here would have ended.
func (d *triageDesk) end(err error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, werr := d.app.stderr.Write(d.late.Bytes()); werr != nil {
		err = errors.Join(err, werr)
	}
	if d.ran == nil {
		return err
	}
	for _, r := range d.ran.printed {
		if perr := d.app.print(r); perr != nil {
			return errors.Join(perr, d.ran.err)
		}
	}
	return d.ran.err
}

// lateWriter takes what a command writes to standard error while the screen is
// shown: the outcomes that an audit log did not take any more.
type lateWriter struct{ of *triageDesk }

func (w lateWriter) Write(b []byte) (int, error) {
	w.of.mu.Lock()
	defer w.of.mu.Unlock()
	return w.of.late.Write(b)
}

// Question runs the command up to its question. A command that asks nothing is
// asked about in words of its own.
func (d *triageDesk) Question(ctx context.Context, act tui.Act) (string, error) {
	switch act.Do {
	case tui.DoCreate, tui.DoApprove, tui.DoReject, tui.DoPause:
		return d.plainQuestion(ctx, act)
	}
	l := &listener{}
	err := d.wishFor(l, func(a *app) error { return d.carryOut(ctx, a, act) })
	switch {
	case errors.Is(err, errAsks):
		return l.asked, nil
	case err == nil:
		return "", fmt.Errorf("%s asked nothing, and is done", act.Do)
	default:
		return "", err
	}
}

// plainQuestion words what commands do without a question, since on a command line
// they are typed out.
func (d *triageDesk) plainQuestion(ctx context.Context, act tui.Act) (string, error) {
	switch act.Do {
	case tui.DoCreate:
		draft, err := d.Draft(ctx, act.Form)
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("Freeze a plan of %d items on %s (approval: %s)? Nothing is sent by that.", draft.Items, act.Form.Queue, draft.Tier), nil
	case tui.DoPause:
		return fmt.Sprintf("Pause run %s? It finishes the batch in flight and sends nothing until it is resumed.", short(act.On)), nil
	}
	p, err := d.Plan(ctx, act.On)
	if err != nil {
		return "", err
	}
	if act.Do == tui.DoReject {
		return fmt.Sprintf("Reject plan %s of %s? It ends, and its jobs are free for another plan.", short(p.ID), p.Requester), nil
	}
	return fmt.Sprintf("Approve plan %s of %s on %s, with the %d items that you typed? You state that you agree to exactly this plan.",
		short(p.ID), p.Requester, p.Queue, act.Items), nil
}

// Do runs the command itself.
func (d *triageDesk) Do(ctx context.Context, act tui.Act, tell tui.Tell) (tui.Done, error) {
	l := &listener{tell: tell, agreed: act.Agreed, loosely: act.Do == tui.DoAbort}
	var bare error // without the hint, as the command ends with it
	err := d.wishFor(l, func(a *app) error {
		bare = d.carryOut(ctx, a, act)
		return bare
	})
	done := tui.Done{Act: act, Rows: l.rows(), Code: exitCode(bare)}
	if runs := act.Do == tui.DoRun || act.Do == tui.DoResume || act.Do == tui.DoPromote; runs && len(l.printed) > 0 {
		if _, ran := l.printed[0].Object.(runView); ran {
			d.mu.Lock()
			d.ran = &runDone{l.printed, bare}
			d.mu.Unlock()
		}
	}
	if len(l.printed) > 0 {
		if v, ok := l.printed[0].Object.(planView); ok {
			done.Plan = v.Plan
		}
	}
	if errors.Is(err, errSilent) {
		err = nil // what was printed says it
	}
	return done, err
}

// carryOut calls what the command of the same name calls.
func (d *triageDesk) carryOut(ctx context.Context, a *app, act tui.Act) error {
	switch act.Do {
	case tui.DoReconcile:
		k, err := d.last(act.On)
		if err != nil {
			return err
		}
		return (&reconcileOptions{app: a, queue: act.On, apply: true, sel: act.Select, seen: k}).run(ctx)
	case tui.DoCreate:
		o, err := d.planOptions(a, act.Form)
		if err != nil {
			return err
		}
		return o.run(ctx)
	case tui.DoApprove:
		o := &approveOptions{app: a, plan: act.On, items: act.Items, reason: act.Reason}
		if err := o.validate(true); err != nil {
			return err
		}
		return o.run(ctx)
	case tui.DoReject:
		return a.reject(ctx, act.On, act.Reason)
	case tui.DoRun:
		return (&runOptions{app: a, plan: act.On, wait: somebodySits()}).run(ctx)
	case tui.DoResume:
		return (&resumeOptions{app: a, run: act.On, wait: somebodySits()}).resume(ctx)
	case tui.DoPromote:
		o := &resumeOptions{app: a, run: act.On, promote: true, reason: act.Reason, wait: somebodySits()}
		if err := o.validate(); err != nil {
			return err
		}
		return o.resume(ctx)
	case tui.DoPause:
		return (&controlOptions{app: a, kind: redrive.WishPause, run: act.On, reason: act.Reason}).ask(ctx)
	case tui.DoAbort:
		return (&controlOptions{app: a, kind: redrive.WishAbort, run: act.On, reason: act.Reason}).ask(ctx)
	default:
		return fmt.Errorf("%s cannot be done here", act.Do)
	}
}

// somebodySits: a run waits at its gate, since there is a person before the screen.
func somebodySits() waitFlag { return waitFlag{new(true)} }

// planOptions reads a form as plan create reads its flags, for the jobs of the last
// look.
func (d *triageDesk) planOptions(a *app, f tui.Form) (*planOptions, error) {
	k, err := d.last(f.Queue)
	if err != nil {
		return nil, err
	}
	o := newPlanOptions(a)
	o.queue, o.seen = f.Queue, k
	c := &cobra.Command{}
	o.allFlags(c)
	o.sel = f.Select
	for name, value := range f.Flags {
		if value == "" {
			continue
		}
		if err := c.Flags().Set(name, value); err != nil {
			return nil, usagef("--%s %s: %w", name, value, err)
		}
	}
	c.PreRun(c, nil)
	return o, o.validate()
}

// Draft is plan create --dry-run.
func (d *triageDesk) Draft(ctx context.Context, f tui.Form) (tui.Draft, error) {
	out := tui.Draft{Edit: editCommand(f)}
	flags := map[string]string{"reason": "not typed yet"}
	for name, value := range f.Flags {
		if value != "" {
			flags[name] = value
		}
	}
	f.Flags = flags
	l := &listener{}
	err := d.wishFor(l, func(a *app) error {
		o, err := d.planOptions(a, f)
		if err != nil {
			return err
		}
		o.dryRun = true
		return o.run(ctx)
	})
	if err != nil && !errors.Is(err, errSilent) {
		return out, err
	}
	v, ok := l.printed[0].Object.(planView)
	if !ok {
		return out, errors.New("no plan was drafted")
	}
	out.Items, out.Tier, out.Approved, out.Held = v.ItemCount, v.Tier, v.Needed == 0, heldBy(v.Held)
	shown := []string{"items", "actions", "classes", "approval", "rate", "expires", "canary", "thresholds", "left out"}
	for _, r := range l.rows() {
		if slices.Contains(shown, r.Name) { // what is held is told apart, by what it needs
			out.Rows = append(out.Rows, r)
		}
	}
	return out, nil
}

// manyJobs is from how many jobs on a command names them in a file.
const manyJobs = 4

// editCommand is what makes a form's plan with edited payloads, first without keeping
// it: what an edit changes is to be looked at, which the screen does not offer.
func editCommand(f tui.Form) string {
	said := "redrivectl plan create " + shellQuote(f.Queue)
	add := func(flag string, values ...string) {
		for _, v := range values {
			said += " --" + flag + " " + shellQuote(v)
		}
	}
	add("class", f.Select.Class...)
	add("region", f.Select.Region...)
	add("schema", f.Select.Schema...)
	if f.Select.Where != "" {
		add("where", f.Select.Where)
	}
	if len(f.Select.Jobs) < manyJobs {
		add("job", f.Select.Jobs...)
	} else {
		add("jobs-from", "FILE")
	}
	if f.Select.All {
		said += " --all"
	}
	for _, name := range slices.Sorted(maps.Keys(f.Flags)) {
		switch value := f.Flags[name]; {
		case value == "" || name == "reason":
		case value == "true": // of those that take no value
			said += " --" + name
		default:
			add(name, value)
		}
	}
	return term.Mask(said) + " --edit FILTER --reason WHY --dry-run"
}

// heldBy counts what is held by why and by what it needs, the most first.
func heldBy(held []jobView) []tui.Held {
	type reason struct{ why, needs string }
	n := map[reason]int{}
	for _, h := range held {
		n[reason{h.Why, or(h.Needs)}]++
	}
	var all []tui.Held
	for r, count := range n {
		all = append(all, tui.Held{Count: count, Why: r.why, Needs: r.needs})
	}
	slices.SortFunc(all, func(x, y tui.Held) int {
		if x.Count != y.Count {
			return y.Count - x.Count
		}
		return slices.Compare([]string{x.Why, x.Needs}, []string{y.Why, y.Needs})
	})
	return all
}
