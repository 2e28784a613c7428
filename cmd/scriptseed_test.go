package cmd

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/broker/local"
	"github.com/redrivectl/redrivectl/internal/job"
	"github.com/redrivectl/redrivectl/internal/ledger"
	"github.com/redrivectl/redrivectl/internal/ledger/sqlledger"
	"github.com/redrivectl/redrivectl/internal/provider/providertest"
	"github.com/rogpeppe/go-internal/testscript"
)

// providerKey finds the script's provider among testscript's values.
type providerKey struct{}

// scriptProvider is the provider of one script. Its clock follows what is
// seeded, so that a job can have been accepted an hour ago.
type scriptProvider struct {
	mu     sync.Mutex
	at     time.Time // zero: now
	server *providertest.Server
	url    string
}

func (p *scriptProvider) now() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.at.IsZero() {
		return time.Now()
	}
	return p.at
}

func (p *scriptProvider) set(at time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.at = at
}

// provider start makes one and sets $PROVIDER_URL; provider fault KIND makes all
// of its look-ups fail; provider send KEY KIND makes every send of a job fail, and
// provider clear none; provider accepted KEY N demands how many sends of a job it
// has accepted, and provider once N that it has accepted N jobs, each once.
func scriptProviderCmd(ts *testscript.TestScript, _ bool, args []string) {
	p := ts.Value(providerKey{}).(*scriptProvider)
	switch {
	case len(args) == 1 && args[0] == "start":
		var err error
		p.server, err = providertest.New(providertest.Config{Now: p.now})
		ts.Check(err)
		h := httptest.NewServer(p.server)
		p.url = h.URL
		ts.Setenv("PROVIDER_URL", h.URL)
		ts.Defer(h.Close)
	case len(args) == 2 && args[0] == "fault":
		p.server.Set(providertest.Fault{On: providertest.OnLookup, Kind: providertest.FaultKind(args[1])})
	case len(args) == 3 && args[0] == "send":
		p.server.Set(providertest.Fault{OpID: args[1], On: providertest.OnSend, Kind: providertest.FaultKind(args[2])})
	case len(args) == 1 && args[0] == "clear":
		p.server.Clear()
	case len(args) == 2 && args[0] == "once":
		accepted := p.server.Accepted()
		for key, n := range accepted {
			if n != 1 {
				ts.Fatalf("the provider has accepted %s %d times", key, n)
			}
		}
		if got := fmt.Sprint(len(accepted)); got != args[1] {
			ts.Fatalf("the provider has accepted %s jobs, not %s", got, args[1])
		}
	case len(args) == 3 && args[0] == "accepted":
		if got := fmt.Sprint(p.server.Accepted()[args[1]]); got != args[2] {
			ts.Fatalf("the provider has accepted %s %s times, not %s", args[1], got, args[2])
		}
	default:
		ts.Fatalf("usage: provider start|fault KIND|send KEY KIND|clear|accepted KEY N|once N")
	}
}

// accept sends a job to the provider as a worker would have at that time.
func (p *scriptProvider) accept(ctx context.Context, key string, at time.Time) error {
	p.set(at)
	defer p.set(time.Time{})
	b, err := json.Marshal(providertest.Message{OpID: key, Body: key})
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url+"/messages", bytes.NewReader(b))
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// seedJob is one line of a seed file: a job, what the worker made of it, and
// what the ledger and the provider know.
type seedJob struct {
	Key        string            `json:"key"`
	Subject    string            `json:"subject"`
	Version    string            `json:"version"`
	Kind       string            `json:"kind"`
	Channel    string            `json:"channel"`
	Customer   string            `json:"customer"`
	Status     string            `json:"status"`
	Period     string            `json:"period"`
	Region     string            `json:"region"`
	Schema     string            `json:"schema"`
	Payload    json.RawMessage   `json:"payload"`
	References json.RawMessage   `json:"references"`
	Body       string            `json:"body"`        // in place of the envelope
	BodyBase64 []byte            `json:"body_base64"` // the same, as bytes
	Attributes map[string]string `json:"attributes"`
	Binary     map[string][]byte `json:"binary"` // binary attributes, base64
	Group      string            `json:"group"`
	Receives   int               `json:"receives"` // by workers; 0: 1
	Reason     broker.Reason     `json:"reason"`
	// State is the row's: failed, queued, sending, fenced, sent; empty: no row.
	State    string `json:"state"`
	Class    string `json:"class"`    // of a failed row
	Accepted bool   `json:"accepted"` // by the provider
	Gone     bool   `json:"gone"`     // acknowledged: no dead copy
	Direct   bool   `json:"direct"`   // put into the dead-letter queue by an integration
	Ago      string `json:"ago"`      // when it was sent; default 1h
	Times    int    `json:"times"`    // so many jobs, with -1, -2, … behind the key
}

// seeder writes seed files into one queue file and one ledger, under a clock of
// its own, as an application and its workers would have.
type seeder struct {
	ts       *testscript.TestScript
	ctx      context.Context
	at       time.Time
	file     *local.File
	source   *local.Queue
	ledger   *sqlledger.Ledger
	provider *scriptProvider
}

// seed [-ordered] FILE puts the jobs of a file into queue.db (digests and its
// dead-letter queue digests-dlq) and, where they have a state, into ledger.db.
func scriptSeed(ts *testscript.TestScript, neg bool, args []string) {
	ordered := len(args) == 2 && args[0] == "-ordered"
	if neg || len(args) != 1 && !ordered {
		ts.Fatalf("usage: seed [-ordered] FILE")
	}
	s := &seeder{ts: ts, ctx: context.Background(), provider: ts.Value(providerKey{}).(*scriptProvider)}
	s.open(ordered)
	defer s.file.Close()
	for line := range strings.Lines(ts.ReadFile(args[len(args)-1])) {
		var j seedJob
		if err := json.Unmarshal([]byte(line), &j); err != nil {
			ts.Fatalf("seed %s: %v", line, err)
		}
		if j.Times == 0 {
			s.add(j)
			continue
		}
		for i := range j.Times {
			one := j
			one.Key = fmt.Sprintf("%s-%d", j.Key, i+1)
			s.add(one)
		}
	}
	if s.ledger != nil {
		ts.Check(s.ledger.Close())
	}
}

func (s *seeder) now() time.Time { return s.at }

func (s *seeder) open(ordered bool) {
	var err error
	s.at = time.Now().Add(-48 * time.Hour)
	s.file, err = local.Open(s.ts.MkAbs("queue.db"), local.Options{Create: true, Now: s.now})
	s.ts.Check(err)
	s.ts.Check(s.file.CreateQueue(s.ctx, local.QueueConfig{Name: "digests-dlq", Ordered: ordered, MaxMessageBytes: 4 << 20}))
	s.ts.Check(s.file.CreateQueue(s.ctx, local.QueueConfig{Name: "digests", DeadLetter: "digests-dlq", Ordered: ordered, MaxMessageBytes: 4 << 20}))
	s.ts.Check(s.file.CreateQueue(s.ctx, local.QueueConfig{Name: "elsewhere"}))
	s.source = s.file.Queue("digests")
}

func (s *seeder) openLedger() {
	if s.ledger != nil {
		return
	}
	l, err := sqlledger.Open(s.ctx, sqlledger.Config{Path: s.ts.MkAbs("ledger.db"), Create: true, Consumer: "mailer", Now: s.now})
	s.ts.Check(err)
	s.ts.Check(l.Init(s.ctx))
	s.ledger = l
}

func (s *seeder) add(j seedJob) {
	ago := time.Hour
	if j.Ago != "" {
		var err error
		ago, err = time.ParseDuration(j.Ago)
		s.ts.Check(err)
	}
	s.at = time.Now().Add(-ago)
	m := j.message(s.ts)
	if j.State != "" {
		s.openLedger()
		s.ts.Check(s.ledger.Insert(s.ctx, ledger.NewRow{
			Key: ledger.Key{JobKey: j.Key, Consumer: "mailer"}, Subject: j.Subject, Version: j.Version, Region: j.Region,
			CustomerID: j.Customer, Actor: "application", PayloadSHA256: job.Decode(m, "digests").PayloadSHA256,
		}))
	}
	if j.Direct {
		s.row(j)
		s.ts.Check(s.source.Publish(s.ctx, "digests-dlq", []broker.Outgoing{{Message: m}})[0].Err)
		return
	}
	d := s.receive(m, max(j.Receives, 1))
	if j.Accepted {
		s.ts.Check(s.provider.accept(s.ctx, j.Key, s.at))
	}
	s.row(j)
	rs := s.source.Ack
	if !j.Gone {
		rs = func(ctx context.Context, ds []broker.Delivery) []broker.Result {
			return s.source.Quarantine(ctx, ds, j.Reason)
		}
	}
	s.ts.Check(rs(s.ctx, []broker.Delivery{d})[0].Err)
}

// receive publishes a message and takes it as often as the workers did.
func (s *seeder) receive(m broker.Message, times int) (d broker.Delivery) {
	sent := s.source.Publish(s.ctx, "digests", []broker.Outgoing{{Message: m}})[0]
	s.ts.Check(sent.Err)
	var id broker.CopyID
	_, err := s.source.Browse(s.ctx, 0, func(m broker.Message) error {
		if m.MessageID == sent.NewMessageID {
			id = m.Copy
		}
		return nil
	})
	s.ts.Check(err)
	for i := range times {
		ds, err := s.source.Receive(s.ctx, broker.Request{Max: 1, Lease: time.Minute, Only: []broker.CopyID{id}})
		s.ts.Check(err)
		if len(ds) != 1 {
			s.ts.Fatalf("seed: %d deliveries of %s", len(ds), id)
		}
		d = ds[0]
		if i < times-1 {
			s.ts.Check(s.source.Release(s.ctx, ds)[0].Err)
		}
	}
	return d
}

// row takes the ledger's row to its state, by the moves that a worker makes.
func (s *seeder) row(j seedJob) {
	if j.State == "" || j.State == string(ledger.Queued) {
		return
	}
	k := ledger.Key{JobKey: j.Key, Consumer: "mailer"}
	s.move(ledger.Change{Key: k, From: ledger.Queued, FromAttempt: 1, To: ledger.Sending, ClaimLife: 2 * time.Second, Actor: "worker"})
	c := ledger.Change{Key: k, From: ledger.Sending, FromAttempt: 1, To: ledger.State(j.State), Actor: "worker", Resolve: ledger.ByWorker}
	switch c.To {
	case ledger.Sending:
		return
	case ledger.Failed:
		c.ErrorClass, c.Effect, c.Reason = j.Class, ledger.EffectNone, j.Reason.Message
	case ledger.Sent:
		c.RequestID = "msg-" + j.Key
	case ledger.Fenced:
		c.Actor, c.Resolve = "reconcile", ledger.Unresolved
		s.at = s.at.Add(time.Minute)
	}
	s.move(c)
}

func (s *seeder) move(c ledger.Change) {
	if r := s.ledger.Apply(s.ctx, []ledger.Change{c})[0]; r.Outcome != ledger.Won {
		s.ts.Fatalf("seed: move %s from %s to %s: %v", c.Key.JobKey, c.From, c.To, r.Err)
	}
}

func (j seedJob) message(ts *testscript.TestScript) broker.Message {
	m := broker.Message{Body: []byte(j.Body), OrderKey: j.Group}
	if j.BodyBase64 != nil {
		m.Body = j.BodyBase64
	}
	if len(m.Body) == 0 {
		if j.Payload == nil {
			j.Payload = json.RawMessage(`{"week":"2026-W20"}`)
		}
		envelope := map[string]any{
			"format": job.FormatOwn, "job_key": null(j.Key), "subject": null(j.Subject), "version": null(j.Version), "kind": null(j.Kind),
			"channel": null(j.Channel), "customer": map[string]any{"id": null(j.Customer), "status": null(j.Status)},
			"period": null(j.Period), "region": null(j.Region), "schema_version": null(j.Schema), "payload": j.Payload,
		}
		if j.References != nil {
			envelope["references"] = j.References
		}
		b, err := json.Marshal(envelope)
		ts.Check(err)
		m.Body = b
	}
	for name, v := range j.Attributes {
		m.Attributes = append(m.Attributes, broker.Attribute{Name: name, Type: "String", Value: []byte(v)})
	}
	for name, v := range j.Binary {
		m.Attributes = append(m.Attributes, broker.Attribute{Name: name, Type: "Binary", Value: v})
	}
	slices.SortFunc(m.Attributes, func(x, y broker.Attribute) int { return strings.Compare(x.Name, y.Name) })
	return m
}

func null(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// copies DATABASE QUEUE FILE writes what each copy of a queue consists of: the
// hash of its body, its attributes with their types and bytes, its group.
func scriptCopies(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: copies DATABASE QUEUE FILE")
	}
	var lines []string
	for _, m := range scriptMessages(ts, args[0], args[1]) {
		b, err := json.Marshal(m.Attributes)
		ts.Check(err)
		lines = append(lines, fmt.Sprintf("%x %d %s %q\n", sha256.Sum256(m.Body), len(m.Body), b, m.OrderKey))
	}
	slices.Sort(lines)
	ts.Check(os.WriteFile(ts.MkAbs(args[2]), []byte(strings.Join(lines, "")), 0o600))
}

func scriptMessages(ts *testscript.TestScript, database, queue string) []broker.Message {
	f, err := local.Open(ts.MkAbs(database), local.Options{})
	ts.Check(err)
	defer f.Close()
	var ms []broker.Message
	_, err = f.Queue(queue).Browse(context.Background(), 0, func(m broker.Message) error {
		ms = append(ms, m)
		return nil
	})
	ts.Check(err)
	return ms
}

// gather BEFORE PART... demands that the lines of the parts together are those of
// the first file.
func scriptGather(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: gather BEFORE PART...")
	}
	var got []string
	for _, name := range args[1:] {
		got = append(got, slices.Collect(strings.Lines(ts.ReadFile(name)))...)
	}
	slices.Sort(got)
	if want := slices.Sorted(strings.Lines(ts.ReadFile(args[0]))); !slices.Equal(got, want) {
		ts.Fatalf("%d lines are not the %d of %s:\n%s\n%s", len(got), len(want), args[0], got, want)
	}
}
