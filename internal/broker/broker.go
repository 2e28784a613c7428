// Package broker is the contract between redrivectl and a message broker: one
// dead-letter queue and the destinations its messages may return to.
//
// Nothing in an implementation retries by itself, because a hidden retry of a
// publish is a second message. Every batch call answers entry by entry, and an
// entry whose fate is not known says Unknown instead of guessing.
package broker

import (
	"context"
	"errors"
	"time"
)

// ErrNoQueue says that the queue or the destination does not exist.
var ErrNoQueue = errors.New("queue does not exist")

// CopyID is the broker's name for one copy of a message in one entity. It stays
// the same while the copy sits there, however often the copy is received. The
// receipt is something else: it belongs to one delivery and is never stored.
type CopyID struct {
	Entity string `json:"entity"`
	ID     string `json:"id"`
}

// String is the copy identity as it is shown and stored: entity, slash, ID.
func (c CopyID) String() string { return c.Entity + "/" + c.ID }

// Attribute is one typed name and value that travels beside the body. Type is
// the broker's own word for it ("String", "Number.int", "Binary"), kept as it
// was found.
type Attribute struct {
	Name  string
	Type  string
	Value []byte
}

// Message is one copy of a message as the broker holds it.
type Message struct {
	Copy      CopyID
	MessageID string
	// Origin is the queue that the copy was dead-lettered from; empty when the
	// broker does not say.
	Origin string
	// OrderKey is the ordering or message group; empty when the copy has none.
	OrderKey   string
	Body       []byte
	Attributes []Attribute // set by the sender, in the broker's order
	System     []Attribute // set by the broker, or with its leave (a trace header)
	// RawFormat and Raw hold what no other field can (the sections of an AMQP
	// message). Raw is empty where body and attributes are the whole message.
	RawFormat       string
	Raw             []byte
	Receives        int
	SentAt          time.Time
	FirstReceivedAt time.Time
	ExpiresAt       time.Time // zero: the broker never expires this copy
}

// Delivery is one copy under a lease. Receipt is valid until LeaseUntil.
type Delivery struct {
	Message
	Receipt    string
	LeaseUntil time.Time
}

// Outgoing is one message to publish. Body, Attributes, System, OrderKey and
// Raw of the embedded message go out; its identity and times do not.
type Outgoing struct {
	Message
	// DedupID makes a repeated publish harmless inside the broker's
	// deduplication window, on brokers that have one.
	DedupID string
	Delay   time.Duration
}

// Outcome is what is known of one entry of a batch. The zero value is Unknown,
// so a result nobody filled in never reads as success.
type Outcome int

// The three outcomes. Refused is given only where the operation provably was
// not applied.
const (
	Unknown Outcome = iota
	Done
	Refused
)

// String is the outcome as records and messages print it.
func (o Outcome) String() string {
	switch o {
	case Done:
		return "done"
	case Refused:
		return "refused"
	default:
		return "unknown"
	}
}

// Result is the outcome of one entry of a batch. Err is nil only for Done.
type Result struct {
	Outcome      Outcome
	NewMessageID string // publish and restore: the message's name now, if the broker tells
	Copy         CopyID // restore: the copy's identity now
	Err          error
}

// Errors that an entry's result may carry and that callers branch on.
var (
	// ErrLeaseLost says that the receipt no longer holds the copy.
	ErrLeaseLost = errors.New("lease on the message is lost")
	// ErrTooLarge says that the message exceeds the destination's own maximum.
	ErrTooLarge = errors.New("message is larger than the destination allows")
	// ErrThrottled says that the broker asked to slow down; nothing was applied.
	ErrThrottled = errors.New("broker asks to slow down")
	// ErrDenied says that the broker, or the key that encrypts the queue, does not
	// permit the operation: it will not permit the next one either.
	ErrDenied = errors.New("not permitted")
)

// Capabilities says what a broker can and cannot do, so that nothing above this
// package asks which broker it is.
type Capabilities struct {
	FreePeek         bool // Browse does not count as a receive and hides nothing
	SelectiveReceive bool // Receive honours Request.Only
	StableMessageID  bool // a message keeps its ID when it is dead-lettered
	FanOut           bool // one publish can reach several consumers
	ExactCounts      bool
	NativeQuarantine bool
	Ordered          bool // deliveries of one OrderKey come in order, one chain in flight

	MaxBatch        int // entries in one call
	MaxBatchBytes   int
	MaxMessageBytes int
	BrowsePerGroup  int // how deep Browse sees into one ordering group; 0: all of it
	MaxInFlight     int // copies that may be leased at once; 0: no limit known

	MaxLease    time.Duration
	DedupWindow time.Duration // 0: DedupID is ignored
}

// Depth counts the copies of one queue.
type Depth struct {
	Visible  int64
	InFlight int64
	Delayed  int64
	Exact    bool
}

// Total is all copies, visible or not.
func (d Depth) Total() int64 { return d.Visible + d.InFlight + d.Delayed }

// Description is what the broker says of the dead-letter queue itself.
type Description struct {
	Broker string // "local", "sqs", …
	Queue  string
	// Sources are the queues that dead-letter into this one.
	Sources   []string
	Depth     Depth
	OldestAt  time.Time     // when the oldest copy was sent; zero: none, or not told
	Retention time.Duration // 0: kept for ever
	// MaxReceives is the queue's own redrive policy: after so many receives a
	// copy moves on, so looking must stop below it. 0: no such policy.
	MaxReceives int
	LookCounts  bool // a Browse counts as a receive
}

// Completeness says whether a Browse saw the whole queue, and if not, why.
type Completeness struct {
	Complete bool
	Why      string // empty when complete
}

// Request asks for deliveries. A broker with SelectiveReceive returns only the
// copies named in Only; every other broker ignores it and returns what comes,
// so the caller matches what it gets in either case.
type Request struct {
	Max   int
	Lease time.Duration
	Only  []CopyID
}

// Reason is why a copy is quarantined.
type Reason struct {
	Type    string
	Code    string
	Message string
}

// Broker is one dead-letter queue with its destinations. All methods may be
// called from several goroutines. An error from a batch method does not exist:
// a call that failed as a whole is the same Unknown or Refused in each result,
// whose slice always has the length of the input, index for index.
type Broker interface {
	Capabilities() Capabilities
	Describe(ctx context.Context) (Description, error)
	// Browse calls each for every copy it can see and leaves all of them where
	// they were. It pages until the queue is proven empty, or limit copies were
	// seen (limit 0: no limit), or each fails. It returns what it saw even when
	// ctx ends: the error is then ctx's, and nothing stays leased.
	Browse(ctx context.Context, limit int, each func(Message) error) (Completeness, error)
	// Receive leases up to r.Max copies. No deliveries and no error means that
	// nothing was visible now, which is no proof that the queue is empty.
	Receive(ctx context.Context, r Request) ([]Delivery, error)
	// Extend sets the lease to end after lease from now. On success the
	// delivery's LeaseUntil is the caller's to update.
	Extend(ctx context.Context, ds []Delivery, lease time.Duration) []Result
	// Ack removes exactly the received copies. A copy whose lease was lost is
	// ErrLeaseLost (Refused) where the broker can tell, else Unknown.
	Ack(ctx context.Context, ds []Delivery) []Result
	// Release makes the copies visible again at once.
	Release(ctx context.Context, ds []Delivery) []Result
	// Publish sends the messages to the named destination, durably on Done.
	Publish(ctx context.Context, destination string, ms []Outgoing) []Result
	// Quarantine moves received copies to the dead-letter queue, by the broker's
	// own means where it has one, else by copying and acknowledging.
	Quarantine(ctx context.Context, ds []Delivery, r Reason) []Result
}

// Restorer is a broker that can put dead copies back into the dead-letter queue
// as they were. Any other takes them as new messages, by Publish to that queue.
type Restorer interface {
	// Restore adds copies with their message ID, receives, times, origin and
	// system attributes, visible at once; a copy that has expired meanwhile is
	// kept as long as one that arrives now. A copy whose Copy names this queue
	// keeps that identity where no other copy has it, else it gets a new one.
	// Restoring a copy that is there under its own identity adds nothing and is
	// Done, so that a call of unknown fate can be repeated.
	Restore(ctx context.Context, ms []Message) []Result
}

// Retrier is a broker that knows how long a queue tries a copy.
type Retrier interface {
	// RetriesFor is how long the named destination can try a copy before it
	// dead-letters it by itself: visibility × maximum receives. 0: it never does.
	RetriesFor(ctx context.Context, destination string) (time.Duration, error)
}

// All returns n results that all say the same, for a call that failed whole.
func All(n int, r Result) []Result {
	rs := make([]Result, n)
	for i := range rs {
		rs[i] = r
	}
	return rs
}
