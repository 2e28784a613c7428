package cmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/broker/local"
	"github.com/redrivectl/redrivectl/internal/classify"
	"github.com/redrivectl/redrivectl/internal/job"
	"github.com/redrivectl/redrivectl/internal/ledger"
	"github.com/redrivectl/redrivectl/internal/worker"
	"github.com/spf13/cobra"
)

// demoClaimed begins the line by which a stalling worker says that it has
// claimed a job.
const demoClaimed = "claimed "

type demoWorkerOptions struct {
	app     *app
	dir     string
	workers int
	batch   int
	lease   time.Duration
	stall   bool
	eof     bool // end with standard input, as the demo's own workers do
}

func newDemoWorkerCmd(a *app) *cobra.Command {
	o := &demoWorkerOptions{app: a, lease: 30 * time.Second}
	c := &cobra.Command{
		Use: "worker", Short: "Send what waits in a demo's queue",
		Long: `Send what waits in a demo's queue, as its workers do, until it is interrupted: the
jobs that a run put back to work are sent by this. Start the provider first.`,
		Args:    exactArgs(),
		Example: "  redrivectl demo worker --dir /tmp/world",
		RunE: func(c *cobra.Command, _ []string) error {
			if o.workers < 1 || o.batch < 1 || o.lease <= demoClaimLife {
				return usagef("--workers and --batch must be above zero, and --lease above %s", demoClaimLife)
			}
			if o.eof {
				return untilEOF(c.Context(), a.stdin, o.run)
			}
			return o.run(c.Context())
		},
	}
	f := c.Flags()
	f.StringVar(&o.dir, "dir", ".", "the demo's folder")
	f.IntVar(&o.workers, "workers", 4, "how many work at once")
	f.IntVar(&o.batch, "batch", 10, "copies in one receive")
	f.Var(lengthFlag{to: &o.lease}, "lease", "how long a received copy is hidden")
	f.BoolVar(&o.stall, "stall", false, "stand still between claim and send")
	f.BoolVar(&o.eof, "until-eof", false, "end when standard input ends")
	must(f.MarkHidden("stall"))
	must(f.MarkHidden("until-eof"))
	return exits(c, exitInterrupted)
}

func (o *demoWorkerOptions) run(ctx context.Context) error {
	cfg, q, err := o.app.demoConfig(o.dir)
	if err != nil {
		return err
	}
	policy, err := o.app.policyFor(demoQueue)
	if err != nil {
		return err
	}
	l, err := o.app.openLedger(ctx, q.Ledger, q.Consumer)
	if err != nil {
		return err
	}
	file, err := local.Open(q.Path, local.Options{Now: o.app.now})
	if err != nil {
		return err
	}
	o.app.onClose(file.Close)
	sender := worker.Sender(demoHandler{next: &worker.HTTP{BaseURL: cfg.Providers[q.Provider].BaseURL, Client: worker.NewClient()}})
	if o.stall {
		sender = &demoStall{app: o.app}
	}
	ws := make([]*worker.Worker, o.workers)
	for i := range ws {
		actor := fmt.Sprintf("worker %d", i+1)
		ws[i] = &worker.Worker{
			Queue: file.Queue(q.Sources[0]), Ledger: l, Sender: sender, Renderings: l,
			Decode: demoDecode(q.Consumer), Render: demoRender, Retry: policy.Retry(),
			ClaimLife: q.Worker.ClaimLife, Lease: o.lease, Batch: o.batch, Idle: demoPoll, Actor: actor,
			Now: o.app.now, Rand: rand.New(rand.NewPCG(rand.Uint64(), 0)), //nolint:gosec // Jitter.
			Report: func(err error) { o.app.note("%s: %v", actor, err) },
		}
	}
	return runWorkers(ctx, ws)
}

func runWorkers(ctx context.Context, ws []*worker.Worker) error {
	errs := make([]error, len(ws))
	var all sync.WaitGroup
	for i, w := range ws {
		all.Go(func() { errs[i] = w.Run(ctx) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// demoDecode reads what a copy is about.
func demoDecode(consumer string) func(broker.Message) (worker.Work, error) {
	return func(m broker.Message) (worker.Work, error) {
		j := job.Decode(m, demoQueue)
		switch {
		case j.DecodeError != "":
			return worker.Work{}, fmt.Errorf("cannot decode the job: %s", j.DecodeError)
		case j.JobKey == "":
			return worker.Work{}, errors.New("cannot decode the job: it has no job key")
		}
		return worker.Work{Key: ledger.Key{JobKey: j.JobKey, Consumer: consumer}}, nil
	}
}

// demoContent is a job as it is rendered for sending.
type demoContent struct {
	Kind          demoKind        `json:"kind"`
	SchemaVersion string          `json:"schema_version"`
	Text          json.RawMessage `json:"text"`
}

func demoRender(m broker.Message, _ ledger.Row) ([]byte, error) {
	j := job.Decode(m, demoQueue)
	return json.Marshal(demoContent{Kind: demoKind(j.Kind), SchemaVersion: j.SchemaVersion, Text: j.Payload})
}

// demoHandler sends what it understands, and refuses the rest before anything
// is sent.
type demoHandler struct{ next worker.Sender }

func (h demoHandler) Send(ctx context.Context, r worker.Request) (string, error) {
	var c demoContent
	refuse := func(class classify.Class, code string, err error) (string, error) {
		return "", &worker.Failure{Class: class, Effect: classify.EffectNone, Code: code, Err: err}
	}
	switch err := json.Unmarshal(r.Content, &c); {
	case err != nil:
		return refuse(classify.Malformed, "invalid_json", err)
	case c.Kind != demoDigest && c.Kind != demoShipment:
		return refuse(classify.NotSupported, "no_handler", fmt.Errorf("no handler for kind %q", c.Kind))
	case c.SchemaVersion != demoSchema:
		return refuse(classify.SchemaMismatch, "unknown_schema_version", fmt.Errorf("unknown schema version %q", c.SchemaVersion))
	}
	return h.next.Send(ctx, r)
}

// demoStall is a worker that stands still after its claim, as one does whose
// machine is suspended. It sends nothing.
type demoStall struct {
	app *app
	mu  sync.Mutex
}

func (s *demoStall) Send(ctx context.Context, r worker.Request) (string, error) {
	s.mu.Lock()
	_, err := fmt.Fprintln(s.app.stdout, demoClaimed+r.Key.JobKey)
	s.mu.Unlock()
	if err != nil {
		return "", fmt.Errorf("write output: %w", err)
	}
	<-ctx.Done()
	return "", ctx.Err()
}
