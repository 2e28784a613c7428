package redrive

import (
	"fmt"

	"github.com/redrivectl/redrivectl/audit"
	"github.com/redrivectl/redrivectl/internal/broker"
)

// PlanFormat names the only form of a plan that this version reads and writes.
const PlanFormat = "redrivectl/plan/v1"

// Canonical is the plan's RFC 8785 bytes and the ID that they hash to.
func Canonical(p Plan) (PlanID, []byte, error) {
	canonical, err := audit.CanonicalJSON(p)
	if err != nil {
		return "", nil, fmt.Errorf("encode plan: %w", err)
	}
	return idOf(canonical), canonical, nil
}

// Decode reads a plan from its canonical bytes. Unknown fields are refused:
// a bound that this version does not know must not be ignored.
func Decode(canonical []byte) (Plan, error) {
	p, err := readWhole(canonical, true)
	if err == nil {
		err = p.known()
	}
	if err != nil {
		return Plan{}, fmt.Errorf("decode plan: %w", err)
	}
	return p, nil
}

func (t Terms) known() error {
	if t.Format != PlanFormat {
		return fmt.Errorf("format %q is not %q", t.Format, PlanFormat)
	}
	return nil
}

// Read decodes Bytes into Plan. Fields that this version does not know are left
// out: for acting on a plan there is Verify.
func (s *StoredPlan) Read() (err error) {
	if s.Plan, err = Decode(s.Bytes); err == nil {
		s.whole = true
		return nil
	}
	s.Plan, err = readWhole(s.Bytes, false)
	return err
}

// Verify hashes the stored bytes again, so that what runs is what was approved,
// and is the plan that they hold. Bytes under another name are ErrChanged.
func (s StoredPlan) Verify() (Plan, error) {
	if got := idOf(s.Bytes); got != s.ID {
		return Plan{}, fmt.Errorf("plan %s: stored bytes hash to %s: %w", s.ID, got, ErrChanged)
	}
	if s.whole {
		return s.Plan, nil
	}
	p, err := Decode(s.Bytes)
	if err != nil {
		return Plan{}, fmt.Errorf("plan %s: %w", s.ID, err)
	}
	return p, nil
}

// Open is the plan, hashed again as Verify does it, to be carried out.
func (s StoredPlan) Open() (Frozen, error) {
	p, err := s.Verify()
	if err != nil {
		return Frozen{}, err
	}
	s.Plan = p
	return s.Frozen(), nil
}

// DedupID names one redrive of one copy to a broker that deduplicates: the same
// on a resume, another in another plan.
func DedupID(id PlanID, c broker.CopyID) string {
	return audit.Hash([]byte(string(id) + "\n" + c.Entity + "\n" + c.ID))
}

func idOf(b []byte) PlanID { return PlanID(audit.Hash(b)) }
