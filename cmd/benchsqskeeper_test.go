package cmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/redrivectl/redrivectl/audit"
	"github.com/redrivectl/redrivectl/internal/ledger"
	"github.com/redrivectl/redrivectl/internal/ledger/sqlledger"
	"github.com/redrivectl/redrivectl/internal/store"
)

// benchKeeper is what a mover needs so that it can be asked what it did and a
// worker takes up its jobs, and nothing else: it moves the jobs' rows, and records
// an intent, a publish and an acknowledgement of each job before the next step. It
// checks nothing but that each row is there and moved.
type benchKeeper struct {
	store  *store.Store
	ledger *sqlledger.Ledger
	parts  chan benchPart
}

// benchPart are the rows of one batch, to be moved.
type benchPart struct {
	keys []ledger.Key
	done chan error
}

const benchRun = "kept"

// openKeeper uses the ledger of a folder, and makes a store beside it.
func openKeeper(ctx context.Context, dir string, batches int) (*benchKeeper, error) {
	s, err := store.Open(ctx, filepath.Join(dir, "kept.db"), store.Options{Create: true, Remembered: audit.Remembered{Dir: filepath.Join(dir, "state")}})
	if err != nil {
		return nil, err
	}
	l, err := sqlledger.Open(ctx, sqlledger.Config{Path: filepath.Join(dir, "ledger.db"), Consumer: "mailer"})
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	k := &benchKeeper{store: s, ledger: l, parts: make(chan benchPart, batches)}
	go k.serve(ctx)
	return k, nil
}

func (k *benchKeeper) close() error { return errors.Join(k.ledger.Close(), k.store.Close()) }

// serve moves the rows of all batches that wait together, as a run does.
func (k *benchKeeper) serve(ctx context.Context) {
	for p := range k.parts {
		group, keys := []benchPart{p}, p.keys
		for range len(k.parts) {
			p := <-k.parts
			group, keys = append(group, p), append(keys, p.keys...)
		}
		err := k.move(ctx, keys)
		for _, p := range group {
			p.done <- err
		}
	}
}

func (k *benchKeeper) move(ctx context.Context, keys []ledger.Key) error {
	cs := make([]ledger.Change, len(keys))
	for i, found := range k.ledger.Get(ctx, keys) {
		if found.Found != ledger.Present {
			return fmt.Errorf("row of %s: %w", keys[i].JobKey, found.Err)
		}
		cs[i] = ledger.Change{
			Key: keys[i], From: found.Row.State, FromAttempt: found.Row.Attempt,
			To: ledger.Queued, Attempt: found.Row.Attempt + 1, Run: benchRun, Actor: benchRun, Unread: true,
		}
	}
	for i, r := range k.ledger.Apply(ctx, cs) {
		if r.Outcome != ledger.Won {
			return fmt.Errorf("move the row of %s: %v %w", keys[i].JobKey, r.Outcome, r.Err)
		}
	}
	return nil
}

// intend records what is about to be done with the messages of a batch, and moves
// their rows.
func (k *benchKeeper) intend(ctx context.Context, ms []types.Message) error {
	p := benchPart{done: make(chan error, 1)}
	for _, m := range ms {
		key, err := jobKey(m)
		if err != nil {
			return err
		}
		p.keys = append(p.keys, ledger.Key{JobKey: key, Consumer: "mailer"})
	}
	if err := k.record(ctx, ms, audit.Intent, "", ""); err != nil {
		return err
	}
	k.parts <- p
	return <-p.done
}

func jobKey(m types.Message) (string, error) {
	var body struct {
		OperationID string `json:"operation_id"`
	}
	err := json.Unmarshal([]byte(*m.Body), &body)
	return body.OperationID, err
}

// record appends a record of each message, as long as a run's.
func (k *benchKeeper) record(ctx context.Context, ms []types.Message, phase audit.Phase, step, result string) error {
	rs := make([]audit.Record, len(ms))
	for i, m := range ms {
		key, err := jobKey(m)
		if err != nil {
			return err
		}
		attempt := 2
		rs[i] = audit.Record{
			Actor: audit.Person{Name: "requester", Known: "account"}, Host: "localhost", ToolVersion: "v0.0.0",
			Run: benchRun, Queue: benchSource, Action: audit.ActionRedrive, Phase: phase, Step: step, Result: result,
			JobKey: key, LedgerRow: "app/mailer/" + key, Attempt: &attempt, MessageID: *m.MessageId,
			CopyID: "arn:aws:sqs:us-east-1:000000000000:" + benchDead + "/" + *m.MessageId, PayloadSHA256: audit.Hash([]byte(*m.Body)),
		}
		if phase == audit.Intent {
			rs[i].Transition, rs[i].Reason = "failed -> queued", "no_effect"
			rs[i].Details = map[string]string{"destination": "arn:aws:sqs:us-east-1:000000000000:" + benchSource, "class": "throttled", "decision_row": "7"}
		}
	}
	_, err := k.store.Append(ctx, rs...)
	return err
}
