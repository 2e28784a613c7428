package config

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"time"

	"github.com/gowebpki/jcs"
)

// settingsFormat names the hashed form; it changes when the meaning or the
// default of a setting does.
const settingsFormat = "redrivectl/settings/v1"

// deciding is what decides what a run may do for one queue.
type deciding struct {
	Format     string     `yaml:"format"`
	Name       string     `yaml:"name"`
	Queue      Queue      `yaml:"queue" at:"queues.*"`
	Ledger     *Ledger    `yaml:"ledger" at:"ledgers.*"`
	Provider   *Provider  `yaml:"provider" at:"providers.*"`
	Reconcile  Reconcile  `yaml:"reconcile"`
	References References `yaml:"references"`
	Approval   Approval   `yaml:"approval"`
}

func (c *Config) deciding(queue string) (deciding, error) {
	q, ok := c.Queues[queue]
	if !ok {
		return deciding{}, fmt.Errorf("queue %q is not configured", queue)
	}
	s := deciding{Format: settingsFormat, Name: queue, Queue: q, Reconcile: c.Reconcile, References: c.References, Approval: c.Approval}
	if l, ok := c.Ledgers[q.Ledger]; ok {
		s.Ledger = &l
	}
	if p, ok := c.Providers[q.Provider]; ok {
		s.Provider = &p
	}
	return s, nil
}

// SettingsSHA256 is the digest, in lower-case hex, of every setting that
// decides what a run may do for the queue: the queue itself, its ledger, its
// provider, and the sections reconcile, references and approval. The policy has a digest of
// its own. It is the SHA-256 of the RFC 8785 form of the settings with defaults
// applied, so reformatting, comments, key order and a default written out do
// not change it. Secrets enter by reference. A path inside the file's folder
// enters relative to it, so that colleagues with the same file agree. What is at
// its default is left out, so that a key which a later version adds does not
// change the digest of a file without it.
func (c *Config) SettingsSHA256(queue string) (string, error) {
	s, err := c.deciding(queue)
	if err != nil {
		return "", fmt.Errorf("hash settings: %w", err)
	}
	plain, err := json.Marshal(c.hashed(reflect.ValueOf(s), "", ""))
	if err != nil {
		return "", fmt.Errorf("hash settings of %s: %w", queue, err)
	}
	canonical, err := jcs.Transform(plain)
	if err != nil {
		return "", fmt.Errorf("hash settings of %s: %w", queue, err)
	}
	sum := sha256.Sum256(canonical)
	return hex.EncodeToString(sum[:]), nil
}

// hashed is v as JSON values that hash alike everywhere: no number that a
// double could not hold.
func (c *Config) hashed(v reflect.Value, tag reflect.StructTag, pattern string) any {
	switch x := v.Interface().(type) {
	case time.Duration:
		return FormatDuration(x)
	case Rate:
		return x.String()
	case Secret:
		return x.Reference()
	}
	switch v.Kind() {
	case reflect.Pointer:
		return c.hashed(v.Elem(), tag, pattern)
	case reflect.Struct:
		return c.hashedFields(v, pattern)
	case reflect.Slice:
		out := make([]any, v.Len())
		for i := range out {
			out[i] = c.hashed(v.Index(i), tag, pattern)
		}
		return out
	case reflect.String:
		if tag.Get("format") == "path" {
			return c.portable(v.String())
		}
	}
	return v.Interface()
}

// hashedFields leaves out what is at its default, as listed under pattern.
func (c *Config) hashedFields(v reflect.Value, pattern string) map[string]any {
	fresh := reflect.New(v.Type())
	defaults(fresh.Interface(), pattern)
	out := map[string]any{}
	for i, name := range fieldNames(v.Type()) {
		f, tag := v.Field(i), v.Type().Field(i).Tag
		if name == "" || reflect.DeepEqual(f.Interface(), fresh.Elem().Field(i).Interface()) {
			continue
		}
		under := cmp.Or(tag.Get("at"), place{path: pattern, pattern: pattern}.child(name, name, Position{}).pattern)
		out[name] = c.hashed(f, tag, under)
	}
	return out
}

func (c *Config) portable(path string) string {
	rel, err := filepath.Rel(c.dir, path)
	if err != nil || rel == ".." || strings.HasPrefix(rel, ".."+string(filepath.Separator)) {
		return filepath.ToSlash(path)
	}
	return filepath.ToSlash(rel)
}

// ShippedSettings reports whether the settings that decide for the queue make
// no claim of the user's own, so that they count as approved: worker, reconcile
// and approval at their defaults, no declared effects, no mapping of messages, no
// provider contract, and a ledger of the shipped schema that is said to hold a row for every job.
// Names, paths and maximum ages are no claims.
func (c *Config) ShippedSettings(queue string) bool {
	q, ok := c.Queues[queue]
	if !ok || q.Effects != nil || q.Envelope != nil || q.Provider != "" {
		return false
	}
	var want Config
	defaults(&want, "")
	worker := NewQueue(queue).Worker
	worker.TransportRetries = q.Ledger == ""
	// Expecting the client to repeat requests is the more careful setting.
	careful := worker
	careful.TransportRetries = true
	return c.Reconcile == want.Reconcile && c.Approval == want.Approval &&
		(q.Worker == worker || q.Worker == careful) &&
		(q.Ledger == "" || c.Ledgers[q.Ledger].shipped())
}

// shipped reports whether the ledger is the shipped schema with nothing claimed
// about it. How it is reached and whether it may be written is no claim.
func (l Ledger) shipped() bool {
	var want Ledger
	defaults(&want, "ledgers.*")
	want.Path, want.DSN, want.Mode = l.Path, l.DSN, l.Mode
	return reflect.DeepEqual(l, want)
}
