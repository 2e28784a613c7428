package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/redrivectl/redrivectl/audit"
)

// wholeBelow is the length up to which a run's start verifies the whole log; a
// longer one is verified from the remembered checkpoint on.
const wholeBelow = 20_000

// selectRows reads records with their columns, so that both can be compared.
const selectRows = `SELECT seq, hash, record, time, action, phase, step, result, run, plan, queue,
  copy_id, job_key, message_id, customer FROM audit`

// scanRow reads one record as it is stored, and says where a column does not
// repeat it.
func scanRow(rows *sql.Rows) (audit.Row, error) {
	var r audit.Row
	var c audit.Record
	var record sql.RawBytes
	var at int64
	err := rows.Scan(&r.Seq, &r.Hash, &record, &at, &c.Action, &c.Phase, &c.Step, &c.Result, &c.Run, &c.Plan, &c.Queue,
		&c.CopyID, &c.JobKey, &c.MessageID, &c.Customer)
	r.Canonical = append([]byte(nil), record...)
	if rec, bad := audit.Decode(r.Canonical); err == nil && bad == nil {
		c.Time = fromNanos(at)
		r.Decoded, r.Fault = &rec, columnFault(c, rec)
	}
	return r, err
}

func columnFault(c, rec audit.Record) string {
	if nanos(c.Time) != nanos(rec.Time) || columnsOf(&c) != columnsOf(&rec) {
		return "record was edited: a search column differs from it"
	}
	return ""
}

// auditRows yields the records from a sequence on, as one snapshot of q.
func auditRows(ctx context.Context, q querier, from int64) iter.Seq2[audit.Row, error] {
	stop := errors.New("stop")
	return func(yield func(audit.Row, error) bool) {
		err := each(ctx, q, func(rows *sql.Rows) error {
			r, err := scanRow(rows)
			if err != nil {
				return err
			}
			if !yield(r, nil) {
				return stop
			}
			return nil
		}, selectRows+` WHERE seq >= ? ORDER BY seq`, from)
		if err != nil && !errors.Is(err, stop) {
			yield(audit.Row{}, err)
		}
	}
}

// VerifyAudit verifies the whole log against the checkpoint that this machine
// remembers and those that were kept elsewhere, and remembers its head when it is
// sound. The error says that the log could not be read, or the checkpoint not be
// remembered.
func (s *Store) VerifyAudit(ctx context.Context, kept ...audit.Head) (audit.Report, error) {
	remembered, err := s.Checkpoint()
	if err != nil {
		return audit.Report{}, err
	}
	if remembered != nil {
		kept = append(slices.Clone(kept), *remembered)
	}
	report, err := s.verify(ctx, audit.Head{}, kept...)
	if err == nil && report.OK {
		err = s.remember(report.Head)
	}
	return report, err
}

// VerifyTail verifies what the log holds behind from, which must be in it: an
// error that wraps audit.ErrBroken names the first problem.
func (s *Store) VerifyTail(ctx context.Context, from audit.Head) (audit.Head, error) {
	report, err := s.verify(ctx, from)
	if err == nil {
		err = report.Err()
	}
	return report.Head, err
}

func (s *Store) verify(ctx context.Context, from audit.Head, anchors ...audit.Head) (audit.Report, error) {
	v := audit.NewVerifier(s.id, from, anchors...)
	err := s.read.snapshot(ctx, func(t querier) error {
		if err := s.anchors(ctx, t, v, from); err != nil {
			return err
		}
		return v.Walk(ctx, auditRows(ctx, t, from.Seq+1))
	})
	return v.Report(), err
}

// anchors checks what stands around the chain: the triggers, the record of the
// end, and the record that the walk starts behind.
func (s *Store) anchors(ctx context.Context, t querier, v *audit.Verifier, from audit.Head) error {
	faults, err := schemaFaults(ctx, t)
	if err != nil {
		return err
	}
	for _, f := range faults {
		v.Problem(0, f)
	}
	if _, err := readHead(ctx, t, s.id); errors.Is(err, audit.ErrBroken) {
		v.Problem(0, strings.TrimPrefix(err.Error(), audit.ErrBroken.Error()+": "))
	} else if err != nil {
		return err
	}
	if ok, err := extends(ctx, t, from); err != nil || ok {
		return err
	}
	v.Problem(from.Seq, notExtended)
	return nil
}

const notExtended = "the log was cut or rewritten: it does not extend the remembered checkpoint"

// extends reports that the log has a head where it was.
func extends(ctx context.Context, q querier, from audit.Head) (bool, error) {
	if from.Seq == 0 {
		return true, nil
	}
	var hash string
	err := q.QueryRowContext(ctx, `SELECT hash FROM audit WHERE seq = ?`, from.Seq).Scan(&hash)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return false, err
	}
	return hash == from.Hash, nil
}

// faults are why nothing may be written to the log, as far as is told without
// reading it.
func (s *Store) faults(ctx context.Context, q querier) ([]string, error) {
	faults, err := schemaFaults(ctx, q)
	if err != nil {
		return nil, err
	}
	from, err := s.Checkpoint()
	if err != nil || from == nil {
		return faults, err
	}
	ok, err := extends(ctx, q, *from)
	if err == nil && !ok {
		faults = append(faults, notExtended)
	}
	return faults, err
}

// Checkpoint is the head that this machine remembers of the store; nil if none.
func (s *Store) Checkpoint() (*audit.Head, error) {
	if s.remembered.Dir == "" {
		return nil, nil
	}
	return s.remembered.Load(s.id)
}

func (s *Store) remember(h audit.Head) error {
	if s.remembered.Dir == "" || h.Seq == 0 {
		return nil
	}
	return s.remembered.Save(h)
}

// verifyForRun is what must hold before a run starts: the log is whole, as far
// as is told at a bearable price, and its head could be remembered.
func (s *Store) verifyForRun(ctx context.Context) error {
	from, err := s.Checkpoint()
	if err != nil {
		return notWritable("verify audit log", err)
	}
	if from == nil || from.Seq <= wholeBelow {
		return s.verifyWhole(ctx)
	}
	return s.verifyFrom(ctx, *from)
}

func (s *Store) verifyWhole(ctx context.Context) error {
	report, err := s.VerifyAudit(ctx)
	if err != nil {
		return notWritable("verify audit log", err)
	}
	return report.Err()
}

func (s *Store) verifyFrom(ctx context.Context, from audit.Head) error {
	head, err := s.VerifyTail(ctx, from)
	if errors.Is(err, audit.ErrBroken) {
		return err
	}
	if err == nil {
		err = s.remember(head)
	}
	return notWritable("verify audit log", err)
}

// advance moves the remembered checkpoint to the end of the log, which is head,
// and returns what was remembered. What lies between is verified, unless vouched
// says that it need not be. The error is a log that does not verify; a
// checkpoint that cannot be written takes back no record, so that error is kept
// for CheckpointError.
func (s *Store) advance(ctx context.Context, head audit.Head, vouched func(from audit.Head) bool) (audit.Head, error) {
	if s.remembered.Dir == "" {
		return audit.Head{}, nil
	}
	from, err := s.Checkpoint()
	if from == nil {
		from = &audit.Head{Store: s.id}
	}
	if err == nil && !vouched(*from) {
		head, err = s.VerifyTail(ctx, *from)
		if errors.Is(err, audit.ErrBroken) {
			return audit.Head{}, err
		}
	}
	if err == nil {
		err = s.remember(head)
	}
	if err != nil {
		head = audit.Head{}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.checkpointErr = err
	return head, nil
}

// CheckpointError is why the last checkpoint could not be remembered, or nil.
func (s *Store) CheckpointError() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.checkpointErr
}

// ExportAudit writes the whole log in the form that audit.VerifyExport reads.
func (s *Store) ExportAudit(ctx context.Context, w io.Writer) error {
	return s.read.snapshot(ctx, func(t querier) error {
		h, err := recordedHead(ctx, t, s.id)
		if err != nil {
			return err
		}
		return audit.Export(ctx, w, h, auditRows(ctx, t, 1))
	})
}

// FindAudit calls each for every record that the query selects, newest first
// unless it says otherwise. A record that cannot be read is an error.
func (s *Store) FindAudit(ctx context.Context, q audit.Query, found func(audit.Entry) error) error {
	where, args := conditions(q)
	order := ` ORDER BY seq DESC`
	if q.OldestFirst {
		order = ` ORDER BY seq`
	}
	if q.Limit > 0 {
		order += fmt.Sprintf(` LIMIT %d`, q.Limit)
	}
	err := each(ctx, s.read, func(rows *sql.Rows) error {
		r, err := scanRow(rows)
		if err != nil {
			return err
		}
		if r.Decoded == nil {
			return fmt.Errorf("record %d cannot be read: %w", r.Seq, audit.ErrBroken)
		}
		return found(audit.Entry{Record: *r.Decoded, Hash: r.Hash})
	}, selectRows+where+order, args...)
	if err != nil {
		return fmt.Errorf("read audit log: %w", err)
	}
	return nil
}

// conditions is the query's WHERE. The prefix of a job key is a range, so that
// it can use the index. A job is also found by its edited copy's key.
func conditions(q audit.Query) (string, []any) {
	var terms []string
	var args []any
	add := func(term, value string) {
		if value != "" {
			terms, args = append(terms, term), append(args, value)
		}
	}
	add(`run = ? AND run <> ''`, q.Run)
	if q.Plan != "" {
		terms, args = append(terms, `seq IN `+inPlan), append(args, q.Plan, q.Plan, q.Plan)
	}
	add(`queue = ?`, q.Queue)
	add(`action = ?`, q.Action)
	add(`phase = ?`, string(q.Phase))
	if q.BreakGlass {
		terms = append(terms, `CASE WHEN json_valid(record) THEN record ->> '$.details.break_glass' END IS NOT NULL`)
	}
	for _, job := range []struct{ is, key string }{
		{`= ?`, q.JobKey},
		{`BETWEEN ? AND ? || char(0x10ffff)`, q.JobKeyPrefix},
	} {
		if job.key == "" {
			continue
		}
		terms = append(terms, `(seq IN `+following("job_key", job.is)+` OR `+indexed+` `+job.is+` AND `+indexed+` IS NOT NULL)`)
		for range 2 * strings.Count(job.is, "?") {
			args = append(args, job.key)
		}
	}
	for _, one := range []struct{ column, value string }{{"message_id", q.MessageID}, {"customer", q.Customer}} {
		if one.value != "" {
			terms, args = append(terms, `seq IN `+following(one.column, `= ?`)), append(args, one.value)
		}
	}
	if q.CopyID != "" {
		terms, args = append(terms, `seq IN `+ofCopy), append(args, q.CopyID, q.CopyID)
	}
	if q.After > 0 {
		terms, args = append(terms, `seq > ?`), append(args, q.After)
	}
	if !q.Since.IsZero() {
		terms, args = append(terms, `time >= ?`), append(args, nanos(q.Since))
	}
	if !q.Until.IsZero() {
		terms, args = append(terms, `time < ?`), append(args, nanos(q.Until))
	}
	if len(terms) == 0 {
		return "", nil
	}
	return ` WHERE ` + strings.Join(terms, ` AND `), args
}

// detailed is a record with more details; the caller's own stay as they are.
func detailed(rec audit.Record, more map[string]string) audit.Record {
	all := map[string]string{}
	maps.Copy(all, rec.Details)
	maps.Copy(all, more)
	rec.Details = all
	return rec
}
