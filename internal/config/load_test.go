package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/redrivectl/redrivectl/internal/ledger"
	"github.com/redrivectl/redrivectl/internal/provider"
)

func env(pairs ...string) func(string) string {
	return func(name string) string {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1]
			}
		}
		return ""
	}
}

var home = env("HOME", "/home/op")

func loaded(t *testing.T, text string) (*Config, error) {
	t.Helper()
	return parse("/etc/r.yaml", "/etc", []byte(text), home)
}

func mustLoad(t *testing.T, text string) *Config {
	t.Helper()
	c, err := loaded(t, text)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func wantConfig(t *testing.T, got, want *Config) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(Config{})); diff != "" {
		t.Errorf("config (-want +got):\n%s", diff)
	}
}

func ptr(d time.Duration) *time.Duration { return &d }

func TestLoadDemo(t *testing.T) {
	t.Parallel()
	got, err := Load("testdata/demo.yaml", home)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := filepath.Abs("testdata")
	if err != nil {
		t.Fatal(err)
	}
	wantConfig(t, got, &Config{
		File: filepath.Join(dir, "demo.yaml"),
		Queues: map[string]Queue{"digests": {
			Broker: Local, Path: filepath.Join(dir, "queue.db"), DeadLetter: "digests-dlq",
			Sources: []string{"digests"}, Consumer: "mailer", Ledger: "app", Provider: "mail", Policy: "default",
			Worker: Worker{ClaimLife: 30 * time.Second, MaxPause: 5 * time.Minute},
		}},
		Ledgers: map[string]Ledger{"app": {
			Kind: SQLite, Path: filepath.Join(dir, "ledger.db"), Mode: Write,
			RowWritten: ledger.AtEnqueue, TimeFormat: TextTime, VersionOrder: ByInteger,
		}},
		Providers: map[string]Provider{"mail": {
			Kind: HTTP, BaseURL: "http://127.0.0.1:8025",
			Lookup: &Lookup{
				Path:  "/messages?op_id={job_key}",
				Found: "size(body.items) > 0", NotFound: "size(body.items) == 0",
				Delay: ptr(time.Second), LookBack: 30 * day,
			},
			Requests: Rate{5, time.Second},
			Proves:   []provider.Proof{provider.ProvesAccepted, provider.ProvesNotAccepted},
		}},
		Policies:   map[string]Policy{"default": {File: filepath.Join(dir, "policy.yaml")}},
		Reconcile:  Reconcile{time.Second, time.Second},
		References: References{MaxBytes: 16 << 20},
		Store:      Store{Path: filepath.Join(dir, "store.db"), Named: true},
		Approval:   Approval{Mode: Recorded, Identity: Declared, Files: Refuse},
	})
}

func TestLoadReference(t *testing.T) {
	t.Parallel()
	got, err := Load("testdata/reference.yaml", home)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := filepath.Abs("testdata")
	if err != nil {
		t.Fatal(err)
	}
	worker := Worker{ClaimLife: 30 * time.Second, MaxPause: 5 * time.Minute}
	plain := worker
	plain.TransportRetries = true
	wantConfig(t, got, &Config{
		File: filepath.Join(dir, "reference.yaml"),
		Queues: map[string]Queue{
			"shipments": {
				Broker: Local, Path: filepath.Join(dir, "shipments.db"), DeadLetter: "shipments-dlq",
				Sources: []string{"shipments"}, Consumer: "mailer", Region: "eu-west-1",
				Ledger: "app", Provider: "mail", Policy: "default", MaxAge: 72 * time.Hour, Worker: worker,
			},
			"upserts": {
				Broker: Local, Path: filepath.Join(dir, "queue.db"), DeadLetter: "upserts-dlq",
				Sources: []string{"upserts", "upserts-slow"}, Policy: "default", Worker: plain,
				Effects: &Effects{Kind: Idempotent, Owner: "team-x", Reason: "the consumer upserts"},
			},
		},
		Ledgers: map[string]Ledger{"app": {
			Kind: SQLite, DSN: Secret{kind: "file", name: "secrets/ledger-dsn", dir: dir}, Mode: Write,
			RowWritten: ledger.AtEnqueue, Retention: 90 * day, Table: "deliveries",
			Columns:    map[string]string{"job_key": "delivery_key", "state": "status", "send_before": "send_before"},
			TimeFormat: TextTime, VersionOrder: ByInteger,
		}},
		Providers: map[string]Provider{"mail": {
			Kind: HTTP, BaseURL: "https://mail.example.com",
			Credential:  Secret{kind: "env", name: "MAIL_TOKEN", dir: dir},
			Idempotency: &Idempotency{Header: "Idempotency-Key", MaxBytes: 255, Life: 22 * time.Hour, Scope: ByAccount},
			Lookup: &Lookup{
				Path:     "/messages?op_id={job_key}",
				Found:    "status == 200 && size(body.items) > 0",
				NotFound: "status == 200 && size(body.items) == 0",
				Accepted: `item.status != "rejected"`,
				Delay:    ptr(15 * time.Minute), LookBack: 30 * day,
				Page: &Page{Cursor: "next", Limit: 100},
			},
			Requests: Rate{5, time.Second},
			Proves:   []provider.Proof{provider.ProvesAccepted, provider.ProvesNotAccepted},
		}},
		Policies:   map[string]Policy{"default": {File: filepath.Join(dir, "policy.yaml")}},
		Reconcile:  Reconcile{5 * time.Minute, time.Minute},
		References: References{MaxBytes: 16 << 20},
		Store:      Store{Path: filepath.Join(dir, "store.db"), Named: true},
		Approval:   Approval{Mode: Recorded, Identity: Account, Files: Refuse},
		Audit:      Audit{CustomerKey: Secret{kind: "file", name: "customer.key", dir: dir}},
	})
}

func TestDefault(t *testing.T) {
	t.Parallel()
	want := &Config{
		Queues:     map[string]Queue{},
		Reconcile:  Reconcile{5 * time.Minute, time.Minute},
		References: References{MaxBytes: 16 << 20},
		Store:      Store{Path: "/home/op/.local/state/redrivectl/store.db"},
		Approval:   Approval{Mode: Recorded, Identity: Account, Files: Refuse},
	}
	got, err := Default(home)
	if err != nil {
		t.Fatal(err)
	}
	wantConfig(t, got, want)

	want.File = "/etc/r.yaml"
	for _, empty := range []string{"", "# nothing\n", "{}\n", "queues:\nstore:\nnotify:\n", "---\n"} {
		wantConfig(t, mustLoad(t, empty), want)
	}
}

func TestDefaultStore(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		env  func(string) string
		want string
	}{
		{"state home", env("XDG_STATE_HOME", "/s", "HOME", "/h"), "/s/redrivectl/store.db"},
		{"relative state home is ignored", env("XDG_STATE_HOME", "s", "HOME", "/h"), "/h/.local/state/redrivectl/store.db"},
		{"nothing", env(), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c, err := Default(tt.env)
			if tt.want == "" {
				if err == nil {
					t.Fatalf("no state folder gave %s", c.Store.Path)
				}
				return
			}
			if err != nil || c.Store.Path != tt.want || c.Store.Named {
				t.Errorf("got %+v, %v; want %s, not named", c, err, tt.want)
			}
		})
	}
}

func TestLoadRefusesFile(t *testing.T) {
	t.Parallel()
	if _, err := Load(filepath.Join(t.TempDir(), "none.yaml"), home); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing file: %v", err)
	}
	big := filepath.Join(t.TempDir(), "big.yaml")
	if err := os.WriteFile(big, []byte(strings.Repeat("#\n", maxBytes)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(big, home); err == nil || !strings.Contains(err.Error(), "larger than") {
		t.Errorf("big file: %v", err)
	}
}

func TestPolicyFile(t *testing.T) {
	t.Parallel()
	c := mustLoad(t, "queues: {a: {}, b: {policy: own}}\npolicies: {own: {file: p.yaml}}\n")
	if f := c.PolicyFile("a"); f != "" {
		t.Errorf("queue a: %s; want the shipped policy", f)
	}
	if f := c.PolicyFile("b"); f != "/etc/p.yaml" {
		t.Errorf("queue b: %s", f)
	}
}

func TestErrorfHasThePlace(t *testing.T) {
	t.Parallel()
	c := mustLoad(t, "ledgers:\n  app:\n    path: l.db\n    columns: {job_ky: k}\n")
	for path, want := range map[string]string{
		"ledgers.app.columns.job_ky": "/etc/r.yaml:4:23: no such column",
		"ledgers.app.table":          "/etc/r.yaml:2:3: no such column",
		"store.path":                 "/etc/r.yaml: no such column",
	} {
		if got := c.Errorf(path, "no such %s", "column").Error(); got != want {
			t.Errorf("%s: got %q, want %q", path, got, want)
		}
	}
}

func FuzzLoad(f *testing.F) {
	for _, name := range []string{"testdata/demo.yaml", "testdata/reference.yaml", "init_local.yaml"} {
		b, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	for _, bad := range badFiles {
		f.Add([]byte(bad.text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := parse("/etc/r.yaml", "/etc", data, home)
		var ps Problems
		if err != nil && (!errors.As(err, &ps) || len(ps) == 0 || ps[0].Message == "") {
			t.Fatalf("error without a problem: %v", err)
		}
		if err != nil {
			return
		}
		for name := range c.Queues {
			if _, err := c.SettingsSHA256(name); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestLoadRefusesWhatIsNestedTooDeep(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "redrivectl.yaml")
	if err := os.WriteFile(path, []byte(strings.Repeat("[", 200000)), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Load(path, func(string) string { return "" })
	if err == nil || !strings.Contains(err.Error(), "nested deeper than") {
		t.Error(err)
	}
}
