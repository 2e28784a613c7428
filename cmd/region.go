package cmd

import (
	"context"

	"github.com/redrivectl/redrivectl/audit"
	"github.com/redrivectl/redrivectl/internal/store"
)

// withinRegion refuses to keep anything of a queue in a store that is bound to
// another region. It is the one place that decides this. The store remembers the
// region that the configuration first gave it, and no later edit changes it; a
// store that is bound stays bound where the configuration names no region.
func (a *app) withinRegion(ctx context.Context, st *store.Store, queueName string) error {
	bound, err := a.bindStore(ctx, st)
	if err != nil || bound == "" {
		return err
	}
	switch region := a.cfg.Queues[queueName].Region; region {
	case bound:
		return nil
	case "":
		return fail(exitRefused, "set "+queueKey(queueName, "region")+", if that is where the queue is; or name a store that is not bound: --store FILE",
			"store %s is bound to region %s, and queue %s to none: nothing of it is kept there", st.Path(), bound, queueName)
	default:
		return fail(exitRefused, "use the store of region "+region+": --store FILE, or its own configuration",
			"store %s is bound to region %s, and queue %s to %s: nothing of it is kept there", st.Path(), bound, queueName, region)
	}
}

// bindStore is the region that the store is bound to, from now on if the
// configuration is the first to say so.
func (a *app) bindStore(ctx context.Context, st *store.Store) (string, error) {
	bound, err := st.Region(ctx)
	if err != nil {
		return "", err
	}
	switch configured := a.cfg.Store.Region; {
	case configured == "" || configured == bound:
		return bound, nil
	case bound != "":
		return "", fail(exitRefused, "correct store.region, or name another store: --store FILE",
			"store %s is bound to region %s, and store.region says %s: a store keeps its region for good", st.Path(), bound, configured)
	default:
		return configured, a.rememberRegion(ctx, st, configured)
	}
}

func (a *app) rememberRegion(ctx context.Context, st *store.Store, region string) error {
	who, err := a.who()
	if err != nil {
		return err
	}
	rec := who.Record("bind_region")
	rec.Phase, rec.Result, rec.Reason = audit.Outcome, audit.ResultDone, "store.region"
	return st.BindRegion(ctx, region, rec)
}
