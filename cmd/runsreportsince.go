package cmd

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/redrivectl/redrivectl/internal/job"
	"github.com/redrivectl/redrivectl/internal/ledger"
	"github.com/redrivectl/redrivectl/reconcile"
	"github.com/redrivectl/redrivectl/redrive"
)

// reportBatch is how many jobs a report asks a source about at once.
const reportBatch = 500

// sinceReport is what became of the redriven jobs, as the ledger has them now, and
// which of them the last kept look saw in the dead-letter queue again.
type sinceReport struct {
	ReadAt     *time.Time     `json:"read_at"` // by the ledger's clock
	Jobs       int            `json:"jobs"`
	Sent       int            `json:"sent"`
	Queued     int            `json:"queued"`
	Claimed    int            `json:"claimed"`
	Failed     map[string]int `json:"failed"`      // by class
	RolledBack int            `json:"rolled_back"` // and not taken up again
	Replaced   int            `json:"replaced"`
	NotKnown   int            `json:"not_known"`
	LookAt     *time.Time     `json:"look_at"`
	Back       *int           `json:"back_in_queue"`
}

type providerReport struct {
	Verdicts map[string]int `json:"verdicts"`
	Answers  map[string]int `json:"answers"`
}

// redriven are the items that went out, by the key under which they did.
type redriven struct {
	key  ledger.Key
	item int
}

// since asks the ledger and the last kept look.
func (r *runReporter) since(ctx context.Context) error {
	r.view.Since.Failed = map[string]int{}
	var out []redriven
	times := []float64{}
	for i, it := range r.plan.Items {
		switch end := r.account.End(i, r.run.Lives); end.Word() {
		case "redriven":
			out = append(out, redriven{ledger.Key{JobKey: sentKey(it), Consumer: it.Consumer}, i})
		case "settled":
			times = append(times, r.sinceApproval(r.account.Item(i).ClosedAt))
		}
	}
	r.view.Since.Jobs = len(out)
	r.view.Since.NotKnown = len(out)
	name := "ledger"
	if r.queue.Ledger != "" {
		name += " " + r.queue.Ledger + "/" + r.queue.Consumer
	}
	r.source(name, func() (int, error) { return r.rows(ctx, out, &times) })
	r.source("last look", func() (int, error) { return r.look(ctx, out) })
	r.view.ToReconciled = newPercentiles(times)
	return ctx.Err()
}

// sentKey is the job key under which the item went out.
func sentKey(it redrive.Item) string {
	if it.Edit != nil {
		return it.Edit.JobKey
	}
	return it.JobKey
}

// rows reads the ledger's rows of the redriven jobs, so many at once.
func (r *runReporter) rows(ctx context.Context, out []redriven, times *[]float64) (int, error) {
	l, err := r.ledger(ctx, out)
	if err != nil {
		return 0, err
	}
	now, err := l.Now(ctx)
	if err != nil {
		return 0, err
	}
	r.view.Since.ReadAt = moment(now)
	out = slices.DeleteFunc(slices.Clone(out), func(x redriven) bool { return x.key.JobKey == "" })
	read := 0
	for batch := range slices.Chunk(out, reportBatch) {
		keys := make([]ledger.Key, len(batch))
		for i, x := range batch {
			keys[i] = x.key
		}
		for i, found := range l.Get(ctx, keys) {
			switch found.Found {
			case ledger.Present:
				read++
				r.row(batch[i].item, found.Row, times)
			case ledger.Unreadable:
				err = found.Err
			}
		}
		if err != nil {
			return read, err
		}
	}
	return read, nil
}

// ledger opens the ledger that the queue has now. None is unavailable where the
// plan was made with one.
func (r *runReporter) ledger(ctx context.Context, out []redriven) (ledger.Ledger, error) {
	switch {
	case len(out) == 0:
		return nil, errNone("nothing was redriven")
	case r.queue.Ledger != "":
		return r.app.openLedger(ctx, r.queue.Ledger, r.queue.Consumer)
	case slices.ContainsFunc(r.plan.Items, func(it redrive.Item) bool { return it.LedgerState != "" }):
		return nil, fmt.Errorf("the config names none for queue %s, and the plan was made with one", r.plan.Queue)
	default:
		return nil, errNone("the queue has no ledger")
	}
}

// row counts what became of one redriven job.
func (r *runReporter) row(item int, row ledger.Row, times *[]float64) {
	v, it := &r.view.Since, r.plan.Items[item]
	v.NotKnown--
	switch {
	case row.State.Committed() || row.LateAccept:
		v.Sent++
		*times = append(*times, r.sinceApproval(row.UpdatedAt))
	case row.State == ledger.Queued || unclaimed(it, row):
		v.Queued++
	case redrive.RolledBack(row, r.run.ID):
		v.RolledBack++
		r.left.add(leftRolledBack, "not_claimed", it)
	case row.State == ledger.Failed:
		class := maskedWord(row.ErrorClass)
		v.Failed[class]++
		r.left.add(leftFailedAgain, class, it)
	case row.State == ledger.Replaced:
		v.Replaced++
	default:
		v.Claimed++
	}
}

// unclaimed: a ledger that is only read keeps the row as it was planned, until a
// worker claims the job.
func unclaimed(it redrive.Item, row ledger.Row) bool {
	return it.Edit == nil && row.State == ledger.Failed && it.LedgerAttempt != nil && row.Attempt == *it.LedgerAttempt
}

// look counts the redriven jobs that the last kept look found in the dead-letter
// queue after they went out.
func (r *runReporter) look(ctx context.Context, out []redriven) (int, error) {
	if len(out) == 0 {
		return 0, errNone("nothing was redriven")
	}
	went := map[redrive.Identity]int{}
	for _, x := range out {
		went[identityOf(x.key.JobKey, r.plan.Items[x.item])] = x.item
	}
	seen, back, older := 0, 0, false
	found, err := r.st.WalkCapture(ctx, r.plan.Queue, func(c redrive.Capture) func(job.Job) error {
		r.view.Since.LookAt = moment(c.CapturedAt)
		if older = c.CapturedAt.Before(r.run.StartedAt); older {
			return nil
		}
		return func(j job.Job) error {
			seen++
			id := redrive.Identity{JobKey: j.JobKey}
			if j.JobKey == "" {
				id = redrive.Identity{Origin: j.Origin, PayloadSHA256: j.PayloadSHA256}
			}
			if i, ok := went[id]; ok && c.CapturedAt.After(r.account.Item(i).ClosedAt) {
				delete(went, id) // a job that has several copies counts once
				back++
				if !r.account.Back(i) {
					r.left.add(leftBack, "seen_in_last_look", r.plan.Items[i])
				}
			}
			return nil
		}
	})
	switch {
	case err != nil:
		return 0, err
	case !found:
		return 0, errNone("no look of the last 24 hours is kept")
	case older:
		return 0, errNone("the last kept look is older than the run")
	}
	r.view.Since.Back = &back
	return seen, nil
}

// identityOf is what a job that went out is recognised by when it comes back.
func identityOf(key string, it redrive.Item) redrive.Identity {
	switch {
	case key != "":
		return redrive.Identity{JobKey: key}
	case it.Edit != nil:
		return redrive.Identity{Origin: it.Origin, PayloadSHA256: it.Edit.PayloadSHA256}
	default:
		return redrive.Identity{Origin: it.Origin, PayloadSHA256: it.PayloadSHA256}
	}
}

// verdicts counts the newest verdict on each job of the plan, and the answers of
// the provider that those rest on.
func (r *runReporter) verdicts(ctx context.Context) (int, error) {
	n := 0
	for batch := range slices.Chunk(r.plan.Items, reportBatch) {
		keys, classes := []string{}, map[string]string{}
		for _, it := range batch {
			if it.JobKey != "" {
				keys, classes[it.JobKey] = append(keys, it.JobKey), string(it.Class)
			}
		}
		found, err := r.st.LatestVerdicts(ctx, r.plan.Queue, keys)
		if err != nil {
			return n, err
		}
		n += len(found)
		for key, f := range found {
			r.verdict(classes[key], f)
		}
	}
	return n, nil
}

func (r *runReporter) verdict(class string, f reconcile.Found) {
	v := &r.view.Provider
	v.Verdicts[string(f.Verdict)]++
	for _, l := range f.Evidence.Looks {
		v.Answers[statusLabel(l.HTTPStatus/100)]++
	}
	for i := range r.view.Classes {
		if r.view.Classes[i].Class == class {
			r.view.Classes[i].Verdicts[string(f.Verdict)]++
		}
	}
}
