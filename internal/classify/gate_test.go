package classify_test

import (
	"testing"
	"time"

	"github.com/redrivectl/redrivectl/internal/classify"
)

func TestGateOfPolicy(t *testing.T) {
	t.Parallel()
	plain := classify.Gate{Observe: 5 * time.Minute, MinSuccess: 0.95, MaxReturned: 0.05, MaxThrottled: 0.1}
	stated := plain
	stated.Stated = true
	for text, want := range map[string]classify.Gate{
		"":           plain,
		"gate: {}\n": stated,
		"gate: {canary: auto, max_returned: 0}\n": {
			Stated: true, Canary: classify.CanaryAuto, Observe: 5 * time.Minute, MinSuccess: 0.95, MaxThrottled: 0.1,
		},
		"gate: {canary: 20, observe: 90s, min_success: 99.5%, max_returned: 1%, max_throttled: 0.5, max_p95: 2m}\n": {
			Stated: true, Canary: 20, Observe: 90 * time.Second, MinSuccess: 0.995, MaxReturned: 0.01, MaxThrottled: 0.5, MaxP95: 2 * time.Minute,
		},
	} {
		p, err := classify.Load("p.yaml", []byte(header+"  - {name: a, class: timeout, when: malformed}\n"+text))
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Gate(); got != want {
			t.Errorf("%q\ngot  %+v\nwant %+v", text, got, want)
		}
	}
}
