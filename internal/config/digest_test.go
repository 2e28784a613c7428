package config

import (
	"os"
	"strings"
	"testing"
)

func digest(t *testing.T, text, queue string) string {
	t.Helper()
	sum, err := mustLoad(t, text).SettingsSHA256(queue)
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

func reference(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile("testdata/reference.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestSettingsDigestIsPinned(t *testing.T) {
	t.Parallel()
	const want = "15da6ffb06119a77df95f9758ac54562428d4989a86b4d4fc2b6f6e94821183d"
	if got := digest(t, reference(t), "shipments"); got != want {
		t.Errorf("got %s: approved settings would have to be approved again", got)
	}
}

func TestSettingsDigestStays(t *testing.T) {
	t.Parallel()
	base := reference(t)
	want := digest(t, base, "shipments")
	for name, text := range map[string]string{
		"comments":              "# a comment\n" + base,
		"layout":                strings.Replace(base, "reconcile: {clock_margin: 5m, second_look_after: 1m}", "reconcile:\n  second_look_after: 60s\n\n  clock_margin: '5m'", 1),
		"a default left out":    strings.Replace(base, ", max_pause: 5m", "", 1),
		"another spelling":      strings.Replace(base, "max_age: 72h", "max_age: 3d", 1),
		"an absolute path":      strings.Replace(base, "path: shipments.db", "path: /etc/shipments.db", 1),
		"another queue":         strings.Replace(base, "the consumer upserts", "it upserts", 1),
		"the store":             strings.Replace(base, "path: store.db", "path: other.db", 1),
		"the policy's file":     strings.Replace(base, "policy.yaml", "p.yaml", 1),
		"the key for customers": strings.Replace(base, "customer.key", "other.key", 1),
	} {
		if text == base {
			t.Fatalf("%s: nothing was replaced", name)
		}
		if got := digest(t, text, "shipments"); got != want {
			t.Errorf("%s changes the digest", name)
		}
	}
	moved, err := parse("/srv/x/r.yaml", "/srv/x", []byte(base), home)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := moved.SettingsSHA256("shipments"); err != nil || got != want {
		t.Errorf("another folder changes the digest: %v", err)
	}
}

func TestSettingsDigestChanges(t *testing.T) {
	t.Parallel()
	base := reference(t)
	seen := map[string]string{digest(t, base, "shipments"): "the base", digest(t, base, "upserts"): "another queue"}
	for _, change := range [][2]string{
		{"clock_margin: 5m", "clock_margin: 4m"},
		{"second_look_after: 1m", "second_look_after: 0s"},
		{"path: shipments.db", "path: /var/shipments.db"},
		{"dead_letter: shipments-dlq", "dead_letter: other-dlq"},
		{"source: shipments ", "source: other "},
		{"consumer: mailer", "consumer: biller"},
		{"region: eu-west-1", "region: eu-west-2"},
		{"max_age: 72h", "max_age: 73h"},
		{"transport_retries: false", "transport_retries: true"},
		{"claim_life: 30s", "claim_life: 29s"},
		{"max_pause: 5m", "max_pause: 1m"},
		{"secrets/ledger-dsn", "secrets/other"},
		{"mode: write ", "mode: read "},
		{"row_written: enqueue ", "row_written: claim "},
		{"retention: 90d", "retention: 9d"},
		{"table: deliveries", "table: sends"},
		{"state: status", "state: phase"},
		{"version_order: integer", "version_order: text"},
		{"statements: {}", "statements: {get: select 1}"},
		{"https://mail.example.com", "https://mail.example.org"},
		{"env:MAIL_TOKEN", "env:OTHER_TOKEN"},
		{"header: Idempotency-Key", "header: X-Key"},
		{"max_bytes: 255", "max_bytes: 256"},
		{"life: 22h", "life: 23h"},
		{"/messages?", "/mails?"},
		{"size(body.items) > 0", "true"},
		{"size(body.items) == 0", "true"},
		{`item.status != "rejected"`, "true"},
		{"delay: 15m", "delay: 0s"},
		{"      delay: 15m\n", ""},
		{"look_back: 30d", "look_back: 31d"},
		{"cursor: next", "cursor: after"},
		{"cursor: next", "cursor: next, param: p"},
		{"path: /messages", "bind: item.k\n      path: /messages"},
		{"consumer: mailer", "envelope: {job_key: body.id}"},
		{"consumer: mailer", "envelope: {job_key: body.key}"},
		{"consumer: mailer", "envelope: {subject: body.id}"},
		{"consumer: mailer", "envelope: {failure: {code: body.id}}"},
		{"billing: false", "region: r"},
		{"billing: false", "account: r"},
		{"table: deliveries", "time_format: unix"},
		{"limit: 100", "limit: 99"},
		{"requests: 5/s", "requests: 6/s"},
		{"proves: [accepted, not_accepted]", "proves: [accepted]"},
		{"billing: false", "billing: true"},
		{"identity: account", "identity: declared"},
		{"identity: account", "solo: alone"},
	} {
		text := strings.Replace(base, change[0], change[1], 1)
		if text == base {
			t.Fatalf("%s: nothing was replaced", change[0])
		}
		sum := digest(t, text, "shipments")
		if other, ok := seen[sum]; ok {
			t.Errorf("%s → %s has the digest of %s", change[0], change[1], other)
		}
		seen[sum] = change[1]
	}
}

func TestSettingsDigestOfNoQueue(t *testing.T) {
	t.Parallel()
	if sum, err := mustLoad(t, "").SettingsSHA256("x"); err == nil {
		t.Errorf("a queue that is not configured has digest %s", sum)
	}
	c := mustLoad(t, "")
	c.Queues["x"] = NewQueue("x")
	if _, err := c.SettingsSHA256("x"); err != nil {
		t.Error(err)
	}
}

func TestShippedSettings(t *testing.T) {
	t.Parallel()
	const ledgers = "ledgers: {l: {path: l.db"
	for _, tt := range []struct {
		name, text string
		want       bool
	}{
		{"plain queue", "queues: {q: {}}", true},
		{"paths, names and ages", "queues: {q: {path: x.db, dead_letter: d, source: s, consumer: c, region: r, max_age: 3d}}", true},
		{"shipped ledger", "queues: {q: {ledger: l}}\n" + ledgers + ", mode: write}}", true},
		{"a worker that retries", "queues: {q: {ledger: l, worker: {transport_retries: true}}}\n" + ledgers + "}}", true},
		{"claims no retries", "queues: {q: {worker: {transport_retries: false}}}", false},
		{"claims a short pause", "queues: {q: {worker: {max_pause: 1s}}}", false},
		{"effects", "queues: {q: {effects: {kind: idempotent, owner: o, reason: r}}}", false},
		{"mapping", "queues: {q: {envelope: {job_key: body.id}}}", false},
		{"provider", "queues: {q: {provider: p}}\nproviders: {p: {base_url: http://h}}", false},
		{"margin", "queues: {q: {}}\nreconcile: {clock_margin: 1s}", false},
		{"solo", "queues: {q: {}}\napproval: {solo: alone}", false},
		{"declared", "queues: {q: {}}\napproval: {identity: declared}", false},
		{"approvals in files", "queues: {q: {}}\napproval: {files: accept}", false},
		{"mapped ledger", "queues: {q: {ledger: l}}\n" + ledgers + ", columns: {state: s}}}", false},
		{"late rows", "queues: {q: {ledger: l}}\n" + ledgers + ", row_written: claim}}", false},
		{"short retention", "queues: {q: {ledger: l}}\n" + ledgers + ", retention: 1d}}", false},
		{"no such queue", "", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := mustLoad(t, tt.text).ShippedSettings("q"); got != tt.want {
				t.Errorf("got %v", got)
			}
		})
	}
}
