package cmd

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redrivectl/redrivectl/internal/ledger"
	"github.com/redrivectl/redrivectl/internal/term"
)

// showView is a job with everything that is known of it.
type showView struct {
	Job        jobView         `json:"job"`
	Copies     int             `json:"copies"`
	Attributes []attributeView `json:"attributes"`
	Payload    payloadView     `json:"payload"`
	Attempts   []attemptView   `json:"attempts"`
	History    []eventView     `json:"history"`
	Evidence   any             `json:"evidence"`
	Runbook    *string         `json:"runbook"`
	MaxAge     *float64        `json:"max_age_seconds"`
	Permits    *string         `json:"redrive_evidence"`
	LivePlan   *string         `json:"live_plan"`
	References []referenceView `json:"references"`
	Content    *contentView    `json:"content"`
	Revealed   bool            `json:"revealed"`
}

type attributeView struct {
	Name  string `json:"name"`
	Type  string `json:"type"`
	Value string `json:"value"`
}

type payloadView struct {
	Form   string `json:"form"`
	Text   string `json:"text"`
	Bytes  int    `json:"bytes"`
	Cut    bool   `json:"cut"`
	Masked bool   `json:"masked"`
}

type attemptView struct {
	Attempt    int        `json:"attempt"`
	ClaimedAt  *time.Time `json:"claimed_at"`
	Deadline   *time.Time `json:"send_deadline"`
	RequestID  *string    `json:"request_id"`
	ErrorClass *string    `json:"error_class"`
	Effect     *string    `json:"effect"`
	Resolved   *string    `json:"resolved_by"`
}

type eventView struct {
	At         time.Time `json:"at"`
	Actor      string    `json:"actor"`
	From       string    `json:"from"`
	To         string    `json:"to"`
	Attempt    int       `json:"attempt"`
	Run        *string   `json:"run"`
	Reason     *string   `json:"reason"`
	ErrorClass *string   `json:"error_class"`
	RequestID  *string   `json:"request_id"`
}

// jobRows are what is known of the job, one thing a row.
func (v showView) jobRows() [][]string {
	j := v.Job
	return [][]string{
		{"intended", fmt.Sprintf("%s %s, subject %s, version %s, period %s, region %s", or(j.Kind), or(j.Channel), or(j.Subject), or(j.Version), or(j.Period), or(j.Region))},
		{"customer", or(j.CustomerID) + " (" + or(j.CustomerStatus) + ")"},
		{"stopped", fmt.Sprintf("%s: %s", firstText(or(j.Reason.Type), or(j.Reason.Code)), or(j.Reason.Message))},
		{"class", fmt.Sprintf("%s by rule %s, owner %s", j.Class, j.Rule, or(j.Owner))},
		{"runbook", or(v.Runbook)},
		{"effect", j.Effect},
		{"quarantined by", j.QuarantinedBy},
		{"job key", or(j.JobKey)},
		{"ledger row", or(j.LedgerRow)},
		{"message ID", j.MessageID},
		{"request ID", or(j.RequestID)},
		{"queue", j.Queue + ", from " + or(j.Origin)},
		{"copies", strconv.Itoa(v.Copies)},
		{"receives", strconv.Itoa(j.Receives)},
		{"ledger", or(j.LedgerState)},
		{"verdict", or(j.Verdict)},
		{"action", j.Action + ": " + j.Why},
		{"needs", or(j.Needs)},
		{"in plan", or(v.LivePlan)},
	}
}

func (v showView) result() result {
	rows := v.rows()
	rows = append(rows, []string{"payload", fmt.Sprintf("%d bytes, %s, SHA-256 %s", v.Payload.Bytes, v.Payload.Form, v.Job.PayloadSHA256)})
	rows = append(rows, v.Payload.lines()...)
	if c := v.Content; c != nil {
		rows = append(rows, []string{"reference " + strconv.Itoa(c.N), fmt.Sprintf("%d bytes, %s, verified", c.Payload.Bytes, c.Payload.Form)})
		rows = append(rows, c.Payload.lines()...)
	}
	return result{Object: v, Headers: []string{"what", "value"}, Rows: rows}
}

// rows are all that is known but the contents, one thing a row.
func (v showView) rows() [][]string {
	j, rows := v.Job, v.jobRows()
	if v.Permits != nil {
		rows = append(rows, []string{"a redrive needs", *v.Permits})
	}
	if j.WhyNot != nil {
		rows = append(rows, []string{"not redrivable", *j.WhyNot})
	}
	if h := j.Hold; h != nil {
		rows = append(rows, []string{"on hold", fmt.Sprintf("for %s, by %s, since %s: %s", h.Owner, h.By, utc(h.At), h.Reason)})
	}
	for _, r := range v.References {
		rows = append(rows, r.row())
	}
	if j.DecodeError != nil {
		rows = append(rows, []string{"not read", *j.DecodeError})
	}
	if j.Unwrap {
		rows = append(rows, []string{"unwrapped", "a redrive sends the original alone, without the wrapper that holds it"})
	}
	rows = append(rows, v.attemptRows()...)
	rows = append(rows, v.historyRows()...)
	for _, at := range v.Attributes {
		rows = append(rows, []string{"attribute", fmt.Sprintf("%s (%s): %s", at.Name, at.Type, at.Value)})
	}
	return rows
}

func (v showView) attemptRows() (rows [][]string) {
	for _, at := range v.Attempts {
		rows = append(rows, []string{"attempt " + strconv.Itoa(at.Attempt), fmt.Sprintf("claimed %s, error %s, effect %s, resolved by %s, request ID %s",
			timeText(at.ClaimedAt), or(at.ErrorClass), or(at.Effect), or(at.Resolved), or(at.RequestID))})
	}
	return rows
}

func (v showView) historyRows() (rows [][]string) {
	for _, e := range v.History {
		rows = append(rows, []string{utc(e.At), e.sentence()})
	}
	return rows
}

// lines are the rows of a payload's text.
func (p payloadView) lines() [][]string {
	var rows [][]string
	for line := range strings.Lines(p.Text) {
		rows = append(rows, []string{"", strings.TrimRight(line, "\n")})
	}
	return rows
}

func newEventView(e ledger.Event) eventView {
	return eventView{
		At: e.At.UTC(), Actor: e.Actor, From: string(e.From), To: string(e.To), Attempt: e.Attempt,
		Run: text(e.Run), Reason: text(term.Mask(e.Reason)), ErrorClass: text(e.ErrorClass), RequestID: text(e.RequestID),
	}
}

// move tells what became of the row's state.
func (e eventView) move() string {
	switch {
	case e.From == "":
		return "written as " + e.To
	case e.To == "":
		return "recorded late while " + e.From
	default:
		return e.From + " -> " + e.To
	}
}

// sentence tells the event on one line.
func (e eventView) sentence() string {
	s := fmt.Sprintf("%s: %s, attempt %d", e.Actor, e.move(), e.Attempt)
	if e.Reason != nil {
		s += ", " + *e.Reason
	}
	return s
}
