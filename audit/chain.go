package audit

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"unicode/utf8"
)

// MaxReason is the longest reason that a record keeps, in bytes. A longer one
// is cut, and ends in an ellipsis.
const MaxReason = 4 << 10

// Genesis is what the first record names as the one before it.
var Genesis = strings.Repeat("0", sha256.Size*2)

// Hash is the lower-case hex SHA-256 of a record's canonical bytes.
func Hash(canonical []byte) string {
	sum := sha256.Sum256(canonical)
	return hex.EncodeToString(sum[:])
}

// Seal is AppendSealed with the canonical bytes by themselves.
func Seal(rec Record, head Head) (canonical []byte, next Head, err error) {
	return AppendSealed(make([]byte, 0, 1024), rec, head)
}

// AppendSealed puts rec behind head in the chain: it fills in Seq, Store and Previous,
// makes the time UTC, cuts an overlong reason, and returns buf with the canonical
// bytes behind what it had, and the new head. A head of sequence 0 is the empty log
// of its store. The error is that of Canonical.
func AppendSealed(buf []byte, rec Record, head Head) (all []byte, next Head, err error) {
	rec.Seq = head.Seq + 1
	rec.Store = head.Store
	rec.Previous = head.Hash
	if head.Seq == 0 {
		rec.Previous = Genesis
	}
	rec.Time = rec.Time.UTC()
	rec.Reason = cut(rec.Reason, MaxReason)
	all, err = rec.appendCanonical(buf)
	if err != nil {
		return buf, Head{}, err
	}
	return all, Head{Store: head.Store, Seq: rec.Seq, Hash: Hash(all[len(buf):])}, nil
}

// cut shortens s to at most limit bytes without splitting a character.
func cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	const ellipsis = "…"
	end := limit - len(ellipsis)
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + ellipsis
}

// CheckpointRecord names a place in the chain inside the chain, on behalf of
// the record that called for it: a run's start or end, or the last of a
// thousand.
func CheckpointRecord(at Head, cause Record) Record {
	return Record{
		Time: cause.Time, Actor: cause.Actor, Host: cause.Host, ToolVersion: cause.ToolVersion,
		Run: cause.Run, Plan: cause.Plan, Queue: cause.Queue,
		Action: ActionCheckpoint, Phase: Outcome, Result: ResultDone,
		Details: map[string]string{DetailSeq: formatSeq(at.Seq), DetailHash: at.Hash},
	}
}
