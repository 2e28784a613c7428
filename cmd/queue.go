package cmd

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/classify"
	"github.com/redrivectl/redrivectl/internal/config"
	"github.com/redrivectl/redrivectl/internal/job"
	"github.com/redrivectl/redrivectl/internal/ledger"
	"github.com/redrivectl/redrivectl/internal/provider"
	"github.com/redrivectl/redrivectl/reconcile"
	"github.com/spf13/cobra"
)

// queue is one dead-letter queue with everything that the config says of it,
// opened.
type queue struct {
	name       string
	brokerName string
	cfg        config.Queue
	broker     broker.Broker
	ledger     ledger.Ledger     // nil: none
	provider   provider.Provider // nil: none
	policy     *classify.Policy
	mapping    *job.Mapping // nil: messages are only recognised
}

// decode reads a message as this queue's job.
func (q *queue) decode(m broker.Message) job.Job {
	j := q.mapping.Decode(m, q.name)
	if j.Region == "" {
		j.Region = q.cfg.Region
	}
	return j
}

// queue opens a queue with its policy, its ledger and its provider.
func (a *app) queue(ctx context.Context, arg string) (*queue, error) {
	q, err := a.queueAlone(ctx, arg)
	if err != nil {
		return nil, err
	}
	if q.cfg.Ledger != "" {
		if q.ledger, err = a.openLedger(ctx, q.cfg.Ledger, q.cfg.Consumer); err != nil {
			return nil, err
		}
	}
	if q.cfg.Provider != "" {
		q.provider, err = a.openProvider(q.cfg.Provider)
	}
	return q, err
}

// queueAlone opens a queue with its policy and nothing that stands behind it.
func (a *app) queueAlone(ctx context.Context, arg string) (*queue, error) {
	name, qc, err := a.queueConfig(arg)
	if err != nil {
		return nil, err
	}
	q := &queue{name: name, cfg: qc, brokerName: string(qc.Broker), mapping: a.cfg.Mapping(name)}
	if q.broker, err = a.openBroker(ctx, name, qc); err != nil {
		return nil, err
	}
	if q.cfg.Sources, err = asOrigins(ctx, q.broker, qc.Sources); err != nil {
		return nil, fmt.Errorf("sources of %s: %w", name, err)
	}
	q.policy, err = a.policyFor(name)
	return q, err
}

// describe asks the broker about the queue.
func (q *queue) describe(ctx context.Context) (broker.Description, error) {
	return described(ctx, q.broker, q.name)
}

func described(ctx context.Context, b broker.Broker, name string) (broker.Description, error) {
	d, err := b.Describe(ctx)
	if err != nil {
		return d, fmt.Errorf("describe %s: %w", name, err)
	}
	return d, nil
}

// rows are the rows of the queue's ledger that are its own, as far as the ledger
// can tell.
func (q *queue) rows() ledger.Window {
	w := ledger.Window{}
	if q.ledger.Capabilities().Scoped {
		w.Consumer = q.cfg.Consumer
	}
	return w
}

// scan yields the rows of the window that can be this queue's: a row that names
// another region than the queue is bound to is another's.
func (q *queue) scan(ctx context.Context, w ledger.Window, each func(ledger.Row) error) error {
	return q.ledger.Scan(ctx, w, func(r ledger.Row) error {
		if reconcile.CrossesRegion(q.cfg.Region, r.Region) {
			return nil
		}
		return each(r)
	})
}

// apart reports that consumers keep the rows of two queues of one ledger apart.
func (q *queue) apart(other config.Queue) bool {
	scoped := q.ledger != nil && q.ledger.Capabilities().Scoped
	return scoped && q.cfg.Consumer != "" && other.Consumer != "" && q.cfg.Consumer != other.Consumer
}

// configured are the names of the queues in the config, in alphabetical order.
func configured(cfg *config.Config) []string { return slices.Sorted(maps.Keys(cfg.Queues)) }

// queueNames are the queues that were named, else all of the config, of which
// there must be one.
func (a *app) queueNames(named []string) ([]string, error) {
	cfg, err := a.config()
	if err != nil || len(named) > 0 {
		return named, err
	}
	if len(cfg.Queues) == 0 {
		return nil, fail(exitFailed, "redrivectl init, or redrivectl demo", "no queue is configured")
	}
	return configured(cfg), nil
}

// queueFlag adds --queue, which completes itself.
func (a *app) queueFlag(c *cobra.Command, to *string, usage string) {
	c.Flags().StringVar(to, "queue", "", usage)
	must(c.RegisterFlagCompletionFunc("queue", a.completeQueues))
}

// completeQueues completes a QUEUE argument from the config.
func (a *app) completeQueues(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	cfg, err := a.config()
	if err != nil {
		return nil, cobra.ShellCompDirectiveDefault
	}
	return configured(cfg), cobra.ShellCompDirectiveDefault
}

// knownQueue refuses the name of a queue that nothing is known of, so that a
// slip of the pen is not answered with an empty list.
func (a *app) knownQueue(name string) error {
	if name == "" {
		return nil
	}
	_, _, err := a.queueConfig(name)
	return err
}
