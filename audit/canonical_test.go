package audit

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gowebpki/jcs"
	"pgregory.net/rapid"
)

func reference(t interface{ Fatal(...any) }, r Record) string {
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	if b, err = jcs.Transform(b); err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func anyRecord(t *rapid.T) Record {
	text := rapid.OneOf(
		rapid.Just(""), rapid.String(),
		rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }),
		rapid.SampledFrom([]string{"\x00\x1f\b\t\n\f\r\"\\/", "<>&\u2028\u2029", "\ufffd\ue000\U0001F600", "a\x80\x81b"}),
	)
	s := func(name string) string { return text.Draw(t, name) }
	r := Record{
		Seq:   rapid.Int64Min(0).Draw(t, "seq"),
		Time:  time.Unix(rapid.Int64Range(0, 4e9).Draw(t, "unix"), rapid.Int64Range(0, 999_999_999).Draw(t, "nanos")).UTC(),
		Store: s("store"), Actor: Person{Name: s("name"), Known: s("known"), Key: s("key")},
		Host: s("host"), ToolVersion: s("tool"), Run: s("run"), Plan: s("plan"), Queue: s("queue"),
		Action: s("action"), Step: s("step"), Phase: Phase(s("phase")), Result: s("result"), Transition: s("transition"),
		Reason: s("reason"), JobKey: s("job"), LedgerRow: s("row"), MessageID: s("message"), CopyID: s("copy"),
		RequestID: s("request"), Customer: s("customer"), Period: s("period"), Region: s("region"),
		SchemaVersion: s("schema"), PayloadSHA256: s("payload"), DeploymentID: s("deployment"),
		EvidenceSHA256: s("evidence"), Previous: s("previous"),
		Details: rapid.MapOf(rapid.String(), text).Draw(t, "details"),
	}
	if rapid.Bool().Draw(t, "has attempt") {
		n := rapid.IntRange(-maxExact, maxExact).Draw(t, "attempt")
		r.Attempt = &n
	}
	return r
}

func TestCanonicalIsRFC8785(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r := anyRecord(t)
		got, err := r.Canonical()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(reference(t, r), string(got)); diff != "" {
			t.Fatalf("not what encoding/json and RFC 8785 give (-want +got):\n%s", diff)
		}
		back, err := Decode(got)
		if err != nil {
			t.Fatal(err)
		}
		again, err := back.Canonical()
		if err != nil || string(again) != string(got) {
			t.Fatalf("decoding loses something: %s, then %s (%v)", got, again, err)
		}
	})
}

// TestCanonicalCoversEveryField fails when a member is added to Record and not
// to its canonical form.
func TestCanonicalCoversEveryField(t *testing.T) {
	t.Parallel()
	n := 7
	r := Record{
		Seq: 1, Time: time.Unix(1, 2).UTC(), Store: "a", Actor: Person{"b", "c", "d"}, Host: "e", ToolVersion: "f",
		Run: "g", Plan: "h", Queue: "i", Action: "j", Step: "k", Phase: "l", Result: "m", Transition: "n", Reason: "o",
		JobKey: "p", LedgerRow: "q", MessageID: "r", CopyID: "s", RequestID: "t", Attempt: &n, Customer: "u", Period: "v",
		Region: "w", SchemaVersion: "x", PayloadSHA256: "y", DeploymentID: "z", EvidenceSHA256: "1",
		Details: map[string]string{"z": "1", "a": "2"}, Previous: "2",
	}
	got, err := r.Canonical()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(reference(t, r), string(got)); diff != "" {
		t.Error(diff)
	}
}

func TestCanonicalRefusesInexactAttempt(t *testing.T) {
	t.Parallel()
	n := maxExact + 1
	if _, err := (Record{Attempt: &n}).Canonical(); err == nil {
		t.Error("an attempt that a double cannot hold was written")
	}
}

func BenchmarkCanonical(b *testing.B) {
	r := chain(b, 1)[0]
	rec, err := Decode(r.Canonical)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := rec.Canonical(); err != nil {
			b.Fatal(err)
		}
	}
}
