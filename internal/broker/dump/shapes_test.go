package dump_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/redrivectl/redrivectl/internal/broker"
)

func text(kv ...string) []broker.Attribute { return typed("String", kv...) }

func typed(typ string, kv ...string) []broker.Attribute {
	var as []broker.Attribute
	for i := 0; i < len(kv); i += 2 {
		as = append(as, broker.Attribute{Name: kv[i], Type: typ, Value: []byte(kv[i+1])})
	}
	return as
}

func at(s string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		panic(err)
	}
	return t
}

// shapes are messages as tools print them, and what they are.
var shapes = map[string]struct {
	dump string
	want broker.Message
}{
	"Pub/Sub pull": {
		`{"ackId":"a","deliveryAttempt":2,"message":{"messageId":"1","orderingKey":"k","publishTime":"2026-10-01T12:05:00.123Z","data":"AP8=","attributes":{"a":"b",
		 "CloudPubSubDeadLetterSourceSubscription":"s","CloudPubSubDeadLetterSourceDeliveryCount":"5","CloudPubSubDeadLetterSourceTopicPublishTime":"2026-10-01T12:00:00.001+00:00","googclient_deliveryattempt":"2"}}}`,
		broker.Message{
			Copy: broker.CopyID{ID: "1"}, MessageID: "1", Origin: "s", OrderKey: "k", Body: []byte{0, 255}, Attributes: text("a", "b"), Receives: 5, SentAt: at("2026-10-01T12:00:00.001Z"),
			System: text("CloudPubSubDeadLetterSourceDeliveryCount", "5", "CloudPubSubDeadLetterSourceSubscription", "s", "dead_letter_by", "max_receives", "CloudPubSubDeadLetterSourceTopicPublishTime", "2026-10-01T12:00:00.001+00:00", "googclient_deliveryattempt", "2"),
		},
	},
	"Pub/Sub push":          {`{"subscription":"s","message":{"message_id":"1","publish_time":"2026-10-01T12:05:00Z","data":"eA=="}}`, broker.Message{Copy: broker.CopyID{ID: "1"}, MessageID: "1", Body: []byte("x"), SentAt: at("2026-10-01T12:05:00Z")}},
	"Pub/Sub, without data": {`{"messageId":"1","publishTime":"2026-10-01T12:05:00Z","attributes":{"a":"b"}}`, broker.Message{Copy: broker.CopyID{ID: "1"}, MessageID: "1", Attributes: text("a", "b"), SentAt: at("2026-10-01T12:05:00Z")}},
	"Service Bus": {
		`{"messageId":"m","sequenceNumber":18014398509481985,"enqueuedTimeUtc":"2026-10-01T12:00:00.0000001Z","deliveryCount":2,"sessionId":"g","subject":"order.new","contentType":"application/json","deadLetterSource":"src",
		 "deadLetterReason":"Bad","deadLetterErrorDescription":"so bad","applicationProperties":{"n":12345678901234567890,"b":true,"s":"t","z":null,"DeadLetterReason":"Bad"},"body":{ "a" : 1.0 }}`,
		broker.Message{
			Copy: broker.CopyID{ID: "18014398509481985"}, MessageID: "m", Origin: "src", OrderKey: "g", Body: []byte(`{ "a" : 1.0 }`), Receives: 2, SentAt: at("2026-10-01T12:00:00.0000001Z"),
			Attributes: append(append(typed("Boolean", "b", "true"), typed("Number", "n", "12345678901234567890")...), append(text("s", "t"), typed("Null", "z", "")...)...),
			System:     text("content_type", "application/json", "dead_letter_by", "application", "dead_letter_reason_message", "so bad", "dead_letter_reason_type", "Bad", "subject", "order.new"),
		},
	},
	"Service Bus, in Pascal case": {
		`{"MessageId":"m","SequenceNumber":"7","DeadLetterReason":"TTLExpiredException","Body":{"type":"Buffer","data":[0,255]},"Properties":[{"key":"a","type":"String","value":"b"}]}`,
		broker.Message{Copy: broker.CopyID{ID: "7"}, MessageID: "m", Body: []byte{0, 255}, Attributes: text("a", "b"), System: text("dead_letter_by", "broker", "dead_letter_reason_type", "TTLExpiredException")},
	},
	"Service Bus, in a wrapper": {
		`{"broker":"servicebus","queue":"orders/Subscriptions/bill/$DeadLetterQueue","message":{"message_id":"m","sequence_number":7,"body":"x","application_properties":null}}`,
		broker.Message{Copy: broker.CopyID{Entity: "orders/Subscriptions/bill/$DeadLetterQueue", ID: "7"}, MessageID: "m", Origin: "orders/Subscriptions/bill", Body: []byte("x")},
	},
	"RabbitMQ": {
		`{"payload_bytes":2,"redelivered":true,"exchange":"dlx","routing_key":"dead","message_count":0,"payload":"AP8=","payload_encoding":"base64","properties":{"message_id":"m","timestamp":1790000000,"delivery_mode":2,"headers":
		 {"a":"b","n":9007199254740993,"x-delivery-count":4,"x-death":[{"count":1,"reason":"delivery_limit","queue":"jobs","time":1790000060,"exchange":"","routing-keys":["jobs"]}],"x-first-death-reason":"delivery_limit","x-first-death-queue":"jobs"}}}`,
		broker.Message{
			Copy: broker.CopyID{ID: "#0"}, MessageID: "m", Origin: "jobs", Body: []byte{0, 255}, Attributes: append(text("a", "b"), typed("Number", "n", "9007199254740993")...), Receives: 4, SentAt: at("2026-09-21T14:13:20Z"),
			System: []broker.Attribute{
				{Name: "dead_letter_at", Type: "String", Value: []byte("2026-09-21T14:14:20Z")},
				{Name: "dead_letter_by", Type: "String", Value: []byte("max_receives")},
				{Name: "dead_letter_reason_type", Type: "String", Value: []byte("delivery_limit")},
				{Name: "delivery_mode", Type: "Number", Value: []byte("2")},
				{Name: "message_id", Type: "String", Value: []byte("m")},
				{Name: "timestamp", Type: "Number", Value: []byte("1790000000")},
				{Name: "x-death", Type: "JSON", Value: []byte(`[{"count":1,"reason":"delivery_limit","queue":"jobs","time":1790000060,"exchange":"","routing-keys":["jobs"]}]`)},
				{Name: "x-delivery-count", Type: "Number", Value: []byte("4")},
				{Name: "x-first-death-queue", Type: "String", Value: []byte("jobs")},
				{Name: "x-first-death-reason", Type: "String", Value: []byte("delivery_limit")},
			},
		},
	},
	"RabbitMQ, a reason without a death": {
		`{"exchange":"","routing_key":"q","payload":"x","properties":{"headers":{"x-first-death-reason":"rejected"}}}`,
		broker.Message{Copy: broker.CopyID{ID: "#0"}, MessageID: "#0", Body: []byte("x"), System: text("x-first-death-reason", "rejected")},
	},
	"RabbitMQ, no properties": {`{"exchange":"","routing_key":"q","payload":"","properties":[]}`, broker.Message{Copy: broker.CopyID{ID: "#0"}, MessageID: "#0"}},
	"Kafka": {
		`{"topic":"t","partition":2,"offset":9007199254740993,"timestamp":1790000000000,"key_base64":"AP8=","headers":[{"key":"h","value_base64":"AAAAAg=="},{"key":"h","value":"t"},{"key":"n","value_base64":null}],"value_base64":"AAAAACo="}`,
		broker.Message{
			Copy: broker.CopyID{Entity: "t", ID: "2/9007199254740993"}, MessageID: "t/2/9007199254740993", OrderKey: "\x00\xff", Body: []byte{0, 0, 0, 0, 42}, SentAt: at("2026-09-21T14:13:20Z"),
			Attributes: typed("Binary", "h", "\x00\x00\x00\x02", "h", "t", "n", ""),
		},
	},
	"kcat": {
		"{\"topic\":\"t\",\"partition\":0,\"offset\":1,\"tstype\":\"create\",\"ts\":1790000000000,\"broker\":0,\"headers\":[\"a\",\"b\",\"c\",null],\"key\":\"k\",\"payload\":\"\\u0000\xff\\ud83d\\ude00\"}",
		broker.Message{Copy: broker.CopyID{Entity: "t", ID: "0/1"}, MessageID: "t/0/1", OrderKey: "k", Body: []byte("\x00\xff😀"), SentAt: at("2026-09-21T14:13:20Z"), Attributes: typed("Binary", "a", "b", "c", "")},
	},
	"kcat, headers as a map": {`{"topic":"t","partition":0,"offset":1,"headers":{"a":["b","c"]},"key":null,"payload":null}`, broker.Message{Copy: broker.CopyID{Entity: "t", ID: "0/1"}, MessageID: "t/0/1", Attributes: typed("Binary", "a", "b", "a", "c")}},
	"Laravel": {
		`{"row":{"id":12,"uuid":"u","connection":"sqs","queue":"default","payload":"{\"job\":\"j\"}","exception":"A\\B: c: d in /x.php:1\nStack trace:\n#0 {main}","failed_at":"2026-10-01 12:10:00"}}`,
		broker.Message{Copy: broker.CopyID{ID: "12"}, MessageID: "u", Origin: "default", Body: []byte(`{"job":"j"}`), System: text("connection", "sqs", "dead_letter_reason_type", `A\B`, "dead_letter_reason_message", "c: d in /x.php:1\nStack trace:\n#0 {main}", "dead_letter_at", "2026-10-01T12:10:00Z", "dead_letter_by", "application")},
	},
	"a row by itself":        {`{"id":1,"queue_name":"failed","body":"b","headers":"[]","created_at":"2026-10-01 12:00:00","delivered_at":null}`, broker.Message{Copy: broker.CopyID{ID: "1"}, MessageID: "1", Body: []byte("b"), SentAt: at("2026-10-01T12:00:00Z")}},
	"Symfony":                {`{"row":{"id":1,"queue_name":"failed","body":"b","headers":"{\"type\":\"A\\\\B\"}"}}`, broker.Message{Copy: broker.CopyID{ID: "1"}, MessageID: "1", Body: []byte("b"), Attributes: text("type", `A\B`)}},
	"Sidekiq":                {`{"zset_member":"{\"class\":\"M\",\"args\":[],\"jid\":\"j\",\"queue\":\"q\",\"retry_count\":2, \"x\":1.0}","score":1790000002.5}`, broker.Message{Copy: broker.CopyID{ID: "j"}, MessageID: "j", Origin: "q", Receives: 3, Body: []byte(`{"class":"M","args":[],"jid":"j","queue":"q","retry_count":2, "x":1.0}`), System: text("dead_letter_at", "2026-09-21T14:13:22.5Z", "dead_letter_by", "application")}},
	"Sidekiq's job itself":   {`{"class":"M","args":[ 1.0 ],"jid":"j"}`, broker.Message{Copy: broker.CopyID{ID: "j"}, MessageID: "j", Body: []byte(`{"class":"M","args":[ 1.0 ],"jid":"j"}`), System: text("dead_letter_by", "application")}},
	"a member that is none":  {`{"zset_member":"\u0004\bo:","score":1}`, broker.Message{Copy: broker.CopyID{ID: "#0"}, MessageID: "#0", Body: []byte("\x04\bo:"), System: text("dead_letter_by", "application")}},
	"BullMQ":                 {`{"key":"bull:mail:118","hash":{"name":"welcome","data":"{\"u\":4}","attemptsMade":"3","failedReason":"r","finishedOn":"1790000009000"}}`, broker.Message{Copy: broker.CopyID{ID: "118"}, MessageID: "118", Origin: "mail", Receives: 3, Body: []byte(`{"u":4}`), System: text("attemptsMade", "3", "failedReason", "r", "finishedOn", "1790000009000", "name", "welcome", "dead_letter_reason_message", "r", "dead_letter_at", "2026-09-21T14:13:29Z", "dead_letter_by", "application")}},
	"a message of a stream":  {`{"subject":"orders.new","seq":1017,"time":"2026-10-01T12:00:00Z","data":"AP8="}`, broker.Message{Copy: broker.CopyID{ID: "1017"}, MessageID: "1017", Body: []byte{0, 255}, SentAt: at("2026-10-01T12:00:00Z"), System: text("subject", "orders.new")}},
	"an advisory":            {`{"type":"io.nats.jetstream.advisory.v1.max_deliver","id":"a","stream":"S"}`, broker.Message{Copy: broker.CopyID{ID: "#0"}, MessageID: "a", Body: []byte(`{"type":"io.nats.jetstream.advisory.v1.max_deliver","id":"a","stream":"S"}`)}},
	"SQS, what is no UTF-8":  {"{\"MessageId\":\"m\",\"Body\":\"\xff\\n\\u00e9\"}", broker.Message{Copy: broker.CopyID{ID: "m"}, MessageID: "m", Body: []byte("\xff\né")}},
	"SQS, attributes absent": {`{"MessageId":"m","Body":"","Attributes":null,"MessageAttributes":null}`, broker.Message{Copy: broker.CopyID{ID: "m"}, MessageID: "m", Body: []byte{}}},
}

func TestShapes(t *testing.T) {
	t.Parallel()
	for name, c := range shapes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for form, dump := range map[string]string{"alone": c.dump, "in a list": "[" + c.dump + "]", "received": `{"receivedMessages": [` + c.dump + `]}`, "last": `{"n":{},"messages":[` + c.dump + `]}`} {
				got, err := read(t, dump)
				if err != nil {
					t.Fatal(form, err)
				}
				if d := cmp.Diff([]broker.Message{c.want}, got, cmpopts.EquateEmpty()); d != "" {
					t.Errorf("%s\n%s", form, d)
				}
			}
		})
	}
}

// TestUnreadable are entries whose form is known and that are broken.
func TestUnreadable(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, want string }{
		"a body that is no text":    {`{"MessageId":"m","Body":7}`, "its body is no string"},
		"half a character":          {`{"MessageId":"m","Body":"\ud800"}`, "half a character"},
		"half a character, swapped": {`{"MessageId":"m","Body":"\udc00\ud800"}`, "half a character"},
		"Pub/Sub data":              {`{"ackId":"a","message":{"messageId":"1","data":"%"}}`, `field "data": illegal base64`},
		"RabbitMQ payload":          {`{"exchange":"","payload":"%","payload_encoding":"base64"}`, "illegal base64"},
		"RabbitMQ deaths":           {`{"exchange":"","payload":"","properties":{"headers":{"x-death":7}}}`, "header x-death"},
		"Kafka headers":             {`{"topic":"t","partition":0,"offset":1,"headers":["a"]}`, "a name without a value"},
		"Kafka, by a schema":        {`{"topic":"t","partition":0,"offset":1,"payload":{"a":1},"payload_schema_id":4}`, "its own bytes are not in the dump"},
		"Symfony headers":           {`{"id":1,"queue_name":"f","body":"b","headers":"[1]"}`, "no JSON object"},
		"a row of something else":   {`{"row":{"a":1}}`, "not the form"},
		"a buffer":                  {`{"sequenceNumber":1,"body":{"type":"Buffer","data":[256]}}`, "256 is no byte"},
		"a count":                   {`{"sequenceNumber":1,"deliveryCount":-1,"body":""}`, "is no count"},
		"a key twice":               {`{"exchange":"","payload":"","properties":{"headers":{"a":1,"a":2}}}`, `key "a" is given twice`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := read(t, c.text); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}
