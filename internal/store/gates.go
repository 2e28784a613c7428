package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/redrivectl/redrivectl/audit"
	"github.com/redrivectl/redrivectl/redrive"
)

// createGates adds where in the audit log the verdict on a run's canary stands, and
// who promoted it. The records are the truth; this finds them.
func createGates(ctx context.Context, tx *sql.Tx) error {
	_, err := tx.ExecContext(ctx, `CREATE TABLE gates (
  run      TEXT PRIMARY KEY REFERENCES runs (id),
  judged   INTEGER NOT NULL,
  promoted INTEGER NOT NULL
) STRICT, WITHOUT ROWID`)
	return err
}

// Gate is what is on record of a run's gate. See redrive.Gates.
func (s *Store) Gate(ctx context.Context, run redrive.RunID) (redrive.GateState, error) {
	g, err := gateOf(ctx, s.read, run)
	if err != nil {
		return g, fmt.Errorf("gate of run %s: %w", run, err)
	}
	return g, nil
}

func gateOf(ctx context.Context, q querier, run redrive.RunID) (redrive.GateState, error) {
	var judged, promoted int64
	err := q.QueryRowContext(ctx, `SELECT judged, promoted FROM gates WHERE run = ?`, string(run)).Scan(&judged, &promoted)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return redrive.GateState{}, nil
	case err != nil:
		return redrive.GateState{}, err
	case judged == 0:
		return redrive.GateState{Exists: true}, nil
	}
	rec, err := aboutRun(ctx, q, judged, run, redrive.StepVerdict)
	if err != nil {
		return redrive.GateState{}, err
	}
	g, err := redrive.GateOf(rec)
	if err != nil || promoted == 0 {
		return g, err
	}
	rec, err = aboutRun(ctx, q, promoted, run, redrive.StepPromote)
	if err != nil {
		return g, err
	}
	g.Promoted = redrive.GatePromotion{By: rec.Actor.Name, Reason: rec.Reason, At: rec.Time}
	return g, nil
}

// beginGate notes that a run has a gate, before it is judged.
func (t *tx) beginGate(ctx context.Context, run redrive.RunID, p redrive.Terms) error {
	if p.Canary == 0 {
		return nil
	}
	_, err := t.ExecContext(ctx, `INSERT INTO gates VALUES (?, 0, 0)`, string(run))
	return err
}

// aboutRun reads one record, which must be of this run and step.
func aboutRun(ctx context.Context, q querier, seq int64, run redrive.RunID, step string) (audit.Record, error) {
	var text []byte
	if err := q.QueryRowContext(ctx, `SELECT record FROM audit WHERE seq = ?`, seq).Scan(&text); err != nil {
		return audit.Record{}, fmt.Errorf("record %d: %w", seq, err)
	}
	rec, err := audit.Decode(text)
	if err == nil && (rec.Run != string(run) || rec.Step != step) {
		err = fmt.Errorf("record %d is not the %s of run %s: %w", seq, step, run, redrive.ErrChanged)
	}
	return rec, err
}

// SaveVerdict writes the record of a verdict. See redrive.Gates.
func (s *Store) SaveVerdict(ctx context.Context, l redrive.Lease, rec audit.Record) error {
	_, err := s.write(ctx, "save verdict", 1, func(ctx context.Context, t *tx) error {
		if err := t.fence(ctx, l, s.now()); err != nil {
			return err
		}
		seq := t.head.Seq + 1
		if err := t.append(rec); err != nil {
			return err
		}
		_, err := t.ExecContext(ctx, `INSERT OR REPLACE INTO gates VALUES (?, ?, 0)`, string(l.Run), seq)
		return err
	})
	return err
}

// Promote lets a run go on whose gate is inconclusive. See redrive.Wishes.
func (s *Store) Promote(ctx context.Context, run redrive.RunID, rec audit.Record) (redrive.RunRecord, error) {
	return s.wishRun(ctx, "promote", run, rec, func(ctx context.Context, t *tx, r redrive.RunRecord) error {
		if err := t.mayPromote(ctx, r); err != nil {
			return err
		}
		_, err := t.ExecContext(ctx, `UPDATE gates SET promoted = ? WHERE run = ?`, t.head.Seq+1, string(run))
		return err
	})
}

func (t *tx) mayPromote(ctx context.Context, r redrive.RunRecord) error {
	g, err := gateOf(ctx, t, r.ID)
	if err != nil {
		return err
	}
	if err := g.MayPromote(r); err != nil {
		return refusal{err}
	}
	return nil
}

// Publishes are the recorded publishes of a run. See redrive.Gates.
func (s *Store) Publishes(ctx context.Context, run redrive.RunID) ([]redrive.PublishedCopy, error) {
	var ps []redrive.PublishedCopy
	err := each(ctx, s.read, func(rows *sql.Rows) error {
		var p redrive.PublishedCopy
		var at int64
		if err := rows.Scan(&p.Copy, &at, &p.Result, &p.NewMessageID); err != nil {
			return err
		}
		p.At = fromNanos(at)
		ps = append(ps, p)
		return nil
	}, `SELECT copy_id, time, CASE phase WHEN 'intent' THEN 'intended' ELSE result END, coalesce(record ->> '$.details.new_message_id', '')
  FROM audit WHERE run = ? AND run <> '' AND (phase = 'outcome' AND step = 'publish' OR phase = 'intent' AND action = 'redrive') ORDER BY seq`, string(run))
	if err != nil {
		return nil, fmt.Errorf("read publishes of run %s: %w", run, err)
	}
	return ps, nil
}
