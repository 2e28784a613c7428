package config

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

const day = 24 * time.Hour

// ParseDuration reads a Go duration that may begin with whole days: "30d",
// "1d12h", "90s". A day is 24 hours. Negative durations are refused.
func ParseDuration(text string) (time.Duration, error) {
	bad := fmt.Errorf("%q is not a duration such as 30s, 72h or 30d", text)
	days, rest, ok := strings.Cut(text, "d")
	if !ok {
		days, rest = "0", text
	}
	n, err := strconv.ParseUint(days, 10, 31)
	if err != nil || n > uint64((1<<63-1)/day) {
		return 0, bad
	}
	var d time.Duration
	if rest != "" || !ok {
		if d, err = time.ParseDuration(rest); err != nil {
			return 0, bad
		}
	}
	total := time.Duration(n)*day + d
	if d < 0 || total < 0 {
		return 0, fmt.Errorf("%q is negative or too long", text)
	}
	return total, nil
}

// FormatDuration is the shortest text that ParseDuration reads back: whole days
// as "30d", else without zero parts ("5m", "1h30m").
func FormatDuration(d time.Duration) string {
	if d >= day && d%day == 0 {
		return strconv.FormatInt(int64(d/day), 10) + "d"
	}
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// Rate is a number of requests in a span of time, written "5/s" or "30/m".
type Rate struct {
	Count int
	Per   time.Duration // a second, a minute or an hour
}

type rateUnit struct {
	name string
	per  time.Duration
}

func rateUnits() [3]rateUnit {
	return [3]rateUnit{{"s", time.Second}, {"m", time.Minute}, {"h", time.Hour}}
}

// ParseRate reads N/s, N/m or N/h with N a whole number above zero.
func ParseRate(text string) (Rate, error) {
	count, unit, _ := strings.Cut(text, "/")
	n, err := strconv.ParseUint(count, 10, 31)
	for _, u := range rateUnits() {
		if err == nil && n > 0 && unit == u.name {
			return Rate{Count: int(n), Per: u.per}, nil
		}
	}
	return Rate{}, fmt.Errorf("%q is not a rate such as 5/s, 30/m or 100/h", text)
}

// PerSecond is the rate in requests a second; 0 for the zero Rate.
func (r Rate) PerSecond() float64 {
	if r.Per == 0 {
		return 0
	}
	return float64(r.Count) / r.Per.Seconds()
}

// Interval is the time between two requests at an even pace; 0 for the zero
// Rate.
func (r Rate) Interval() time.Duration {
	if r.Count == 0 {
		return 0
	}
	return r.Per / time.Duration(r.Count)
}

// String is the rate as it is written.
func (r Rate) String() string {
	for _, u := range rateUnits() {
		if r.Per == u.per {
			return strconv.Itoa(r.Count) + "/" + u.name
		}
	}
	return ""
}
