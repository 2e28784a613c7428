package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// badFiles is what a person may get wrong, with every line that is printed.
var badFiles = []struct {
	name, text string
	want       []string
}{
	{"unknown section", "queus: {}\n", []string{
		`1:1: "queus" is not a key of the configuration, which has queues, ledgers, providers, policies, reconcile, references, store, approval, audit, notify`,
	}},
	{"unknown key", "reconcile:\n  clock_margins: 1s\n", []string{
		`2:3: "clock_margins" is not a key of reconcile, which has clock_margin, second_look_after`,
	}},
	{"several", "reconcile: {clock_margin: 5, second_look_after: soon}\nnotify: [x]\n", []string{
		`1:27: reconcile.clock_margin must be text, not a whole number: give a unit, as in 30s or 30d`,
		`1:49: reconcile.second_look_after: "soon" is not a duration such as 30s, 72h or 30d`,
		`2:10: notifications are not in this build: leave notify empty`,
	}},
	{"syntax", "queues: {a: [}\n", []string{
		`1:14: could not find '{' character corresponding to '}'`,
	}},
	{"key twice", "store: {}\nstore: {}\n", []string{
		`2:1: mapping key "store" already defined at [1:1]`,
	}},
	{"two documents", "store: {}\n---\nstore: {}\n", []string{
		`3:6: a configuration is one YAML document: remove what follows ---`,
	}},
	{"list at the top", "- queues\n", []string{
		`1:1: the configuration must be a mapping of keys to values, not a list`,
	}},
	{"text for a section", "queues: all\n", []string{
		`1:9: queues must be a mapping of keys to values, not text`,
	}},
	{"anchor, alias, merge, tag", "queues:\n  a: &x {}\n  b: *x\n  c:\n    <<: *x\n    dead_letter: !!str d\n", []string{
		`2:6: anchors and aliases are not supported: write the value out`,
		`3:6: anchors and aliases are not supported: write the value out`,
		`5:5: merge keys are not supported: write the keys out`,
		`6:18: tags are not supported: write the plain value`,
	}},
	{"queue's name", "queues:\n  sqs:a: {}\n  -x: {}\n", []string{
		`2:3: "sqs:a" is not a name: use letters, digits, dots, dashes and underscores, and begin with a letter or digit`,
		`3:3: "-x" is not a name: use letters, digits, dots, dashes and underscores, and begin with a letter or digit`,
	}},
	{"path of a broker without one", "queues: {a: {broker: sqs, path: queue.db}}\n", []string{
		`1:27: queues.a.path is the local broker's file: sqs has none`,
	}},
	{"broker to come", "queues: {a: {broker: pubsub}}\n", []string{
		`1:22: queues.a.broker: "pubsub" is not in this build, which has local, sqs`,
	}},
	{"broker nobody knows", "queues: {a: {broker: fax}}\n", []string{
		`1:22: queues.a.broker: "fax" is not one of local, sqs`,
	}},
	{"names that do not exist", "queues:\n  a:\n    ledger: app\n    provider: mail\n    policy: strict\nledgers: {ap: {path: l.db}}\n", []string{
		`3:13: "app" is not in ledgers, which has ap`,
		`4:15: "mail" is not in providers, which has nothing`,
		`5:13: "strict" is not in policies, which has nothing`,
	}},
	{"mapping of no field", "queues:\n  a:\n    envelope: {jobkey: body.id, failure: {kind: body.e}}\n", []string{
		`3:16: "jobkey" is not a key of queues.a.envelope, which has job_key, subject, version, kind, channel, customer_id, customer_status, period, region, schema_version, deployment_id, trace_context, attempt, quarantined_by, payload, failure`,
		`3:43: "kind" is not a key of queues.a.envelope.failure, which has type, code, message, at`,
	}},
	{"mappings that are no CEL", "queues:\n  a:\n    envelope:\n      job_key: body.id +\n      version: \"boddy.version\"\n      subject: |\n        body.a\n          + boddy.b\n      failure: {at: receives > 2, code: ''}\n", []string{
		`4:25: queues.a.envelope.job_key: Syntax error: mismatched input '<EOF>' expecting {'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}`,
		`5:17: queues.a.envelope.version: undeclared reference to 'boddy' (in container '')`,
		`8:13: queues.a.envelope.subject: undeclared reference to 'boddy' (in container '')`,
		`9:21: queues.a.envelope.failure.at: gives bool, not timestamp or string or int`,
		`9:41: queues.a.envelope.failure.code: must not be empty`,
	}},
	{"mapped payloads without bytes of their own", "queues:\n  a: {envelope: {payload: 'has(body.a) ? body.a : body.b'}}\n  b: {dead_letter: d, envelope: {payload: '{\"a\": body.a}'}}\n", []string{
		`2:28: queues.a.envelope.payload: gives a value whose exact bytes cannot be had: use a path of body, text, bytes, or a string or bytes made of them`,
		`3:44: queues.b.envelope.payload: gives map(string, dyn), not string or bytes`,
	}},
	{"effects half declared", "queues:\n  a:\n    effects: {kind: idempotent, owner: \"  \"}\n", []string{
		`3:5: queues.a.effects needs reason`,
		`3:40: queues.a.effects.owner: must not be empty`,
	}},
	{"effects of an unknown kind", "queues:\n  a:\n    effects: {kind: harmless, owner: o, reason: r}\n", []string{
		`3:21: queues.a.effects.kind: "harmless" is not one of idempotent`,
	}},
	{"effects beside a provider", "queues:\n  a:\n    provider: m\n    effects: {kind: idempotent, owner: o, reason: r}\nproviders: {m: {base_url: http://h}}\n", []string{
		`4:5: effects cannot be declared for a queue with a provider: its records decide`,
	}},
	{"one queue twice", "queues:\n  a: {dead_letter: d}\n  b: {dead_letter: d}\n", []string{
		`3:3: queues a and b are the same dead-letter queue: two runs could work on it at once`,
	}},
	{"into itself", "queues:\n  a: {dead_letter: d, source: [s, d, s]}\n", []string{
		`2:31: queues.a.source is the dead-letter queue itself`,
		`2:38: queues.a.source has "s" twice`,
	}},
	{"kinds", "queues:\n  a:\n    consumer: 12\n    worker: {transport_retries: yes, claim_life: 0s}\n    max_age: -1h\n    source: {}\n", []string{
		`3:15: queues.a.consumer must be text, not a whole number: put it in quotes`,
		`4:33: queues.a.worker.transport_retries must be true or false, not text`,
		`4:50: queues.a.worker.claim_life must be above zero: a claim needs time to send`,
		`5:14: queues.a.max_age: "-1h" is negative or too long`,
		`6:13: queues.a.source must be text, not a mapping`,
	}},
	{"empty values", "queues:\n  a:\n    dead_letter:\n    path: \"\"\n    region: ''\n", []string{
		`3:5: queues.a.dead_letter must be text, not empty`,
		`4:11: queues.a.path: must not be empty`,
		`5:13: queues.a.region: must not be empty`,
	}},
	{"home", "store: {path: ~/store.db}\n", []string{
		`1:15: store.path: "~/store.db": ~ is not expanded, write the whole path`,
	}},
	{"ledger to come", "ledgers:\n  app: {kind: postgres, dsn: env:DSN}\n", []string{
		`2:15: ledgers.app.kind: "postgres" is not in this build, which has sqlite`,
	}},
	{"ledger without a place", "ledgers:\n  app: {mode: write}\n  two: {path: a, dsn: env:B}\n", []string{
		`2:3: ledgers.app needs path or dsn`,
		`3:18: ledgers.two has both path and dsn: give one`,
	}},
	{"ledger's words", "ledgers:\n  app: {path: l, mode: rw, row_written: late, version_order: semver, retention: 1y, columns: {a: 1}}\n", []string{
		`2:24: ledgers.app.mode: "rw" is not one of read, write`,
		`2:41: ledgers.app.row_written: "late" is not one of enqueue, claim`,
		`2:62: ledgers.app.version_order: "semver" is not one of integer, time, text`,
		`2:81: ledgers.app.retention: "1y" is not a duration such as 30s, 72h or 30d`,
		`2:98: ledgers.app.columns.a must be text, not a whole number: put it in quotes`,
	}},
	{"a secret in the file", "ledgers:\n  app: {dsn: \"user:hunter2@db\"}\nproviders:\n  m: {base_url: \"https://u:hunter2@h\", credential: hunter2}\naudit: {customer_key: \"env:hunter 2\"}\n", []string{
		`2:14: ledgers.app.dsn: must be a reference, env:NAME or file:PATH: a secret does not stand in the file itself`,
		`4:17: providers.m.base_url must not hold credentials: use credential`,
		`4:52: providers.m.credential: must be a reference, env:NAME or file:PATH: a secret does not stand in the file itself`,
		`5:23: audit.customer_key: must be a reference, env:NAME or file:PATH: a secret does not stand in the file itself`,
	}},
	{"provider to come", "providers:\n  m: {kind: stripe, base_url: https://h}\n", []string{
		`2:13: providers.m.kind: "stripe" is not in this build, which has http`,
	}},
	{"provider without a URL", "providers:\n  m:\n    requests: 0/s\n", []string{
		`2:3: providers.m needs base_url`,
		`3:15: providers.m.requests: "0/s" is not a rate such as 5/s, 30/m or 100/h`,
	}},
	{"provider's URL", "providers:\n  a: {base_url: mail.example.com}\n  b: {base_url: 'https://h/?x=1'}\n", []string{
		`2:17: providers.a.base_url must be an http or https URL with a host`,
		`3:17: providers.b.base_url must not have a query or a fragment: they belong to lookup.path`,
	}},
	{"proves without a look-up", "providers:\n  m: {base_url: http://h, proves: [accepted]}\n", []string{
		`2:27: providers.m has no lookup, so it proves nothing: add lookup or remove proves`,
	}},
	{"look-up that proves more than it can", "providers:\n  m:\n    base_url: http://h\n    lookup: {path: /m, found: 'true'}\n    proves: [accepted, not_accepted, rejected]\n", []string{
		`5:5: providers.m cannot prove not_accepted without lookup.not_found`,
		`5:5: providers.m cannot prove rejected without lookup.accepted`,
	}},
	{"look-up that does not say what it proves", "providers:\n  m:\n    base_url: http://h\n    lookup: {path: m, page: {cursor: c, limit: 0}}\n", []string{
		`4:5: providers.m.lookup needs found`,
		`4:5: providers.m needs proves: say what a look-up proves, [] for nothing`,
		`4:20: providers.m.lookup.path must begin with /`,
		`4:48: providers.m.lookup.page.limit: "0" is not a whole number above zero`,
	}},
	{"proves the unknown", "providers:\n  m:\n    base_url: http://h\n    lookup: {path: /m, found: 'true'}\n    proves: [accepted, delivered]\n", []string{
		`5:24: providers.m.proves: "delivered" is not one of accepted, not_accepted, rejected`,
	}},
	{"idempotency", "providers:\n  m:\n    base_url: http://h\n    idempotency: {header: \"X Key\", life: 0s, scope: region, max_bytes: many}\n", []string{
		`4:27: providers.m.idempotency.header is not the name of a header`,
		`4:42: providers.m.idempotency.life must not be empty or zero`,
		`4:53: providers.m.idempotency.scope: "region" is not one of account`,
		`4:72: providers.m.idempotency.max_bytes must be a whole number, not text`,
	}},
	{"credential's header", "providers:\n  m: {base_url: http://h, credential_header: \"a b\"}\n", []string{
		`2:27: providers.m has a credential_header and no credential`,
		`2:46: providers.m.credential_header is not the name of a header`,
	}},
	{"policy without a file", "policies: {own: {}}\n", []string{
		`1:12: policies.own needs file`,
	}},
	{"shared store", "store: {dsn: env:STORE}\n", []string{
		`1:14: a store that is reached by dsn is not in this build: use store.path`,
	}},
	{"approval to come", "approval: {mode: signed, identity: face, solo: \" \", files: yes}\n", []string{
		`1:18: approval.mode: "signed" is not in this build, which has recorded`,
		`1:36: approval.identity: "face" is not one of account, declared`,
		`1:48: approval.solo: must not be empty`,
		`1:60: approval.files: "yes" is not one of refuse, accept`,
	}},
}

func TestBadFiles(t *testing.T) {
	t.Parallel()
	for _, tt := range badFiles {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := loaded(t, tt.text)
			if err == nil {
				t.Fatal("loaded")
			}
			want := "/etc/r.yaml:" + strings.Join(tt.want, "\n/etc/r.yaml:")
			if diff := cmp.Diff(want, err.Error()); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
			if strings.Contains(err.Error(), "hunter") {
				t.Error("the error shows a secret")
			}
		})
	}
}
