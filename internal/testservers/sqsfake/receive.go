package sqsfake

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"
)

type received struct {
	MessageId              string
	ReceiptHandle          string
	MD5OfBody              string
	Body                   string
	Attributes             map[string]string    `json:"Attributes,omitempty"`
	MD5OfMessageAttributes string               `json:"MD5OfMessageAttributes,omitempty"`
	MessageAttributes      map[string]Attribute `json:"MessageAttributes,omitempty"`
}

// receiveMessage gives up to ten messages; a long poll waits for the first.
func receiveMessage(s *Server, r *http.Request, body []byte) (any, error) {
	in, err := parse(body)
	if err != nil {
		return nil, err
	}
	wait := time.Duration(0)
	if in.WaitTimeSeconds != nil {
		wait = time.Duration(*in.WaitTimeSeconds) * time.Second
		if s.o.LongestWait > 0 {
			wait = min(wait, s.o.LongestWait)
		}
	}
	deadline := time.Now().Add(wait)
	for {
		got, woken, err := s.receiveNow(r, in)
		if err != nil || len(got) > 0 || s.o.Now != nil || !time.Now().Before(deadline) {
			return map[string]any{"Messages": got}, err
		}
		soon := min(time.Until(deadline), 50*time.Millisecond) // a lease may end meanwhile
		select {
		case <-woken:
		case <-time.After(soon):
		case <-r.Context().Done():
			return nil, badRequest("Cancelled", "the caller went away")
		}
	}
}

func (s *Server) receiveNow(r *http.Request, in input) ([]received, <-chan struct{}, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.base(r)
	q, err := s.queueAt(in.QueueUrl)
	if err != nil {
		return nil, nil, err
	}
	n := 1
	if in.MaxNumberOfMessages != nil {
		n = *in.MaxNumberOfMessages
	}
	if n < 1 || n > 10 {
		return nil, nil, badRequest("InvalidParameterValue", "MaxNumberOfMessages is 1 to 10")
	}
	q.ripen(s.now())
	if len(q.hidden)+n > s.o.MaxInFlight {
		if q.fifo {
			return []received{}, s.woken, nil
		}
		return nil, nil, badRequest("OverLimit", "too many messages are in flight")
	}
	if s.fewer != nil {
		n = min(n, s.fewer(s.counts["ReceiveMessage"]-1))
	}
	lease := time.Duration(q.number("VisibilityTimeout")) * time.Second
	if in.VisibilityTimeout != nil && *in.VisibilityTimeout > 0 {
		lease = time.Duration(*in.VisibilityTimeout) * time.Second
	}
	out := []received{}
	got := q.again(in.ReceiveRequestAttemptId)
	if got == nil {
		got = s.take(q, n)
	}
	if q.fifo && in.ReceiveRequestAttemptId != "" {
		if len(q.asked) > 1000 { // those whose answer arrived are not asked for again
			clear(q.asked)
		}
		q.asked[in.ReceiveRequestAttemptId] = got
	}
	for _, m := range got {
		m.Receives++
		if m.FirstReceive.IsZero() {
			m.FirstReceive = s.now()
		}
		q.hide(m, s.now().Add(lease))
		out = append(out, m.shown(q, in))
	}
	return out, s.woken, nil
}

// Hide leases up to n messages of a queue as another consumer would.
func (s *Server) Hide(name string, n int, lease time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.byID[name]
	q.ripen(s.now())
	for _, m := range s.take(q, n) {
		m.Receives++
		q.hide(m, s.now().Add(lease))
	}
}

// GiveUp lets the consumers of a queue fail: its visible messages are received
// as often as its policy allows, which moves them to its dead-letter queue.
func (s *Server) GiveUp(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.byID[name]
	q.ripen(s.now())
	_, most := q.deadLetter()
	for _, m := range q.ready[q.head:] {
		m.Receives = max(m.Receives, most)
	}
	s.take(q, len(q.ready))
}

// again is what an attempt was given before, taken back to be given once more:
// as long as nothing of it was deleted or changed.
func (q *queue) again(attempt string) []*item {
	got := q.asked[attempt]
	for _, m := range got {
		if m.gone || m.at < 0 {
			return nil
		}
	}
	for _, m := range got {
		q.extend(m, time.Time{}, 0)
		i := slices.Index(q.ready, m)
		q.ready = slices.Delete(q.ready, i, i+1)
	}
	return got
}

// take removes up to n visible items from the queue's order: of a FIFO group
// that is in flight none, and of the others the first ones in order. One that
// was received too often moves on to the dead-letter queue instead.
func (s *Server) take(q *queue, n int) []*item {
	var got []*item
	taken := map[string]bool{} // groups that this receive began
	for i := q.head; i < len(q.ready) && len(got) < n; {
		m := q.ready[i]
		if m.gone {
			i = q.drop(i)
			continue
		}
		if q.fifo && q.locked[m.GroupID] > 0 && !taken[m.GroupID] {
			i++
			continue
		}
		i = q.drop(i)
		if s.moves(q, m) {
			continue
		}
		taken[m.GroupID] = true
		got = append(got, m)
	}
	return got
}

// drop takes position i out of the order and returns what is there now.
func (q *queue) drop(i int) int {
	if i == q.head {
		q.ready[i] = nil
		q.head++
		if q.head > 1024 && q.head*2 > len(q.ready) {
			q.ready, q.head = slices.Clone(q.ready[q.head:]), 0
		}
		return q.head
	}
	q.ready = slices.Delete(q.ready, i, i+1)
	return i
}

// moves dead-letters an item that was received as often as the policy allows.
func (s *Server) moves(q *queue, m *item) bool {
	name, most := q.deadLetter()
	to := s.byID[name]
	if to == nil || m.Receives < most {
		return false
	}
	q.remove(m)
	dead := m.Message
	dead.Source = ARN(q.name)
	if q.fifo {
		dead.DedupID, dead.SentAt = dead.ID, s.now()
	}
	to.put(&item{Message: dead, at: -1})
	return true
}

func (m *item) shown(q *queue, in input) received {
	out := received{MessageId: m.ID, ReceiptHandle: m.receipt, MD5OfBody: checksum(m.Body), Body: m.Body}
	system := map[string]string{
		"SenderId": "AIDAEXAMPLE", "SentTimestamp": millis(m.SentAt), "ApproximateReceiveCount": strconv.Itoa(m.Receives),
		"ApproximateFirstReceiveTimestamp": millis(m.FirstReceive),
		"DeadLetterQueueSourceArn":         m.Source, "AWSTraceHeader": m.TraceHeader, "MessageGroupId": m.GroupID,
	}
	if q.fifo {
		system["MessageDeduplicationId"], system["SequenceNumber"] = m.DedupID, sequence(m.seq)
	}
	asked := slices.Concat(in.MessageSystemAttributeNames, in.AttributeNames)
	maps.DeleteFunc(system, func(name, v string) bool {
		return v == "" || !slices.Contains(asked, "All") && !slices.Contains(asked, name)
	})
	out.Attributes = system
	if slices.Contains(in.MessageAttributeNames, "All") && len(m.Attributes) > 0 {
		out.MessageAttributes, out.MD5OfMessageAttributes = m.Attributes, attributesSum(m.Attributes)
	}
	return out
}

func millis(t time.Time) string { return strconv.FormatInt(t.UnixMilli(), 10) }

func deleteMessage(_ *Server, q *queue, in input) (any, error) {
	return nil, errorOrNil(q.delete(in.entry))
}

func deleteBatch(s *Server, q *queue, in input) (any, error) {
	defer s.wake()
	return s.batch("DeleteMessageBatch", in.Entries, func(e entry) (any, error) {
		return map[string]string{"Id": e.Id}, errorOrNil(q.delete(e))
	})
}

// delete takes a held message away. An old receipt succeeds without deleting, as
// the service's own does.
func (q *queue) delete(e entry) *apiError {
	if e.ReceiptHandle == "" {
		return badRequest("ReceiptHandleIsInvalid", "the receipt handle is not valid")
	}
	if m := q.held(e.ReceiptHandle); m != nil {
		q.remove(m)
	}
	return nil
}

func changeVisibility(s *Server, q *queue, in input) (any, error) {
	defer s.wake()
	return nil, errorOrNil(s.change(q, in.entry))
}

func changeVisibilityBatch(s *Server, q *queue, in input) (any, error) {
	defer s.wake()
	return s.batch("ChangeMessageVisibilityBatch", in.Entries, func(e entry) (any, error) {
		return map[string]string{"Id": e.Id}, errorOrNil(s.change(q, e))
	})
}

func (s *Server) change(q *queue, e entry) *apiError {
	m := q.held(e.ReceiptHandle)
	switch {
	case m == nil:
		return badRequest("MessageNotInflight", "the message is not in flight")
	case e.VisibilityTimeout == nil || *e.VisibilityTimeout < 0:
		return badRequest("MissingParameter", "VisibilityTimeout is needed")
	case time.Duration(*e.VisibilityTimeout)*time.Second > longestInterval:
		return badRequest("InvalidParameterValue", "VisibilityTimeout is at most 43200")
	}
	q.extend(m, s.now(), time.Duration(*e.VisibilityTimeout)*time.Second)
	return nil
}

// errorOrNil keeps a nil *apiError from becoming an error that is not nil.
func errorOrNil(e *apiError) error {
	if e == nil {
		return nil
	}
	return e
}
