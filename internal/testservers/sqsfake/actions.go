package sqsfake

import (
	"encoding/json"
	"maps"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
)

// input is the members of all requests that this server reads.
type input struct {
	entry
	QueueUrl            string
	QueueName           string
	QueueNamePrefix     string
	AttributeNames      []string
	MaxNumberOfMessages *int
	WaitTimeSeconds     *int
	Entries             []entry
	SourceArn           string
	Attributes          map[string]string

	MessageAttributeNames       []string
	MessageSystemAttributeNames []string
	ReceiveRequestAttemptId     string
}

// entry is one member of a batch, and the same as the only one.
type entry struct {
	Id                      string
	MessageBody             string
	DelaySeconds            *int
	MessageAttributes       map[string]Attribute
	MessageSystemAttributes map[string]Attribute
	MessageGroupId          string
	MessageDeduplicationId  string
	ReceiptHandle           string
	VisibilityTimeout       *int
}

type action func(s *Server, r *http.Request, body []byte) (any, error)

// actions is the server's whole interface.
var actions = map[string]action{
	"GetQueueUrl":                  onName(getQueueURL),
	"CreateQueue":                  onName(createQueue),
	"ListQueues":                   onName(listQueues),
	"GetQueueAttributes":           onQueue(getQueueAttributes),
	"SetQueueAttributes":           onQueue(setQueueAttributes),
	"ListDeadLetterSourceQueues":   onQueue(listSources),
	"SendMessage":                  onQueue(sendMessage),
	"SendMessageBatch":             onQueue(sendBatch),
	"DeleteMessage":                onQueue(deleteMessage),
	"DeleteMessageBatch":           onQueue(deleteBatch),
	"ChangeMessageVisibility":      onQueue(changeVisibility),
	"ChangeMessageVisibilityBatch": onQueue(changeVisibilityBatch),
	"ListMessageMoveTasks":         onName(listMoveTasks),
	"ReceiveMessage":               receiveMessage,
}

// onName is an action that names no queue by its URL.
func onName(f func(s *Server, in input) (any, error)) action {
	return func(s *Server, r *http.Request, body []byte) (any, error) {
		in, err := parse(body)
		if err != nil {
			return nil, err
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.base(r)
		return f(s, in)
	}
}

// onQueue is an action on one queue.
func onQueue(f func(s *Server, q *queue, in input) (any, error)) action {
	return onName(func(s *Server, in input) (any, error) {
		q, err := s.queueAt(in.QueueUrl)
		if err != nil {
			return nil, err
		}
		q.ripen(s.now())
		return f(s, q, in)
	})
}

func parse(body []byte) (input, error) {
	var in input
	if err := json.Unmarshal(body, &in); err != nil {
		return in, badRequest("SerializationException", err.Error())
	}
	return in, nil
}

// base remembers by which address the server is reached. The caller holds the
// lock.
func (s *Server) base(r *http.Request) { s.url = "http://" + r.Host }

func (s *Server) queueAt(url string) (*queue, error) {
	q := s.byID[path.Base(url)]
	if q == nil {
		return nil, noQueue(url)
	}
	return q, nil
}

func getQueueURL(s *Server, in input) (any, error) {
	if s.byID[in.QueueName] == nil {
		return nil, noQueue(in.QueueName)
	}
	return map[string]string{"QueueUrl": URL(s.url, in.QueueName)}, nil
}

func createQueue(s *Server, in input) (any, error) {
	if s.byID[in.QueueName] == nil {
		s.mu.Unlock()
		s.CreateQueue(in.QueueName, in.Attributes)
		s.mu.Lock()
	}
	return map[string]string{"QueueUrl": URL(s.url, in.QueueName)}, nil
}

func listQueues(s *Server, in input) (any, error) {
	urls := []string{}
	for _, name := range slices.Sorted(maps.Keys(s.byID)) {
		if strings.HasPrefix(name, in.QueueNamePrefix) {
			urls = append(urls, URL(s.url, name))
		}
	}
	return map[string]any{"QueueUrls": urls}, nil
}

func getQueueAttributes(_ *Server, q *queue, in input) (any, error) {
	all := maps.Clone(q.attrs)
	visible, inFlight, delayed := q.depth()
	all["ApproximateNumberOfMessages"] = strconv.Itoa(visible)
	all["ApproximateNumberOfMessagesNotVisible"] = strconv.Itoa(inFlight)
	all["ApproximateNumberOfMessagesDelayed"] = strconv.Itoa(delayed)
	if !slices.Contains(in.AttributeNames, "All") {
		maps.DeleteFunc(all, func(name, _ string) bool { return !slices.Contains(in.AttributeNames, name) })
	}
	return map[string]any{"Attributes": all}, nil
}

func setQueueAttributes(_ *Server, q *queue, in input) (any, error) {
	maps.Copy(q.attrs, in.Attributes)
	return nil, nil
}

func listSources(s *Server, q *queue, _ input) (any, error) {
	urls := []string{}
	for _, name := range slices.Sorted(maps.Keys(s.byID)) {
		if target, _ := s.byID[name].deadLetter(); target == q.name {
			urls = append(urls, URL(s.url, name))
		}
	}
	return map[string]any{"queueUrls": urls}, nil
}

// deadLetter is the queue's dead-letter queue by name, and after how many
// receives.
func (q *queue) deadLetter() (name string, maxReceives int) {
	var p struct {
		Target string          `json:"deadLetterTargetArn"`
		Max    json.RawMessage `json:"maxReceiveCount"`
	}
	if json.Unmarshal([]byte(q.attrs["RedrivePolicy"]), &p) != nil {
		return "", 0
	}
	n, err := strconv.Atoi(strings.Trim(string(p.Max), `"`))
	if err != nil {
		return "", 0
	}
	return p.Target[strings.LastIndexByte(p.Target, ':')+1:], n
}

func listMoveTasks(*Server, input) (any, error) { return map[string]any{"Results": []any{}}, nil }
