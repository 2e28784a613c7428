// Package classify holds the policy: which failure class a job belongs to, what
// that class proves about the outside world, and who owns it. Classification is
// pure: the same job and policy always give the same answer.
package classify

import "time"

// Class is a failure class from the closed list that a policy defines. Unknown
// always exists.
type Class string

// The classes of the default policy.
const (
	Throttled          Class = "throttled"
	Unavailable        Class = "unavailable"
	ServerError        Class = "server_error"
	Timeout            Class = "timeout"
	Auth               Class = "auth"
	InvalidDestination Class = "invalid_destination"
	RejectedPayload    Class = "rejected_payload"
	SchemaMismatch     Class = "schema_mismatch"
	Malformed          Class = "malformed"
	NotSupported       Class = "not_supported"
	Stale              Class = "stale"
	Expired            Class = "expired"
	Unknown            Class = "unknown"
)

// Effect is what a failure proves about the outside world.
type Effect string

// EffectNone: nothing was sent. EffectUnknown: something may have been.
const (
	EffectNone    Effect = "none"
	EffectUnknown Effect = "unknown"
)

// Worse returns the worse of two effects; an empty one counts as unknown.
func (e Effect) Worse(o Effect) Effect {
	if e == EffectNone && o == EffectNone {
		return EffectNone
	}
	return EffectUnknown
}

// Disposition is what a class asks for.
type Disposition string

// Retry redrives; Fix and Alert wait for a correction; Discard drops; Hold
// waits for a person to claim a class.
const (
	Retry   Disposition = "retry"
	Fix     Disposition = "fix"
	Alert   Disposition = "alert"
	Discard Disposition = "discard"
	Hold    Disposition = "hold"
)

// Result is what the policy says of one job.
type Result struct {
	Class       Class
	Rule        string // the rule that matched; "none" for Unknown
	Effect      Effect // of the class, before attempts are weighed
	Disposition Disposition
	Owner       string
	Runbook     string
	MaxAge      time.Duration // 0: none
	// Evidence is what permits a redrive, in the policy's words.
	Evidence string
}
