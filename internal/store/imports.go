package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
)

// forgotten and forgottenOf are the payload of an import record that tells of
// tries which its queue has forgotten, or NULL; the second has the table's name.
const (
	forgotten   = `(CASE WHEN json_valid(record) AND record ->> '$.details.receives' IS NOT NULL THEN record ->> '$.payload_sha256' END)`
	forgottenOf = `(CASE WHEN json_valid(a.record) AND a.record ->> '$.details.receives' IS NOT NULL THEN a.record ->> '$.payload_sha256' END)`
)

const triedBefore = `SELECT k.value FROM (SELECT DISTINCT value FROM json_each(?)) k WHERE EXISTS (
  SELECT 1 FROM audit a WHERE ` + forgottenOf + ` = k.value AND ` + forgottenOf + ` IS NOT NULL AND a.action = 'import')`

// indexImports makes those records findable by the payload.
func indexImports(ctx context.Context, tx *sql.Tx) error {
	_, err := tx.ExecContext(ctx, `CREATE INDEX audit_forgotten ON audit (`+forgotten+`) WHERE `+forgotten+` IS NOT NULL`)
	return err
}

// TriedBefore are those of the payloads that an import put back as new messages
// although they had been tried more than once. See reconcile.Memory.
func (s *Store) TriedBefore(ctx context.Context, payloadSHA256 []string) (map[string]bool, error) {
	wanted, err := json.Marshal(payloadSHA256)
	if err != nil {
		return nil, fmt.Errorf("read imports: %w", err)
	}
	tried := map[string]bool{}
	err = each(ctx, s.read, func(rows *sql.Rows) error {
		var p string
		err := rows.Scan(&p)
		tried[p] = true
		return err
	}, triedBefore, string(wanted))
	if err != nil {
		return nil, fmt.Errorf("read imports: %w", err)
	}
	return tried, nil
}
