package redrive

import (
	"github.com/redrivectl/redrivectl/audit"
	"github.com/redrivectl/redrivectl/internal/broker"
)

// outgoing are the copies as new messages, for a broker that cannot restore. The
// deduplication ID is the copy's, so that a repeated publish is one message.
func (im *Importer) outgoing(batch []broker.Message) []broker.Outgoing {
	out := make([]broker.Outgoing, len(batch))
	for i, m := range batch {
		out[i] = broker.Outgoing{Message: m, DedupID: audit.Hash([]byte(ActionImport + "\x00" + m.Copy.String() + "\x00" + m.MessageID))}
	}
	return out
}

// notKept names the fields of a copy that did not come back as they were.
func (im *Importer) notKept(m broker.Message, res broker.Result) []string {
	_, restored := im.Broker.(broker.Restorer)
	lost := func(is bool) bool { return is && !restored }
	var fields []string
	for _, f := range []struct {
		name string
		is   bool
	}{
		{"copy_id", !restored || res.Copy != m.Copy},
		{"message_id", res.NewMessageID != m.MessageID},
		{"origin", lost(m.Origin != "")},
		{"receives", lost(m.Receives > 0)},
		{"sent_at", lost(!m.SentAt.IsZero())},
		{"first_received_at", lost(!m.FirstReceivedAt.IsZero())},
		{"expires_at", !m.ExpiresAt.IsZero() && (!restored || !m.ExpiresAt.After(im.Now()))},
		{"system", lost(hasMarks(m))},
	} {
		if f.is {
			fields = append(fields, f.name)
		}
	}
	return fields
}

// hasMarks: the broker noted something on the copy that no sender can set.
func hasMarks(m broker.Message) bool {
	for _, a := range m.System {
		if a.Name != broker.SystemTraceHeader {
			return true
		}
	}
	return false
}
