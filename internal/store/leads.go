package store

import (
	"context"
	"database/sql"
)

// leads are the records by which the log finds a job: all but the outcomes of a
// run's publishes and acknowledgements, which follow an intent of the same run
// and copy. Those are two of three, and an entry in an index costs as much as the
// rest of a record. SQLite uses the indexes below where a query has these very
// conditions.
const (
	leads = `(phase <> 'outcome' OR run = '' OR step NOT IN ('publish', 'ack'))`
	// ofPlan are the records of a plan but those of its run's jobs.
	ofPlan = `(copy_id = '' OR run = '')`
)

// leadsOf is leads for the table as l.
const leadsOf = `(l.phase <> 'outcome' OR l.run = '' OR l.step NOT IN ('publish', 'ack'))`

// leadsTo is leads for the table as b.
const leadsTo = `(b.phase <> 'outcome' OR b.run = '' OR b.step NOT IN ('publish', 'ack'))`

// narrowIndexes leaves out of the indexes what another record of the job leads to.
func narrowIndexes(ctx context.Context, tx *sql.Tx) error {
	_, err := tx.ExecContext(ctx, `DROP INDEX audit_plan; DROP INDEX audit_job; DROP INDEX audit_message; DROP INDEX audit_customer;
CREATE INDEX audit_plan     ON audit (plan, action) WHERE plan <> ''       AND `+ofPlan+`;
CREATE INDEX audit_job      ON audit (job_key)      WHERE job_key <> ''    AND `+leads+`;
CREATE INDEX audit_message  ON audit (message_id)   WHERE message_id <> '' AND `+leads+`;
CREATE INDEX audit_customer ON audit (customer)     WHERE customer <> ''   AND `+leads)
	return err
}

// following finds the records of which a column is as asked, with those that
// follow them in a run.
func following(column, asked string) string {
	spans, from, where := ``, `audit l`, `l.`+column+` `+asked
	if column != "job_key" {
		spans, from, where = everySpan+`, `, `spans s CROSS JOIN audit l`, `(l.seq >> 11) = s.n AND `+where
	}
	led := `SELECT l.seq, l.run, l.copy_id, l.` + column + ` FROM ` + from + ` WHERE ` + where + ` AND l.` + column + ` <> '' AND ` + leadsOf
	return `(` + inRun(spans, led) + `
    SELECT seq FROM led UNION ` + joined(column) + `)`
}

// inPlan finds the records of a plan and of its run. The plan stands in it three
// times.
const inPlan = `(SELECT seq FROM audit WHERE plan = ? AND plan <> '' AND ` + ofPlan + `
    UNION SELECT c.seq FROM (SELECT DISTINCT run FROM audit WHERE plan = ? AND plan <> '' AND ` + ofPlan + `) runs
      CROSS JOIN audit c ON c.run = runs.run AND c.run <> '' AND c.plan = ?)`
