package cmd

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"

	"github.com/redrivectl/redrivectl/internal/provider/providertest"
	"github.com/spf13/cobra"
)

// demoListening begins the line by which a provider says that it is ready.
const demoListening = "listening on "

type demoProviderOptions struct {
	app    *app
	dir    string
	faults string
	eof    bool // end with standard input
}

func newDemoProviderCmd(a *app) *cobra.Command {
	o := &demoProviderOptions{app: a}
	c := &cobra.Command{
		Use: "provider", Short: "Start the provider of a demo's folder again",
		Long: `Start the provider of a demo's folder again, on the address in its config and
with the log it has kept, until it is interrupted. It accepts what it is sent at
POST /messages and shows it at GET /messages.`,
		Example: "  redrivectl demo provider --dir /tmp/world", Args: exactArgs(),
		RunE: func(c *cobra.Command, _ []string) error {
			if o.eof {
				return untilEOF(c.Context(), a.stdin, o.run)
			}
			return o.run(c.Context())
		},
	}
	f := c.Flags()
	f.StringVar(&o.dir, "dir", ".", "the demo's folder")
	f.StringVar(&o.faults, "faults", "", "file with the faults to strike with")
	f.BoolVar(&o.eof, "until-eof", false, "end when standard input ends")
	must(f.MarkHidden("faults"))
	must(f.MarkHidden("until-eof"))
	return exits(c, exitInterrupted)
}

func (o *demoProviderOptions) run(ctx context.Context) error {
	cfg, q, err := o.app.demoConfig(o.dir)
	if err != nil {
		return err
	}
	base, err := url.Parse(cfg.Providers[q.Provider].BaseURL)
	if err != nil {
		return fmt.Errorf("read the provider's address: %w", err)
	}
	if err := o.guardPort(ctx, base.Port()); err != nil {
		return err
	}
	plan, err := readOutage(o.faults)
	if err != nil {
		return err
	}
	s, err := providertest.New(providertest.Config{Now: o.app.now, Plan: plan, Log: filepath.Join(cfg.Dir(), demoProviderLog)})
	if err != nil {
		return err
	}
	o.app.onClose(s.Close)
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", base.Host)
	if err != nil {
		return fmt.Errorf("start the demo's provider: %w", err)
	}
	if _, err := fmt.Fprintln(o.app.stdout, demoListening+base.String()); err != nil {
		return fmt.Errorf("write output: %w", err)
	}
	return s.Serve(ctx, l)
}

// guardPort keeps demos away from the port for as long as this provider lives, as the
// demo did that chose it. A provider that a demo has started is guarded by that.
func (o *demoProviderOptions) guardPort(ctx context.Context, text string) error {
	port, err := strconv.Atoi(text)
	if err != nil || o.eof || port < demoFirstPort || port > demoLastPort {
		return nil //nolint:nilerr // Without a number it is no port that a demo chose.
	}
	guard, err := guardDemoPort(ctx, port)
	if err != nil {
		return fmt.Errorf("start the demo's provider: another demo has port %d now: %w", port, err)
	}
	o.app.onClose(guard.Close)
	return nil
}

// readOutage reads a file of faults, each for one operation; no file is no
// fault.
func readOutage(path string) (providertest.Plan, error) {
	if path == "" {
		return nil, nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read faults: %w", err)
	}
	var fs []providertest.Fault
	if err := json.Unmarshal(data, &fs); err != nil {
		return nil, fmt.Errorf("read faults from %s: %w", path, err)
	}
	byOp := make(map[string]providertest.Fault, len(fs))
	for _, f := range fs {
		byOp[f.OpID] = f
	}
	return func(on providertest.On, opID string, _ int) providertest.Fault {
		if f := byOp[opID]; f.On == on {
			return f
		}
		return providertest.Fault{}
	}, nil
}
