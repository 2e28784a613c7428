package cmd

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redrivectl/redrivectl/internal/ledger"
	"github.com/redrivectl/redrivectl/internal/store"
	"github.com/redrivectl/redrivectl/internal/term"
	"github.com/redrivectl/redrivectl/reconcile"
	"github.com/redrivectl/redrivectl/redrive"
	"github.com/spf13/cobra"
)

func newStatusCmd(a *app) *cobra.Command {
	return exits(&cobra.Command{
		Use: "status [QUEUE...]", Short: "Show depth, classes, pending sends, orphans, holds and open runs",
		Long: `Show where each queue stands: how much is quarantined and since when, what may be
done with it, the ledger's pending sends and orphans, waiting plans and open
runs. Without arguments, all configured queues.`,
		Example: "  redrivectl status\n  redrivectl status digests -o json", Args: cobra.ArbitraryArgs,
		ValidArgsFunction: a.completeQueues,
		RunE:              func(c *cobra.Command, args []string) error { return a.status(c.Context(), args) },
	}, exitPartly, exitRefused, exitAudit, exitInterrupted)
}

// queueStatus is where one queue stands.
type queueStatus struct {
	Queue        string         `json:"queue"`
	Broker       string         `json:"broker"`
	Visible      int64          `json:"visible"`
	InFlight     int64          `json:"in_flight"`
	Delayed      int64          `json:"delayed"`
	Counted      string         `json:"counted"`
	Complete     bool           `json:"complete"`
	OldestAt     *time.Time     `json:"oldest_at"`
	OldestAge    *float64       `json:"oldest_age_seconds"`
	OldestSentAt *time.Time     `json:"oldest_sent_at"` // as the broker tells: from it the retention counts
	Retention    *float64       `json:"retention_seconds"`
	Classes      map[string]int `json:"classes"`
	Actions      map[string]int `json:"actions"`
	Needs        map[string]int `json:"needs"`
	PendingSends *int           `json:"pending_sends"`
	Orphans      *int           `json:"orphans"`
	WaitingPlans int            `json:"waiting_plans"`
	Plans        []planSummary  `json:"plans"`
	OpenRuns     []openRunView  `json:"open_runs"`
	Holds        holdsStatus    `json:"holds"`
}

// holdsStatus is what persons review by hand, in all and for each owner.
type holdsStatus struct {
	ownedHolds
	Owners []ownedHolds `json:"owners"`
}

type ownedHolds struct {
	Owner     string     `json:"owner,omitempty"`
	Count     int        `json:"count"`
	OldestAt  *time.Time `json:"oldest_at"`
	OldestAge *float64   `json:"oldest_age_seconds"`
}

// add counts one more; holds come oldest first.
func (o *ownedHolds) add(a *app, h reconcile.ManualHold) {
	if o.Count++; o.Count == 1 {
		o.OldestAt, o.OldestAge = moment(h.At), new(a.age(h.At))
	}
}

type openRunView struct {
	Run    string  `json:"run"`
	State  string  `json:"state"`
	Lives  bool    `json:"lives"`
	Holder string  `json:"holder"`
	Glass  *string `json:"break_glass,omitempty"`
}

func (a *app) status(ctx context.Context, names []string) error {
	names, err := a.queueNames(names)
	if err != nil {
		return err
	}
	st, err := a.storeIfAny(ctx)
	if err != nil {
		return err
	}
	views, complete := []queueStatus{}, true
	for _, name := range names {
		v, err := a.queueStatus(ctx, name, st)
		if err != nil {
			return err
		}
		complete = complete && v.Complete
		views = append(views, v)
	}
	if err := a.print(statusResult(views)); err != nil {
		return err
	}
	if !complete {
		return silently(exitPartly)
	}
	return nil
}

func (a *app) queueStatus(ctx context.Context, name string, st *store.Store) (queueStatus, error) {
	q, err := a.queue(ctx, name)
	if err != nil {
		return queueStatus{}, err
	}
	d, err := q.describe(ctx)
	if err != nil {
		return queueStatus{}, err
	}
	v := queueStatus{
		Queue: name, Broker: q.brokerName, Visible: d.Depth.Visible, InFlight: d.Depth.InFlight, Delayed: d.Depth.Delayed,
		Counted: countedHow(d.Depth), OldestSentAt: moment(d.OldestAt), Retention: secondsOf(d.Retention), Classes: map[string]int{}, Actions: map[string]int{},
		Needs: map[string]int{}, Plans: []planSummary{}, OpenRuns: []openRunView{},
		Holds: holdsStatus{Owners: []ownedHolds{}},
	}
	keys, err := a.statusJobs(ctx, q, st, &v)
	if err != nil {
		return v, err
	}
	if v.OldestAt != nil {
		v.OldestAge = new(a.age(*v.OldestAt))
	}
	if err := a.statusLedger(ctx, q, keys, &v); err != nil {
		return v, err
	}
	if st == nil {
		return v, nil
	}
	if v.Holds, err = a.statusHolds(ctx, st, d.Queue); err != nil {
		return v, err
	}
	return v, a.statusStore(ctx, st, name, &v)
}

// statusHolds counts the manual holds of a queue, also of jobs that have left it.
func (a *app) statusHolds(ctx context.Context, st *store.Store, entity string) (holdsStatus, error) {
	s := holdsStatus{Owners: []ownedHolds{}}
	hs, err := st.ListHolds(ctx, entity)
	for _, h := range hs {
		s.add(a, h)
		owner := term.Mask(h.Owner)
		i := slices.IndexFunc(s.Owners, func(o ownedHolds) bool { return o.Owner == owner })
		if i < 0 {
			i, s.Owners = len(s.Owners), append(s.Owners, ownedHolds{Owner: owner})
		}
		s.Owners[i].add(a, h)
	}
	return s, err
}

// statusJobs looks at the queue, and returns the job keys that have a copy.
func (a *app) statusJobs(ctx context.Context, q *queue, st *store.Store, v *queueStatus) (map[string]bool, error) {
	src := a.queueSource(q, st)
	keys := map[string]bool{}
	seen, err := src.look(ctx, 0, func(x reconcile.Assessed) error {
		keys[x.Job.JobKey] = true
		v.OldestAt = earliest(v.OldestAt, oldest(moment(x.Job.Failure.At), moment(x.Job.Message.SentAt)))
		v.Classes[string(x.Class.Class)]++
		v.Actions[string(x.Decision.Action)]++
		if x.Decision.Needs != "" {
			v.Needs[x.Decision.Needs]++
		}
		return nil
	})
	v.Complete = seen.Complete
	return keys, err
}

// statusLedger counts the rows that are pending, and those of them that nobody
// will finish: sending past their deadline, with no dead copy.
func (a *app) statusLedger(ctx context.Context, q *queue, keys map[string]bool, v *queueStatus) error {
	if q.ledger == nil {
		return nil
	}
	now, err := q.ledger.Now(ctx)
	if err != nil {
		return fmt.Errorf("ledger of %s: %w", q.name, err)
	}
	pending, orphans := 0, 0
	w := q.rows()
	w.States = []ledger.State{ledger.Sending, ledger.Fenced}
	err = q.scan(ctx, w, func(r ledger.Row) error {
		pending++
		if reconcile.Abandoned(r, now, q.cfg.Worker.ClaimLife) && !keys[r.JobKey] {
			orphans++
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("ledger of %s: %w", q.name, err)
	}
	v.PendingSends = &pending
	if _, shared := a.shares(q); !shared {
		v.Orphans = &orphans
	}
	return nil
}

func (a *app) statusStore(ctx context.Context, st *store.Store, name string, v *queueStatus) error {
	plans, err := a.plans(ctx, st, name, redrive.PlanState.Live)
	if err != nil {
		return err
	}
	v.Plans = plans
	for _, p := range plans {
		if redrive.PlanState(p.State).Open() {
			v.WaitingPlans++
		}
	}
	runs, err := st.ListRuns(ctx, name)
	if err != nil {
		return err
	}
	for _, r := range runs {
		if !r.State.Ended() {
			v.OpenRuns = append(v.OpenRuns, openRunView{string(r.ID), string(r.State), r.Lives, r.Holder, text(term.Mask(r.BreakGlass))})
		}
	}
	return nil
}

func statusResult(views []queueStatus) result {
	r := result{Object: map[string]any{"queues": views}, Headers: []string{"queue", "what", "value"}}
	for _, v := range views {
		r.Elements = append(r.Elements, v)
		age := nothing
		if v.OldestAge != nil {
			age = span(*v.OldestAge)
		}
		rows := [][2]string{
			{"quarantined", fmt.Sprintf("%d visible, %d in flight, %d delayed (%s)", v.Visible, v.InFlight, v.Delayed, v.Counted)},
			{"oldest", age},
			{"classes", counts(v.Classes)},
			{"actions", counts(v.Actions)},
			{"held until", counts(v.Needs)},
			{"pending sends", number(v.PendingSends)},
			{"orphans", number(v.Orphans)},
			{"on hold", strconv.Itoa(v.Holds.Count)},
			{"waiting plans", strconv.Itoa(v.WaitingPlans)},
		}
		for _, row := range rows {
			r.Rows = append(r.Rows, []string{v.Queue, row[0], row[1]})
		}
		for _, o := range v.Holds.Owners {
			r.Rows = append(r.Rows, []string{v.Queue, "held for", fmt.Sprintf("%s: %d, oldest since %s", o.Owner, o.Count, span(*o.OldestAge))})
		}
		for _, p := range v.Plans {
			r.Rows = append(r.Rows, []string{v.Queue, "plan", fmt.Sprintf("%s %s, %d items, by %s", short(p.Plan), p.State, p.ItemCount, p.Requester)})
		}
		for _, run := range v.OpenRuns {
			r.Rows = append(r.Rows, []string{v.Queue, "open run", fmt.Sprintf("%s %s, of %s", short(run.Run), run.State, run.Holder)})
			for _, row := range glassRows(run.Glass) {
				r.Rows = append(r.Rows, append([]string{v.Queue}, row...))
			}
		}
	}
	return r
}
