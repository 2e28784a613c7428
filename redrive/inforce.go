package redrive

import (
	"fmt"
	"time"
)

// CheckApprovals holds the statements against the plan's tier: enough of them,
// by distinct persons other than the requester, over exactly this plan, in
// force now, and none taking it back; or, where the policy allows that, one person
// who breaks the glass. Anything else is ErrRefused.
func CheckApprovals(p Frozen, as []Approval, now time.Time, by Persons) error {
	id := p.ID
	if a, taken := takenBack(id, as); taken {
		return fmt.Errorf("plan %s: %s by %s: %w", id, a.Decision, a.Approver, ErrRefused)
	}
	if got, need := len(counted(p, as, now, by)), p.Tier.Needed(); got < need {
		if _, broken := BrokenGlass(p, as, now, by); broken {
			return Breakable(p, by.Alone)
		}
		return fmt.Errorf("plan %s: %d of %d approvals in force: %w", id, got, need, ErrRefused)
	}
	return nil
}

// takenBack finds the statement that rejects or revokes a plan.
func takenBack(id PlanID, as []Approval) (Approval, bool) {
	for _, a := range as {
		if a.Plan == id && (a.Decision == DecisionReject || a.Decision == DecisionRevoke) {
			return a, true
		}
	}
	return Approval{}, false
}

// counted are the approvals that count. In a team of one the requester's own do,
// each of them; otherwise one for each other person. None does once one took it back.
func counted(p Frozen, as []Approval, now time.Time, by Persons) []Approval {
	if _, taken := takenBack(p.ID, as); taken {
		return nil
	}
	var good []Approval
	seen := map[string]bool{}
	for _, a := range as {
		own := a.Approver == p.Requester
		switch {
		case a.Decision != DecisionApprove || !a.inForce(p, now):
		case !by.take(a.Known):
		case own && (by.Solo == "" || a.Solo == ""):
		case !own && seen[a.Approver]:
		default:
			seen[a.Approver] = true
			good = append(good, a)
		}
	}
	return good
}

// inForce reports that the statement is over exactly this plan, and in its time.
func (a Approval) inForce(p Frozen, now time.Time) bool {
	return a.Plan == p.ID && a.Items == p.Items.Len() && a.Store == p.Store && a.Requester == p.Requester && a.Approver != "" &&
		!now.Before(a.NotBefore) && now.Before(a.ExpiresAt) && a.ExpiresAt.Sub(a.NotBefore) <= MaxApproval
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// take reports whether a person who is known in this way counts.
func (p Persons) take(known string) bool {
	switch known {
	case knownDeclared:
		return p.Declared
	case KnownFile:
		return p.Files
	default:
		return true
	}
}
