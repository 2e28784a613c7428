//go:build crashpoints

package cmd

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/ledger"
)

// crashWrapped is a job of which the dead-letter queue holds an integration's
// record.
var crashWrapped = crashJob{key: "wrapped", state: ledger.Failed, reason: crashThrottled}

func wrappedWorld(w *crashWorld) {
	w.add(crashWrapped)
	w.add(crashControl)
	body := fmt.Sprintf(`{"error":{"name":"Throttled","code":"429"},"original":{"body":%q,"messageAttributes":`+
		`{"n":{"DataType":"Number.int","StringValue":"7"}}}}`, crashWrapped.message().Body)
	rs := w.queues.Queue("digests").Publish(w.t.Context(), "digests-dlq", []broker.Outgoing{{Message: broker.Message{
		Body: []byte(body), Attributes: []broker.Attribute{{Name: "wrapper", Type: "String", Value: []byte("x")}},
	}}})
	crashMust(w.t, rs[0].Err)
}

// TestCrashUnwrap kills a run of a wrapped job at each of its boundaries: what
// lies in the source is the original alone, and it has its effect once.
func TestCrashUnwrap(t *testing.T) {
	bin := crashBinary(t)
	dir := crashTemplate(t, bin, wrappedWorld)
	t.Parallel()
	for _, at := range points(t, "run.") {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			w := copyCrashWorld(t, bin, dir)
			p := w.approved("digests")
			w.killed(at, "run", p.Plan, "--yes")
			w.pass(10 * time.Minute)
			w.ask(nil, crashResumeCode[at], "resume", w.onlyRun().Run, "--yes")
			copies := 0
			_, err := w.queues.Queue("digests").Browse(t.Context(), 0, func(m broker.Message) error {
				copies++
				got := broker.Message{Body: m.Body, Attributes: m.Attributes, System: m.System}
				if d := cmp.Diff(crashWrapped.message(), got); d != "" {
					t.Error(d)
				}
				return nil
			})
			crashMust(t, err)
			if want := 1 + strings.Count(at, "run.5.published"); copies != want {
				t.Errorf("%d copies in the source, want %d", copies, want)
			}
			w.drain()
			w.sentOnce("wrapped")
			w.verified(0)
		})
	}
}
