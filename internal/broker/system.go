package broker

// Names of the system attributes that tell why and by whom a copy was
// quarantined, where the broker keeps that beside the message. A broker sets
// them when it dead-letters, package job reads them, and a redrive leaves them
// out: they describe the dead copy, not the message.
const (
	SystemReasonType    = "dead_letter_reason_type"
	SystemReasonCode    = "dead_letter_reason_code"
	SystemReasonMessage = "dead_letter_reason_message"
	// SystemReasonAt is the time of the quarantine, RFC 3339 with nanoseconds.
	SystemReasonAt = "dead_letter_at"
	// SystemQuarantinedBy is QuarantinedByMaxReceives where the broker moved the
	// copy by its own dead-letter policy, QuarantinedByApplication where the
	// consumer asked for it, and QuarantinedByBroker where the broker moved it for
	// another reason of its own (it expired, a queue was full).
	SystemQuarantinedBy = "dead_letter_by"
	// SystemUnreadable says why an entry of a dump could not be read. The body is
	// then the entry itself, as it stands in the dump.
	SystemUnreadable = "unreadable"
	// SystemIncomplete says what is missing of a message, so that it must not be
	// sent: a tool printed only a part of the body.
	SystemIncomplete = "incomplete"
	// SystemTraceHeader is the only system attribute that SQS lets a sender set.
	SystemTraceHeader = "AWSTraceHeader"
)

// The values of SystemQuarantinedBy.
const (
	QuarantinedByMaxReceives = "max_receives"
	QuarantinedByApplication = "application"
	QuarantinedByBroker      = "broker"
)
