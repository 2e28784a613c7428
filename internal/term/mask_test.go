package term

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const exampleJWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl"

func TestMask(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ in, want string }{
		"nothing":                {"503 from mail.example.com: try again in 30s", "503 from mail.example.com: try again in 30s"},
		"URL with password":      {"GET https://bob:s3cr3t@api.example.com/v1?x=1", "GET https://***@api.example.com/v1?x=1"},
		"URL with @ in password": {"amqp://u:p@ss@host/vh", "amqp://***@host/vh"},
		"URL with / in password": {"postgres://u:pa/ss@host/db", "postgres://***@host/db"},
		"URL with token":         {"https://tok123@sentry.example.com/1", "https://***@sentry.example.com/1"},
		"URL with port":          {"http://host:8080/users/a@example.com", "http://host:8080/users/a@example.com"},
		"query parameters": {
			"?key=K1&api_key=K2&token=T&sig=S&signature=G&x=1&X-Amz-Signature=Z&X-Amz-Credential=C",
			"?key=***&api_key=***&token=***&sig=***&signature=***&x=1&X-Amz-Signature=***&X-Amz-Credential=***",
		},
		"form":                 {"grant=x&client_secret=abc&access_token=def&password=ghi", "grant=x&client_secret=***&access_token=***&password=***"},
		"connection string":    {"Endpoint=sb://x/;SharedAccessKeyName=n;SharedAccessKey=abc=", "Endpoint=sb://x/;SharedAccessKeyName=n;SharedAccessKey=***"},
		"keyword DSN":          {"host=h user=u password=hunter2 dbname=d", "host=h user=u password=*** dbname=d"},
		"quoted DSN":           {"password='hunter 2' dbname=d", "password='***' dbname=d"},
		"bearer":               {"Bearer abc.def-123", "Bearer ***"},
		"bearer twice":         {"BeArer Bearer abc.def", "BeArer Bearer ***"},
		"basic after bearer":   {"Bearer Basic dXNlcjpwYXNz", "Bearer Basic ***"},
		"basic twice":          {"Basic Basic dXNlcjpwYXNz", "Basic Basic ***"},
		"bearer in prose":      {"the bearer token is missing", "the bearer token is missing"},
		"basic":                {"Basic dXNlcjpwYXNz", "Basic ***"},
		"basic in prose":       {"basic authentication failed", "basic authentication failed"},
		"header":               {"Authorization: ApiKey abc def\nHost: x", "Authorization: ***\nHost: x"},
		"cookie":               {"Set-Cookie: sid=abc; Path=/\r\nX: y", "Set-Cookie: ***\r\nX: y"},
		"JWT":                  {"got " + exampleJWT + " expired", "got *** expired"},
		"AWS access key":       {"for AKIAIOSFODNN7EXAMPLE denied", "for *** denied"},
		"AWS secret alone":     {"wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", Masked},
		"SHA-1 stays":          {"da39a3ee5e6b4b0d3255bfef95601890afd80709", "da39a3ee5e6b4b0d3255bfef95601890afd80709"},
		"provider's token":     {"ghp_0123456789abcdefghij used", "*** used"},
		"private key":          {"a -----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY----- b", "a *** b"},
		"private key, cut":     {"a -----BEGIN PRIVATE KEY-----\nMIIE", "a ***"},
		"card":                 {"card 4111 1111 1111 1111 declined", "card *** declined"},
		"card with dashes":     {"5500-0000-0000-0004", Masked},
		"card after a number":  {"12 4111111111111111 7", "12 *** 7"},
		"Amex":                 {"378282246310005", Masked},
		"no check digit":       {"4111111111111112", "4111111111111112"},
		"milliseconds":         {"at 1732972339126", "at 1732972339126"},
		"SQS sequence number":  {"18849496460467696128", "18849496460467696128"},
		"digest with digits":   {"a4111111111111111b", "a4111111111111111b"},
		"identifiers are kept": {`job_key=k1 idempotency_key: i2 {"key":"photos/1.jpg"}`, `job_key=k1 idempotency_key: i2 {"key":"photos/1.jpg"}`},
		"token in prose":       {"invalid token: expired", "invalid token: expired"},
		"token as a value":     {"token: a81f", "token: ***"},
		"password in prose":    {"password: hunter", "password: ***"},
		"JSON":                 {`{"password":"a\"b","n":1,"token":12,"x":"y"}`, `{"password":"***","n":1,"token":***,"x":"y"}`},
		"JSON cut short":       {`{"n":1,"password":"hunt`, `{"n":1,"password":"***`},
		"JSON in JSON":         {`{"body":"{\"password\":\"hunter2\",\"a\":1}"}`, `{"body":"{\"password\":\"***\",\"a\":1}"}`},
		"twice in JSON":        {`"{\"b\":\"{\\\"api_key\\\":\\\"k\\\",\\\"c\\\":1}\"}"`, `"{\"b\":\"{\\\"api_key\\\":\\\"***\\\",\\\"c\\\":1}\"}"`},
		"header in JSON":       {`{"Authorization":["Bearer abc"]}`, `{"Authorization":["***"]}`},
		"percent-encoded":      {"next=%2Fx%3Fpassword%3Dhunter2", "next=%2Fx%3Fpassword%3D***"},
		"names in a row":       {"Signature= client_secret: Zq99", "Signature= ***"},
		"Go syntax":            {`map[string]string{"secret": "s", "a": "b"}`, `map[string]string{"secret": "***", "a": "b"}`},
		"name that goes on":    {`password_hash=a&secretValue: b, "api_key_2": "c", passwords=d`, `password_hash=***&secretValue: *** "api_key_2": "***", passwords=***`},
		"names of no secret":   {"max_tokens=100 password_reset=sent tokenizer: bpe", "max_tokens=100 password_reset=sent tokenizer: bpe"},
		"XML":                  {`<a:Password type="x">hunter 2</a:Password><id>7</id><token/>`, `<a:Password type="x">***</a:Password><id>7</id><token/>`},
		"empty XML element":    {"<credentials>\n  <id>7</id>", "<credentials>\n  <id>7</id>"},
		"flag":                 {"run --db-password hunter2 --dry-run", "run --db-password *** --dry-run"},
		"quoted flag":          {"run --token 'a b' -x", "run --token *** -x"},
		"flag without value":   {"run --password --dry-run", "run --password --dry-run"},
		"Ruby syntax":          {`{"api_key"=>"k"}`, `{"api_key"=>"***"}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := Mask(c.in)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("Mask(%q) (-want +got):\n%s", c.in, diff)
			}
			if again := Mask(got); again != got {
				t.Errorf("masked again: %q", again)
			}
		})
	}
}

func TestMaskJSON(t *testing.T) {
	t.Parallel()
	in := `{"id":18849496460467696128,"card":4111111111111111,"secret":{"a":[1,true,null,"x"]},"s":"\u0070assword=a",` +
		`"pass\u0077ord":"p","sig":"q","key":"photos/1.jpg","t":"\u202e<&>","e":{},"l":[],"u":"https://a:b@c"}`
	want := `{"id":18849496460467696128,"card":"***","secret":{"a":["***","***","***","***"]},"s":"password=***",` +
		`"password":"***","sig":"***","key":"photos/1.jpg","t":"\u202e<&>","e":{},"l":[],"u":"https://***@c"}`
	got, err := layOutJSON([]byte(in), "", true)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, bad := range []string{"", "{", `{"a":1} x`, "1 2", `{"a"}`, strings.Repeat("[", maxJSONDepth+2)} {
		if got, err := layOutJSON([]byte(bad), "", true); err == nil {
			t.Errorf("MaskJSON(%.20q) = %q, want an error", bad, got)
		}
	}
}

// carriers are the forms in which a secret travels.
var carriers = []string{
	"https://user:%s@host/path", "https://host/?api_key=%s&a=b", "https://host/?X-Amz-Signature=%s",
	"password=%s", "client_secret: %s", "Authorization: Bearer %s", "Bearer %s",
	`{"password":"%s","a":1}`, `{"body":"{\"access_token\":\"%s\"}"}`, "pwd='%s'",
	"<password>%s</password>", "--password %s",
	"-----BEGIN PRIVATE KEY-----\n%s\n-----END PRIVATE KEY-----",
}

func FuzzMask(f *testing.F) {
	for _, c := range carriers {
		f.Add(fmt.Sprintf(c, "s3cr3tValue"), uint64(7))
	}
	f.Add("4111 1111 1111 1111 key=***", uint64(1))
	f.Fuzz(func(t *testing.T, s string, n uint64) {
		once := Mask(s)
		if again := Mask(once); again != once {
			t.Errorf("Mask(%q) = %q, masked again %q", s, once, again)
		}
		secret := fmt.Sprintf("Zq%dxW", n)
		// An open quotation mark before it would make of a secret's own a
		// closing one, and nobody could tell.
		s = strings.NewReplacer(`"`, "", `'`, "", `\`, "").Replace(s)
		for _, c := range carriers {
			carried := fmt.Sprintf(c, secret)
			if got := Mask(carried); strings.Contains(got, secret) {
				t.Errorf("Mask(%q) = %q", carried, got)
			}
			if got := Text(s + " " + carried); strings.Contains(got, secret) {
				t.Errorf("Text(%q) = %q", s+" "+carried, got)
			}
		}
	})
}

func FuzzMaskJSON(f *testing.F) {
	f.Add(`{"a":[1,{"token":"x"}],"b":"password=y"}`)
	f.Add(`"{\"token\":1}"`)
	f.Fuzz(func(t *testing.T, s string) {
		got, err := layOutJSON([]byte(s), " ", true)
		if err != nil {
			return
		}
		if !json.Valid(got) {
			t.Fatalf("MaskJSON(%q) = %q is not JSON", s, got)
		}
		again, err := layOutJSON(got, " ", true)
		if err != nil || string(again) != string(got) {
			t.Errorf("MaskJSON(%q) = %q, masked again %q, %v", s, got, again, err)
		}
		if i := strings.IndexFunc(strings.ReplaceAll(string(got), "\n", ""), forbidden); i >= 0 {
			t.Errorf("MaskJSON(%q) = %q lets a control character through", s, got)
		}
	})
}

func BenchmarkMaskReason(b *testing.B) {
	const reason = "POST https://mail.example.com/v3/messages: 503 Service Unavailable: upstream timed out after 30s (request 8f14e45f)"
	for b.Loop() {
		Text(reason)
	}
}
