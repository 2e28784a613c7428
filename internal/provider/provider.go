// Package provider is the contract between redrivectl and whoever carries out
// the effect (a mail service, a payment service). A provider here only yields
// evidence; package reconcile makes verdicts of it. Nothing in this package can
// cause an effect.
package provider

import (
	"context"
	"time"
)

// Status is what the provider recorded about one request.
type Status string

// Queued, processed, delivered, bounced, suppressed and the like are all
// Accepted: the request took effect. Unclear is a record that says neither.
const (
	Accepted Status = "accepted"
	Rejected Status = "rejected"
	Unclear  Status = "unclear"
)

// Send is one external request to ask about: what is known of it on our side.
type Send struct {
	JobKey    string
	RequestID string
	Account   string
	Region    string
	// From and To bound the time in which the request can have been made,
	// already widened by clock offset and margin.
	From, To time.Time
}

// Hit is one record of the provider.
type Hit struct {
	// JobKey is the key that the record itself carries; empty when it has none
	// and the record is therefore not bound.
	JobKey    string
	RequestID string
	Status    Status
	Detail    string // the provider's own word for the status
	At        time.Time
}

// Evidence is what is kept of a look-up so that it can be questioned later. It
// holds no payload and no personal data: Query has those hashed.
type Evidence struct {
	Endpoint     string    `json:"endpoint"`
	Query        string    `json:"query"`
	From         time.Time `json:"from"`
	To           time.Time `json:"to"`
	AskedAt      time.Time `json:"asked_at"`
	HTTPStatus   int       `json:"http_status"`
	Pages        int       `json:"pages"`
	Rows         int       `json:"rows"`
	AnswerSHA256 string    `json:"answer_sha256"`
}

// Answer is what one look-up found. Err says that the look-up itself failed:
// that is never a statement about the send.
type Answer struct {
	Hits []Hit
	// NotFound is set only where the provider positively says that it has no
	// such record (its contract's not-found condition held).
	NotFound bool
	// Complete is false when a page was at its limit or the answer was cut.
	Complete bool
	// ClockOffset is the provider's clock minus ours, as measured.
	ClockOffset time.Duration
	Evidence    Evidence
	Err         error
}

// Proof is something that a provider's records can prove.
type Proof string

// What a provider can prove.
const (
	ProvesAccepted    Proof = "accepted"
	ProvesNotAccepted Proof = "not_accepted"
	ProvesRejected    Proof = "rejected"
)

// Capabilities says what this provider's records are worth.
type Capabilities struct {
	Name string
	// KeyLife is how long the provider honours our job key as an idempotency
	// key; 0: it does not.
	KeyLife time.Duration
	// KeyMaxBytes is the longest key it honours; 0: no limit known.
	KeyMaxBytes int
	// Binds reports that records carry our job key.
	Binds bool
	// ByRequest: a look-up answers for the one request ID that it names, and says
	// nothing of the job's other requests.
	ByRequest bool
	// Delay is how late a record may become visible; negative: not documented.
	Delay time.Duration
	// LookBack is how far records reach back; 0: not documented.
	LookBack  time.Duration
	PageLimit int
	Proves    []Proof
	CanScan   bool
	Billing   bool // a repeated effect costs money: an approval is always needed
}

// Can reports whether the records can prove p.
func (c Capabilities) Can(p Proof) bool {
	for _, q := range c.Proves {
		if p == q {
			return true
		}
	}
	return false
}

// Window is a span of time of one account and region to read whole.
type Window struct {
	From, To time.Time
	Account  string
	Region   string
}

// Provider answers questions about requests. Implementations keep to the
// provider's request budget and never retry a look-up silently; the error of a
// look-up is in its Answer.
type Provider interface {
	Capabilities() Capabilities
	// Lookup answers send for send.
	Lookup(ctx context.Context, sends []Send) []Answer
	// Scan reads a whole window, for matching on our side. Only where CanScan.
	Scan(ctx context.Context, w Window) Answer
}
