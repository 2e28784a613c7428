package sqlledger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/redrivectl/redrivectl/internal/ledger"
	"github.com/redrivectl/redrivectl/internal/sqlite"
)

// Get answers with one query per 500 keys: the rows, and the lines of their
// history.
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
	var rows map[ledger.Key]*found
	lay, err := l.tableLayout(ctx, q)
	if err == nil {
		rows, err = l.query(ctx, q, lay, keys, events)
	}
	out := make([]ledger.Lookup, len(keys))
	for i, k := range keys {
		switch f := rows[l.scopedKey(lay, k)]; {
		case err != nil:
			out[i] = ledger.Lookup{Found: ledger.Unreadable, Err: err}
		case !plain(k):
			out[i] = ledger.Lookup{Found: ledger.Unreadable, Err: fmt.Errorf("ledger key %q is no plain text", k.JobKey)}
		case f == nil || f.rows == 0:
			out[i] = ledger.Lookup{Found: ledger.Missing}
		default:
			out[i] = f.lookup(events)
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

// query maps each key of the table to what was found of it.
func (l *Ledger) query(ctx context.Context, q querier, lay *layout, keys []ledger.Key, events bool) (map[ledger.Key]*found, error) {
	statement, name, asked := l.cfg.Statements["get"], "keys", keysJSON
	own := statement == ""
	if own {
		statement, name, asked = lay.get[events], "pairs", pairsJSON
	}
	list, err := asked(l.askedFor(lay, keys))
	if err != nil {
		return nil, fmt.Errorf("read ledger: %w", err)
	}
	rows := make(map[ledger.Key]*found, len(keys))
	err = l.each(ctx, q, statement, named{name: list}, func(r *record) error {
		k := l.scopedKey(lay, r.key())
		f := rows[k]
		if f == nil {
			f = &found{kept: own && lay.history}
			rows[k] = f
		}
		if own && r.value("seq") != nil {
			f.addEvent(r, l.cfg.TimeFormat)
		} else {
			f.addRow(r, l.cfg.TimeFormat)
		}
		return nil
	})
	return rows, err
}

// askedFor are the keys as the table has them.
func (l *Ledger) askedFor(lay *layout, keys []ledger.Key) []ledger.Key {
	asked := make([]ledger.Key, 0, len(keys))
	for _, k := range keys {
		if plain(k) {
			asked = append(asked, l.scopedKey(lay, k))
		}
	}
	return asked
}

// keysJSON is :keys, as a configured statement is given them.
func keysJSON(keys []ledger.Key) (string, error) {
	type pair struct {
		JobKey   string `json:"job_key"`
		Consumer string `json:"consumer"`
	}
	ps := make([]pair, len(keys))
	for i, k := range keys {
		ps[i] = pair(k)
	}
	b, err := json.Marshal(ps)
	return string(b), err
}

// pairsJSON is an object whose members are the job keys with their consumers, the
// form that SQLite takes apart with least effort. A job key may be there twice.
func pairsJSON(keys []ledger.Key) (string, error) {
	b := []byte{'{'}
	for i, k := range keys {
		if i > 0 {
			b = append(b, ',')
		}
		name, err := json.Marshal(k.JobKey)
		if err != nil {
			return "", err
		}
		value, err := json.Marshal(k.Consumer)
		if err != nil {
			return "", err
		}
		b = append(append(append(b, name...), ':'), value...)
	}
	return string(append(b, '}')), nil
}

// each runs a row statement, and calls do for every line of its answer.
func (l *Ledger) each(ctx context.Context, q querier, statement string, p params, do func(*record) error) (err error) {
	query, args, err := l.sql.bind(statement, p)
	if err != nil {
		return fmt.Errorf("read ledger: %w", err)
	}
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return fmt.Errorf("read ledger: %w", sqlite.Ended(ctx, err))
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	names, err := rows.Columns()
	if err != nil {
		return fmt.Errorf("read ledger: %w", err)
	}
	r := newRecord(names)
	for rows.Next() {
		if err := r.scan(rows); err != nil {
			return fmt.Errorf("read ledger: %w", err)
		}
		if err := do(r); err != nil {
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("read ledger: %w", sqlite.Ended(ctx, err))
	}
	return nil
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
	return l.each(ctx, l.scans, statement, p, func(r *record) error {
		f := &found{}
		f.addRow(r, l.cfg.TimeFormat)
		lk := f.lookup(false)
		if lk.Found != ledger.Present {
			return fmt.Errorf("scan ledger: %w", lk.Err)
		}
		return each(lk.Row)
	})
}
