package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSecretResolve(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{"unix": "s3cret\n", "dos": "s3cret\r\n", "bare": "s3cret", "two": "s3cret\n\n", "empty": "\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for ref, want := range map[string]string{
		"env:TOKEN": "s3cret", "file:unix": "s3cret", "file:dos": "s3cret", "file:bare": "s3cret", "file:two": "s3cret\n",
		"file:" + filepath.Join(dir, "unix"): "s3cret",
		"file:empty":                         "", "file:none": "", "env:OTHER": "",
	} {
		t.Run(ref, func(t *testing.T) {
			t.Parallel()
			s, err := ParseSecret(ref, dir)
			if err != nil {
				t.Fatal(err)
			}
			got, err := s.Resolve(env("TOKEN", "s3cret"))
			if got != want || (err == nil) != (want != "") {
				t.Errorf("got %q, %v; want %q", got, err, want)
			}
			if err != nil && !strings.Contains(err.Error(), ref) {
				t.Errorf("%q does not name the reference", err)
			}
		})
	}
	if _, err := (Secret{}).Resolve(env()); err == nil {
		t.Error("an unset secret resolved")
	}
}

func TestSecretIsMaskedInEveryForm(t *testing.T) {
	t.Parallel()
	s, err := ParseSecret("env:MAIL_TOKEN", "/etc")
	if err != nil {
		t.Fatal(err)
	}
	c := Config{Providers: map[string]Provider{"m": {Credential: s}}}
	var out bytes.Buffer
	slog.New(slog.NewJSONHandler(&out, nil)).Info("x", "secret", s)
	if err := json.NewEncoder(&out).Encode(c); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(&out, "%v %+v %#v %s %q", s, c, s, s, s)
	if strings.Contains(out.String(), "MAIL_TOKEN") || !strings.Contains(out.String(), mask) {
		t.Errorf("not masked: %s", out.String())
	}
	if s.Reference() != "env:MAIL_TOKEN" {
		t.Errorf("reference: %s", s.Reference())
	}
	if (Secret{}).String() != "" || (Secret{}).Reference() != "" {
		t.Error("an unset secret prints something")
	}
}

func TestParseSecretRefuses(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "hunter2", "env:", "file:", "env:9A", "env:A B", "ENV:A", "file:a\nb", "postgres://u:p@h/d"} {
		if s, err := ParseSecret(text, ""); err == nil {
			t.Errorf("%q was read as %s", text, s.Reference())
		}
	}
}
