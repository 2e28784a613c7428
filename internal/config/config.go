// Package config reads redrivectl's configuration file. Loading is strict: a
// key that is not known, a value of the wrong kind and an option that this
// build cannot honour are errors with file, line and column, because a setting
// that is silently ignored here is a second send later.
package config

import (
	"time"

	"github.com/redrivectl/redrivectl/internal/job"
	"github.com/redrivectl/redrivectl/internal/ledger"
	"github.com/redrivectl/redrivectl/internal/provider"
)

// Config is one configuration, with every default applied and every path
// absolute. It is made by Load or Default.
type Config struct {
	// File is the absolute path that was loaded; empty for the embedded default.
	File string `yaml:"-"`

	Queues     map[string]Queue    `yaml:"queues"`
	Ledgers    map[string]Ledger   `yaml:"ledgers"`
	Providers  map[string]Provider `yaml:"providers"`
	Policies   map[string]Policy   `yaml:"policies"`
	Reconcile  Reconcile           `yaml:"reconcile"`
	References References          `yaml:"references"`
	Store      Store               `yaml:"store"`
	Approval   Approval            `yaml:"approval"`
	Audit      Audit               `yaml:"audit"`
	Notify     []Notification      `yaml:"notify"`

	dir      string // what relative paths resolve against
	spots    map[string]spot
	mappings map[string]*job.Mapping // by queue, compiled
}

// Broker names the kind of a queue's broker.
type Broker string

// The brokers. Local is a queue in a SQLite file, SQS is Amazon's.
const (
	Local Broker = "local"
	SQS   Broker = "sqs"
)

// Queue is one dead-letter queue with all that decides what may be done there.
type Queue struct {
	Broker     Broker `yaml:"broker" enum:"local,sqs" later:"pubsub,servicebus"`
	Path       string `yaml:"path" format:"path"` // the local broker's file; of no other
	DeadLetter string `yaml:"dead_letter"`        // its name; of SQS also its URL or ARN
	// Sources are the queues that dead-letter into this one, and the only
	// destinations of a redrive without --to. Empty: ask the broker.
	Sources []string `yaml:"source" format:"one-or-list"`
	// Consumer scopes ledger rows; empty where a job has one consumer alone.
	Consumer string `yaml:"consumer"`
	// Region is the region that the queue is bound to, and that of a job whose
	// message tells none; empty: any.
	Region   string        `yaml:"region"`
	Ledger   string        `yaml:"ledger"`   // a name in Config.Ledgers, or empty
	Provider string        `yaml:"provider"` // a name in Config.Providers, or empty
	Policy   string        `yaml:"policy"`   // see Config.PolicyFile
	MaxAge   time.Duration `yaml:"max_age"`  // 0: no limit
	Worker   Worker        `yaml:"worker"`
	Effects  *Effects      `yaml:"effects"` // nil: nothing is declared
	// Envelope maps messages of a form that is not recognised; nil: nothing is
	// mapped. See Config.Mapping.
	Envelope *Envelope `yaml:"envelope"`
}

// Worker is what the queue's worker promises (docs/worker-contract.md).
type Worker struct {
	// TransportRetries says that the worker's client may send a request more
	// than once by itself. Then a failure class whose effect is none does not
	// prove that nothing was sent.
	TransportRetries bool          `yaml:"transport_retries"`
	ClaimLife        time.Duration `yaml:"claim_life"` // from claim to send deadline, > 0
	MaxPause         time.Duration `yaml:"max_pause"`  // how long a worker may stall past its deadline
}

// EffectsKind is what is declared about a repeated effect.
type EffectsKind string

// Idempotent declares that the consumer makes a repeated effect harmless.
const Idempotent EffectsKind = "idempotent"

// Effects is a declaration, with who stands for it and why.
type Effects struct {
	Kind   EffectsKind `yaml:"kind" enum:"idempotent" required:"true"`
	Owner  string      `yaml:"owner" required:"true"`
	Reason string      `yaml:"reason" required:"true"`
}

// LedgerKind names the database of a ledger.
type LedgerKind string

// SQLite is a ledger in a SQLite file.
const SQLite LedgerKind = "sqlite"

// LedgerMode says whether redrivectl may change ledger rows.
type LedgerMode string

// The modes. Under Read no row is ever written.
const (
	Read  LedgerMode = "read"
	Write LedgerMode = "write"
)

// VersionOrder says how two versions of one subject compare.
type VersionOrder string

// The orders.
const (
	ByInteger VersionOrder = "integer"
	ByTime    VersionOrder = "time" // RFC 3339
	ByText    VersionOrder = "text" // by bytes
)

// TimeFormat is how a ledger's table holds times.
type TimeFormat string

// TextTime is RFC 3339 or what SQLite's datetime() writes; the others count from
// 1970-01-01T00:00:00Z.
const (
	TextTime    TimeFormat = "text"
	UnixMilli   TimeFormat = "unix_ms"
	UnixSeconds TimeFormat = "unix"
)

// Ledger is the application's own record of its jobs. Exactly one of Path and
// DSN is set.
type Ledger struct {
	Kind         LedgerKind        `yaml:"kind" enum:"sqlite" later:"postgres,mysql,dynamodb"`
	Path         string            `yaml:"path" format:"path"`
	DSN          Secret            `yaml:"dsn"`
	Mode         LedgerMode        `yaml:"mode" enum:"read,write"`
	RowWritten   ledger.RowWritten `yaml:"row_written" enum:"enqueue,claim"`
	Retention    time.Duration     `yaml:"retention"`     // 0: rows are kept for ever
	Table        string            `yaml:"table"`         // empty: the shipped schema's
	HistoryTable string            `yaml:"history_table"` // empty: Table with _history
	Columns      map[string]string `yaml:"columns"`       // the ledger's word for a column → the table's
	TimeFormat   TimeFormat        `yaml:"time_format" enum:"text,unix_ms,unix"`
	VersionOrder VersionOrder      `yaml:"version_order" enum:"integer,time,text"`
	Statements   map[string]string `yaml:"statements"` // operation → SQL with named parameters
}

// ProviderKind names how a provider is asked.
type ProviderKind string

// HTTP asks by a configured HTTP contract.
const HTTP ProviderKind = "http"

// Provider is whoever carries out the effect, and what its records prove.
type Provider struct {
	Kind    ProviderKind `yaml:"kind" enum:"http" later:"stripe,resend,postmark,mailgun,twilio,sendgrid,ses"`
	BaseURL string       `yaml:"base_url" required:"true"`
	// Credential is sent as a bearer token, or as it is in CredentialHeader
	// where that is named; unset: none is sent.
	Credential       Secret `yaml:"credential"`
	CredentialHeader string `yaml:"credential_header"`
	// Region and Account are what the endpoint answers for; empty: any.
	Region      string           `yaml:"region"`
	Account     string           `yaml:"account"`
	Idempotency *Idempotency     `yaml:"idempotency"` // nil: it honours no key of ours
	Lookup      *Lookup          `yaml:"lookup"`      // nil: it cannot be asked
	Requests    Rate             `yaml:"requests"`    // the budget for look-ups
	Proves      []provider.Proof `yaml:"proves" enum:"accepted,not_accepted,rejected"`
	Billing     bool             `yaml:"billing"` // a repeated effect costs money
}

// Scope is what an idempotency key is unique within.
type Scope string

// ByAccount says that two accounts of one provider may use the same key.
const ByAccount Scope = "account"

// Idempotency says how the provider honours the job key.
type Idempotency struct {
	Header   string        `yaml:"header" required:"true"`
	MaxBytes int           `yaml:"max_bytes"`
	Life     time.Duration `yaml:"life" required:"true"` // how long a key is honoured, > 0
	Scope    Scope         `yaml:"scope" enum:"account"`
}

// Lookup is how one request is asked for. Found, NotFound and Items are CEL over
// status, headers and body; Accepted, Bind and RequestID over item as well.
// Whoever builds the provider compiles them, and reports what is wrong with
// Config.Errorf.
type Lookup struct {
	Path     string `yaml:"path" required:"true"` // appended to BaseURL, with {placeholders}
	Found    string `yaml:"found" required:"true"`
	NotFound string `yaml:"not_found"`
	Accepted string `yaml:"accepted"` // empty: every record found was accepted
	// Items is CEL over body for the list of records; empty: body.items where
	// there is such a field, else the body as one record.
	Items string `yaml:"items"`
	// Bind is the job key that a record carries; empty: a record is bound by the
	// question that found it.
	Bind string `yaml:"bind"`
	// RequestID is a record's own name; empty: its id, message_id or sid.
	RequestID string `yaml:"request_id"`
	// Delay is how late a record may become visible; nil: not documented, so a
	// no stays provisional.
	Delay    *time.Duration `yaml:"delay"`
	LookBack time.Duration  `yaml:"look_back"` // 0: not documented
	Page     *Page          `yaml:"page"`      // nil: the answer is whole
}

// Page says how a long answer is paged.
type Page struct {
	Cursor string `yaml:"cursor" required:"true"` // the field of the answer with the next page's cursor
	Param  string `yaml:"param"`                  // the query parameter it goes in; empty: as Cursor
	Limit  int    `yaml:"limit" required:"true"`  // rows in one page; a page with so many may be cut
}

// Policy names a policy file.
type Policy struct {
	File string `yaml:"file" format:"path" required:"true"`
}

// References is where content that jobs point to may be read from.
type References struct {
	Roots    []string `yaml:"roots" format:"path"` // folders of file: URIs; empty: none is read
	MaxBytes int      `yaml:"max_bytes"`           // of one content
	// S3 lets objects of s3: URIs be looked for, with the AWS client's defaults.
	S3 bool `yaml:"s3"`
}

// Reconcile is how careful a look-up's time arithmetic is.
type Reconcile struct {
	ClockMargin     time.Duration `yaml:"clock_margin"`
	SecondLookAfter time.Duration `yaml:"second_look_after"`
}

// Store is where captures, plans, approvals, runs and the audit log are kept.
type Store struct {
	Path string `yaml:"path" format:"path"`
	DSN  Secret `yaml:"dsn"`
	// Region is the region that the store is bound to; empty: any, unless the
	// store remembers one.
	Region string `yaml:"region"`
	// Named says that the file names the store. One that nobody named is refused
	// where its disk would not outlive the command (CI).
	Named bool `yaml:"-"`
}

// ApprovalMode says how approvals are given.
type ApprovalMode string

// Recorded approvals are statements in the store, unsigned.
const Recorded ApprovalMode = "recorded"

// Identity says how a person is known.
type Identity string

// Account is the operating system's account; Declared lets REDRIVECTL_ACTOR
// name the person.
const (
	Account  Identity = "account"
	Declared Identity = "declared"
)

// Files says whether an approval that is carried here in a file counts.
type Files string

// A file names its maker, and nothing proves the name: Refuse lets none count,
// Accept takes it at its word.
const (
	Refuse Files = "refuse"
	Accept Files = "accept"
)

// Approval is how approvals are given and who counts as a person.
type Approval struct {
	Mode     ApprovalMode `yaml:"mode" enum:"recorded" later:"signed"`
	Identity Identity     `yaml:"identity" enum:"account,declared"`
	Files    Files        `yaml:"files" enum:"refuse,accept"`
	Solo     string       `yaml:"solo"` // why one person may approve alone; empty: not allowed
}

// TakesFiles reports whether approvals in files count. Where a person is who he
// says he is, a file is as good as his word.
func (a Approval) TakesFiles() bool { return a.Files == Accept || a.Identity == Declared }

// Audit is how the audit log names customers.
type Audit struct {
	// CustomerKey is the key of the HMAC that stands for a customer; unset: this
	// machine's own random key for the store (audit.Remembered).
	CustomerKey Secret `yaml:"customer_key"`
}

// Notification is a place to tell. This build has none, so a list that is not
// empty is refused.
type Notification struct{}

// PolicyFile is the policy file of a queue. It is empty for the shipped policy:
// that of a queue whose policy is "default" where no policy of that name is
// configured.
func (c *Config) PolicyFile(queue string) string {
	return c.Policies[c.Queues[queue].Policy].File
}

// Dir is the folder that relative paths resolve against.
func (c *Config) Dir() string { return c.dir }
