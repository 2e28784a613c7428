package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/redrivectl/redrivectl/audit"
	"github.com/redrivectl/redrivectl/redrive"
)

// SaveApproval appends one statement. Its audit record carries the digest of
// the statement's RFC 8785 bytes. See redrive.Plans.
func (s *Store) SaveApproval(ctx context.Context, a redrive.Approval, rec audit.Record) error {
	statement, err := redrive.CanonicalStatement(a)
	if err != nil {
		return err
	}
	rec = detailed(rec, map[string]string{audit.DetailStatement: audit.Hash(statement)})
	rec.Plan, rec.Action, rec.Phase = string(a.Plan), a.Decision, audit.Outcome
	_, err = s.write(ctx, "save approval", 1, func(ctx context.Context, t *tx) error {
		if _, err := s.onePlan(ctx, t, a.Plan); err != nil {
			return err
		}
		_, err := t.ExecContext(ctx, `INSERT INTO approvals VALUES (?, ?, ?)`, t.head.Seq+1, string(a.Plan), string(statement))
		if err != nil {
			return err
		}
		return t.append(rec)
	})
	return err
}

// Approvals are the statements on a plan in the order in which they were made.
// It is redrive.ErrChanged when one of them is not as the audit log recorded
// it, or one that the log recorded is gone.
func (s *Store) Approvals(ctx context.Context, id redrive.PlanID) (as []redrive.Approval, err error) {
	err = s.read.snapshot(ctx, func(t querier) error {
		as, err = approvals(ctx, t, id)
		return err
	})
	var r refusal
	if errors.As(err, &r) {
		err = r.error
	}
	return as, err
}

func approvals(ctx context.Context, q querier, id redrive.PlanID) ([]redrive.Approval, error) {
	recorded, err := recordedStatements(ctx, q, id)
	if err != nil {
		return nil, err
	}
	var as []redrive.Approval
	err = each(ctx, q, func(rows *sql.Rows) error {
		var seq int64
		var statement []byte
		if err := rows.Scan(&seq, &statement); err != nil {
			return err
		}
		var a redrive.Approval
		if recorded[seq] != audit.Hash(statement) || json.Unmarshal(statement, &a) != nil || a.Plan != id {
			return refuse("approval of plan %s by record %d: %w", id, seq, redrive.ErrChanged)
		}
		delete(recorded, seq)
		as = append(as, a)
		return nil
	}, `SELECT seq, statement FROM approvals WHERE plan = ? ORDER BY seq`, string(id))
	if err != nil {
		return nil, err
	}
	for seq := range recorded {
		return nil, refuse("approval of plan %s by record %d is gone: %w", id, seq, redrive.ErrChanged)
	}
	return as, nil
}

// recordedStatements are the digests that the audit log holds of a plan's
// approvals, by sequence. A record that was edited vouches for nothing.
func recordedStatements(ctx context.Context, q querier, id redrive.PlanID) (map[int64]string, error) {
	digests := map[int64]string{}
	err := each(ctx, q, func(rows *sql.Rows) error {
		r, err := scanRow(rows)
		if err != nil {
			return err
		}
		if r.Decoded == nil || r.Fault != "" || audit.Hash(r.Canonical) != r.Hash {
			return refuse("record %d of an approval of plan %s: %w", r.Seq, id, audit.ErrBroken)
		}
		if digest := r.Decoded.Details[audit.DetailStatement]; digest != "" {
			digests[r.Seq] = digest
		}
		return nil
	}, selectRows+` WHERE plan = ? AND plan <> '' AND `+ofPlan+` AND action IN ('approve', 'reject', 'revoke', 'break_glass')`, string(id))
	return digests, err
}

// ApprovedDigests are the policy and settings digests of plans that another
// person than the requester approved. A plan that was rejected or revoked since,
// or whose approvals do not check out, approves nothing.
func (s *Store) ApprovedDigests(ctx context.Context) (map[string]bool, error) {
	digests := map[string]bool{}
	ps, err := s.plans(ctx, s.read, ` WHERE p.id IN (SELECT plan FROM approvals)`)
	if err != nil {
		return nil, fmt.Errorf("read approved settings: %w", err)
	}
	for _, p := range ps {
		as, err := s.Approvals(ctx, p.ID)
		if errors.Is(err, redrive.ErrChanged) || errors.Is(err, audit.ErrBroken) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read approved settings: %w", err)
		}
		if audit.Hash(p.Bytes) == string(p.ID) && approvedByOther(p.Plan, as) {
			digests[p.Plan.PolicySHA256] = true
			digests[p.Plan.SettingsSHA256] = true
		}
	}
	return digests, nil
}

func approvedByOther(p redrive.Plan, as []redrive.Approval) bool {
	approved := false
	for _, a := range as {
		switch a.Decision {
		case "approve":
			approved = approved || (a.Approver != p.Requester && a.Approver != a.Requester && asKnown(p, a))
		case redrive.DecisionBreakGlass: // by whoever runs it, who approves nothing by that
		default:
			return false
		}
	}
	return approved
}

// asKnown: where the requester is known by his account, an approver who only
// said who he is, or whom only a file names, may be the requester.
func asKnown(p redrive.Plan, a redrive.Approval) bool {
	return p.RequesterKnown != "account" || (a.Known != "declared" && a.Known != redrive.KnownFile)
}
