package sqsfake

import (
	"crypto/md5"
	"encoding/binary"
	"encoding/hex"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The protocol's limits.
const (
	maxBatchBytes   = 1 << 20
	maxAttributes   = 10
	dedupWindow     = 5 * time.Minute
	longestInterval = 12 * time.Hour
)

type sent struct {
	Id                           string `json:"Id,omitempty"`
	MessageId                    string
	MD5OfMessageBody             string
	MD5OfMessageAttributes       string `json:"MD5OfMessageAttributes,omitempty"`
	MD5OfMessageSystemAttributes string `json:"MD5OfMessageSystemAttributes,omitempty"`
	SequenceNumber               string `json:"SequenceNumber,omitempty"`
}

type failure struct {
	Id          string
	Code        string
	Message     string
	SenderFault bool
}

type batchReply struct {
	Successful []any
	Failed     []failure
}

func sendMessage(s *Server, q *queue, in input) (any, error) {
	out, err := s.send(q, in.entry)
	if err != nil {
		return nil, err
	}
	s.wake()
	return out, nil
}

func sendBatch(s *Server, q *queue, in input) (any, error) {
	total := 0
	for _, e := range in.Entries {
		total += e.bytes()
	}
	if total > maxBatchBytes {
		return nil, badRequest("BatchRequestTooLong", "the batch is longer than "+strconv.Itoa(maxBatchBytes)+" bytes")
	}
	defer s.wake()
	return s.batch("SendMessageBatch", in.Entries, func(e entry) (any, error) { return s.send(q, e) })
}

// batch applies entries one by one, each with its own result.
func (s *Server) batch(action string, es []entry, do func(entry) (any, error)) (any, error) {
	ids := map[string]bool{}
	for _, e := range es {
		if ids[e.Id] {
			return nil, badRequest("BatchEntryIdsNotDistinct", "entry IDs repeat")
		}
		ids[e.Id] = true
	}
	if len(es) == 0 || len(es) > 10 {
		return nil, badRequest("TooManyEntriesInBatchRequest", "a batch has 1 to 10 entries")
	}
	out := batchReply{Successful: []any{}, Failed: []failure{}}
	for _, e := range es {
		if code := s.entryFault(action); code != "" {
			out.Failed = append(out.Failed, failure{Id: e.Id, Code: code, Message: "on demand", SenderFault: code != "InternalFailure"})
			continue
		}
		one, err := do(e)
		if f, ok := err.(*apiError); ok { //nolint:errorlint // Made here, never wrapped.
			out.Failed = append(out.Failed, failure{Id: e.Id, Code: f.code, Message: f.message, SenderFault: true})
			continue
		}
		out.Successful = append(out.Successful, one)
	}
	return out, nil
}

func (e entry) bytes() int {
	n := len(e.MessageBody)
	for name, a := range e.MessageAttributes {
		n += len(name) + len(a.DataType) + len(a.value())
	}
	return n
}

func (a Attribute) value() []byte {
	if a.StringValue != nil {
		return []byte(*a.StringValue)
	}
	return a.BinaryValue
}

func (s *Server) send(q *queue, e entry) (any, error) {
	if err := q.refuses(e); err != nil {
		return nil, err
	}
	m := &item{at: -1, Message: Message{
		ID: s.newID(), Body: e.MessageBody, Attributes: e.MessageAttributes, GroupID: e.MessageGroupId,
		DedupID: e.MessageDeduplicationId, SentAt: s.now(),
	}}
	if t, ok := e.MessageSystemAttributes["AWSTraceHeader"]; ok {
		m.TraceHeader = string(t.value())
	}
	if q.fifo && m.DedupID == "" {
		m.DedupID = checksum(e.MessageBody)
	}
	if seen, ok := q.dedup[m.DedupID]; q.fifo && ok && s.now().Before(seen.until) {
		m.ID = seen.id // accepted, and not delivered
		return s.accepted(q, e, m), nil
	}
	if q.fifo {
		if len(q.dedup)%10_000 == 9_999 {
			maps.DeleteFunc(q.dedup, func(_ string, r remembered) bool { return !s.now().Before(r.until) })
		}
		q.dedup[m.DedupID] = remembered{m.ID, s.now().Add(dedupWindow)}
	}
	if e.DelaySeconds != nil && *e.DelaySeconds > 0 {
		m.delayed, m.visibleAt = true, s.now().Add(time.Duration(*e.DelaySeconds)*time.Second)
	}
	q.put(m)
	return s.accepted(q, e, m), nil
}

// refuses is why the service would not take a message, or nil.
func (q *queue) refuses(e entry) error {
	switch {
	case e.bytes() > q.number("MaximumMessageSize"):
		return badRequest("InvalidParameterValue", "one or more parameters are invalid: message must be shorter than "+q.attrs["MaximumMessageSize"]+" bytes")
	case e.MessageBody == "":
		return badRequest("MissingParameter", "the message has no body")
	case len(e.MessageAttributes) > maxAttributes:
		return badRequest("InvalidParameterValue", "a message has at most 10 attributes")
	case strings.ContainsFunc(e.MessageBody, refusedRune):
		return badRequest("InvalidMessageContents", "the body has characters that are not allowed")
	case !validID(e.MessageGroupId) || !validID(e.MessageDeduplicationId):
		return badRequest("InvalidParameterValue", "group and deduplication IDs are up to 128 letters, digits and punctuation")
	case q.fifo && e.MessageGroupId == "":
		return badRequest("MissingParameter", "the request must contain MessageGroupId")
	case q.fifo && e.MessageDeduplicationId == "" && q.attrs["ContentBasedDeduplication"] != "true":
		return badRequest("InvalidParameterValue", "the queue needs a MessageDeduplicationId")
	case q.fifo && e.DelaySeconds != nil && *e.DelaySeconds > 0:
		return badRequest("InvalidParameterValue", "a FIFO queue has no delay per message")
	}
	return nil
}

// refusedRune: only #x9 #xA #xD #x20-#xD7FF #xE000-#xFFFD #x10000-#x10FFFF may be
// in a body.
func refusedRune(r rune) bool {
	return r < 0x20 && r != '\t' && r != '\n' && r != '\r' || r == 0xFFFE || r == 0xFFFF
}

// validID: a group or deduplication ID is printable ASCII without spaces, or
// missing.
func validID(id string) bool {
	return len(id) <= 128 && !strings.ContainsFunc(id, func(r rune) bool { return r <= ' ' || r > '~' })
}

func (s *Server) accepted(q *queue, e entry, m *item) sent {
	out := sent{Id: e.Id, MessageId: m.ID, MD5OfMessageBody: checksum(e.MessageBody)}
	if len(e.MessageAttributes) > 0 {
		out.MD5OfMessageAttributes = attributesSum(e.MessageAttributes)
	}
	if len(e.MessageSystemAttributes) > 0 {
		out.MD5OfMessageSystemAttributes = attributesSum(e.MessageSystemAttributes)
	}
	if q.fifo {
		out.SequenceNumber = sequence(m.seq)
	}
	return out
}

func sequence(n uint64) string { return "18800000000" + strconv.FormatUint(1_000_000_000+n, 10) }

func checksum(body string) string {
	sum := md5.Sum([]byte(body))
	return hex.EncodeToString(sum[:])
}

// attributesSum is the checksum of attributes as the developer guide describes
// it: by name, each name, type and value with its length before it.
func attributesSum(as map[string]Attribute) string {
	h := md5.New()
	write := func(b []byte) {
		h.Write(binary.BigEndian.AppendUint32(nil, uint32(len(b))))
		h.Write(b)
	}
	for _, name := range slices.Sorted(maps.Keys(as)) {
		a := as[name]
		write([]byte(name))
		write([]byte(a.DataType))
		kind := byte(1)
		if strings.HasPrefix(a.DataType, "Binary") {
			kind = 2
		}
		h.Write([]byte{kind})
		write(a.value())
	}
	return hex.EncodeToString(h.Sum(nil))
}
