package sqlledger

import (
	"fmt"
	"strings"
	"sync"

	"github.com/redrivectl/redrivectl/internal/ledger"
)

// Dialect names the database's SQL.
type Dialect string

// SQLite is the dialect of the embedded ledger.
const SQLite Dialect = "sqlite"

// dialect is everything that differs between databases. Every other piece of
// SQL in this package is common.
type dialect struct {
	bounds      *sync.Map // statement to bound
	placeholder func(n int) string
	quote       func(identifier string) string
	// now yields the database's clock as text in timeLayout.
	now string
	// instant turns a stored time into a number that compares.
	instant func(expr string, f TimeFormat) string
	// keys is a subquery of the job keys, scoped with their consumers, that are the
	// members of the JSON object :pairs.
	keys func(scoped bool) string
	// events aggregates JSON objects of name-expression pairs into one array.
	events func(pairs [][2]string) string
	// newer compares two versions: is a newer than b?
	newer  func(a, b string, o VersionOrder) string
	ddl    func(table, history string) string
	schema string // the default schema
	// columns lists the columns of :table in :schema; none when there is none.
	columns string
	// indexes lists one row (index, 1 when unique, column) per indexed column.
	indexes string
}

func dialects(d Dialect) (dialect, error) {
	if d == SQLite || d == "" {
		return sqliteDialect(), nil
	}
	return dialect{}, fmt.Errorf("ledger dialect %q is not known", d)
}

func sqliteDialect() dialect {
	return dialect{
		bounds:      &sync.Map{},
		placeholder: func(n int) string { return fmt.Sprintf("?%d", n) },
		quote:       func(s string) string { return `"` + strings.ReplaceAll(s, `"`, `""`) + `"` },
		now:         `SELECT strftime('%Y-%m-%dT%H:%M:%fZ', 'now')`,
		instant:     sqliteInstant,
		keys: func(scoped bool) string {
			if !scoped {
				return `SELECT key FROM json_each(:pairs)`
			}
			return `SELECT key, value FROM json_each(:pairs)`
		},
		events: func(pairs [][2]string) string {
			args := make([]string, 0, len(pairs))
			for _, p := range pairs {
				args = append(args, "'"+p[0]+"', "+p[1])
			}
			return "json_group_array(json_object(" + strings.Join(args, ", ") + "))"
		},
		newer:   sqliteNewer,
		ddl:     sqliteSchema,
		schema:  "main",
		columns: `SELECT name FROM pragma_table_xinfo(:table, :schema)`,
		indexes: `SELECT l.name, l."unique" AND NOT l.partial, COALESCE(i.name, '')
			FROM pragma_index_list(:table, :schema) l, pragma_index_info(l.name, :schema) i ORDER BY l.name, i.seqno`,
	}
}

// sqliteInstant compares in whole milliseconds, the precision this package
// writes. A text that is no time is NULL, and NULL refuses every comparison.
func sqliteInstant(expr string, f TimeFormat) string {
	switch f {
	case UnixMilli:
		return expr
	case UnixSeconds:
		return "(" + expr + " * 1000)"
	default:
		return "CAST(round(unixepoch(" + expr + ", 'subsec') * 1000) AS INTEGER)"
	}
}

func sqliteNewer(a, b string, o VersionOrder) string {
	switch o {
	case ByTime:
		return "unixepoch(" + a + ", 'subsec') > unixepoch(" + b + ", 'subsec')"
	case ByText:
		return a + " > " + b
	default:
		return "CAST(" + a + " AS INTEGER) > CAST(" + b + " AS INTEGER)"
	}
}

// Schema is the shipped schema, ready to run: the table of rows, their history
// and the indexes that reads and changes use. Running it twice does no harm.
func Schema(d Dialect) (string, error) {
	sql, err := dialects(d)
	if err != nil {
		return "", err
	}
	return sql.ddl(DefaultTable, DefaultTable+historySuffix), nil
}

func sqliteSchema(table, history string) string {
	states := make([]string, len(ledger.States))
	for i, s := range ledger.States {
		states[i] = "state = '" + string(s) + "'"
	}
	return strings.NewReplacer("{H}", history, "{T}", table, "{STATES}", strings.Join(states, " OR ")).Replace(sqliteDDL)
}

// Times are text in UTC to the millisecond, so that they sort, compare and read
// the same in every language. A check has no IN of more than two: SQLite would build a
// table of such a list for each row that is written.
const sqliteDDL = `CREATE TABLE IF NOT EXISTS "{T}" (
  job_key          TEXT    NOT NULL CHECK (job_key <> ''),
  consumer         TEXT    NOT NULL DEFAULT '',
  state            TEXT    NOT NULL CHECK ({STATES}),
  attempt          INTEGER NOT NULL DEFAULT 1 CHECK (attempt >= 1),
  run              TEXT    NOT NULL DEFAULT '',
  subject          TEXT    NOT NULL DEFAULT '',
  version          TEXT    NOT NULL DEFAULT '',
  payload_sha256   TEXT    NOT NULL DEFAULT '',
  region           TEXT    NOT NULL DEFAULT '',
  account          TEXT    NOT NULL DEFAULT '',
  customer_id      TEXT    NOT NULL DEFAULT '',
  request_id       TEXT    NOT NULL DEFAULT '',
  late_accept      INTEGER NOT NULL DEFAULT 0 CHECK (late_accept IN (0, 1)),
  retryable        INTEGER NOT NULL DEFAULT 0 CHECK (retryable IN (0, 1)),
  error_class      TEXT    NOT NULL DEFAULT '',
  effect           TEXT    NOT NULL DEFAULT '' CHECK (effect = '' OR effect = 'none' OR effect = 'unknown'),
  reason           TEXT    NOT NULL DEFAULT '',
  replaced_by      TEXT    NOT NULL DEFAULT '',
  created_at       TEXT    NOT NULL,
  updated_at       TEXT    NOT NULL,
  claimed_at       TEXT,
  send_deadline    TEXT,
  send_before      TEXT,
  fenced_at        TEXT,
  rendering        BLOB,
  rendering_sha256 TEXT    NOT NULL DEFAULT '',
  PRIMARY KEY (job_key, consumer)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS "{T}_by_state" ON "{T}" (state, updated_at);
CREATE INDEX IF NOT EXISTS "{T}_by_deadline" ON "{T}" (send_deadline) WHERE state = 'sending';
CREATE INDEX IF NOT EXISTS "{T}_by_subject" ON "{T}" (subject, consumer) WHERE subject <> '';
CREATE TABLE IF NOT EXISTS "{H}" (
  seq           INTEGER PRIMARY KEY AUTOINCREMENT,
  job_key       TEXT    NOT NULL,
  consumer      TEXT    NOT NULL DEFAULT '',
  at            TEXT    NOT NULL,
  actor         TEXT    NOT NULL DEFAULT '',
  from_state    TEXT    NOT NULL DEFAULT '',
  to_state      TEXT    NOT NULL,
  attempt       INTEGER NOT NULL,
  run           TEXT    NOT NULL DEFAULT '',
  reason        TEXT    NOT NULL DEFAULT '',
  error_class   TEXT    NOT NULL DEFAULT '',
  effect        TEXT    NOT NULL DEFAULT '',
  request_id    TEXT    NOT NULL DEFAULT '',
  resolution    TEXT    NOT NULL DEFAULT '' CHECK (resolution = '' OR resolution = 'worker' OR resolution = 'verdict'),
  late_accept   INTEGER NOT NULL DEFAULT 0,
  send_deadline TEXT
);
CREATE INDEX IF NOT EXISTS "{H}_by_key" ON "{H}" (job_key, consumer, seq);
`
