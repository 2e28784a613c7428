package cmd

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redrivectl/redrivectl/reconcile"
	"github.com/spf13/cobra"
)

type listOptions struct {
	app    *app
	target string
	file   bool
	jobs   bool
	by     []string
	class  []string
	limit  int
}

func newListCmd(a *app) *cobra.Command {
	o := &listOptions{app: a}
	c := &cobra.Command{
		Use:   "list QUEUE|FILE|-",
		Short: "List quarantined jobs by failure class",
		Long: `List what a dead-letter queue holds, by failure class, with what may be done
about it. Every message stays where it is.

The class unknown, where nothing told why a job stopped, is split by what its jobs
have: type of the reason, task, origin, receives and hour. --by splits all classes
as you name it.

What the last look found is kept in the store for 24 hours, without payloads, so
that plan create --from-capture can select from it.

The argument is a queue, as the config names it or by its SQS name, URL or ARN, or a
dump: "-", or an existing path that contains "/" or ends in .json or .jsonl. A dump needs no config. It is what the
tools of SQS, Pub/Sub, Service Bus, RabbitMQ, Kafka, Sidekiq, BullMQ, asynq,
Laravel, Symfony and NATS print, recognised by its form: one message, a list, an
object with a list, or JSON lines. An entry that cannot be read hides no other.`,
		Example: "  redrivectl list digests\n  redrivectl list digests --class timeout --jobs\n" +
			"  redrivectl list digests --by region,reason_type -o json\n" +
			"  aws sqs receive-message --queue-url URL --max-number-of-messages 10 \\\n" +
			"      --attribute-names All --message-attribute-names All | redrivectl list - --jobs -o json\n" +
			"  gcloud pubsub subscriptions pull SUBSCRIPTION --limit 100 --format=json | redrivectl list -",
		Args:              exactArgs("QUEUE|FILE|-"),
		ValidArgsFunction: a.completeQueues,
		RunE: func(c *cobra.Command, args []string) error {
			o.target = args[0]
			if err := o.validate(); err != nil {
				return err
			}
			return o.run(c.Context())
		},
	}
	f := c.Flags()
	f.BoolVar(&o.file, "file", false, "take the argument as a FILE whatever it looks like")
	f.BoolVar(&o.jobs, "jobs", false, "one line per job instead of one per class; JSON has both")
	f.StringSliceVar(&o.by, "by", nil, "split each class by these: "+strings.Join(groupNames(), ", "))
	f.StringSliceVar(&o.class, "class", nil, "only these failure classes")
	f.IntVar(&o.limit, "limit", 0, "look at no more than this many messages (0: all)")
	must(c.RegisterFlagCompletionFunc("by", cobra.FixedCompletions(groupNames(), cobra.ShellCompDirectiveNoFileComp)))
	return exits(c, exitPartly, exitRefused, exitInterrupted)
}

func (o *listOptions) validate() error {
	if o.limit < 0 {
		return usagef("--limit must not be negative")
	}
	for i, by := range o.by {
		name, ok := groupName(by)
		if !ok {
			return usagef("--by %s: use one of %s", by, strings.Join(groupNames(), ", "))
		}
		o.by[i] = name
	}
	return nil
}

func (o *listOptions) run(ctx context.Context) error {
	src, err := o.app.source(ctx, o.target, o.file)
	if err != nil {
		return err
	}
	if err := hasClasses(src.policy, o.class); err != nil {
		return err
	}
	return o.list(ctx, src)
}

func (o *listOptions) list(ctx context.Context, src *source) error {
	out := newListing(o, src)
	seen, err := out.scan(ctx)
	if err != nil {
		return err
	}
	if err := out.known(); err != nil {
		return err
	}
	if err := out.finish(seen); err != nil {
		return err
	}
	if seen.Complete {
		return nil
	}
	if !o.app.output.isJSON() {
		o.app.note("incomplete: %s", seen.Why)
	}
	if o.limit > 0 {
		return nil
	}
	return silently(exitPartly)
}

// listView is the list shape of docs/json-output.md; jobs are written by the
// sink before these keys, so that memory does not grow with the queue.
type listView struct {
	Queue      string      `json:"queue"`
	Broker     string      `json:"broker"`
	CapturedAt time.Time   `json:"captured_at"`
	Complete   bool        `json:"complete"`
	Why        *string     `json:"why"`
	Counted    string      `json:"counted"`
	Total      int64       `json:"total"`
	LookCounts bool        `json:"look_counts_as_receive"`
	Classes    []classView `json:"classes"`
}

type classView struct {
	Class       string      `json:"class"`
	Disposition string      `json:"disposition"`
	Effect      string      `json:"effect"`
	Owner       *string     `json:"owner"`
	Runbook     *string     `json:"runbook"`
	Count       int         `json:"count"`
	OldestAt    *time.Time  `json:"oldest_at"`
	OldestAge   *float64    `json:"oldest_age_seconds"`
	Groups      []groupView `json:"groups"`
}

// listing tallies a look while it streams.
type listing struct {
	o       *listOptions
	src     *source
	sink    *stream
	table   jobTable
	classes map[string]*classTally
	matched int
	also    func(reconcile.Assessed, jobView) // sees every job; nil: nobody does
}

type classTally struct {
	view   classView
	groups groupTally
}

func newListing(o *listOptions, src *source) *listing {
	l := &listing{o: o, src: src, classes: map[string]*classTally{}}
	if o.jobs {
		l.table = o.app.jobTable()
		l.sink = newStream(o.app, "jobs", l.table.headers)
	}
	return l
}

// scan looks, tallies what is seen, and keeps the look.
func (l *listing) scan(ctx context.Context) (look, error) {
	keep := l.o.app.capture(ctx, l.src)
	seen, err := l.src.look(ctx, l.o.limit, func(x reconcile.Assessed) error {
		keep.add(x.Job)
		return l.add(x)
	})
	if err == nil {
		keep.finish(seen)
	}
	return seen, err
}

func (l *listing) add(x reconcile.Assessed) error {
	v := l.o.app.jobView(x)
	if l.also != nil {
		l.also(x, v)
	}
	t := l.classes[v.Class]
	if t == nil {
		t = &classTally{groups: newGroupTally(l.o.groupsOf(v.Class))}
		t.view = classView{
			Class: v.Class, Disposition: v.Disposition, Effect: string(x.Class.Effect),
			Owner: v.Owner, Runbook: text(x.Class.Runbook), Groups: []groupView{},
		}
		l.classes[v.Class] = t
	}
	t.count(v)
	if len(l.o.class) > 0 && !slices.Contains(l.o.class, v.Class) {
		return nil
	}
	l.matched++
	if l.sink != nil {
		return l.sink.add(v, l.table.cells(v))
	}
	return nil
}

func (t *classTally) count(v jobView) {
	t.view.Count++
	t.view.OldestAt = earliest(t.view.OldestAt, oldest(v.FailedAt, v.SentAt))
	t.groups.count(v)
}

// oldest is the time by which a job's age is told: when it failed, else when it
// was sent.
func oldest(failed, sent *time.Time) *time.Time { return cmp.Or(failed, sent) }

// earliest is the earlier of two times that may not be known.
func earliest(a, b *time.Time) *time.Time {
	if a == nil || b != nil && b.Before(*a) {
		return b
	}
	return a
}

// known refuses a --class that found nothing, naming the classes that exist.
func (l *listing) known() error {
	if len(l.o.class) == 0 || l.matched > 0 || len(l.classes) == 0 {
		return nil
	}
	return fail(exitRefused, "redrivectl list "+l.o.target, "no job of class %s in %s; it has: %s",
		strings.Join(l.o.class, ", "), l.o.target, strings.Join(slices.Sorted(maps.Keys(l.classes)), ", "))
}

func (l *listing) finish(seen look) error {
	v := l.view(seen)
	if l.sink != nil {
		return l.sink.finish(v)
	}
	people := l.o.app.forPeople()
	asked := len(l.o.by) > 0
	grouped := asked && !people
	r := result{Object: v, Headers: listHeaders(grouped)}
	for _, c := range v.Classes {
		r.Elements = append(r.Elements, c)
		r.Rows = append(r.Rows, c.cells(grouped, people))
		switch {
		case asked && people:
			r.Rows = append(r.Rows, foremost(c.Groups)...)
		case asked:
			r.Rows = append(r.Rows, groupRows(c)...)
		}
	}
	r.Before, r.After = l.heading(v), l.footing(v)
	return l.o.app.print(r)
}

func listHeaders(grouped bool) []string {
	h := []string{"class", "disposition", "effect", "owner", "count", "oldest"}
	if grouped {
		h = append(h, "group")
	}
	return h
}

// cells is a class's row. A person is told an age, a program a time.
func (c classView) cells(grouped, people bool) []string {
	age := nothing
	switch {
	case c.OldestAt == nil:
	case people:
		age = span(*c.OldestAge)
	default:
		age = utc(*c.OldestAt)
	}
	row := []string{c.Class, c.Disposition, c.Effect, or(c.Owner), strconv.Itoa(c.Count), age}
	if grouped {
		row = append(row, "")
	}
	return row
}

func (l *listing) view(seen look) listView {
	v := listView{
		Queue: l.src.name, Broker: l.src.broker, CapturedAt: seen.At.UTC(), Complete: seen.Complete,
		Why: text(seen.Why), Counted: seen.Counted, Total: seen.Total, LookCounts: seen.LookCounts, Classes: []classView{},
	}
	for name, t := range l.classes {
		if len(l.o.class) > 0 && !slices.Contains(l.o.class, name) {
			continue
		}
		v.Classes = append(v.Classes, t.finish(seen.At))
	}
	slices.SortFunc(v.Classes, func(x, y classView) int {
		if x.Count != y.Count {
			return y.Count - x.Count
		}
		return strings.Compare(x.Class, y.Class)
	})
	return v
}

func (t *classTally) finish(now time.Time) classView {
	c := t.view
	if c.OldestAt != nil {
		age := now.Sub(*c.OldestAt).Seconds()
		c.OldestAge = &age
	}
	c.Groups = t.groups.views()
	return c
}

func (l *listing) heading(v listView) []string {
	return []string{fmt.Sprintf("%s (%s): %d quarantined, %s count, looked %s", v.Queue, v.Broker, v.Total, v.Counted, utc(v.CapturedAt))}
}

func (l *listing) footing(v listView) []string {
	var lines []string
	if v.LookCounts {
		lines = append(lines, "this look counted as a receive")
	}
	for _, c := range v.Classes {
		if len(l.o.by) == 0 {
			lines = append(lines, splitLines(c, l.o.app.terminal().Width)...)
		}
	}
	return lines
}
