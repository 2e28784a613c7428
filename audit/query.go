package audit

import (
	"strings"
	"time"
)

// Query selects records. Empty fields select everything; the others must all
// hold.
type Query struct {
	Run          string
	Plan         string
	Queue        string
	Action       string
	Phase        Phase
	JobKey       string // also of the edited copy that went in the job's place
	JobKeyPrefix string // the same
	MessageID    string
	CopyID       string
	Customer     string    // the tag, not the customer's ID
	BreakGlass   bool      // only what was done without the approvals that it needs
	Since        time.Time // inclusive
	Until        time.Time // exclusive
	After        int64     // only records with a greater sequence; 0: all
	OldestFirst  bool      // default: newest first
	Limit        int       // 0: all
}

// Match reports whether the query selects r. Order and limit are the reader's.
func (q Query) Match(r Record) bool {
	same := func(want, have string) bool { return want == "" || want == have }
	return q.within(r) && same(q.Run, r.Run) && same(q.Plan, r.Plan) && same(q.Queue, r.Queue) &&
		same(q.Action, r.Action) && same(string(q.Phase), string(r.Phase)) &&
		(same(q.JobKey, r.JobKey) || q.JobKey == r.Details[DetailReplacedBy]) &&
		(strings.HasPrefix(r.JobKey, q.JobKeyPrefix) || strings.HasPrefix(r.Details[DetailReplacedBy], q.JobKeyPrefix)) &&
		(!q.BreakGlass || r.Details[DetailBreakGlass] != "") &&
		same(q.MessageID, r.MessageID) && same(q.CopyID, r.CopyID) && same(q.Customer, r.Customer)
}

// within reports whether r lies in the part of the log, and of time, that the
// query speaks of.
func (q Query) within(r Record) bool {
	return (q.After == 0 || r.Seq > q.After) &&
		(q.Since.IsZero() || !r.Time.Before(q.Since)) && (q.Until.IsZero() || r.Time.Before(q.Until))
}

// Entry is one stored record with its own hash.
type Entry struct {
	Record Record `json:"record"`
	Hash   string `json:"hash"`
}
