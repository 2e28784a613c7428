package redrive

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Rate is a number of jobs per second, greater than zero; fractions are allowed.
type Rate float64

// ParseRate reads "50/s", "50", "0.5/s" or "30/m".
func ParseRate(s string) (Rate, error) {
	number, unit, found := strings.Cut(strings.TrimSpace(s), "/")
	per := 1.0
	if found {
		switch unit {
		case "s":
		case "m":
			per = 60
		case "h":
			per = 3600
		default:
			return 0, fmt.Errorf("rate %q: unit is not s, m or h", s)
		}
	}
	v, err := strconv.ParseFloat(number, 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) || v/per < 1e-6 || v/per > 1e6 {
		return 0, fmt.Errorf("rate %q: not a number of jobs per second, minute or hour between 0.000001/s and 1000000/s", s)
	}
	return Rate(v / per), nil
}

// String is the decimal form that plans carry.
func (r Rate) String() string { return strconv.FormatFloat(float64(r), 'f', -1, 64) }

// window is the rule that keeps the rate in every one-second window: at most n
// starts in any span of length w. Below one per second a single start fills a
// longer window.
func (r Rate) window() (n int, w time.Duration) {
	if r >= 1 {
		return int(r), time.Second
	}
	return 1, time.Duration(math.Ceil(float64(time.Second) / float64(r)))
}

// Needs is the time that n jobs take at this rate, the empty start included.
func (r Rate) Needs(n int) time.Duration {
	per, w := r.window()
	return time.Duration((n+per-1)/per) * w
}
