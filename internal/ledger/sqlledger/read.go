package sqlledger

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/redrivectl/redrivectl/internal/ledger"
)

// Get answers with one query per 500 keys: the rows, each with its history
// aggregated beside it.
func (l *Ledger) Get(ctx context.Context, keys []ledger.Key) []ledger.Lookup {
	return l.get(ctx, l.db, keys, false)
}

func (l *Ledger) get(ctx context.Context, q querier, keys []ledger.Key, events bool) []ledger.Lookup {
	out := make([]ledger.Lookup, 0, len(keys))
	for part := range slices.Chunk(keys, maxBatch) {
		out = append(out, l.getBatch(ctx, q, part, events)...)
	}
	return out
}

func (l *Ledger) getBatch(ctx context.Context, q querier, keys []ledger.Key, events bool) []ledger.Lookup {
	var found map[ledger.Key]ledger.Lookup
	lay, err := l.tableLayout(ctx, q)
	if err == nil {
		found, err = l.query(ctx, q, lay, keys, events)
	}
	out := make([]ledger.Lookup, len(keys))
	for i, k := range keys {
		switch at, ok := found[l.scopedKey(lay, k)]; {
		case err != nil:
			out[i] = ledger.Lookup{Found: ledger.Unreadable, Err: err}
		case !plain(k):
			out[i] = ledger.Lookup{Found: ledger.Unreadable, Err: fmt.Errorf("ledger key %q is no plain text", k.JobKey)}
		case !ok:
			out[i] = ledger.Lookup{Found: ledger.Missing}
		default:
			out[i] = at
		}
	}
	return out
}

// plain reports that k survives JSON and SQL text unchanged. A key that does not
// must not be taken for one that has no row.
func plain(k ledger.Key) bool {
	s := k.JobKey + k.Consumer
	return k.JobKey != "" && utf8.ValidString(s) && !strings.ContainsRune(s, 0)
}

// scopedKey is the key as the table has it.
func (l *Ledger) scopedKey(lay *layout, k ledger.Key) ledger.Key {
	if lay == nil || !lay.has("consumer") {
		return ledger.Key{JobKey: k.JobKey}
	}
	return ledger.Key{JobKey: k.JobKey, Consumer: or(k.Consumer, l.cfg.Consumer)}
}

// query maps each key of the table to its row, or to why that cannot be read.
func (l *Ledger) query(ctx context.Context, q querier, lay *layout, keys []ledger.Key, events bool) (map[ledger.Key]ledger.Lookup, error) {
	asked, err := l.keysJSON(lay, keys)
	if err != nil {
		return nil, fmt.Errorf("read ledger: %w", err)
	}
	found := map[ledger.Key]ledger.Lookup{}
	statement := l.statement("get", l.selectRows(lay)+l.whereKeys(lay))
	err = l.each(ctx, q, statement, params{"keys": asked}, events, func(lk ledger.Lookup) error {
		k := l.scopedKey(lay, lk.Row.Key)
		if _, twice := found[k]; twice {
			lk = ledger.Lookup{Found: ledger.Unreadable, Err: fmt.Errorf("ledger has several rows for job key %q", k.JobKey)}
		}
		found[k] = lk
		return nil
	})
	return found, err
}

func (l *Ledger) keysJSON(lay *layout, keys []ledger.Key) (string, error) {
	type pair struct {
		JobKey   string `json:"job_key"`
		Consumer string `json:"consumer"`
	}
	ps := make([]pair, 0, len(keys))
	for _, k := range keys {
		if plain(k) {
			k = l.scopedKey(lay, k)
			ps = append(ps, pair(k))
		}
	}
	b, err := json.Marshal(ps)
	return string(b), err
}

// each runs a row statement. A row that does not decode is an unreadable
// look-up with its key, as far as that is known, and does not end the query.
func (l *Ledger) each(ctx context.Context, q querier, statement string, p params, events bool, do func(ledger.Lookup) error) (err error) {
	query, args, err := l.sql.bind(statement, p)
	if err != nil {
		return fmt.Errorf("read ledger: %w", err)
	}
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return fmt.Errorf("read ledger: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	names, err := rows.Columns()
	if err != nil {
		return fmt.Errorf("read ledger: %w", err)
	}
	for rows.Next() {
		r, err := scanRecord(rows, names)
		if err != nil {
			return fmt.Errorf("read ledger: %w", err)
		}
		if err := do(r.lookup(l.cfg.TimeFormat, events)); err != nil {
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("read ledger: %w", err)
	}
	return nil
}

func scanRecord(rows *sql.Rows, names []string) (record, error) {
	values := make([]any, len(names))
	into := make([]any, len(names))
	for i := range values {
		into[i] = &values[i]
	}
	if err := rows.Scan(into...); err != nil {
		return record{}, err
	}
	r := record{values: make(map[string]any, len(names))}
	for i, n := range names {
		r.values[n] = values[i]
	}
	return r, nil
}

// History is one row with its events.
func (l *Ledger) History(ctx context.Context, key ledger.Key) (ledger.Row, bool, error) {
	lk := l.get(ctx, l.db, []ledger.Key{key}, true)[0]
	if lk.Found == ledger.Unreadable {
		return ledger.Row{}, false, lk.Err
	}
	return lk.Row, lk.Found == ledger.Present, nil
}

// Scan reads the window in one query. An unreadable row ends it with an error,
// because a scan that leaves a row out would pass for complete.
func (l *Ledger) Scan(ctx context.Context, w ledger.Window, each func(ledger.Row) error) error {
	lay, err := l.tableLayout(ctx, l.db)
	if err != nil {
		return err
	}
	where, p, err := l.windowClause(lay, w)
	if err != nil {
		return err
	}
	statement := l.statement("scan", l.selectRows(lay)+where)
	return l.each(ctx, l.db, statement, p, false, func(lk ledger.Lookup) error {
		if lk.Found != ledger.Present {
			return fmt.Errorf("scan ledger: %w", lk.Err)
		}
		return each(lk.Row)
	})
}
