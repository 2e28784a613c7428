package redrive

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/gowebpki/jcs"

	"github.com/redrivectl/redrivectl/audit"
)

// Formats of the files that carry a plan to its approver and the approval back.
const (
	PlanFileFormat     = "redrivectl/plan-file/v1"
	ApprovalFileFormat = "redrivectl/approval-file/v1"
)

// planFile carries a plan. Content is the plan itself; however a file spaces it,
// its RFC 8785 form has to hash to Plan.
type planFile struct {
	Format  string          `json:"format"`
	Plan    PlanID          `json:"plan"`
	Content json.RawMessage `json:"content"`
}

// EncodePlan is a plan as a file. All that it says is hashed into the plan's
// name: what is not (its state, its approvals) stays in the store.
func EncodePlan(sp StoredPlan) ([]byte, error) {
	if _, err := sp.Verify(); err != nil {
		return nil, err
	}
	b, err := json.MarshalIndent(planFile{PlanFileFormat, sp.ID, sp.Bytes}, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode plan %s: %w", sp.ID, err)
	}
	return append(b, '\n'), nil
}

// DecodePlan reads a plan from a file. It is ErrChanged when the content is not
// what the name was made of. The plan's state is not known from a file.
func DecodePlan(file []byte) (StoredPlan, error) {
	var f planFile
	if err := decodeFile(file, &f, &f.Format, PlanFileFormat); err != nil {
		return StoredPlan{}, err
	}
	canonical, err := jcs.Transform(f.Content)
	if err != nil {
		return StoredPlan{}, fmt.Errorf("plan file: content: %w", err)
	}
	sp := StoredPlan{ID: f.Plan, Bytes: canonical}
	sp.Plan, err = sp.Verify()
	return sp, err
}

// approvalFile carries a statement. Its digest tells a damaged file from a whole
// one; it does not tell who made it.
type approvalFile struct {
	Format    string   `json:"format"`
	Statement Approval `json:"statement"`
	SHA256    string   `json:"sha256"` // of the statement's RFC 8785 bytes
}

// EncodeApproval is a statement as a file.
func EncodeApproval(a Approval) ([]byte, error) {
	digest, err := StatementSHA256(a)
	if err != nil {
		return nil, err
	}
	b, err := json.MarshalIndent(approvalFile{ApprovalFileFormat, a, digest}, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode approval: %w", err)
	}
	return append(b, '\n'), nil
}

// DecodeApproval reads a statement from a file. It is ErrChanged when the
// statement is not what the digest was made of.
func DecodeApproval(file []byte) (Approval, error) {
	var f approvalFile
	if err := decodeFile(file, &f, &f.Format, ApprovalFileFormat); err != nil {
		return Approval{}, err
	}
	digest, err := StatementSHA256(f.Statement)
	if err != nil {
		return Approval{}, err
	}
	if digest != f.SHA256 {
		return Approval{}, fmt.Errorf("approval file: the statement hashes to %s, not to %q: %w", digest, f.SHA256, ErrChanged)
	}
	return f.Statement, nil
}

// CanonicalStatement are the RFC 8785 bytes of a statement.
func CanonicalStatement(a Approval) ([]byte, error) {
	b, err := audit.CanonicalJSON(a)
	if err != nil {
		return nil, fmt.Errorf("encode approval: %w", err)
	}
	return b, nil
}

// StatementSHA256 is the lower-case hex digest of a statement's canonical bytes.
func StatementSHA256(a Approval) (string, error) {
	b, err := CanonicalStatement(a)
	return audit.Hash(b), err
}

// decodeFile reads one JSON object of a format. Unknown members are refused,
// since what this version does not know it cannot hold anyone to.
func decodeFile(file []byte, into any, format *string, want string) error {
	d := json.NewDecoder(bytes.NewReader(file))
	d.DisallowUnknownFields()
	err := d.Decode(into)
	if err == nil && d.More() {
		err = errors.New("more than one JSON value")
	}
	switch {
	case *format != "" && *format != want:
		return fmt.Errorf("format %q is not %q", *format, want)
	case err != nil:
		return fmt.Errorf("not a file of format %q: %w", want, err)
	case *format == "":
		return fmt.Errorf("not a file of format %q", want)
	}
	return nil
}
