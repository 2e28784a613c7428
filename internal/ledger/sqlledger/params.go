package sqlledger

import (
	"time"

	"github.com/redrivectl/redrivectl/internal/ledger"
)

// params are a statement's named parameters; ok is false for a name that the
// statement may not use.
type params interface {
	value(name string) (v any, ok bool)
}

// named are parameters that are all known beforehand.
type named map[string]any

func (n named) value(name string) (any, bool) {
	v, ok := n[name]
	return v, ok
}

// changeParams are those of a change, each worked out where a statement asks for it:
// most take few of them.
type changeParams struct {
	ledger.Change
	l   *Ledger
	now time.Time
	row *ledger.NewRow // what is inserted; nil where nothing is
}

func (p *changeParams) value(name string) (any, bool) {
	f := p.l.cfg.TimeFormat
	switch name {
	case "job_key":
		return p.Key.JobKey, true
	case "consumer":
		return or(p.Key.Consumer, p.l.cfg.Consumer), true
	case "from_state":
		return string(p.From), true
	case "from_attempt":
		return p.FromAttempt, true
	case "from_run":
		return p.FromRun, true
	case "to_state":
		return string(p.To), true
	case "attempt":
		return p.Attempt, true
	case "run":
		return p.Run, true
	case "now":
		return f.encode(p.now), true
	case "deadline":
		return f.encode(p.now.Add(p.ClaimLife)), true
	case "send_before":
		return f.encode(p.SendBefore), true
	default:
		return p.valueTold(name)
	}
}

// valueTold is what a change tells besides, in the row or in the history alone.
func (p *changeParams) valueTold(name string) (any, bool) {
	switch name {
	case "reason":
		return p.Reason, true
	case "request_id":
		return p.RequestID, true
	case "error_class":
		return p.ErrorClass, true
	case "effect":
		return p.Effect, true
	case "retryable":
		return bit(p.Retryable), true
	case "late":
		return bit(p.Late()), true
	case "late_accept":
		return bit(p.LateAccept), true
	case "replaced_by":
		if p.Replace == nil {
			return "", true
		}
		return p.Replace.Key.JobKey, true
	case "actor":
		return p.Actor, true
	case "resolution":
		return string(p.Resolve), true
	default:
		return p.valueInserted(name)
	}
}

func (p *changeParams) valueInserted(name string) (any, bool) {
	if p.row == nil {
		return nil, false
	}
	switch name {
	case "subject":
		return p.row.Subject, true
	case "version":
		return p.row.Version, true
	case "payload_sha256":
		return p.row.PayloadSHA256, true
	case "region":
		return p.row.Region, true
	case "account":
		return p.row.Account, true
	case "customer_id":
		return p.row.CustomerID, true
	default:
		return nil, false
	}
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}
