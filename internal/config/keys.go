package config

import "strings"

// key is what the loader, the JSON Schema, `redrivectl init` and
// docs/configuration.md say of one setting. A name that the user chooses is "*"
// in the path.
type key struct {
	path string
	// value is the default as it would be written; empty: there is none.
	value string
	// derived says in words what the default is, where it is computed or absent.
	derived string
	doc     string
}

// keys is every setting, in the order of the documentation. It is the one place
// where a default stands.
func keys() []key {
	var all []key
	for _, section := range [][]key{queueKeys(), envelopeKeys(), ledgerKeys(), providerKeys(), otherKeys()} {
		all = append(all, section...)
	}
	return all
}

func keysByPath() map[string]key {
	m := map[string]key{}
	for _, k := range keys() {
		m[k.path] = k
	}
	return m
}

func queueKeys() []key {
	return []key{
		{"queues", "", "none", "The dead-letter queues, each under a name of your choice."},
		{"queues.*", "", "all defaults", "One dead-letter queue. The name may hold letters, digits, dots, dashes and underscores."},
		{"queues.*.broker", "local", "", "The broker that holds the queue. `local` is a queue in a SQLite file, `sqs` is Amazon SQS."},
		{"queues.*.path", "queue.db", "", "The local broker's file."},
		{"queues.*.dead_letter", "", "the queue's name with `-dlq`", "The dead-letter queue as the broker names it."},
		{"queues.*.source", "", "derived from the broker", "The queue, or list of queues, that dead-letters into it: where a redrive may send without `--to`."},
		{"queues.*.consumer", "", "none", "The consumer whose effect this is. It scopes ledger rows where one job has several consumers."},
		{"queues.*.region", "", "none", "The region that the queue is bound to, and that of a job whose message names none. A job that names another is held (see safety.md). With `sqs` also the region that is asked; without it that of the AWS client's default chain."},
		{"queues.*.ledger", "", "none", "The name of the ledger that records this queue's jobs."},
		{"queues.*.provider", "", "none", "The name of the provider that carries out the effect."},
		{"queues.*.policy", "default", "", "The name of the policy. `default` is the shipped policy unless `policies` has one of that name."},
		{"queues.*.max_age", "0s", "", "A job older than this is expired and never redriven. `0s`: no limit of the queue's own."},
		{"queues.*.worker", "", "all defaults", "What the queue's worker promises (see worker-contract.md)."},
		{"queues.*.worker.transport_retries", "", "`false` with a ledger, else `true`", "Whether the worker's client may repeat a request by itself. If so, no failure class proves that nothing was sent."},
		{"queues.*.worker.claim_life", "30s", "", "The longest time from a worker's claim to the deadline of its send."},
		{"queues.*.worker.max_pause", "5m", "", "How long a worker may stall past a deadline before it notices. Look-ups wait this long, and key lives are shortened by it."},
		{"queues.*.effects", "", "nothing is declared", "A declaration that a repeated effect is harmless. Refused where the queue has a provider."},
		{"queues.*.effects.kind", "", "required", "`idempotent`: the consumer makes a repeated effect harmless."},
		{"queues.*.effects.owner", "", "required", "Who stands for the declaration."},
		{"queues.*.effects.reason", "", "required", "Why it is true. Every plan and record that rests on it says so."},
	}
}

func ledgerKeys() []key {
	return []key{
		{"ledgers", "", "none", "The applications' own records of their jobs, each under a name."},
		{"ledgers.*", "", "", "One ledger, reached by `path` or by `dsn`."},
		{"ledgers.*.kind", "sqlite", "", "The database."},
		{"ledgers.*.path", "", "none", "The SQLite file."},
		{"ledgers.*.dsn", "", "none", "A reference to the connection string, instead of `path`."},
		{"ledgers.*.mode", "read", "", "`write` lets redrivectl fence, requeue and settle rows. Under `read` no row is ever written, and the best no of a look-up is provisional."},
		{"ledgers.*.row_written", "enqueue", "", "When the application first writes a row. Under `enqueue` a dead job without a row is held; under `claim` it was never claimed."},
		{"ledgers.*.retention", "0s", "", "How long the application keeps rows. `0s`: for ever."},
		{"ledgers.*.table", "", "the shipped schema's", "The table, where it is not the shipped schema's."},
		{"ledgers.*.history_table", "", "the table's name with `_history`", "The table of a row's history."},
		{"ledgers.*.columns", "", "the shipped schema's", "The table's names for the ledger's columns."},
		{"ledgers.*.columns.*", "", "the same name", "The table's column for one column of the ledger."},
		{"ledgers.*.time_format", "text", "", "How the table holds times: as RFC 3339 text, or as milliseconds (`unix_ms`) or seconds (`unix`) since 1970."},
		{"ledgers.*.version_order", "integer", "", "How two versions of one subject compare: as whole numbers, as RFC 3339 times, or as text by bytes."},
		{"ledgers.*.statements", "", "the shipped ones", "SQL with named parameters, for a schema that columns cannot map."},
		{"ledgers.*.statements.*", "", "the shipped one", "The SQL of one operation."},
	}
}

func providerKeys() []key {
	return []key{
		{"providers", "", "none", "Whoever carries out the effects, each under a name."},
		{"providers.*", "", "", "One provider."},
		{"providers.*.kind", "http", "", "How it is asked. `http` is a contract that you describe here."},
		{"providers.*.base_url", "", "required", "The start of every look-up's URL. It holds no credentials."},
		{"providers.*.credential", "", "none is sent", "A reference to the token that look-ups send as `Authorization: Bearer`."},
		{"providers.*.credential_header", "", "`Authorization`, with `Bearer`", "The header in which the token is sent as it is."},
		{"providers.*.region", "", "any", "The region that the endpoint answers for. A job of another is not asked about here."},
		{"providers.*.account", "", "any", "The account that the endpoint answers for. A job of another is not asked about here."},
		{"providers.*.idempotency", "", "no key is honoured", "How the provider honours the job key as an idempotency key."},
		{"providers.*.idempotency.header", "", "required", "The header in which the worker sends the job key."},
		{"providers.*.idempotency.max_bytes", "255", "", "The longest key that is honoured, in bytes. A longer job key is not replay-safe."},
		{"providers.*.idempotency.life", "", "required", "How long a key is honoured after its first use. State less than the provider promises."},
		{"providers.*.idempotency.scope", "account", "", "What a key is unique within."},
		{"providers.*.lookup", "", "it cannot be asked", "How one request is asked for."},
		{"providers.*.lookup.path", "", "required", "The path and query, with the placeholders `{job_key}`, `{request_id}`, `{from}` and `{to}`."},
		{"providers.*.lookup.found", "", "required", "CEL over `status`, `headers` and `body`: the answer has records."},
		{"providers.*.lookup.not_found", "", "it never says no", "CEL over `status`, `headers` and `body`: the provider positively has no such record. Needed to prove `not_accepted`."},
		{"providers.*.lookup.accepted", "", "every record was accepted", "CEL over `item`: this record took effect. Needed to prove `rejected`."},
		{"providers.*.lookup.items", "", "`body.items`, else the body as one record", "CEL over `body`: the list of records."},
		{"providers.*.lookup.bind", "", "bound by the question", "CEL over `item`: the job key that the record carries."},
		{"providers.*.lookup.request_id", "", "`item.id`, `message_id` or `sid`", "CEL over `item`: the provider's name for the request."},
		{"providers.*.lookup.delay", "", "not documented", "How late a record may become visible. Without it every no stays provisional."},
		{"providers.*.lookup.look_back", "0s", "", "How far the records reach back. `0s`: not documented, so no look-up is conclusive."},
		{"providers.*.lookup.page", "", "the answer is whole", "How a long answer is paged."},
		{"providers.*.lookup.page.cursor", "", "required", "The field of the answer that holds the next page's cursor."},
		{"providers.*.lookup.page.param", "", "named as the cursor's field", "The query parameter that takes the cursor."},
		{"providers.*.lookup.page.limit", "", "required", "The rows of a full page. A page with so many and no cursor may be cut, and proves no absence."},
		{"providers.*.requests", "5/s", "", "The budget for look-ups: `N/s`, `N/m` or `N/h`."},
		{"providers.*.proves", "", "required with a look-up", "What its records prove: any of `accepted`, `not_accepted`, `rejected`."},
		{"providers.*.billing", "false", "", "Whether a repeated effect costs money. If so, every redrive needs another person's approval."},
	}
}

func otherKeys() []key {
	return []key{
		{"policies", "", "the shipped policy", "Policy files, each under a name that queues use."},
		{"policies.*", "", "", "One policy."},
		{"policies.*.file", "", "required", "The policy file."},
		{"reconcile", "", "all defaults", "How careful look-ups are about time. Lowering either counts as new settings, which another person approves."},
		{"reconcile.clock_margin", "5m", "", "By how much windows and waits are widened, beside the measured clock offset."},
		{"reconcile.second_look_after", "1m", "", "How long after the first look a second one must agree."},
		{"references", "", "none is read", "Where content that jobs point to (payload, rendering, stack trace) may be read from. What can be read is compared with the job's SHA-256 before a redrive."},
		{"references.roots", "", "none", "Folders. `file:` URIs within them are read, and nothing outside them, whatever a symbolic link says."},
		{"references.max_bytes", "16777216", "", "The largest content that is read."},
		{"references.s3", "false", "", "Whether objects of `s3:` URIs are looked for (`HeadObject`, with the AWS client's default chain). One that is missing holds its job; content is not read."},
		{"store", "", "all defaults", "Where captures, plans, approvals, runs and the audit log are kept."},
		{"store.path", "", "`redrivectl/store.db` in the user's state folder", "The store's SQLite file. Name it where the state folder does not last, as in CI."},
		{"store.region", "", "any", "The region that the store is bound to, from its first use and for good. Nothing of a queue that is not bound to the same region is kept in it."},
		{"store.dsn", "", "none", "A shared store. Not in this build, and refused."},
		{"approval", "", "all defaults", "How approvals are given."},
		{"approval.mode", "recorded", "", "`recorded`: a statement in the store, not signed."},
		{"approval.identity", "account", "", "How a person is known: by the operating system's account, or `declared` by `REDRIVECTL_ACTOR`."},
		{"approval.files", "refuse", "", "Whether approvals in files (`run --approval`) count: nothing proves who made one. With `identity: declared` they do."},
		{"approval.solo", "", "not allowed", "Why one person alone may approve: every output and record says `solo`."},
		{"audit", "", "all defaults", "How the audit log names customers."},
		{"audit.customer_key", "", "a random key kept on this machine for each store", "A reference to the key of the HMAC that stands for a customer."},
		{"notify", "[]", "", "Places to tell. This build has none, and refuses a list that is not empty."},
	}
}

// section is the first part of the path.
func (k key) section() string {
	s, _, _ := strings.Cut(k.path, ".")
	return s
}

// shown is the default as documentation prints it.
func (k key) shown() string {
	if k.value != "" {
		return "`" + k.value + "`"
	}
	return k.derived
}
