package audit

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/gowebpki/jcs"
)

// maxExact bounds the integers that an RFC 8785 number holds exactly.
const maxExact = 1 << 53

// Canonical is the record's RFC 8785 form: what is hashed, stored and exported.
// It equals the canonicalised output of encoding/json, written in one pass. The
// only error is an attempt that a double cannot hold.
func (r Record) Canonical() ([]byte, error) { return r.appendCanonical(make([]byte, 0, 1024)) }

func (r *Record) appendCanonical(buf []byte) ([]byte, error) {
	w := &canonicalWriter{buf}
	w.open()
	w.text("action", r.Action)
	w.key("actor")
	w.person(r.Actor)
	if err := w.attempt(r.Attempt); err != nil {
		return nil, err
	}
	w.optional("copy_id", r.CopyID)
	w.optional("customer", r.Customer)
	w.optional("deployment_id", r.DeploymentID)
	w.details(r.Details)
	w.optional("evidence_sha256", r.EvidenceSHA256)
	w.optional("host", r.Host)
	w.optional("job_key", r.JobKey)
	w.optional("ledger_row", r.LedgerRow)
	w.optional("message_id", r.MessageID)
	w.optional("payload_sha256", r.PayloadSHA256)
	w.optional("period", r.Period)
	w.text("phase", string(r.Phase))
	w.optional("plan", r.Plan)
	w.text("previous", r.Previous)
	w.optional("queue", r.Queue)
	w.optional("reason", r.Reason)
	w.optional("region", r.Region)
	w.optional("request_id", r.RequestID)
	w.optional("result", r.Result)
	w.optional("run", r.Run)
	w.optional("schema_version", r.SchemaVersion)
	w.key("seq")
	w.buf = append(strconv.AppendInt(append(w.buf, '"'), r.Seq, 10), '"')
	w.optional("step", r.Step)
	w.text("store", r.Store)
	w.key("time")
	w.buf = append(r.Time.UTC().AppendFormat(append(w.buf, '"'), time.RFC3339Nano), '"')
	w.optional("tool_version", r.ToolVersion)
	w.optional("transition", r.Transition)
	w.shut()
	return w.buf, nil
}

// Decode reads a record's canonical bytes. Members that this version does not
// know are ignored: they are covered by the hash all the same.
func Decode(canonical []byte) (Record, error) {
	var r Record
	if err := json.Unmarshal(canonical, &r); err != nil {
		return Record{}, fmt.Errorf("decode audit record: %w", err)
	}
	return r, nil
}

// canonicalWriter writes members in the order in which they are given, which
// the caller keeps sorted by UTF-16 code units.
type canonicalWriter struct{ buf []byte }

func (w *canonicalWriter) open() { w.buf = append(w.buf, '{') }
func (w *canonicalWriter) shut() { w.buf = append(w.buf, '}') }

func (w *canonicalWriter) key(name string) {
	if w.buf[len(w.buf)-1] != '{' {
		w.buf = append(w.buf, ',')
	}
	w.buf = append(appendString(w.buf, name), ':')
}

func (w *canonicalWriter) text(name, value string) {
	w.key(name)
	w.buf = appendString(w.buf, value)
}

func (w *canonicalWriter) optional(name, value string) {
	if value != "" {
		w.text(name, value)
	}
}

func (w *canonicalWriter) person(p Person) {
	w.open()
	w.optional("key", p.Key)
	w.text("known", p.Known)
	w.text("name", p.Name)
	w.shut()
}

func (w *canonicalWriter) attempt(n *int) error {
	if n == nil {
		return nil
	}
	if int64(*n) > maxExact || int64(*n) < -maxExact {
		return fmt.Errorf("attempt %d of an audit record: not exact in JSON", *n)
	}
	w.key("attempt")
	w.buf = strconv.AppendInt(w.buf, int64(*n), 10)
	return nil
}

func (w *canonicalWriter) details(d map[string]string) {
	if len(d) == 0 {
		return
	}
	names := slices.AppendSeq(make([]string, 0, 16), maps.Keys(d))
	slices.SortFunc(names, compareUTF16)
	w.key("details")
	w.open()
	for _, name := range names {
		w.text(name, d[name])
	}
	w.shut()
}

// compareUTF16 orders strings as RFC 8785 sorts members: by UTF-16 code units,
// which differs from byte order above U+FFFF.
func compareUTF16(a, b string) int {
	if isASCII(a) && isASCII(b) {
		return strings.Compare(a, b)
	}
	return slices.Compare(utf16.Encode([]rune(a)), utf16.Encode([]rune(b)))
}

const hexDigits = "0123456789abcdef"

// appendString writes a JSON string with RFC 8785's escapes. Bytes that are not
// UTF-8 become U+FFFD, as encoding/json writes them.
func appendString(buf []byte, s string) []byte {
	if !utf8.ValidString(s) {
		s = validUTF8(s)
	}
	buf = append(buf, '"')
	done := 0
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' {
			buf = appendEscape(append(buf, s[done:i]...), c)
			done = i + 1
		}
	}
	return append(append(buf, s[done:]...), '"')
}

func appendEscape(buf []byte, c byte) []byte {
	if c == '"' || c == '\\' {
		return append(buf, '\\', c)
	}
	if i := strings.IndexByte("\b\t\n\f\r", c); i >= 0 {
		return append(buf, '\\', "btnfr"[i])
	}
	return append(buf, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// validUTF8 replaces every byte that is not part of UTF-8; unlike
// strings.ToValidUTF8 it does not join a run of them into one.
func validUTF8(s string) string { return string([]rune(s)) }

// CanonicalJSON is any value as RFC 8785 JSON, as what is hashed or approved is
// written. A Record has a faster way to the same form.
func CanonicalJSON(v any) ([]byte, error) {
	plain, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return jcs.Transform(plain)
}
