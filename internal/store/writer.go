package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/redrivectl/redrivectl/audit"
)

// groupRecords is how many records one commit takes at most.
const groupRecords = 256

// errClosed says that the store was closed.
var errClosed = errors.New("store is closed")

// refusal marks an error that is an answer to one caller: his part of the
// transaction is undone and the others' go on. Any other error ends the whole
// transaction.
type refusal struct{ error }

func (r refusal) Unwrap() error { return r.error }

func refuse(format string, args ...any) error { return refusal{fmt.Errorf(format, args...)} }

// change is one caller's part of a transaction.
type change struct {
	records int  // how many records it adds, for the size of the group
	simple  bool // it refuses, if at all, before it writes
	do      func(context.Context, *tx) error
	head    audit.Head
	err     error
	done    chan struct{}
}

// writer commits changes, several in one transaction. Its goroutine is the only
// one of this process that writes to the file.
type writer struct {
	store  *Store
	db     *sql.DB // one connection
	parsed map[string]*sql.Stmt
	insert inserter
	wait   time.Duration
	queue  chan *change
	quit   chan struct{}
	ended  chan struct{}
	once   sync.Once

	callers int   // how many the last group had
	lost    error // once set, nothing is written any more

	// Everything between since and last was appended by this writer, and anchored
	// is what it has remembered outside the store.
	since, last, anchored audit.Head

	commits, records atomic.Int64
}

func newWriter(ctx context.Context, db *sql.DB, s *Store, wait time.Duration, broken []string) (*writer, error) {
	if wait == 0 {
		wait = DefaultGroupWait
	}
	w := &writer{
		store: s, db: db, parsed: map[string]*sql.Stmt{}, wait: wait,
		queue: make(chan *change), quit: make(chan struct{}), ended: make(chan struct{}),
	}
	for _, query := range []string{selectHead, updateHead, selectLease, insertSeen} {
		var err error
		if w.parsed[query], err = db.PrepareContext(ctx, query); err != nil { //nolint:sqlclosecheck // forget closes it.
			return nil, errors.Join(err, w.forget())
		}
	}
	if len(broken) > 0 {
		w.lost = fmt.Errorf("%w: %s", audit.ErrBroken, strings.Join(broken, ", "))
	}
	go w.loop()
	return w, nil
}

func (w *writer) close() error {
	w.once.Do(func() { close(w.quit) })
	<-w.ended
	return errors.Join(w.forget(), w.db.Close())
}

// forget closes what was parsed.
func (w *writer) forget() error {
	var errs []error
	for _, s := range w.parsed {
		if s != nil {
			errs = append(errs, s.Close())
		}
	}
	return errors.Join(append(errs, w.insert.close())...)
}

// write hands a change to the writer.
func (s *Store) write(ctx context.Context, what string, records int, do func(context.Context, *tx) error) (audit.Head, error) {
	return s.submit(ctx, what, &change{records: records, do: do})
}

// submit waits for a change to be committed. Before the writer takes it, ctx can
// end the wait; from then on the answer is waited for, because a change whose
// fate is not known helps nobody.
func (s *Store) submit(ctx context.Context, what string, c *change) (audit.Head, error) {
	if s.writer == nil {
		return audit.Head{}, notWritable(what, ErrReadOnly)
	}
	c.done = make(chan struct{})
	select {
	case s.writer.queue <- c:
	case <-ctx.Done():
		return audit.Head{}, notWritable(what, ctx.Err())
	case <-s.writer.ended:
		return audit.Head{}, notWritable(what, errClosed)
	}
	<-c.done
	var r refusal
	if errors.As(c.err, &r) {
		return audit.Head{}, fmt.Errorf("%s: %w", what, r.error)
	}
	return c.head, notWritable(what, c.err)
}

func (w *writer) loop() {
	defer close(w.ended)
	for {
		select {
		case c := <-w.queue:
			w.commit(w.gather(c))
		case <-w.quit:
			return
		}
	}
}

// gather waits for others to join, but only while fewer have come than the last
// group had: a single caller never waits, and several that work in step are
// taken together.
func (w *writer) gather(first *change) []*change {
	group, records := []*change{first}, first.records
	timer := time.NewTimer(max(w.wait, 0))
	defer timer.Stop()
	for records < groupRecords {
		c := w.next(len(group) < w.callers, timer.C)
		if c == nil {
			break
		}
		group, records = append(group, c), records+c.records
	}
	w.callers = len(group)
	return group
}

// next takes one more change that is there, or that comes in time.
func (w *writer) next(wait bool, late <-chan time.Time) *change {
	select {
	case c := <-w.queue:
		return c
	default:
	}
	if !wait {
		return nil
	}
	select {
	case c := <-w.queue:
		return c
	case <-late:
		return nil
	case <-w.quit:
		return nil
	}
}

// commit does the group in one transaction and answers every caller. It does
// not use a caller's context: once begun, a transaction runs to its end.
func (w *writer) commit(group []*change) {
	ctx := context.Background()
	if err := w.transact(ctx, group); err != nil {
		w.condemn(err)
		for _, c := range group {
			if !errors.As(c.err, new(refusal)) {
				c.err = err
			}
		}
	}
	for _, c := range group {
		close(c.done)
	}
}

// condemn ends all writing after an error that leaves the file in doubt: after
// a failed sync the system may have dropped what it could not write, and a
// later sync would report success all the same.
func (w *writer) condemn(err error) {
	var code sqlite3.ErrorCode
	if errors.As(err, &code) && (code == sqlite3.IOERR || code == sqlite3.CORRUPT || code == sqlite3.NOTADB) {
		w.lost = fmt.Errorf("store was lost: %w", err)
	}
}

func (w *writer) transact(ctx context.Context, group []*change) error {
	if w.lost != nil {
		return w.lost
	}
	conn, err := w.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // It goes back to be used again.
	begun, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	t := &tx{Tx: begun, conn: conn, writer: w, store: w.store, parsed: map[string]*sql.Stmt{}}
	if err := w.fill(ctx, t, group); err != nil {
		return errors.Join(err, ignoreDone(begun.Rollback()))
	}
	if err := begun.Commit(); err != nil && !w.committed(ctx, t) {
		return err
	}
	w.commits.Add(1)
	w.records.Add(t.head.Seq - t.first.Seq)
	if t.first != w.last {
		w.since = t.first
	}
	w.last = t.head
	if t.checkpoint {
		w.anchored, w.lost = w.store.advance(ctx, t.head, w.vouches)
	}
	return nil
}

// vouches reports that nobody else has appended anything behind a head that this
// writer remembered, so that what the log must hold is known without reading it.
func (w *writer) vouches(from audit.Head) bool {
	return from == w.anchored && w.since.Seq <= from.Seq
}

func (w *writer) fill(ctx context.Context, t *tx, group []*change) error {
	var err error
	if t.head, err = readHead(ctx, t, w.store.id); err != nil {
		return err
	}
	t.first = t.head
	for _, c := range group {
		if err := t.part(ctx, c); err != nil {
			return err
		}
	}
	return t.saveHead(ctx)
}

// committed tells, after COMMIT failed, whether it took effect all the same (the
// error was a later one's, of the checkpoint of the write-ahead log). A commit
// is visible to its connection only once it was synced.
func (w *writer) committed(ctx context.Context, t *tx) bool {
	if t.head == t.first {
		return false
	}
	head, err := readHead(ctx, t.conn, w.store.id)
	return err == nil && head == t.head
}

// ignoreDone drops the error of ending a transaction that SQLite ended itself.
func ignoreDone(err error) error {
	var code sqlite3.ErrorCode
	if errors.As(err, &code) && code == sqlite3.ERROR {
		return nil
	}
	return err
}

// CommitStats counts what this process has committed, for measuring.
func (s *Store) CommitStats() (commits, records int64) {
	if s.writer == nil {
		return 0, 0
	}
	return s.writer.commits.Load(), s.writer.records.Load()
}
