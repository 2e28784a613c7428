// Package job turns a broker's message into a Job: its identity, its failure
// and its payload. It never changes a message, and a message that it cannot
// decode is still a job.
package job

import (
	"time"

	"github.com/redrivectl/redrivectl/internal/broker"
)

// QuarantinedBy says who put the copy into the dead-letter queue.
type QuarantinedBy string

// Who quarantines: the broker after too many receives, the application itself,
// or an integration between the two (Lambda, SNS, EventBridge).
const (
	ByMaxReceives QuarantinedBy = "max_receives"
	ByApplication QuarantinedBy = "application"
	ByIntegration QuarantinedBy = "integration"
	ByUnknown     QuarantinedBy = "unknown"
)

// Failure is why the job stopped, as its message tells it. Type is the
// innermost cause's name, Code its code, Message its text.
type Failure struct {
	Type    string
	Code    string
	Message string
	At      time.Time
	// Field is where in the message the type or code was read, in the form in
	// which SQS names the parts of a message, whatever its broker.
	Field string
	// Signal is what the reason means where its format defines that and its words
	// do not say it; it decides before them. Mostly empty.
	Signal Signal `json:",omitempty"`
}

// Empty reports that the message tells no reason at all.
func (f Failure) Empty() bool { return f.Type == "" && f.Code == "" && f.Message == "" }

// Reference points to content kept elsewhere, with its integrity hash.
type Reference struct {
	Kind   string // one of the kinds below; others are only shown
	URI    string
	SHA256 string
}

// What a reference is to.
const (
	RefPayload    = "payload"
	RefRendering  = "rendering"
	RefStackTrace = "stack_trace"
)

// Sent reports that the content belongs to what a worker sends, so that a redrive
// depends on it.
func (r Reference) Sent() bool { return r.Kind == RefPayload || r.Kind == RefRendering }

// Job is one logical piece of work as found in a queue.
type Job struct {
	JobKey         string // empty: the message has no identity
	Subject        string // what a newer version would replace
	Version        string
	Kind           string
	Channel        string
	CustomerID     string
	CustomerStatus string
	Period         string
	Region         string
	SchemaVersion  string
	DeploymentID   string
	TraceContext   string

	// Format names the envelope that was recognised ("redrivectl/v1", "retry",
	// "lambda-async", "bare", …).
	Format string
	// Payload is the raw bytes of the job itself, never re-encoded; it is the
	// body, or what an envelope wraps.
	Payload []byte
	// PayloadBytes is the length of Payload, also where that was dropped.
	PayloadBytes int
	// DecodeError says why the message could not be decoded; it is still a job.
	DecodeError string
	// MappingFailed says that the queue's configured mapping could not read the
	// message. Whatever else is known of it, it is then held.
	MappingFailed bool
	// Declared effects of malformed input: Declared is true when the envelope's
	// own declared form is broken.
	Malformed bool
	Failure   Failure
	// Task is what may group jobs that tell no reason (a task name, a body kind).
	Task          string
	QuarantinedBy QuarantinedBy
	// AttemptOnCopy is the number the copy carries; it is for display alone.
	AttemptOnCopy *int
	// Redrivable is false where the original is not whole in the message (or
	// its reference is not); WhyNot says so in words.
	Redrivable bool
	WhyNot     string
	// Original is what a redrive sends where the message wraps it; nil where the
	// message is sent as it is.
	Original   *Original
	References []Reference

	// Three hashes, lower-case hex SHA-256: the payload after unwrapping, the
	// body as it would be sent (the original's where it is wrapped), the whole
	// dead message with attributes, types and ordering key.
	PayloadSHA256 string
	BodySHA256    string
	MessageSHA256 string
	// SentSHA256 is, where the original is wrapped, the hash of the message that is
	// sent in its place, in the form of MessageSHA256.
	SentSHA256 string

	// Origin is where the copy was dead-lettered from: as the broker says, else as
	// a framework or an integration wrote it down.
	Origin  string
	Queue   string // the dead-letter queue as configured
	Message broker.Message
}

// WithoutContent is the job without the bytes of its message, whose lengths and
// hashes stay: what a plan or a capture needs of a long queue. Of an original it
// keeps only that there is one.
func (j Job) WithoutContent() Job {
	j.Payload, j.Message.Body, j.Message.Raw = nil, nil, nil
	if j.Original != nil {
		j.Original = &Original{}
	}
	return j
}
