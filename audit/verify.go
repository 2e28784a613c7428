package audit

import (
	"context"
	"fmt"
	"iter"
)

// Row is one record as it is stored or exported, before anything is believed.
type Row struct {
	Seq       int64
	Canonical []byte
	Hash      string
	// Decoded is what Canonical says, where the keeper has read it already; nil
	// leaves that to the verifier.
	Decoded *Record
	// Fault is what the keeper of the rows itself found wrong with this one.
	Fault string
}

// Problem is one thing that does not verify, at the record where it shows.
// Sequence 0 speaks of the log as a whole.
type Problem struct {
	Seq  int64  `json:"seq,string"`
	What string `json:"what"`
}

// Report is the result of a verification.
type Report struct {
	OK          bool      `json:"ok"`
	Records     int64     `json:"records"`
	OpenIntents int       `json:"open_intents"`
	Head        Head      `json:"head"`
	Problems    []Problem `json:"problems"`
}

// maxProblems bounds a report: a rewritten log has as many problems as records.
const maxProblems = 100

// Verifier walks the rows of one store in order and holds each to the chain. It
// keeps nothing of a row but its hash, so that a log of any length verifies in
// the memory of its open intents.
type Verifier struct {
	store   string
	anchors []Head
	last    Head
	open    openIntents
	more    int
	report  Report
}

// NewVerifier starts behind from: the zero head for a whole log, or a head that
// was verified before. The log must extend each of the anchors, the checkpoints
// that are remembered of it.
func NewVerifier(store string, from Head, anchors ...Head) *Verifier {
	from.Store = store
	if from.Seq == 0 {
		from.Hash = Genesis
	}
	v := &Verifier{store: store, last: from, open: openIntents{}}
	v.report.Problems = []Problem{}
	for _, a := range anchors {
		if a.Store != store {
			v.Problem(0, fmt.Sprintf("the checkpoint is of store %s, the log of store %s", a.Store, store))
			continue
		}
		v.anchors = append(v.anchors, a)
	}
	return v
}

// Problem adds one, as found by whoever feeds the rows.
func (v *Verifier) Problem(seq int64, what string) {
	if len(v.report.Problems) == maxProblems {
		v.more++
		return
	}
	v.report.Problems = append(v.report.Problems, Problem{seq, what})
}

// Row checks the next row.
func (v *Verifier) Row(r Row) {
	v.report.Records++
	if r.Fault != "" {
		v.Problem(r.Seq, r.Fault)
	}
	v.place(r)
	if Hash(r.Canonical) != r.Hash {
		v.Problem(r.Seq, "record was edited: it does not hash to its own hash")
	}
	v.content(r)
	v.last.Seq, v.last.Hash = r.Seq, r.Hash
	v.meet(r)
}

func (v *Verifier) place(r Row) {
	switch want := v.last.Seq + 1; {
	case r.Seq > want+1:
		v.Problem(want, fmt.Sprintf("records %d to %d are missing", want, r.Seq-1))
	case r.Seq > want:
		v.Problem(want, "record is missing")
	case r.Seq < want:
		v.Problem(r.Seq, fmt.Sprintf("record is out of order: it stands behind record %d", v.last.Seq))
	}
}

func (r Row) decode() (Record, error) {
	if r.Decoded != nil {
		return *r.Decoded, nil
	}
	return Decode(r.Canonical)
}

func (v *Verifier) content(r Row) {
	rec, err := r.decode()
	if err != nil {
		v.Problem(r.Seq, "record cannot be read")
		return
	}
	if rec.Seq != r.Seq {
		v.Problem(r.Seq, fmt.Sprintf("record was moved: it says that it is number %d", rec.Seq))
	}
	if rec.Store != v.store {
		v.Problem(r.Seq, fmt.Sprintf("record is of another store, %s", rec.Store))
	}
	if rec.Previous != v.last.Hash && r.Seq == v.last.Seq+1 {
		v.Problem(r.Seq, "record does not continue the one before it")
	}
	v.open.see(rec)
}

func (v *Verifier) meet(r Row) {
	for _, a := range v.anchors {
		if r.Seq == a.Seq && r.Hash != a.Hash {
			v.Problem(r.Seq, "the log was rewritten: this record is not the one at the remembered checkpoint")
		}
	}
}

// Report ends the walk.
func (v *Verifier) Report() Report {
	for _, a := range v.anchors {
		if v.last.Seq < a.Seq {
			v.Problem(v.last.Seq, fmt.Sprintf("the log was cut: it ends here, the remembered checkpoint is at record %d", a.Seq))
		}
	}
	r := v.report
	if v.more > 0 {
		r.Problems = append(r.Problems, Problem{0, fmt.Sprintf("%d further problems", v.more)})
	}
	r.Head = v.last
	r.OpenIntents = len(v.open)
	r.OK = len(r.Problems) == 0
	return r
}

// Err is ErrBroken with the first problem, or nil.
func (r Report) Err() error {
	if r.OK {
		return nil
	}
	p := r.Problems[0]
	if p.Seq == 0 {
		return fmt.Errorf("%w: %s", ErrBroken, p.What)
	}
	return fmt.Errorf("%w: record %d: %s", ErrBroken, p.Seq, p.What)
}

// Walk checks every row that rows yields.
func (v *Verifier) Walk(ctx context.Context, rows iter.Seq2[Row, error]) error {
	for r, err := range rows {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return fmt.Errorf("read audit log: %w", err)
		}
		v.Row(r)
	}
	return nil
}
