package cmd

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/redrivectl/redrivectl/internal/ledger/sqlledger"
	"github.com/redrivectl/redrivectl/internal/term"
	"github.com/spf13/cobra"
)

func newLedgerCmd(a *app) *cobra.Command {
	return group("ledger", "Make or check the ledger of an application", newLedgerInitCmd(a), newLedgerCheckCmd(a))
}

func newLedgerInitCmd(a *app) *cobra.Command {
	var show bool
	c := &cobra.Command{
		Use: "init [LEDGER]", Short: "Make the shipped ledger schema",
		Long: `Make the shipped schema in a configured ledger's database, creating the SQLite
file if there is none. A ledger whose table or columns are mapped is the
application's to make, and is refused.`,
		Example: "  redrivectl ledger init app\n  redrivectl ledger init --print", Args: atMostOne("LEDGER"),
		RunE: func(c *cobra.Command, args []string) error {
			if show {
				return a.printSchema(args)
			}
			return a.initLedger(c.Context(), args)
		},
	}
	c.Flags().BoolVar(&show, "print", false, "print the schema's SQL and make nothing")
	return exits(c, exitRefused)
}

func (a *app) printSchema(args []string) error {
	if len(args) > 0 {
		return usagef("--print prints the shipped schema: leave %s out", args[0])
	}
	if err := a.asIs("the schema"); err != nil {
		return err
	}
	schema, err := sqlledger.Schema(sqlledger.SQLite)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(a.stdout, strings.TrimSpace(schema))
	return err
}

// ledgerName is the ledger that an argument names, or the only one configured.
func (a *app) ledgerName(args []string) (string, error) {
	cfg, err := a.config()
	if err != nil {
		return "", err
	}
	names := slices.Sorted(maps.Keys(cfg.Ledgers))
	switch {
	case len(args) == 1 && slices.Contains(names, args[0]):
		return args[0], nil
	case len(args) == 1:
		return "", fail(exitFailed, "", "ledger %s is not configured; the config has: %s", args[0], firstText(strings.Join(names, ", ")))
	case len(names) == 1:
		return names[0], nil
	case len(names) == 0:
		return "", fail(exitFailed, "redrivectl init", "the config names no ledger")
	default:
		return "", usagef("name one of the ledgers: %s", strings.Join(names, ", "))
	}
}

func (a *app) initLedger(ctx context.Context, args []string) error {
	name, err := a.ledgerName(args)
	if err != nil {
		return err
	}
	c := a.ledgerConfig(name, "")
	if c.Mode == sqlledger.Read {
		return fail(exitRefused, "set ledgers."+name+".mode: write", "ledger %s is read-only by its config", name)
	}
	c.Create = true
	l, err := sqlledger.Open(ctx, c)
	if err != nil {
		return err
	}
	a.onClose(l.Close)
	if err := l.Init(ctx); err != nil {
		return fmt.Errorf("make ledger %s: %w", name, err)
	}
	return a.print(result{
		Object:  map[string]any{"ledger": name, "made": true},
		Headers: []string{"what", "value"}, Rows: [][]string{{"ledger", name}, {"schema", "made"}},
	})
}

func newLedgerCheckCmd(a *app) *cobra.Command {
	return exits(&cobra.Command{
		Use: "check [LEDGER]", Short: "Check that a ledger is what the config says",
		Long: `Check table, columns, indexes, clock and rows of a configured ledger, and say
what it can and cannot do for a redrive.`,
		Example: "  redrivectl ledger check\n  redrivectl ledger check app -o json", Args: atMostOne("LEDGER"),
		RunE: func(c *cobra.Command, args []string) error { return a.checkLedger(c.Context(), args) },
	})
}

type findingView struct {
	Severity string `json:"severity"`
	What     string `json:"what"`
	Detail   string `json:"detail"`
}

func (a *app) checkLedger(ctx context.Context, args []string) error {
	name, err := a.ledgerName(args)
	if err != nil {
		return err
	}
	l, err := a.openLedger(ctx, name, "")
	if err != nil {
		return err
	}
	fs, err := l.Check(ctx)
	if err != nil {
		return fmt.Errorf("check ledger %s: %w", name, err)
	}
	caps := l.Capabilities()
	abilities := map[string]bool{
		"writable": caps.Writable, "scoped": caps.Scoped, "history": caps.History,
		"send_before": caps.SendBefore, "payload_sha256": caps.PayloadSHA256,
	}
	r := result{Headers: []string{"severity", "what", "detail"}}
	views, bad := []findingView{}, false
	for _, f := range fs {
		v := findingView{f.Severity, f.What, term.Mask(f.Detail)}
		bad = bad || f.Severity == "error"
		views = append(views, v)
		r.Elements = append(r.Elements, v)
		r.Rows = append(r.Rows, []string{v.Severity, v.What, v.Detail})
	}
	for _, k := range slices.Sorted(maps.Keys(abilities)) {
		r.Rows = append(r.Rows, []string{"can", k, strconv.FormatBool(abilities[k])})
	}
	r.Object = map[string]any{"ledger": name, "ok": !bad, "capabilities": abilities, "findings": views}
	if err := a.print(r); err != nil {
		return err
	}
	if bad {
		return silently(exitFailed)
	}
	return nil
}
