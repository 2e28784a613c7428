// Package sqlledger keeps a ledger in the application's own SQL database. Table
// and columns are mapped by configuration, what is more unusual by whole
// statements; a schema of its own is shipped for applications that have none.
package sqlledger

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/redrivectl/redrivectl/internal/ledger"
)

// DefaultTable is the shipped table; its history is DefaultTable + "_history".
const (
	DefaultTable  = "deliveries"
	historySuffix = "_history"
)

// Mode says whether this ledger may be changed.
type Mode string

// Read opens the database read-only and refuses every change before it.
const (
	Write Mode = "write"
	Read  Mode = "read"
)

// VersionOrder says how two versions of one subject compare.
type VersionOrder string

// The orders: whole numbers (the default), RFC 3339 times, or bytes.
const (
	ByInteger VersionOrder = "integer"
	ByTime    VersionOrder = "time"
	ByText    VersionOrder = "text"
)

// TimeFormat is how the table's time columns are stored.
type TimeFormat string

// Text (the default) is RFC 3339 or what SQLite's datetime() writes, read as
// UTC. The others are whole numbers since 1970-01-01T00:00:00Z.
const (
	Text        TimeFormat = "text"
	UnixMilli   TimeFormat = "unix_ms"
	UnixSeconds TimeFormat = "unix"
)

// Config opens a ledger. Everything but Path or DSN has a default.
type Config struct {
	Dialect Dialect // default SQLite
	// Path is a database file; DSN is a path or a "file:" URI. One of the two.
	Path, DSN string
	Mode      Mode // default Write
	// Create makes the file when it does not exist. Without it a mistyped path
	// is an error, not an empty ledger.
	Create bool
	Table  string // default "deliveries"
	// HistoryTable defaults to Table + "_history"; its columns are not mapped.
	HistoryTable string
	// Columns maps the names in this package's schema to the table's own.
	Columns map[string]string
	// Statements replaces whole statements; see Statements for their names and
	// parameters.
	Statements map[string]string
	TimeFormat TimeFormat
	RowWritten ledger.RowWritten // default AtEnqueue
	Retention  time.Duration     // 0: rows are kept for ever
	// VersionOrder defaults to ByInteger.
	VersionOrder VersionOrder
	Consumer     string // for keys that name none
	// Now replaces the database's clock in tests.
	Now func() time.Time
	VFS string // a registered SQLite file layer; for tests that break it
}

// rowColumns are the columns of a row in the order they are read.
var rowColumns = []string{
	"job_key", "consumer", "state", "attempt", "run", "subject", "version", "payload_sha256",
	"region", "account", "customer_id", "request_id", "late_accept", "retryable", "error_class",
	"effect", "reason", "replaced_by", "created_at", "updated_at", "claimed_at", "send_deadline",
	"send_before", "fenced_at",
}

// renderingColumns are kept for workers and never read with a row.
var renderingColumns = []string{"rendering", "rendering_sha256"}

var identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,62}(\.[A-Za-z_][A-Za-z0-9_]{0,62})?$`)

func (c Config) withDefaults() Config {
	c.Dialect = or(c.Dialect, SQLite)
	c.Mode = or(c.Mode, Write)
	c.Table = or(c.Table, DefaultTable)
	c.HistoryTable = or(c.HistoryTable, c.Table+historySuffix)
	c.TimeFormat = or(c.TimeFormat, Text)
	c.RowWritten = or(c.RowWritten, ledger.AtEnqueue)
	c.VersionOrder = or(c.VersionOrder, ByInteger)
	return c
}

func or[T comparable](v, d T) T {
	var zero T
	if v == zero {
		return d
	}
	return v
}

// Validate reports the first setting that cannot be meant. It opens nothing.
func (c Config) Validate() error {
	c = c.withDefaults()
	if _, err := dialects(c.Dialect); err != nil {
		return err
	}
	if (c.Path == "") == (c.DSN == "") {
		return fmt.Errorf("ledger: one of path and dsn is needed")
	}
	for _, e := range []struct {
		name, value string
		allowed     []string
	}{
		{"mode", string(c.Mode), []string{string(Write), string(Read)}},
		{"time_format", string(c.TimeFormat), []string{string(Text), string(UnixMilli), string(UnixSeconds)}},
		{"row_written", string(c.RowWritten), []string{string(ledger.AtEnqueue), string(ledger.AtClaim)}},
		{"version_order", string(c.VersionOrder), []string{string(ByInteger), string(ByTime), string(ByText)}},
	} {
		if !slices.Contains(e.allowed, e.value) {
			return fmt.Errorf("ledger: %s is %q, not one of %s", e.name, e.value, strings.Join(e.allowed, ", "))
		}
	}
	if c.Retention < 0 {
		return fmt.Errorf("ledger: retention %s is below zero", c.Retention)
	}
	return c.validateNames()
}

func (c Config) validateNames() error {
	for _, t := range []string{c.Table, c.HistoryTable} {
		if !identifier.MatchString(t) {
			return fmt.Errorf("ledger: table %q is not a plain identifier", t)
		}
	}
	known := append(slices.Clone(rowColumns), renderingColumns...)
	for _, k := range slices.Sorted(maps.Keys(c.Columns)) {
		if !slices.Contains(known, k) {
			return fmt.Errorf("ledger: columns: %q is not one of %s", k, strings.Join(known, ", "))
		}
		if v := c.Columns[k]; !identifier.MatchString(v) || strings.Contains(v, ".") {
			return fmt.Errorf("ledger: columns: %s is mapped to %q, which is not a plain identifier", k, v)
		}
	}
	for _, k := range slices.Sorted(maps.Keys(c.Statements)) {
		if !slices.Contains(statementNames, k) {
			return fmt.Errorf("ledger: statements: %q is not one of %s", k, strings.Join(statementNames, ", "))
		}
	}
	return nil
}

// column is the table's own name for one of this package's columns.
func (c Config) column(name string) string {
	if own, ok := c.Columns[name]; ok {
		return own
	}
	return name
}

// source is the driver's data source. A file that exists keeps its journal
// mode, which is the application's choice; a new one gets a write-ahead log. What the
// application's own data source sets goes before pragma.
func (c Config) source(pragma string) string {
	base, query, _ := strings.Cut(c.DSN, "?")
	if !strings.HasPrefix(base, "file:") {
		path := c.Path
		if c.DSN != "" {
			path, query = c.DSN, ""
		}
		base = "file:" + (&url.URL{Path: path}).EscapedPath()
	}
	q := []string{"_pragma=busy_timeout(10000)", "_pragma=" + pragma}
	switch {
	case c.Mode == Read:
		q = append(q, "mode=ro", "_pragma=query_only(1)", "_txlock=deferred")
	case c.Create:
		q = append(q, "mode=rwc", "_pragma=synchronous(full)", "_txlock=immediate")
	default:
		q = append(q, "mode=rw", "_pragma=synchronous(full)", "_txlock=immediate")
	}
	if c.VFS != "" {
		q = append(q, "vfs="+url.QueryEscape(c.VFS))
	}
	return base + "?" + strings.Join(append(q, ownParameters(query)...), "&")
}

// makeFile makes a new ledger's file readable by its owner alone, before SQLite,
// which asks the umask, can: it names customers.
func (c Config) makeFile() error {
	if !c.Create || c.Path == "" || c.VFS != "" {
		return nil
	}
	f, err := os.OpenFile(c.Path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

// ownParameters are those of the data source that do not undo this package's.
func ownParameters(query string) []string {
	var keep []string
	for p := range strings.SplitSeq(query, "&") {
		name, _, _ := strings.Cut(p, "=")
		if name != "" && !slices.Contains([]string{"mode", "vfs", "_txlock"}, name) {
			keep = append(keep, p)
		}
	}
	return keep
}

// quiet is an error of opening without the names that the driver tried: those
// of a DSN are a secret's parts.
func (c Config) quiet(err error) error {
	var code sqlite3.ErrorCode
	switch {
	case c.DSN == "":
		return err
	case errors.As(err, &code):
		return code
	default:
		return errors.New("the driver refused the data source")
	}
}
