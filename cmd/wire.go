package cmd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/redrivectl/redrivectl/audit"
	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/classify"
	"github.com/redrivectl/redrivectl/internal/config"
	"github.com/redrivectl/redrivectl/internal/job"
	"github.com/redrivectl/redrivectl/internal/ledger"
	"github.com/redrivectl/redrivectl/internal/ledger/sqlledger"
	"github.com/redrivectl/redrivectl/internal/provider"
	"github.com/redrivectl/redrivectl/internal/provider/httpcontract"
	"github.com/redrivectl/redrivectl/internal/store"
	"github.com/spf13/cobra"
)

// queue is one dead-letter queue with everything that the config says of it,
// opened.
type queue struct {
	name       string
	brokerName string
	cfg        config.Queue
	broker     broker.Broker
	ledger     ledger.Ledger // nil: none
	ledgerCfg  config.Ledger
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
		q.ledgerCfg = a.cfg.Ledgers[q.cfg.Ledger]
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
	if q.policy, err = a.policyFor(name); err != nil {
		return nil, err
	}
	if qc.MaxAge > 0 {
		q.policy = q.policy.WithMaxAge(qc.MaxAge)
	}
	return q, nil
}

// policyFor is the policy of a queue; for the empty name, and for a queue that
// names none, the one that ships with the program.
func (a *app) policyFor(queueName string) (*classify.Policy, error) {
	if queueName != "" {
		cfg, err := a.config()
		if err != nil {
			return nil, err
		}
		if file, ok := cfg.PolicyFile(queueName); ok {
			return loadPolicy(file)
		}
	}
	return classify.Default()
}

func loadPolicy(file string) (*classify.Policy, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read policy: %w", err)
	}
	return classify.Load(file, data)
}

func (a *app) ledgerConfig(name, consumer string) sqlledger.Config {
	l := a.cfg.Ledgers[name]
	return sqlledger.Config{
		Path: l.Path, Mode: sqlledger.Mode(l.Mode), Table: l.Table, HistoryTable: l.HistoryTable,
		Columns: l.Columns, Statements: l.Statements, TimeFormat: sqlledger.TimeFormat(l.TimeFormat),
		RowWritten: l.RowWritten, Retention: l.Retention, VersionOrder: sqlledger.VersionOrder(l.VersionOrder),
		Consumer: consumer, Now: ledgerClock(),
	}
}

func (a *app) openLedger(ctx context.Context, name, consumer string) (*sqlledger.Ledger, error) {
	c := a.ledgerConfig(name, consumer)
	if l := a.cfg.Ledgers[name]; l.DSN.Set() {
		dsn, err := l.DSN.Resolve(a.getenv)
		if err != nil {
			return nil, a.cfg.Errorf("ledgers."+name+".dsn", "%v", err)
		}
		c.DSN = dsn
	}
	if err := c.Validate(); err != nil {
		return nil, a.cfg.Errorf("ledgers."+name, "%v", err)
	}
	l, err := sqlledger.Open(ctx, c)
	if err != nil {
		return nil, withHint(fmt.Errorf("ledger %s: %w", name, err), "redrivectl ledger init "+name)
	}
	a.onClose(l.Close)
	return l, nil
}

func (a *app) openProvider(name string) (provider.Provider, error) {
	p := a.cfg.Providers[name]
	c := httpcontract.Config{
		Name: name, BaseURL: p.BaseURL, CredentialHeader: p.CredentialHeader, Interval: p.Requests.Interval(),
		Proves: p.Proves, Billing: p.Billing, Region: p.Region, Account: p.Account, Now: a.now,
	}
	if p.Credential.Set() {
		secret, err := p.Credential.Resolve(a.getenv)
		if err != nil {
			return nil, a.cfg.Errorf("providers."+name+".credential", "%v", err)
		}
		c.Credential = secret
	}
	if i := p.Idempotency; i != nil {
		c.Idempotency = &httpcontract.Idempotency{Header: i.Header, MaxBytes: i.MaxBytes, Life: i.Life, Scope: string(i.Scope)}
	}
	if l := p.Lookup; l != nil {
		c.Lookup = lookupContract(l)
	}
	client, err := httpcontract.New(c)
	if err != nil {
		return nil, a.cfg.Errorf("providers."+name, "%v", err)
	}
	return client, nil
}

func lookupContract(l *config.Lookup) *httpcontract.Lookup {
	out := &httpcontract.Lookup{
		Path: l.Path, Found: l.Found, NotFound: l.NotFound, Accepted: l.Accepted, Items: l.Items,
		Bind: l.Bind, RequestID: l.RequestID, LookBack: l.LookBack, Delay: -1,
	}
	if l.Delay != nil {
		out.Delay = *l.Delay
	}
	if p := l.Page; p != nil {
		out.Page = &httpcontract.Page{Cursor: p.Cursor, Param: p.Param, Limit: p.Limit}
	}
	return out
}

// storeOptions are the same for every way of opening the store. The remembered
// checkpoint lies in the user's state folder; without one a cut log could not be
// told, so that is an error.
func (a *app) storeOptions() (store.Options, error) {
	dir, err := config.StateDir(a.getenv)
	return store.Options{
		Now: a.now, VFS: storeVFS(),
		Remembered: audit.Remembered{Dir: filepath.Join(dir, "redrivectl", "checkpoints")},
	}, err
}

var errUnnamedStore = errors.New("CI is set, and the audit log would lie on the runner's own disk")

// storeFile is the store's path. An embedded one that nobody named is refused
// on a build runner, whose disk would take the audit log with it.
func (a *app) storeFile() (string, error) {
	cfg, err := a.config()
	if err != nil {
		return "", err
	}
	if a.storePath != "" {
		return a.storePath, nil
	}
	if !cfg.Store.Named && a.getenv("CI") != "" {
		return "", fail(exitRefused, "name a store that outlives the runner: --store FILE or store.path", "%w", errUnnamedStore)
	}
	return cfg.Store.Path, nil
}

// store opens the store for writing, making it on first use.
func (a *app) store(ctx context.Context) (*store.Store, error) {
	path, err := a.storeFile()
	if err != nil {
		return nil, err
	}
	o, err := a.storeOptions()
	if err != nil {
		return nil, err
	}
	o.Create = true
	s, err := store.Open(ctx, path, o)
	if err != nil {
		return nil, err
	}
	a.onClose(s.Close)
	return s, nil
}

// storeToRead opens the store for reading, or returns nil when there is none
// yet: whoever only looks does not make one.
func (a *app) storeToRead(ctx context.Context) (*store.Store, error) {
	path, err := a.storeFile()
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	o, err := a.storeOptions()
	if err != nil {
		return nil, err
	}
	s, err := store.OpenReadOnly(ctx, path, o)
	if errors.Is(err, store.ErrOlder) {
		return a.store(ctx) // which brings it to this version
	}
	if err != nil {
		return nil, err
	}
	a.onClose(s.Close)
	return s, nil
}

// storeIfAny is for looking at a queue, which needs no store: one that may not
// be used here is as good as none.
func (a *app) storeIfAny(ctx context.Context) (*store.Store, error) {
	st, err := a.storeToRead(ctx)
	if errors.Is(err, errUnnamedStore) {
		return nil, nil
	}
	return st, err
}

// completeQueues completes a QUEUE argument from the config.
func (a *app) completeQueues(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	cfg, err := a.config()
	if err != nil {
		return nil, cobra.ShellCompDirectiveDefault
	}
	names := make([]string, 0, len(cfg.Queues))
	for name := range cfg.Queues {
		names = append(names, name)
	}
	return sorted(names), cobra.ShellCompDirectiveDefault
}
