package job

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redrivectl/redrivectl/internal/broker"
)

// hashVersion begins every canonical form, so that a later form never has the
// bytes of this one.
const hashVersion = "redrivectl message v1"

func hash(j *Job) {
	j.PayloadSHA256 = digest(j.Payload)
	out := j.Outgoing()
	if j.BodySHA256 = j.PayloadSHA256; !bytes.Equal(out.Body, j.Payload) {
		j.BodySHA256 = digest(out.Body)
	}
	j.MessageSHA256 = MessageHash(j.Message)
	if j.Original != nil {
		j.SentSHA256 = digest(canonical(out))
	}
}

// MessageHash is the third of a job's hashes, of a message alone: equal messages
// have it whatever their identity, times and receives.
func MessageHash(m broker.Message) string { return digest(canonical(m)) }

// Outgoing is what a redrive sends: the dead copy as its sender made it, with the
// same body, attributes, order key and raw sections, and of the system attributes
// only the one that a sender may set. What the broker added on dead-lettering
// stays behind. Of a job whose original is wrapped it is the original alone, with
// nothing of its wrapper but the order key. Identity and times are left out.
func (j *Job) Outgoing() broker.Message {
	m := j.Message
	if j.Original != nil {
		return broker.Message{OrderKey: m.OrderKey, Body: j.Original.Body, Attributes: j.Original.Attributes}
	}
	return broker.Message{
		OrderKey: m.OrderKey, Body: m.Body, Attributes: m.Attributes,
		System: sendable(m.System), RawFormat: m.RawFormat, Raw: m.Raw,
	}
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// canonical is the form of a message that MessageSHA256 is taken over: what a
// redrive sends. Every text is preceded by its length as eight bytes, big
// endian, and every list by its count, so that no two messages share a form:
//
//	version, order key, body, n, n × (name, type, value), trace header's count
//	and entries in the same way, raw format, raw
//
// Attributes are sorted by name (a broker may return them in any order);
// those of one name keep their order. Identity, times and receives stay out:
// they differ from copy to copy.
func canonical(m broker.Message) []byte {
	b := appendText(make([]byte, 0, len(m.Body)+len(m.Raw)+512), []byte(hashVersion))
	b = appendText(b, []byte(m.OrderKey))
	b = appendText(b, m.Body)
	b = appendAttributes(b, m.Attributes)
	b = appendAttributes(b, sendable(m.System))
	b = appendText(b, []byte(m.RawFormat))
	return appendText(b, m.Raw)
}

// sendable are the system attributes that a redrive can set.
func sendable(system []broker.Attribute) []broker.Attribute {
	var as []broker.Attribute
	for _, a := range system {
		if a.Name == broker.SystemTraceHeader {
			as = append(as, a)
		}
	}
	return as
}

func appendAttributes(b []byte, as []broker.Attribute) []byte {
	as = slices.Clone(as)
	slices.SortStableFunc(as, func(x, y broker.Attribute) int { return strings.Compare(x.Name, y.Name) })
	b = binary.BigEndian.AppendUint64(b, uint64(len(as)))
	for _, a := range as {
		b = appendText(b, []byte(a.Name))
		b = appendText(b, []byte(a.Type))
		b = appendText(b, a.Value)
	}
	return b
}

func appendText(b, text []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(len(text)))
	return append(b, text...)
}

// unixTime reads Unix seconds, with a fraction or not, or milliseconds.
func unixTime(s string) time.Time {
	n, err := strconv.ParseFloat(s, 64)
	switch {
	case err != nil || n < 1e8 || n > 1e14:
		return time.Time{}
	case n > 1e11:
		return time.UnixMilli(int64(n)).UTC()
	}
	return time.UnixMilli(int64(n * 1000)).UTC()
}
