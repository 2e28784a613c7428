package sqs

import (
	"testing"
)

func TestParseAddress(t *testing.T) {
	for in, want := range map[string]address{
		"jobs-dlq": {name: "jobs-dlq"},
		"a.fifo":   {name: "a.fifo"},
		"arn:aws:sqs:eu-west-1:111122223333:jobs":                  {name: "jobs", owner: "111122223333", region: "eu-west-1"},
		"arn:aws-cn:sqs:cn-north-1:111122223333:jobs":              {name: "jobs", owner: "111122223333", region: "cn-north-1"},
		"https://sqs.eu-west-1.amazonaws.com/111122223333/jobs":    {name: "jobs", region: "eu-west-1", url: "https://sqs.eu-west-1.amazonaws.com/111122223333/jobs"},
		"https://eu-west-1.queue.amazonaws.com/111122223333/jobs":  {name: "jobs", region: "eu-west-1", url: "https://eu-west-1.queue.amazonaws.com/111122223333/jobs"},
		"https://sqs.cn-north-1.amazonaws.com.cn/111122223333/job": {name: "job", region: "cn-north-1", url: "https://sqs.cn-north-1.amazonaws.com.cn/111122223333/job"},
		"http://127.0.0.1:9324/000000000000/jobs":                  {name: "jobs", url: "http://127.0.0.1:9324/000000000000/jobs"},
	} {
		if got, err := parseAddress(in); err != nil || got != want {
			t.Errorf("%s is %+v, %v", in, got, err)
		}
	}
	for _, in := range []string{"", "arn:aws:sns:eu-west-1:111122223333:jobs", "a/b", "https://", "https://host", "sqs:jobs", "a b", "a.txt", "https://host/a/.", "arn:aws:sqs:eu-west-1:111122223333:a/b"} {
		if got, err := parseAddress(in); err == nil {
			t.Errorf("%q is %+v", in, got)
		}
	}
}

// Whatever is typed is a queue's name or an error, and an address says the same
// when it is read again.
func FuzzParseAddress(f *testing.F) {
	for _, s := range []string{"jobs", "a.fifo", "arn:aws:sqs:eu-west-1:111122223333:jobs", "https://sqs.eu-west-1.amazonaws.com/111122223333/jobs", "http://[::1]:1/0/a", "arn:aws:sqs:::", "://"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := parseAddress(s)
		if err != nil {
			return
		}
		if !queueName.MatchString(got.name) {
			t.Errorf("%q is %+v", s, got)
		}
		if again, err := parseAddress(s); err != nil || again != got {
			t.Errorf("%q is %+v and then %+v, %v", s, got, again, err)
		}
	})
}
