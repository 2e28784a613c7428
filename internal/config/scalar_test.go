package config

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestParseDuration(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"30d": 30 * day, "90d": 90 * day, "1d12h": 36 * time.Hour, "0s": 0, "0d": 0,
		"1h30m": 90 * time.Minute, "1.5h": 90 * time.Minute, "250ms": 250 * time.Millisecond,
	} {
		if got, err := ParseDuration(text); err != nil || got != want {
			t.Errorf("%s: got %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "d", "5", "1y", "1.5d", "-1d", "-1s", "1d-2h", "1h1d", "1d 1h", "106752d", "99999999999d", "106751d24h", "soon"} {
		if got, err := ParseDuration(text); err == nil {
			t.Errorf("%q was read as %v", text, got)
		}
	}
}

func TestFormatDuration(t *testing.T) {
	t.Parallel()
	for want, d := range map[string]time.Duration{"30d": 30 * day, "5m": 5 * time.Minute, "72h30m": 72*time.Hour + 30*time.Minute, "0s": 0, "10s": 10 * time.Second} {
		if got := FormatDuration(d); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64Min(0).Draw(t, "d"))
		if got, err := ParseDuration(FormatDuration(d)); err != nil || got != d {
			t.Fatalf("%v reads back as %v, %v", d, got, err)
		}
	})
}

func TestRate(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]struct {
		perSecond float64
		interval  time.Duration
	}{
		"5/s": {5, 200 * time.Millisecond}, "30/m": {0.5, 2 * time.Second}, "3600/h": {1, time.Second},
	} {
		r, err := ParseRate(text)
		if err != nil || r.PerSecond() != want.perSecond || r.Interval() != want.interval || r.String() != text {
			t.Errorf("%s: got %s, %v a second, every %v, %v", text, r, r.PerSecond(), r.Interval(), err)
		}
	}
	for _, text := range []string{"", "5", "5/", "/s", "0/s", "-1/s", "1.5/s", "5/d", "5 / s"} {
		if r, err := ParseRate(text); err == nil {
			t.Errorf("%q was read as %s", text, r)
		}
	}
	if zero := (Rate{}); zero.PerSecond() != 0 || zero.Interval() != 0 || zero.String() != "" {
		t.Error("the zero rate is not zero")
	}
}
