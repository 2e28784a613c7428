package store

import (
	"errors"
	"time"
	"unicode/utf8"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/driver"

	"github.com/redrivectl/redrivectl/audit"
)

const insertRecord = `INSERT INTO audit (seq, hash, record, time, action, phase, step, result, run, plan, queue,
  copy_id, job_key, message_id, customer) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

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
		for i := range in.sealed {
			if err := in.run(&in.sealed[i]); err != nil {
				return err
			}
			t.head = in.sealed[i].head
		}
		return nil
	})
}

// inserter is insertRecord on SQLite's own connection: what database/sql makes of
// fifteen values costs as much as writing them. It binds those columns alone that
// differ from the record's before, since most are the same all through a run, and
// uses its memory again.
type inserter struct {
	stmt   *sqlite3.Stmt
	bound  columns
	sealed []sealed
	buf    []byte // the canonical bytes of all that is sealed
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

// run writes one record.
func (in *inserter) run(s *sealed) error {
	err := errors.Join(
		in.stmt.BindInt64(1, s.head.Seq), in.stmt.BindText(2, s.head.Hash), in.stmt.BindRawText(3, s.canonical),
		in.stmt.BindInt64(4, s.time), in.bind(&s.columns),
	)
	if err != nil {
		return err
	}
	return in.stmt.Exec()
}

// prepare parses the statement on a connection that has not got it.
func (in *inserter) prepare(c *sqlite3.Conn) error {
	if in.stmt != nil && in.stmt.Conn() == c {
		return nil
	}
	s, _, err := c.Prepare(insertRecord)
	if err != nil {
		return err
	}
	in.stmt = s
	in.bound = columns{}
	for n := range in.bound {
		err = errors.Join(err, s.BindText(n+5, ""))
	}
	return err
}

func (in *inserter) bind(cs *columns) error {
	for n, c := range cs {
		if c == in.bound[n] {
			continue
		}
		if err := in.stmt.BindText(n+5, c); err != nil {
			return err
		}
		in.bound[n] = c
	}
	return nil
}
