package sqsfake

import (
	"container/heap"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"
)

// Message is one copy as the server holds it, for Seed and as the oracle shows
// it.
type Message struct {
	ID           string
	Body         string
	Attributes   map[string]Attribute
	TraceHeader  string
	GroupID      string
	DedupID      string
	Source       string // ARN of the queue that it was dead-lettered from
	Receives     int
	SentAt       time.Time
	FirstReceive time.Time
}

// Attribute is a message attribute in the protocol's own form.
type Attribute struct {
	DataType    string  `json:"DataType"`
	StringValue *string `json:"StringValue,omitempty"`
	BinaryValue []byte  `json:"BinaryValue,omitempty"`
}

// item is a message in a queue.
type item struct {
	Message
	seq       uint64
	visibleAt time.Time // zero: visible
	delayed   bool
	receipt   string // of the newest delivery
	at        int    // in queue.hidden, or -1
	gone      bool
}

// queue keeps its visible messages in order and the hidden ones by when they
// come back.
type queue struct {
	name    string
	attrs   map[string]string
	fifo    bool
	ready   []*item // in order; may hold items that are gone or hidden
	head    int
	hidden  hidden
	byID    map[string]*item
	locked  map[string]int // copies in flight by group
	dedup   map[string]remembered
	asked   map[string][]*item // what a receive's attempt ID was given
	seq     uint64
	receipt uint64
}

type remembered struct {
	id    string
	until time.Time
}

type hidden []*item

func (h hidden) Len() int           { return len(h) }
func (h hidden) Less(i, j int) bool { return h[i].visibleAt.Before(h[j].visibleAt) }
func (h hidden) Swap(i, j int)      { h[i], h[j] = h[j], h[i]; h[i].at, h[j].at = i, j }
func (h *hidden) Push(x any)        { m := x.(*item); m.at = len(*h); *h = append(*h, m) }
func (h *hidden) Pop() any {
	old := *h
	m := old[len(old)-1]
	*h, m.at = old[:len(old)-1], -1
	return m
}

// ARN is a queue's name in full.
func ARN(name string) string { return "arn:aws:sqs:" + Region + ":" + Account + ":" + name }

// URL is a queue's address at a server that listens at base.
func URL(base, name string) string { return base + "/" + Account + "/" + name }

// CreateQueue makes a queue with SQS's own attribute names. Names that end in
// .fifo are FIFO queues.
func (s *Server) CreateQueue(name string, attrs map[string]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := &queue{
		name: name, fifo: strings.HasSuffix(name, ".fifo"), byID: map[string]*item{}, locked: map[string]int{}, dedup: map[string]remembered{}, asked: map[string][]*item{},
		attrs: map[string]string{
			"VisibilityTimeout": "30", "MessageRetentionPeriod": "345600", "MaximumMessageSize": "1048576", "DelaySeconds": "0",
			"ReceiveMessageWaitTimeSeconds": "0", "QueueArn": ARN(name), "CreatedTimestamp": "1700000000", "SqsManagedSseEnabled": "true",
		},
	}
	if q.fifo {
		maps.Copy(q.attrs, map[string]string{"FifoQueue": "true", "ContentBasedDeduplication": "false", "DeduplicationScope": "queue"})
	}
	maps.Copy(q.attrs, attrs)
	s.byID[name] = q
}

// DeadLetter is the RedrivePolicy that names a dead-letter queue.
func DeadLetter(name string, maxReceives int) string {
	return fmt.Sprintf(`{"deadLetterTargetArn":%q,"maxReceiveCount":%d}`, ARN(name), maxReceives)
}

// Seed puts messages into a queue as they are; an empty ID is made up, a zero
// SentAt is now.
func (s *Server) Seed(name string, ms ...Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range ms {
		if m.ID == "" {
			m.ID = s.newID()
		}
		if m.SentAt.IsZero() {
			m.SentAt = s.now()
		}
		s.byID[name].put(&item{Message: m, at: -1})
	}
	s.wake()
}

// Messages is all that a queue holds, hidden or not, in order of arrival.
func (s *Server) Messages(name string) []Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.byID[name]
	all := map[uint64]*item{}
	for _, m := range q.byID {
		all[m.seq] = m
	}
	ms := make([]Message, 0, len(all))
	for seq := uint64(1); seq <= q.seq; seq++ {
		if m := all[seq]; m != nil {
			ms = append(ms, m.Message)
		}
	}
	return ms
}

// Depth counts the visible, leased and delayed copies of a queue, exactly.
func (s *Server) Depth(name string) (visible, inFlight, delayed int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.byID[name]
	q.ripen(s.now())
	return q.depth()
}

func (q *queue) depth() (visible, inFlight, delayed int) {
	for _, m := range q.hidden {
		if m.delayed {
			delayed++
		}
	}
	inFlight = len(q.hidden) - delayed
	return len(q.byID) - len(q.hidden), inFlight, delayed
}

func (s *Server) newID() string {
	s.serial++
	return fmt.Sprintf("%08x-0000-4000-8000-%012x", s.serial, s.serial)
}

// wake lets long polls look again. The caller holds the lock.
func (s *Server) wake() {
	close(s.woken)
	s.woken = make(chan struct{})
}

func (q *queue) put(m *item) {
	q.seq++
	m.seq = q.seq
	q.byID[m.ID] = m
	if !m.visibleAt.IsZero() {
		heap.Push(&q.hidden, m)
		return
	}
	q.ready = append(q.ready, m)
}

// ripen brings back what is visible again by now. A FIFO queue keeps its order.
func (q *queue) ripen(now time.Time) {
	for len(q.hidden) > 0 && !q.hidden[0].visibleAt.After(now) {
		q.reveal(heap.Pop(&q.hidden).(*item))
	}
}

// reveal makes an item that is not in hidden visible.
func (q *queue) reveal(m *item) {
	if !m.delayed && q.fifo {
		q.unlock(m.GroupID)
	}
	m.visibleAt, m.delayed = time.Time{}, false
	if !q.fifo {
		q.ready = append(q.ready, m)
		return
	}
	i := len(q.ready)
	q.ready = append(q.ready, m)
	for ; i > q.head && q.ready[i-1].seq > m.seq; i-- {
		q.ready[i] = q.ready[i-1]
	}
	q.ready[i] = m
}

func (q *queue) unlock(group string) {
	if q.locked[group]--; q.locked[group] <= 0 {
		delete(q.locked, group)
	}
}

// hide leases an item until then under a new receipt.
func (q *queue) hide(m *item, until time.Time) {
	q.receipt++
	m.receipt = m.ID + "#" + strconv.FormatUint(q.receipt, 10)
	m.visibleAt = until
	heap.Push(&q.hidden, m)
	if q.fifo {
		q.locked[m.GroupID]++
	}
}

// held is the item of a receipt that is its newest, in flight.
func (q *queue) held(receipt string) *item {
	id, _, _ := strings.Cut(receipt, "#")
	m := q.byID[id]
	if m == nil || m.receipt != receipt || m.at < 0 || m.delayed {
		return nil
	}
	return m
}

// extend sets the end of a lease; zero gives the item back at once.
func (q *queue) extend(m *item, now time.Time, lease time.Duration) {
	heap.Remove(&q.hidden, m.at)
	if lease == 0 {
		q.reveal(m)
		return
	}
	m.visibleAt = now.Add(lease)
	heap.Push(&q.hidden, m)
}

func (q *queue) remove(m *item) {
	if m.at >= 0 {
		heap.Remove(&q.hidden, m.at)
		if q.fifo && !m.delayed {
			q.unlock(m.GroupID)
		}
	}
	m.gone = true
	delete(q.byID, m.ID)
}

func (q *queue) number(name string) int {
	n, err := strconv.Atoi(q.attrs[name])
	if err != nil {
		return 0
	}
	return n
}
