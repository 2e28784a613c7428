package cmd

import (
	"github.com/redrivectl/redrivectl/audit"
	"github.com/redrivectl/redrivectl/internal/config"
	"github.com/redrivectl/redrivectl/internal/store"
	"github.com/redrivectl/redrivectl/redrive"
)

// who is the person and the program that records name.
func (a *app) who() (audit.Who, error) {
	actor, err := a.actor()
	if err != nil {
		return audit.Who{}, err
	}
	host, err := a.host()
	if err != nil {
		return audit.Who{}, err
	}
	return audit.Who{Actor: actor, Host: host, ToolVersion: buildVersion().Version}, nil
}

// approver looks at approvals. It is nobody, so that it can give none.
func (a *app) approver(st *store.Store) *redrive.Approver {
	return &redrive.Approver{Plans: st, Now: a.now, Persons: a.persons()}
}

// persons is how the config knows who approves.
func (a *app) persons() redrive.Persons {
	by := a.cfg.Approval
	return redrive.Persons{Solo: by.Solo, Declared: by.Identity == config.Declared, Files: by.TakesFiles()}
}

// personsOf is how the config knows them for a queue, whose policy says how much one
// of them may run alone in an emergency.
func (a *app) personsOf(q *queue) redrive.Persons {
	by := a.persons()
	by.Alone = q.policy.Limits().BreakGlass
	return by
}

// glassRows say first that somebody runs, or ran, a plan alone.
func glassRows(why *string) [][]string {
	if why == nil {
		return nil
	}
	return [][]string{{"BREAK GLASS", *why}}
}

// solo is why a team of one approves for itself; nil: it does not. Every output
// about plans and runs says it.
func (a *app) solo() *string { return text(a.cfg.Approval.Solo) }

func soloRows(why *string) [][]string {
	if why == nil {
		return nil
	}
	return [][]string{{"solo", *why}}
}

// signs is who acts, and what stands for a customer, in the records of a store.
func (a *app) signs(st *store.Store) (audit.Who, func(id string) string, error) {
	who, err := a.who()
	if err != nil {
		return who, nil, err
	}
	customer, err := a.customers(st)
	return who, customer, err
}

// customers makes the keyed HMAC that stands for a customer in this store.
func (a *app) customers(st *store.Store) (func(string) string, error) {
	key, err := a.customerKey(st)
	if err != nil {
		return nil, err
	}
	return func(id string) string { return audit.CustomerTag(key, id) }, nil
}

func (a *app) customerKey(st *store.Store) ([]byte, error) {
	if k := a.cfg.Audit.CustomerKey; k.Set() {
		v, err := k.Resolve(a.getenv)
		return []byte(v), err
	}
	o, err := a.storeOptions()
	if err != nil {
		return nil, err
	}
	return o.Remembered.CustomerKey(st.StoreID())
}
