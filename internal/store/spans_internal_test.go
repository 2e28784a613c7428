package store

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Whatever is asked of the log by name is found by an index, however long the log
// is: a query plan that walks through it is a fault.
func TestLogIsAskedByIndex(t *testing.T) {
	t.Parallel()
	s, err := Open(t.Context(), filepath.Join(t.TempDir(), "store.db"), Options{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	for name, query := range map[string]string{
		"job":        `SELECT 1 FROM audit WHERE seq IN ` + following("job_key", `= ?`),
		"job prefix": `SELECT 1 FROM audit WHERE seq IN ` + following("job_key", `BETWEEN ? AND ? || char(0x10ffff)`),
		"message":    `SELECT 1 FROM audit WHERE seq IN ` + following("message_id", `= ?`),
		"customer":   `SELECT 1 FROM audit WHERE seq IN ` + following("customer", `= ?`),
		"copy":       `SELECT 1 FROM audit WHERE seq IN ` + ofCopy,
		"plan":       `SELECT 1 FROM audit WHERE seq IN ` + inPlan,
		"names":      nameSources[0],
		"published":  fmt.Sprintf(published, `a.seq IN `+following("job_key", `= ?`)),
		"payload":    fmt.Sprintf(published, samePayload),
		"tried":      triedBefore,
		"replaced":   fmt.Sprintf(replaced, `WHERE `+samePayload),
	} {
		for _, line := range queryPlan(t, s.read, query) {
			if walked.MatchString(line) {
				t.Errorf("%s: %s", name, line)
			}
		}
	}
}

// walked is a step of a plan that looks at every record, at every item of a plan,
// or at all that a run has.
var walked = regexp.MustCompile(`^SCAN (audit|[abcilpr])\b|^SEARCH i .*PRIMARY KEY \(plan=\?\)|^SEARCH c USING INDEX audit_run \(run=\? AND`)

// queryPlan is how SQLite means to find what the query asks for.
func queryPlan(t *testing.T, q querier, query string) (lines []string) {
	t.Helper()
	args := make([]any, strings.Count(query, "?"))
	if strings.Contains(query, "?1") {
		args = args[:1]
	}
	err := each(context.Background(), q, func(rows *sql.Rows) error {
		var line string
		err := rows.Scan(new(int), new(int), new(int), &line)
		lines = append(lines, line)
		return err
	}, `EXPLAIN QUERY PLAN `+query, args...)
	if err != nil {
		t.Fatal(err)
	}
	return lines
}
