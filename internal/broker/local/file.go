// Package local is a small message broker for the applications of one machine:
// named queues with visibility time-outs, receive counts, delays, a dead-letter
// policy, ordering groups and deduplication, in one SQLite file that several
// processes share. docs/local-queue.md describes the file and its guarantees.
package local

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/ncruces/go-sqlite3"
	_ "github.com/ncruces/go-sqlite3/driver" // the database/sql driver "sqlite3"

	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/sqlite"
)

// schema is the file's layout, version schemaVersion.
//
//go:embed schema.sql
var schema string

const (
	// applicationID marks a queue file ("rdrq"), so that another application's
	// database is never taken for one.
	applicationID = 0x72647271
	schemaVersion = 1
	// readers bounds the connections that look; one more writes.
	readers = 4
)

// ErrNotQueueFile says that the file exists but is not a queue file that this
// version can read.
var ErrNotQueueFile = errors.New("not a queue file of a known version")

// Options are settings of one opened file.
type Options struct {
	// Create makes the file, readable by its owner alone, if it does not exist.
	Create bool
	// Now is the clock of leases, delays and retention; nil is time.Now. All
	// processes that share the file must agree on the time.
	Now func() time.Time
	// VFS names a registered SQLite file layer; empty is the operating system's.
	VFS string
}

// File is one open queue file. All methods may be called from several
// goroutines; any number of processes may have the file open.
type File struct {
	path  string
	now   func() time.Time
	read  *sql.DB
	write *sql.DB // one connection: writers of this process wait in line here
	stmts map[string]*sql.Stmt
}

// Open opens the queue file at path. A missing file is an error that wraps
// broker.ErrNoQueue unless o.Create is set.
func Open(path string, o Options) (*File, error) {
	f, err := open(path, o)
	if err != nil {
		return nil, fmt.Errorf("open queue file %s: %w", path, err)
	}
	return f, nil
}

func open(path string, o Options) (*File, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if o.VFS == "" {
		if err := ensureFile(abs, o.Create); err != nil {
			return nil, err
		}
	}
	f := &File{path: path, now: o.Now}
	if f.now == nil {
		f.now = time.Now
	}
	if err := f.connect(abs, o); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// ensureFile says clearly that the file is missing, or creates it before
// SQLite does, with a mode that keeps payloads from other accounts; modeof gives
// the write-ahead log the same.
func ensureFile(path string, create bool) error {
	if !create {
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%w: no such file", broker.ErrNoQueue)
		} else if err != nil {
			return err
		}
		return nil
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	return file.Close()
}

func (f *File) connect(abs string, o Options) error {
	ctx := context.Background()
	var err error
	if f.write, err = sql.Open("sqlite3", dsn(abs, o, "")); err != nil {
		return err
	}
	f.write.SetMaxOpenConns(1)
	if err := f.prepareFile(ctx, o); err != nil {
		return err
	}
	if f.read, err = sql.Open("sqlite3", dsn(abs, o, "query_only(on)")); err != nil {
		return err
	}
	f.read.SetMaxOpenConns(readers)
	f.read.SetMaxIdleConns(readers)
	return f.prepareStatements(ctx)
}

// dsn is the data source name of one connection. Each setting has its reason in
// docs/local-queue.md; the busy time-out comes first, so that it holds for the
// statements after it.
func dsn(abs string, o Options, extra string) string {
	path := filepath.ToSlash(abs)
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	q := url.Values{"_txlock": {"immediate"}, "_pragma": {
		"busy_timeout(10000)", "synchronous(full)", "foreign_keys(on)", "temp_store(memory)",
	}}
	if extra != "" {
		q.Add("_pragma", extra)
	}
	q.Set("modeof", abs) // the write-ahead log holds payloads too
	q.Set("mode", "rw")
	if o.Create {
		q.Set("mode", "rwc")
	}
	if o.VFS != "" {
		q.Set("vfs", o.VFS)
	}
	query := strings.ReplaceAll(q.Encode(), "+", "%20") // SQLite takes a plus for a plus
	return (&url.URL{Scheme: "file", Path: path, RawQuery: query}).String()
}

// prepareFile checks that the file is a queue file, and makes an empty one into
// one if o.Create is set.
func (f *File) prepareFile(ctx context.Context, o Options) error {
	fresh, err := f.check(ctx, f.write)
	if errors.Is(err, sqlite3.CANTOPEN) && !errors.Is(err, fs.ErrPermission) && !o.Create {
		return fmt.Errorf("%w: %w", broker.ErrNoQueue, err)
	}
	if err != nil || !fresh {
		return err
	}
	if !o.Create {
		return fmt.Errorf("%w: the file is empty", broker.ErrNoQueue)
	}
	mode, err := sqlite.SetWAL(ctx, f.write)
	if err != nil {
		return err
	}
	if o.VFS == "" && mode != "wal" {
		return fmt.Errorf("the file system does not support a write-ahead log (journal mode %s)", mode)
	}
	return f.layOut(ctx)
}

// layOut writes the schema in one transaction. Two processes may create the
// file at once: the second finds it laid out.
func (f *File) layOut(ctx context.Context) error {
	tx, err := f.write.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if fresh, err := f.check(ctx, tx); err != nil || !fresh {
		return errors.Join(err, tx.Rollback())
	}
	marks := fmt.Sprintf("PRAGMA application_id = %d; PRAGMA user_version = %d", applicationID, schemaVersion)
	for _, text := range []string{schema, marks} {
		if _, err := tx.ExecContext(ctx, text); err != nil {
			return errors.Join(fmt.Errorf("lay out the file: %w", err), tx.Rollback())
		}
	}
	return tx.Commit()
}

type rowQuerier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// check reports whether the file is an empty database; an error says that it is
// neither empty nor a queue file.
func (f *File) check(ctx context.Context, db rowQuerier) (fresh bool, err error) {
	var id, version, tables int64
	err = db.QueryRowContext(ctx, `
		SELECT a.application_id, v.user_version, (SELECT count(*) FROM sqlite_schema)
		  FROM pragma_application_id AS a, pragma_user_version AS v`).Scan(&id, &version, &tables)
	switch {
	case err != nil:
		return false, err
	case id == applicationID && version == schemaVersion:
		return false, nil
	case id == 0 && version == 0 && tables == 0:
		return true, nil
	}
	return false, fmt.Errorf("%w (application %#x, version %d)", ErrNotQueueFile, id, version)
}

// Close releases the file. Leases stay as they are and end by themselves.
func (f *File) Close() error {
	var errs []error
	for _, s := range f.stmts {
		errs = append(errs, s.Close())
	}
	for _, db := range []*sql.DB{f.read, f.write} {
		if db != nil {
			errs = append(errs, db.Close())
		}
	}
	return errors.Join(errs...)
}
