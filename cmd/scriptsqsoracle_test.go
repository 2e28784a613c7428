package cmd

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/redrivectl/redrivectl/internal/testservers/sqsfake"
)

func sqsHolds(ts *testscript.TestScript, s *sqsfake.Server, args []string) {
	visible, hidden, _ := s.Depth(args[0])
	if got := fmt.Sprint(visible, " ", hidden); got != args[1]+" "+args[2] {
		ts.Fatalf("%s holds %s, want %s %s", args[0], got, args[1], args[2])
	}
}

func sqsDump(ts *testscript.TestScript, s *sqsfake.Server, args []string) {
	for _, m := range s.Messages(args[0]) {
		b, err := json.Marshal(m)
		ts.Check(err)
		_, err = ts.Stdout().Write(append(b, '\n'))
		ts.Check(err)
	}
}

func sqsContents(ts *testscript.TestScript, s *sqsfake.Server, args []string) {
	var lines strings.Builder
	for _, m := range s.Messages(args[0]) {
		as, err := json.Marshal(m.Attributes)
		ts.Check(err)
		fmt.Fprintf(&lines, "%s %x %d %s %q\n", m.GroupID, sha256.Sum256([]byte(m.Body)), len(m.Body), as, m.TraceHeader)
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(lines.String()), 0o600))
}

func sqsFault(_ *testscript.TestScript, s *sqsfake.Server, args []string) {
	s.OnRequest(func(action string, _ int) sqsfake.Fault {
		if action == args[0] {
			return sqsfake.Fault(args[1])
		}
		return sqsfake.None
	})
}

func sqsDrop(ts *testscript.TestScript, s *sqsfake.Server, args []string) {
	next := s.Requests(args[0]) + sqsNumber(ts, args[1])
	s.OnRequest(func(action string, n int) sqsfake.Fault {
		if action == args[0] && n == next {
			return sqsfake.Drop
		}
		return sqsfake.None
	})
}

func sqsEntries(ts *testscript.TestScript, s *sqsfake.Server, args []string) {
	var which []int
	for _, a := range args[2:] {
		which = append(which, sqsNumber(ts, a))
	}
	s.OnEntry(func(action string, n int) string {
		if action == args[0] && slices.Contains(which, n) {
			return args[1]
		}
		return ""
	})
}

// sqsStorm leaves out the questions about queues, which nobody repeats for a
// user either: a command that cannot find its queue says so.
func sqsStorm(s *sqsfake.Server, n int) {
	kinds := []sqsfake.Fault{sqsfake.Error, sqsfake.Throttled, sqsfake.AfterError, sqsfake.Drop, sqsfake.DropBefore}
	actions := []string{"ReceiveMessage", "SendMessageBatch", "DeleteMessageBatch", "ChangeMessageVisibilityBatch"}
	s.OnRequest(func(action string, k int) sqsfake.Fault {
		if slices.Contains(actions, action) && k%n == n-1 {
			return kinds[k/n%len(kinds)]
		}
		return sqsfake.None
	})
	s.OnEntry(func(_ string, k int) string {
		if every := 4 * n; k%every == every/2 {
			return []string{"InternalFailure", "RequestThrottled"}[k/every%2]
		}
		return ""
	})
}

func sqsRequests(ts *testscript.TestScript, s *sqsfake.Server, args []string) {
	if got := strconv.Itoa(s.Requests(args[0])); got != args[1] {
		ts.Fatalf("%s was asked %s times, want %s", args[0], got, args[1])
	}
}

func sqsAwait(ts *testscript.TestScript, s *sqsfake.Server, args []string) {
	want := sqsNumber(ts, args[1])
	for end := time.Now().Add(scriptPatience); len(s.Messages(args[0])) < want; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			ts.Fatalf("%s holds %d messages after %s, not %d", args[0], len(s.Messages(args[0])), scriptPatience, want)
		}
	}
}

func sqsBodies(s *sqsfake.Server, queues ...string) map[string]int {
	n := map[string]int{}
	for _, q := range queues {
		for _, m := range s.Messages(q) {
			n[m.Body]++
		}
	}
	return n
}

func sqsBoth(ts *testscript.TestScript, s *sqsfake.Server, args []string) {
	b, both := sqsBodies(s, args[1]), 0
	for body := range sqsBodies(s, args[0]) {
		if b[body] > 0 {
			both++
		}
	}
	if strconv.Itoa(both) != args[2] {
		ts.Fatalf("%d bodies are in %s and in %s, want %s", both, args[0], args[1], args[2])
	}
}

func sqsOnce(ts *testscript.TestScript, s *sqsfake.Server, args []string) {
	for body, n := range sqsBodies(s, args...) {
		if n > 1 {
			ts.Fatalf("%q is %d times in %s", body, n, args)
		}
	}
}

// forgiven is how much sooner than after a second the server may take one message
// more than the rate allows: what docs/safety.md says that a call's own time costs none of.
const forgiven = 20 * time.Millisecond

func sqsPaced(ts *testscript.TestScript, s *sqsfake.Server, args []string) {
	ms, most := s.Messages(args[0]), sqsNumber(ts, args[1])
	slices.SortFunc(ms, func(a, b sqsfake.Message) int { return a.SentAt.Compare(b.SentAt) })
	for i := most; i < len(ms); i++ {
		if d := ms[i].SentAt.Sub(ms[i-most].SentAt); d <= time.Second-forgiven {
			ts.Fatalf("%d messages arrived within %s", most+1, d)
		}
	}
}
