package store

import (
	"errors"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/driver"

	"github.com/redrivectl/redrivectl/audit"
)

// manyRecords are written with one statement where there are as many: what a
// statement costs by itself is the triggers' journal above all.
const manyRecords = 10

// A record is bound as the bytes that it is, which saves a copy of it.
const (
	insertRecord = `INSERT INTO audit (seq, hash, record, time, action, phase, step, result, run, plan, queue,
  copy_id, job_key, message_id, customer) VALUES ` + insertValues
	insertValues = `(?, ?, CAST(? AS TEXT), ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	insertedEach = 15 // parameters
)

// sealed is a record with its place in the chain.
type sealed struct {
	canonical []byte
	head      audit.Head
	time      int64
	columns   columns
}

// columns are the searchable members of a record but its time, in the order of
// insertRecord, in the UTF-8 that its canonical form has.
type columns [11]string

func columnsOf(r *audit.Record) columns {
	cs := columns{
		r.Action, string(r.Phase), r.Step, r.Result, r.Run, r.Plan, r.Queue,
		r.CopyID, r.JobKey, r.MessageID, r.Customer,
	}
	for i, c := range cs {
		if !utf8.ValidString(c) {
			cs[i] = string([]rune(c))
		}
	}
	return cs
}

// append adds records to the chain, and a checkpoint after every thousandth.
// What is wrong with one of them is found before any is written.
func (t *tx) append(rs ...audit.Record) error {
	in, head := &t.writer.insert, t.head
	in.clear()
	var err error
	for i := range rs {
		if head, err = in.seal(rs[i], head, t.store.now()); err != nil {
			return err
		}
		if head.Seq%checkpointEvery == checkpointEvery-1 {
			t.checkpoint = true
			if head, err = in.seal(audit.CheckpointRecord(head, rs[i]), head, t.store.now()); err != nil {
				return err
			}
		}
	}
	return t.insertSealed()
}

// mark writes a checkpoint record for the head, on behalf of cause.
func (t *tx) mark(cause audit.Record) error {
	t.checkpoint = true
	in := &t.writer.insert
	in.clear()
	if _, err := in.seal(audit.CheckpointRecord(t.head, cause), t.head, t.store.now()); err != nil {
		return err
	}
	return t.insertSealed()
}

func (t *tx) insertSealed() error {
	in := &t.writer.insert
	return t.conn.Raw(func(c any) error {
		if err := in.prepare(c.(driver.Conn).Raw()); err != nil {
			return err
		}
		for all := in.sealed; len(all) > 0; {
			st := &in.many
			if len(all) < manyRecords {
				st = &in.one
			}
			n := len(st.bound)
			if err := st.run(all[:n]); err != nil {
				return err
			}
			t.head, all = all[n-1].head, all[n:]
		}
		return nil
	})
}

// inserter seals records and writes them. It uses its memory again.
type inserter struct {
	one, many statement
	sealed    []sealed
	buf       []byte // the canonical bytes of all that is sealed
}

func (in *inserter) clear() { in.sealed, in.buf = in.sealed[:0], in.buf[:0] }

// seal puts r behind head, to be written.
func (in *inserter) seal(r audit.Record, head audit.Head, now time.Time) (audit.Head, error) {
	r.Time = now
	all, next, err := audit.AppendSealed(in.buf, r, head)
	if err != nil {
		return head, refuse("%w: %w", audit.ErrNotWritable, err)
	}
	in.sealed = append(in.sealed, sealed{all[len(in.buf):], next, nanos(now), columnsOf(&r)})
	in.buf = all
	return next, nil
}

// prepare parses the statements on a connection that has not got them.
func (in *inserter) prepare(c *sqlite3.Conn) error {
	if in.many.stmt != nil && in.many.stmt.Conn() == c {
		return nil
	}
	err := in.close()
	if err == nil {
		in.one, err = newStatement(c, 1)
	}
	if err == nil {
		in.many, err = newStatement(c, manyRecords)
	}
	return err
}

func (in *inserter) close() error { return errors.Join(in.one.stmt.Close(), in.many.stmt.Close()) }

// statement is insertRecord for one record or several, on SQLite's own connection:
// what database/sql makes of fifteen values costs as much as writing them. It
// binds those columns alone that differ from what stood in their place before,
// since most are the same all through a run.
type statement struct {
	stmt  *sqlite3.Stmt
	bound []columns
}

func newStatement(c *sqlite3.Conn, records int) (statement, error) {
	s, _, err := c.Prepare(insertRecord + strings.Repeat(`, `+insertValues, records-1))
	if err != nil {
		return statement{}, err
	}
	st := statement{s, make([]columns, records)}
	for i := range st.bound {
		for n := range st.bound[i] {
			err = errors.Join(err, s.BindText(i*insertedEach+n+5, ""))
		}
	}
	return st, err
}

// run writes as many records as it is for.
func (st *statement) run(rs []sealed) error {
	for i := range rs {
		if err := st.bind(i, &rs[i]); err != nil {
			return err
		}
	}
	return st.stmt.Exec()
}

func (st *statement) bind(i int, s *sealed) error {
	first := i*insertedEach + 1
	err := errors.Join(
		st.stmt.BindInt64(first, s.head.Seq), st.stmt.BindText(first+1, s.head.Hash),
		st.stmt.BindBlob(first+2, s.canonical), st.stmt.BindInt64(first+3, s.time),
	)
	for n, c := range s.columns {
		if err != nil || c == st.bound[i][n] {
			continue
		}
		if err = st.stmt.BindText(first+4+n, c); err == nil {
			st.bound[i][n] = c
		}
	}
	return err
}
