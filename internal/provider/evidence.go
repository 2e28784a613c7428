package provider

import (
	"crypto/sha256"
	"encoding/hex"
	"time"
)

// Hashed is how a value that may be personal appears in evidence: it can be
// checked against a known value, and not read.
func Hashed(v string) string {
	if v == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(v))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// OffsetFromDate is the provider's clock minus ours, as the Date header of an
// answer tells it. The header has whole seconds and stands for some moment
// between sent and received, so the smallest offset that explains it is taken.
func OffsetFromDate(date, sent, received time.Time) time.Duration {
	switch {
	case date.IsZero():
		return 0
	case date.After(received):
		return date.Sub(received)
	case date.Add(time.Second).Before(sent):
		return date.Add(time.Second).Sub(sent)
	default:
		return 0
	}
}
