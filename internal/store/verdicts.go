package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"

	"github.com/redrivectl/redrivectl/internal/ledger"
	"github.com/redrivectl/redrivectl/reconcile"
)

// SaveVerdicts keeps verdicts beside the older ones. See reconcile.Verdicts.
func (s *Store) SaveVerdicts(ctx context.Context, fs ...reconcile.Found) error {
	_, err := s.write(ctx, "save verdicts", 0, func(ctx context.Context, t *tx) error {
		for _, f := range fs {
			evidence, err := json.Marshal(f.Evidence)
			if err != nil {
				return refuse("encode evidence on %s: %w", f.JobKey, err)
			}
			_, err = t.ExecContext(ctx, `INSERT INTO verdicts (queue, job_key, attempt, verdict, at, until, evidence, evidence_sha256)
  VALUES (?, ?, ?, ?, ?, ?, ?, ?)`, f.Queue, f.JobKey, f.Attempt, string(f.Verdict), nanos(f.At), nanos(f.Until),
				string(evidence), f.EvidenceSHA256)
			if err != nil {
				return err
			}
		}
		return nil
	})
	return err
}

// LatestVerdicts maps job keys to the newest verdict on record.
func (s *Store) LatestVerdicts(ctx context.Context, queue string, jobKeys []string) (map[string]reconcile.Found, error) {
	keys, err := json.Marshal(jobKeys)
	if err != nil {
		return nil, fmt.Errorf("read verdicts: %w", err)
	}
	found := map[string]reconcile.Found{}
	err = each(ctx, s.read, func(rows *sql.Rows) error {
		f := reconcile.Found{Queue: queue}
		var at, until int64
		var evidence []byte
		if err := rows.Scan(&f.JobKey, &f.Attempt, &f.Verdict, &at, &until, &evidence, &f.EvidenceSHA256); err != nil {
			return err
		}
		f.At, f.Until = fromNanos(at), fromNanos(until)
		err := json.Unmarshal(evidence, &f.Evidence)
		found[f.JobKey] = f
		return err
	}, `SELECT v.job_key, v.attempt, v.verdict, v.at, v.until, v.evidence, v.evidence_sha256
  FROM (SELECT DISTINCT value FROM json_each(?2)) k CROSS JOIN verdicts v ON v.id = (SELECT id FROM verdicts
    WHERE queue = ?1 AND job_key = k.value ORDER BY at DESC, id DESC LIMIT 1)`, queue, string(keys))
	if err != nil {
		return nil, fmt.Errorf("read verdicts: %w", err)
	}
	return found, nil
}

const insertSeen = `INSERT INTO seen_rows VALUES (?, ?, ?, ?, ?, ?)
  ON CONFLICT DO UPDATE SET state = excluded.state, attempt = excluded.attempt, updated_at = excluded.updated_at
  WHERE (excluded.updated_at, excluded.attempt) >= (updated_at, attempt)`

// Remember keeps the newest that was seen of each row, by the ledger's clock. It
// refuses nothing. See reconcile.Memory.
func (s *Store) Remember(ctx context.Context, ledgerName string, rows []ledger.Row) error {
	_, err := s.submit(ctx, "remember ledger rows", &change{simple: true, do: func(ctx context.Context, t *tx) error {
		for _, r := range rows {
			_, err := t.ExecContext(ctx, insertSeen, ledgerName, r.JobKey, r.Consumer, string(r.State), r.Attempt, nanos(r.UpdatedAt))
			if err != nil {
				return err
			}
		}
		return nil
	}})
	return err
}

// Seen is what Remember kept of the rows; keys that were never seen are absent.
func (s *Store) Seen(ctx context.Context, ledgerName string, keys []ledger.Key) (map[ledger.Key]reconcile.SeenRow, error) {
	jobKeys := map[string][]string{} // by consumer: mostly there is one
	for _, k := range keys {
		jobKeys[k.Consumer] = append(jobKeys[k.Consumer], k.JobKey)
	}
	seen := make(map[ledger.Key]reconcile.SeenRow, len(keys))
	for consumer, of := range jobKeys {
		if err := s.seenOf(ctx, ledgerName, consumer, of, seen); err != nil {
			return nil, fmt.Errorf("read seen ledger rows: %w", err)
		}
	}
	return seen, nil
}

// seenOf adds what was seen of one consumer's rows. CROSS JOIN keeps the keys
// outside, so that each is one look into the index.
func (s *Store) seenOf(ctx context.Context, ledgerName, consumer string, jobKeys []string, seen map[ledger.Key]reconcile.SeenRow) error {
	wanted, err := json.Marshal(jobKeys)
	if err != nil {
		return err
	}
	return each(ctx, s.read, func(rows *sql.Rows) error {
		k := ledger.Key{Consumer: consumer}
		var r reconcile.SeenRow
		var updated int64
		err := rows.Scan(&k.JobKey, &r.State, &r.Attempt, &updated)
		r.UpdatedAt = fromNanos(updated)
		seen[k] = r
		return err
	}, `SELECT s.job_key, s.state, s.attempt, s.updated_at FROM json_each(?) k CROSS JOIN seen_rows s
  ON s.ledger = ? AND s.job_key = k.value AND s.consumer = ?`, string(wanted), ledgerName, consumer)
}
