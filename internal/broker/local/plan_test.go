package local

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The hot statements must find their rows by an index, whatever the planner
// thinks of an empty file.
func TestQueryPlans(t *testing.T) {
	t.Parallel()
	f, err := Open(filepath.Join(t.TempDir(), "queue.db"), Options{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, c := range []struct{ name, query, index string }{
		{"ready", selectReady, "INDEX message_ready"},
		{"named", selectNamed, "INDEX message_queue (queue=? AND id=?)"},
		{"lease", leaseMessage, "INTEGER PRIMARY KEY"},
		{"acknowledge", deleteLeased, "INTEGER PRIMARY KEY"},
		{"expiry", purgeExpired, "INDEX message_expiry"},
		{"page", browsePage, "INDEX message_queue"},
		{"depth", depthQuery, "COVERING INDEX message_ready"},
		{"deduplication window", purgeDedup, "INDEX dedup_until"},
	} {
		plan := explain(t, f, c.query)
		if !strings.Contains(plan, c.index) || strings.Contains(plan, "SCAN message") || strings.Contains(plan, "TEMP B-TREE FOR ORDER BY") {
			t.Errorf("%s does not go by %s:\n%s", c.name, c.index, plan)
		}
	}
}

func explain(t *testing.T, f *File, query string) string {
	t.Helper()
	// The number of parameters is all that the planner needs to know of them.
	args := make([]any, 0, 5)
	numbers := regexp.MustCompile(`\?(\d)`).FindAllStringSubmatch(query, -1)
	most := strings.Count(query, "?")
	if len(numbers) > 0 {
		most = 0
		for _, n := range numbers {
			most = max(most, int(n[1][0]-'0'))
		}
	}
	for range most {
		args = append(args, "1")
	}
	rows, err := f.write.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+query, args...)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var plan strings.Builder
	for rows.Next() {
		var id, parent, unused int
		var detail string
		if err := rows.Scan(&id, &parent, &unused, &detail); err != nil {
			t.Fatal(err)
		}
		plan.WriteString(detail + "\n")
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return plan.String()
}
