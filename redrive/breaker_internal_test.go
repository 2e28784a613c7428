package redrive

import (
	"strings"
	"testing"
)

// TestTrips: a threshold is broken only where the rest of the window cannot mend it.
func TestTrips(t *testing.T) {
	t.Parallel()
	limits := Thresholds{MinSuccess: 0.95, MaxReturned: 0.1, MaxThrottled: 0.2, MaxP95Seconds: 5}
	for name, tt := range map[string]struct {
		f    Figures
		kind string
		want string
	}{
		"nothing known":            {Figures{}, GateLedger, ""},
		"five of five, and 95 go":  {Figures{Redrives: 5, Failed: 5}, GateLedger, ""},
		"the sixth":                {Figures{Redrives: 6, Failed: 6}, GateLedger, "6 of the last 6 did not reach sent, and at most 5% of 100 may"},
		"no outcome is not sent":   {Figures{Redrives: 20, Sent: 14, Late: 6}, GateLedger, "6 of the last 20 did not reach sent"},
		"ten of a hundred back":    {Figures{Redrives: 100, Sent: 100, Returned: 10}, GateLedger, ""},
		"eleven back":              {Figures{Redrives: 100, Sent: 100, Returned: 11}, GateLedger, "11 of the last 100 came back"},
		"without a ledger":         {Figures{Redrives: 30, Returned: 11}, GateDLQOnly, "11 of the last 30 came back"},
		"nothing else without one": {Figures{Redrives: 30, Failed: 30, Throttled: 30, Slow: 30}, GateDLQOnly, ""},
		"throttled":                {Figures{Redrives: 30, Sent: 30, Throttled: 21}, GateLedger, "21 of the last 30 were throttled at the lowest rate"},
		"five slow":                {Figures{Redrives: 100, Sent: 100, Slow: 5}, GateLedger, ""},
		"six slow":                 {Figures{Redrives: 100, Sent: 100, Slow: 6}, GateLedger, "6 of the last 100 took longer than 5s"},
	} {
		got := strings.Join(tt.f.trips(limits, tt.kind, 100), "; ")
		if (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
			t.Errorf("%s: %q", name, got)
		}
	}
}
