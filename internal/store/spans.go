package store

import (
	"context"
	"database/sql"
)

// A span of the log is 2,048 records. Copies, message IDs and customers have no
// order, so an index by one of them alone has every entry on another page, and a
// page costs more to write than a record. These indexes begin with the span:
// what a run adds to them lies together, and whoever looks for one asks span for
// span, those of a run or all. Of a copy they have the end, which tells it from
// others; the whole is compared with the record.

// spanIndexes cuts those indexes into spans, and leaves out of audit_forgotten what
// is no import, so that its records alone are read as JSON.
func spanIndexes(ctx context.Context, tx *sql.Tx) error {
	_, err := tx.ExecContext(ctx, `DROP INDEX audit_copy; DROP INDEX audit_message; DROP INDEX audit_customer; DROP INDEX audit_forgotten;
CREATE INDEX audit_copy      ON audit (seq >> 11, substr(copy_id, -16)) WHERE copy_id <> '';
CREATE INDEX audit_message   ON audit (seq >> 11, message_id)           WHERE message_id <> '' AND `+leads+`;
CREATE INDEX audit_customer  ON audit (seq >> 11, customer)             WHERE customer <> ''   AND `+leads+`;
CREATE INDEX audit_forgotten ON audit (`+forgotten+`)                   WHERE action = 'import' AND `+forgotten+` IS NOT NULL`)
	return err
}

// everySpan is a table of all spans.
const everySpan = `spans(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM spans WHERE n < (SELECT max(seq) >> 11 FROM audit))`

// ofCopy are the records of a copy. The copy stands in it twice.
const ofCopy = `(WITH RECURSIVE ` + everySpan + `
  SELECT c.seq FROM spans s CROSS JOIN audit c ON (c.seq >> 11) = s.n AND substr(c.copy_id, -16) = substr(?, -16)
    AND c.copy_id = ? AND c.copy_id <> '')`

// lastSpan is where a run ends whose ID is given as SQL.
func lastSpan(run string) string {
	return `(SELECT max(r.seq) >> 11 FROM audit r WHERE r.run = ` + run + ` AND r.run <> '')`
}

// inRun begins a query for the records c of copies of a run, from one on. led is a
// query for sequence, run, copy, and a value that a column of theirs has; spans is
// everySpan and a comma where led needs it. joined ends the query.
func inRun(spans, led string) string {
	return `WITH RECURSIVE ` + spans + `led(seq, run, copy, value) AS MATERIALIZED (` + led + `),
    part(run, copy, value, n, last) AS (
      SELECT run, copy, value, min(seq) >> 11, ` + lastSpan(`led.run`) + ` FROM led WHERE run <> '' AND copy <> '' GROUP BY run, copy, value
      UNION ALL SELECT run, copy, value, n + 1, last FROM part WHERE n < last)`
}

// joined are the records that inRun looks for.
func joined(column string) string {
	return `SELECT c.seq FROM part CROSS JOIN audit c ON (c.seq >> 11) = part.n AND substr(c.copy_id, -16) = substr(part.copy, -16)
      AND c.copy_id = part.copy AND c.copy_id <> '' AND c.run = part.run AND c.` + column + ` = part.value`
}

// closedLater says that a record c ended the copy of record a in its run.
var closedLater = `EXISTS (WITH RECURSIVE s(n, last) AS (SELECT a.seq >> 11, ` + lastSpan(`a.run`) + `
        UNION ALL SELECT n + 1, last FROM s WHERE n < last)
      SELECT 1 FROM s CROSS JOIN audit c ON (c.seq >> 11) = s.n AND substr(c.copy_id, -16) = substr(a.copy_id, -16)
        AND c.copy_id = a.copy_id AND c.copy_id <> '' AND c.run = a.run AND c.run <> '' AND c.seq > a.seq
        AND c.phase = 'outcome' AND (c.step = 'close' OR c.step = 'ack' AND c.result = 'done'))`
