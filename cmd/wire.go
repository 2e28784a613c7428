package cmd

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/redrivectl/redrivectl/internal/classify"
	"github.com/redrivectl/redrivectl/internal/config"
	"github.com/redrivectl/redrivectl/internal/ledger/sqlledger"
	"github.com/redrivectl/redrivectl/internal/provider"
	"github.com/redrivectl/redrivectl/internal/provider/httpcontract"
)

// policyFor is the policy of a queue, under the queue's own maximum age.
func (a *app) policyFor(queueName string) (*classify.Policy, error) {
	cfg, err := a.config()
	if err != nil {
		return nil, err
	}
	p, err := policyOrShipped(cfg.PolicyFile(queueName))
	if err != nil {
		return nil, err
	}
	return p.WithMaxAge(cfg.Queues[queueName].MaxAge), nil
}

// policyOrShipped loads a policy file; without one, the policy that ships with
// the program.
func policyOrShipped(file string) (*classify.Policy, error) {
	if file == "" {
		return classify.Default()
	}
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
	switch {
	case errors.Is(err, context.Canceled): // which says nothing of the ledger
		return nil, err
	case err != nil:
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
