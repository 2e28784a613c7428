package redrive

import (
	"context"
	"fmt"
	"strconv"

	"github.com/redrivectl/redrivectl/audit"
)

// KnownFile is Approval.Known of a person whom a file names. In the recorded mode
// nothing proves that the file is of that person's making.
const KnownFile = "file"

// ApproveFile states, where the plan's store cannot be reached, that the person
// acting agrees to exactly the plan in a file. Nothing is kept here: the statement
// is recorded when a run of the plan takes it in. It is refused as Approve would
// refuse it, as far as the plan alone tells, and to the requester in any case.
func (a *Approver) ApproveFile(sp StoredPlan, items int, reason string) (Approval, error) {
	alone := Approver{Who: a.Who, Now: a.Now} // never solo
	sp.State = PlanWaiting
	if err := alone.mayApprove(Tally{Plan: sp}, a.Actor.Name, items); err != nil {
		return Approval{}, fmt.Errorf("approve plan %s: %w", sp.ID, err)
	}
	return alone.statement(sp, DecisionApprove, reason), nil
}

// Take keeps approvals that were given elsewhere and carried here in files, each
// with its record. One that is here already is passed over, so that the same
// command can be given again.
func (a *Approver) Take(ctx context.Context, prefix string, carried ...Approval) error {
	for _, c := range carried {
		s, err := a.Tally(ctx, prefix)
		if err != nil {
			return err
		}
		st, known, err := a.admit(s, c)
		if err != nil {
			return err
		}
		if known {
			continue
		}
		rec, err := a.recordOfCarried(s.Plan, st, c)
		if err != nil {
			return err
		}
		if _, err := a.add(ctx, s, st, rec); err != nil {
			return err
		}
	}
	return nil
}

// Admitted are the approvals as Take would keep them, those left out that are here
// already; nothing is kept.
func (a *Approver) Admitted(ctx context.Context, prefix string, carried ...Approval) ([]Approval, error) {
	s, err := a.Tally(ctx, prefix)
	if err != nil {
		return nil, err
	}
	var admitted []Approval
	for _, c := range carried {
		st, known, err := a.admit(s, c)
		if err != nil {
			return nil, err
		}
		if !known {
			admitted = append(admitted, st)
			s = a.tally(s.Plan, append(s.Statements, st))
		}
	}
	return admitted, nil
}

// admit holds a carried statement against the plan and makes of it the one to be
// kept, which says how its person is known here; known: it is here already.
func (a *Approver) admit(s Tally, c Approval) (st Approval, known bool, err error) {
	refuse := func(format string, args ...any) (Approval, bool, error) {
		return Approval{}, false, fmt.Errorf("approval of %q in a file for plan %s: "+format+": %w", append(append([]any{c.Approver, s.Plan.ID}, args...), ErrRefused)...)
	}
	p, now := s.Plan.Plan, a.Now()
	switch {
	case !a.Files:
		return refuse("the config lets no approval in a file count")
	case c.Decision != DecisionApprove:
		return refuse("it says %q", c.Decision)
	case c.Plan != s.Plan.ID:
		return refuse("it is of plan %s", c.Plan)
	case c.Store != p.Store || c.Requester != p.Requester:
		return refuse("it is of a plan of %q in store %s", c.Requester, c.Store)
	case c.Approver == "":
		return refuse("it names nobody")
	case c.Approver == p.Requester:
		return refuse("%s requested it; another person approves", c.Approver)
	case c.Solo != "":
		return refuse("nobody approves alone by a file")
	case now.Before(c.NotBefore):
		return refuse("it is not in force before %s, and here it is %s", stamp(c.NotBefore), stamp(now))
	case !now.Before(c.ExpiresAt):
		return refuse("it expired at %s", stamp(c.ExpiresAt))
	case c.ExpiresAt.Sub(c.NotBefore) > MaxApproval:
		return refuse("it is for longer than %s", MaxApproval)
	}
	st = c
	st.Known, st.NotBefore, st.ExpiresAt = KnownFile, c.NotBefore.UTC(), c.ExpiresAt.UTC()
	for _, have := range s.Statements {
		if have == st {
			return st, true, nil
		}
	}
	by := *a
	by.Solo = ""
	if err := by.mayApprove(s, c.Approver, c.Items); err != nil {
		return Approval{}, false, fmt.Errorf("approval of %q in a file for plan %s: %w", c.Approver, s.Plan.ID, err)
	}
	return st, false, nil
}

// recordOfCarried says who took the statement in, whose it is said to be, and
// which file it was.
func (a *Approver) recordOfCarried(sp StoredPlan, st, carried Approval) (audit.Record, error) {
	digest, err := StatementSHA256(carried)
	rec := a.about(sp, st.Decision, st.Reason)
	rec.Details = map[string]string{
		"items": strconv.Itoa(st.Items), "approver": st.Approver, "known": st.Known,
		"known_where_made": carried.Known, "file_statement_sha256": digest,
	}
	return rec, err
}
