package sqlledger

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redrivectl/redrivectl/internal/ledger"
)

// ErrExists says that the ledger has a row for the key already.
var ErrExists = errors.New("ledger has this row already")

// Insert writes the row of a job that is being enqueued, at attempt 1, with its
// first line of history. ErrExists changes nothing: the job was enqueued before.
func (l *Ledger) Insert(ctx context.Context, rows ...ledger.NewRow) error {
	lay, err := l.writable(ctx)
	if err != nil {
		return err
	}
	tx, err := l.db.Begin(ctx, nil)
	if err != nil {
		return fmt.Errorf("enqueue in ledger: %w", err)
	}
	err = l.insertAll(ctx, tx, lay, rows)
	if err != nil {
		return errors.Join(fmt.Errorf("enqueue in ledger: %w", err), tx.Rollback())
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("enqueue in ledger: %w", err)
	}
	return nil
}

func (l *Ledger) insertAll(ctx context.Context, tx querier, lay *layout, rows []ledger.NewRow) error {
	now, err := l.now(ctx, tx)
	if err != nil {
		return err
	}
	for _, n := range rows {
		if err := l.insert(ctx, tx, lay, now, n, "", time.Time{}); err != nil {
			return err
		}
	}
	return nil
}

func (l *Ledger) insert(ctx context.Context, tx querier, lay *layout, now time.Time, n ledger.NewRow, run string, before time.Time) error {
	if !plain(n.Key) {
		return fmt.Errorf("ledger key %q is no plain text", n.Key.JobKey)
	}
	c := ledger.Change{Key: n.Key, To: ledger.Queued, Attempt: 1, Run: run, Actor: n.Actor, SendBefore: before}
	p := &changeParams{Change: c, l: l, now: now, row: &n}
	taken, err := l.exec(ctx, tx, lay.insert, p)
	if err != nil {
		return err
	}
	if taken == 0 {
		return fmt.Errorf("job key %q: %w", n.Key.JobKey, ErrExists)
	}
	return l.appendEvent(ctx, tx, lay, l.statementsOf(lay, shapeOf(c)).append, p)
}

// insertRow does nothing where the key has a row.
func (l *Ledger) insertRow(lay *layout) string {
	var cols, values []string
	for _, a := range []assignment{
		{"job_key", ":job_key"},
		{"consumer", ":consumer"},
		{"state", ":to_state"},
		{"attempt", ":attempt"},
		{"run", ":run"},
		{"subject", ":subject"},
		{"version", ":version"},
		{"payload_sha256", ":payload_sha256"},
		{"region", ":region"},
		{"account", ":account"},
		{"customer_id", ":customer_id"},
		{"send_before", ":send_before"},
		{"late_accept", "0"},
		{"retryable", "0"},
		{"created_at", ":now"},
		{"updated_at", ":now"},
	} {
		if lay.has(a.column) {
			cols, values = append(cols, l.own(a.column)), append(values, a.value)
		}
	}
	table := l.quoted(l.cfg.Table)
	return "INSERT INTO " + table + " (" + strings.Join(cols, ", ") + ") SELECT " + strings.Join(values, ", ") +
		" WHERE NOT EXISTS (SELECT 1 FROM " + table + " WHERE " + l.keyIs(lay) + ")"
}

// Rendering is the content that was stored for the job, or nil. Content whose
// hash is not the stored one is an error: it must never be sent.
func (l *Ledger) Rendering(ctx context.Context, key ledger.Key) ([]byte, error) {
	lay, err := l.renderings(ctx)
	if err != nil {
		return nil, err
	}
	query, args, err := l.sql.bind("SELECT "+l.own("rendering")+", "+l.own("rendering_sha256")+
		" FROM "+l.quoted(l.cfg.Table)+" WHERE "+l.keyIs(lay), l.keyParams(key))
	if err != nil {
		return nil, fmt.Errorf("read rendering: %w", err)
	}
	var content []byte
	var sum sql.NullString
	switch err := l.db.QueryRowContext(ctx, query, args...).Scan(&content, &sum); {
	case errors.Is(err, sql.ErrNoRows):
		return nil, fmt.Errorf("read rendering of %q: %w", key.JobKey, ledger.ErrMissing)
	case err != nil:
		return nil, fmt.Errorf("read rendering of %q: %w", key.JobKey, err)
	case sum.String == "":
		return nil, nil
	case sum.String != hash(content):
		return nil, fmt.Errorf("rendering of %q is not what was stored", key.JobKey)
	}
	return content, nil
}

// SaveRendering stores the content that every attempt is to send, unless one is
// stored already, and returns the stored one: of two renderings the first wins.
func (l *Ledger) SaveRendering(ctx context.Context, key ledger.Key, content []byte) ([]byte, error) {
	lay, err := l.renderings(ctx)
	if err == nil && l.cfg.Mode == Read {
		err = ledger.ErrReadOnly
	}
	if err != nil {
		return nil, err
	}
	p := l.keyParams(key)
	p["rendering"], p["rendering_sha256"] = content, hash(content)
	_, err = l.exec(ctx, l.db, l.sql.bound("UPDATE "+l.quoted(l.cfg.Table)+" SET "+l.own("rendering")+" = :rendering, "+
		l.own("rendering_sha256")+" = :rendering_sha256 WHERE "+l.keyIs(lay)+
		" AND COALESCE("+l.own("rendering_sha256")+", '') = ''"), p)
	if err != nil {
		return nil, fmt.Errorf("store rendering of %q: %w", key.JobKey, err)
	}
	return l.Rendering(ctx, key)
}

func (l *Ledger) keyParams(key ledger.Key) named {
	return named{"job_key": key.JobKey, "consumer": or(key.Consumer, l.cfg.Consumer)}
}

func (l *Ledger) renderings(ctx context.Context) (*layout, error) {
	lay, err := l.tableLayout(ctx, l.db)
	if err != nil {
		return nil, err
	}
	if m := lay.missing(renderingColumns); len(m) > 0 {
		return nil, fmt.Errorf("rendering: %w: no column for %s", ErrSchema, strings.Join(m, ", "))
	}
	return lay, nil
}

func hash(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
