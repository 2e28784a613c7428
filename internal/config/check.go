package config

import (
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/redrivectl/redrivectl/internal/provider"
)

// deadLetterSuffix makes a dead-letter queue's usual name of its queue's.
const deadLetterSuffix = "-dlq"

// derive fills in the defaults that depend on other settings.
func (c *Config) derive() {
	for name, q := range c.Queues {
		if !c.given("queues." + name + ".dead_letter") {
			q.DeadLetter = name + deadLetterSuffix
		}
		if q.Broker != Local && !c.given("queues."+name+".path") {
			q.Path = ""
		}
		// With a ledger the worker is bound by the worker's contract, which
		// forbids transport retries. Without one nothing is promised, and most
		// clients retry.
		if !c.given("queues." + name + ".worker.transport_retries") {
			q.Worker.TransportRetries = q.Ledger == ""
		}
		c.Queues[name] = q
	}
}

// checker collects what single values cannot show to be wrong.
type checker struct {
	*Config
	problems Problems
}

func (k *checker) reject(path, message string) {
	k.problems = append(k.problems, Problem{k.At(path), message})
}

func (k *checker) rejectKey(path, message string) {
	k.problems = append(k.problems, Problem{k.keyAt(path), message})
}

func (c *Config) check() Problems {
	k := &checker{Config: c}
	k.queues()
	for _, name := range slices.Sorted(maps.Keys(c.Ledgers)) {
		k.oneOf("ledgers."+name, "path", "dsn")
	}
	for _, name := range slices.Sorted(maps.Keys(c.Providers)) {
		k.provider("providers."+name, c.Providers[name])
	}
	k.store()
	return k.problems
}

func (k *checker) queues() {
	taken := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(k.Queues)) {
		q, path := k.Queues[name], "queues."+name
		k.references(path, q)
		k.envelope(name, q)
		k.queue(path, q)
		dlq := string(q.Broker) + "\x00" + q.Path + "\x00" + q.DeadLetter
		if other, ok := taken[dlq]; ok {
			k.rejectKey(path, "queues "+other+" and "+name+" are the same dead-letter queue: two runs could work on it at once")
		}
		taken[dlq] = name
	}
}

func (k *checker) references(path string, q Queue) {
	if _, ok := k.Ledgers[q.Ledger]; !ok && q.Ledger != "" {
		k.reject(path+".ledger", unknownName(q.Ledger, "ledgers", k.Ledgers))
	}
	if _, ok := k.Providers[q.Provider]; !ok && q.Provider != "" {
		k.reject(path+".provider", unknownName(q.Provider, "providers", k.Providers))
	}
	if _, ok := k.Policies[q.Policy]; !ok && q.Policy != "default" && q.Policy != "" {
		k.reject(path+".policy", unknownName(q.Policy, "policies", k.Policies))
	}
}

func unknownName[V any](name, section string, have map[string]V) string {
	names := strings.Join(slices.Sorted(maps.Keys(have)), ", ")
	if names == "" {
		names = "nothing"
	}
	return "\"" + name + "\" is not in " + section + ", which has " + names
}

func (k *checker) queue(path string, q Queue) {
	if q.Effects != nil && k.given(path+".provider") {
		k.rejectKey(path+".effects", "effects cannot be declared for a queue with a provider: its records decide")
	}
	if k.given(path+".worker.claim_life") && q.Worker.ClaimLife == 0 {
		k.reject(path+".worker.claim_life", path+".worker.claim_life must be above zero: a claim needs time to send")
	}
	if q.Broker != Local && q.Path != "" {
		k.rejectKey(path+".path", path+".path is the local broker's file: "+string(q.Broker)+" has none")
	}
	if q.DeadLetter != "" && slices.Contains(q.Sources, q.DeadLetter) {
		k.reject(path+".source", path+".source is the dead-letter queue itself")
	}
}

// oneOf demands exactly one of two keys.
func (k *checker) oneOf(path, a, b string) {
	switch hasA, hasB := k.given(path+"."+a), k.given(path+"."+b); {
	case hasA && hasB:
		k.rejectKey(path+"."+b, path+" has both "+a+" and "+b+": give one")
	case !hasA && !hasB:
		k.rejectKey(path, path+" needs "+a+" or "+b)
	}
}

func (k *checker) store() {
	if k.given("store.dsn") {
		k.reject("store.dsn", "a store that is reached by dsn is not in this build: use store.path")
	}
}

func (k *checker) provider(path string, p Provider) {
	if p.BaseURL != "" {
		if why := badBaseURL(p.BaseURL); why != "" {
			k.reject(path+".base_url", path+".base_url "+why)
		}
	}
	if p.Idempotency != nil && p.Idempotency.Header != "" && !isHeader(p.Idempotency.Header) {
		k.reject(path+".idempotency.header", path+".idempotency.header is not the name of a header")
	}
	if p.CredentialHeader != "" && !isHeader(p.CredentialHeader) {
		k.reject(path+".credential_header", path+".credential_header is not the name of a header")
	}
	if p.CredentialHeader != "" && !k.given(path+".credential") {
		k.rejectKey(path+".credential_header", path+" has a credential_header and no credential")
	}
	if p.Lookup == nil {
		if len(p.Proves) > 0 {
			k.rejectKey(path+".proves", path+" has no lookup, so it proves nothing: add lookup or remove proves")
		}
		return
	}
	k.lookup(path, p)
}

// lookup holds the contract of a look-up against what it is said to prove. What
// it proves is never assumed.
func (k *checker) lookup(path string, p Provider) {
	if p.Lookup.Path != "" && !strings.HasPrefix(p.Lookup.Path, "/") {
		k.reject(path+".lookup.path", path+".lookup.path must begin with /")
	}
	if !k.given(path + ".proves") {
		k.rejectKey(path+".lookup", path+" needs proves: say what a look-up proves, [] for nothing")
	}
	if slices.Contains(p.Proves, provider.ProvesNotAccepted) && !k.given(path+".lookup.not_found") {
		k.rejectKey(path+".proves", path+" cannot prove not_accepted without lookup.not_found")
	}
	if slices.Contains(p.Proves, provider.ProvesRejected) && !k.given(path+".lookup.accepted") {
		k.rejectKey(path+".proves", path+" cannot prove rejected without lookup.accepted")
	}
}

func badBaseURL(text string) string {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return "must be an http or https URL with a host"
	case u.User != nil:
		return "must not hold credentials: use credential"
	case u.RawQuery != "" || u.Fragment != "":
		return "must not have a query or a fragment: they belong to lookup.path"
	}
	return ""
}

// isHeader reports whether s is a token by RFC 9110, section 5.6.2.
func isHeader(s string) bool {
	for _, r := range s {
		alnum := r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z'
		if !alnum && !strings.ContainsRune("!#$%&'*+-.^_`|~", r) {
			return false
		}
	}
	return s != ""
}
