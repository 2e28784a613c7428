package cmd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"time"

	"github.com/redrivectl/redrivectl/internal/metrics"
	"github.com/redrivectl/redrivectl/internal/store"
	"github.com/spf13/cobra"
)

type metricsOptions struct {
	app      *app
	queues   []string
	look     bool
	listen   string
	floor    time.Duration
	window   time.Duration
	regions  []string
	versions []string
}

func newMetricsCmd(a *app) *cobra.Command {
	o := &metricsOptions{app: a, floor: 15 * time.Second, window: 24 * time.Hour}
	c := &cobra.Command{
		Use: "metrics [QUEUE...]", Short: "Write figures in the text exposition format, or serve them",
		Long: `Write figures of the configured queues (all, or those named) in the text
exposition format of Prometheus: what is quarantined and since when, what is
pending in the ledger, what runs and verdicts came to. docs/metrics.md lists them.

Nothing is changed. Jobs are counted from the last look that was kept (list keeps
one); with --look the queue is looked at, unless that would count as a receive.
What a source cannot tell is left out, and redrivectl_source_up is 0 for it.

No label holds a text that a message chose. A region or schema version is named
where the config or a flag declares it, and counted as "other" elsewhere.

With --listen the figures are served at /metrics until the command is interrupted,
collected anew for a scrape, but not before --min-interval has passed. An address
without a host is one of this machine alone.`,
		Example: "  redrivectl metrics\n  redrivectl metrics digests --look --region eu-west-1,us-east-1 --schema-version 3\n" +
			"  redrivectl metrics --listen :9464",
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: a.completeQueues,
		RunE: func(c *cobra.Command, args []string) error {
			o.queues = args
			if err := o.validate(); err != nil {
				return err
			}
			return o.run(c.Context())
		},
	}
	f := c.Flags()
	f.BoolVar(&o.look, "look", false, "look at each queue where that is free, instead of counting the last look")
	f.StringVar(&o.listen, "listen", "", "serve /metrics at this HOST:PORT (without HOST: 127.0.0.1)")
	f.Var(lengthFlag{to: &o.floor, zero: true}, "min-interval", "with --listen: collect no more often than this")
	f.Var(lengthFlag{to: &o.window}, "window", "how far back ledger rows are sampled")
	f.StringSliceVar(&o.regions, "region", nil, "regions to name in labels, beside those of the config")
	f.StringSliceVar(&o.versions, "schema-version", nil, "schema versions to name in labels")
	return exits(c, exitPartly, exitInterrupted)
}

func (o *metricsOptions) validate() error {
	if err := o.app.asIs("the exposition"); err != nil {
		return err
	}
	if o.listen == "" {
		return nil
	}
	host, port, err := net.SplitHostPort(o.listen)
	if err != nil {
		return usagef("--listen %s: use HOST:PORT or :PORT", o.listen)
	}
	if host == "" {
		o.listen = net.JoinHostPort("127.0.0.1", port)
	}
	return nil
}

func (o *metricsOptions) run(ctx context.Context) error {
	c, err := o.collector()
	if err != nil {
		return err
	}
	if o.listen != "" {
		return o.serve(ctx, c)
	}
	set, err := c.collect(ctx)
	if err != nil {
		return err
	}
	if err := set.Write(o.app.stdout); err != nil {
		return fmt.Errorf("write output: %w", err)
	}
	if len(c.failed) > 0 {
		return silently(exitPartly)
	}
	return nil
}

// collector collects the figures again and again. It opens all that it reads for
// each collection and closes it after, so that it sees a store that was made or
// replaced meanwhile. It remembers how far it has counted the audit log, and what it
// has counted of a look.
type collector struct {
	app      *app
	names    []string // queues
	look     bool
	window   time.Duration
	regions  map[string]bool
	versions map[string]bool
	audit    auditTally
	looks    map[string]*lookSeen // the kept look of each queue, as it was counted
	failed   map[string]string    // source → why it could not be read, in the last collection
}

func (o *metricsOptions) collector() (*collector, error) {
	names, err := o.app.queueNames(o.queues)
	if err != nil {
		return nil, err
	}
	cfg := o.app.cfg
	c := &collector{
		app: o.app, names: names, look: o.look, window: o.window, regions: setOf(o.regions), versions: setOf(o.versions),
		failed: map[string]string{}, looks: map[string]*lookSeen{},
	}
	for _, name := range c.names {
		if _, ok := cfg.Queues[name]; !ok {
			return nil, unknownQueue(cfg, name) // a queue file's path is no name for a label
		}
	}
	slices.Sort(c.names)
	c.names = slices.Compact(c.names)
	c.regions[cfg.Store.Region] = true
	for _, q := range cfg.Queues {
		c.regions[q.Region] = true
	}
	for _, p := range cfg.Providers {
		c.regions[p.Region] = true
	}
	return c, nil
}

func setOf(names []string) map[string]bool {
	set := make(map[string]bool, len(names))
	for _, n := range names {
		set[n] = true
	}
	return set
}

// declared is a text of a message as a label may show it.
func declared(value string, known map[string]bool) string {
	switch {
	case value == "":
		return "none"
	case known[value]:
		return value
	default:
		return "other"
	}
}

// collect gathers all figures. Its error is one that left no figures; a source
// that could not be read is in failed, and told on standard error once.
func (c *collector) collect(ctx context.Context) (*metrics.Set, error) {
	set := metrics.NewSet(metricDefinitions())
	opened := c.app.closers
	c.app.closers = nil
	err := c.collectAll(ctx, set)
	err = errors.Join(err, c.app.close())
	c.app.closers = opened
	return set, err
}

func (c *collector) collectAll(ctx context.Context, set *metrics.Set) error {
	failed := map[string]string{}
	say := func(queue, source string, err error) {
		up := 1.0
		if err != nil {
			up = 0
		}
		set.Add("redrivectl_source_up", up, queue, source)
		if err != nil && !errors.Is(err, errNoLook) && !errors.Is(err, errNoStore) && !errors.Is(err, errSharedRows) {
			failed[source+" of "+queue] = err.Error()
		}
	}
	st, err := c.openStore(ctx)
	for _, name := range c.names {
		q := &queueMetrics{collector: c, set: set, say: say, store: st}
		if err := q.collect(ctx, name, err); err != nil {
			return err
		}
	}
	if err == nil {
		set.Add("redrivectl_audit_records_total", float64(c.audit.seq))
	}
	set.Add("redrivectl_collected_timestamp_seconds", float64(c.app.now().UnixMilli())/1000)
	c.tell(failed)
	return ctx.Err()
}

// openStore opens the store if there is one, and counts what is new in its log.
func (c *collector) openStore(ctx context.Context) (*store.Store, error) {
	st, err := c.app.storeToRead(ctx)
	switch {
	case err != nil:
		return nil, err
	case st == nil:
		return nil, errNoStore
	}
	return st, c.audit.count(ctx, st)
}

// tell notes what failed, unless it failed alike the time before.
func (c *collector) tell(failed map[string]string) {
	for _, source := range slices.Sorted(maps.Keys(failed)) {
		if c.failed[source] != failed[source] {
			c.app.note("%s could not be read: %s", source, failed[source])
		}
	}
	c.failed = failed
}
