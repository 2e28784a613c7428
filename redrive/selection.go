package redrive

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/cel-go/cel"

	"github.com/redrivectl/redrivectl/internal/expr"
	"github.com/redrivectl/redrivectl/reconcile"
)

// Selection is which jobs a plan is made of. Filters of different kinds must
// all hold; within one list, one value must.
type Selection struct {
	Class, ReasonType, Period, Region, Schema, CustomerStatus, Channel []string

	Since, Until         time.Time     // of the failure, else of sending
	OlderThan            time.Duration // since then
	SentSince, SentUntil time.Time     // of sending alone
	Receives             int           // at least so many; 0: any
	Where                string        // CEL over the variables of whereEnv
	Jobs                 []string      // job keys or message IDs, whole
	All                  bool
}

// Empty reports that nothing was asked for.
func (s Selection) Empty() bool { return s.Canonical() == "" }

// Canonical is the selection as text: the same for the same selection, whatever
// the order in which it was typed.
func (s Selection) Canonical() string {
	var parts []string
	list := func(name string, vs []string) {
		vs = slices.Compact(slices.Sorted(slices.Values(vs)))
		for _, v := range vs {
			parts = append(parts, "--"+name+" "+strconv.Quote(v))
		}
	}
	list("class", s.Class)
	list("reason-type", s.ReasonType)
	list("period", s.Period)
	list("region", s.Region)
	list("schema", s.Schema)
	list("customer-status", s.CustomerStatus)
	list("channel", s.Channel)
	moment := func(name string, at time.Time) {
		if !at.IsZero() {
			parts = append(parts, "--"+name+" "+at.UTC().Format(time.RFC3339Nano))
		}
	}
	moment("since", s.Since)
	moment("until", s.Until)
	moment("sent-since", s.SentSince)
	moment("sent-until", s.SentUntil)
	if s.OlderThan > 0 {
		parts = append(parts, "--older-than "+s.OlderThan.String())
	}
	if s.Receives > 0 {
		parts = append(parts, "--receives "+strconv.Itoa(s.Receives))
	}
	if s.Where != "" {
		parts = append(parts, "--where "+strconv.Quote(s.Where))
	}
	list("job", s.Jobs)
	if s.All {
		parts = append(parts, "--all")
	}
	return strings.Join(parts, " ")
}

// Validate finds mistakes in the selection that need no queue to be seen.
func (s Selection) Validate() error {
	_, err := s.matcher(time.Time{})
	return err
}

// WhereError is a mistake in Selection.Where. Line and Column count from 1.
type WhereError struct {
	Line, Column int
	Message      string
}

func (e *WhereError) Error() string {
	return fmt.Sprintf("--where: line %d, column %d: %s", e.Line, e.Column, e.Message)
}

// Filter gives what decides, job by job, whether a plan made now would select it.
// A mistake in Where is a *WhereError.
func (s Selection) Filter(now time.Time) (func(reconcile.Assessed) (bool, error), error) {
	m, err := s.matcher(now)
	if err != nil {
		return nil, err
	}
	return m.matches, nil
}

// matcher decides job by job.
type matcher struct {
	s     Selection
	now   time.Time
	where cel.Program
	named map[string]bool
}

// matcher compiles the selection; a mistake in Where is found here, with its
// place in the expression.
func (s Selection) matcher(now time.Time) (*matcher, error) {
	m := &matcher{s: s, now: now, named: map[string]bool{}}
	for _, j := range s.Jobs {
		m.named[j] = true
	}
	if s.Where == "" {
		return m, nil
	}
	env, err := whereEnv()
	if err != nil {
		return nil, fmt.Errorf("prepare --where: %w", err)
	}
	ast, issues := env.Compile(s.Where)
	if issues.Err() != nil {
		first := issues.Errors()[0]
		return nil, &WhereError{first.Location.Line(), first.Location.Column() + 1, first.Message}
	}
	if ast.OutputType() != cel.BoolType {
		return nil, errors.New("--where: the expression is not a condition")
	}
	if m.where, err = env.Program(ast, cel.CostLimit(100_000)); err != nil {
		return nil, fmt.Errorf("--where: %w", err)
	}
	return m, nil
}

// matches reports whether the job is selected. An error of Where for one job is
// an error of the selection: a job that cannot be judged is not silently left
// out.
func (m *matcher) matches(a reconcile.Assessed) (bool, error) {
	j, s := a.Job, m.s
	if len(m.named) > 0 && !m.isNamed(a) {
		return false, nil
	}
	for _, f := range []struct {
		list  []string
		value string
	}{
		{s.Class, string(a.Class.Class)},
		{s.ReasonType, j.Failure.Type},
		{s.Period, j.Period},
		{s.Region, j.Region},
		{s.Schema, j.SchemaVersion},
		{s.CustomerStatus, j.CustomerStatus},
		{s.Channel, j.Channel},
	} {
		if len(f.list) > 0 && !slices.Contains(f.list, f.value) {
			return false, nil
		}
	}
	if !m.inTime(a) || j.Message.Receives < s.Receives {
		return false, nil
	}
	if m.where == nil {
		return true, nil
	}
	out, _, err := m.where.Eval(whereValues(a))
	if err != nil {
		return false, fmt.Errorf("--where on %s: %w", j.Message.Copy, expr.Quiet(err))
	}
	return out.Value() == true, nil
}

func (m *matcher) isNamed(a reconcile.Assessed) bool {
	return a.Job.JobKey != "" && m.named[a.Job.JobKey] || m.named[a.Job.Message.MessageID]
}

// inTime: a job whose time is not known is in no bounded span.
func (m *matcher) inTime(a reconcile.Assessed) bool {
	s, at := m.s, failedAt(a)
	old := s.OlderThan == 0 || !at.IsZero() && m.now.Sub(at) >= s.OlderThan
	return old && within(at, s.Since, s.Until) && within(a.Job.Message.SentAt, s.SentSince, s.SentUntil)
}

// within: from since on and before until, where they bound it at all.
func within(at, since, until time.Time) bool {
	if since.IsZero() && until.IsZero() {
		return true
	}
	return !at.IsZero() && !at.Before(since) && (until.IsZero() || at.Before(until))
}

func failedAt(a reconcile.Assessed) time.Time {
	if !a.Job.Failure.At.IsZero() {
		return a.Job.Failure.At
	}
	return a.Job.Message.SentAt
}

// whereEnv declares what --where may speak of: what a job is listed by, never
// its payload.
func whereEnv() (*cel.Env, error) {
	opts := []cel.EnvOption{
		cel.Variable("receives", cel.IntType), cel.Variable("payload_bytes", cel.IntType),
		cel.Variable("sent_at", cel.TimestampType), cel.Variable("failed_at", cel.TimestampType),
		cel.Variable("attributes", cel.MapType(cel.StringType, cel.StringType)),
	}
	for name := range whereText(reconcile.Assessed{}) {
		opts = append(opts, cel.Variable(name, cel.StringType))
	}
	return cel.NewEnv(opts...)
}

func whereText(a reconcile.Assessed) map[string]string {
	j := a.Job
	var state, verdict string
	if a.Row != nil {
		state = cmp.Or(string(a.Row.Row.State), string(a.Row.Found))
	}
	if a.Verdict != nil {
		verdict = string(a.Verdict.Verdict)
	}
	return map[string]string{
		"ledger_state": state, "verdict": verdict,
		"job_key": j.JobKey, "message_id": j.Message.MessageID, "class": string(a.Class.Class), "rule": a.Class.Rule,
		"effect": string(a.Effect), "disposition": string(a.Class.Disposition), "action": string(a.Decision.Action),
		"reason_type": j.Failure.Type, "reason_code": j.Failure.Code, "reason_message": j.Failure.Message,
		"kind": j.Kind, "channel": j.Channel, "customer_status": j.CustomerStatus, "period": j.Period,
		"region": j.Region, "schema_version": j.SchemaVersion, "version": j.Version, "subject": j.Subject,
		"deployment_id": j.DeploymentID, "origin": j.Message.Origin, "order_key": j.Message.OrderKey,
		"quarantined_by": string(j.QuarantinedBy), "format": j.Format, "task": j.Task,
	}
}

func whereValues(a reconcile.Assessed) map[string]any {
	attributes := map[string]string{}
	for _, at := range a.Job.Message.Attributes {
		attributes[at.Name] = string(at.Value)
	}
	vs := map[string]any{
		"receives": int64(a.Job.Message.Receives), "payload_bytes": int64(a.Job.PayloadBytes),
		"sent_at": a.Job.Message.SentAt, "failed_at": failedAt(a), "attributes": attributes,
	}
	for name, v := range whereText(a) {
		vs[name] = v
	}
	return vs
}
