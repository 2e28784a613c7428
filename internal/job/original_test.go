package job_test

import (
	"crypto/sha256"
	"encoding/hex"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/job"
)

// wrappers are dead messages that hold an original, and what is sent of it; nil
// with a reason where nothing is.
var wrappers = map[string]struct {
	body   string
	want   *job.Original
	whyNot string
}{
	"a JSON string":          {`{"error":"x y","original":{"messageId":"a","body":"{ \"n\" : 1.0,\"e\":\"\u00e9\" }"}}`, &job.Original{Body: []byte(`{ "n" : 1.0,"e":"é" }`)}, ""},
	"a JSON value":           {`{"error":"x y","original":{ "n" : 1.0, "e":"\u00e9" }}`, &job.Original{Body: []byte(`{ "n" : 1.0, "e":"\u00e9" }`)}, ""},
	"a list":                 {`{"error":"x y","payload":[ 1,2 ]}`, &job.Original{Body: []byte(`[ 1,2 ]`)}, ""},
	"a text":                 {`{"error":"x y","original":"plain \u0000 text"}`, &job.Original{Body: []byte("plain \x00 text")}, ""},
	"a number":               {`{"error":"x y","original":12345678901234567890}`, &job.Original{Body: []byte(`12345678901234567890`)}, ""},
	"base64 by its name":     {`{"error":"x y","original":{"body_base64":"AP8=","attributes":{}}}`, &job.Original{Body: []byte{0, 255}}, ""},
	"base64 by its encoding": {`{"error":"x y","original":{"body":"AP8=","encoding":"base64","attributes":{"a":"1"}}}`, &job.Original{Body: []byte{0, 255}, Attributes: attrs("a", "1")}, ""},
	"base64 as Lambda says":  {`{"error":"x y","original":{"body":"AP8=","isBase64Encoded":true}}`, &job.Original{Body: []byte{0, 255}}, ""},
	"base64 that is not":     {`{"error":"x y","original":{"body":"AP8=","isBase64Encoded":false}}`, &job.Original{Body: []byte("AP8=")}, ""},
	"base64 that is broken":  {`{"error":"x y","original":{"body":"A P8","isBase64Encoded":true}}`, nil, "the original is declared to be base64, and is not"},
	"base64 by chance":       {`{"error":"x y","original":"eyJhIjoxfQ=="}`, &job.Original{Body: []byte("eyJhIjoxfQ==")}, ""},
	"a Pub/Sub message":      {`{"error":"x y","original":{"data":"AP8=","messageId":"1","attributes":{"a":"1"}}}`, &job.Original{Body: []byte{0, 255}, Attributes: attrs("a", "1")}, ""},
	"attributes of any kind": {`{"error":"x y","original":{"body":"b","attributes":{"z":null,"s":"t","n":1.50,"o":{"k":1},"l":[1],"t":true}}}`, &job.Original{Body: []byte("b"), Attributes: attrs("l", "[1]", "n", "1.50", "o", `{"k":1}`, "s", "t", "t", "true")}, ""},
	"typed attributes": {
		`{"error":"x y","original":{"messageId":"1","body":"b","attributes":{"SentTimestamp":"1"},"messageAttributes":{"n":{"dataType":"Number","stringValue":"7"},"b":{"dataType":"Binary","binaryValue":"AP8="}}}}`,
		&job.Original{Body: []byte("b"), Attributes: []broker.Attribute{{Name: "b", Type: "Binary", Value: []byte{0, 255}}, {Name: "n", Type: "Number", Value: []byte("7")}}}, "",
	},
	"what only a broker sets":   {`{"error":"x y","original":{"body":"b","attributes":{"ApproximateReceiveCount":"1","SenderId":"x"}}}`, &job.Original{Body: []byte("b")}, ""},
	"attributes beside it":      {`{"error":"x y","original":"b","originalAttributes":{"a":"1"}}`, &job.Original{Body: []byte("b"), Attributes: attrs("a", "1")}, ""},
	"a destination of Lambda":   {`{"requestContext":{"functionArn":"f","condition":"RetriesExhausted"},"requestPayload":{ "a":1 },"responsePayload":{"errorType":"X"}}`, &job.Original{Body: []byte(`{ "a":1 }`)}, ""},
	"a request that is a text":  {`{"requestContext":{"functionArn":"f","condition":"RetriesExhausted"},"requestPayload":"a \"b\""}`, &job.Original{Body: []byte(`a "b"`)}, ""},
	"a request that is missing": {`{"requestContext":{"functionArn":"f","condition":"RetriesExhausted"},"responsePayload":{"errorType":"X"}}`, nil, "the record does not hold the request"},
	"an original that is gone":  {`{"error":{"name":"X"},"original":null}`, nil, "the envelope does not hold the whole original"},
	"an empty original":         {`{"error":{"name":"X"},"original":{"body":"","attributes":{}}}`, nil, "the envelope does not hold the whole original"},
	"said to be truncated":      {`{"error":{"name":"X"},"original":{"body":"{}","bodyTruncated":true,"attributes":{}}}`, nil, "the envelope does not hold the whole original"},
	"truncated by its end":      {`{"error":{"name":"X"},"original":"{\"a\":\"bcd... [truncated]"}`, nil, "the original was cut short"},
	"broken, but not truncated": {`{"error":{"name":"X"},"original":"{\"a\":"}`, &job.Original{Body: []byte(`{"a":`)}, ""},
	"an ellipsis in a value":    {`{"error":{"name":"X"},"original":"{\"a\":\"…\"}"}`, &job.Original{Body: []byte(`{"a":"…"}`)}, ""},
	"half a character":          {`{"error":{"name":"X"},"original":"a\ud800b"}`, nil, "the original's text has half a character in it, so its bytes are not certain"},
	"a replacement character":   {`{"error":{"name":"X"},"original":"a\uFFFD�b"}`, &job.Original{Body: []byte("a��b")}, ""},
	"two originals":             {`{"error":{"name":"X"},"original":"a","original":"b"}`, nil, "the wrapper gives a key twice, so which original it means is not certain"},
	"a wrapper in a wrapper": {
		`{"error":{"name":"X"},"original":{"error":{"name":"Y"},"original":{"a":1}}}`,
		&job.Original{Body: []byte(`{"error":{"name":"Y"},"original":{"a":1}}`)}, "",
	},
	"a wrapper that stays": {`{"Type":"Notification","TopicArn":"t","Message":"{\"error\":{\"name\":\"X\"},\"original\":{\"a\":1}}"}`, nil, ""},
	"no wrapper":           {`{"a":1}`, nil, ""},
}

func TestOriginal(t *testing.T) {
	t.Parallel()
	for name, c := range wrappers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := broker.Message{Body: []byte(c.body), Attributes: attrs("x", "y")}
			j := job.Decode(m, "q")
			if d := cmp.Diff(c.want, j.Original); d != "" || j.WhyNot != c.whyNot || j.Redrivable != (c.whyNot == "") {
				t.Errorf("redrivable %v, %q\n%s", j.Redrivable, j.WhyNot, d)
			}
			sent := m.Body
			if c.want != nil {
				sent = c.want.Body
			}
			if sum := sha256.Sum256(sent); j.BodySHA256 != hex.EncodeToString(sum[:]) {
				t.Error("the body's hash is not that of what is sent")
			}
			if less := j.WithoutContent(); less.Original != nil && (less.Original.Body != nil || less.Original.Attributes != nil) || (less.Original != nil) != (j.Original != nil) {
				t.Errorf("without content: %+v", less.Original)
			}
			if d := cmp.Diff(c.want, j.Original); d != "" {
				t.Error("dropping the content of a copy changed the job:", d)
			}
		})
	}
}
