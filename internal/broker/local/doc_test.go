package local_test

import (
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/broker/local"
)

// documented are the SQL blocks of docs/local-queue.md by the name in their
// first line.
func documented(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "local-queue.md"))
	if err != nil {
		t.Fatal(err)
	}
	blocks := map[string]string{}
	for _, m := range regexp.MustCompile("(?s)```sql\n-- ([^\n]+)\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		blocks[m[1]] = m[2]
	}
	return blocks
}

// foreign is a client that knows only what the page says.
type foreign struct {
	*testing.T
	db     *sql.DB
	blocks map[string]string
	used   map[string]bool
	now    time.Time
}

func (c *foreign) args(args []any) []any {
	named := []any{sql.Named("now", c.now.UnixMilli())}
	for i := 0; i < len(args); i += 2 {
		named = append(named, sql.Named(args[i].(string), args[i+1]))
	}
	return named
}

func (c *foreign) statement(name string) string {
	c.Helper()
	c.used[name] = true
	if c.blocks[name] == "" {
		c.Fatalf("the page has no statement %q", name)
	}
	return c.blocks[name]
}

func (c *foreign) exec(name string, args ...any) (changed, id int64) {
	c.Helper()
	r, err := c.db.ExecContext(c.Context(), c.statement(name), c.args(args)...)
	if err != nil {
		c.Fatalf("%s: %v", name, err)
	}
	changed, _ = r.RowsAffected() // the driver has both
	id, _ = r.LastInsertId()
	return changed, id
}

func (c *foreign) row(name string, into []any, args ...any) error {
	c.Helper()
	return c.db.QueryRowContext(c.Context(), c.statement(name), c.args(args)...).Scan(into...)
}

// receive is the page's receive: find, move what is exhausted, lease.
func (c *foreign) receive(queue string) (id int64, receipt, body string, receives int) {
	c.Helper()
	for {
		var exhausted bool
		if err := c.row("receive: find", []any{&id, &exhausted}, "queue", queue); err != nil {
			c.Fatalf("find: %v", err)
		}
		if !exhausted {
			break
		}
		_, moved := c.exec("receive: move", "id", id)
		c.exec("receive: move the attributes", "id", id, "moved", moved)
		c.exec("receive: remove what was moved", "id", id)
		c.exec("receive: forget an earlier move", "moved", moved)
		c.exec("receive: note the move", "moved", moved)
	}
	var until int64
	var message string
	if err := c.row("receive: lease", []any{&receipt, &until, &message, &receives, &body}, "id", id); err != nil {
		c.Fatalf("lease: %v", err)
	}
	return id, receipt, body, receives
}

func openForeign(t *testing.T) (*foreign, *local.File, *clock) {
	t.Helper()
	path, tick := filepath.Join(t.TempDir(), "queue.db"), newClock()
	f, err := local.Open(path, local.Options{Create: true, Now: tick.now})
	if err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite3", "file:"+path+"?_pragma=busy_timeout(10000)&_pragma=synchronous(full)&_pragma=foreign_keys(on)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, c := range []func() error{db.Close, f.Close} {
			if err := c(); err != nil {
				t.Error(err)
			}
		}
	})
	return &foreign{t, db, documented(t), map[string]bool{}, tick.now()}, f, tick
}

func TestDocumentedStatements(t *testing.T) {
	t.Parallel()
	c, f, tick := openForeign(t)
	c.exec("create", "queue", "jobs-dlq", "dead_letter", nil, "max_receives", 0)
	c.exec("create", "queue", "jobs", "dead_letter", "jobs-dlq", "max_receives", 2)
	var poison, good int64
	var messageID string
	for id, body := range map[*int64]string{&poison: "poison", &good: "good"} {
		if err := c.row("enqueue", []any{id, &messageID}, "queue", "jobs", "order_key", "", "body", []byte(body)); err != nil {
			t.Fatal(err)
		}
		c.exec("enqueue an attribute", "id", *id, "position", 0, "name", "kind", "type", "Binary", "value", []byte{0, 0xff})
	}
	jobs := f.Queue("jobs")
	named := broker.CopyID{Entity: "jobs", ID: fmt.Sprint(poison)}
	for range 2 {
		wantBodies(t, "Go receives what SQL sent", receive(t, jobs, 1, named), "poison")
		tick.advance(2 * time.Minute)
	}
	c.now = tick.now()

	id, receipt, body, receives := c.receive("jobs")
	var name, kind string
	var value []byte
	if err := c.row("receive: attributes", []any{&name, &kind, &value}, "id", id); err != nil || body != "good" || receives != 1 {
		t.Fatalf("received %q %d times, error %v", body, receives, err)
	}
	for _, step := range []struct {
		name    string
		changed int64
	}{{"extend", 1}, {"release", 1}, {"acknowledge", 0}} {
		if n, _ := c.exec(step.name, "id", id, "receipt", receipt, "lease_ms", 60000); n != step.changed {
			t.Errorf("%s changed %d rows, want %d", step.name, n, step.changed)
		}
	}
	c.checkGone(jobs, good)
	c.checkMoved(f)
	for block := range c.blocks {
		if !c.used[block] {
			t.Errorf("statement %q of the page was not tried", block)
		}
	}
}

// checkMoved compares the copy that SQL moved with what Go would have made.
func (c *foreign) checkMoved(f *local.File) {
	c.Helper()
	ms := browse(c, f.Queue("jobs-dlq"))
	if len(ms) != 1 {
		c.Fatalf("%d dead copies", len(ms))
	}
	want := broker.Message{
		Copy: ms[0].Copy, MessageID: ms[0].MessageID, Origin: "jobs", Body: []byte("poison"), Receives: 2,
		Attributes: []broker.Attribute{{Name: "kind", Type: "Binary", Value: []byte{0, 0xff}}},
		System: []broker.Attribute{
			{Name: broker.SystemQuarantinedBy, Type: "String", Value: []byte(broker.QuarantinedByMaxReceives)},
			{Name: broker.SystemReasonAt, Type: "String", Value: []byte("2026-03-01T08:04:00.000Z")},
		},
		SentAt: newClock().now(), FirstReceivedAt: newClock().now(),
	}
	if diff := cmp.Diff(want, ms[0]); diff != "" {
		c.Fatalf("moved copy (-want +got):\n%s", diff)
	}
}

// checkGone receives once more, past the poison, and acknowledges.
func (c *foreign) checkGone(jobs *local.Queue, id int64) {
	c.Helper()
	_, receipt, body, receives := c.receive("jobs")
	if n, _ := c.exec("acknowledge", "id", id, "receipt", receipt); n != 1 || receives != 2 || body != "good" {
		c.Fatalf("acknowledged %d of %q after %d receives", n, body, receives)
	}
	if n, _ := c.exec("expire", "queue", "jobs"); n != 0 || len(browse(c, jobs)) != 0 {
		c.Fatalf("%d expired", n)
	}
	var left int
	if err := c.db.QueryRow("SELECT count(*) FROM attribute WHERE message = ?", id).Scan(&left); err != nil || left != 0 {
		c.Fatalf("%d attributes of the acknowledged copy are left, error %v", left, err)
	}
}
