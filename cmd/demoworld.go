package cmd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/broker/local"
	"github.com/redrivectl/redrivectl/internal/classify"
	"github.com/redrivectl/redrivectl/internal/config"
	"github.com/redrivectl/redrivectl/internal/ledger"
	"github.com/redrivectl/redrivectl/internal/ledger/sqlledger"
	"github.com/redrivectl/redrivectl/internal/provider/providertest"
)

// Names in the demo's folder and config.
const (
	demoQueue       = "digests"
	demoConsumer    = "mailer"
	demoProviderLog = "provider.log"
	demoOutageFile  = "outage.json"
	demoProcessLog  = "processes.log"
)

const (
	demoMaxAge    = 72 * time.Hour
	demoClaimLife = 2 * time.Second
	// demoChunk is the most messages in one publish of the local broker.
	demoChunk = 100
)

const demoConfigText = `# The demo's world. Relative paths resolve against this file's folder.
queues:
  digests:
    broker: local
    path: queue.db
    dead_letter: digests-dlq
    source: digests
    consumer: mailer
    ledger: app
    provider: mail
    policy: default
    # Short, so that reconciliation need not wait for minutes.
    worker: {claim_life: 2s, max_pause: 1s}
ledgers:
  app: {kind: sqlite, path: ledger.db, mode: write, row_written: enqueue}
providers:
  mail:
    kind: http
    base_url: http://127.0.0.1:%d
    lookup:
      path: "/messages?op_id={job_key}"
      found: 'size(body.items) > 0'
      not_found: 'size(body.items) == 0'
      delay: 1s
      look_back: 30d
    # How many look-ups it can bear.
    requests: 1000/s
    proves: [accepted, not_accepted]
policies: {default: {file: policy.yaml}}
reconcile: {clock_margin: 1s, second_look_after: 1s}
store: {path: store.db}
# REDRIVECTL_ACTOR names the person here.
approval: {mode: recorded, identity: declared}
`

// demoWorld is the world while the demo plays in it.
type demoWorld struct {
	app     *app
	dir     string
	seed    uint64
	planned int // jobs that are to be quarantined
	exe     string
	out     io.Writer // for people

	jobs     map[demoPhase][]demoJob
	file     *local.File
	source   *local.Queue
	dead     *local.Queue
	ledger   *sqlledger.Ledger
	log      *demoLog
	provider *demoProcess
}

func newDemoWorld(ctx context.Context, o *demoOptions, dir string) (*demoWorld, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program's own file: %w", err)
	}
	w := &demoWorld{
		app: o.app, dir: dir, seed: o.seed, planned: o.jobs, exe: exe, out: o.app.narration(),
		jobs: dealDemo(o.jobs, o.seed), log: &demoLog{path: filepath.Join(dir, demoProviderLog)},
	}
	port, guard, err := demoPort(ctx)
	if err != nil {
		return nil, err
	}
	o.app.onClose(guard.Close)
	if err := w.writeFiles(port); err != nil {
		return nil, err
	}
	return w, w.open(ctx)
}

// Demos choose their provider's port of these.
const demoFirstPort, demoLastPort = 8025, 8525

// demoPort finds a free port on loopback, 8025 if that is free. The listener
// holds a neighbour of the port for as long as this demo lives: the provider's
// own port is free while the provider is down, and another demo must not take
// it meanwhile and be sent what was meant for ours.
func demoPort(ctx context.Context) (port int, guard net.Listener, err error) {
	for port = demoFirstPort; port <= demoLastPort; port++ {
		if guard, err = guardDemoPort(ctx, port); err != nil {
			continue
		}
		l, err := listenLoopback(ctx, port)
		if err == nil {
			return port, guard, l.Close()
		}
		if err := guard.Close(); err != nil {
			return 0, nil, fmt.Errorf("find a free port: %w", err)
		}
	}
	return 0, nil, fmt.Errorf("find a free port from %d to %d on loopback: %w", demoFirstPort, demoLastPort, err)
}

func guardDemoPort(ctx context.Context, port int) (net.Listener, error) {
	const neighbour = 10000
	return listenLoopback(ctx, port+neighbour)
}

func listenLoopback(ctx context.Context, port int) (net.Listener, error) {
	return new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
}

func (w *demoWorld) path(name string) string { return filepath.Join(w.dir, name) }

func (w *demoWorld) writeFiles(port int) error {
	policy, err := demoPolicy(classify.DefaultYAML())
	if err != nil {
		return err
	}
	outage, err := json.Marshal(w.faults())
	if err != nil {
		return fmt.Errorf("encode the outage: %w", err)
	}
	for name, data := range map[string][]byte{
		config.FileName: fmt.Appendf(nil, demoConfigText, port), "policy.yaml": policy, demoOutageFile: outage,
	} {
		if err := os.WriteFile(w.path(name), data, 0o600); err != nil {
			return fmt.Errorf("write the demo's folder: %w", err)
		}
	}
	return nil
}

// demoPolicy is the shipped policy with a maximum age and with a retry policy that
// a person can wait for.
func demoPolicy(shipped []byte) ([]byte, error) {
	text := bytes.Clone(shipped)
	for _, line := range [][2]string{
		{"\nmax_age: 0s", "\nmax_age: 72h"}, {"\n  base: 30s", "\n  base: 20ms"}, {"\n  cap: 15m", "\n  cap: 100ms"}, {"\n  budget: 6", "\n  budget: 3"},
	} {
		if bytes.Count(text, []byte(line[0])) != 1 {
			return nil, fmt.Errorf("write the demo's policy: the shipped one has no line %q", line[0][1:])
		}
		text = bytes.Replace(text, []byte(line[0]), []byte(line[1]), 1)
	}
	return text, nil
}

// faults are what the provider will do, by job.
func (w *demoWorld) faults() []providertest.Fault {
	fs := []providertest.Fault{}
	for _, phase := range []demoPhase{demoMisbehaving, demoKilledAfter} {
		for _, j := range w.jobs[phase] {
			if j.fault.Kind != "" {
				fs = append(fs, j.fault)
			}
		}
	}
	return fs
}

// open makes the queue and the ledger.
func (w *demoWorld) open(ctx context.Context) error {
	_, q, err := w.app.demoConfig(w.dir)
	if err != nil {
		return err
	}
	if w.file, err = w.openQueue(w.app.now); err != nil {
		return err
	}
	for _, c := range []local.QueueConfig{{Name: q.DeadLetter}, {Name: q.Sources[0], DeadLetter: q.DeadLetter}} {
		if err := w.file.CreateQueue(ctx, c); err != nil {
			return err
		}
	}
	w.dead, w.source = w.file.Queue(q.DeadLetter), w.file.Queue(q.Sources[0])
	if w.ledger, err = w.openLedger(ctx, nil); err != nil {
		return err
	}
	return w.ledger.Init(ctx)
}

func (w *demoWorld) openQueue(now func() time.Time) (*local.File, error) {
	f, err := local.Open(w.path("queue.db"), local.Options{Create: true, Now: now})
	if err == nil {
		w.app.onClose(f.Close)
	}
	return f, err
}

func (w *demoWorld) openLedger(ctx context.Context, now func() time.Time) (*sqlledger.Ledger, error) {
	l, err := sqlledger.Open(ctx, sqlledger.Config{Path: w.path("ledger.db"), Create: true, RowWritten: ledger.AtEnqueue, Consumer: demoConsumer, Now: now})
	if err == nil {
		w.app.onClose(l.Close)
	}
	return l, err
}

// enqueue does what the application does: the ledger's row, then the message.
// Ancient jobs were enqueued longer ago than the policy allows.
func (w *demoWorld) enqueue(ctx context.Context, js []demoJob) error {
	ancient := slices.DeleteFunc(slices.Clone(js), func(j demoJob) bool { return !j.ancient })
	recent := slices.DeleteFunc(slices.Clone(js), func(j demoJob) bool { return j.ancient })
	if err := enqueueDemo(ctx, w.file, w.ledger, recent); err != nil || len(ancient) == 0 {
		return err
	}
	past := func() time.Time { return w.app.now().Add(-demoMaxAge - 8*time.Hour) }
	f, err := w.openQueue(past)
	if err != nil {
		return err
	}
	l, err := w.openLedger(ctx, past)
	if err != nil {
		return err
	}
	return enqueueDemo(ctx, f, l, ancient)
}

func enqueueDemo(ctx context.Context, f *local.File, l *sqlledger.Ledger, js []demoJob) error {
	for chunk := range slices.Chunk(js, demoChunk) {
		var rows []ledger.NewRow
		out := make([]broker.Outgoing, len(chunk))
		for i, j := range chunk {
			m, err := j.message()
			if err != nil {
				return err
			}
			out[i].Message = m
			if !j.nameless {
				rows = append(rows, j.row(m))
			}
		}
		if err := l.Insert(ctx, rows...); err != nil {
			return err
		}
		var errs []error
		for _, r := range f.Queue(demoQueue).Publish(ctx, demoQueue, out) {
			errs = append(errs, r.Err)
		}
		if err := errors.Join(errs...); err != nil {
			return err
		}
	}
	return nil
}
